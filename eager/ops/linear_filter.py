"""Linear maps along one dim that read a few elements per output: out[o] = sum over its taps of weight * x[index].

A map is (ends, index, weight): output o has the taps [ends[o - 1], ends[o]). Its adjoint is a map again, the taps sorted
by what they read. Native for floating arrays in row-major order or with the channels last, numpy elsewhere.
"""

import math

import numpy as np

from ...runtime import kernel_calls, kernels, copy_gather
from .. import _call
from .image_layout import array_is_last, empty_image

_BATCHED = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def regular(index, weight):
    """The map of arrays (outputs, taps)."""
    outputs, count = index.shape
    return np.arange(1, outputs + 1) * count, np.ascontiguousarray(index, np.int64).reshape(-1), weight.reshape(-1)


def intervals(starts, stops):
    """The map that adds up [start, stop) per output."""
    lengths = stops - starts
    ends = np.cumsum(lengths)
    index = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths) + np.repeat(starts, lengths)
    return ends, index, np.ones(len(index))


def adjoint(taps, inputs):
    """The map that gives each of `inputs` elements what the outputs that read it hold."""
    ends, index, weight = taps
    order = np.argsort(index, kind="stable")
    outputs = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    return np.searchsorted(index[order], np.arange(inputs), "right"), outputs[order], weight[order]


def apply(x, dim, taps):
    """The map along `dim`, in the memory order of x."""
    found = _call.apply_taps(x, dim, *taps)
    if found is not NotImplemented:
        return found
    sizes = (*x.shape[:dim], len(taps[0]), *x.shape[dim + 1 :])
    last = array_is_last(x)
    out = empty_image(x, sizes) if last else kernels.empty(sizes, x.dtype)
    if not out.size:
        return out
    if x.dtype not in kernels.TYPES or not x.size:
        return _numpy(x, dim, taps, out)
    if not (last or x.flags.c_contiguous):
        x = copy_gather.copied(x)
    if last:
        order = _BATCHED[x.ndim]
        _native(x.transpose(order), order.index(dim), taps, out.transpose(order))
    else:
        _native(x, dim, taps, out)
    return out


def _native(x, dim, taps, out):
    ends, index, weight = taps
    outer, inner = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    arrays = (
        out,
        x,
        np.ascontiguousarray(ends, np.int64),
        np.ascontiguousarray(index, np.int64),
        np.ascontiguousarray(weight, kernels.computation(x.dtype)),
    )
    reads = max(1, len(index) // max(1, len(ends)))
    if inner == 1:
        kernels.run("taps_single", x.dtype, outer, kernels.grain_of(reads * len(ends)), arrays, (x.shape[dim], len(ends), 1))
    else:
        kernels.run(
            "taps_inner", x.dtype, outer * len(ends), kernels.grain_of(reads * inner), arrays, (x.shape[dim], len(ends), inner)
        )


TABLE = 1 << 15  # taps of a map that stands in generated code


def call(c, out, x, dim, make):
    """For compiled code: `apply` of the map `make()`, where sizes along the dim are known and the table is no book."""
    sizes = (x.shape[dim], out.shape[dim])
    if any(type(n) is not int for n in sizes) or x.dtype.name not in kernel_calls.TYPES or c.is_empty(out) or c.is_empty(x):
        return None
    ends, index, weight = make()
    if len(index) > TABLE:
        return None
    x = c.rows(x)
    outer, inner = copy_gather.product(x.shape[:dim]), copy_gather.product(x.shape[dim + 1 :])
    reads = max(1, len(index) // len(ends))
    arrays = (
        out,
        x,
        kernel_calls.NumberTable(tuple(ends.tolist())),
        kernel_calls.NumberTable(tuple(index.tolist())),
        kernel_calls.NumberTable(tuple(weight.tolist()), x.dtype),
    )
    numbers, type_ = (x.shape[dim], len(ends), inner), kernel_calls.TYPES[x.dtype.name]
    if type(inner) is int and inner == 1:
        return (kernel_calls.RuntimeCall("taps_single", type_, outer, reads * len(ends), arrays, numbers),)
    return (kernel_calls.RuntimeCall("taps_inner", type_, outer * len(ends), reads * inner, arrays, numbers),)


def _numpy(x, dim, taps, out):
    """One run of taps after the other."""
    ends, index, weight = taps
    shares = np.take(x, index, dim)
    if not (weight == 1).all():
        shares = shares * weight.astype(x.dtype).reshape((-1,) + (1,) * (x.ndim - 1 - dim))
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
    used = starts < ends
    out.fill(0)
    if used.any():
        out[(slice(None),) * dim + (used,)] = np.add.reduceat(shares, starts[used], dim)
    return out
