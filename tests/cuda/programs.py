"""Programs as people write them, on the host and on "cuda" (the stand-in): the same numbers, on the right device.

In: names of programs (none: all). Out: a line per program, "ok" or why not; the exit status tells whether all passed.
"""

import copy
import io
import sys
import traceback

import fake_cupy

fake_cupy.install()

import numpy as np  # noqa: E402

import flambeau as torch  # noqa: E402
from flambeau import nn  # noqa: E402
from flambeau.nn import functional as F  # noqa: E402

GPU = torch.device("cuda", 0)
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def close(a, b, rtol=1e-4):
    assert a.device == GPU, a.device
    np.testing.assert_allclose(a.detach().float().cpu().numpy(), b.detach().float().numpy(), rtol=rtol, atol=rtol)


def raises(kind, text, function):
    try:
        function()
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}")


def trained(make, batches, steps, optimizer, loss=F.cross_entropy):
    """The losses and the parameters of a model that is trained on both devices."""
    results = []
    for place in ("cpu", "cuda"):
        torch.manual_seed(3)
        net = make()
        net.to(place)
        step, losses = optimizer(net.parameters()), []
        for k in range(steps):
            x, y = (t.to(place) for t in batches[k % len(batches)])
            step.zero_grad()
            value = loss(net(x), y)
            value.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            step.step()
            losses.append(value)
        results.append((losses, net))
    (host, one), (gpu, two) = results
    for a, b in zip(gpu, host):
        close(a, b)
    for (name, a), (_, b) in zip(two.state_dict().items(), one.state_dict().items()):
        assert a.device == GPU, name
        np.testing.assert_allclose(a.cpu().numpy(), b.numpy(), rtol=1e-3, atol=1e-4, err_msg=name)
    return two


def images(*shape, classes=5):
    g = torch.Generator().manual_seed(1)
    return [(torch.randn(*shape, generator=g), torch.randint(0, classes, shape[:1], generator=g)) for _ in range(2)]


@program
def mlp_with_adam():
    make = lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5))  # noqa: E731
    trained(make, images(6, 8), 3, lambda p: torch.optim.AdamW(p, lr=1e-2))
    trained(make, images(6, 8), 2, lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True))
    trained(make, images(6, 8), 2, lambda p: torch.optim.RMSprop(p, lr=1e-2))


@program
def convolutions_with_sgd():
    make = lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, stride=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),  # noqa: E731
        nn.Conv2d(8, 8, 3, groups=4, padding="same"),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )
    net = trained(make, images(4, 3, 9, 9), 2, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True))
    net.eval()
    x = images(2, 3, 9, 9)[0][0]
    close(net(x.cuda()), copy.deepcopy(net).cpu()(x))


@program
def transposed_and_other_layers():
    for layer, shape in (
        (nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), (2, 3, 4, 4)),
        (nn.Conv1d(3, 4, 2), (2, 3, 7)),
        (nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
        (nn.GroupNorm(2, 4), (2, 4, 3)),
        (nn.InstanceNorm2d(3), (2, 3, 4, 4)),
        (nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 3)),
        (nn.AvgPool2d(2), (1, 2, 4, 4)),
        (nn.PixelShuffle(2), (1, 4, 2, 2)),
        (nn.ReflectionPad2d(1), (1, 2, 3, 3)),
        (nn.LocalResponseNorm(2), (1, 4, 3, 3)),
        (nn.Unfold(2), (1, 2, 3, 3)),
        (nn.PReLU(), (2, 3)),
        (nn.AdaptiveMaxPool1d(2), (1, 2, 5)),
        (nn.Softplus(), (3,)),
        (nn.RMSNorm(4), (2, 4)),
    ):
        x = torch.randn(*shape)
        a, b = x.clone().requires_grad_(), x.cuda().requires_grad_()
        one, two = layer(a), copy.deepcopy(layer).cuda()(b)
        close(two, one)
        one.sin().sum().backward(), two.sin().sum().backward()
        close(b.grad, a.grad)


@program
def recurrent_layers():
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        layer = kind(3, 4, num_layers=2, bidirectional=True, batch_first=True)
        x, lengths = torch.randn(3, 5, 3), torch.tensor([5, 2, 4])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        there = nn.utils.rnn.pack_padded_sequence(x.cuda(), lengths, batch_first=True, enforce_sorted=False)
        gpu = copy.deepcopy(layer).cuda()
        close(gpu(x.cuda())[0], layer(x)[0])
        close(nn.utils.rnn.pad_packed_sequence(gpu(there)[0])[0], nn.utils.rnn.pad_packed_sequence(layer(packed)[0])[0])


