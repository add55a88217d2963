"""Python numbers that a type does not hold are refused wherever they meet one; those that it does hold are taken."""

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F

BYTE, SHORT, HALF, SINGLE, COMPLEX = torch.int8, torch.int16, torch.float16, torch.float32, torch.complex64
ones = lambda dtype: torch.ones(2, dtype=dtype)
which = torch.tensor([True, False])

# what takes a tensor and a number that becomes one of its elements -> types, the largest number that they hold, one that they do not
PLACES = {
    "alpha of add": lambda x, n: x.add(x, alpha=n),
    "alpha of sub": lambda x, n: x.sub(x, alpha=n),
    "alpha of add_": lambda x, n: x.add_(x, alpha=n),
    "where": lambda x, n: torch.where(which, x, n),
    "where's first": lambda x, n: torch.where(which, n, x),
    "value of pad": lambda x, n: F.pad(x, (1, 1), value=n),
    "clamp": lambda x, n: x.clamp(max=n),
    "clamp_": lambda x, n: x.clamp_(max=n),
    "fill_": lambda x, n: x.fill_(n),
    "full": lambda x, n: torch.full((2,), n, dtype=x.dtype),
    "full_like": torch.full_like,
    "new_full": lambda x, n: x.new_full((2,), n),
    "masked_fill": lambda x, n: x.masked_fill(which, n),
    "linspace": lambda x, n: torch.linspace(0, n, 3, dtype=x.dtype),
    "value of addcmul": lambda x, n: x.addcmul(x, x, value=n),
    "hardtanh": lambda x, n: F.hardtanh(x, -1, n) if n > 0 else F.hardtanh(x, n, 1),
    "threshold": lambda x, n: F.threshold(x, n, 0),
    "beta of addmv": lambda x, n: torch.addmv(x, torch.ones(2, 2, dtype=x.dtype), x, beta=n),
}
# settings of functions of real numbers, with the type that they are read in where the elements are halves
SETTINGS = {
    "leaky_relu": (F.leaky_relu, SINGLE),
    "leaky_relu_": (F.leaky_relu_, SINGLE),
    "elu": (F.elu, SINGLE),
    "celu": (F.celu, SINGLE),
    "softplus": (F.softplus, SINGLE),
    "hardshrink": (F.hardshrink, HALF),
    "hardtanh_": (lambda x, n: F.hardtanh_(x, -1, n), HALF),
    "rrelu": (lambda x, n: F.rrelu(x, 0.1, n), SINGLE),
    "threshold": (lambda x, n: F.threshold(x, n, 0), SINGLE),
    "value of threshold": (lambda x, n: F.threshold(x, 0, n), HALF),
    "where": (lambda x, n: torch.where(which, x, n), torch.float64),
    "value of addcmul": (lambda x, n: x.addcmul(x, x, value=n), SINGLE),
}
HELD = {BYTE: (127, 128), SHORT: (-32768, -32769), SINGLE: (3e38, 1e300)}


@pytest.mark.parametrize("dtype", HELD, ids=str)
@pytest.mark.parametrize("place", PLACES)
def test_what_the_type_does_not_hold(place, dtype):
    fits, too_large = HELD[dtype]
    assert PLACES[place](ones(dtype), fits).dtype is dtype
    kept = ones(dtype)
    with pytest.raises(RuntimeError, match="value cannot be converted to type .* without overflow"):
        PLACES[place](kept, too_large)
    assert kept.tolist() == [1, 1]


@pytest.mark.parametrize("place", ["fill_", "full", "full_like", "new_full"])
def test_complex_numbers(place):
    assert PLACES[place](ones(COMPLEX), 3e38j)[0].item().imag == pytest.approx(3e38)
    assert PLACES[place](ones(COMPLEX), complex(0, float("inf")))[0].item().imag == float("inf")
    with pytest.raises(RuntimeError, match="value cannot be converted to type"):
        PLACES[place](ones(COMPLEX), 1e300j)


@pytest.mark.parametrize(
    "f",
    [lambda x: F.hardtanh(x, -300, 300), lambda x: F.threshold(x, 0, 300), lambda x: x**300],
    ids=["hardtanh", "threshold", "power"],
)
def test_settings_of_functions_of_integers(f):
    assert f(ones(torch.int16)).dtype is torch.int16
    with pytest.raises(RuntimeError, match="int8_t without overflow"):
        f(ones(BYTE))


@pytest.mark.parametrize("dtype", [BYTE, torch.int64, SINGLE], ids=str)
def test_integers_beyond_64_bits(dtype):
    """They wrapped around to other numbers beside integers."""
    x = ones(dtype)
    for f in (
        lambda n: x + n,
        lambda n: n - x,
        lambda n: x * n,
        lambda n: x == n,
        lambda n: x < n,
        lambda n: x.pow(n) if dtype is SINGLE else x // n,
        lambda n: x.clamp(max=n),
        lambda n: torch.full_like(x, n) if dtype is not SINGLE else x + n,
        lambda n: x.copysign(n),
        lambda n: torch.searchsorted(x, n),
    ):
        with pytest.raises((OverflowError, RuntimeError), match="too big|negative int|without overflow"):
            f(2**64)
    assert (x + (2**63 - 1) == x + (2**63 - 1)).all()


