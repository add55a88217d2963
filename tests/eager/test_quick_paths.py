"""Calls that one native function makes in whole: the same bits, gradients and errors as the general path, which is forced by
calling the Python function behind a public one, or the formula behind a record's kernel."""

import itertools

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau.eager import _call, api, dtypes, random
from flambeau.eager.ops import fourier, special
from flambeau.runtime import _native, native, row_kernels

FLOATS = ("float32", "float64", "float16", "bfloat16")
TYPES = (*FLOATS, "int64", "int32", "int16", "int8", "uint8", "bool")
SIZES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100)
ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e-30, 3e38, 1e-42]


def values(dtype, *shape, seed=0):
    x = np.random.default_rng(seed + sum(shape)).standard_normal(shape) * 6
    return fb.tensor(x).to(getattr(fb, dtype)) if dtype != "bool" else fb.tensor(x > 0)


def places(high, *shape, seed=1):
    return fb.tensor(np.random.default_rng(seed + sum(shape)).integers(0, high, shape))


def bits(x):
    if isinstance(x, tuple):
        return [bits(one) for one in x]
    x = x.detach()
    array = x.view(fb.int16).numpy() if x.dtype is fb.bfloat16 else x.numpy()
    nan = np.isnan(array) if array.dtype.kind in "fc" else None
    if nan is not None and nan.any():
        array = np.where(nan, np.nan, array)
    return x.dtype, array.shape, np.ascontiguousarray(array).tobytes()


def named(name):
    """The public function, or the method in place."""
    return getattr(fb.Tensor if name.endswith("_") else api, name)


def same(name, *args, **kw):
    """The public function and the Python one behind it."""
    public = named(name)
    assert bits(public(*args, **kw)) == bits(public.__wrapped__(*args, **kw)), (name, args)


# -- by index

LOOKUPS = {
    "gather": lambda x, k, d: (x, d, k),
    "take_along_dim": lambda x, k, d: (x, k, d),
    "take": lambda x, k, d: (x, k),
    "scatter": lambda x, k, d: (x, d, k, x.flip(0).contiguous()),
    "scatter_add": lambda x, k, d: (x, d, k, x.flip(0).contiguous()),
}
ROWS = {
    "index_select": lambda x, k, d: (x, d, k),
    "index_add": lambda x, k, d: (x, d, k, x.flip(d).contiguous()),
    "index_copy": lambda x, k, d: (x, d, fb.tensor(np.random.default_rng(3).permutation(x.shape[d])), x.flip(d).contiguous()),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", LOOKUPS)
def test_elements_by_index(name, dtype):
    for shape, d in itertools.chain((((n,), 0) for n in SIZES), [((5, 17), 0), ((5, 17), -1), ((3, 4, 5), 1)]):
        x = values(dtype, *shape)
        same(name, *LOOKUPS[name](x, places(min(shape), *shape), d))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ROWS)
def test_rows_by_index(name, dtype):
    for shape, d in itertools.chain((((n,), 0) for n in SIZES), [((5, 17), 0), ((5, 17), 1), ((3, 4, 5), 1), ((17, 5, 3), -1)]):
        x = values(dtype, *shape)
        same(name, *ROWS[name](x, places(shape[d], shape[d]), d))


@pytest.mark.parametrize("name", [*LOOKUPS, *ROWS])
def test_strided_and_empty_operands_by_index(name):
    make = {**LOOKUPS, **ROWS}[name]
    for x in (values("float32", 6, 4).t(), values("float32", 8, 6)[::2, 1:], values("float32", 3, 0)):
        d = 0
        k = places(x.shape[0], *(x.shape if name in LOOKUPS else x.shape[:1]))
        same(name, *make(x, k, d))


@pytest.mark.parametrize("name", [*LOOKUPS, *ROWS])
@pytest.mark.parametrize("wrong", [4, -5, 2**40])
def test_indices_out_of_range_are_refused_alike(name, wrong):
    x = values("float32", 4, 4)
    k = places(4, *((4, 4) if name in LOOKUPS else (4,)))
    args = list({**LOOKUPS, **ROWS}[name](x, k, 0))
    index = next(n for n, a in enumerate(args) if isinstance(a, fb.Tensor) and a.dtype is fb.int64)
    args[index] = args[index].clone()
    args[index].view(-1)[1] = wrong
    found = []
    for function in (named(name), named(name).__wrapped__):
        try:
            found.append(("gave", bits(function(*args))))
        except (IndexError, RuntimeError) as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["gather", "scatter", "scatter_add", "index_select", "index_add", "index_copy", "cumsum"])