@program
def transformer_and_attention():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    x, mask = torch.randn(2, 5, 8), torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool()
    gpu = copy.deepcopy(layer).cuda()
    close(gpu(x.cuda(), src_key_padding_mask=mask.cuda()), layer(x, src_key_padding_mask=mask))
    q = torch.randn(2, 3, 6, 4)
    close(
        F.scaled_dot_product_attention(q.cuda(), q.cuda(), q.cuda(), is_causal=True),
        F.scaled_dot_product_attention(q, q, q, is_causal=True),
    )
    decoder = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    close(copy.deepcopy(decoder).cuda()(x.cuda(), x.cuda()), decoder(x, x))


@program
def embeddings_and_losses():
    table, bag = nn.Embedding(10, 4, padding_idx=0), nn.EmbeddingBag(10, 4, mode="mean")
    at = torch.tensor([[1, 0, 3], [9, 9, 2]])
    for layer in (table, bag):
        gpu = copy.deepcopy(layer).cuda()
        one, two = layer(at), gpu(at.cuda())
        close(two, one)
        one.sum().backward(), two.sum().backward()
        close(gpu.weight.grad, layer.weight.grad)
    x, y = torch.randn(4, 5), torch.tensor([1, 0, 4, 2])
    p = torch.rand(4, 5)
    weight = torch.rand(5)
    close(
        F.cross_entropy(x.cuda(), y.cuda(), weight.cuda(), label_smoothing=0.1),
        F.cross_entropy(x, y, weight, label_smoothing=0.1),
    )
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits):
        close(loss(x.cuda(), p.cuda()), loss(x, p))
    close(
        F.kl_div(x.log_softmax(1).cuda(), p.softmax(1).cuda(), reduction="batchmean"),
        F.kl_div(x.log_softmax(1), p.softmax(1), reduction="batchmean"),
    )
    close(F.binary_cross_entropy(p.cuda(), p.cuda()), F.binary_cross_entropy(p, p))
    close(
        F.ctc_loss(torch.randn(6, 2, 4).log_softmax(2).cuda() * 0 - 1.4, at[:, :2].cuda() % 3 + 1, (6, 6), (2, 2)),
        F.ctc_loss(torch.zeros(6, 2, 4) - 1.4, at[:, :2] % 3 + 1, (6, 6), (2, 2)),
    )


@program
def same_random_numbers():
    for make in (
        lambda d: torch.rand(5, device=d),
        lambda d: torch.randn(2, 3, device=d),
        lambda d: torch.randint(0, 9, (4,), device=d),
        lambda d: torch.empty(4, device=d).uniform_(-1, 1),
        lambda d: torch.bernoulli(torch.full((8,), 0.5, device=d)),
        lambda d: F.dropout(torch.ones(9, device=d), 0.3),
        lambda d: torch.randperm(6, device=d),
        lambda d: torch.multinomial(torch.ones(2, 5, device=d), 3),
        lambda d: torch.rand(4, device=d, dtype=torch.float64),
        lambda d: torch.normal(0.0, 1.0, (3,), device=d),
        lambda d: torch.empty(3, device=d).exponential_(),
        lambda d: torch.poisson(torch.ones(3, device=d)),
        lambda d: torch.randn(3, device=d, dtype=torch.bfloat16),
    ):
        torch.manual_seed(5)
        host = make("cpu")
        torch.manual_seed(5)
        close(make("cuda"), host, 2e-6 if host.dtype is not torch.bfloat16 else 1e-2)
    torch.cuda.manual_seed_all(7)
    state = torch.cuda.get_rng_state()
    first = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(state)
    close(torch.rand(3, device="cuda"), first.cpu())


