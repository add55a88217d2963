"""Bounds of another type than the tensor's, and of two types: compared where PyTorch compares them."""

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