def test_gradients_of_first_and_second_order(name):
    make = {**LOOKUPS, **ROWS, "cumsum": lambda x, k, d: (x, d)}[name]
    shape = (4, 5)

    def grads(function):
        x = values("float64", *shape).requires_grad_()
        args = make(x, places(4, *(shape if name in LOOKUPS else (4,))), 0)
        (first,) = fb.autograd.grad((function(*args) ** 3).sum(), x, create_graph=True)
        (second,) = fb.autograd.grad((first**2).sum(), x)
        return bits(first), bits(second)

    assert grads(named(name)) == grads(named(name).__wrapped__)


@pytest.mark.parametrize("dtype", TYPES)
def test_masked_elements(dtype):
    for n in SIZES:
        x = values(dtype, n)
        for mask in (values("bool", n, seed=5), fb.zeros(n, dtype=fb.bool), fb.ones(n, dtype=fb.bool)):
            same("masked_select", x, mask)


@pytest.mark.parametrize("dtype", TYPES)
def test_rolled_and_joined(dtype):
    for shape in [*((n,) for n in SIZES), (5, 17), (3, 4, 5), (0, 3)]:
        x = values(dtype, *shape)
        for shift in (0, 1, -1, 3, -7, 1000):
            same("roll", x, shift)
            for d in range(-len(shape), len(shape)):
                same("roll", x, shift, d)
    for shape in ((300, 250), (70000,)):
        x, y = values(dtype, *shape), values(dtype, *shape, seed=4)
        for d in range(len(shape)):
            same("cat", [x, y], d)
            same("stack", [x, y], d)
    with pytest.raises(IndexError):
        fb.roll(x, 1, 5)


# -- running sums, extremes, counts


@pytest.mark.parametrize("dtype", TYPES)
def test_running_sums(dtype):
    if dtype == "bool":
        pytest.skip("torch sums truths, too: covered by the reductions")
    for shape, d in [*(((n,), 0) for n in SIZES), ((5, 17), 0), ((5, 17), 1), ((3, 4, 5), 1), ((0, 3), 1)]:
        same("cumsum", values(dtype, *shape), d)
    if dtype in FLOATS:
        same("cumsum", fb.tensor([1.0, *ODD]).to(getattr(fb, dtype)), 0)


@pytest.mark.parametrize("dtype", [d for d in TYPES if d != "bool"])
@pytest.mark.parametrize("name", ["max", "min", "amax", "amin", "argmax", "argmin"])
def test_extremes(name, dtype):
    for shape in [*((n,) for n in SIZES), (5, 17), (17, 5), (3, 4, 5), (60, 70)]:
        x = values(dtype, *shape)
        same(name, x)
        for d in range(len(shape)):
            same(name, x, d)
    if dtype in FLOATS:
        for odd in itertools.permutations([1.0, np.nan, np.inf, -np.inf], 3):
            same(name, fb.tensor(odd).to(getattr(fb, dtype)))