@program
def factories_and_conversions():
    for t in (
        torch.zeros(2, device="cuda"),
        torch.ones(2, 3, device=GPU),
        torch.full((2,), 7, device="cuda:0"),
        torch.arange(5, device="cuda"),
        torch.eye(3, device="cuda"),
        torch.tensor([1.5, 2], device="cuda"),
        torch.linspace(0, 1, 5, device="cuda"),
        torch.empty(3, device="cuda"),
        torch.zeros_like(torch.ones(2).cuda()),
        torch.ones(2).cuda().new_zeros(3),
        torch.as_tensor(np.ones(3), device="cuda"),
        torch.hann_window(4, device="cuda"),
        torch.tril_indices(3, 3, device="cuda"),
        torch.fft.fftfreq(4, device="cuda"),
        torch.empty_strided((2, 2), (1, 2), device="cuda"),
        torch.ones(2, device=0),
    ):
        assert t.device == GPU and t.is_cuda and t.get_device() == 0, t
    with torch.device("cuda"):
        assert torch.ones(2).device == GPU and nn.Linear(2, 2).weight.device == GPU
    x = torch.randn(3, 4).cuda()
    assert (
        x.to("cuda") is x
        and x.cuda() is x
        and x.to(torch.float64).device == GPU
        and x.to("cpu", torch.float64).dtype is torch.float64
    )
    for kind in (
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.int32,
        torch.int64,
        torch.bool,
        torch.uint8,
        torch.complex64,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    ):
        y = x.to(kind)
        assert y.dtype is kind and y.cpu().dtype is kind
        assert torch.equal(y.cpu().view(torch.uint8), x.cpu().to(kind).view(torch.uint8)), kind
        assert (
            torch.equal(y.view(torch.uint8).cpu(), y.cpu().view(torch.uint8)) and y.view(torch.uint8).data_ptr() == y.data_ptr()
        )
    assert float(x[0, 0]) == x.cpu()[0, 0].item() and x.sum().item() == float(x.sum()) and bool((x == x).all())
    assert x.tolist() == x.cpu().tolist() and "device='cuda:0'" in repr(x) and f"{x[0, 0]:.3f}" == f"{x.cpu()[0, 0]:.3f}"
    raises(TypeError, "can't convert cuda:0 device type tensor to numpy", lambda: x.numpy())
    raises(TypeError, "can't convert cuda:0 device type tensor to numpy", lambda: np.asarray(x))
    assert torch.ones(2, 2, dtype=torch.bfloat16, device="cuda").sum().item() == 4.0
    close((x.bfloat16() @ x.bfloat16().t()), (x.cpu().bfloat16() @ x.cpu().bfloat16().t()), 2e-2)


@program
def indexing_and_writing():
    x = torch.randn(4, 5)
    y = x.cuda()
    mask, at = x > 0, torch.tensor([2, 0, 2])
    close(y[mask.cuda()], x[mask])
    close(y[at], x[at])
    close(y[at.cuda(), 1:3], x[at, 1:3])
    close(torch.where(y > 0, y, 0.0), torch.where(x > 0, x, 0.0))
    close(y.masked_select(y > 0), x.masked_select(x > 0))
    close(y.nonzero(), x.nonzero()), close((y > 0).nonzero(as_tuple=True)[1], (x > 0).nonzero(as_tuple=True)[1])
    for write in (
        lambda t, m, i: t.__setitem__(m, 0.0),
        lambda t, m, i: t.__setitem__((i, 1), 3.0),
        lambda t, m, i: t[1:, ::2].mul_(2),
        lambda t, m, i: t.t()[0].fill_(1),
        lambda t, m, i: t.index_add_(0, i, torch.ones(3, 5, device=t.device)),
        lambda t, m, i: t.scatter_(0, i[None], 9.0),
        lambda t, m, i: t.__setitem__(0, torch.arange(5.0)),
        lambda t, m, i: t.add_(1).clamp_(max=2),
        lambda t, m, i: t.copy_(torch.arange(20.0).reshape(4, 5)),
        lambda t, m, i: t.masked_fill_(m, -1.0),
        lambda t, m, i: t.zero_(),
        lambda t, m, i: t.index_put_((i, i), t[0, 0].clone(), accumulate=True),
    ):
        a, b = x.clone(), y.clone()
        write(a, mask, at), write(b, mask.cuda(), at.cuda())
        close(b, a)
    h = torch.zeros(4, 5)
    h.copy_(y)
    assert torch.equal(h, x)
    close(y.sort(1, descending=True).values, x.sort(1, descending=True).values), close(y.topk(2).indices, x.topk(2).indices)
    (
        close(y.cumsum(0), x.cumsum(0)),
        close(y.cummax(1).values, x.cummax(1).values),
        close(torch.cat([y, y], 1), torch.cat([x, x], 1)),
    )
    view = y[1:3]
    view += 1
    close(y[1], x[1] + 1)
    assert y.data_ptr() + 5 * 4 == view.data_ptr() and view._base is y and y.storage().device == GPU
    out = torch.empty(0, device="cuda")
    torch.add(y, 1, out=out)
    close(out, y.cpu() + 1)
    r = x[:, :3].clone().requires_grad_()
    s = r.detach().cuda().requires_grad_()
    (r[at] * 2).sum().backward(), (s[at.cuda()] * 2).sum().backward()
    close(s.grad, r.grad)


