"""Calls of the runtime's kernels from generated code: values and gradients as eager's, no Python between kernels, epilogues
inside the convolution; the loop interpreter says the same."""

import flambeau
import pytest
from flambeau import compiler, nn
from flambeau.nn import functional as F
from flambeau.runtime import kernel_calls
from flambeau.runtime.config import config


def sources(f, *args, **options):
    """Compile and run; the generated texts, forward first."""
    compiler.reset()
    compiled = flambeau.compile(f, **options)
    with config.patch(strict=True, optimize=1):
        result = compiled(*args)
    assert compiler.counters()["fallbacks"] == {}
    return compiled, result


def near(a, b, what=""):
    scale = 1.0 + float(b.detach().abs().max())
    assert a.shape == b.shape and a.stride() == b.stride() and a.dtype is b.dtype, what
    assert float((a - b).detach().abs().max()) <= 2e-5 * scale, what


def check(f, *args, dynamic=False, backend="inductor", tolerance=1):
    """Values, and gradients of everything that requires one."""
    with config.patch(strict=True, optimize=1):
        compiler.reset()
        compiled = flambeau.compile(f, dynamic=dynamic, backend=backend)
        actual, wanted = compiled(*args), f(*args)
        near(actual, wanted, "value")
        leaves = [x for x in args if x.requires_grad]
        if leaves:
            grads = flambeau.autograd.grad((actual * actual).sum(), leaves)
            for k, (a, b) in enumerate(zip(grads, flambeau.autograd.grad((wanted * wanted).sum(), leaves))):
                near(a, b, f"gradient {k}")
    seen = compiler.counters()
    assert (seen["graphs"], seen["breaks"], seen["fallbacks"]) == (1, {}, {})


def randn(*sizes, grad=True):
    return flambeau.randn(*sizes).requires_grad_(grad)


def relu_of(x, w, b, **options):
    return F.relu(F.conv2d(x, w, b, **options)) * 2.0


CONVOLUTIONS = {
    "plain": lambda x, w, b: relu_of(x, w, b, padding=1),
    "strided": lambda x, w, b: relu_of(x, w, b, stride=(2, 1), dilation=(1, 2)),
    "residual": lambda x, w, b: F.conv2d(x, w, b, padding=1) + flambeau.cat([x, x[:, :3]], 1),
    "pooled": lambda x, w, b: F.max_pool2d(F.conv2d(x, w, b).sigmoid(), 3, 2, 1),
    "averaged": lambda x, w, b: F.avg_pool2d(F.conv2d(x, w).sin(), 2, ceil_mode=True) + b.sum(),
    "normalised": lambda x, w, b: F.relu(F.batch_norm(F.conv2d(x, w), b[:6], b[:6].exp(), b, b)),
    "twice": lambda x, w, b: F.conv2d(F.relu(F.conv2d(x, w, b, padding=1)), w[:, :1].expand(6, 6, 3, 3), padding=1),
    "transposed view": lambda x, w, b: relu_of(x.transpose(2, 3), w, b),
}


@pytest.mark.parametrize("backend, dynamic", [("inductor", False), ("inductor", True), ("loops", False)])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name, backend, dynamic):
    flambeau.manual_seed(1)
    with flambeau.no_grad():
        x, w, b = randn(2, 3, 9, 8, grad=False), randn(6, 3, 3, 3, grad=False), randn(6, grad=False)
        check(CONVOLUTIONS[name], x, w, b, dynamic=dynamic, backend=backend)


@pytest.mark.parametrize("sizes", [(2, 32, 25, 19), (9, 33, 8, 8)])
def test_squares_of_results_have_epilogues(sizes):
    """Windows that are computed in squares of 2x2: the epilogue meets stretches of rows of an image."""
    x, w, b = randn(*sizes, grad=False), randn(sizes[1], sizes[1], 3, 3, grad=False), randn(sizes[1], grad=False)
    with flambeau.no_grad():
        check(lambda x, w, b: F.relu(F.conv2d(x, w / 10, b, padding=1) + x), x, w, b)
        check(lambda x, w: F.conv2d(x, w / 10).tanh(), x, w)


