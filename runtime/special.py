"""Native kernels of special functions (csrc/special.h) on arrays, and the series that they are evaluated with.

In: arrays of floating types, whose values may be anything. Out: a fresh array of a given type, in the order of memory of
the operand. A series is fitted at its first use to a function that the caller has (the formula in numpy)."""

from __future__ import annotations

import math

import numpy as np

from .kernel_calls import TYPES as CALL_TYPES, RuntimeCall
from .kernels import GRAIN, TYPES, empty, run

_NONE = np.zeros(0)
_WIDE = np.dtype(np.float64)
_STEPS = {"ndtri": (2,)}  # of a method of third order, from an approximation that is off by 0.003
_FLOAT_STEPS = {"ndtri": (1,)}
_LEAST = 1e-10  # of its greatest coefficient: what is less makes no difference to a float
_POWERS = {"ndtr"}  # whose kernel takes coefficients of powers: one operation for each instead of two
_series: dict = {}


def special(name, x, kind, function=None, s=0, factor=1.0):
    """The function `name` of x in type `kind`: what the kernels know directly, others through doubles. `function`: the name's
    formula in numpy, for its series; `s`, `factor`: polygamma's."""
    inner = x.dtype if x.dtype == kind and x.dtype in TYPES else _WIDE
    y = np.ascontiguousarray(x, inner) if x.ndim else x.astype(inner)
    out = empty(y.shape, inner)
    coefficients, numbers = series(name, function, inner == _WIDE)
    run(name, inner, y.size, GRAIN // 16, (out, y, coefficients), numbers or (s,), (factor,))
    if inner == kind:
        return out
    with np.errstate(all="ignore"):
        return out.astype(kind)


def special_calls(c, name, out, x, coefficients, numbers, factor=1.0):
    """For compiled code: the function as a call of its kernel; `coefficients`: the table of its series, or None."""
    arrays = out, c.rows(x), coefficients
    return (
        RuntimeCall(name, CALL_TYPES[x.dtype.name], math.prod(x.shape), 64, arrays, numbers or (0,), (factor,), same=((0, 1),)),
    )


def series(name, function, wide):
    """(all coefficients, how many each series has and other whole numbers of the kernel); `wide`: for doubles"""
    coefficients, counts = _coefficients(name, function, wide)
    return coefficients, (*counts, *(_STEPS if wide else _FLOAT_STEPS).get(name, ()))


def _coefficients(name, function, wide):
    if function is None:
        return _NONE, ()
    found = _series.get((name, wide))
    if found is None:
        with np.errstate(all="ignore"):
            parts = [np.polynomial.chebyshev.chebinterpolate(f, n) for f, n in _FITS[name](function)]
        if not wide:
            parts = [c[: np.flatnonzero(np.abs(c) > _LEAST * np.abs(c).max())[-1] + 1] for c in parts]
        if name in _POWERS:
            parts = [np.polynomial.chebyshev.cheb2poly(c) for c in parts]
        found = _series[name, wide] = np.concatenate(parts), tuple(map(len, parts))
    return found


def _bessel(order):
    """exp(-x) I(x) on [0, 8], over x where it is odd; the root of x times it in 8/x beyond."""

    def fits(function):
        yield lambda t: function(4 * (t + 1)) / (4 * (t + 1)) ** order, 34
        yield lambda t: function(16 / (t + 1)) * np.sqrt(16 / (t + 1)), 30

    return fits


def _erfcx(function):
    """(1 + 2x) erfcx(x) in (x - 3.75) / (x + 3.75)"""

    def at(t):
        x = 3.75 * (1 + t) / (1 - t)
        return function(x) * (1 + 2 * x)

    yield at, 40


_FITS = {
    "i0": _bessel(0),
    "i0e": _bessel(0),
    "i1": _bessel(1),
    "i1e": _bessel(1),
    **dict.fromkeys(("erfcx", "ndtri", "ndtr", "log_ndtr"), _erfcx),
}
