"""The formulas of generated code against doubles, over all exponents, in each instruction set; special functions as calls of the
runtime's kernels; random words shared by what takes them; orders of loops that a few small arrays must not decide."""

import numpy as np
import pytest

import flambeau as fb
from flambeau import compiler
from flambeau.runtime import counters, native, toolchain
from flambeau.runtime.config import config

EDGES = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    -1e-45,
    1e-40,
    1.1754944e-38,
    3.4028235e38,
    -3.4028235e38,
    1,
    -1,
    0.5,
    2,
    -2,
    0.99999994,
    1.0000001,
    1e-7,
    -1e-7,
    9.1,
    -9.1,
    88.8,
    -103.9,
    128,
    -150,
]
# function, ulp (of the least exact instruction set), only numbers above
ONES = {
    "log": (0.95, 0.0),
    "log2": (1.5, 0.0),
    "log1p": (1.35, -1.0),
    "tanh": (2.6, None),
    "exp": (1.1, None),
    "expm1": (1.8, None),
    "exp2": (0.51, None),
}


@pytest.fixture(autouse=True)
def fresh():
    compiler.reset()


def numbers(above):
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    parts = [drawn, rng.standard_normal(100_000), 1 + rng.standard_normal(50_000) * 0.02, rng.uniform(-150, 150, 50_000), EDGES]
    x = np.concatenate([p.astype(np.float32) for p in map(np.asarray, parts)])
    return x if above is None else np.concatenate([x[x > above], np.float32(EDGES)])


def ulps(got, exact):
    """The greatest distance, in units of the last place of the exact number as a float; what is no number must be the same."""
    with np.errstate(all="ignore"):
        wanted = exact.astype(np.float32)
    finite = np.isfinite(wanted) & np.isfinite(got)
    assert np.array_equal(got[~finite], wanted[~finite], equal_nan=True)
    return (abs(got[finite].astype(np.float64) - exact[finite].astype(np.float64)) / np.spacing(abs(wanted[finite]))).max()


@pytest.mark.parametrize("isa", toolchain.ISA_FLAGS)
@pytest.mark.parametrize("name", ONES)
def test_functions_of_one_number(name, isa):
    if isa not in native.isas():
        pytest.skip(f"this processor cannot run {isa} code")
    bound, above = ONES[name]
    x = numbers(above)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.astype(np.float64))
    with config.patch(isa=isa):
        got = fb.compile(getattr(fb, name))(fb.from_numpy(x)).numpy()
    assert ulps(got, exact) <= bound
    odd = name in ("log1p", "tanh", "expm1")
    assert not odd or np.array_equal(np.signbit(got[x == 0]), np.signbit(x[x == 0]))


def test_powers():
    rng = np.random.default_rng(1)
    bases = np.concatenate(
        [abs(rng.standard_normal(100_000)), 1 + rng.standard_normal(50_000) * 1e-3, 2.0 ** rng.uniform(-149, 127, 100_000)]
    ).astype(np.float32)
    exponents = (rng.standard_normal(bases.size) * rng.choice([1, 30, 3000], bases.size)).astype(np.float32)
    compiled = fb.compile(fb.pow)
    with np.errstate(all="ignore"):
        exact = np.power(bases.astype(np.longdouble), exponents.astype(np.longdouble))
        assert ulps(compiled(fb.from_numpy(bases), fb.from_numpy(exponents)).numpy(), exact) <= 0.53
        x, y = (a.ravel() for a in np.meshgrid(np.float32(EDGES), np.float32([*EDGES, 3, -3, 149, 1e10, 3e38, -0.25])))
        wanted = np.power(x, y)
    for size in (1, 5, 16, 100, x.size):  # with lanes that hold no number
        got = compiled(fb.from_numpy(x[-size:].copy()), fb.from_numpy(y[-size:].copy())).numpy()
        assert np.allclose(got, wanted[-size:], rtol=2e-7, atol=0, equal_nan=True)
        assert np.array_equal(np.signbit(got[got == 0]), np.signbit(wanted[-size:][got == 0]))


NARROW = (fb.int8, fb.uint8, fb.int16, fb.bool, fb.bfloat16, fb.float16, fb.float32, fb.int32, fb.int64, fb.float64)


