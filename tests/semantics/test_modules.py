"""nn.Module and its state; layers with many options (items 41-53)."""

import copy

import pytest


def test_41_attributes(lib):
    nn = lib.nn

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.p, self.child, self.plain = nn.Parameter(lib.ones(1)), nn.Linear(1, 1), 3
            self.register_buffer("b", lib.zeros(1))

    m = M()
    assert list(m._parameters) == ["p"] and list(m._modules) == ["child"] and list(m._buffers) == ["b"]
    with pytest.raises(TypeError, match=r"cannot assign '.*Tensor' as parameter 'p' \(torch.nn.Parameter or None expected\)"):
        m.p = lib.ones(1)
    m.b = lib.ones(1)
    assert list(m._buffers) == ["b"] and m.b == 1
    with pytest.raises(AttributeError, match="'M' object has no attribute 'nothing'"):
        m.nothing
    m.child = None
    assert m.child is None and "child" in m._modules

    class Early(nn.Module):
        def __init__(self):
            self.child = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        Early()


def test_42_buffers(lib):
    nn = lib.nn
    m = nn.Module()
    m.register_buffer("kept", lib.zeros(1))
    m.register_buffer("loose", lib.zeros(1), persistent=False)
    m.other = nn.Buffer(lib.ones(1))
    m.register_buffer("none", None)
    assert list(m.state_dict()) == ["kept", "other"]
    m.to(lib.float64)
    assert m.loose.dtype == lib.float64 and m.other.dtype == lib.float64
    m.loose = lib.ones(2)
    assert dict(m.named_buffers())["loose"].shape == (2,) and "loose" not in m.state_dict()


def test_43_state_dict(lib):
    nn = lib.nn
    m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    state = m.state_dict()
    assert list(state) == ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"]
    state.pop("0.bias")
    state["extra"] = lib.zeros(1)
    found = m.load_state_dict(state, strict=False)
    assert found.missing_keys == ["0.bias"] and found.unexpected_keys == ["extra"]
    with pytest.raises(
        RuntimeError,
        match=r'(?s)Missing key\(s\) in state_dict: "0.bias".*Unexpected key\(s\) in '
        r'state_dict: "extra"',
    ):
        m.load_state_dict(state)
    with pytest.raises(RuntimeError, match="size mismatch for 0.weight: copying a param with shape"):
        m.load_state_dict({**m.state_dict(), "0.weight": lib.zeros(3, 2)})
    weight = lib.zeros(2, 2)
    m[0].load_state_dict({"weight": weight, "bias": lib.zeros(2)}, assign=True)
    assert m[0].weight.data_ptr() == weight.data_ptr() and isinstance(m[0].weight, nn.Parameter)


def test_43_names_of_parameters(lib):
    nn = lib.nn
    assert list(nn.LSTM(2, 3, bidirectional=True).state_dict()) == [
        f"{kind}_{gate}_l0{way}"
        for way in ("", "_reverse")
        for kind, gate in (("weight", "ih"), ("weight", "hh"), ("bias", "ih"), ("bias", "hh"))
    ]
    assert list(nn.MultiheadAttention(4, 2).state_dict()) == [
        "in_proj_weight",
        "in_proj_bias",
        "out_proj.weight",
        "out_proj.bias",
    ]


def test_44_overrides(lib):
    nn = lib.nn
    seen = []

    class M(nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, *rest):
            seen.append(prefix)
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "old")
            super()._load_from_state_dict(state_dict, prefix, *rest)

        def train(self, mode=True):
            seen.append(mode)
            return super().train(mode)

        def _apply(self, fn, *args, **kwargs):
            seen.append("apply")
            return super()._apply(fn, *args, **kwargs)

        def __call__(self, x):
            return super().__call__(x) * 2

    m = nn.Sequential(M(1, 1, bias=False))
    m.load_state_dict({"0.old": lib.full((1, 1), 3.0)})
    m.eval()
    m.double()
    assert seen == ["0.", False, "apply"] and m(lib.ones(1, 1, dtype=lib.float64)).item() == 6
    m._register_load_state_dict_pre_hook(lambda state, prefix, *rest: seen.append(len(state)))
    m.load_state_dict({"0.old": lib.zeros(1, 1)})
    assert seen[-2:] == [1, "0."]


