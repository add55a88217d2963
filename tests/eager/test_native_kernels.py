"""Native kernels of ops that numpy has no fast loop for: against numpy in float64 or integers, over types, strides, no elements, NaN
and infinities, and sizes that take other paths."""

import itertools
import math

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau.eager.op.op import OPS
from flambeau.eager.ops import linear_filter
from flambeau.runtime import copy_gather, native, sorting, cumulative, integer_matmul

INTEGERS = (np.int64, np.int32, np.int16, np.int8, np.uint8)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(params=native.isas())
def isa(request):
    from flambeau.runtime import _native

    before = native.chosen_instructions()
    _native.set_isa(request.param)
    yield request.param
    _native.set_isa(before)


# -- products of whole numbers


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "left, right",
    [
        ((33, 17), (17, 45)),
        ((100, 300), (300, 5)),
        ((3, 40, 21), (21, 70)),
        ((2, 3, 20, 30), (3, 30, 40)),
        ((7, 1, 12, 20), (1, 5, 20, 9)),
        ((1, 900), (900, 1)),
        ((64, 200), (200,)),
        ((2000,), (2000,)),
    ],
)
def test_products_of_whole_numbers_wrap_around(isa, rng, dtype, left, right):
    a, b = (rng.integers(-(2**31), 2**31, shape).astype(dtype) for shape in (left, right))
    np.testing.assert_array_equal((fb.from_numpy(a) @ fb.from_numpy(b)).numpy(), a @ b)


def test_products_of_strided_whole_numbers(rng):
    a = rng.integers(-9, 9, (40, 60))
    x = fb.from_numpy(a)
    np.testing.assert_array_equal((x.t() @ x).numpy(), a.T @ a)
    np.testing.assert_array_equal((x[::2, ::3] @ x[::2, ::3].t()).numpy(), a[::2, ::3] @ a[::2, ::3].T)
    assert integer_matmul.product(a[:, :0], a[:0]) is NotImplemented  # numpy makes the zeros
    np.testing.assert_array_equal((x[:, :0] @ x[:0]).numpy(), np.zeros((40, 60), np.int64))


# -- order


@pytest.mark.parametrize("dtype", (*INTEGERS, np.bool_, np.float64))
@pytest.mark.parametrize("descending", (False, True))
def test_order_is_stable(rng, dtype, descending):
    for shape, dim in (((40,), 0), ((70, 33), 0), ((33, 70), 1), ((30000,), 0), ((3, 5, 40), 1)):
        x = rng.integers(-50, 50, shape)
        x = (x % 2 == 0) if dtype is np.bool_ else x.astype(dtype)
        if dtype is np.float64:
            x.flat[::7], x.flat[1], x.flat[2], x.flat[3::11] = np.nan, np.inf, -np.inf, -0.0
        values, places = sorting.sort(x, dim, descending)
        wide = x.astype(np.float64)
        rank = np.where(np.isnan(wide), np.inf, wide)
        keys = (-rank, ~np.isnan(wide)) if descending else (rank, np.isnan(wide))
        np.testing.assert_array_equal(places, np.lexsort(keys, axis=dim))
        np.testing.assert_array_equal(values, np.take_along_axis(x, places, dim))


def test_order_of_far_apart_numbers(rng):
    x = np.concatenate([rng.integers(-(2**63), 2**63 - 1, 5000), [2**63 - 1, -(2**63), 0, -1]])
    np.testing.assert_array_equal(sorting.sort(x, 0, False)[0], np.sort(x))
    y = rng.standard_normal(5000) * 10.0 ** rng.integers(-300, 300, 5000)
    np.testing.assert_array_equal(sorting.sort(y, 0, True)[0], np.sort(y)[::-1])


@pytest.mark.parametrize("n", (0, 1, 31, 63, 64, 2049, 4095, 4096, 300_000, (1 << 20) + 5))
def test_a_permutation_is_the_order_of_its_draws(n):
    fb.manual_seed(3)
    keys = fb.rand(n, dtype=fb.float64)
    threads = fb.get_num_threads()
    try:
        for count in {1, threads}:
            fb.set_num_threads(count)
            fb.manual_seed(3)
            np.testing.assert_array_equal(fb.randperm(n).numpy(), np.argsort(keys.numpy(), kind="stable"))
    finally:
        fb.set_num_threads(threads)


