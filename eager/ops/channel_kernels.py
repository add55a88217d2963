"""Kernels of normalisation per channel on arrays (N, C, ...): moments, sums, and x * a[c] + b[c].

In: float32 arrays, row-major or with channels last (the native kernels), or any (numpy). Out: arrays in the memory order
of the input. `NotImplemented`: not eligible, numpy or the decomposition takes over.
"""

import numpy as np


def widened(x):
    """x in the type in which it is computed."""
    return x if x.dtype.itemsize >= 4 else x.astype(np.float32)


def column(v, x):
    return v.reshape((1, -1) + (1,) * (x.ndim - 2))


def ordered(out, x):
    """`out` in the memory order of x."""
    if out.flags.c_contiguous and x.flags.c_contiguous:
        return out
    result = np.empty_like(x, dtype=out.dtype)
    result[...] = out
    return result


def numpy_normalised(y, mean, var, weight, bias, eps, dtype):
    scale = 1 / np.sqrt(widened(var) + np.float32(eps))
    scale = scale if weight is None else scale * weight
    out = (y - column(mean, y)) * column(scale, y).astype(y.dtype, copy=False)
    if bias is not None:
        out += column(bias, y)
    return ordered(out.astype(dtype, copy=False), y)


def moments(x):
    return NotImplemented


def normalised(x, mean, var, weight, bias, eps):
    return NotImplemented


def scaled(x, scale, shift):
    return NotImplemented


def sums(g, x, mean):
    return NotImplemented


def combined(g, x, a, b, c):
    return NotImplemented
