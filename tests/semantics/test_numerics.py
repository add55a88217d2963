"""Reductions and numerics where libraries differ (items 34-40)."""

import math

import pytest


def test_34_named_results(lib):
    x = lib.tensor([[3.0, 1.0], [2.0, 5.0]])
    values, indices = x.max(1)
    assert values.tolist() == [3, 5] and indices.tolist() == [0, 1]
    r = x.min(dim=0)
    assert r.values.tolist() == [2, 1] and r.indices.tolist() == [1, 0] and r[0] is r.values
    assert x.sort(descending=True).values.tolist() == [[3, 1], [5, 2]] and x.topk(1).indices.tolist() == [[0], [1]]
    assert x.median(1).values.tolist() == [1, 2]
    assert x.max() == 5 and lib.max(x, lib.full((2, 2), 2.5)).tolist() == [[3, 2.5], [2.5, 5]]
    assert lib.max(x, 1, keepdim=True)[0].shape == (2, 1)


def test_35_spellings_of_dims(lib):
    x = lib.ones(2, 3, 4)
    assert x.sum(dim=(0, 2)).shape == (3,) and x.sum(axis=1).shape == (2, 4) and x.sum(1, keepdims=True).shape == (2, 1, 4)
    assert x.mean(axis=(0, 1), keepdim=True).shape == (1, 1, 4) and x.sum([-1]).shape == (2, 3)
    assert x.amax(dim=(0, 1)).shape == (4,) and x.std(dim=0, keepdim=True).shape == (1, 3, 4)


def test_36_variance(lib):
    x = lib.tensor([1.0, 2.0])
    assert x.std().item() == pytest.approx(0.70710678) and math.isnan(x[:1].var().item())
    assert x.var(unbiased=False) == 0.25 and x.var(correction=0) == 0.25 and lib.var(x, dim=0, correction=1) == 0.5


def test_36_batch_norm_statistics(lib):
    norm = lib.nn.BatchNorm1d(1, affine=False)
    y = norm(lib.tensor([[0.0], [2.0]]))
    assert y.flatten().tolist() == pytest.approx([-1, 1], abs=1e-4)
    assert norm.running_var.item() == pytest.approx(1.1) and norm.running_mean.item() == pytest.approx(0.1)
    assert norm.num_batches_tracked == 1


@pytest.mark.parametrize(
    "name, expected",
    [
        ("abs", [0]),
        ("relu", [0]),
        ("clamp", [1]),
        ("maximum", [0.5]),
        ("max", [0.5, 0.5]),
        ("amax", [0.5, 0.5]),
        ("sqrt", [math.inf]),
        ("norm", [0, 0]),
        ("sign", [0]),
        ("hardtanh", [0]),
        ("minimum", [0.5]),
    ],
)
def test_37_gradients_at_kinks(lib, name, expected):
    zero = lib.zeros(len(expected), requires_grad=True)
    functions = {
        "abs": lambda x: x.abs(),
        "relu": lambda x: lib.relu(x),
        "clamp": lambda x: x.clamp(0, 1),
        "sign": lambda x: x.sign(),
        "maximum": lambda x: lib.maximum(x, lib.zeros(1)),
        "minimum": lambda x: lib.minimum(x, lib.zeros(1)),
        "max": lambda x: x.max(),
        "amax": lambda x: x.amax(0),
        "sqrt": lambda x: x.sqrt(),
        "norm": lambda x: x.norm(),
        "hardtanh": lambda x: lib.nn.functional.hardtanh(x, 0, 1),
    }
    functions[name](zero).sum().backward()
    assert zero.grad.tolist() == expected


def test_38_softmax_of_nothing(lib, sub):
    F = sub("nn.functional")
    assert lib.softmax(lib.full((2,), -math.inf), 0).isnan().all()
    q = lib.ones(1, 1, 2, 4)
    mask = lib.tensor([[False, False], [True, True]])
    out = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert out[0, 0, 0].tolist() == [0, 0, 0, 0] and out[0, 0, 1].tolist() == pytest.approx([1, 1, 1, 1])
    k = lib.arange(3.0).reshape(1, 1, 3, 1)
    out = F.scaled_dot_product_attention(lib.zeros(1, 1, 2, 1), k, k, is_causal=True)
    assert out.flatten().tolist() == pytest.approx([0, 0.5])


def test_39_rounding_and_interpolation(lib, sub):
    F = sub("nn.functional")
    assert lib.round(lib.tensor([0.5, 1.5, 2.5, -0.5])).tolist() == [0, 2, 2, 0]
    x = lib.arange(5.0).reshape(1, 1, 5)
    assert F.interpolate(x, size=3, mode="nearest").flatten().tolist() == [0, 1, 3]
    assert F.interpolate(x, size=3, mode="nearest-exact").flatten().tolist() == [0, 2, 4]
    x = lib.arange(9.0).reshape(1, 1, 3, 3)
    row = F.interpolate(x, size=(4, 4), mode="bicubic", align_corners=False)[0, 0, 0]
    assert row.tolist() == pytest.approx([-0.2871, 0.3145, 1.2549, 1.8564], abs=1e-4)