# -- maps along one dim that read a few elements


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("n, size", [(1, 1), (5, 3), (16, 16), (37, 23), (40, 129), (700, 350)])
def test_taps_of_rows_side_by_side_are_those_of_each_row(n, size, dtype, rng):
    x = fb.tensor(rng.standard_normal((45, n)) * 4).to(getattr(fb, dtype))._fl_array
    x[3, n // 2], x[20, 0] = np.inf, np.nan
    lengths = rng.integers(0, 6, size)
    index, weight = rng.integers(0, n, lengths.sum()), rng.standard_normal(lengths.sum()).astype(np.float32)
    made = linear_filter.apply(x, 1, (np.cumsum(lengths), index, weight))
    for row in (0, 3, 7, 8, 15, 16, 20, 31, 44):
        alone = linear_filter.apply(x[row : row + 1].copy(), 1, (np.cumsum(lengths), index, weight))
        np.testing.assert_array_equal(made[row].view(np.uint8), alone[0].view(np.uint8))


# -- the inverse of the error function


def inverse_by_newton(x):
    """In float64, from below, until nothing changes."""
    x = np.asarray(x, np.float64)
    y = np.zeros_like(x)
    for _ in range(30):
        y = y - (np.vectorize(math.erf)(y) - x) / (2 / math.sqrt(math.pi) * np.exp(-y * y))
    return y


def test_erfinv_is_within_a_few_ulp(isa):
    x = np.concatenate([np.linspace(-0.9, 0.9, 4001), np.logspace(-30, -1, 500)])
    wanted = inverse_by_newton(x)
    np.testing.assert_allclose(fb.erfinv(fb.from_numpy(x)).numpy(), wanted, rtol=2e-15)
    single = x.astype(np.float32)
    wanted = inverse_by_newton(single)
    off = np.abs(fb.erfinv(fb.from_numpy(single)).numpy() - wanted) / np.spacing(np.abs(wanted).astype(np.float32))
    assert off.max() <= 5


def test_erfinv_near_one_inverts_erfc(isa):
    rest = 2.0 ** -np.arange(1, 53)
    y = fb.erfinv(fb.from_numpy(1 - rest)).numpy()
    np.testing.assert_allclose([math.erfc(v) for v in y], rest, rtol=2e-14)
    single = (1 - 2.0 ** -np.arange(1, 25)).astype(np.float32)
    y = fb.erfinv(fb.from_numpy(single)).numpy()
    exact = fb.erfinv(fb.from_numpy(single.astype(np.float64))).numpy()
    np.testing.assert_allclose(y, exact, rtol=4e-7)


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.float16, fb.bfloat16))
def test_erfinv_at_the_edges(dtype):
    x = fb.tensor([1.0, -1.0, 1.5, -2.0, math.inf, math.nan, 0.0, -0.0], dtype=dtype)
    found = fb.erfinv(x).double().numpy()
    np.testing.assert_array_equal(found, [math.inf, -math.inf, math.nan, math.nan, math.nan, math.nan, 0.0, -0.0])
    assert math.copysign(1, found[-1]) == -1
    assert fb.erfinv(fb.zeros(0, 3, dtype=dtype)).shape == (0, 3)
    strided = fb.linspace(-0.5, 0.5, 24).reshape(4, 6).to(dtype).t()
    np.testing.assert_array_equal(fb.erfinv(strided).double().numpy(), fb.erfinv(strided.contiguous()).double().numpy())


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.float16, fb.bfloat16))
def test_erf_keeps_the_order_of_memory(dtype):
    f, x = fb.erf, fb.linspace(-0.9, 0.9, 120).reshape(4, 5, 6).to(dtype)
    for given in (x.permute(2, 0, 1), x.transpose(0, 1)[:, ::2], x[..., ::2], x[:1].expand(3, 5, 6), x.mT):
        wanted, compiled = f(given), fb.compile(f)(given)
        assert wanted.stride() == fb.sin(given).stride() == compiled.stride() == f(given.to(device="meta")).stride()
        np.testing.assert_array_equal(wanted.double().numpy(), f(given.contiguous()).double().numpy())


