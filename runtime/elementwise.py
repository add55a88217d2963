"""Threaded maps of contiguous floating arrays that numpy has no single loop for.

Each function gives a fresh array, or NotImplemented for other operands."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .kernel_calls import TYPES, RuntimeCall
from .kernels import GRAIN, TYPES as _TYPES, empty, grain_of, has_job, are_contiguous_floats, run

_WIDE = np.dtype(np.float64)


def formula(name: str, operands: int) -> Callable:
    """The kernel of a record with so many tensors whose formula stands in csrc/formulas.h: arrays of one floating type and size,
    side by side in memory, then its parameters. (Of costly functions doubles have none: the C library is as fast.)"""
    if not has_job(name, np.dtype(np.float32)):
        return lambda *_: NotImplemented  # of a new record, until the file is made anew
    doubles = has_job(name, _WIDE)

    def of_one(x, *reals):
        if not isinstance(x, np.ndarray) or not x.size or not are_contiguous_floats(x) or x.dtype == _WIDE and not doubles:
            return NotImplemented
        out = empty(x.shape, x.dtype)
        run(name, x.dtype, x.size, GRAIN, (out, x), (), reals)
        return out

    def of_two(a, b, *reals):
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or not a.size or a.shape != b.shape:
            return NotImplemented
        if not are_contiguous_floats(a, b) or a.dtype == _WIDE and not doubles:
            return NotImplemented
        out = empty(a.shape, a.dtype)
        run(name, a.dtype, a.size, GRAIN, (out, a, b), (), reals)
        return out

    return of_one if operands == 1 else of_two


def every(name, x):
    """A map that is there for all floating types, of an array of any strides; the result keeps the order of its memory."""
    if not isinstance(x, np.ndarray) or not x.size or x.dtype not in _TYPES:
        return NotImplemented
    y = x if are_contiguous_floats(x) else x.copy(order="K")
    out = empty(y.shape, y.dtype) if y.flags.c_contiguous else np.empty_like(y)
    run(name, y.dtype, y.size, GRAIN // 4, (out, y), (), ())
    return out


def every_pair(name, a, b):
    """A map of two arrays of one type and size, side by side in memory."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)) or not a.size or a.dtype not in _TYPES:
        return NotImplemented
    if a.dtype != b.dtype or a.shape != b.shape or not are_contiguous_floats(a, b):
        return NotImplemented
    out = empty(a.shape, a.dtype)
    run(name, a.dtype, a.size, GRAIN // 4, (out, a, b), (), ())
    return out


def zeta(s, q):
    """Hurwitz's zeta function of floats s > 1 and q > 0 that are neither huge nor close to these bounds."""
    if not (isinstance(s, np.ndarray) and isinstance(q, np.ndarray)) or s.dtype != np.float32 or s.shape != q.shape or not s.size:
        return NotImplemented
    if not are_contiguous_floats(s, q) or not (1.0001 < s.min() and s.max() < 1e3 and 0 < q.min() and q.max() < 1e30):
        return NotImplemented
    out = empty(s.shape, s.dtype)
    run("zeta", s.dtype, s.size, GRAIN // 16, (out, s, q), (), ())
    return out


def map_calls(c, name, out, x):
    """For compiled code: the map as a call of its kernel."""
    if x.dtype.name not in TYPES or c.is_empty(x):
        return None
    units = 1
    for n in x.shape:
        units = units * n
    return (RuntimeCall(name, TYPES[x.dtype.name], units, 4, (out, c.rows(x)), same=((0, 1),)),)


_between = formula("hardtanh", 1)


def clamp(x, low, high):
    if isinstance(low, np.ndarray) or isinstance(high, np.ndarray):
        return NotImplemented
    return _between(x, -math.inf if low is None else low, math.inf if high is None else high)


def add_row(out, row):
    """out += row for a row of the last dim, in place; returns out."""
    if row.shape == out.shape[-1:] and out.size >= GRAIN and are_contiguous_floats(out, row):
        run("add_row", out.dtype, out.size // row.size, grain_of(row.size), (out, row), (row.size,))
        return out
    return np.add(out, row, out=out)
