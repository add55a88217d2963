"""Reductions of arrays over any dims by the native kernels, which know two patterns: contiguous runs, and the middle of
[outer, n, inner]. NotImplemented where the array fits neither; small arrays are numpy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .kernels import TYPES, WHOLE, column_block, empty, grain_of, are_contiguous_floats, run

SMALL = 1 << 12  # elements below which numpy's call is shorter
_CHUNK = 1 << 15  # elements of one unit where the whole array is one result


def _groups(shape, dims):
    """The dims as (size, reduced) with neighbours of one kind merged and sizes of 1 dropped."""
    groups = []
    for d, n in enumerate(shape):
        if n == 1:
            continue
        reduced = d in dims
        if groups and groups[-1][1] == reduced:
            groups[-1] = (groups[-1][0] * n, reduced)
        else:
            groups.append((n, reduced))
    return groups


class Pattern:
    """How a kernel walks over a contiguous array: `kind` is "rows" (numbers: n, middle, outer step, repeats, repeat
    step, limit) or "columns" (n, inner, blocks); `units` results or blocks; `work` elements a unit."""

    def __init__(self, kind, numbers, units, work, results):
        self.kind, self.numbers, self.units, self.work, self.results = kind, numbers, units, work, results


def pattern_of(shape, dims):
    """The pattern of a reduction, or None."""
    groups = _groups(shape, dims)
    kinds = "".join("r" if reduced else "k" for _, reduced in groups)
    sizes = [n for n, _ in groups]
    total = math.prod(sizes)
    if kinds in ("r", "kr"):
        n = sizes[-1]
        return Pattern("rows", (n, total // n, 0, 1, 0, total), total // n, n, total // n)
    if kinds in ("rkr", "krkr"):
        *outer, repeats, middle, n = sizes
        step = middle * n
        count = outer[0] if outer else 1
        return Pattern("rows", (n, middle, repeats * step, repeats, step, total), count * middle, repeats * n, count * middle)
    if kinds in ("rk", "krk"):
        *outer, n, inner = sizes
        count, block = outer[0] if outer else 1, column_block()
        blocks = -(-inner // block)
        return Pattern("columns", (n, inner, blocks), count * blocks, n * min(inner, block), count * inner)
    return None


def _memory_order(x, dims):
    """(x as contiguous memory, the dims there, the permutation) or None; only whole permutations of memory."""
    if x.flags.c_contiguous:
        return x, dims, None
    order = sorted(range(x.ndim), key=lambda d: -x.strides[d])
    y = x.transpose(order)
    return (y, tuple(order.index(d) for d in dims), order) if y.flags.c_contiguous else None


def _shaped(flat, shape, dims, keepdim, order):
    """Results in memory order as an array of the right sizes."""
    if order is None:
        return flat.reshape(tuple(1 if d in dims else n for d, n in enumerate(shape) if keepdim or d not in dims))
    kept = [d for d in order if d not in dims]
    out = flat.reshape([shape[d] for d in kept]).transpose([kept.index(d) for d in sorted(kept)])
    out = out if out.flags.c_contiguous else out.copy()
    return out.reshape([1 if d in dims else n for d, n in enumerate(shape)]) if keepdim else out


def _take(x, dims):
    """What a kernel needs to know, or None: (array, pattern, permutation)."""
    if x.size < SMALL or x.dtype not in TYPES or not dims:
        return None
    memory = _memory_order(x, dims)
    if memory is None:
        return None
    pattern = pattern_of(memory[0].shape, memory[1])
    return (memory[0], pattern, memory[2]) if pattern is not None else None


def _launch(name, y, pattern, outs, reals):
    run(f"{name}_{pattern.kind}", y.dtype, pattern.units, grain_of(pattern.work), (outs[0], y, *outs[1:]), pattern.numbers, reals)


def _whole(name, y, divisor, centre):
    """One result of a whole array: results of chunks, then of these."""
    units = -(-y.size // _CHUNK)
    partial = empty((units,), y.dtype)
    run(name + "_rows", y.dtype, units, 1, (partial, y), (_CHUNK, units, 0, 1, 0, y.size), (1.0, centre))
    if name in ("max", "min"):
        return getattr(np, name)(partial)
    if name == "product":
        return y.dtype.type(np.multiply.reduce(partial, dtype=np.float64))
    return y.dtype.type(np.add.reduce(partial, dtype=np.float64) / divisor)


def _flattened(y, pattern):
    """Few columns leave lanes of a register empty: several rows side by side instead; None where that is no gain."""
    if pattern.kind != "columns":
        return None
    n, inner, _ = pattern.numbers
    side = 64 // inner if pattern.results == inner and inner <= 32 else 0
    return y.reshape(n // side, side * inner) if side > 1 and n % side == 0 and n // side > 1 else None


def reduce(name, x, dims, keepdim, divisor=1.0, centre=0.0):
    """`name`: sum, squares, absolutes, max, min, product (of rows); a sum is divided by `divisor`."""
    found = _take(x, dims)
    if found is None or (name == "product" and found[1].kind != "rows"):
        return NotImplemented
    y, pattern, order = found
    if y.dtype in WHOLE and pattern.units == 1 and y.size > 2 * _CHUNK and pattern.kind == "rows":
        return _shaped(np.asarray(_whole(name, y, divisor, centre), y.dtype), x.shape, dims, keepdim, None)
    wide = _flattened(y, pattern) if y.dtype in WHOLE and name != "squares" else None
    if wide is not None:
        part = _columns_of(name, wide).reshape(-1, pattern.results)
        ufunc = {"max": np.maximum, "min": np.minimum}.get(name, np.add)
        flat = ufunc.reduce(part, 0)
        return _shaped(flat / flat.dtype.type(divisor) if divisor != 1 else flat, x.shape, dims, keepdim, order)
    flat = _split_rows(name, y, pattern, divisor) if y.dtype in WHOLE and name != "squares" else None
    if flat is None:
        flat = empty((pattern.results,), y.dtype)
        _launch(name, y, pattern, (flat,), (divisor, centre))
    return _shaped(flat, x.shape, dims, keepdim, order)


def _columns_of(name, matrix):
    """The reduction of a matrix over its rows."""
    pattern: Any = pattern_of(matrix.shape, (0,))  # never None: the rows of a matrix have one
    flat = _split_rows(name, matrix, pattern, 1.0)
    if flat is None:
        flat = empty((pattern.results,), matrix.dtype)
        _launch(name, matrix, pattern, (flat,), (1.0, 0.0))
    return flat


def _split_rows(name, y, pattern, divisor):
    """Long columns, too few for the threads: parts of the rows each on their own, then the parts; None otherwise."""
    if pattern.kind != "columns" or pattern.units > 2:
        return None
    n, inner, blocks = pattern.numbers
    parts = next((p for p in (16, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2) if n % p == 0), 0)
    if pattern.results != inner or n < 512 or not parts:
        return None
    partial = empty((parts, inner), y.dtype)
    run(name + "_columns", y.dtype, parts * blocks, 1, (partial, y), (n // parts, inner, blocks), (1.0, 0.0))
    if name in ("max", "min"):
        return (np.maximum if name == "max" else np.minimum).reduce(partial, 0)
    flat = np.add.reduce(partial, 0)
    return flat / flat.dtype.type(divisor) if divisor != 1 else flat


def variance(x, correction, dims, keepdim):
    """(variance, mean) in x's type, or NotImplemented."""
    found = _take(x, dims)
    if found is None:
        return NotImplemented
    y, pattern, order = found
    count = math.prod(x.shape[d] for d in dims)
    divisor = float(max(count - correction, 0))
    if pattern.units == 1 and y.size > 2 * _CHUNK and y.dtype in WHOLE and pattern.kind == "rows":
        mean = np.asarray(_whole("sum", y, count, 0.0))
        with np.errstate(all="ignore"):
            spread = np.asarray(_whole("squares", y, np.float64(divisor), float(mean)))
        return tuple(_shaped(a, x.shape, dims, keepdim, None) for a in (spread, mean))
    outs = empty((pattern.results,), y.dtype), empty((pattern.results,), y.dtype)
    _launch("variance", y, pattern, outs, (divisor,))
    return tuple(_shaped(a, x.shape, dims, keepdim, order) for a in outs)