@program
def on_the_host_and_counted():
    before = sum(torch.cuda.host_runs().values())
    x = torch.tensor([3.0, 1, 3, 2]).cuda()
    for f in (
        torch.unique,
        lambda t: torch.bincount(t.long()),
        lambda t: torch.histc(t, 4),
        lambda t: torch.isin(t, torch.tensor([1.0], device=t.device)),
        lambda t: torch.repeat_interleave(t, t.long()),
        lambda t: torch.mode(t).values,
        torch.signbit,
        lambda t: torch.unique(t, return_counts=True)[1],
        lambda t: torch.unique_consecutive(t),
        lambda t: t.new_zeros(4).scatter_reduce(0, t.long(), t, "amax"),
        lambda t: torch.nextafter(t, t + 1),
    ):
        close(f(x), f(x.cpu()))
    runs = torch.cuda.host_runs()
    assert sum(runs.values()) >= before + 11 and {"unique", "bincount", "histc", "signbit"} <= set(runs), runs
    close(F.one_hot(x.long()), F.one_hot(x.cpu().long()))


@program
def errors():
    x, y = torch.ones(2, 3, device="cuda"), torch.ones(2, 3)
    text = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    for f in (
        lambda: x + y,
        lambda: y * x,
        lambda: x @ y.t(),
        lambda: torch.cat([x, y]),
        lambda: y.add_(x),
        lambda: x.add_(y),
        lambda: F.linear(x, y),
        lambda: torch.where(y > 0, x, x),
        lambda: F.mse_loss(x, y),
        lambda: nn.Linear(3, 2)(x),
        lambda: y + torch.tensor(1.0, device="cuda"),
        lambda: nn.Embedding(3, 2)(torch.tensor([1], device="cuda")),
        lambda: nn.Conv1d(2, 2, 1)(torch.ones(1, 2, 3, device="cuda")),
    ):
        raises(RuntimeError, text, f)
    raises(RuntimeError, "cuda:0 and cuda:1" if False else "at least two devices", lambda: x + torch.ones(2, 3, device="cuda:1"))
    close(x + torch.tensor(2.0), y + 2), close(torch.tensor(2.0) * x, 2 * y)
    raises(RuntimeError, "invalid device ordinal", lambda: torch.ones(1, device="cuda:7"))
    bad = F.embedding(torch.tensor([7], device="cuda"), torch.ones(3, 2, device="cuda"))
    raises(IndexError, "out of range", lambda: bad.cpu())
    assert bad.cpu() is not None  # told once
    F.embedding(torch.tensor([7], device="cuda"), torch.ones(3, 2, device="cuda"))
    raises(IndexError, "out of range", torch.cuda.synchronize)
    raises(torch.cuda.OutOfMemoryError, "CUDA out of memory", lambda: torch.empty(1 << 30, device="cuda"))
    raises(torch.linalg.LinAlgError, "singular", lambda: torch.linalg.inv(torch.zeros(2, 2, device="cuda")))
    assert torch.cuda.memory_stats()["num_ooms"] == 1


@program
def memory_figures():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.ones(256, 1024, device="cuda")
    assert torch.cuda.memory_allocated() == before + (1 << 20) == torch.cuda.max_memory_allocated()
    y = x + 1
    del x, y
    assert torch.cuda.memory_allocated() == before and torch.cuda.max_memory_allocated() == before + (2 << 20)
    assert torch.cuda.memory_reserved() >= before + (2 << 20) and torch.cuda.max_memory_reserved() >= before + (2 << 20)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < before + (2 << 20) <= torch.cuda.max_memory_reserved()
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.peak"] == before + (2 << 20) and stats["allocated_bytes.all.current"] == before
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == 1 << 30 and "held by tensors" in torch.cuda.memory_summary()
    view = torch.ones(4, device="cuda")[1:]
    assert view.untyped_storage().nbytes() == 16 and view.storage_offset() == 1


