"""Products of matrices of whole numbers by the native kernel; NotImplemented for other operands."""

from __future__ import annotations

import math

import numpy as np

from .kernels import SIZES, column_block, empty, grain_of, run_sized

_SMALL = 1 << 10  # multiplications below which numpy's call is shorter


def _batched(x, batch):
    """The matrices as one array (count, rows, columns), and the step from one to the next in elements."""
    if not batch:
        return x, 0
    x = np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:])
    return x, x.strides[0] // x.itemsize


def _width(itemsize):
    """Columns of one unit, as csrc/gemm_int.h has them: two registers, sixteen at least."""
    return max(16, column_block() * 2 // itemsize)


def product(a, b):
    """a @ b for arrays of two or more dims of one type, modulo the type's range."""
    if a.shape[-1] != b.shape[-2]:
        return NotImplemented
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, k, n = *a.shape[-2:], b.shape[-1]
    count = math.prod(batch)
    if count * m * n * k < _SMALL or a.itemsize not in SIZES or not (a.flags.aligned and b.flags.aligned):
        return NotImplemented
    if n < m and n < 8:  # few columns fill no register
        return np.swapaxes(product(np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2)), -1, -2).copy(order="C")
    (a, a_step), (b, b_step) = _batched(a, batch), _batched(b, batch)
    strides = [s // x.itemsize for x in (a, b) for s in x.strides[-2:]]
    out = empty((*batch, m, n), a.dtype)
    panels = -(-n // _width(a.itemsize))
    run_sized(
        "whole_product",
        a.itemsize,
        count * panels,
        grain_of(m * k * 4),
        (out, a, b),
        (m, n, k, *strides, panels, m * n, a_step, b_step),
    )
    return out