@pytest.mark.parametrize("sizes, made", [((3, 1, 40, 61), 11), ((2, 2, 29, 16), 3), ((2, 1, 4, 1500), 5)])
def test_windows_of_few_terms_have_epilogues(sizes, made):
    """Windows that lie a row in a register: the epilogue meets stretches of rows of up to four channels."""
    x, w, b = randn(*sizes, grad=False), randn(made, sizes[1], 3, 3, grad=False), randn(made, grad=False)
    with flambeau.no_grad():
        check(lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1) + x[:, :1]), x, w, b)
    check(lambda x, w: F.conv2d(x, w, None, 2, 1).tanh(), *(t.detach().requires_grad_() for t in (x, w)))


def test_segments_of_results_have_epilogues():
    """Windows that are computed in segments of three and two: the epilogue meets whole images."""
    x, w, b = randn(48, 16, 12, 9, grad=False), randn(18, 16, 4, 4, grad=False), randn(18, grad=False)
    with flambeau.no_grad():
        check(lambda x, w, b: F.relu(F.conv2d(x, w / 10, b, 2, 1) + 0.5) + b[:4], x, w, b)
        check(lambda x, w: F.conv_transpose2d(F.conv2d(x, w / 10, None, 2, 1), w / 10, None, 2, 1).tanh(), x, w)


def test_images_of_few_pixels_have_epilogues():
    """Images side by side in registers: the epilogue meets whole images of some channels."""
    x, w, b = randn(9, 64, 4, 4, grad=False), randn(70, 64, 3, 3, grad=False), randn(70, grad=False)
    with flambeau.no_grad():
        check(lambda x, w, b: F.relu(F.conv2d(x, w / 10, b, 1, 1) + 0.5) + b[:4], x, w, b)
        check(lambda x, w: F.conv_transpose2d(F.conv2d(x, w / 10, None, 2, 1), w / 10, None, 2, 1, 1).tanh(), x, w)
    check(lambda x, w, b: F.relu(F.conv2d(x, w / 10, b, 2, 1)).exp(), *(t.detach().requires_grad_() for t in (x, w, b)))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_gradients_of_convolutions(dynamic):
    flambeau.manual_seed(2)
    x, w, b = randn(2, 3, 9, 7), randn(6, 3, 3, 3), randn(6)
    check(CONVOLUTIONS["plain"], x, w, b, dynamic=dynamic)
    check(CONVOLUTIONS["pooled"], x, w, b, dynamic=dynamic)
    check(lambda x, w, b: F.conv2d(x, w, b, groups=4).tanh(), randn(2, 4, 5, 6), randn(4, 1, 3, 3), randn(4), dynamic=dynamic)
    check(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1).tanh(),
        randn(2, 3, 4, 5),
        randn(3, 2, 3, 3),
        dynamic=dynamic,
    )
    check(lambda x, w: F.conv1d(x, w, padding=2).tanh(), randn(2, 3, 11), randn(5, 3, 4), dynamic=dynamic)


@pytest.mark.parametrize("sizes", [(1, 3, 9, 8), (2, 1, 1, 9), (3, 3, 3, 3)])
def test_sizes_of_one(sizes):
    x, w = randn(*sizes), randn(1, sizes[1], 1, 3)
    check(lambda x, w: F.conv2d(x, w).exp(), x, w)


def test_channels_last_stays():
    x = randn(2, 3, 7, 6, grad=False).to(memory_format=flambeau.channels_last)
    w, b = randn(4, 3, 3, 3, grad=False), randn(4, grad=False)
    check(relu_of, x, w, b)
    check(lambda x, w: F.conv_transpose2d(x, w), x, randn(3, 2, 3, 3, grad=False))