@program
def streams_and_events():
    side = torch.cuda.Stream()
    default = torch.cuda.current_stream()
    assert default == torch.cuda.default_stream() and default.cuda_stream == 0 and side.cuda_stream and side != default
    side.wait_stream(default)
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side
        x = torch.ones(3, device="cuda") + 1
        x.record_stream(default)
    assert torch.cuda.current_stream() == default and fake_cupy.get_current_stream().ptr == 0
    with side:
        assert torch.cuda.current_stream() == side
    default.wait_stream(side)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record(), end.record(side), end.synchronize(), torch.cuda.synchronize()
    assert end.query() and side.query() and start.elapsed_time(end) > 0
    raises(ValueError, "enable_timing", lambda: torch.cuda.Event().elapsed_time(end))
    assert [kind for kind in side.inner.log if kind[0] == "wait"] and side.device == GPU
    assert torch.cuda.ExternalStream(side.cuda_stream) == side and isinstance(side, torch.cuda.Stream) and hash(side)
    with torch.cuda.stream(None):
        assert torch.cuda.current_stream() == default


@program
def devices():
    cuda = torch.cuda
    assert cuda.is_available() and cuda.device_count() == 2 and cuda.current_device() == 0 and cuda.is_initialized()
    assert cuda.get_device_name() == "Stand-in" and cuda.get_device_capability(0) == (9, 0) and cuda.is_bf16_supported()
    assert cuda.get_device_properties(0).total_memory == 1 << 30 and cuda.get_arch_list() == ["sm_90", "sm_90"]
    with cuda.device(1):
        assert torch.ones(2, device="cuda").device == torch.device("cuda:1") and cuda.current_device() == 1
    x = torch.arange(3.0, device="cuda:1")
    assert cuda.current_device() == 0 and (x + 1).device.index == 1 and (x * 2).sum().item() == 6
    close(x.to("cuda:0"), x.cpu())
    assert x.cuda(0).device == GPU and x.cuda().device == GPU or x.cuda().device.index == 1
    with cuda.device_of(x):
        assert cuda.current_device() == 1
    x.requires_grad_()
    (x.to("cuda:0") * 3).sum().backward()
    assert x.grad.device == x.device and x.grad.tolist() == [3, 3, 3]
    cuda.set_device(1)
    assert cuda.current_device() == 1
    cuda.set_device("cuda:0")
    raises(ValueError, "Expected a cuda device", lambda: cuda.get_device_name("cpu"))


@program
def mixed_precision():
    make = lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))  # noqa: E731
    torch.manual_seed(0)
    net = make().cuda()
    step, scaler = torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cuda", init_scale=128.0)
    x, y = images(6, 8, classes=3)[0]
    losses = []
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = net(x.cuda())
            assert out.dtype is torch.bfloat16
            loss = F.cross_entropy(out, y.cuda())
        assert loss.dtype is torch.float32
        step.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(step)
        scaler.step(step)
        scaler.update()
        losses.append(loss.item())
    assert losses[2] < losses[0] and net[0].weight.grad.device == GPU and net[0].weight.grad.dtype is torch.float32
    with torch.cuda.amp.autocast():
        assert (x.cuda() @ x.cuda().t()).dtype is torch.float16
    half = make().cuda().half()
    assert half(x.cuda().half()).dtype is torch.float16


