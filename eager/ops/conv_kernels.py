"""Kernels of convolutions on arrays: by numpy for every type and number of dims, by the runtime's C++ for floats.

The numpy forms unfold x's windows into columns and multiply matrices per group; the transposed one folds columns back,
one kernel tap at a time. Halves compute in float32 and are rounded once.
"""

import itertools

import math
from typing import Any

import numpy as np

from ...runtime import copy_gather, kernels, native
from .products import numpy_product


# -- layouts


def _strides(x):
    if isinstance(x, np.ndarray):
        return None if x.flags.c_contiguous and x.shape[1] != 1 else tuple([s // x.itemsize for s in x.strides])
    array = x._fl_array
    if array is None:
        return x._fl_geometry[1]
    return None if array.flags.c_contiguous and array.shape[1] != 1 else x.stride()


def is_last(x):
    """(N, C, H, W) in the memory order N, H, W, C; what fits both orders counts as plain."""
    if len(x.shape) != 4:
        return False
    strides = _strides(x)
    if strides is None:
        return False
    least = 0
    for d in (1, 3, 2, 0):
        n, s = x.shape[d], strides[d]
        if n == 0 or s < least or (d == 0 and least == strides[1]) or s == 0:
            return False
        least = s * n if n > 1 else s
    return True


def wants_last(x, weight):
    """A result takes the order of x or of the weight, if either is channels-last."""
    return len(x.shape) == 4 and x.shape[0] != 0 and (is_last(x) or is_last(weight))


def _ordered(out, last):
    """The same values in channels-last memory, if asked for."""
    return copy_gather.copied(out.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) if last else out


# -- numpy


def _wide(*arrays) -> list[Any]:
    """Halves as float32."""
    return [a.astype(np.float32) if a is not None and a.dtype.itemsize == 2 and a.dtype.kind not in "iu" else a for a in arrays]


def padded(x, padding) -> np.ndarray:
    if not any(padding):
        return x
    out = np.zeros(x.shape[:2] + tuple(n + 2 * p for n, p in zip(x.shape[2:], padding)), x.dtype)
    out[(..., *(slice(p, p + n) for n, p in zip(x.shape[2:], padding)))] = x
    return out


def columns(x, windows, kernel, stride, padding, dilation, groups):
    """(N, groups, C/groups * taps, windows)"""
    x = padded(x, padding)
    steps = x.strides[2:]
    view = np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:2], *kernel, *windows),
        (*x.strides[:2], *(s * d for s, d in zip(steps, dilation)), *(s * t for s, t in zip(steps, stride))),
        writeable=False,
    )
    taps, count = math.prod(kernel), math.prod(windows)
    return view.reshape(x.shape[0], groups, x.shape[1] // groups * taps, count)


def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    last, dtype = wants_last(x, weight), x.dtype
    x, weight, bias = _wide(x, weight, bias)
    if transposed:
        out = _transposed(x, weight, stride, padding, dilation, output_padding, groups)
    else:
        out = _plain(x, weight, stride, padding, dilation, groups)
    if bias is not None:
        out += bias.reshape(-1, *(1,) * (x.ndim - 2))
    return _ordered(out.astype(dtype, copy=False), last)


def _plain(x, weight, stride, padding, dilation, groups):
    kernel = weight.shape[2:]
    windows = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(x.shape[2:], kernel, stride, padding, dilation)
    )
    unfolded = columns(x, windows, kernel, stride, padding, dilation, groups)
    out = numpy_product(weight.reshape(groups, weight.shape[0] // groups, unfolded.shape[2]), unfolded)
    return out.reshape(x.shape[0], weight.shape[0], *windows)


def _transposed(x, weight, stride, padding, dilation, output_padding, groups):
    kernel, sizes = weight.shape[2:], x.shape[2:]
    count, made = math.prod(sizes), weight.shape[1] * groups
    rows = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1] * math.prod(kernel))
    unfolded = numpy_product(rows.swapaxes(-1, -2), x.reshape(x.shape[0], groups, x.shape[1] // groups, count))
    unfolded = unfolded.reshape(x.shape[0], made, *kernel, *sizes)
    spans = [(n - 1) * s + 1 for n, s in zip(sizes, stride)]
    reach = [n + d * (k - 1) for n, d, k in zip(spans, dilation, kernel)]
    ends = [n - p + extra for n, p, extra in zip(reach, padding, output_padding)]
    canvas = np.zeros((x.shape[0], made, *(max(n, end) for n, end in zip(reach, ends))), unfolded.dtype)
    for tap in itertools.product(*map(range, kernel)):
        at = tuple(slice(t * d, t * d + n, s) for t, d, n, s in zip(tap, dilation, spans, stride))
        canvas[(..., *at)] += unfolded[(slice(None), slice(None), *tap)]
    return np.ascontiguousarray(canvas[(..., *(slice(p, end) for p, end in zip(padding, ends)))])


def convolution_weight(x, y, kernel, stride, padding, dilation, groups):
    dtype = x.dtype
    x, y = _wide(x, y)
    unfolded = columns(x, y.shape[2:], kernel, stride, padding, dilation, groups)
    given = y.reshape(y.shape[0], groups, y.shape[1] // groups, unfolded.shape[3])
    out = numpy_product(given, unfolded.swapaxes(-1, -2)).sum(0)
    return out.reshape(y.shape[1], x.shape[1] // groups, *kernel).astype(dtype, copy=False)


# -- native


def _plain_memory(x):
    """Row-major, copied if need be: windows are gathered along rows."""
    return x if x.flags.c_contiguous else copy_gather.copied(x)


def native_convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    if x.dtype not in kernels.TYPES:
        return NotImplemented
    last = wants_last(x, weight)
    spatial = _sizes(x, weight, stride, padding, dilation, transposed, output_padding)
    made = weight.shape[1] * groups if transposed else weight.shape[0]
    out = native.empty((x.shape[0], made, *spatial), x.dtype)
    bias = None if bias is None else np.ascontiguousarray(bias)
    native.convolution(_plain_memory(x), _plain_memory(weight), bias, out, stride, padding, dilation, transposed, groups)
    return _ordered(out, last)


def _sizes(x, weight, stride, padding, dilation, transposed, output_padding):
    """The spatial sizes of the result."""
    each = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding)
    if transposed:
        return [(n - 1) * s - 2 * p + d * (k - 1) + extra + 1 for n, k, s, p, d, extra in each]
    return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in each]


def native_convolution_weight(x, y, kernel, stride, padding, dilation, groups):
    if x.dtype not in kernels.TYPES:
        return NotImplemented
    out = native.empty((y.shape[1], x.shape[1] // groups, *kernel), x.dtype)
    native.convolution_weight(_plain_memory(x), _plain_memory(y), out, stride, padding, dilation, groups)
    return out