def test_range_of_all_elements_and_counts():
    for n in (*SIZES, 127, 128, 129, 1000, 5000):
        for x in (values("float32", n), values("float32", 2 * n)[::2]):
            same("aminmax", x)
        for at in {0, n // 2, n - 1}:
            for odd in (np.nan, np.inf, -np.inf):
                x = values("float32", n)
                x[at] = odd
                same("aminmax", x)
        for dtype in TYPES:
            same("count_nonzero", values(dtype, n))
    same("count_nonzero", fb.tensor(ODD))


# -- draws

DRAWS = {
    "rand": lambda f, n: f(n, 3),
    "randn": lambda f, n: f((n,)),
    "randint": lambda f, n: f(-3, 9, (n, 2)),
    "uniform_": lambda f, n: f(fb.empty(n), -1.5, 2),
    "normal_": lambda f, n: f(fb.empty(n), 1, 0.3),
    "exponential_": lambda f, n: f(fb.empty(n), 2.5),
    "random_": lambda f, n: f(fb.empty(n, dtype=fb.int64), 5, 90),
    "bernoulli": lambda f, n: f(fb.linspace(0, 1, n)),
    "bernoulli_": lambda f, n: f(fb.empty(n), 0.3),
    "poisson": lambda f, n: f(fb.linspace(0, 9.9, n)),
    "randperm": lambda f, n: f(n),
    "normal": lambda f, n: f(fb.linspace(-1, 1, n), fb.linspace(0, 3, n)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_the_bits_and_the_ordinals_of_the_records(name):
    public = named(name)
    for n in (*SIZES, 0, 1000, 5000):
        found = []
        for function in (public, public.__wrapped__):
            fb.manual_seed(7)
            fb.rand(2)
            found.append((bits(DRAWS[name](function, n)), fb.get_rng_state().tolist()))
        assert found[0] == found[1], n


def test_numbers_of_events():
    spread = np.concatenate([np.linspace(9, 11, 500), np.geomspace(1e-3, 9e5, 3000), np.zeros(3)])
    for rates in (spread.tolist(), [0.0, 3.0, 12.0], [9.0, 10.0], [1e6, 2e6], [2.5, np.nan], [1.0, -1.0], [1e30], []):
        for kind in ("float32", "float64", "float16"):
            x = fb.tensor(rates).to(getattr(fb, kind))
            found = []
            for function in (fb.poisson, fb.poisson.__wrapped__):
                fb.manual_seed(11)
                try:
                    found.append((bits(function(x)), fb.get_rng_state().tolist()))
                except Exception as error:
                    found.append((type(error), str(error), fb.get_rng_state().tolist()))
            assert found[0] == found[1], (rates, kind)


@pytest.mark.parametrize("p", [0, 1, 0.0, 1.0, 1e-8, 1.5, float("nan")])
def test_draws_with_one_probability(p):
    for kind in ("float32", "float64", "int64", "bool"):
        for make in (lambda: fb.zeros(40, dtype=getattr(fb, kind)), lambda: fb.zeros(5, 8, dtype=getattr(fb, kind)).t()):
            found = []
            for function in (fb.Tensor.bernoulli_, fb.Tensor.bernoulli_.__wrapped__):
                fb.manual_seed(5)
                x = make()
                try:
                    found.append((bits(function(x, p)), x._version, fb.get_rng_state().tolist()))
                except Exception as error:
                    found.append((type(error), str(error)))
            assert found[0] == found[1], kind


@pytest.mark.parametrize("name", ["uniform_", "normal_", "exponential_", "bernoulli_"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_draws_of_other_types(name, dtype):
    for n in SIZES:
        found = []
        for function in (named(name), named(name).__wrapped__):
            fb.manual_seed(n)
            found.append(bits(function(fb.empty(n, dtype=getattr(fb, dtype)), 0.75)))
        assert found[0] == found[1], n


@pytest.mark.parametrize(
    "shape",
    [(1,), (7,), (100,), (300,), (1, 5), (10, 10), (3, 129), (20, 100), (5000,), (70000,), (3, 4100), (2000, 3), (4000, 1)],
)
def test_choices_in_proportion_to_weights(shape):
    w = values("float32", *shape).clamp(min=0)
    w[..., -1] = 0.5 if shape[-1] == 1 else 0.0
    w[..., 0] += 0.25
    found = []
    for function in (fb.multinomial, fb.multinomial.__wrapped__):
        fb.manual_seed(5)
        found.append(
            (bits(function(w, 50, True)), bits(function(w, num_samples=3, replacement=True)), fb.get_rng_state().tolist())
        )
    assert found[0] == found[1]
    for bad in (w * 0, w - 100, w + float("inf"), w * float("nan")):
        with pytest.raises(RuntimeError):
            fb.multinomial(bad, 2, True)


def test_draws_with_a_generator_or_a_forced_ordinal():
    g = fb.Generator().manual_seed(3)
    assert not np.array_equal(fb.rand(4, generator=g).numpy(), fb.rand(4, generator=g).numpy())
    with random.at(11, 5):
        first = fb.rand(4)
        assert bits(first) == bits(fb.rand(4))


def test_draws_refuse_what_they_did():
    x = fb.ones(3, requires_grad=True)
    for call in (
        lambda: x.uniform_(),
        lambda: fb.bernoulli(fb.tensor([0.5, 1.5])),
        lambda: fb.empty(2).random_(5, 5),
        lambda: fb.rand(-1),
        lambda: fb.empty(2).normal_(0.0, -1.0),
    ):
        with pytest.raises(RuntimeError):
            call()


# -- special functions

NATIVE = ("lgamma", "digamma", "i0", "i0e", "i1", "i1e", "erfcx", "ndtri")


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_special_functions_agree_with_their_formulas(name, dtype, isa):
    record = getattr(special, name)
    rng = np.random.default_rng(0)
    for n in SIZES:
        x = np.concatenate([rng.standard_normal(n) * 4, rng.random(n), ODD, [8.0, 9.5, 600.0, -2.0, -0.5]])
        with np.errstate(all="ignore"):
            x = x[::-1].astype(dtype)
        found = record.kernels["native"](x)
        if found is NotImplemented:
            assert dtype == "float64" and name.startswith("i")
            continue
        with np.errstate(all="ignore"):
            wanted = record.fn(x)
        assert found.dtype == wanted.dtype
        exact = dict(rtol=1e-10, atol=1e-12) if dtype == "float64" else dict(rtol=2e-7, atol=0)
        np.testing.assert_allclose(found, wanted, **exact)


def test_special_functions_of_strided_and_empty_operands():
    x = values("float32", 6, 5).abs() + 0.5
    for name in NATIVE:
        f = getattr(fb.special, {"lgamma": "gammaln"}.get(name, name))
        y = x / 10 if name == "ndtri" else x
        assert bits(f(y.t())) == bits(f(y.t().contiguous()).contiguous())
        assert f(y[:0]).shape == (0, 5) and f(y[0, 0]).shape == ()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_polygamma_of_positive_and_other_numbers(n):
    x = np.random.default_rng(1).random(37).astype("float32") * 20 + 0.01
    np.testing.assert_allclose(special.polygamma.kernels["native"](x, n), special.polygamma.fn(x, n), rtol=3e-7)
    np.testing.assert_allclose(special.polygamma.kernels["native"](-x, n), special.polygamma.fn(-x, n), rtol=1e-5)


@pytest.fixture(params=native.isas())
def isa(request):
    _native.set_isa(request.param)
    yield request.param
    _native.set_isa("auto")


def test_softmax_of_few_runs_the_instruction_set_that_is_chosen():
    x = values("float32", 30, 33)
    before = F.softmax(x, -1)
    try:
        for name in native.isas():
            _native.set_isa(name)
            assert np.array_equal(F.softmax(x, -1).numpy(), row_kernels.softmax(x.numpy(), 1)), name
            assert np.array_equal(F.log_softmax(x, -1).numpy(), row_kernels.log_softmax(x.numpy(), 1)), name
    finally:
        _native.set_isa("auto")
    assert bits(F.softmax(x, -1)) == bits(before)


# -- loops that stand for numpy's


def table_of(dtype):
    odd = np.array([*ODD, 3.0, -3.0, 7.5, 2.0**24, 2.0**25 + 4, 1e30, -1e-38], dtype)
    more = (np.random.default_rng(2).standard_normal(60) * 9).astype(dtype)
    a, b = np.meshgrid(np.concatenate([odd, more]), np.concatenate([odd, more[:20], np.round(more)]))
    return a.ravel().copy(), b.ravel().copy()


@pytest.mark.parametrize("name,wanted", [("remainder", np.remainder), ("floor_divide", np.floor_divide), ("fmod", np.fmod)])
def test_divisions_with_rest_are_numpys(name, wanted):
    a, b = table_of("float32")
    with np.errstate(all="ignore"):
        for x, y in ((a, b), (a[::3], b[::3]), (a[:7], b[:7]), *((a, np.float32(c)) for c in (3, -0.3, 0.0, np.inf, 1e-40))):
            found = getattr(fb, name)(fb.from_numpy(x), fb.from_numpy(y) if y.ndim else float(y)).numpy()
            made = wanted(x, y)
            assert np.array_equal(found, made, equal_nan=True)
            told = (found == found) & (found != 0 if name == "fmod" else True)
            assert np.array_equal(np.signbit(found)[told], np.signbit(made)[told])
        t = fb.from_numpy(a.copy())
        t.remainder_(fb.from_numpy(b))
        assert np.array_equal(t.numpy(), np.remainder(a, b), equal_nan=True)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_extremes_of_whole_numbers(dtype):
    rng = np.random.default_rng(4)
    for n in (*SIZES, 2000):
        a, b = (rng.integers(-50, 50, n).astype(dtype) for _ in range(2))
        for x, y in ((a, b), (a[::2], b[::2]), (a[::-1].copy(), b)):
            assert np.array_equal(fb.maximum(fb.from_numpy(x), fb.from_numpy(y)).numpy(), np.maximum(x, y))
            assert np.array_equal(fb.minimum(fb.from_numpy(x), fb.from_numpy(y)).numpy(), np.minimum(x, y))
        assert np.array_equal(fb.from_numpy(a).clamp(-3, 8).numpy(), np.clip(a, -3, 8))
        assert np.array_equal(fb.maximum(fb.from_numpy(a), fb.tensor(2, dtype=getattr(fb, dtype))).numpy(), np.maximum(a, 2))


@pytest.mark.parametrize("dtype", FLOATS)
def test_signs_powers_of_two_and_negations(dtype):
    x = fb.tensor([*ODD, 2.5, -7.0] * 5).to(getattr(fb, dtype))
    for y in (x, x[::2]):
        plain = y.to(fb.float64).numpy()
        signs = np.where(np.isnan(plain), 0, np.sign(plain))
        assert np.array_equal(fb.sign(y).to(fb.float64).numpy(), signs)
        assert np.array_equal(fb.logical_not(y).numpy(), plain == 0)
    few = fb.tensor([-3.0, 0.0, 1.0, 7.0]).to(getattr(fb, dtype))
    assert fb.exp2(few).tolist() == [0.125, 1.0, 2.0, 128.0]


@pytest.mark.parametrize("whole", ["int64", "int32", "bool"])
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_halves_and_whole_numbers(whole, half):
    for n in (*SIZES, 600):
        x = values(whole, n) if whole == "bool" else values("float64", n).mul(30).to(getattr(fb, whole))
        there = x.to(getattr(fb, half))
        assert bits(there) == bits(x.to(fb.float32).to(getattr(fb, half)))
        assert bits(there.to(getattr(fb, whole))) == bits(there.to(fb.float32).to(getattr(fb, whole)))
        assert bits(x[::2].to(getattr(fb, half))) == bits(there[::2].contiguous())


def test_operands_that_are_one_for_all():
    """Within a program, what depends on such operands alone is computed once."""
    for dtype in ("float16", "float32"):
        a, b = values(dtype, 40, 1), values(dtype, 1, 300)
        assert bits(a * b) == bits(a.expand(40, 300).contiguous() * b.expand(40, 300).contiguous())
        assert bits(fb.addcmul(a, a, b)) == bits(fb.addcmul(a.expand(40, 300).contiguous(), a, b.expand(40, 300).contiguous()))


# -- Fourier transforms


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 16, 64, 11, 60, 97, 127, 128, 131, 158, 360, 2048, 4100, 5000])
def test_transforms_of_single_numbers(n):
    rng = np.random.default_rng(n)
    for count in (1, 2, 3, 15, 16, 17) if n < 2000 else (1, 3):
        x = (rng.standard_normal((count, n)) + 1j * rng.standard_normal((count, n))).astype(np.complex64)
        room = 4e-7 * (np.log2(n) + 1) * np.sqrt(n) * 6
        for forward, wanted in ((True, np.fft.fft(x.astype(complex))), (False, np.fft.ifft(x.astype(complex), norm="forward"))):
            found = fourier.fft_c2c(fb.from_numpy(x), (1,), forward, 0.5).numpy()
            assert found.dtype == np.complex64 and np.abs(found - wanted / 2).max() < room
            real = fourier.fft_r2c(fb.from_numpy(x.real.copy()), (1,), forward, 1.0).numpy()
            half = np.fft.rfft(x.real.astype(float))
            assert np.abs(real - (half if forward else half.conj())).max() < room
    assert (_call.fourier(np.ones((1, n), np.complex64), False, 1.0) is None) == (n in (1, 131))


def test_transforms_along_other_dims_and_their_gradients():
    x = values("float32", 6, 10, 4)
    for dims in ((0,), (1,), (0, 2), (2, 1), (0, 1, 2)):
        found = fb.fft.fftn(x, dim=dims).numpy()
        assert np.abs(found - np.fft.fftn(x.numpy().astype(float), axes=dims)).max() < 1e-3
        found = fb.fft.rfftn(x.transpose(0, 2), dim=dims).numpy()
        assert np.abs(found - np.fft.rfftn(x.numpy().astype(float).transpose(2, 1, 0), axes=dims)).max() < 1e-3
    grads = []
    for dtype in (fb.float32, fb.float64):  # doubles take numpy's transforms
        y = values("float64", 5, 12).to(dtype).requires_grad_()
        (first,) = fb.autograd.grad((fb.fft.fft(y).abs() ** 3).sum() + fb.fft.rfft(y, dim=0).abs().sum(), y, create_graph=True)
        (second,) = fb.autograd.grad((first**2).sum(), y)
        grads += [first.detach().double().numpy(), second.double().numpy()]
    for single, double in zip(grads[:2], grads[2:]):
        np.testing.assert_allclose(single, double, rtol=1e-3, atol=1e-3 * np.abs(double).max())


# -- others


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "bool"])
def test_sums_over_rows_without_columns(dtype):
    kind = getattr(fb, dtype)
    for shape, dims in (((300, 0), 0), ((300, 0, 3), (0, 1)), ((0, 300), 0), ((300, 0), 1), ((129, 2, 0), (0, 1))):
        x = fb.zeros(*shape, dtype=kind)
        assert fb.equal(x.sum(dims), fb.from_numpy(np.zeros(shape).sum(dims)).to(x.sum(dims).dtype))


@pytest.mark.parametrize(
    "shapes",
    [((3, 4), (5, 2)), ((3,), (2,)), ((2, 3, 4), (3, 2)), ((), (2, 2)), ((2,), ()), ((), ()), ((0, 2), (3, 2)), ((2, 3), (4,))],
)
def test_products_of_blocks(shapes):
    x, y = (values("float64", *shape, seed=k) for k, shape in enumerate(shapes))
    assert np.array_equal(fb.kron(x, y).numpy(), np.kron(x.numpy(), y.numpy()))


def test_gradients_of_blocks():
    x, y = values("float64", 2, 3).requires_grad_(), values("float64", 3, 2).requires_grad_()
    assert fb.autograd.gradcheck(fb.kron, (x, y)) and fb.autograd.gradgradcheck(fb.kron, (x, y))
    assert fb.autograd.gradcheck(fb.block_diag, (x, y))
    assert fb.equal(fb.block_diag(x, y).detach(), fb.block_diag(x.detach(), y.detach()))
    for dtype in TYPES:
        parts = [values(dtype, 2, 3), values(dtype, 2), values(dtype)]
        made = fb.block_diag(*parts)
        assert made.shape == (4, 6) and fb.equal(made[:2, :3], parts[0]) and fb.equal(made[2, 3:5], parts[1])


def test_bent_losses_and_rows_of_one_class():
    x, y = values("float64", 7, 5).requires_grad_(), values("float64", 7, 5, seed=3).requires_grad_()
    for loss in (lambda a, b: F.huber_loss(a, b, delta=0.7), lambda a, b: F.smooth_l1_loss(a, b, beta=2.0, reduction="sum")):
        assert fb.autograd.gradcheck(loss, (x, y)) and fb.autograd.gradgradcheck(loss, (x, y))
    d = (x - y).detach().abs().numpy()
    np.testing.assert_allclose(F.huber_loss(x, y, delta=0.7).item(), np.where(d < 0.7, d * d / 2, 0.7 * (d - 0.35)).mean())
    k = places(5, 7)
    for reduction in ("none", "mean", "sum"):
        found, wanted = (F.nll_loss(a, k, w, reduction=reduction) for a, w in ((x, None), (x, fb.ones(5, dtype=fb.float64))))
        np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy())
    assert fb.autograd.gradcheck(lambda a: F.nll_loss(a, k), (x,))
    assert F.nll_loss(x, fb.where(k == 1, -100, k)).item() != F.nll_loss(x, k).item()
    with pytest.raises(IndexError, match="Target 5 is out of bounds"):
        F.nll_loss(x, k + 5 - k)