def test_45_shared_parameters(lib):
    nn = lib.nn

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.head = nn.Embedding(3, 2), nn.Linear(2, 3, bias=False)
            self.head.weight = self.emb.weight

    for m in (M(), copy.deepcopy(M()), M().to(lib.float64)):
        assert len(list(m.parameters())) == 1 and list(m.state_dict()) == ["emb.weight", "head.weight"]
        assert m.head.weight is m.emb.weight


def test_46_apply_and_forward_hooks(lib):
    nn = lib.nn
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    order = []
    m.apply(lambda x: order.append(type(x).__name__))
    assert order == ["Linear", "ReLU", "Sequential"]
    handle = m[1].register_forward_hook(lambda module, args, out: out + 1)
    pre = m[0].register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    with lib.no_grad():
        m[0].bias.fill_(2)
    assert m(lib.ones(1, 2)).tolist() == [[3, 3]]
    handle.remove()
    pre.remove()
    assert not m[1]._forward_hooks


def test_46_forward_hook_options(lib):
    nn = lib.nn
    seen = []

    class M(nn.Module):
        def forward(self, x, fail=False):
            if fail:
                raise ValueError("failed")
            return x

    m = M()
    m.register_forward_hook(lambda *a: seen.append("first"))
    m.register_forward_hook(lambda *a: seen.append("zeroth"), prepend=True)
    m.register_forward_hook(lambda module, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    m.register_forward_hook(lambda module, args, out: seen.append(out), always_call=True)
    m(1, fail=False)
    assert seen == ["zeroth", "first", {"fail": False}, 1]
    seen.clear()
    with pytest.raises(ValueError, match="failed"):
        m(1, fail=True)
    assert seen == [None]


def test_46_backward_hooks_of_modules(lib):
    seen = []

    class M(lib.nn.Module):
        def forward(self, a, b, k=1):
            return a * b * k, "text", a + b

    m = M()
    m.register_full_backward_pre_hook(lambda module, go: seen.append([g if g is None else g.tolist() for g in go]))
    m.register_full_backward_hook(lambda module, gi, go: seen.append([g if g is None else g.tolist() for g in gi]))
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    m(x, lib.tensor([3.0, 4.0]))[0].sum().backward()
    assert seen == [[[1, 1], None, None], [[3, 4], [0, 0]]]
    m = lib.nn.Linear(2, 2)
    m.register_full_backward_hook(lambda module, gi, go: (gi[0] * 10,))
    x.grad = None
    with lib.no_grad():
        m.weight.fill_(1)
    m(x).sum().backward()
    assert x.grad.tolist() == [20, 20] and m.weight.grad.tolist() == [[1, 2], [1, 2]]
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        m.register_backward_hook(lambda *a: None)


def test_46_hooks_of_the_process(lib, sub):
    module = sub("nn.modules.module")
    seen = []
    handles = [
        module.register_module_forward_hook(lambda m, a, o: seen.append("forward")),
        module.register_module_forward_pre_hook(lambda m, a: seen.append("pre")),
        module.register_module_full_backward_hook(lambda m, gi, go: seen.append("backward")),
    ]
    m = lib.nn.Linear(1, 1)
    m.register_forward_hook(lambda *a: seen.append("own"))
    m(lib.ones(1, 1, requires_grad=True)).sum().backward()
    for handle in handles:
        handle.remove()
    assert seen == ["pre", "forward", "own", "backward"]
    m(lib.ones(1, 1))
    assert len(seen) == 5


def test_46_tensor_hooks(lib):
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    handle = y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    y.sum().backward(retain_graph=True)
    assert y.grad.tolist() == [10, 10] and x.grad.tolist() == [21, 21] == seen[0]
    handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [24, 24]
    with pytest.raises(RuntimeError, match="hook '.*' has changed the size of value"):
        z = x * 2
        z.register_hook(lambda g: g[:1])
        z.sum().backward()


def test_47_containers(lib):
    nn = lib.nn
    s = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    assert isinstance(s[:2], nn.Sequential) and len(s[:2]) == 2 and s[-1] is s[2] and len(s + nn.Sequential(nn.Tanh())) == 4
    s.append(nn.Tanh())
    s.insert(0, nn.Sigmoid())
    assert [type(m).__name__ for m in nn.Sequential(*s)] == ["Sigmoid", "Linear", "ReLU", "Linear", "Tanh"]
    items = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
    assert len(items[1:]) == 2 and items[-1] is items[2] and len(items + [nn.ReLU()]) == 4
    items.extend([nn.ReLU()])
    d = nn.ModuleDict({"a": nn.ReLU()})
    d["b"] = nn.Tanh()
    assert list(d) == ["a", "b"] and "a" in d and len(d.values()) == 2
    params = nn.ParameterList([nn.Parameter(lib.ones(1)), lib.zeros(2)])
    assert len(params) == 2 and isinstance(params[1], nn.Parameter) and [k for k, _ in params.named_parameters()] == ["0", "1"]

    class Wide(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.double()).to(x.dtype)

    assert nn.Sequential(Wide(2).double())(lib.ones(1, 2)).dtype == lib.float32


def test_48_weight_norm(lib, sub):
    nn = lib.nn
    norm = sub("nn.utils")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = norm.weight_norm(nn.Linear(2, 3))
    assert list(m.state_dict()) == ["bias", "weight_g", "weight_v"] and m.weight_g.shape == (3, 1)
    with lib.no_grad():
        m.weight_g.mul_(2)
    y = m(lib.ones(1, 2))
    assert m.weight.norm(dim=1).tolist() == pytest.approx(m.weight_g.flatten().tolist(), rel=1e-5) and y.requires_grad
    norm.remove_weight_norm(m)
    assert sorted(m.state_dict()) == ["bias", "weight"]
    p = sub("nn.utils.parametrizations").weight_norm(nn.Linear(2, 3))
    assert list(p.state_dict()) == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]


