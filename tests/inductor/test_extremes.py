"""Extremes with their places, and single elements put into zeros, in generated C++."""

import math

import flambeau
import pytest
from flambeau import compiler
from flambeau.nn import functional as F
from flambeau.runtime.config import config

from .test_calls import check, randn, text_of

CALLS = {
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1),
    "argmax": lambda x: (x.argmax(1), x.argmin(1)),
    "whole": lambda x: (x.argmax(), x.argmin()),
}
VALUES = {
    "random": lambda x: x,
    "ties": lambda x: (x * 2).round(),
    "equal": lambda x: x * 0,
    "nan": lambda x: x.masked_fill(x > 1, math.nan),
    "infinities_before_nan": lambda x: (
        x.masked_fill(x > 0, math.inf).masked_fill(x < 0, -math.inf).masked_fill(x > 1.5, math.nan)
    ),
    "nan_alone": lambda x: x * math.nan,
    "lowest": lambda x: x * 0 - math.inf,
    "highest": lambda x: x * 0 + math.inf,
    "zeros": lambda x: x.sign() * 0,
}


def compiled(f, *args, **options):
    with config.patch(strict=True, optimize=1):
        compiler.reset()
        found = flambeau.compile(f, **options)(*args)
    assert compiler.counters()["fallbacks"] == {}
    return found


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "int64", "int32", "uint8"])
@pytest.mark.parametrize("width", [1, 7, 16, 33, 130])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("values", VALUES)
def test_the_first_of_the_best(values, call, width, kind):
    if not kind.startswith(("float", "bfloat")) and values not in ("random", "ties", "equal"):
        pytest.skip("no such values")
    x = VALUES[values](flambeau.randn(6, width)).to(getattr(flambeau, kind))
    for a, b in zip(compiled(CALLS[call], x), CALLS[call](x)):
        assert a.dtype is b.dtype and flambeau.equal(a.nan_to_num(9.0, 8.0, 7.0), b.nan_to_num(9.0, 8.0, 7.0))


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_dear_is_not_computed_twice(dynamic):
    f = lambda x: (x.exp().sin() * x).max(1)
    x = randn(5, 70)
    for a, b in zip(compiled(f, x, dynamic=dynamic), f(x)):
        assert flambeau.allclose(a, b)
    assert "until_vector" not in text_of(f, flambeau.randn(5, 70))
    assert "until_vector" in text_of(lambda x: x.max(1), flambeau.randn(5, 70))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.max(1)[0],
        lambda x: x.min(0)[0] * 2,
        lambda x: x.gather(1, x.argmax(1, keepdim=True)) + 1,
        lambda x: x.t().max(0)[0],
    ],
    ids=["max", "min", "gather", "transposed"],
)
@pytest.mark.parametrize("sizes", [(30, 40), (3, 17), (40, 16), (16, 3)])
def test_gradients_of_extremes(f, sizes):
    check(f, randn(*sizes))
    check(f, randn(*sizes), dynamic=True)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("sizes", [(40, 30), (4, 30, 17), (2, 20, 3, 5)])
def test_gradients_of_what_is_picked_per_row(sizes, reduction):
    target = flambeau.randint(0, sizes[1], (sizes[0], *sizes[2:]))
    target[0] = -100
    check(lambda x: F.nll_loss(x, target, reduction=reduction), randn(*sizes))


def test_single_elements_are_put_into_zeros():
    def f(g, place):
        return flambeau.where(flambeau.arange(64) == place[:, None], g[:, None], 0.0)

    g, place = flambeau.randn(30), flambeau.randint(0, 64, (30,))
    place[3], place[4], place[5], place[6] = -1, 64, 1 << 40, -(1 << 40)  # outside of a row, there is nothing to put
    place[7], place[8] = 0, 63
    assert flambeau.equal(compiled(f, g, place), f(g, place))
    assert "scatter (set)" in text_of(f, g, place)
    many = lambda g, place: (f(g, place), f(g, place) * 2)
    for a, b in zip(compiled(many, g, place), many(g, place)):
        assert flambeau.equal(a, b)