@pytest.mark.parametrize("name", ("erf", "erfinv"))
@pytest.mark.parametrize("dtype", (fb.float16, fb.bfloat16))
def test_halves_are_rounded_once(name, dtype):
    x = fb.linspace(-0.99, 0.99, 3001).to(dtype)
    np.testing.assert_array_equal(getattr(fb, name)(x).float().numpy(), getattr(fb, name)(x.float()).to(dtype).float().numpy())


def test_compiled_erfinv_is_eager_s():
    x = fb.linspace(-1, 1, 1000)
    np.testing.assert_array_equal(fb.compile(lambda x: fb.erfinv(x))(x).numpy(), fb.erfinv(x).numpy())


# -- float16 and choices in maps


def test_float16_converts_like_numpy():
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = fb.from_numpy(every).float().numpy()
    np.testing.assert_array_equal(wide, every.astype(np.float32))
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.integers(0, 1 << 32, 100003, dtype=np.uint64).astype(np.uint32).view(np.float32),
            np.float32([65504, 65519.996, 65520, 2**-24, 2**-25, 1.5 * 2**-25, -0.0, np.inf, np.nan]),
        ]
    )
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float16)
    found = (fb.from_numpy(x) * 1).to(fb.float16).numpy()
    np.testing.assert_array_equal(found, wanted)
    for kind in (np.bool_, np.uint8, np.int64):
        y = rng.integers(0, 2 if kind is np.bool_ else 200, 1003).astype(kind)
        np.testing.assert_array_equal(fb.from_numpy(y).to(fb.float16).numpy(), y.astype(np.float16))
        np.testing.assert_array_equal(fb.from_numpy(y.astype(np.float16)).to(getattr(fb, np.dtype(kind).name)).numpy(), y)


@pytest.mark.parametrize("dtype", (np.float32, np.float64, np.float16, np.int8, np.int64, np.bool_))
def test_where_of_every_layout(rng, dtype):
    a, b = ((rng.standard_normal((37, 50)) * 50).astype(dtype) for _ in range(2))
    c = rng.random((37, 50)) > 0.5
    choices = [a, b, a.T.copy().T, a[:, :1], np.asarray(a[0, 0])]
    for x, y in itertools.product(choices, choices):
        np.testing.assert_array_equal(fb.where(fb.from_numpy(c), fb.from_numpy(x), fb.from_numpy(y)).numpy(), np.where(c, x, y))
    np.testing.assert_array_equal(
        fb.where(fb.from_numpy(c)[:, ::2], fb.from_numpy(a)[:, ::2], 1).numpy(), np.where(c, a, dtype(1))[:, ::2]
    )


# -- running products, extremes, recurrences, products of rows, reversed copies


@pytest.mark.parametrize("dtype", (np.float32, np.float64, np.float16))
@pytest.mark.parametrize("shape", ((50, 30), (7, 64, 3), (500,)))
def test_running_kernels(rng, dtype, shape):
    x = (1 + 0.05 * rng.standard_normal(shape)).astype(dtype)
    x.flat[5] = np.nan
    for dim in range(len(shape)):
        wide = np.multiply.accumulate(x, dim, np.float64)
        found = cumulative.running("product", x, dim)
        if x.itemsize == 2:
            np.testing.assert_allclose(found, wide, rtol=2e-2)
        else:  # kept in doubles
            np.testing.assert_array_equal(found, wide.astype(x.dtype))
        for name, ufunc in (("max", np.maximum), ("min", np.minimum)):
            values, places = cumulative.extreme(name, np.round(x, 1), dim)
            best = ufunc.accumulate(np.round(x, 1), dim)
            np.testing.assert_array_equal(values, best)
            np.testing.assert_array_equal(np.take_along_axis(np.round(x, 1), places, dim), best)
            nearest = np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))])
            assert (places <= nearest).all()
    assert cumulative.running("product", x[..., ::2], 0) is NotImplemented