def test_49_recurrent(lib, sub):
    nn, rnn = lib.nn, sub("nn.utils.rnn")
    m = nn.LSTM(2, 3, num_layers=2, batch_first=True, bidirectional=True, proj_size=2)
    out, (h, c) = m(lib.zeros(4, 5, 2))
    assert out.shape == (4, 5, 4) and h.shape == (4, 4, 2) and c.shape == (4, 4, 3)
    m.flatten_parameters()
    out, h = nn.GRU(2, 3)(lib.zeros(5, 2))
    assert out.shape == (5, 3) and h.shape == (1, 3)
    x = lib.arange(6.0).reshape(3, 2, 1)
    packed = rnn.pack_padded_sequence(x, lib.tensor([1, 3]), enforce_sorted=False)
    assert packed.data.flatten().tolist() == [1, 0, 3, 5] and packed.batch_sizes.tolist() == [2, 1, 1]
    assert packed.sorted_indices.tolist() == [1, 0] and packed.unsorted_indices.tolist() == [1, 0]
    back, lengths = rnn.pad_packed_sequence(packed)
    assert back[:, 0, 0].tolist() == [0, 0, 0] and back[:, 1, 0].tolist() == [1, 3, 5] and lengths.tolist() == [1, 3]
    out, h = nn.GRU(1, 2)(packed)
    assert isinstance(out, rnn.PackedSequence) and h.shape == (1, 2, 2)


def test_50_multihead_attention(lib):
    m = lib.nn.MultiheadAttention(4, 2, batch_first=True).eval()
    x = lib.linspace(-1, 1, 24).reshape(2, 3, 4)
    padding = lib.tensor([[False, False, True], [False, False, False]])
    out, weights = m(x, x, x, key_padding_mask=padding)
    assert out.shape == (2, 3, 4) and weights.shape == (2, 3, 3) and weights[0, :, 2].tolist() == [0, 0, 0]
    as_float = lib.zeros(2, 3).masked_fill(padding, float("-inf"))
    assert lib.allclose(m(x, x, x, key_padding_mask=as_float)[0], out, atol=1e-6)
    causal = lib.ones(3, 3, dtype=lib.bool).triu(1)
    out, weights = m(x, x, x, attn_mask=causal, need_weights=False)
    assert weights is None
    other = m(x, x, x, attn_mask=lib.zeros(3, 3).masked_fill(causal, float("-inf")))[0]
    assert lib.allclose(out, other, atol=1e-6)


