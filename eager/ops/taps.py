"""Linear maps along one dim that read a few elements per output: out[o] = sum over k of weight[o, k] * x[index[o, k]].

In: arrays; index and weight of (outputs, taps). Out: an array. The adjoint adds each output's share to what it read.
"""

import numpy as np

from .images import empty_image


def _shaped(v, x, dim):
    return v.reshape((-1,) + (1,) * (x.ndim - 1 - dim))


def apply(x, dim, index, weight):
    out = empty_image(x, (*x.shape[:dim], len(index), *x.shape[dim + 1:]))
    if not out.size:
        return out
    for k in range(index.shape[1]):
        part = np.take(x, index[:, k], dim)
        part *= _shaped(weight[:, k].astype(x.dtype), x, dim)
        if k:
            out += part
        else:
            out[...] = part
    return out


def adjoint(slope, dim, n, index, weight):
    """Sorted by the element that was read, so that each element is one run to add up."""
    out = empty_image(slope, (*slope.shape[:dim], n, *slope.shape[dim + 1:]))
    out.fill(0)
    if not slope.size:
        return out
    flat = index.reshape(-1)
    order = np.argsort(flat, kind="stable")
    used, starts = np.unique(flat[order], return_index=True)
    shares = np.take(slope, order // index.shape[1], dim)
    shares *= _shaped(weight.reshape(-1)[order].astype(slope.dtype), slope, dim)
    out[(slice(None),) * dim + (used,)] = np.add.reduceat(shares, starts, dim)
    return out