@pytest.mark.parametrize("size", (1, 7, 15, 16, 17, 100))
def test_conversions_between_widths(size):
    x = fb.arange(-size, size, 2)[:size]
    f = lambda x: [x.to(a).to(b) for a in NARROW for b in NARROW]
    for got, wanted in zip(fb.compile(f)(x), f(x), strict=True):
        assert got.dtype == wanted.dtype and fb.equal(got, wanted)


@pytest.mark.parametrize(
    "name",
    (
        "lgamma",
        "digamma",
        "i0",
        "special.i0e",
        "special.i1",
        "special.i1e",
        "special.erfcx",
        "special.ndtri",
        "special.ndtr",
        "special.log_ndtr",
    ),
)
@pytest.mark.parametrize("shape", ((), (3,), (5, 7), (40, 33)))
def test_special_functions_need_no_eager_call(name, shape):
    function = getattr(fb.special, name.removeprefix("special.")) if "." in name else getattr(fb, name)
    x = (fb.rand(shape) * 0.98 + 0.01).requires_grad_()
    before = dict(counters.snapshot()["fallbacks"])
    out = fb.compile(function)(x)
    assert fb.allclose(out, function(x), rtol=2e-6, atol=1e-6)
    ours, plain = (fb.autograd.grad(f(x).sum(), x)[0] for f in (fb.compile(function), function))
    assert fb.allclose(ours, plain, rtol=2e-5, atol=2e-6)
    assert dict(counters.snapshot()["fallbacks"]) == before


@pytest.mark.parametrize("n", (1, 2, 3, 5))
@pytest.mark.parametrize("dtype", (fb.float32, fb.float64), ids=lambda dtype: dtype.name)
def test_derivatives_of_digamma_far_below_zero(n, dtype):
    """By the recurrence, from a positive number; the number itself, its poles and its ends, eagerly and compiled."""
    x = fb.tensor([-0.5, -2.25, -10.75, -30.25, -200.5, 0.25, 40.5], dtype=dtype)
    steps = [int(np.ceil(max(0.0, -v))) + 1 for v in x.tolist()]
    sign = (-1.0) ** (n + 1)
    factorial = float(np.prod(np.arange(1, n + 1)))
    wanted = [
        fb.polygamma(n, fb.tensor(v + m, dtype=fb.float64)).item() + sign * factorial * sum((v + k) ** -(n + 1) for k in range(m))
        for v, m in zip(x.double().tolist(), steps)
    ]
    tolerance = 1e-5 if dtype is fb.float32 else 1e-9
    for f in (lambda x: fb.polygamma(n, x), fb.compile(lambda x: fb.polygamma(n, x))):
        assert np.allclose(f(x).double().numpy(), wanted, rtol=tolerance)
        ends = f(fb.tensor([np.inf, np.nan, 0.0, -3.0], dtype=dtype)).tolist()
        assert ends[0] == 0 and np.isnan(ends[1]) and ends[2] == ends[3] == sign * np.inf


def test_draws_of_a_recorded_call_are_eagers():
    def f(x):
        return fb.nn.functional.dropout(x, 0.4) * fb.rand_like(x) + fb.randn_like(x)

    compiled, x = fb.compile(f), fb.randn(9, 13).requires_grad_()
    for seed in range(4):
        results = []
        for g in (f, compiled):
            fb.manual_seed(seed)
            out = g(x)
            (first,) = fb.autograd.grad((out * out).sum(), x, create_graph=True)
            (second,) = fb.autograd.grad(first.sum(), x)
            (plain,) = fb.autograd.grad(g(x).sum(), x)
            results.append((out, first, second, plain, fb.rand(3)))
        assert all(fb.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(*results))


def test_a_call_that_fails_gives_its_draws_back():
    def f(x, at):
        return fb.nn.functional.dropout(x, 0.5)[at]

    compiled, x = fb.compile(f), fb.randn(9, 4).requires_grad_()
    for _ in range(3):
        compiled(x, fb.tensor([1, 2])).sum().backward()
    after = []
    for g in (f, compiled):
        fb.manual_seed(3)
        with pytest.raises(IndexError):
            g(x, fb.tensor([1, 200]))
        after.append(fb.rand(3))
    assert fb.equal(*after)


def code(folder, f, *args):
    """(what the compiled function gives, its generated C++)"""
    with config.patch(dump=str(folder)):
        made = fb.compile(f)(*args)
    (text,) = [path.read_text() for path in folder.rglob("kernels.cpp")]
    return made, text


