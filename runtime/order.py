"""Sorted rows and greatest elements by the native kernels; NotImplemented for other operands."""

from __future__ import annotations

import numpy as np

from .jobs import empty, grain_of, plain, run
from .moves import contiguous_copy

_SMALL, _MOST = 2048, 256        # elements, and k, where the native kernels win


def _rows(x, dim):
    """The array with `dim` last, contiguous; None where the kernels do not take it."""
    if x.size < _SMALL or x.dtype.itemsize == 8 or not plain(np.empty(0, x.dtype)) or x.shape[dim] >= 1 << 31:
        return None
    y = np.moveaxis(x, dim, -1)
    if y.flags.c_contiguous:
        return y
    copy = contiguous_copy(y)
    return np.ascontiguousarray(y) if copy is NotImplemented else copy


def _back(array, dim):
    """The array with its last dim back at `dim`, contiguous."""
    y = np.moveaxis(array, -1, dim)
    return y if y.flags.c_contiguous else y.copy(order="C")


def sort(x, dim, descending):
    """(values, positions), stable; NaN counts as the largest."""
    y = _rows(x, dim) if x.ndim else None
    if y is None:
        return NotImplemented
    n = y.shape[-1]
    values, places = empty(y.shape, y.dtype), empty(y.shape, np.dtype(np.int64))
    run("sort_rows", y.dtype, y.size // n, grain_of(n * 8), (values, y, places), (n, int(descending)))
    return _back(values, dim), _back(places, dim)


def topk(x, k, dim, largest):
    """(values, positions) of the first k of the sorted rows."""
    y = _rows(x, dim) if x.ndim and 0 < k <= _MOST else None
    if y is None:
        return NotImplemented
    n, sizes = y.shape[-1], (*y.shape[:-1], k)
    values, places = empty(sizes, y.dtype), empty(sizes, np.dtype(np.int64))
    run("topk_rows", y.dtype, y.size // n, grain_of(n * 4), (values, y, places), (n, k, int(largest)))
    return _back(values, dim), _back(places, dim)