@pytest.mark.parametrize("reverse", (False, True))
def test_recurrence(rng, reverse):
    a, b = rng.standard_normal((2, 6, 40, 3))
    out, before = np.zeros_like(b), np.zeros((6, 3))
    for t in range(39, -1, -1) if reverse else range(40):
        out[:, t] = before = b[:, t] + a[:, t] * before if t != (39 if reverse else 0) else b[:, t]
    np.testing.assert_allclose(cumulative.recurrence(a, b, 1, reverse), out, rtol=1e-12)


def test_products_of_rows(rng):
    x = (1 + 0.01 * rng.standard_normal((100, 300))).astype(np.float32)
    for dim in (None, 0, 1):
        found = (fb.from_numpy(x).prod() if dim is None else fb.from_numpy(x).prod(dim)).numpy()
        np.testing.assert_allclose(found, np.prod(x.astype(np.float64), dim), rtol=1e-3)
    x[3, 4] = 0
    assert fb.from_numpy(x).prod().item() == 0
    x[3, 4] = np.nan
    assert math.isnan(fb.from_numpy(x).prod().item())


@pytest.mark.parametrize("dtype", (np.float64, np.float32, np.int16, np.uint8))
def test_reversed_copies(rng, dtype):
    for shape in ((20000,), (300, 77), (77, 300), (3, 5, 7, 200)):
        x = (rng.standard_normal(shape) * 50).astype(dtype)
        for dims in ((0,), (-1,), tuple(range(len(shape)))):
            np.testing.assert_array_equal(fb.flip(fb.from_numpy(x), dims).numpy(), np.flip(x, dims))


# -- elements that meet


@pytest.mark.parametrize("name, ufunc", (("ax", np.maximum), ("in", np.minimum)))
def test_extremes_that_meet(rng, name, ufunc):
    name = "m" + name
    for shape, dim in (((60,), 0), ((6, 9), 1), ((6, 9), 0), ((3, 8, 4), 1)):
        out, x = rng.standard_normal((2, *shape))
        x.flat[3] = np.nan
        index = rng.integers(0, shape[dim], shape)
        wanted = out.copy()
        with np.errstate(all="ignore"):
            ufunc.at(wanted, tuple(index if d == dim else g for d, g in enumerate(np.ogrid[tuple(map(slice, shape))])), x)
        assert copy_gather.combine_elements(name, out, dim, index, x)
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("dtype", (np.float32, np.int64, np.uint8, np.float16))
def test_the_last_of_written_elements_stays(rng, dtype):
    for shape, dim in (((60,), 0), ((6, 9), 1), ((6, 9), 0)):
        out, x = (rng.standard_normal((2, *shape)) * 50).astype(dtype)
        index = rng.integers(0, shape[dim], shape)
        wanted = out.copy()
        wanted[tuple(index if d == dim else g for d, g in enumerate(np.ogrid[tuple(map(slice, shape))]))] = x
        assert copy_gather.set_elements(out, dim, index, x)
        np.testing.assert_array_equal(out, wanted)


# -- records whose kernel stands beside a decomposition: both say the same


def sampled(name):
    from flambeau.eager.op_samples import Samples

    return OPS[name].sample_rule(Samples(1))


@pytest.mark.parametrize("name", ("grid_sample", "bag_sum"))
@pytest.mark.parametrize("dtype", (fb.float32, fb.float64))
def test_kernels_agree_with_decompositions(name, dtype):
    op = OPS[name]
    for args in sampled(name):
        args = tuple(a.to(dtype) if isinstance(a, fb.Tensor) and a.is_floating_point() else a for a in args)
        found = op.kernels["native"](*[a.numpy() if isinstance(a, fb.Tensor) else a for a in args])
        assert found is not NotImplemented
        np.testing.assert_allclose(found, op.fn(*args).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ("bilinear", "nearest", "bicubic"))