@program
def files_and_copies():
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).cuda()
    step = torch.optim.Adam(net.parameters())
    net(torch.randn(4, 3, device="cuda")).sum().backward()
    step.step()
    file = io.BytesIO()
    torch.save(
        {"net": net.state_dict(), "step": step.state_dict(), "half": torch.ones(2, dtype=torch.bfloat16, device="cuda")}, file
    )
    file.seek(0)
    same = torch.load(file)
    assert same["net"]["0.weight"].device == GPU and torch.equal(same["net"]["0.weight"], net[0].weight)
    assert same["half"].device == GPU and same["half"].dtype is torch.bfloat16
    file.seek(0)
    host = torch.load(file, map_location="cpu")
    assert host["net"]["0.weight"].device.type == "cpu" and torch.equal(host["net"]["0.weight"], net[0].weight.cpu())
    file.seek(0)
    assert torch.load(file, map_location={"cuda:0": "cuda:1"})["net"]["0.bias"].device == torch.device("cuda:1")
    plain = io.BytesIO()
    torch.save(host["net"], plain)
    plain.seek(0)
    assert torch.load(plain, map_location="cuda")["0.weight"].device == GPU
    fresh = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).cuda()
    fresh.load_state_dict(host["net"])
    close(fresh[0].weight, host["net"]["0.weight"])
    other = torch.optim.Adam(fresh.parameters())
    other.load_state_dict(host["step"])
    assert other.state[fresh[0].weight]["exp_avg"].device == GPU
    twin = copy.deepcopy(net)
    twin[0].weight.data.add_(1)
    assert not torch.equal(twin[0].weight, net[0].weight) and twin[0].weight.device == GPU
    import pickle

    again = pickle.loads(pickle.dumps(net[0].weight.detach()))
    assert again.device == GPU and torch.equal(again, net[0].weight)


@program
def pinned_memory_and_loaders():
    x = torch.randn(4, 3)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and torch.equal(pinned, x)
    close(pinned.to("cuda", non_blocking=True), x), close(pinned.cuda(non_blocking=True), x)
    data = torch.utils.data.TensorDataset(x, torch.arange(4))
    for a, b in torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True):
        assert a.is_pinned() and a.cuda(non_blocking=True).shape == (2, 3) and b.is_pinned()
    there = torch.empty(4, 3, device="cuda")
    there.copy_(pinned, non_blocking=True)
    close(there, x)
    assert torch.empty(3, pin_memory=True).is_pinned()


@program
def interfaces():
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    found = x.t().__cuda_array_interface__
    assert (
        found["shape"] == (3, 2)
        and found["data"] == (x.data_ptr(), False)
        and found["typestr"] == "<f4"
        and found["strides"] == (4, 12)
    )
    assert x.__cuda_array_interface__["strides"] is None and not hasattr(torch.ones(2), "__cuda_array_interface__")
    array = fake_cupy.cupy.asarray(np.arange(4.0, dtype=np.float32))
    t = torch.as_tensor(array)
    assert t.device == GPU and t.data_ptr() == array.data.ptr and t.tolist() == [0, 1, 2, 3]
    t += 1
    assert array.get().tolist() == [1, 2, 3, 4]


@program
def graph_functions():
    x = torch.randn(3).cuda().requires_grad_()
    y = x.detach().cpu().requires_grad_()
    close(torch.autograd.functional.jacobian(lambda t: t.sin(), x), torch.autograd.functional.jacobian(lambda t: t.sin(), y))
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()
    close(x.grad, 6 * y)
    x.grad = None
    torch.utils.checkpoint.checkpoint(lambda t: t.exp(), x, use_reentrant=False).sum().backward()
    close(x.grad, y.exp())

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.save_for_backward(t)
            return t * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 + 0 * ctx.saved_tensors[0]

    x.grad = None
    Twice.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2] and x.grad.device == GPU
    with torch.no_grad():
        x.add_(1)
    assert x._version == 1


@program
def captured():
    """compile() takes tensors on a GPU: guards see type, place, sizes, strides, sharing; a graph runs with one node of autograd."""
    function = lambda x, w: torch.relu(x @ w) * 2 + 1  # noqa: E731
    for backend in ("eager", "aot_eager"):
        torch.compiler.reset()
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        w = torch.randn(4, 2).cuda().requires_grad_()
        for rows in (3, 3, 5):
            x = torch.randn(rows, 4).cuda()
            close(compiled(x, w), function(x.cpu(), w.detach().cpu()))
        compiled(x, w).sum().backward()
        found, w.grad = w.grad, None
        function(x, w).sum().backward()
        close(found, w.grad.cpu())
        assert compiled(x.cpu(), w.detach().cpu()).device.type == "cpu"
        both = torch.compile(lambda a, b: (a.add_(1), b * 2)[1], backend=backend)
        p, q = torch.zeros(3).cuda(), torch.ones(3).cuda()
        assert both(p, q).tolist() == [2, 2, 2] and both(p, p).tolist() == [4, 4, 4] and p.tolist() == [2, 2, 2]
        net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).cuda()
        twin = copy.deepcopy(net)
        torch.manual_seed(1)
        one = torch.compile(net, backend=backend)(x)
        torch.manual_seed(1)
        close(one, twin(x).cpu()), close(net[1].running_mean, twin[1].running_mean.cpu())