def test_40_cross_entropy(lib, sub):
    F = sub("nn.functional")
    x = lib.tensor([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    y = lib.tensor([1, 2])
    each = F.cross_entropy(x, y, reduction="none")
    assert each.tolist() == pytest.approx([0.407606, 0.094923], abs=1e-5)
    assert F.cross_entropy(x, lib.tensor([1, -100])).item() == pytest.approx(0.407606, abs=1e-5)
    assert F.cross_entropy(x, lib.tensor([1, 0]), ignore_index=0).item() == pytest.approx(0.407606, abs=1e-5)
    weight = lib.tensor([1.0, 2.0, 1.0])
    assert F.cross_entropy(x, y, weight).item() == pytest.approx((2 * 0.407606 + 0.094923) / 3, abs=1e-5)
    assert F.cross_entropy(x, y, label_smoothing=0.1).item() == pytest.approx(0.401264, abs=1e-5)
    soft = lib.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert F.cross_entropy(x, soft).item() == pytest.approx(each.mean().item(), abs=1e-6)
    assert F.cross_entropy(lib.zeros(2, 3, 4, 5), lib.zeros(2, 4, 5, dtype=lib.int64)).item() == pytest.approx(math.log(3))
    assert math.isnan(F.cross_entropy(x, lib.tensor([-100, -100])).item())


def test_gradients_of_largest_differences(lib):
    for distance in (lib.nn.functional.pdist, lambda x, p: lib.cdist(x[:1], x[1:], p)):
        x = lib.tensor([[2.0, 2.0, 1.0], [-1.0, -1.0, 1.0]], requires_grad=True)
        found = distance(x, math.inf)
        found.sum().backward()
        assert found.tolist() in ([3], [[3]]) and x.grad.tolist() == [[1, 1, 0], [-1, -1, 0]]  # each of equal parts has all of it


@pytest.mark.parametrize("dilation", (1, 2))
@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("layout", ("rows", "channels last", "one dim", "three dims"))
def test_windows_of_nothing_but_minus_infinity_pick_their_first_element(lib, sub, layout, dtype, dilation):
    F = sub("nn.functional")
    n = {"one dim": 1, "three dims": 3}.get(layout, 2)
    x = lib.full((2, 3) + (4,) * n, -math.inf, dtype=getattr(lib, dtype))
    x = x.to(memory_format=lib.channels_last) if layout == "channels last" else x
    pool = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[n]
    kept = {1: [0, 1, 3], 2: [1, 1]}[dilation]  # the first of each window that lies in the row
    for returned in (True, False):
        leaf = x.clone().requires_grad_()
        found = pool(leaf, 2, 2, 1, dilation, False, returned)
        values = found[0] if returned else found
        if returned:
            rows = lib.tensor(kept)
            want = rows
            for _ in range(n - 1):
                want = want[:, None] * 4 + rows if want.dim() == 1 else want[..., None] * 4 + rows
            assert found[1][1, 2].tolist() == want.tolist()
        values.sum().backward()
        counts = [kept.count(k) for k in range(4)]
        slope = lib.tensor(counts)
        for _ in range(n - 1):
            slope = slope[..., None] * lib.tensor(counts)
        assert leaf.grad[1, 2].tolist() == slope.tolist()


def test_acosh_along_the_diagonals_of_infinity(lib):
    inf = math.inf
    z = lib.tensor([complex(inf, inf), complex(-inf, inf), complex(inf, -inf), complex(-inf, -inf)], dtype=lib.complex128)
    assert lib.isinf(z.acosh().real).all()
    assert z.acosh().imag.tolist() == pytest.approx([math.pi / 4, 3 * math.pi / 4, -math.pi / 4, -3 * math.pi / 4])


def test_quantile_looks_at_its_dim_before_its_numbers(lib):
    for f in (lib.quantile, lib.nanquantile):
        with pytest.raises(IndexError):
            f(lib.zeros(2, 2), lib.tensor([2.0]), -3)
        with pytest.raises(RuntimeError):
            f(lib.zeros(2, 2), lib.tensor([2.0]), -2)


def test_the_condition_of_a_singular_matrix_among_others(lib):
    A = lib.tensor([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]])
    for p, first in (("fro", 2.5), (1, 2.0), (math.inf, 2.0)):
        assert lib.linalg.cond(A, p).tolist() == pytest.approx([first, math.inf, math.inf])