def test_the_most_frequent_of_rows():
    rng = np.random.default_rng(5)
    for shape in ((1,), (9,), (10, 10), (7, 33)):
        x = rng.integers(0, 5, shape)
        found = fb.from_numpy(x).mode(-1)
        for row, value, place in zip(x.reshape(-1, shape[-1]), found.values.reshape(-1), found.indices.reshape(-1)):
            kinds, counts = np.unique(row, return_counts=True)
            wanted = kinds[counts.argmax()]
            assert value == wanted and place == np.flatnonzero(row == wanted)[-1]
    odd = fb.tensor([[np.nan, 2.0, 2.0], [np.nan, np.nan, 1.0]]).mode(-1)
    assert odd.values.tolist() == [2.0, 1.0] and odd.indices.tolist() == [2, 2]


def test_pairs_of_rows():
    x = values("float64", 9, 3).requires_grad_()
    wanted = [float((x[i] - x[j]).detach().norm()) for i in range(9) for j in range(i + 1, 9)]
    np.testing.assert_allclose(F.pdist(x).detach().numpy(), wanted)
    assert fb.autograd.gradcheck(F.pdist, (x,))
    for count in (2, 3, 64, 65, 66, 130):
        y = values("float32", count, 5)
        np.testing.assert_allclose(F.pdist(y).numpy(), F.pdist(y.clone().requires_grad_()).detach().numpy(), rtol=1e-5)
    assert F.pdist(x[:1]).shape == F.pdist(x[:0]).shape == (0,)


