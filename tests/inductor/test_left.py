"""What compiled code could make no faster is left to Python: frames of views alone, or of calls that it would make in eager too.
And what decides whether generated code is as fast as eager's kernels: indices of lanes, remainders, powers of two."""

import itertools
import warnings
import weakref

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import compiler
from flambeau.eager.op.op import OPS
from flambeau.runtime import counters

SPECIAL = [
    0.0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    3,
    -3,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    -1e-45,
    3.4e38,
    -3.4e38,
    1e-38,
    2.0**24,
    2.0**28,
    2.0**29,
    0.1,
    -0.1,
]


@pytest.fixture(autouse=True)
def fresh():
    compiler.reset()


def left():
    return sum(counters.snapshot()["left"].values())


def graphs():
    return counters.snapshot()["graphs"]


VIEWS = {
    "permute": lambda x: x.permute(1, 0),
    "expand": lambda x: x[:, None].expand(4, 5, 6),
    "a chain": lambda x: x.t()[1:].unfold(0, 2, 1),
    "several": lambda x: (x[0], {"rest": x[1:]}, x),
    "diagonal": lambda x: x.diagonal(),
}


@pytest.mark.parametrize("fullgraph", (False, True))
@pytest.mark.parametrize("name", VIEWS)
def test_views_alone_are_left_to_python(name, fullgraph):
    f, x = VIEWS[name], fb.randn(4, 6)
    compiled = fb.compile(f, fullgraph=fullgraph)
    for _ in range(40):
        got = compiled(x)
    assert left() == 1 and graphs() == 0 and counters.snapshot()["breaks"] == {}
    (entry,) = compiled.entries
    assert entry.left and entry.code is f.__code__ and compiled.hits == 39
    flat = lambda value: (
        [value]
        if isinstance(value, fb.Tensor)
        else [t for v in (value.values() if isinstance(value, dict) else value) for t in flat(v)]
    )
    for mine, wanted in zip(flat(got), flat(f(x)), strict=True):
        assert mine is wanted or mine._base is x and mine.stride() == wanted.stride() and fb.equal(mine, wanted)


@pytest.mark.parametrize("backend", ("eager", "aot_eager", "loops"))
def test_other_backends_get_every_graph(backend):
    compiled = fb.compile(VIEWS["permute"], backend=backend)
    assert compiled(fb.ones(2, 3)).shape == (3, 2) and graphs() == 1 and left() == 0


def test_checks_between_stages_get_every_graph():
    assert fb.compile(VIEWS["permute"], options={"verify": True})(fb.ones(2, 3)).shape == (3, 2) and left() == 0


@pytest.mark.parametrize(
    "record", (lambda x: fb.linalg.det(x), lambda x: fb.atan2(x.t(), x.t())[0], lambda x: fb.cummax(x, 0)[0])
)
def test_calls_that_compiled_code_makes_in_eager_are_left(record):
    x = fb.rand(5, 5).requires_grad_()
    compiled = fb.compile(record, fullgraph=True)
    for _ in range(3):
        assert fb.equal(compiled(x), record(x))
    assert left() == 1 and graphs() == 0 and counters.snapshot()["fallbacks"] == {}
    assert fb.equal(fb.autograd.grad(compiled(x).sum(), x)[0], fb.autograd.grad(record(x).sum(), x)[0])


@pytest.mark.parametrize(
    "f", (lambda x: fb.asin(x) + 1, lambda x: fb.sort(x)[0], lambda x: x.t() * 2, lambda x: x.t().clone(), lambda x: x[0].add_(1))
)
def test_what_has_kernels_is_compiled(f):
    x = fb.rand(5, 4)
    assert fb.equal(fb.compile(f)(x.clone()), f(x.clone())) and left() == 0 and graphs() == 1


def test_a_frame_with_a_break_goes_on_compiled():
    def f(x):
        y = x.t()
        print(end="")
        return y * 2

    x = fb.rand(3, 4)
    assert fb.equal(fb.compile(f)(x), x.t() * 2) and graphs() >= 1


def test_other_arguments_are_seen_at_once():
    """Another type, size or constant among the arguments is another question to the guards."""

    def f(x, twice=False):
        return x * 2 if twice or x.dtype is fb.float64 or x.shape[0] > 5 else x.t()

    compiled, x = fb.compile(f), fb.rand(3, 4)
    for _ in range(4):
        assert compiled(x)._base is x
    for number, (args, kwargs) in enumerate(
        (((x, True), {}), ((x.double(),), {}), ((fb.rand(6, 4),), {}), ((x,), {"twice": 1})), 1
    ):
        assert fb.equal(compiled(*args, **kwargs), args[0] * 2) and graphs() == number
        assert compiled(x)._base is x