def test_halves_round_once():
    x, w, b = (randn(*s, grad=False).bfloat16() for s in ((2, 3, 8, 8), (4, 3, 3, 3), (4,)))
    compiled, made = sources(lambda x, w, b: F.conv2d(x, w, b), x, w, b)
    assert bool((made == F.conv2d(x, w, b)).all())


def text_of(f, *args):
    """The generated C++ of a function without gradients."""
    from flambeau.inductor.cpp import async_compile

    texts, load = [], async_compile.CppExecutable.__init__

    def remember(self, launch, path, source, launcher):
        texts.append(source)
        load(self, launch, path, source, launcher)

    with pytest.MonkeyPatch.context() as patch, flambeau.no_grad():
        patch.setattr(async_compile.CppExecutable, "__init__", remember)
        sources(f, *args)
    return texts[0]


def test_what_follows_a_convolution_is_in_its_epilogue():
    """Bias, normalisation by running statistics, residual and activation: one call, no kernel after it."""
    block = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)).eval()
    text = text_of(lambda x: F.relu(block(x) + x), flambeau.randn(2, 3, 8, 8))
    assert text.count("rt->conv(&c)") == 1 and "c.epilogue = kernel_" in text
    assert "parallel_for" not in text.split("fb_run")[1]


def test_a_convolution_alone_writes_its_result():
    text = text_of(lambda x, w: F.conv2d(x, w), flambeau.randn(2, 3, 8, 8), flambeau.randn(4, 3, 3, 3))
    assert "rt->conv(&c)" in text and "epilogue" not in text.split("fb_run")[1]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("mask, causal", [(None, False), (None, True), ("bool", False), ("float", False)])
def test_attention(mask, causal, dynamic):
    flambeau.manual_seed(3)
    q, k, v = randn(2, 3, 7, 4), randn(2, 3, 9, 4), randn(2, 9, 3, 5)
    mask = {"bool": flambeau.randn(7, 9) > 0, "float": flambeau.randn(2, 1, 7, 9)}.get(mask)

    def f(q, k, v):
        return F.scaled_dot_product_attention(q.sin(), k, v.transpose(1, 2), attn_mask=mask, is_causal=causal).relu()

    check(f, q, k, v, dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind, dynamic):
    flambeau.manual_seed(4)
    layer = kind(5, 6, 2, batch_first=True)
    x = randn(3, 8, 5)
    leaves = [x, *layer.parameters()]
    compiler.reset()
    with config.patch(strict=True, optimize=1):
        actual, wanted = flambeau.compile(lambda x: layer(x)[0], dynamic=dynamic)(x), layer(x)[0]
        near(actual, wanted)
        grads = flambeau.autograd.grad((actual * actual).sum(), leaves)
    for k, (a, b) in enumerate(zip(grads, flambeau.autograd.grad((wanted * wanted).sum(), leaves))):
        near(a, b, f"gradient {k}")
    assert compiler.counters()["fallbacks"] == {}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_sorted_rows_and_running_sums(dynamic):
    flambeau.manual_seed(5)
    x = randn(4, 3, 50)
    check(lambda x: x.exp().sort(descending=True)[0] * 2.0, x, dynamic=dynamic)
    check(lambda x: x.transpose(0, 1).topk(7)[0].sin(), x, dynamic=dynamic)
    check(lambda x: x.cumsum(2).sin() + x.cumsum(0).cos() + x.transpose(0, 2).cumsum(1).transpose(0, 2), x, dynamic=dynamic)
    with flambeau.no_grad():
        order = flambeau.compile(lambda x: x.sort(stable=True)[1] + x.topk(50)[1], dynamic=dynamic)(x)
    assert bool((order == x.sort()[1] + x.topk(50)[1]).all())


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margins_of_labels(reduction, dynamic):
    f = lambda x, t: F.multilabel_margin_loss(x * 2.0, t, reduction=reduction)
    for sizes in ((4, 5), (3, 40), (6,), (2, 1100)):
        for dtype in (flambeau.float32, flambeau.float64):
            target = flambeau.randint(0, sizes[-1], sizes)
            target[..., 3:] = -1
            check(f, randn(*sizes).detach().to(dtype).requires_grad_(), target, dynamic=dynamic)
    check(f, randn(5, 4).t(), flambeau.randint(-1, 5, (5, 4)).t(), dynamic=dynamic)
    compiled, _ = sources(f, randn(4, 5), flambeau.randint(0, 5, (4, 5)))
    for bad in (5, -2):
        target = flambeau.full((4, 5), -1)
        target[3, 4] = bad
        with pytest.raises(RuntimeError, match="argument #2 'target' is out of range"):
            compiled(randn(4, 5), target)