def test_initial_values_of_channels_and_shares():
    w = fb.nn.init.dirac_(fb.full((6, 2, 3, 3), 5.0), groups=2)
    assert w.sum() == 4 and all(w[g * 3 + d, d, 1, 1] == 1 for g in range(2) for d in range(2))
    x = fb.nn.init.sparse_(fb.empty(20, 7), 0.33)
    assert ((x == 0).sum(0) == 7).all()
    assert fb.nn.init.sparse_(fb.empty(3, 0), 0.5).shape == (3, 0)


def test_filling_counts_as_a_write():
    for dtype, number in (("float32", 2.5), ("float64", -1.0), ("int64", 7), ("int32", -3), ("bool", True)):
        x = fb.empty(300, 100, dtype=getattr(fb, dtype))
        before = x._version
        assert x.fill_(number) is x and x._version == before + 1 and (x == number).all()


def test_types_of_the_tables_are_those_of_the_library():
    assert dtypes.ALL[5] is fb.int64 and _call.own_loops().keys() >= {"remainder ff->f", "sign f->f"}


# -- programs of pointwise records


@pytest.mark.parametrize("dtype", ("int64", "int32", "uint8"))
def test_whole_numbers_are_divided_natively_and_zeros_refused(dtype):
    x, y = (values("float32", 40, seed=k).abs().mul(9).add(1).to(getattr(fb, dtype)) for k in (0, 1))
    for f, g in ((fb.floor_divide, np.floor_divide), (fb.remainder, np.remainder)):
        for a, b in ((x, y), (x[::2], y[1::2]), (x, 3), (7, y), (x.reshape(8, 5), y.reshape(8, 5)), (x.reshape(8, 5).t(), y[:8])):
            for _ in range(2):  # (the first call makes the program)
                wanted = g(*[t.numpy() if isinstance(t, fb.Tensor) else np.asarray(t, x.numpy().dtype) for t in (a, b)])
                np.testing.assert_array_equal(f(a, b).numpy(), wanted)
        zeros = y.clone()
        zeros[7] = 0
        for b in (zeros, zeros[::7], zeros.reshape(8, 5).t(), 0, y * 0):
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                f(x.reshape(5, 8) if isinstance(b, fb.Tensor) and b.ndim == 2 else x[:1], b)
        kept = x.clone()
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            x.floor_divide_(zeros)
        assert fb.equal(x, kept)


