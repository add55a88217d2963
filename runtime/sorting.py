"""Sorted rows and greatest elements by the native kernels; NotImplemented for other operands."""

from __future__ import annotations

import numpy as np

from .kernel_calls import TYPES, RuntimeCall, product, rows_of
from .kernels import WHOLE, empty, grain_of, are_contiguous_floats, run, run_sized
from .copy_gather import contiguous_copy

_SMALL, _MOST = 48, 256  # elements, and k, where the native kernels win


def _turned(x, source, goal):
    """numpy's moveaxis, at once where nothing moves."""
    return x if source % x.ndim == goal % x.ndim else np.moveaxis(x, source, goal)


def _rows(x, dim):
    """The array with `dim` last, contiguous; None where the kernels do not take it."""
    if x.size < _SMALL or x.dtype.itemsize == 8 or not are_contiguous_floats(np.empty(0, x.dtype)) or x.shape[dim] >= 1 << 31:
        return None
    y = _turned(x, dim, -1)
    if y.flags.c_contiguous:
        return y
    copy = contiguous_copy(y)
    return np.ascontiguousarray(y) if copy is NotImplemented else copy


def _back(array, dim):
    """The array with its last dim back at `dim`, contiguous."""
    y = _turned(array, -1, dim)
    return array.reshape(y.shape) if y.flags.c_contiguous else y.copy(order="C")  # (dims of one element get their own strides)


_KEYS = {"u": 0, "b": 0, "i": 1, "f": 2}  # KeyKind of csrc/sort.h, by numpy's kind of type


def _sort_wide(x, dim, descending):
    """Doubles and whole numbers: keys of 64 bits."""
    y = np.ascontiguousarray(_turned(x, dim, -1))
    n = y.shape[-1]
    values, places = empty(y.shape, y.dtype), empty(y.shape, np.dtype(np.int64))
    run_sized(
        "sort_wide_rows", y.itemsize, y.size // n, grain_of(n * 8), (values, y, places), (n, int(descending), _KEYS[y.dtype.kind])
    )
    return _back(values, dim), _back(places, dim)


def sort(x, dim, descending):
    """(values, positions), stable; NaN counts as the largest."""
    if x.ndim and x.size >= 32 and (x.dtype.kind in "iub" or x.dtype == np.float64):
        return _sort_wide(x, dim, descending)
    y = _rows(x, dim) if x.ndim else None
    if y is None:
        return NotImplemented
    n = y.shape[-1]
    values, places = empty(y.shape, y.dtype), empty(y.shape, np.dtype(np.int64))
    run("sort_rows", y.dtype, y.size // n, grain_of(n * 8), (values, y, places), (n, int(descending)))
    return _back(values, dim), _back(places, dim)


def _topk_wide(x, k, dim, largest):
    y = np.ascontiguousarray(_turned(x, dim, -1))
    n, sizes = y.shape[-1], (*y.shape[:-1], k)
    values, places = empty(sizes, y.dtype), empty(sizes, np.dtype(np.int64))
    run_sized(
        "topk_wide_rows", y.itemsize, y.size // n, grain_of(n * 4), (values, y, places), (n, k, int(largest), _KEYS[y.dtype.kind])
    )
    return _back(values, dim), _back(places, dim)


def topk(x, k, dim, largest):
    """(values, positions) of the first k of the sorted rows."""
    if x.ndim and 0 < k <= _MOST and x.size >= 32 and (x.dtype.kind in "iub" or x.dtype == np.float64):
        return _topk_wide(x, k, dim, largest)
    y = _rows(x, dim) if x.ndim and 0 < k <= _MOST else None
    if y is None:
        return NotImplemented
    n, sizes = y.shape[-1], (*y.shape[:-1], k)
    values, places = empty(sizes, y.dtype), empty(sizes, np.dtype(np.int64))
    run("topk_rows", y.dtype, y.size // n, grain_of(n * 4), (values, y, places), (n, k, int(largest)))
    return _back(values, dim), _back(places, dim)


def edges_below(edges, x):
    """How many of the ascending edges of its row each number of x has reached."""
    if (
        edges.dtype not in WHOLE
        or not x.size
        or not edges.size
        or edges.shape[:-1] != x.shape[:-1]
        or not are_contiguous_floats(edges, x)
    ):
        return NotImplemented
    n, count = edges.shape[-1], x.shape[-1]
    out = empty(x.shape, np.dtype(np.int64))
    run("edges_below", x.dtype, x.size // count, grain_of(count * 8), (out, edges, x), (n, count))
    return out


# -- for compiled code: the last dim of regions, with the outputs given


def _units(c, x, dim):
    """Rows to order, or None where the kernels do not take them."""
    if not x.shape or dim != len(x.shape) - 1 or x.dtype.name not in TYPES or x.dtype.itemsize == 8 or c.is_empty(x):
        return None
    units = 1
    for n in x.shape[:-1]:
        units = units * n
    return units


def sort_calls(c, values, places, x, dim, descending):
    units = _units(c, x, dim)
    if units is None:
        return None
    x, n = c.rows(x), x.shape[-1]
    return (RuntimeCall("sort_rows", TYPES[x.dtype.name], units, n * 8, (values, x, places), (n, int(descending))),)


def topk_calls(c, values, places, x, k, dim, largest):
    units = _units(c, x, dim)
    if units is None or type(k) is not int or not 0 < k <= _MOST:
        return None
    x, n = c.rows(x), x.shape[-1]
    return (RuntimeCall("topk_rows", TYPES[x.dtype.name], units, n * 4, (values, x, places), (n, k, int(largest))),)


def edges_below_calls(c, out, edges, x):
    """`edges_below` as a call of compiled code."""
    n, count = edges.shape[-1], x.shape[-1]
    if edges.dtype != x.dtype or x.dtype.name not in TYPES or x.dtype.itemsize < 4 or edges.shape[:-1] != x.shape[:-1]:
        return None
    if c.is_empty(x) or c.is_empty(edges):
        return None
    arrays = (out, *rows_of(c, edges, x))
    return (RuntimeCall("edges_below", TYPES[x.dtype.name], product(x.shape[:-1]), count * 8, arrays, (n, count)),)
