"""Numbers of another type than the tensor's, as bounds and as operands: what PyTorch makes of them."""

import pytest

import flambeau

torch = pytest.importorskip("torch")

BOUNDS = [(-1, 0.25), (0.25, -1), (-1, 2.5), (True, 2.5), (-0.5, 300), (-0.5, 2**40), (3, 2.5), (-1, 5), (-1.5, None), (None, -1)]


def clamped(library, dtype, name, bounds, wrap=lambda f: f):
    x = library.tensor([0, 1, 7], dtype=getattr(library, dtype))
    try:
        out = wrap(lambda x: getattr(x, name)(*bounds))(x)
        return str(out.dtype).split(".")[-1], out.tolist(), x.tolist()
    except (RuntimeError, TypeError) as error:
        return type(error).__name__


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int64", "float32"])
@pytest.mark.parametrize("name", ["clamp", "clamp_", "clip"])
def test_bounds_of_two_types(dtype, name):
    for bounds in BOUNDS:
        assert clamped(flambeau, dtype, name, bounds) == clamped(torch, dtype, name, bounds), bounds


def test_bounds_of_two_types_compiled():
    for bounds in BOUNDS[:4]:
        assert clamped(flambeau, "uint8", "clamp", bounds, flambeau.compile) == clamped(torch, "uint8", "clamp", bounds), bounds


def test_a_bound_that_becomes_symbolic():
    """The whole bound beside it is compared as a real number in every call, not in the first alone."""
    step = lambda x, high: x.clamp(-1, max=high)
    compiled = flambeau.compile(step)
    for high in (0.25, 0.5, 0.75, 2.5):
        given = [library.tensor([0, 1, 7], dtype=library.uint8) for library in (flambeau, torch)]
        assert compiled(given[0], high).tolist() == step(given[1], high).tolist()


OPERANDS = [-1, -3, 300, 2**40, -2.5, True]
FUNCTIONS = {
    "copysign": lambda t, x, n: t.copysign(x, n),
    "xlogy": lambda t, x, n: t.xlogy(x, n),
    "xlogy of a number": lambda t, x, n: t.xlogy(n, x),
    "xlog1py": lambda t, x, n: t.special.xlog1py(x, n),
    "zeta": lambda t, x, n: t.special.zeta(x + 2, n),
    "zeta of a number": lambda t, x, n: t.special.zeta(n, x + 2),
    "float_power": lambda t, x, n: t.float_power(x, n),
}


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int64", "float32"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_beside_tensors(dtype, name):
    """A number is no number of the tensor's type first: -1 beside uint8 was 255, and 300 was refused."""
    for number in OPERANDS:
        shown = [
            FUNCTIONS[name](library, library.tensor([0, 1, 1], dtype=getattr(library, dtype)), number)
            for library in (flambeau, torch)
        ]
        assert str(shown[0].dtype).split(".")[-1] == str(shown[1].dtype).split(".")[-1], number
        assert shown[0].tolist() == pytest.approx(shown[1].tolist(), rel=1e-5, nan_ok=True), number
        signs = [library.signbit(each).tolist() for library, each in zip((flambeau, torch), shown)]
        assert signs[0] == signs[1] or shown[1].isnan().any(), number


def test_scales_of_sums_of_booleans():
    for library in (flambeau, torch):
        x = library.tensor([True, False])
        assert library.add(x, x, alpha=2).tolist() == [True, False]
        with pytest.raises(OverflowError, match="int too big to convert"):
            library.add(x, x, alpha=2**70)