class Settings:
    twice = False


def test_what_is_no_argument_is_seen_soon():
    def f(x):
        return x * 2 if Settings.twice else x.t()

    compiled, x = fb.compile(f), fb.rand(3, 3)
    try:
        for _ in range(20):
            assert fb.equal(compiled(x), x.t())
        Settings.twice = True
        for _ in range(16):
            assert fb.equal(compiled(x), x * 2)  # by the function itself, or compiled
        assert graphs() == 1
    finally:
        Settings.twice = False


def test_side_effects_and_errors_are_the_functions_own():
    seen = []

    def f(x, n):
        seen.append(n)
        return x.reshape(-1)[:n].view(2, -1)

    compiled, x = fb.compile(f), fb.rand(2, 4)
    for n in (4, 4, 4, 2, 8):
        assert compiled(x, n).shape == (2, n // 2)
    assert seen == [4, 4, 4, 2, 8]
    with pytest.raises(RuntimeError, match="invalid for input of size 3|shape"):
        compiled(x, 3)


def test_it_is_told():
    told = compiler.explain(VIEWS["permute"])(fb.ones(2, 3))
    assert told.graph_count == 0 and told.left == {"it makes views and computes nothing": 1}
    assert "left to Python: it makes views and computes nothing (1 frame)" in str(told)
    compiled = fb.compile(lambda x: fb.asin(x))
    compiled(fb.zeros(3))
    text = str(compiler.report(compiled))
    assert "left to Python: what it computes is called in eager from compiled code, too: asin" in text


def test_arguments_live_no_longer():
    compiled = fb.compile(VIEWS["permute"])
    compiled(fb.rand(3, 4))
    x = fb.rand(3, 4)
    for _ in range(3):
        compiled(x)
    seen = weakref.ref(x)
    del x
    assert seen() is None


# -- what generated code computes in registers


@pytest.mark.parametrize("size", (441, 37, 5))
def test_remainders_have_eagers_bits(size):
    rng = np.random.default_rng(0)
    a, b = map(np.array, zip(*itertools.product(SPECIAL, SPECIAL)))
    more = [
        np.concatenate([rng.standard_normal(4000) * 10.0 ** rng.integers(-20, 20, 4000), rng.integers(-90, 90, 4000)])
        for _ in "ab"
    ]
    a, b = (
        np.concatenate([part, other])[-size:] if size < 441 else np.concatenate([part, other])
        for part, other in zip((a, b), more)
    )
    x, y = fb.from_numpy(a.astype(np.float32)), fb.from_numpy(b.astype(np.float32))
    f = lambda x, y: (x % y, x // y, fb.fmod(x, y), x % 0.75)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mine, wanted in zip(fb.compile(f)(x, y), f(x, y)):
            mine, wanted = mine.numpy(), wanted.numpy()
            assert np.array_equal(np.isnan(mine), np.isnan(wanted))
            assert np.array_equal(np.signbit(mine[~np.isnan(mine)]), np.signbit(wanted[~np.isnan(mine)]))
            assert np.array_equal(mine, wanted, equal_nan=True)


def test_powers_of_two_are_rounded_rightly():
    y = np.concatenate([np.random.default_rng(0).standard_normal(5000) * 60, SPECIAL, [128, 127.99999, -149, -150]]).astype(
        np.float32
    )
    with np.errstate(all="ignore"):
        exact = np.exp2(y.astype(np.float64)).astype(np.float32)
    for got in fb.compile(lambda x: (fb.exp2(x), 2.0**x))(fb.from_numpy(y)):
        assert np.array_equal(got.numpy(), exact, equal_nan=True)


@pytest.mark.parametrize("columns", (1, 7, 16, 45))
@pytest.mark.parametrize(
    "dtype", (fb.float32, fb.float64, fb.bfloat16, fb.int64, fb.int16, fb.uint8, fb.bool), ids=lambda dtype: dtype.name
)
def test_elements_by_indices_of_lanes(dtype, columns):
    """Places that are affine in an index of each lane: alone, beside a row, with a step, of two indices."""
    x = (fb.randn(9, 50) * 20).to(dtype)
    i, j = fb.randint(0, 50, (9, columns)), fb.randint(0, 9, (9, columns))

    def f(x, i, j):
        return x.gather(1, i), x[j, i], x.t()[i, 3], x[:, ::2].gather(1, i // 2), fb.take(x, i + 50 * j)

    for mine, wanted in zip(fb.compile(f)(x, i, j), f(x, i, j)):
        assert mine.dtype is wanted.dtype and fb.equal(mine, wanted)
    i[4, columns - 1] = 50
    with pytest.raises((IndexError, RuntimeError)):
        fb.compile(lambda x, i: x.gather(1, i) + x.gather(1, i))(x, i)


@pytest.mark.parametrize("columns", (1, 7, 16, 45))
@pytest.mark.parametrize(
    "dtype", (fb.float32, fb.float64, fb.bfloat16, fb.int64, fb.int16, fb.uint8), ids=lambda dtype: dtype.name
)
def test_what_goes_to_indices_of_lanes(dtype, columns):
    """In the order of the lanes, several to one place."""
    x, y = (fb.randn(9, 50) * 20).to(dtype), (fb.randn(9, columns) * 3).to(dtype)
    i, j = fb.randint(0, 50, (9, columns)), fb.randint(0, 3, (9, columns))

    def f(x, y, i, j):
        return (
            x.scatter_add(1, i, y),
            x.scatter_add(0, j, y),
            x.scatter(1, i, y),
            x.t().contiguous().index_put((i, j), y),
            x.scatter_reduce(1, i, y, "amax"),
            x.scatter_reduce(0, j, y, "prod"),
        )

    for mine, wanted in zip(fb.compile(f)(x, y, i, j), f(x, y, i, j)):
        assert mine.dtype is wanted.dtype and fb.equal(mine, wanted)


# -- what a compiled call saves


def test_saved_values_are_compared_with_their_versions():
    f = fb.compile(lambda x, y: (x * y).sin() * y)
    x, y = fb.rand(3).requires_grad_(), fb.rand(3).requires_grad_()
    f(x, y).sum().backward()
    out = f(x, y)
    with fb.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    kept = []
    with fb.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or len(kept) - 1, lambda k: kept[k]):
        out = f(x, y)
    fb.autograd.grad(out.sum(), x)
    mine = fb.compile(lambda x: x.exp())
    out = mine(x)
    with fb.no_grad():
        out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


# -- integers in registers


WHOLE = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    -7,
    62,
    63,
    64,
    65,
    -64,
    2**31 - 1,
    -(2**31),
    2**50,
    2**51 - 1,
    2**51,
    -(2**51),
    2**53 + 1,
    2**63 - 1,
    -(2**63),
]


@pytest.mark.parametrize("dtype", (fb.int64, fb.int32, fb.int16, fb.int8, fb.uint8), ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("divisor", (None, 1, 2, 3, 7, -3, 64, 100))
def test_integers_are_divided_as_in_eager(dtype, divisor):
    """Small ones in doubles, others lane by lane, also in one register."""
    info = np.iinfo(dtype.numpy)
    numbers = [n for n in WHOLE if info.min <= n <= info.max]
    x = np.array([a for a in numbers for _ in numbers], dtype.numpy)
    y = np.array([b for _ in numbers for b in numbers], dtype.numpy)
    with np.errstate(all="ignore"):
        keep = (y != 0) & ~((x == info.min) & (y == -1))
    x, y = fb.from_numpy(x[keep]), fb.from_numpy(y[keep])
    if divisor is not None and info.min <= divisor:
        y = fb.full_like(x, divisor)
        f = lambda x, y: (x // divisor, x % divisor, fb.div(x, divisor, rounding_mode="trunc"))
        x = x[x != info.min] if divisor == -1 else x
    else:
        f = lambda x, y: (x // y, x % y, fb.div(x, y, rounding_mode="trunc"))
    for size in (len(x), 37, 5):
        for ours, plain in zip(fb.compile(f)(x[:size], y[:size]), f(x[:size], y[:size]), strict=True):
            assert ours.dtype == plain.dtype and fb.equal(ours, plain)


@pytest.mark.parametrize("dtype", (fb.int64, fb.int32, fb.int16, fb.int8, fb.uint8), ids=lambda dtype: dtype.name)
def test_integers_are_shifted_as_in_eager(dtype):
    """By fewer bits than there are, by as many, by more, and by less than none."""
    info = np.iinfo(dtype.numpy)
    numbers = [n for n in WHOLE if info.min <= n <= info.max]
    bits = [n for n in (0, 1, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, -1, -5) if info.min <= n <= info.max]
    x = fb.from_numpy(np.array([a for a in numbers for _ in bits], dtype.numpy))
    y = fb.from_numpy(np.array([b for _ in numbers for b in bits], dtype.numpy))
    f = lambda x, y: (x << y, x >> y)
    for ours, plain in zip(fb.compile(f)(x, y), f(x, y), strict=True):
        assert fb.equal(ours, plain)


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.int64, fb.int32, fb.uint8, fb.bool), ids=lambda dtype: dtype.name)
def test_the_first_of_equals_is_the_position(dtype):
    """Along rows, columns and both, with NaN and infinities, with one element and with as many as fill registers."""
    rng = np.random.default_rng(0)
    for sizes in ((3, 50, 21), (2, 1, 16), (4, 33, 1)):
        x = rng.integers(0, 2 if dtype is fb.bool else 4, sizes).astype(dtype.numpy)
        if dtype.is_floating_point:
            for value in (np.nan, np.inf, -np.inf):
                x[rng.random(sizes) < 0.02] = value
        x = fb.from_numpy(x)
        own = () if dtype is fb.bool else (fb.argmax, fb.argmin)
        f = lambda x: [g(x, d) for g in own for d in (0, 1, 2, None)] + [*fb.max(x, 1), *fb.min(x, 2), *fb.max(x, 0)]
        for ours, plain in zip(fb.compile(f)(x), f(x), strict=True):
            assert fb.equal(
                fb.nan_to_num(ours) if ours.is_floating_point() else ours,
                fb.nan_to_num(plain) if plain.is_floating_point() else plain,
            )


# -- what rows share


@pytest.mark.parametrize("sizes", ((20, 21), (3, 9, 64), (9, 1), (1, 300), (12, 2048), (9, 2500)))
def test_what_rows_share_is_computed_once(sizes):
    """Values of the place in the row alone: whole numbers, truth values, floats; in rows of one and of many elements."""
    x = fb.rand(*sizes)
    n = sizes[-1]

    def f(x):
        at = fb.arange(n)
        wave = (at * 0.1).sin() * (at / 7).exp().clamp(max=100)
        return x * wave, x + (at * 7 // 3 % 5), fb.where((at * at) % 3 == 1, x, -x), (at % 11).to(fb.int8) + (x * 4).to(fb.int8)

    for ours, plain in zip(fb.compile(f)(x), f(x), strict=True):
        assert ours.dtype == plain.dtype and fb.allclose(ours.double(), plain.double(), rtol=1e-5)


@pytest.mark.parametrize("sizes", ((7, 5, 40), (2, 3, 200), (30, 1, 17)))
def test_uneven_indices_are_computed_in_registers(sizes):
    """Places that a division, a remainder or an end tells; beside ones that the data tells."""
    x = fb.rand(*sizes)
    index = fb.randint(0, sizes[-1], (sizes[-1],))

    def f(x):
        y = x.reshape(-1)[: x.numel() // 5 * 5].reshape(5, -1).t().reshape(-1)
        return (
            y * 2,
            x.roll(3, -1) + 1,
            x.flip(-1).repeat_interleave(3, -1) * 2,
            F.pad(x, (3, 2), "circular") + 1,
            F.pad(x, (1, 1), "replicate") * 2,
            x[..., index].roll(2, -1) + x,
            F.interpolate(x, size=37) * 2,
        )

    for ours, plain in zip(fb.compile(f)(x), f(x), strict=True):
        assert fb.allclose(ours, plain)


# -- windows


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.bfloat16), ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(
    "window",
    (
        dict(kernel_size=3, stride=2),
        dict(kernel_size=(2, 3), stride=(1, 2), padding=(1, 0)),
        dict(kernel_size=3, padding=1),
        dict(kernel_size=2, stride=3, dilation=2, padding=1),
        dict(kernel_size=(1, 5), padding=(0, 4)),
        dict(kernel_size=4, stride=4),
    ),
)
def test_columns_are_added_up_by_one_kernel(window, dtype):
    """The gradient of `unfold`, and `fold`: eagerly, compiled, and by the record's formula."""
    x = fb.randint(-9, 9, (2, 3, 7, 21)).to(dtype)  # sums are exact
    columns = F.unfold(x, **window)
    f = lambda y: F.fold(y, (7, 21), **window)
    wanted = f(columns)
    assert fb.equal(fb.compile(f)(columns), wanted)
    assert fb.equal(fb.compile(lambda y: f(y.mT.contiguous().mT))(columns), wanted)
    pairs = [
        (n, n) if type(n) is int else n
        for n in (window["kernel_size"], *(window.get(k, d) for k, d in (("stride", 1), ("padding", 0), ("dilation", 1))))
    ]
    assert np.array_equal(wanted.float().numpy(), OPS["fold_windows"].kernels["numpy"](columns.double().numpy(), (7, 21), *pairs))
    y = x.clone().requires_grad_()
    unfold = lambda y: F.unfold(y, **window)
    grads = [fb.autograd.grad(g(y), y, columns)[0] for g in (unfold, fb.compile(unfold))]
    assert fb.equal(*grads) and fb.equal(grads[0], wanted)