def test_one_counter_gives_its_words_once(tmp_path):
    _, text = code(tmp_path, lambda x: fb.randn_like(x) * x, fb.randn(70))
    assert text.count("philox_words(") == 1 and "to_f((vi)(" in text


def test_neighbours_draw_without_lanes_of_numbers(tmp_path):
    """Elements in order: their counters follow from the first one's, here and where rows begin."""
    for k, shape in enumerate([(70,), (5, 37)]):
        f = lambda x: fb.rand_like(x) + x
        x = fb.ones(shape)
        fb.manual_seed(5)
        made, text = code(tmp_path / str(k), f, x)
        assert "philox_words(philox_keys(" in text
        fb.manual_seed(5)
        assert fb.equal(made, f(x))


def test_the_first_segment_of_a_row_decides_as_the_others_do(tmp_path):
    """A row padded behind its end: neither segment compares its places."""
    f = lambda x: fb.nn.functional.pad(x, (0, 5)) * 2
    x = fb.randn(9, 90)
    made, text = code(tmp_path, f, x)
    assert fb.equal(made, f(x)) and "splat_l(" not in text and "_where(" not in text


def test_what_all_lanes_share_is_converted_once(tmp_path):
    f = lambda x: fb.nn.functional.interpolate(x, size=(11, 24))
    x = fb.randn(2, 3, 7, 24)
    made, text = code(tmp_path, f, x)
    assert fb.equal(made, f(x)) and "(i64)lane(" in text and "to_l(" not in text


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_few_rows_are_summed_together(tmp_path, rows):
    f = lambda x: x.sum(0)
    x = fb.randint(-9, 9, (rows, 999)).float()
    made, text = code(tmp_path, f, x)
    assert fb.equal(made, f(x)) and (f"each_few_rows<{rows}>" in text) == (rows <= 4)


@pytest.mark.parametrize("rows", [2, 3])
def test_large_sums_of_few_rows_go_past_the_caches(tmp_path, rows):
    f = lambda x: x.sum(0)
    x = fb.arange(rows * 2_500_003).float().remainder(7).view(rows, -1)
    made, text = code(tmp_path, f, x)
    assert fb.equal(made, f(x)) and "stream(sum" in text and "Drain drain" in text and "prefetch" not in text


def test_rows_own_numbers_do_not_turn_a_sum_over_columns(tmp_path):
    """The sum down the columns of two matrices, with two numbers of each row: the matrices lie along the columns."""
    f = lambda g, x, mean, scale: (g * (x - mean) * scale).sum(0)
    args = fb.randn(300, 64), fb.randn(300, 64), fb.randn(300, 1), fb.rand(300, 1)
    made, text = code(tmp_path, f, *args)
    assert fb.allclose(made, f(*args), rtol=1e-4, atol=1e-4)
    assert "gather(" not in text and "each_column(" in text


def test_what_a_row_of_parameters_gives_is_computed_once(tmp_path):
    f = lambda x, mean, var: (x - mean) * fb.rsqrt(var + 1e-5)
    args = fb.randn(500, 39), fb.randn(39), fb.rand(39)
    made, text = code(tmp_path, f, *args)
    assert fb.allclose(made, f(*args))
    assert "table" in text
    var = fb.rand(39)

    def grows(x, var):  # an array that the kernel writes is no table
        var.add_(1.0)
        return x * fb.rsqrt(var)

    ours, plain = var.clone(), var.clone()
    assert fb.allclose(fb.compile(grows)(args[0], ours), grows(args[0], plain)) and fb.equal(ours, plain)


@pytest.mark.parametrize("dilation", (1, 2))
def test_windows_of_nothing_but_minus_infinity(dilation):
    """Gradients go where eager's kernels send them, also from the loop form."""

    def f(x):
        return fb.nn.functional.max_pool2d(x, 2, 2, 1, dilation, False, True)

    found = []
    for g in (f, fb.compile(f, backend="loops"), fb.compile(f)):
        x = fb.full((1, 2, 4, 4), -fb.inf).requires_grad_()
        values, places = g(x)
        values.sum().backward()
        found.append((places, x.grad))
    assert (
        all((a == b).all() for other in found[1:] for a, b in zip(found[0], other))
        and found[0][1].sum() == 2 * values[0, 0].numel()
    )
