"""Calls with many elements, which kernels of their own make: equal to the general path, or to the same in doubles."""

import math

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau.eager import api
from flambeau.eager.ops import embedding_bag, losses, random as draws, special
from flambeau.runtime import copy_gather, sorting, reductions

FLOATS = ("float32", "float64", "float16", "bfloat16")
ODD = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 3.0, -3.0, 1e-30, 3e38, 1e-42]


def values(dtype, *shape, seed=0, odd=False):
    x = np.random.default_rng(seed + sum(shape)).standard_normal(shape) * 3
    if odd:
        x.reshape(-1)[: len(ODD)] = ODD
    return fb.tensor(x).to(getattr(fb, dtype)) if dtype != "bool" else fb.tensor(x > 0)


def double(x):
    return x.detach().double().numpy()


def near(got, wanted, dtype, scale=4):
    """Within a few units in the last place; NaN and infinities alike."""
    got, unit = double(got), {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    np.testing.assert_allclose(got, wanted, rtol=scale * unit, atol=scale * unit)


# -- sums


@pytest.mark.parametrize("dtype", ["int64", "bool", *FLOATS])
@pytest.mark.parametrize(
    "shape, dim",
    [
        ((5000,), None),
        ((70000,), 0),
        ((90, 77), -1),
        ((90, 77), 0),
        ((13, 40, 11), 1),
        ((9, 700), (0, 1)),
        ((2, 4000), 1),
        ((33000, 1), 0),
        ((7, 3, 997), (1, 2)),
    ],
)
def test_sums_have_the_bits_of_the_record(dtype, shape, dim):
    x = values(dtype, *shape) if dtype != "int64" else fb.tensor(np.random.default_rng(1).integers(-(2**62), 2**62, shape))
    for name in ("sum", *(("mean", "nansum", "prod") if dtype in FLOATS else ())):
        for keepdim in (False, True):
            functions = getattr(api, name), getattr(api, name).__wrapped__
            if name == "prod" and (dim is None or isinstance(dim, tuple)):
                got, wanted = (f(x / 3 + 1) for f in functions)
            else:
                got, wanted = (f(x, dim, keepdim) for f in functions)
            assert got.dtype is wanted.dtype and got.shape == wanted.shape
            assert fb.equal(got, wanted) or bool(got.isnan().any()), (name, dim)
    if dtype == "int64":
        axis = dim if dim is None or isinstance(dim, tuple) else (dim,)
        assert np.array_equal(x.sum(dim).numpy() if dim is not None else x.sum().numpy(), x.numpy().sum(axis))


@pytest.mark.parametrize("dtype", FLOATS)
def test_nansum_leaves_out_what_is_no_number(dtype):
    x = values(dtype, 90, 100)
    x[3, 5] = x[80, 99] = math.nan
    near(x.nansum(-1), np.nansum(double(x), -1), dtype, 400)
    near(x.nansum(0), np.nansum(double(x), 0), dtype, 400)
    y = x.clone().requires_grad_()
    y.nansum().backward()
    assert fb.equal(y.grad, (x == x).to(x.dtype))
    assert fb.tensor([1, 2]).nansum().dtype is fb.int64


@pytest.mark.parametrize(
    "shape, dim", [((3000, 3), 1), ((3000, 2), 1), ((40, 20, 15), (0, 2)), ((4000, 4), 1), ((60, 9, 60), (0, 2))]
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_short_rows_add_up(dtype, shape, dim):
    x = values(dtype, *shape)
    n = math.prod(shape[d] for d in (dim if isinstance(dim, tuple) else (dim,)))
    near(x.sum(dim) / n, double(x).mean(dim), dtype, 8)
    if isinstance(dim, int):
        near(x.prod(1), double(x).prod(1), dtype, 64)


@pytest.mark.parametrize("shape", [(7, 64), (40, 333), (5, 3, 100)])
def test_extremes_of_whole_numbers_with_places(shape):
    x = fb.tensor(np.random.default_rng(0).integers(-9, 9, shape))
    for name in ("max", "min"):
        found, at = getattr(x, name)(-1)
        assert np.array_equal(found.numpy(), getattr(x.numpy(), name)(-1))
        assert np.array_equal(at.numpy(), getattr(x.numpy(), "arg" + name)(-1))


# -- maps


@pytest.mark.parametrize(
    "shapes",
    [
        ((700, 16), (700, 1)),
        ((700, 16), (16,)),
        ((700, 16), (1, 1)),
        ((30, 5, 7), (5, 1)),
        ((30, 5, 7), (30, 1, 7)),
        ((3, 200, 33), (200, 33)),
        ((50, 300), (50, 1)),
        ((200, 7), (7, 200, "t")),
        ((2000, 2), (2000, 1)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8"])
def test_short_rows_go_side_by_side(shapes, dtype):
    a = values("float64", *shapes[0])
    b = values("float64", *shapes[1][:2], seed=5).t() if shapes[1][-1] == "t" else values("float64", *shapes[1], seed=5)
    kind = getattr(fb, dtype)
    a, b = (a * 5 + 30).to(kind), (b * 5 + 30).to(kind)
    with np.errstate(all="ignore"):
        x, y = a.numpy(), b.numpy()
        wide = np.float32 if dtype == "float16" else x.dtype
        assert np.array_equal((a + b).numpy(), (x.astype(wide) + y.astype(wide)).astype(x.dtype))
        assert np.array_equal((a * b).numpy(), (x.astype(wide) * y.astype(wide)).astype(x.dtype))
        assert np.array_equal((b < a).numpy(), y < x)
        assert np.array_equal(fb.where(a > 30, a, b).numpy(), np.where(x > 30, x, y))
        c = a.clone()
        c += b
        assert fb.equal(c, a + b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_greater_and_the_less(dtype):
    a, b = values(dtype, 20000, odd=True), values(dtype, 20000, seed=3, odd=True).flip(0)
    b[:12] = a[:12].flip(0)
    for x, y in ((a, b), (a[::2], b[::2]), (a, b[:1]), (a[:1], b), (a, fb.tensor(math.nan, dtype=a.dtype))):
        assert np.array_equal(fb.maximum(x, y).numpy(), np.maximum(x.numpy(), y.numpy()), equal_nan=True)
        assert np.array_equal(fb.minimum(x, y).numpy(), np.minimum(x.numpy(), y.numpy()), equal_nan=True)
    for n in (100, 20000):
        x = a[:n]
        assert np.array_equal(x.clamp(-1, 1).numpy(), np.minimum(np.maximum(x.numpy(), -1), 1), equal_nan=True)
        assert np.array_equal(x.clone().clamp_(max=0.5).numpy(), np.minimum(x.numpy(), 0.5), equal_nan=True)
        assert np.array_equal(fb.relu(x).numpy(), np.maximum(x.numpy(), 0), equal_nan=True)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_truth_of_two(dtype):
    a, b = values("float64", 5000, odd=True), values("float64", 5000, seed=3, odd=True).flip(0)
    if dtype == "int64":
        a, b = a.clamp(-2, 2).nan_to_num(0).long(), b.clamp(-2, 2).nan_to_num(0).long()
    a, b = a.to(getattr(fb, dtype)), b.to(getattr(fb, dtype))
    for x, y in ((a, b), (a[::2], b[::2]), (a, b[:1]), (a[:1], b)):
        assert np.array_equal(fb.logical_and(x, y).numpy(), np.logical_and(x.numpy(), y.numpy()))
        assert np.array_equal(fb.logical_or(x, y).numpy(), np.logical_or(x.numpy(), y.numpy()))


def test_signs():
    x = fb.tensor([0, 5, -5, 2**63 - 1, -(2**63)] * 40)
    assert np.array_equal(x.sign().numpy(), np.sign(x.numpy())) and np.array_equal(x[::3].sign().numpy(), np.sign(x[::3].numpy()))
    for dtype in ("float16", "bfloat16"):
        for y in (values(dtype, 1001, odd=True), values(dtype, 60, 7, odd=True).t()):
            assert np.array_equal(double(-y), -double(y), equal_nan=True)
            assert np.array_equal(double(y.abs()), np.abs(double(y)), equal_nan=True)
            assert bool(fb.signbit(-fb.zeros(9, dtype=y.dtype)).all())


@pytest.mark.parametrize("n", [1, 15, 16, 33, 5000])
def test_two_halves_are_rounded_once(n):
    a, b = values("float16", n), values("float16", n, seed=9)
    for f in (fb.add, fb.sub, fb.mul):
        for x, y in ((a, b), (a, b.flip(0)[::1]), (a, b[:1])):
            assert fb.equal(f(x, y), f(x.float(), y.float()).half())


@pytest.mark.parametrize("weight", [0.3, 0.5, -0.2, 0.75, 1.0])
@pytest.mark.parametrize("dtype", FLOATS)
def test_between_with_history(weight, dtype):
    x, y = values(dtype, 300).requires_grad_(), values(dtype, 300, seed=2).requires_grad_()
    out = fb.lerp(x, y, weight)
    near(out, double(x) + (double(y) - double(x)) * weight, dtype, 8)
    assert fb.equal(out, fb.lerp(x.detach(), y.detach(), weight))
    assert fb.equal(fb.lerp(x, x, weight), x)
    out.sum().backward()
    near(x.grad, np.full(300, 1 - weight), dtype)


MAPS = {
    "hardshrink": lambda x: np.where(np.abs(x) <= 0.5, x * 0, x),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "softshrink": lambda x: np.where(x > 0.5, x - 0.5, np.where(-x > 0.5, x + 0.5, x * 0)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", MAPS)
def test_maps_with_kernels(name, dtype):
    x = values(dtype, 20011, odd=True)
    x[10] = 1e30 if dtype != "float16" else 1e3  # (hardswish: six times 3e38)
    with np.errstate(all="ignore"):
        near(getattr(F, name)(x), MAPS[name](double(x)), dtype)
    near(getattr(F, name)(x)[:500], double(getattr(F, name)(x[:500])), dtype)
    for part in (x[20:], x[20:600]):
        y = part.clone().requires_grad_()
        getattr(F, name)(y).sum().backward()
        z = part.double().requires_grad_()
        getattr(F, name)(z).sum().backward()
        edge = np.abs(np.abs(double(part)) - (3 if name == "hardswish" else 0.5)) < 1e-2
        near(y.grad[fb.tensor(~edge)], double(z.grad)[~edge], dtype, 8)


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_distribution_and_its_inverse(dtype):
    x = values(dtype, 20000, odd=True) * (1 if dtype in ("float16",) else 3)
    wanted = [0.5 * math.erfc(-v * math.sqrt(0.5)) for v in double(x)]
    got = double(special.ndtr(x))
    tiny = {"float32": 1e-36, "float64": 1e-300, "float16": 1e-4, "bfloat16": 1e-36}[dtype]
    near(fb.tensor(np.where(np.array(wanted) > tiny, got, wanted)), wanted, dtype, 16)
    rel = np.abs(got - wanted) / np.maximum(np.abs(wanted), tiny)
    assert np.nanmax(rel) < 1e-5 if dtype == "float32" else True
    p = fb.linspace(0.001, 0.999, 3001, dtype=fb.float64).to(x.dtype)
    back = special.ndtr(special.ndtri(p.double()))
    near(back, double(p), "float64", 64)
    near(special.ndtri(p), double(special.ndtri(p.double())), dtype, 4)
    close = fb.tensor([0.5 - 2.0**-25, 0.5, 0.5 + 2.0**-24, 0.4995, 0.50051, 0.0, 1.0, 1e-30]).to(x.dtype)
    near(special.ndtri(close), double(special.ndtri(close.double())), dtype, 4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "loss, extra",
    [
        (F.huber_loss, {"delta": 0.7}),
        (F.smooth_l1_loss, {"beta": 1.5}),
        (F.mse_loss, {}),
        (F.huber_loss, {"delta": 2.0, "reduction": "sum"}),
        (F.mse_loss, {"reduction": "none"}),
    ],
)
def test_losses_of_pairs(loss, extra, dtype):
    for n in (40, 20000):
        x, y = values(dtype, n).requires_grad_(), values(dtype, n, seed=4).requires_grad_()
        a, b = x.detach().double().requires_grad_(), y.detach().double().requires_grad_()
        for p, q in ((x, y), (a, b)):
            out = loss(p, q, **extra)
            out.backward(fb.ones_like(out))
        scale = n if extra.get("reduction", "mean") == "mean" else 1
        near(
            x.grad * scale if dtype != "float16" else x.grad.double() * scale,
            double(a.grad) * scale,
            dtype if n < 1000 or dtype != "float16" else "bfloat16",
            8,
        )
        near((y.grad + x.grad), np.zeros(n), dtype)


def test_the_slope_of_losses_has_gradients():
    x, y = (values("float64", 40, seed=k).requires_grad_() for k in (1, 2))
    assert fb.autograd.gradcheck(lambda a, b: losses.bent_line(a, b, 0.7, 1.3, 0.9), (x, y))
    assert fb.autograd.gradgradcheck(lambda a, b: F.huber_loss(a, b), (x, y))
    assert fb.autograd.gradgradcheck(F.mse_loss, (x, y))
    assert fb.autograd.gradgradcheck(F.hardswish, (x,))
    assert fb.autograd.gradgradcheck(lambda a: a**3, (x,))


# -- by index


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "int32", "int16", "uint8"])
def test_sums_at_indices(dtype):
    index = fb.tensor(np.random.default_rng(0).integers(0, 50, 9000))
    x = (
        values("float64", 9000).mul(2).to(getattr(fb, dtype))
        if dtype != "uint8"
        else fb.tensor(np.arange(9000) % 7, dtype=fb.uint8)
    )
    got = fb.zeros(50, dtype=x.dtype).scatter_add(0, index, x)
    wanted = np.zeros(50, x.numpy().dtype if dtype not in ("float16", "bfloat16") else np.float64)
    np.add.at(wanted, index.numpy(), x.numpy() if wanted.dtype != np.float64 else double(x))
    if dtype in ("float16", "bfloat16"):
        np.testing.assert_allclose(double(got), wanted, rtol=0.2, atol=8)
    else:
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-3)
    if dtype in FLOATS:
        y = fb.zeros(50, dtype=x.dtype, requires_grad=True)
        y[index - 50].backward(fb.ones_like(x))
        if dtype in ("float32", "float64"):
            assert np.array_equal(y.grad.numpy(), np.bincount(index.numpy(), minlength=50))


@pytest.mark.parametrize("bad", [50, -1, 2**40, -(2**63)])
@pytest.mark.parametrize("at", [0, 4999, 8999])
def test_an_index_out_of_range_is_found_wherever_it_is(bad, at):
    index = np.zeros(9000, np.int64)
    index[at] = bad
    x, k = values("float32", 50), fb.tensor(index)
    for call in (lambda: x.gather(0, k), lambda: x.scatter(0, k, k.float()), lambda: x.scatter_add(0, k, k.float())):
        with pytest.raises(RuntimeError, match="out of bounds"):
            call()
    if bad != -1:
        with pytest.raises(IndexError, match="out of bounds"):
            x[k]
    else:
        assert float(x[k][at]) == float(x[-1])


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_greatest_of_bags(dtype):
    weight = values(dtype, 40, 21)
    index = fb.tensor(np.random.default_rng(0).integers(0, 40, 300))
    weight[int(index[5])] = weight[int(index[6])] = 3.0
    first = fb.tensor([0, 0, 7, 7, 200, 300])
    got = embedding_bag.bag_winners(weight, index, first, 3)
    assert fb.equal(got, embedding_bag.bag_winners.fn(weight, index, first, 3))
    wanted = F.embedding_bag(index, weight, first[:-1], mode="max", padding_idx=3)
    for bag in range(5):
        rows = [int(k) for k in index[int(first[bag]) : int(first[bag + 1])] if int(k) != 3]
        best = double(weight)[rows].max(0) if rows else np.zeros(21)
        assert np.array_equal(double(wanted[bag]), best)
    weight[int(index[9]), 4] = math.nan
    weight[int(index[0]), 2] = math.nan
    assert fb.equal(embedding_bag.bag_winners(weight, index, first, -1), embedding_bag.bag_winners.fn(weight, index, first, -1))


# -- order and draws


@pytest.mark.parametrize("n", [3, 40, 9000, 300000])
@pytest.mark.parametrize("kind", ["int64", "float32", "bool", "uint8", "float64"])
def test_unique(n, kind):
    x = values("float64", n).mul(20).round()
    x = x.to(getattr(fb, kind)) if kind != "uint8" else x.abs().to(fb.uint8)
    got = fb.unique(x, return_inverse=True, return_counts=True)
    wanted = np.unique(x.numpy(), return_inverse=True, return_counts=True)
    for a, b in zip(got, wanted):
        assert np.array_equal(a.numpy(), b)
    assert fb.equal(fb.unique(x), got[0])


def test_every_nan_is_another_one_for_unique():
    x = fb.tensor([1.0, math.nan, 0.0, math.nan, -0.0] * 20)
    found, at, counts = fb.unique(x, return_inverse=True, return_counts=True)
    assert found.shape == (42,) and int(counts.sum()) == 100 and len(set(at[1::5].tolist() + at[3::5].tolist())) == 40
    assert bool(found[2:].isnan().all()) and counts[:2].tolist() == [40, 20]


@pytest.mark.parametrize("n, bits", [(100, 53), (5000, 40), (100000, 53), (300000, 20)])
def test_wide_keys_are_sorted_stably(n, bits):
    x = np.random.default_rng(n).integers(0, 1 << bits, n)
    x[::7] = x[3]
    alike = x % 200  # but for one, all keys agree in their upper bits
    alike[n // 2] = 1 << bits
    for y in (x, x - (1 << bits - 1), x % 50 - 25, alike):
        found, at = sorting.sort(y, 0, False)
        wanted = np.argsort(y, kind="stable")
        assert np.array_equal(at, wanted) and np.array_equal(found, y[wanted])
        found, at = sorting.sort(y, 0, True)
        assert np.array_equal(at, np.argsort(-y, kind="stable")) and np.array_equal(found, y[at])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 100, 5000])
def test_how_many_edges_are_reached(n, dtype):
    edges = np.sort(np.random.default_rng(n).random((6, n)).astype(dtype), -1)
    x = np.concatenate([np.random.default_rng(1).random((6, 30)).astype(dtype), edges[:, :1], edges[:, -1:]], 1)
    assert np.array_equal(sorting.edges_below(edges, x), (edges[:, None, :] <= x[..., None]).sum(-1))


def test_weights_of_draws_are_checked():
    good = fb.rand(100000) + 0.01
    for bad, text in ((math.nan, "inf"), (math.inf, "inf"), (-1.0, "element < 0")):
        w = good.clone()
        w[777] = bad
        with pytest.raises(RuntimeError, match=text):
            fb.multinomial(w, 5, True)
    with pytest.raises(RuntimeError, match="sum of probabilities"):
        fb.multinomial(fb.zeros(5000), 5, True)
    w = fb.zeros(5000)
    w[4000] = 1
    assert fb.multinomial(w, 7, True).tolist() == [4000] * 7
    assert draws.last_weight(w[None]).tolist() == [[4000]]


# -- halves: one rounding of what single precision gives

HALF_PAIRS = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "maximum": fb.maximum,
    "minimum": fb.minimum,
    "by a number": lambda x, y: x * 0.3,
    "and a number": lambda x, y: x + 1000.1,
    "of a number": lambda x, y: 0.7 / x,
    "from a number": lambda x, y: 1 - x,
    "relu": lambda x, y: F.relu(x),
    "square": lambda x, y: x * x,
    "threshold": lambda x, y: F.threshold(x, 0.1, 7.7),
    "sign": lambda x, y: fb.sign(x),
    "choice": lambda x, y: fb.where(x > 0, x, y),
    "choice and number": lambda x, y: fb.where(x > 0, 0.3, y),
    "choice of less": lambda x, y: fb.where(x <= y, x, y * 2),
}


@pytest.mark.parametrize("name", HALF_PAIRS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_single_precision_rounded_once(name, dtype):
    f, half = HALF_PAIRS[name], getattr(fb, dtype)
    for shape in ((), (0,), (1,), (7,), (8,), (257,), (3000,), (70001,), (40, 33)):
        x, y = (values("float32", *shape, seed=k, odd=math.prod(shape) > 20).to(half) for k in range(2))
        if math.prod(shape) > 40:
            y.view(-1)[5 : 5 + len(ODD)] = fb.tensor(ODD).to(half)
        for a, b in (
            (x, y),
            (x.mT, y.mT) if x.ndim == 2 else (x, y),
            (x[::2], y[1::2][: len(x[::2])]) if len(shape) == 1 else (x, y),
        ):
            if a.shape != b.shape:
                b = a
            got, wanted = f(a, b), f(a.float(), b.float()).to(half)
            assert got.dtype is half and got.stride() == fb.empty_like(wanted).stride()
            assert fb.equal(got.isnan(), wanted.isnan())
            assert fb.equal(got.nan_to_num(5.0).view(fb.int16), wanted.nan_to_num(5.0).view(fb.int16)), (shape, got, wanted)
            target = a.clone()
            assert fb.equal(target.copy_(got).nan_to_num(5.0), got.nan_to_num(5.0))


def test_halves_are_written_in_place_with_gaps():
    room = values("float16", 900, seed=4)
    x, y = room.clone(), values("float16", 300, seed=5)
    x[1::3].mul_(y).add_(1.5)
    assert fb.equal(x[1::3], ((room[1::3].float() * y.float()).half().float() + 1.5).half())
    assert fb.equal(x[::3], room[::3]) and fb.equal(x[2::3], room[2::3])


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "bfloat16", "int32", "float64"])
def test_choices_among_elements_of_any_width(dtype):
    x, y = ((values("float32", 3001, seed=k) * 20).to(getattr(fb, dtype)) for k in range(2))
    on = values("float32", 3001, seed=9) > 0.3
    for a, b in ((x, y), (x[:1], y), (x, y[:1]), (x[:1], y[:1])):
        wanted = np.where(on.numpy(), a.double().numpy(), b.double().numpy())
        assert np.array_equal(fb.where(on, a, b).double().numpy(), wanted)
    assert np.array_equal(fb.where(on[::2], x[::2], y[::2]).double().numpy(), wanted_of(on, x, y)[::2])


def wanted_of(on, x, y):
    return np.where(on.numpy(), x.double().numpy(), y.double().numpy())


# -- draws


@pytest.mark.parametrize("batch, sample", [((), ()), ((3,), ()), ((2, 3), (4,)), ((5000,), ())])
def test_counts_of_drawn_categories(batch, sample):
    p = values("float32", *batch, 6).abs() + 0.05
    d = fb.distributions.Multinomial(9, p)
    fb.manual_seed(2)
    got = d.sample(sample)
    fb.manual_seed(2)
    drawn = fb.distributions.Categorical(p).sample((9, *sample))
    assert got.shape == (*sample, *batch, 6) and got.dtype is fb.float32
    assert fb.equal(got, F.one_hot(drawn, 6).sum(0).float())


# -- moves


@pytest.mark.parametrize("dtype", ["float16", "bool", "float32", "int64"])
@pytest.mark.parametrize("shape, dim", [((300, 120), 0), ((40, 30, 50), 1), ((3, 200, 77), 1), ((40, 30, 50), 0), ((500, 90), 1)])
def test_rows_by_index(dtype, shape, dim):
    x = values(dtype, *shape)
    index = fb.tensor(np.random.default_rng(3).integers(0, shape[dim], 2 * shape[dim] + 1))
    threads = fb.get_num_threads()
    try:
        for count in {1, threads}:
            fb.set_num_threads(count)
            got = x.index_select(dim, index)
            assert got.is_contiguous() and fb.equal(got, fb.from_numpy(np.take(x.numpy(), index.numpy(), dim)))
            with pytest.raises(IndexError):
                x.index_select(dim, index + shape[dim])
    finally:
        fb.set_num_threads(threads)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
@pytest.mark.parametrize("shape", [(200, 130), (65, 300), (3, 70, 90)])
def test_turned_copies(shape, dtype):
    x = values(dtype, *shape)
    for k in (1, 2, 3):
        assert np.array_equal(fb.rot90(x, k, (-2, -1)).numpy(), np.rot90(x.numpy(), k, (-2, -1)))
    y = x.transpose(-1, -2).flip(-2)
    assert np.array_equal(y.contiguous().numpy(), y.numpy())


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("times", [(2, 3), (1, 1), (2, 1, 2), (3, 1), (1, 4), (0, 2)])
def test_repeated(times, dtype):
    for x in (values(dtype, 100, 90), values(dtype, 90, 100).t(), values(dtype, 3, 2)):
        assert np.array_equal(x.repeat(*times).numpy(), np.tile(x.numpy(), times))
    assert np.array_equal(values(dtype, 9001).tile((2,)).numpy(), np.tile(values(dtype, 9001).numpy(), 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_, np.float16])
def test_large_zeros(dtype):
    for n in (3, 1 << 17, (1 << 21) + 13):
        held = copy_gather.zeros((n,), dtype)
        held[...] = 1
        del held
        assert not copy_gather.zeros((n,), dtype).any()


@pytest.mark.parametrize("n", [1, 2, 9999, 10000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_evenly(n, dtype):
    got = copy_gather.evenly(-1.0, 3.0, 4.0 / max(n - 1, 1), n, np.dtype(dtype))
    if n < copy_gather.SMALL:
        assert got is NotImplemented
        return
    half, step = (n + 1) // 2, dtype(4.0 / (n - 1))
    wanted = np.concatenate(
        (np.arange(half).astype(dtype) * step + dtype(-1), dtype(3) - np.arange(n - 1 - half, -1, -1).astype(dtype) * step)
    )
    assert np.array_equal(got, wanted)


def test_halves_of_vectors():
    for dtype in ("float16", "bfloat16"):
        x, y = values(dtype, 10000) / 30, values(dtype, 10000, seed=3) / 30
        near(x @ y, double(x) @ double(y), dtype, 8)
        assert reductions.dot(x.numpy() if dtype == "float16" else x._fl_array, y._fl_array).shape == ()
        a, b = values(dtype, 200, 100) / 30, values(dtype, 100, seed=3) / 30
        near(a @ b, double(a) @ double(b), dtype, 8)
        near(b @ a.t(), double(a) @ double(b), dtype, 8)


# -- images


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_planes_at_the_places_of_a_grid(mode, padding, align):
    """Registers of points have the values and gradients of doubles, which go one by one."""
    x, grid = values("float32", 2, 3, 9, 7), values("float32", 2, 6, 7, 2, seed=3) / 2
    grid[0, 0, 0] = fb.tensor([1.0, 1.0])
    grid[0, 0, 1] = fb.tensor([-1.0, 0.0])
    grid[1, 5, 6] = fb.tensor([40.0, -3.0])
    found = []
    for kind in (fb.float32, fb.float64):
        a, b = (t.to(kind, copy=True).requires_grad_() for t in (x, grid))
        out = F.grid_sample(a, b, mode=mode, padding_mode=padding, align_corners=align)
        out.backward(fb.linspace(-1, 1, out.numel(), dtype=kind).reshape(out.shape))
        found.append((out, a.grad, b.grad))
    for got, wanted in zip(*found):
        np.testing.assert_allclose(double(got), double(wanted), rtol=2e-4, atol=2e-4)
    odd = grid.clone()
    odd[0, 2, 3] = math.nan
    odd[0, 2, 4] = math.inf
    a, b = (
        F.grid_sample(x.to(k), odd.to(k), mode=mode, padding_mode=padding, align_corners=align) for k in (fb.float32, fb.float64)
    )
    np.testing.assert_allclose(double(a), double(b), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("last", [False, True])
def test_maxima_of_halves_have_gradients(dtype, last):
    x = values(dtype, 2, 5, 12, 14)
    x = x.to(memory_format=fb.channels_last) if last else x
    y, z = x.clone().requires_grad_(), x.double().requires_grad_()
    for t in (y, z):
        F.max_pool2d(t, 3, 2, 1).sum().backward()
    assert np.array_equal(double(y.grad), double(z.grad))


# -- functions that are exact, or rounded once, in vectors of our own

EXACT = {
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


def odd_numbers(n):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32) * 9
    odd = np.array(
        [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 1e-42, -1e-42, 3e38, 8388607.5, 16777217.0], np.float32
    )
    x[: len(odd)] = odd[:n]
    return x


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_exact_functions(dtype):
    with np.errstate(all="ignore"):
        for n in (1, 7, 15, 16, 33, 1000, 5000):
            x = fb.tensor(odd_numbers(n)).to(getattr(fb, dtype))
            wide = x.numpy().astype(np.float32)
            for name, f in EXACT.items():
                wanted = f(wide).astype(x.numpy().dtype)
                for found in (getattr(fb, name)(x), getattr(fb, name)(x.repeat_interleave(2)[::2])):
                    np.testing.assert_array_equal(found.numpy(), wanted, err_msg=name)
                    whole = ~np.isnan(wanted)
                    np.testing.assert_array_equal(np.signbit(found.numpy())[whole], np.signbit(wanted)[whole], err_msg=name)
            other = x.flip(0)
            for found, a, b in (
                (x / other, wide, wide[::-1]),
                (x / 3, wide, np.float32(3)),
                (3 / x, np.float32(3), wide),
                (x[::2] / other[::2], wide[::2], wide[::-1][::2]),
            ):
                np.testing.assert_array_equal(found.numpy(), (a / b).astype(x.numpy().dtype))
            np.testing.assert_array_equal(fb.signbit(x).numpy(), np.signbit(x.numpy()))
            np.testing.assert_array_equal(fb.signbit(x[::2]).numpy(), np.signbit(x.numpy()[::2]))


def test_signs_of_other_types():
    assert fb.signbit(fb.tensor([-1, 0, 3])).tolist() == [True, False, False]
    assert fb.signbit(fb.tensor([-0.0, 1.0, -2.5], dtype=fb.bfloat16)).tolist() == [True, False, True]
    assert (
        fb.signbit(fb.tensor([-0.0, 1.0], dtype=fb.float64)).tolist() == [True, False]
        and fb.signbit(fb.tensor(-3.0)).item() is True
    )
    assert fb.signbit(fb.tensor([True, False])).tolist() == [False, False]
    with pytest.raises((RuntimeError, TypeError)):
        fb.signbit(fb.tensor([1j]))


def test_halves_with_gaps():
    for n in (3, 16, 17, 255, 256, 300, 1000):
        x, y = (fb.randn(n, 4, generator=fb.Generator().manual_seed(s)).half() for s in (1, 2))
        for f in (fb.add, fb.sub, fb.mul):
            for a, b in (
                (x[:, 1], y[:, 2]),
                (x[:, 1], y[:, 2].contiguous()),
                (x.t()[2], y[0, 0]),
                (x[0, 0], y[:, 3]),
                (x.t(), y.t().contiguous()),
            ):
                assert fb.equal(f(a, b), f(a.float(), b.float()).half())
        z = x.clone()
        z[:, 1] += y[:, 2]
        z.t()[2] *= y[:, 0]
        assert fb.equal(z[:, 1], x[:, 1] + y[:, 2]) and fb.equal(z[:, 2], x[:, 2] * y[:, 0]) and fb.equal(z[:, 0], x[:, 0])


def test_columns_that_are_repeated():
    for n, m in ((316, 316), (3000, 2), (2, 3000), (200, 17), (5, 1)):
        for dtype in (fb.float32, fb.int64, fb.float16, fb.bool):
            x = fb.arange(n).to(dtype)
            assert fb.equal(x[:, None].expand(n, m).contiguous(), fb.stack([x] * m, 1))
            assert fb.equal(x[:, None, None].expand(n, m, 3).contiguous(), fb.stack([fb.stack([x] * m, 1)] * 3, 2))


# -- calls that are native however many elements they have


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(100_000,), (5000,), (316, 316), (3, 70, 40), (600, 100)])
def test_extremes_of_floats(dtype, shape):
    """NaN wins wherever it stands; what is saved for the gradient is the result."""
    x = values(dtype, *shape)
    for name in ("max", "min"):
        for dim in (None, 0, len(shape) - 1):
            wanted = getattr(np, name)(double(x), axis=dim)
            found = getattr(x, "a" + name)() if dim is None else getattr(x, "a" + name)(dim)
            assert found.dtype is x.dtype and (double(found) == wanted).all()
        assert getattr(x, name)().item() == getattr(np, name)(double(x))
    y = x.clone().requires_grad_()
    y.max().backward()
    assert y.grad.sum() == 1 and y.grad.reshape(-1)[int(double(x).argmax())] > 0
    x.reshape(-1)[-2] = math.nan
    assert x.max().isnan() and x.min().isnan() and x.amax(0).isnan().sum() == 1
    assert (fb.full((5000,), -math.inf, dtype=x.dtype).max() == -math.inf) and (x.fill_(-0.0).max() == 0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape, dim", [((316, 316), 0), ((4, 50, 70), 1), ((5, 128, 33), 1), ((9, 500), 0)])
def test_sums_of_columns_have_the_bits_of_the_record(dtype, shape, dim):
    x = values(dtype, *shape)
    got, kernel = x.sum(dim), reductions.reduce("sum", x.numpy() if dtype != "bfloat16" else x._fl_array, (dim,), False)
    assert (double(got) == np.asarray(kernel, np.float64)).all()
    near(x.mean(dim, keepdim=True), double(x).mean(dim, keepdims=True), dtype, 64)


@pytest.mark.parametrize("n", [7, 9000, 100_000])
def test_the_sign_of_floats_in_one_loop(n):
    x = values("float32", n + 10, odd=True)[: n // 2 + 7]
    x = fb.cat([x, values("float32", n)])
    wanted = np.where(np.isnan(x.numpy()), 0, np.sign(x.numpy()))
    for got, w in ((x.sign(), wanted), (x[::3].sign(), wanted[::3]), (x.clone().sign_(), wanted)):
        assert (got.numpy() == w).all() and not np.signbit(got.numpy()[w == 0]).any()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_the_kth_of_many(dtype):
    """Of equals, the one that a stable order has there; zeros of either sign are equal."""
    x = (values("float64", 3, 9000) * 4).round().to(getattr(fb, dtype))
    order = np.argsort(x.numpy(), -1, kind="stable")
    for k in (1, 3, 4500, 9000):
        found, places = x.kthvalue(k)
        assert (places.numpy() == order[:, k - 1]).all() and fb.equal(found, x.gather(1, places[:, None])[:, 0])
    assert (x.median(1).indices.numpy() == order[:, 4499]).all()
    if x.is_floating_point():
        x[1, 5] = math.nan
        assert x.kthvalue(9000).values[1].isnan() and x.kthvalue(9000).indices[1] == 5


@pytest.mark.parametrize("sizes", [(100, 50), (2, 1), (1, 30), (3000, 20), (0, 4), (4, 0)])
@pytest.mark.parametrize("dtype", ["int64", "int32", "float32", "float16", "float64"])
def test_which_are_among_others(dtype, sizes):
    rng = np.random.default_rng(1)
    x, y = (fb.tensor(rng.integers(-20, 40, n)).to(getattr(fb, dtype)) for n in sizes)
    if x.is_floating_point() and all(sizes):
        x[0], y[-1] = math.nan, math.nan
    wanted = (x.numpy().reshape(-1, 1) == y.numpy()).any(-1)
    assert (fb.isin(x, y).numpy() == wanted).all() and (fb.isin(x, y, invert=True).numpy() == ~wanted).all()
    assert fb.isin(x.reshape(1, -1).t(), y).shape == (sizes[0], 1)


@pytest.mark.parametrize("dtype", ["bool", "float16", "int64"])
@pytest.mark.parametrize("sides", [(223, 223), (1500, 40), (2000, 70)])
def test_parts_and_rows_of_few_bytes(dtype, sides):
    x = values("bool", *sides).to(getattr(fb, dtype))
    k = fb.tensor(np.random.default_rng(2).integers(-sides[0], sides[0], sides[0]))
    assert (fb.cat([x, ~x if dtype == "bool" else -x], -1).numpy()[:, : sides[1]] == x.numpy()).all()
    assert (x[k].numpy() == x.numpy()[k.numpy()]).all() and x[k].is_contiguous()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("window", [(2,), (3, 2, 1), (3, 1, 1, 2), (4, 3), (1,)])
def test_maxima_of_windows_of_one_row(dtype, window):
    """Without places, the values that stand with them."""
    x = values(dtype, 2, 8, 3001)
    x.reshape(-1)[: 4 * len(ODD)] = fb.tensor(ODD * 4).to(x.dtype)
    x[1, 3] = -math.inf
    alone, (beside, _) = F.max_pool1d(x, *window), F.max_pool1d(x, *window, return_indices=True)
    assert fb.equal(alone.isnan(), beside.isnan()) and fb.equal(alone.nan_to_num(7), beside.nan_to_num(7))
    assert (np.signbit(double(alone)) == np.signbit(double(beside)))[~np.isnan(double(beside))].all()
    flat = F.max_pool2d(x[None], (1, window[0]), (1, window[0]))
    assert fb.equal(flat[0].nan_to_num(7), F.max_pool1d(x, window[0]).nan_to_num(7))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [1000, 70_000, 900_001])
def test_copies_into_large_tensors(n, threads):
    """Of one type, of another, from rows and columns that are repeated, from every second element, onto itself."""
    before = fb.get_num_threads()
    fb.set_num_threads(threads)
    try:
        x, wide = values("float32", n), values("float32", 3, n)
        for source in (x, x.half(), x.bfloat16(), x.double(), (x * 7).long(), x > 0, x.repeat_interleave(2)[::2], x.flip(0)):
            for kind in ("float32", "float16", "float64", "int64", "bool"):
                y = fb.zeros(n, dtype=getattr(fb, kind))
                with np.errstate(all="ignore"):
                    wanted = double(source.to(y.dtype))
                version = y._version
                assert y.copy_(source) is y and y._version == version + 1
                assert np.array_equal(double(y), wanted, equal_nan=True)
        y = fb.zeros(3, n)
        assert fb.equal(y.copy_(x[None, :]), fb.stack([x] * 3)) and fb.equal(y.copy_(y), y)
        assert fb.equal(fb.zeros(n, 3).copy_(wide.t()), wide.t()) and fb.equal(
            fb.zeros(n, 3).copy_(x[:, None]), fb.stack([x] * 3, 1)
        )
        assert fb.equal(fb.zeros(3, 2 * n)[:, ::2].copy_(wide), wide) and fb.equal(fb.zeros(3, n + 1)[:, 1:].copy_(wide), wide)
        with pytest.raises(RuntimeError, match="overlap|share|memory"):
            x[1:].copy_(x[:-1])
    finally:
        fb.set_num_threads(before)


# -- the middle one, and elements that move in a circle


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("count", [16385, 40000])
def test_medians_of_many(dtype, count):
    for x in (values(dtype, count), (values(dtype, count) / 3).round().to(getattr(fb, dtype)), values(dtype, count // 5, 5).t()):
        middle = np.sort(x.numpy(), axis=None)[(x.numel() - 1) // 2]
        assert fb.median(x).item() == middle and fb.median(x).dtype is x.dtype
    if dtype in FLOATS:
        x = values(dtype, count)
        x[7] = math.nan
        assert math.isnan(fb.median(x))
        before = x.tolist()
        x[7] = 0.5
        fb.median(x)
        assert x[:7].tolist() == before[:7] and x[8:].tolist() == before[8:]


@pytest.mark.parametrize("shape", [(5,), (4, 3), (3, 4, 2), (0, 3), (1, 6)])
def test_rolls_of_several_dims(shape):
    x = fb.arange(math.prod(shape)).view(shape)
    kernel = fb.eager.op.op.OPS["roll"].kernels["numpy"]
    for dims in {(0,), (0, 0), (len(shape) - 1, 0), tuple(range(len(shape))), (-1 % len(shape), 0, 0)}:
        for first in (-7, -1, 0, 2, 3):
            shifts = tuple(first + 2 * k for k in range(len(dims)))
            assert kernel(x.numpy(), shifts, dims).tolist() == np.roll(x.numpy(), shifts, dims).tolist()
            assert x.roll(shifts, dims).tolist() == np.roll(x.numpy(), shifts, dims).tolist()
    assert not np.shares_memory(kernel(x.numpy(), (), ()), x.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_exponentials_of_many(dtype):
    x = fb.linspace(-110, 95, 30011).to(getattr(fb, dtype))
    x[:4] = fb.tensor([math.nan, math.inf, -math.inf, 0.0])
    with np.errstate(over="ignore"):
        wanted = fb.tensor(np.exp(double(x))).to(x.dtype)
    assert (fb.exp(x) == wanted).float().mean() > 0.8
    got, wanted = double(fb.exp(x)), double(wanted)
    assert (np.isinf(got) == np.isinf(wanted)).all() and (np.isnan(got) == np.isnan(wanted)).all()
    near(fb.exp(x)[np.isfinite(wanted)], wanted[np.isfinite(wanted)], dtype, 2)
    if dtype == "float32":  # denormal ones, to their last bit
        few = wanted < 2.0**-126
        assert (np.abs(got[few] - wanted[few]) <= 2.0**-149).all()


# -- factors of many small matrices, and functions of many numbers that few take in one go


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 5, 8, 31, 32, 33])
def test_factors_of_many_matrices(n, dtype):
    a = values("float64", 3, 11, n, n) / 3
    spd = a @ a.mT + fb.eye(n, dtype=fb.float64)
    a[1, 4, :, 0] = 0.0
    a[2, 1] = a[2, 1].flip(0)
    a, spd = a.to(getattr(fb, dtype)), spd.to(getattr(fb, dtype))
    near(
        fb.linalg.det(a) / np.maximum(np.abs(np.linalg.det(double(a))), 1e-9).astype(dtype),
        np.sign(np.linalg.det(double(a))) * (np.linalg.det(double(a)) != 0),
        dtype,
        1000,
    )
    assert fb.linalg.det(a)[1, 4] == 0
    low = fb.linalg.cholesky(spd)
    assert low.dtype is spd.dtype and fb.equal(low, low.tril())
    near(low, np.linalg.cholesky(double(spd)), dtype, 100)
    upper = spd + fb.ones_like(spd).triu(1)
    assert fb.equal(fb.linalg.cholesky(upper), low)  # which reads the lower triangle
    spd[1, 3, n - 1, n - 1] = -1.0
    with pytest.raises(fb.linalg.LinAlgError, match="not positive-definite"):
        fb.linalg.cholesky(spd)


def test_determinants_of_what_is_not_finite():
    for bad in (math.nan, math.inf, -math.inf):
        for at in range(9):
            a = fb.eye(3).repeat(2, 1, 1)
            a[1].view(-1)[at] = bad
            found = fb.linalg.det(a)
            assert found[0] == 1 and not math.isfinite(found[1])


@pytest.mark.parametrize("count", [100, 70000])
def test_zeta_of_many(count):
    s, q = values("float32", count).abs() + 1.5, values("float32", count, seed=5).abs() + 0.25
    near(fb.special.zeta(s, q), special.hurwitz_zeta(double(s), double(q)), "float32", 8)
    for odd in (0.5, 1.0, math.nan, math.inf, 2000.0):
        s[7] = odd
        with np.errstate(all="ignore"):
            wanted = special.hurwitz_zeta(double(s), double(q))
            np.testing.assert_allclose(double(fb.special.zeta(s, q)), wanted.astype(np.float32), rtol=1e-6)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_many(mode):
    k, w = fb.from_numpy(np.random.default_rng(0).integers(0, 50, 90000)), values("float32", 50, 32).requires_grad_()
    first = fb.arange(0, 90000, 9)
    found, before = [], fb.get_num_threads()
    for threads in (1, 2):
        fb.set_num_threads(threads)
        try:
            out = fb.nn.functional.embedding_bag(k, w, first, mode=mode)
            found.append((out.detach(), fb.autograd.grad((out * out).sum(), w)[0]))
        finally:
            fb.set_num_threads(before)
    for a, b in zip(*found):
        fb.testing.assert_close(a, b, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 3])
def test_factors_of_what_is_not_finite(count, dtype):
    """What PyTorch gives; numpy's determinants are 0 behind a pivot of zero, and its Cholesky factors take NaN for a pivot."""
    zero, one, inf, nan = 0.0, 1.0, math.inf, math.nan
    wanted = {
        (zero, zero, zero, nan): (nan, (zero, nan), 1),
        (nan, one, one, one): (nan, (zero, nan), 1),
        (one, zero, zero, nan): (nan, (zero, nan), 2),
        (inf, one, one, one): (inf, (one, inf), None),
        (inf, zero, zero, one): (inf, (one, inf), None),
        (one, zero, zero, inf): (inf, (one, inf), 0),
        (zero, zero, zero, one): (zero, (zero, -inf), 1),
    }
    for numbers, (det, slogdet, info) in wanted.items():
        a = fb.tensor(numbers, dtype=getattr(fb, dtype)).view(2, 2).repeat(count, 1, 1)
        a = a[0] if count == 1 else a
        np.testing.assert_array_equal(fb.linalg.det(a).numpy(), np.full(a.shape[:-2], det))
        np.testing.assert_array_equal([x.numpy() for x in fb.linalg.slogdet(a)], [np.full(a.shape[:-2], x) for x in slogdet])
        if info is not None:
            assert set(fb.linalg.cholesky_ex(a).info.view(-1).tolist()) == {info}
        if info:
            with pytest.raises(fb.linalg.LinAlgError):
                fb.linalg.cholesky(a)