@pytest.mark.parametrize("padding", ("zeros", "border", "reflection"))
def test_grid_gradients_agree_with_their_operations(mode, padding):
    make = np.random.default_rng(5)
    for dims, align in ((2, False), (2, True), (3, False)):
        if mode == "bicubic" and dims == 3:
            continue
        x = fb.from_numpy(make.standard_normal((2, 3, 4, 6, 5)[: 2 + dims])).requires_grad_()
        grid = fb.from_numpy(make.random((2, 5, 4, 3)[: 1 + dims] + (dims,)) * 3 - 1.5).requires_grad_()
        out = F.grid_sample(x, grid, mode, padding, align)
        slope = fb.from_numpy(make.standard_normal(out.shape))
        once = fb.autograd.grad(out, (x, grid), slope, retain_graph=True)
        again = fb.autograd.grad(out, (x, grid), slope, create_graph=True)
        for a, b in zip(once, again):
            np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)
        if mode != "nearest":
            assert fb.autograd.gradcheck(lambda x, g: F.grid_sample(x, g, mode, padding, align), (x, grid))  # noqa: B023


@pytest.mark.parametrize("value", (math.nan, math.inf, -math.inf))
@pytest.mark.parametrize("mode", ("bilinear", "nearest", "bicubic"))
@pytest.mark.parametrize("padding", ("zeros", "border", "reflection"))
def test_grids_of_no_numbers(value, mode, padding):
    """The same eagerly and by the operations that are compiled."""
    x = fb.from_numpy(np.random.default_rng(2).standard_normal((1, 2, 4, 6)))
    grid = fb.zeros(1, 2, 2, 2, dtype=fb.float64)
    grid[0, 1, 1, 0] = value
    found = F.grid_sample(x, grid, mode, padding, False)
    np.testing.assert_allclose(found.numpy(), OPS["grid_sample"].fn(x, grid, mode, padding, False).numpy(), rtol=1e-12)


def test_bags_refuse_what_lies_outside():
    weight = fb.zeros(4, 3)
    with pytest.raises(IndexError, match="index out of range in self"):
        F.embedding_bag(fb.tensor([[0, 4]]), weight)
    with pytest.raises(IndexError, match="index out of range in self"):
        F.embedding_bag(fb.tensor([[0, -1]]), weight)
    assert F.embedding_bag(fb.zeros(0, dtype=fb.int64), weight, fb.tensor([0, 0])).tolist() == [[0.0] * 3] * 2


def brute_ctc(x, labels, blank=0):
    """The log-probability of all paths that give the labels."""
    total = -math.inf
    for path in itertools.product(range(x.shape[1]), repeat=len(x)):
        merged = [k for k, _ in itertools.groupby(path) if k != blank]
        if merged == labels:
            total = np.logaddexp(total, sum(x[t, k] for t, k in enumerate(path)))
    return -total


@pytest.mark.parametrize("labels", ([1], [1, 1], [1, 2], [2, 1, 2], []))
def test_ctc_adds_up_all_paths(labels):
    x = F.log_softmax(fb.from_numpy(np.random.default_rng(4).standard_normal((5, 1, 3))), -1).requires_grad_()
    target = fb.tensor([labels + [0]], dtype=fb.int64)
    loss = F.ctc_loss(x, target, (5,), (len(labels),), reduction="none")
    np.testing.assert_allclose(loss.item(), brute_ctc(x.detach().numpy()[:, 0], labels), rtol=1e-12)


def test_ctc_gradients():
    x = fb.from_numpy(np.random.default_rng(4).standard_normal((6, 3, 4))).requires_grad_()
    targets = fb.tensor([[1, 2, 2], [3, 1, 0], [2, 0, 0]])

    def loss(x):
        return F.ctc_loss(F.log_softmax(x, -1), targets, (6, 5, 3), (3, 2, 1), reduction="none")

    assert fb.autograd.gradcheck(loss, (x,))


