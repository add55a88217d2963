"""Running sums, products and extremes, and linear recurrences, by the native kernels; NotImplemented for other operands."""

from __future__ import annotations

import math

import numpy as np

from .kernel_calls import TYPES, RuntimeCall
from .kernels import WHOLE, column_block, empty, grain_of, are_contiguous_floats, run, run_sized

_SMALL = 16


def _split(x, dim):
    """(outer, n, inner) of a contiguous array."""
    return math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])


def running(name, x, dim):
    """For name sum or product."""
    if x.ndim == 0 or x.size < _SMALL or not are_contiguous_floats(x):
        return NotImplemented
    (outer, n, inner), out = _split(x, dim), empty(x.shape, x.dtype)
    if inner == 1:
        run(f"running_{name}_rows", x.dtype, outer, grain_of(n), (out, x), (n,))
    else:
        block = column_block()
        blocks = -(-inner // block)
        run(f"running_{name}_columns", x.dtype, outer * blocks, grain_of(n * block), (out, x), (n, inner, blocks))
    return out


def running_sum_calls(c, out, x, dim):
    """For compiled code: floats along any dim."""
    if not x.shape or x.dtype.name not in TYPES or c.is_empty(x):
        return None
    x, outer, inner, n, block = c.rows(x), 1, 1, x.shape[dim], column_block()
    for size in x.shape[:dim]:
        outer = outer * size
    for size in x.shape[dim + 1 :]:
        inner = inner * size
    if inner == 1:
        return (RuntimeCall("running_sum_rows", TYPES[x.dtype.name], outer, n, (out, x), (n,)),)
    blocks = (inner + block - 1) // block
    numbers = (n, inner, blocks)
    return (RuntimeCall("running_sum_columns", TYPES[x.dtype.name], outer * blocks, n * block, (out, x), numbers),)


def extreme(name, x, dim):
    """(values, positions) for name max or min."""
    signed = x.dtype.kind == "i" and x.flags.c_contiguous and x.flags.aligned
    if x.ndim == 0 or x.size < _SMALL or not (signed or are_contiguous_floats(x)):
        return NotImplemented
    outer, n, inner = _split(x, dim)
    values, places = empty(x.shape, x.dtype), empty(x.shape, np.dtype(np.int64))
    if signed:
        run_sized(f"running_{name}_whole", x.itemsize, outer, grain_of(n * inner), (values, x, places), (n, inner))
    else:
        run("running_" + name, x.dtype, outer, grain_of(n * inner), (values, x, places), (n, inner))
    return values, places


def recurrence(a, b, dim, reverse):
    """y[t] = b[t] + a[t] * y[t - 1] along dim (t + 1 in reverse)."""
    if b.ndim == 0 or b.size < _SMALL or b.dtype not in WHOLE or a.shape != b.shape or a.dtype != b.dtype:
        return NotImplemented
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    outer, n, inner = _split(b, dim)
    out = empty(b.shape, b.dtype)
    run("recurrence", b.dtype, outer, grain_of(n * inner), (out, a, b), (n, inner, int(reverse)))
    return out