def logsumexp(x, dims, keepdim):
    found = _take(x, dims)
    if found is None or found[1].units == 1:
        return NotImplemented
    y, pattern, order = found
    flat = empty((pattern.results,), y.dtype)
    _launch("logsumexp", y, pattern, (flat,), ())
    return _shaped(flat, x.shape, dims, keepdim, order)


def extreme(name, x, dims, keepdim):
    """(value, position) of argmax or argmin over dims that lie side by side."""
    found = _take(x, dims) if x.flags.c_contiguous else None
    if found is None or (found[1].kind == "rows" and found[1].numbers[3] != 1):
        return NotImplemented
    y, pattern, order = found
    if pattern.units == 1 and y.size > 2 * _CHUNK and pattern.kind == "rows":
        return tuple(_shaped(a, x.shape, dims, keepdim, None) for a in _whole_extreme(name, y))
    outs = empty((pattern.results,), y.dtype), empty((pattern.results,), np.dtype(np.int64))
    _launch(name, y, pattern, outs, ())
    return tuple(_shaped(a, x.shape, dims, keepdim, order) for a in outs)


def _whole_extreme(name, y):
    units = -(-y.size // _CHUNK)
    values, places = empty((units,), y.dtype), empty((units,), np.dtype(np.int64))
    run(name + "_rows", y.dtype, units, 1, (values, y, places), (_CHUNK, units, 0, 1, 0, y.size))
    k = int(getattr(np, name)(values))
    return np.asarray(values[k]), np.asarray(places[k] + k * _CHUNK, np.int64)


def norm2(x, dims, keepdim):
    """The root of the sum of squares."""
    found = reduce("squares", x, dims, keepdim) if x.dtype in WHOLE else NotImplemented
    return found if found is NotImplemented else np.sqrt(found)


def dot(x, y):
    """The product of two vectors of halves, summed in floats and rounded once."""
    if x.ndim != 1 or y.ndim != 1 or x.size < SMALL or x.shape != y.shape or not are_contiguous_floats(x, y) or x.dtype in WHOLE:
        return NotImplemented
    out = empty((1,), np.dtype(np.float32))
    run("dot_rows", x.dtype, 1, 1, (out, x, y), (x.size,))
    return out.astype(x.dtype).reshape(())
