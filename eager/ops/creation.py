"""Records that make tensors from nothing but sizes: full, empty, arange, linspace, eye; and triangles of a matrix."""

import numpy as np

from ...runtime import copy_gather, native
from .. import dtypes
from ..op.op import indexed, scalar, size
from ..sizes import SymInt


def number(s, value, dtype):
    """A Python or symbolic number as a value of `dtype`."""
    return s.cast(s.index(value), dtype) if isinstance(value, SymInt) else s.const(value, dtype)


@indexed(meta=lambda size, value, dtype, device: size, promote="dtype")
def full(s, i, size, value: scalar, dtype, device=None):
    return number(s, value, dtype)


@full.numpy
def _(size, value, dtype, device):
    if isinstance(value, (int, float)) and value == 0:
        return copy_gather.zeros(size, dtype.numpy)
    out = native.empty(size, dtype.numpy)
    out.fill(np.asarray(value).astype(dtype.numpy) if dtype.category == 1 and isinstance(value, int) else value)  # (as in C)
    return out


@full.samples
def _(make):
    return [((2, 3), 1.5, dtypes.float32), ((), 2, dtypes.int64), ((0, 3), True, dtypes.bool), ((4,), 0, dtypes.float64)]


@indexed(meta=lambda size, dtype, device: size, promote="dtype", recompute=True)
def empty(s, i, size, dtype, device=None):
    """Memory without a promise about its values; compiled code writes zeros."""
    return s.const(0, dtype)


@empty.numpy
def _(size, dtype, device):
    return native.empty(size, dtype.numpy)


@indexed(meta=lambda start, step, length, dtype, device: (length,), promote="dtype", recompute=True)
def arange(s, i, start: scalar, step: scalar, length, dtype, device=None):
    if all(isinstance(v, (int, SymInt)) for v in (start, step)):
        return s.cast(s.index(i[0] * step + start), dtype)
    return s.cast(s.cast(s.index(i[0]), dtypes.float64) * float(step) + float(start), dtype)


@arange.numpy
def _(start, step, length, dtype, device):
    if isinstance(start, int) and isinstance(step, int):
        if step == 0:
            return np.full(length, start, np.int64).astype(dtype.numpy)
        return np.arange(start, start + step * length, step, dtype=np.int64).astype(dtype.numpy, copy=False)
    return (np.arange(length) * float(step) + float(start)).astype(dtype.numpy)


@arange.samples
def _(make):
    return [(0, 1, 5, dtypes.int64), (2, -3, 4, dtypes.int32), (0.5, 0.25, 3, dtypes.float32), (0, 1, 0, dtypes.int64)]


@indexed(meta=lambda start, end, length, dtype, device: (length,), promote="dtype", recompute=True)
def linspace(s, i, start: scalar, end: scalar, length, dtype, device=None):
    """Counted from both ends, so that both ends are exact."""
    inner = dtype.compute if dtype.is_floating_point else dtypes.float64
    at = s.cast(s.index(i[0]), inner)
    step = s.const((float(end) - float(start)) / max(length - 1, 1), inner)
    back = s.cast(s.index(length - 1 - i[0]), inner)
    left = s.lt(s.index(i[0] * 2), s.index(length))
    return s.cast(s.where(left, at * step + start, s.const(end, inner) - back * step), dtype)


@linspace.numpy
def _(start, end, length, dtype, device):
    """The same numbers: one half counted from each end."""
    inner = (dtype.compute if dtype.is_floating_point else dtypes.float64).numpy.type
    if dtype.compute is dtype:
        found = copy_gather.evenly(
            float(start), float(end), (float(end) - float(start)) / max(length - 1, 1), length, dtype.numpy
        )
        if found is not NotImplemented:
            return found
    step, half = inner((float(end) - float(start)) / max(length - 1, 1)), (length + 1) // 2
    first = np.arange(half).astype(inner) * step + inner(start)
    last = inner(end) - np.arange(length - 1 - half, -1, -1).astype(inner) * step
    return np.concatenate((first, last)).astype(dtype.numpy, copy=False)


@linspace.samples
def _(make):
    return [(0.0, 1.0, 5, dtypes.float32), (3.0, -2.0, 4, dtypes.float64), (1.0, 2.0, 1, dtypes.float32)]


@indexed(meta=lambda n, m, dtype, device: (n, m), promote="dtype", recompute=True)
def eye(s, i, n: size, m: size, dtype, device=None):
    return s.cast(s.eq(s.index(i[0]), s.index(i[1])), dtype)


@eye.numpy
def _(n, m, dtype, device):
    return np.eye(n, m, dtype=dtype.numpy)


@eye.samples
def _(make):
    return [(3, 4, dtypes.float32), (2, 2, dtypes.int64), (0, 3, dtypes.float32)]


@indexed(meta=lambda x, diagonal: x.shape, recompute=True)
def tril(s, i, x, diagonal: scalar = 0):
    below = s.le(s.index(i[-1]), s.index(i[-2] + diagonal))
    return x(*i, mask=below, other=0)


@indexed(meta=lambda x, diagonal: x.shape, recompute=True)
def triu(s, i, x, diagonal: scalar = 0):
    above = s.ge(s.index(i[-1]), s.index(i[-2] + diagonal))
    return x(*i, mask=above, other=0)


@tril.numpy
def _(x, diagonal):
    return np.tril(x, diagonal)


@triu.numpy
def _(x, diagonal):
    return np.triu(x, diagonal)


@tril.grad("x")
def _(g, diagonal):
    return tril(g, diagonal)


@triu.grad("x")
def _(g, diagonal):
    return triu(g, diagonal)


def _triangles(make):
    return [(make(3, 4),), (make(2, 3, 3), -1), (make(4, 2), 1), (make(0, 3), 0)]


tril.samples(_triangles)
triu.samples(_triangles)