@program
def guards():
    """C++ looks at sizes, strides, offset, type, place and gradient of tensors on a GPU; a size that changed becomes a symbol."""
    compiled = torch.compile(lambda x: (x @ x.t()).relu() + x.sum(), backend="aot_eager")
    torch.compiler.reset()

    def graphs(x):
        assert torch.allclose(compiled(x).cpu(), (x.cpu() @ x.cpu().t()).relu() + x.cpu().sum(), atol=1e-5)
        return torch.compiler.counters()["graphs"]

    assert [graphs(torch.randn(n, 2).cuda()) for n in (3, 5, 7, 8, 33)] == [1, 2, 2, 2, 2]
    wide = torch.randn(6, 4).cuda()
    others = [
        wide[1:, :2],
        torch.randn(2, 5).cuda().t(),
        torch.randn(5, 2, dtype=torch.float64).cuda(),
        torch.randn(5, 2, device="cuda:1"),
        torch.randn(5, 2).cuda().requires_grad_(),
        torch.randn(5, 2),
    ]
    assert [graphs(x) for x in others] == [3, 4, 5, 6, 7, 8]
    assert [graphs(x) for x in [torch.randn(9, 2).cuda(), *others]] == [8] * 7
    marked = torch.randn(4, 2).cuda()
    torch._dynamo.mark_dynamic(marked, 0)
    compiled = torch.compile(lambda x: x.sum(1) * x.shape[0], backend="aot_eager")
    before = torch.compiler.counters()["graphs"]
    for x in (marked, torch.randn(6, 2).cuda(), torch.randn(2, 2).cuda()):
        close(compiled(x), x.cpu().sum(1) * x.shape[0])
    assert torch.compiler.counters()["graphs"] == before + 1


@program
def linear_algebra_and_more():
    a = torch.randn(3, 4, 4)
    m = a @ a.mT + 4 * torch.eye(4)
    for f in (
        torch.linalg.inv,
        torch.linalg.det,
        torch.linalg.cholesky,
        lambda t: torch.linalg.solve(t, t[..., :1] + 1),
        torch.linalg.norm,
        lambda t: torch.linalg.svdvals(t),
        lambda t: torch.linalg.eigvalsh(t),
        lambda t: torch.linalg.qr(t)[1].abs(),
        torch.linalg.matrix_exp,
        lambda t: torch.linalg.lu_factor(t)[0],
        torch.linalg.pinv,
        torch.trace if False else torch.triu,
        lambda t: torch.fft.rfft(t).abs(),
        lambda t: torch.fft.ifft(torch.fft.fft(t)).real,
        lambda t: torch.einsum("bij,bkj->bik", t, t),
        lambda t: torch.stft(t.reshape(-1), 8, return_complex=True, window=torch.hann_window(8, device=t.device)).abs(),
        lambda t: t.std(1),
        lambda t: torch.median(t, 1).values,
        lambda t: torch.quantile(t, 0.3, dim=1),
        lambda t: torch.cdist(t, t),
        lambda t: torch.special.digamma(t.abs() + 1),
        torch.lgamma,
        lambda t: torch.searchsorted(torch.arange(5.0, device=t.device), t),
        lambda t: torch.kron(t[0], t[1]),
        lambda t: torch.roll(t, 1, 2),
        lambda t: t.unfold(1, 2, 1),
        lambda t: F.grid_sample(t[None], t[:2, :, :2].reshape(1, 2, 4, 2) / 9, align_corners=False),
        lambda t: torch.nan_to_num(t / 0),
        lambda t: torch.logcumsumexp(t, 1),
        lambda t: torch.trapezoid(t),
        lambda t: torch.cov(t[0]),
    ):
        close(f(m.cuda()), f(m), 2e-3)


if __name__ == "__main__":
    failed = 0
    for name in sys.argv[1:] or PROGRAMS:
        try:
            PROGRAMS[name]()
            print(name, "ok", flush=True)
        except Exception:
            failed += 1
            print(name, traceback.format_exc(limit=-6), flush=True)
    sys.exit(bool(failed))