def test_numbers_of_numbers_in_programs():
    x = values("float32", 50)
    for dtype in FLOATS:
        y = x.to(getattr(fb, dtype))
        for f, alpha, scale, inner in (
            (F.selu, 1.6732632423543772, 1.0507009873554805, 1.0),
            (F.elu, 1.0, 1.0, 1.0),
            (F.celu, 1.0, 1.0, 1.0),
        ):
            wide = y.double().numpy()
            wanted = np.where(wide > 0, scale * wide, alpha * scale * np.expm1(np.minimum(wide, 0) * inner))
            for _ in range(2):
                np.testing.assert_allclose(
                    f(y).double().numpy(), wanted, rtol={"float64": 1e-12, "float32": 1e-6}.get(dtype, 8e-3), atol=1e-6
                )


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_functions_of_few_numbers(dtype):
    S = fb.special
    x = fb.tensor([-30.0, -5.5, -1.0, -0.5, -0.0, 0.0, 0.25, 1.0, 5.5, 30.0, np.inf, -np.inf, np.nan]).to(getattr(fb, dtype))
    for f in (S.ndtr, S.log_ndtr, S.erfcx, fb.lgamma, fb.digamma, fb.erf, fb.erfc):
        many = f(x.repeat(500))
        for y in (x, x.repeat(2)[::2], x.reshape(1, -1).expand(3, -1)):
            few = f(y).double().numpy().reshape(-1)[:13]
            wanted = f(y.double()).numpy().reshape(-1)[:13]
            with np.errstate(over="ignore"):
                if dtype == "float16":
                    wanted = wanted.astype(np.float16).astype(np.float64)
            np.testing.assert_allclose(
                few, wanted, rtol={"float64": 1e-12, "float32": 4e-6}.get(dtype, 1e-2), atol=1e-7, err_msg=str(f)
            )
        np.testing.assert_allclose(many.double().numpy()[:13], f(x).double().numpy(), rtol=1e-3, atol=1e-7)
    tail = S.log_ndtr(fb.tensor([-100.0, -1e10], dtype=fb.float64).to(fb.float32)).numpy()
    np.testing.assert_allclose(tail, [-5005.5242, -5e19], rtol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_log_ndtr_logit_and_their_kin(dtype):
    kind = getattr(fb, dtype)
    for f, at in (
        (fb.special.log_ndtr, [-20.0, -1.0, 0.5, 3.0]),
        (fb.special.ndtr, [-3.0, -1.0, 0.5, 3.0]),
        (fb.logit, [0.1, 0.5, 0.75, 0.9]),
    ):
        x = fb.tensor(at).to(kind).requires_grad_()
        f(x).sum().backward()
        v = x.detach().double()
        h = 1e-5
        wanted = (f(v + h) - f(v - h)) / (2 * h)
        size = {"float64": 1e-5, "float32": 1e-4}.get(dtype, 3e-2)
        np.testing.assert_allclose(x.grad.double().numpy(), wanted.numpy(), rtol=size)
    p, q = (values("float32", 20, seed=k).abs().add(0.1) for k in (0, 1))
    p[3] = 0
    q[3] = np.nan
    p[4], q[4] = 0, 0
    found = fb.xlogy(p, q).numpy()
    assert np.isnan(found[3]) and found[4] == 0
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(np.delete(found, [3, 4]), np.delete(p.numpy() * np.log(q.numpy()), [3, 4]), rtol=1e-5)


def test_greatest_common_divisors_and_steps():
    x = fb.tensor([0, 0, 12, -18, 2**62, -(2**63), 7, 1]), fb.tensor([0, 5, -8, 27, 2**40, -(2**63), 13, 0])
    assert bits(fb.gcd(*x)) == bits(fb.gcd.__wrapped__(*x))
    for dtype in TYPES[:-1]:
        v = (
            fb.tensor([-1.0, 0.0, 2.0]).abs().to(getattr(fb, dtype))
            if dtype == "uint8"
            else fb.tensor([-1, 0, 2]).to(getattr(fb, dtype))
        )
        assert fb.heaviside(v, fb.full_like(v, 3)).tolist()[1:] == [3, 1]
    assert fb.heaviside(fb.tensor([np.nan, np.inf]), fb.tensor([1.0, 1.0])).tolist() == [0, 1]


def test_zeta_of_few_floats():
    s, q = (fb.tensor(np.random.default_rng(k).uniform(low, 9, 40), dtype=fb.float32) for k, low in ((0, 1.01), (1, 0.1)))
    np.testing.assert_allclose(fb.special.zeta(s, q).numpy(), special.hurwitz_zeta(s.numpy(), q.numpy()), rtol=2e-6)
    for odd in (1.0, 0.5, np.nan, np.inf, -2.0, 2000.0):
        s[3] = odd
        with np.errstate(all="ignore"):
            wanted = special.hurwitz_zeta(s.numpy(), q.numpy()).astype(np.float32)
        np.testing.assert_allclose(fb.special.zeta(s, q).numpy(), wanted, rtol=2e-6)