def test_margins_of_labels_are_one_kernel():
    text = text_of(lambda x, t: F.multilabel_margin_loss(x, t), flambeau.randn(4, 5), flambeau.zeros(4, 5).long())
    assert text.count("rt->job(&c)") == 1 and "/* multilabel_margin */" in text


def test_what_no_kernel_takes_is_counted():
    """An LSTM with a projection runs eagerly between the kernels."""
    layer = nn.LSTM(4, 6, proj_size=3)
    x = flambeau.randn(5, 2, 4)
    compiler.reset()
    with flambeau.no_grad():
        near(flambeau.compile(lambda x: layer(x)[0] + 1.0)(x), layer(x)[0] + 1.0)
    assert compiler.counters()["fallbacks"] == {"lstm_sequence": 1}


def test_kernels_have_numbers():
    assert {"attention_forward", "lstm_forward", "max_planes", "sort_rows", "running_sum_columns"} <= kernel_calls.NUMBERS.keys()


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64], ids=str)
def test_draws_by_weight_search_their_edges(dtype):
    """Every edge compared with every number is what the decomposition does; the runtime's kernel halves."""
    from flambeau.eager.op.op import OPS

    edges, u = flambeau.rand(3, 50, dtype=dtype).sort().values, flambeau.rand(3, 70, dtype=dtype)
    edges[1, 3], u[0, :5], u[2, 1] = edges[1, 2], edges[0, :5], float("nan")
    count = lambda e, x: OPS["edges_below"](e, x) + 1
    wanted = (edges.unsqueeze(1) <= u.unsqueeze(2)).sum(2) + 1
    assert "/* edges_below */" in text_of(count, edges, u)
    for dynamic in (False, True):
        assert flambeau.equal(sources(count, edges, u, dynamic=dynamic)[1], wanted)
    assert flambeau.equal(sources(count, edges.t(), u[0, :3].expand(50, 3))[1], count(edges.t(), u[0, :3].expand(50, 3)))


def test_a_mask_of_dropout_may_lie_in_any_order():
    """The kernel of the gradient reads it in rows: a transposed one gave other gradients in eager code."""
    from flambeau.eager.op.op import OPS

    keep = flambeau.arange(32.0).reshape(1, 2, 4, 4).cos() > 0
    found = []
    for mask in (keep, keep.transpose(2, 3).contiguous().transpose(2, 3)):
        x = flambeau.arange(24.0).reshape(1, 2, 4, 3).sin().requires_grad_()
        out = OPS["dropped_attention"](x, x, x, None, mask, 0.3, False, 0.5)[0]
        found.append(flambeau.autograd.grad((out * out.detach().cos()).sum(), x)[0])
    assert flambeau.equal(*found)


def test_numbers_that_are_nan_have_reached_no_edge():
    from flambeau.eager.op.op import OPS

    edges, u = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]]), flambeau.tensor([float("nan"), 3.5, 0.0])
    assert (
        OPS["edges_below"](edges, u.expand(2, 3)).tolist()
        == OPS["edges_below"](edges, u.repeat(2, 1)).tolist()
        == [[0, 2, 0], [0, 1, 0]]
    )