@pytest.mark.parametrize("dims, output", ((1, (3,)), (2, (2, 4)), (3, (3, 5, 2)), (2, (7, 9))))
def test_adaptive_maxima(dims, output):
    x = np.random.default_rng(3).integers(0, 9, (2, 3, 7, 6, 5)[: 2 + dims]).astype(np.float32)
    x.flat[3] = np.nan
    values, indices = getattr(F, f"adaptive_max_pool{dims}d")(fb.from_numpy(x), output, return_indices=True)
    flat = x.reshape(2, 3, -1)
    np.testing.assert_array_equal(
        np.take_along_axis(flat, indices.numpy().reshape(2, 3, -1), 2), values.numpy().reshape(2, 3, -1)
    )
    for place in np.ndindex(*output):
        spans = [slice(o * n // m, -(-(o + 1) * n // m)) for o, n, m in zip(place, x.shape[2:], output)]
        window = x[(slice(None), slice(None), *spans)].reshape(2, 3, -1)
        np.testing.assert_array_equal(values.numpy()[(slice(None), slice(None), *place)], window.max(-1))


# -- gradcheck's fast mode


class Wrong(fb.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] * g


def test_fast_gradcheck():
    x = fb.tensor(np.random.default_rng(0).standard_normal((8, 16)), requires_grad=True)
    calls = []

    def square(x):
        calls.append(1)
        return x * x, x.sin().sum(0)

    assert fb.autograd.gradcheck(square, (x,), fast_mode=True) and fb.autograd.gradgradcheck(
        lambda x: (x * x).tanh(), (x,), fast_mode=True
    )
    assert len(calls) < 6  # not two for each element
    with pytest.raises(fb.autograd.gradcheck.__globals__["GradcheckError"], match="Jacobian mismatch"):
        fb.autograd.gradcheck(Wrong.apply, (x,), fast_mode=True)
    assert fb.autograd.gradcheck(Wrong.apply, (x,), fast_mode=True, raise_exception=False) is False
    z = fb.tensor(np.exp(1j * np.arange(5.0)), requires_grad=True)
    assert fb.autograd.gradcheck(lambda z: (z * z.conj() * z, z.abs()), (z,), fast_mode=True)


def test_padding_is_numpy_s(rng):
    x = rng.standard_normal((2, 3, 5, 6))
    for pad in ((1, 2, 3, 1), (5, 0, 0, 4), (-1, 2, 1, -2)):
        for mode, theirs in (("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
            if min(pad) < 0 and mode == "circular":
                continue
            widths = [(max(b, 0), max(a, 0)) for b, a in ((0, 0), (0, 0), pad[2:], pad[:2])]
            whole_ = np.pad(x, widths, theirs)
            cut = tuple(slice(max(-b, 0), n - max(-a, 0)) for n, (b, a) in zip(whole_.shape, ((0, 0), (0, 0), pad[2:], pad[:2])))
            np.testing.assert_array_equal(F.pad(fb.from_numpy(x), pad, mode).numpy(), whole_[cut])


@pytest.mark.parametrize("rows", [1, 3])
def test_ctc_records_refuse_rows_that_do_not_belong_together(rows):
    """The kernel walks over the rows of the scores: targets and lengths of other numbers were read beyond their ends."""
    x, targets = fb.randn(6, 2, 4), fb.ones(2, 2).long()
    loss, alpha = OPS["ctc_loss"](x, targets, (6, 5), (2, 2), 0, False, False)
    with pytest.raises(ValueError, match="rows of scores"):
        OPS["ctc_loss"](fb.randn(6, rows, 4), targets, (6, 5), (2, 2), 0, False, False)
    with pytest.raises(ValueError, match="rows of scores"):
        OPS["ctc_loss"](x, targets, (6, 5), (2,) * rows, 0, False, False)
    with pytest.raises(ValueError, match="do not belong"):
        OPS["ctc_loss_backward"](loss, x, targets, alpha[:, :, :rows], loss, (6, 5), (2, 2), 0, False, False)


FUNCTIONS_OF_FLOATS = {
    "exp": (-104, 89),
    "exp2": (-150, 128),
    "expm1": (-20, 80),
    "log": (0, 10),
    "log2": (0, 10),
    "log1p": (-1, 10),
    "tan": (-9000, 9000),
    "tanh": (-10, 10),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atan": (-30, 30),
}
CORNERS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 3e38, 88.0, 127.5, -149.0, 8193.0]


@pytest.mark.parametrize("name", FUNCTIONS_OF_FLOATS)
def test_functions_of_floats_are_within_a_few_units_in_the_last_place(name):
    low, high = FUNCTIONS_OF_FLOATS[name]
    x = np.concatenate([np.linspace(low, high, 50001), np.linspace(-1, 1, 50001), CORNERS]).astype(np.float32)
    found = getattr(fb, name)(fb.from_numpy(x)).numpy()
    numpys = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
    with np.errstate(all="ignore"):
        exact = getattr(np, numpys.get(name, name))(x.astype(np.float64))
        want = exact.astype(np.float32)
        off = np.abs(found - exact) / np.maximum(np.spacing(np.abs(want)), np.float32(1.5e-45))
    assert np.array_equal(np.isnan(found), np.isnan(want)) and np.array_equal(np.isinf(found), np.isinf(want))
    assert np.array_equal(np.signbit(found[want == 0]), np.signbit(want[want == 0]))
    assert off[np.isfinite(want)].max() < (16 if name == "tan" else 3)  # (near the multiples of pi that are far from 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["exp", "exp2", "sin", "cos", "atanh", "sqrt", "rsqrt", "floor", "ceil", "trunc", "round"])
def test_functions_of_all_halves(name, dtype):
    """Every half, in rows side by side and apart, alone and in few: within a unit in the last place, and the same everywhere."""
    kind = getattr(fb, dtype)
    x = fb.from_numpy(np.arange(65536, dtype=np.uint16).view(np.int16)).view(kind)
    call, wide = getattr(fb, name), x.to(fb.float64).numpy()
    found = call(x)
    with np.errstate(all="ignore"):
        exact = 1 / np.sqrt(wide) if name == "rsqrt" else getattr(np, {"atanh": "arctanh"}.get(name, name))(wide)
    want = fb.from_numpy(exact).to(fb.float32).to(kind)
    assert found.dtype is kind and fb.equal(found.isnan(), want.isnan())
    bits, wanted = (v.nan_to_num(0.0).view(fb.int16).to(fb.int64) for v in (found, want))
    assert (bits - wanted).abs().max() <= 1
    for part in (found.isnan().logical_not().nonzero()[:, 0][::97],):
        assert fb.equal(call(x[part]), found[part]) and fb.equal(call(x[part][7]), found[part][7])
    good = found.isnan().logical_not()
    assert fb.equal(call(x.reshape(256, 256).t()).t().reshape(-1)[good], found[good])


def test_angles_of_points():
    edges = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40, 3e38]
    a, b = (v.ravel() for v in np.meshgrid(edges + list(np.linspace(-3, 3, 301)), edges + list(np.linspace(-2, 2, 301))))
    a, b = a.astype(np.float32), b.astype(np.float32)
    found, exact = fb.atan2(fb.from_numpy(a), fb.from_numpy(b)).numpy(), np.arctan2(a.astype(np.float64), b)
    assert np.array_equal(np.isnan(found), np.isnan(exact))
    assert np.array_equal(np.signbit(found[exact == exact]), np.signbit(exact[exact == exact]))
    np.testing.assert_allclose(found, exact, rtol=3e-7, atol=1e-45)


@pytest.mark.parametrize("name", [*FUNCTIONS_OF_FLOATS, "sinh", "atanh", "logit"])
def test_every_call_of_a_function_has_the_same_bits(name):
    """The first call of a record takes another path than those that follow, and memory with gaps another than memory without."""
    x = fb.linspace(0.01, 0.99, 3000)
    call = getattr(fb, name)
    first = call(x)
    for other in (call(x), call(fb.stack((x, x), 1)[:, 0]), call(x.reshape(30, 100).t()).t().reshape(-1), call(x[:64])):
        assert fb.equal(other, first[: len(other)])