def test_51_scaled_dot_product_attention(lib, sub):
    F = sub("nn.functional")
    q = lib.linspace(-1, 1, 32).reshape(1, 4, 4, 2)
    mask = lib.ones(4, 4, dtype=lib.bool).tril()
    causal = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert lib.allclose(F.scaled_dot_product_attention(q, q, q, attn_mask=mask), causal, atol=1e-6)
    added = lib.zeros(4, 4).masked_fill(~mask, float("-inf"))
    assert lib.allclose(F.scaled_dot_product_attention(q, q, q, attn_mask=added), causal, atol=1e-6)
    scaled = F.scaled_dot_product_attention(q, q, q, scale=1.0, dropout_p=0.0)
    assert lib.allclose(scaled, lib.softmax(q @ q.transpose(-1, -2), -1) @ q, atol=1e-6)
    kv = q[:, :2]
    grouped = F.scaled_dot_product_attention(q, kv, kv, enable_gqa=True)
    repeated = kv.repeat_interleave(2, 1)
    assert lib.allclose(grouped, F.scaled_dot_product_attention(q, repeated, repeated), atol=1e-6)
    attention = sub("nn.attention")
    with attention.sdpa_kernel(attention.SDPBackend.MATH):
        F.scaled_dot_product_attention(q, q, q)


def test_52_resampling_and_padding(lib, sub):
    F = sub("nn.functional")
    x = lib.arange(4.0).reshape(1, 1, 2, 2)
    assert F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)[0, 0, 0].tolist() == pytest.approx(
        [0, 1 / 3, 2 / 3, 1]
    )
    assert F.interpolate(x, scale_factor=2, mode="bilinear")[0, 0, 0].tolist() == pytest.approx([0, 0.25, 0.75, 1])
    small = F.interpolate(lib.arange(16.0).reshape(1, 1, 4, 4), size=(2, 2), mode="bilinear", antialias=True)
    assert small[0, 0].flatten().tolist() == pytest.approx([3.5714, 5.1429, 9.8571, 11.4286], abs=1e-3)
    row = lib.arange(4.0).reshape(1, 1, 4)
    assert F.pad(row, (-1, 2)).flatten().tolist() == [1, 2, 3, 0, 0]
    assert F.pad(row, (2, 1), mode="reflect").flatten().tolist() == [2, 1, 0, 1, 2, 3, 2]
    assert F.pad(row, (1, 1), mode="replicate").flatten().tolist() == [0, 0, 1, 2, 3, 3]
    assert F.pad(row, (1, 1), mode="circular").flatten().tolist() == [3, 0, 1, 2, 3, 0]
    grid = lib.zeros(1, 1, 1, 2)
    assert F.grid_sample(x, grid, align_corners=False).item() == 1.5
    columns = F.unfold(x, 2)
    assert columns.flatten().tolist() == [0, 1, 2, 3] and F.fold(columns, (2, 2), 2).tolist() == x.tolist()


@pytest.mark.parametrize(
    "equation, shapes, expected",
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], (2, 4)),
        ("b h i d , b h j d -> b h i j", [(1, 2, 3, 4), (1, 2, 5, 4)], (1, 2, 3, 5)),
        ("...ij,...jk->...ik", [(7, 2, 3), (7, 3, 4)], (7, 2, 4)),
        ("ii->i", [(3, 3)], (3,)),
        ("ii", [(3, 3)], ()),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], (2, 5)),
        ("ij,jk", [(2, 3), (3, 4)], (2, 4)),
        ("ij->ji", [(2, 3)], (3, 2)),
        ("bIj,bjK->bIK", [(2, 3, 4), (2, 4, 5)], (2, 3, 5)),
        ("i,j->ij", [(2,), (3,)], (2, 3)),
        ("ba", [(2, 3)], (3, 2)),
    ],
)
def test_53_einsum(lib, equation, shapes, expected):
    assert lib.einsum(equation, *[lib.ones(s) for s in shapes]).shape == expected
    assert lib.einsum(equation, [lib.ones(s) for s in shapes]).shape == expected