@pytest.mark.parametrize(
    "dtype, low, high, words",
    [
        (BYTE, 0, 129, "to - 1 is out of bounds for signed char"),
        (BYTE, -129, 0, "from is out of bounds for signed char"),
        (torch.uint8, -1, 5, "from is out of bounds for unsigned char"),
        (torch.bool, 0, 3, "to - 1 is out of bounds for bool"),
        (HALF, 0, 65506, "to - 1 is out of bounds for c10::Half"),
        (torch.int32, 0, 2**31 + 1, "to - 1 is out of bounds for int"),
    ],
)
def test_bounds_of_whole_draws(dtype, low, high, words):
    for draw in (
        lambda a, b: torch.zeros(3, dtype=dtype).random_(a, b),
        lambda a, b: torch.randint(a, b, (3,), dtype=dtype),
        lambda a, b: torch.randint_like(torch.zeros(3, dtype=dtype), a, b),
    ):
        with pytest.raises(RuntimeError, match=words):
            draw(low, high)
        drawn = draw(0, 2)
        assert drawn.dtype is dtype and bool((drawn >= 0).all()) and bool((drawn <= 1).all())


def test_a_number_beyond_the_elements_type_is_not_among_them():
    x = torch.tensor([1, 44], dtype=BYTE)  # 300 wraps around to 44
    assert torch.isin(x, 300).tolist() == [False, False] and torch.isin(x, 44).tolist() == [False, True]
    assert torch.isin(300, x).item() is False and torch.isin(torch.tensor([0.5, 2.0]), 2).tolist() == [False, True]


@pytest.mark.parametrize(
    "name, f",
    [
        ("div_floor", lambda x, y: x // y),
        ("div_trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc")),
        ("remainder", lambda x, y: x % y),
        ("fmod", torch.fmod),
        ("remainder", lambda x, y: x.clone().remainder_(y)),
    ],
)
def test_truth_values_are_not_divided(name, f):
    """Eager gave truth values, and the loop interpreter numpy's error for the negative of one."""
    x = torch.tensor([True, False])
    for y in (x, True):
        for call in (f, torch.compile(f, backend="loops")):
            with pytest.raises(NotImplementedError, match=f"\"{name}_cpu\" not implemented for 'Bool'"):
                call(x, y)
    assert f(x.int(), torch.tensor([True, True])).dtype is torch.int32


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_functions_of_real_numbers(name):
    f, held = SETTINGS[name]
    for dtype, beyond in ((SINGLE, 1e300 if held is not torch.float64 else None), (HALF, {SINGLE: 1e300, HALF: 1e5}.get(held))):
        assert f(ones(dtype), 0.5).dtype is dtype
        if beyond is not None:
            with pytest.raises(RuntimeError, match="value cannot be converted to type .* without overflow"):
                f(ones(dtype), beyond)
    if held is not HALF:
        assert f(ones(HALF), 1e5).dtype is HALF


def test_exponents_of_halves():
    """Single precision computes its exponents as doubles; halves do not."""
    assert ones(SINGLE).pow(1e300).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="c10::Half without overflow"):
        ones(HALF) ** 1e5


def test_bounds_of_real_draws():
    for low, high, words in ((0, 1e300, "to is out of bounds for float"), (-1e300, 0, "from is out of bounds for float")):
        x = torch.zeros(3)
        with pytest.raises(RuntimeError, match=words):
            x.uniform_(low, high)
        assert x.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="to is out of bounds for c10::Half"):
        torch.zeros(3, dtype=HALF).uniform_(0, 1e5)


def test_tensordot_says_what_dims_are():
    with pytest.raises(TypeError, match=r"tensordot\(\): argument 'dims' must be an int or two lists"):
        torch.tensordot(torch.ones(2, 2), torch.ones(2, 2), dims="ab")


def test_expanded_memory_takes_itself():
    """Also where nobody has asked for its storage yet."""
    x = torch.from_numpy(np.lib.stride_tricks.as_strided(np.arange(3.0), (2, 3), (0, 8)))
    x[...] = x
    x.copy_(x)
    assert x.tolist() == [[0, 1, 2], [0, 1, 2]]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.copy_(torch.ones(2, 3))


@pytest.mark.parametrize("n", [6, 100_000])
def test_a_copy_from_memory_that_lies_across_is_refused(n):
    """Small copies moved the bytes as if the source had been taken out first."""
    x = torch.arange(float(n))
    for write in (lambda: x[1:].copy_(x[:-1]), lambda: x[:4].copy_(x[2:6]), lambda: x[2:6].copy_(x[:4])):
        with pytest.raises(
            RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single memory"
        ):
            write()
    assert x[:4].copy_(x[:4]).tolist() == [0, 1, 2, 3] and x[:2].copy_(x[2:4]).tolist() == [2, 3]
    assert x[2:].tolist() == list(range(2, n))


VALUES = {
    "masked_fill": lambda x, n: x.masked_fill(which, n),
    "masked_fill_": lambda x, n: x.masked_fill_(which, n),
    "x[mask] = n": lambda x, n: x.__setitem__(which, n),
    "index_put_": lambda x, n: x.index_put_((which,), n),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([0]), n),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(
    "dtype, value",
    [
        (HALF, 1e6),
        (SINGLE, 1e300),
        (COMPLEX, 1e300),
        (BYTE, 200.0),
        (torch.int64, float("inf")),
        (SINGLE, 2 - 1.5j),
        (HALF, 2 - 1.5j),
    ],
    ids=str,
)
def test_tensors_that_stand_for_a_number_are_held_to_the_type_as_well(name, dtype, value):
    x, n = ones(dtype), torch.tensor(value, dtype=torch.complex128 if isinstance(value, complex) else torch.float64)
    with pytest.raises(RuntimeError, match="without overflow|Converting complex Scalar"):
        VALUES[name](x, n)
    assert torch.equal(x, ones(dtype))
    VALUES[name](x, torch.tensor(3.0, dtype=torch.float64))
