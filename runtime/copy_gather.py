"""Moving elements with threads: strided copies, conversions, reads and sums by index, dropout.

Functions return NotImplemented, or False where they write into a given array, for what the kernels do not take."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from .kernel_calls import RuntimeCall, product
from .kernels import GRAIN, SIZES, TYPES, WHOLE, empty, grain_of, are_contiguous_floats, run, run_sized

SMALL = 1 << 13  # elements below which numpy's call is shorter
MANY_BYTES = 1 << 20
_SIDE, _DIMS = 64, 8


# -- copies


def _merged(dims):
    """(size, stride of out, stride of x) with dims merged where one stride walks both, without sizes of 1."""
    left = []
    for n, to, at in dims:
        if n == 1:
            continue
        if left and left[-1][1] == to * n and left[-1][2] == at * n:
            left[-1] = (left[-1][0] * n, to, at)
        else:
            left.append((n, to, at))
    return left


def _plan(out, x):
    """The dims of a copy, outermost in `out` first, and the last two such that the kernel walks memory in order."""
    step = x.itemsize
    if any(s % step for s in (*x.strides, *out.strides)):
        return None
    dims = sorted(((n, to // step, at // step) for n, to, at in zip(x.shape, out.strides, x.strides)), key=lambda d: -abs(d[1]))
    dims = _merged(dims)
    if not dims or dims[-1][1] != 1 or len(dims) > _DIMS:
        return None
    if len(dims) == 1:
        return dims
    if dims[-1][2] != 1:  # squares are turned in the dim in which x runs on
        for k, d in enumerate(dims[:-1]):
            if abs(d[2]) == 1 and abs(dims[-1][2]) != 1:
                del dims[k]
                dims.insert(len(dims) - 1, d)
                break
    return dims


def copy_into(out, x) -> bool:
    """out[...] = x for arrays of one shape and element size; False where numpy shall do it."""
    if x.size < SMALL or x.itemsize not in SIZES or out.shape != x.shape or not (x.flags.aligned and out.flags.aligned):
        return False
    dims = _plan(out, x)
    if dims is None:
        return False
    if len(dims) == 1:
        run_sized("move_run", x.itemsize, x.size, GRAIN, (out, x), (dims[0][2],))
        return True
    rows, last = dims[-2][0], dims[-1][0]
    units = -(-rows // _SIDE) * math.prod(d[0] for d in dims[:-2])
    run_sized("move", x.itemsize, units, grain_of(min(rows, _SIDE) * last), (out, x), (len(dims), *[k for d in dims for k in d]))
    return True


def zeros(shape, dtype):
    """Zeros; large ones over memory that is used again, which the system would give page by page."""
    n = math.prod(shape) * np.dtype(dtype).itemsize
    if n < MANY_BYTES:
        return np.zeros(shape, dtype)
    out = empty(tuple(shape), np.dtype(dtype))
    whole = n // 64
    run_sized("clear", 4, whole, GRAIN // 4, (out,))
    if n % 64:
        out.reshape(-1).view(np.uint8)[whole * 64 :] = 0
    return out


def evenly(start, end, step, n, dtype):
    """n numbers from start to end, one half counted from each end."""
    if dtype not in WHOLE or n < SMALL:
        return NotImplemented
    out = empty((n,), dtype)
    run("evenly", dtype, n, GRAIN, (out,), (n,), (start, end, step))
    return out


def repeated(x, times):
    """The whole array, so many times along each of its dims (as many as there are times)."""
    x = x.reshape((1,) * (len(times) - x.ndim) + x.shape)
    out = empty(tuple(n * t for n, t in zip(x.shape, times)), x.dtype)
    to = out.reshape([k for pair in zip(times, x.shape) for k in pair])
    source = np.broadcast_to(x.reshape([k for n in x.shape for k in (1, n)]), to.shape)
    if not copy_into(to, source):
        to[...] = source
    return out


def contiguous_copy(x):
    """A row-major copy."""
    if x.size < SMALL or x.itemsize not in SIZES:
        return NotImplemented
    out = empty(x.shape, x.dtype)
    if not copy_into(out, x):
        np.copyto(out, x)
    return out


def copied(x):
    """A row-major copy of any array."""
    out = contiguous_copy(x)
    return x.copy() if out is NotImplemented else out


def concatenate(arrays, dim):
    """The arrays behind each other along `dim`; all of one type."""
    first = arrays[0]
    total = sum(a.shape[dim] for a in arrays)
    sizes = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    if math.prod(sizes) < SMALL or first.itemsize not in SIZES:
        return NotImplemented
    out, at = empty(sizes, first.dtype), 0
    for a in arrays:
        part = out[(slice(None),) * dim + (slice(at, at + a.shape[dim]),)]
        at += a.shape[dim]
        if not copy_into(part, a):
            part[...] = a
    return out


MANY = 5  # parts from which a copy each is quicker than a choice per element


def concatenate_calls(c, out, parts, dim):
    """For compiled code: many parts are moved one by one, into their place in each row of `out`."""
    if len(parts) < MANY or c.is_empty(out) or out.dtype.itemsize not in SIZES:
        return None
    outer, inner = product(out.shape[:dim]), product(out.shape[dim + 1 :])
    row, at, calls = out.shape[dim] * inner, 0, []
    for x in parts:
        x = c.rows(x)
        width = x.shape[dim] * inner
        calls.append(
            RuntimeCall(
                "move",
                SIZES[x.dtype.itemsize],
                (outer + _SIDE - 1) // _SIDE,
                _SIDE * width,
                (replace(out, offset=at), x),
                (2, outer, row, width, width, 1, 1),
            )
        )
        at = at + width
    return tuple(calls)


def converted(x, dtype):
    """x in another floating type; contiguous arrays only, or those that are it with their dims in reverse."""
    if x.size < SMALL or x.dtype not in TYPES or dtype not in TYPES or x.dtype == dtype:
        return NotImplemented
    if not x.flags.c_contiguous:
        return converted(x.T, dtype).T if x.flags.f_contiguous else NotImplemented
    out = empty(x.shape, dtype)
    run(f"to_{dtype.name}", x.dtype, x.size, GRAIN, (out, x))
    return out


# -- by index. `bad` is the position in `index` of one that is out of range, or -1


def _index_ready(index, *arrays) -> bool:
    return index.dtype == np.int64 and all(a.flags.c_contiguous and a.flags.aligned for a in (index, *arrays))


def take_rows(table, index):
    """(table[index], bad)"""
    if not _index_ready(index, table) or table.ndim < 1:
        return NotImplemented
    width = math.prod(table.shape[1:])
    if index.size * width < SMALL:
        return NotImplemented
    out, bad = empty((*index.shape, *table.shape[1:]), table.dtype), np.full(1, -1)
    run_sized("take_rows", 4, index.size, grain_of(width), (out, table, index, bad), (width * table.itemsize, table.shape[0]))
    return out, int(bad[0])


def add_rows(out, index, x, skip=-1):
    """out[o, index[k], :] += x[o, k, :] for `out` (outer, rows, width), `x` (outer, count, width); returns bad."""
    if out.dtype not in TYPES or x.dtype != out.dtype or not _index_ready(index, out, x):
        return NotImplemented
    outer, rows, width = out.shape
    block = max(16, -(-width // 4 // 16) * 16) if outer * width >= 128 else width
    blocks, bad = -(-width // block), np.full(1, -1)
    run(
        "add_rows",
        out.dtype,
        outer * blocks,
        grain_of(block * index.size),
        (out, x, index, bad),
        (width, index.size, rows, blocks, skip, block),
    )
    return int(bad[0])


def _along(x, dim, index):
    """(outer, inner) where index and x agree in all dims but `dim`; else None"""
    same = index.ndim == x.ndim and all(n == m for d, (n, m) in enumerate(zip(x.shape, index.shape)) if d != dim)
    return (math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])) if same else None


def take_elements(x, dim, index):
    """(x at `index` along `dim`, bad)"""
    found = _along(x, dim, index)
    if found is None or index.size < 16 or x.itemsize not in SIZES or not _index_ready(index, x):
        return NotImplemented
    outer, inner = found
    out, bad = empty(index.shape, x.dtype), np.full(1, -1)
    run_sized(
        "take_elements",
        x.itemsize,
        outer * index.shape[dim],
        grain_of(inner),
        (out, x, index, bad),
        (x.shape[dim], inner, index.shape[dim]),
    )
    return out, int(bad[0])


def _job_at_elements(out, dim, index, x):
    """(units, work of one, arrays, sizes) of a kernel that writes all of x into out at `index` along `dim`; None where numpy has
    to do it."""
    found = _along(out, dim, index)
    if found is None or x.dtype != out.dtype or x.shape != index.shape or not index.size or not _index_ready(index, out, x):
        return None
    outer, inner = found
    return outer, grain_of(inner * index.shape[dim]), (out, x, index), (out.shape[dim], inner, index.shape[dim])


def add_elements(out, dim, index, x) -> bool:
    """out at `index` (within range) along `dim` += x, in place; False where numpy has to do it."""
    job, whole = _job_at_elements(out, dim, index, x), out.dtype.kind in "iu"
    if job is None or not (whole or out.dtype in TYPES):
        return False
    if whole:
        run_sized("add_whole_elements", out.itemsize, *job)
    else:
        run("add_elements", out.dtype, *job)
    return True


def combine_elements(name, out, dim, index, x) -> bool:
    """out at `index` (within range) along `dim` becomes the max, min or product of what it was and all x that go there, in
    place; False where numpy has to do it."""
    job = _job_at_elements(out, dim, index, x)
    if job is None or out.dtype not in WHOLE:
        return False
    run(name + "_elements", out.dtype, *job)
    return True


def set_elements(out, dim, index, x) -> bool:
    """out at `index` (within range) along `dim` becomes x, the last one where several meet, in place; False where numpy has to
    do it."""
    job = _job_at_elements(out, dim, index, x)
    if job is None or out.itemsize not in SIZES:
        return False
    run_sized("set_elements", out.itemsize, *job)
    return True


def sum_bags(table, index, first, weights, skip, mean):
    """Rows of the table at `index` (within range), summed or averaged by bag: bag k has indices first[k] .. first[k + 1] - 1;
    the row `skip` takes no part."""
    if (
        not are_contiguous_floats(table)
        or not _index_ready(index)
        or (weights is not None and not are_contiguous_floats(table, weights))
        or not table.size
    ):
        return NotImplemented
    bags, width = len(first) - 1, table.shape[1]
    out = empty((bags, width), table.dtype)
    run(
        "bag_rows",
        table.dtype,
        bags,
        grain_of(width * max(index.size // max(bags, 1), 1)),
        (out, table, index, first, weights),
        (width, skip, int(mean)),
    )
    return out


def bag_winners(table, index, first, skip):
    """Which row of the table is the greatest of its bag, per column; bags and indices as in `sum_bags`."""
    if not are_contiguous_floats(table) or not _index_ready(index) or not table.size or table.shape[0] >= 1 << 31:
        return NotImplemented
    bags, width = len(first) - 1, table.shape[1]
    out = empty((bags, width), index.dtype)
    run(
        "bag_winners",
        table.dtype,
        bags,
        grain_of(width * max(index.size // max(bags, 1), 1)),
        (out, table, index, first),
        (width, skip),
    )
    return out


def out_of_range(index, size) -> bool:
    """Whether an index lies outside of [0, size)."""
    if index.size < SMALL or not _index_ready(index):
        return bool(index.size) and bool(index.min() < 0 or index.max() >= size)
    bad = np.full(1, -1)
    run_sized("check_indices", 4, index.size, GRAIN, (index, bad), (size,))
    return bool(bad[0] >= 0)


# -- dropout


def dropout(x, p, scale, seed, ordinal):
    """(x * scale where kept, else 0; the mask): the mask is draw `ordinal`."""
    if not x.size or not are_contiguous_floats(x):
        return NotImplemented
    out, keep = empty(x.shape, x.dtype), empty(x.shape, np.dtype(bool))
    run("dropout", x.dtype, x.size, GRAIN // 4, (out, keep, x), (seed, ordinal), (p, scale))
    return out, keep


def masked_scale(x, keep, scale):
    """x * scale where kept, else x * 0"""
    if (
        not x.size
        or not are_contiguous_floats(x)
        or keep.shape != x.shape
        or not keep.flags.c_contiguous
        or keep.dtype != np.bool_
    ):
        return NotImplemented
    out = empty(x.shape, x.dtype)
    run("masked_scale", x.dtype, x.size, GRAIN, (out, keep, x), (), (scale,))
    return out
