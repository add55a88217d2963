"""Row kernels on arrays: softmax, normalisation, cross entropy. Each returns NotImplemented for operands that the native
kernels do not take (other types, strided memory)."""

from __future__ import annotations

import math

import numpy as np

from .kernels import column_block, computation, empty, grain_of, are_contiguous_floats, run


def _along(name, x, dim, *operands):
    """A kernel along `dim` of contiguous arrays of one shape, into a fresh array."""
    if not are_contiguous_floats(x, *operands) or x.size == 0:
        return NotImplemented
    out = empty(x.shape, x.dtype)
    n = x.shape[dim] if x.ndim else 1
    inner = math.prod(x.shape[dim + 1 :])
    if inner == 1:
        run(name + "_rows", x.dtype, x.size // n, grain_of(n), (out, x, *operands), (n,))
    else:
        block = column_block()
        blocks = -(-inner // block)
        run(
            name + "_columns",
            x.dtype,
            x.size // (n * inner) * blocks,
            grain_of(n * min(inner, block)),
            (out, x, *operands),
            (n, inner, blocks),
        )
    return out


def softmax(x, dim):
    return _along("softmax", x, dim)


def log_softmax(x, dim):
    return _along("log_softmax", x, dim)


def softmax_backward(g, y, dim):
    return _along("softmax_back", g, dim, y) if g.shape == y.shape else NotImplemented


def log_softmax_backward(g, y, dim):
    return _along("log_softmax_back", g, dim, y) if g.shape == y.shape else NotImplemented


# -- normalisation over the last `normalized` dims


def _split(x, normalized):
    """(rows, their length, sizes of what there is one of per row)"""
    width = math.prod(x.shape[x.ndim - normalized :])
    return x.size // width, width, x.shape[: x.ndim - normalized] + (1,) * normalized


def layer_norm(x, normalized, weight, bias, eps):
    """(out, mean, 1 / deviation)"""
    if not x.size or not are_contiguous_floats(x, weight, bias):
        return NotImplemented
    rows, width, sizes = _split(x, normalized)
    inner = computation(x.dtype)
    out, mean, rstd = empty(x.shape, x.dtype), empty(sizes, inner), empty(sizes, inner)
    run("layer_norm_rows", x.dtype, rows, grain_of(width), (out, x, weight, bias, mean, rstd), (width,), (eps,))
    return out, mean, rstd


def rms_norm(x, normalized, weight, eps):
    """(out, 1 / root of the mean square)"""
    if not x.size or not are_contiguous_floats(x, weight):
        return NotImplemented
    rows, width, sizes = _split(x, normalized)
    out, rstd = empty(x.shape, x.dtype), empty(sizes, computation(x.dtype))
    run("rms_norm_rows", x.dtype, rows, grain_of(width), (out, x, weight, None, None, rstd), (width,), (eps,))
    return out, rstd


def norm_backward(g, x, mean, rstd, weight, normalized):
    """The gradient of x; `mean` None for rms."""
    if not x.size or g.shape != x.shape or not are_contiguous_floats(x, g, weight) or not _statistics(x, mean, rstd):
        return NotImplemented
    rows, width, _ = _split(x, normalized)
    out = empty(x.shape, x.dtype)
    run("norm_back_rows", x.dtype, rows, grain_of(width), (out, x, weight, g, mean, rstd), (width,))
    return out


def _statistics(x, *arrays) -> bool:
    return all(a is None or (a.dtype == computation(x.dtype) and a.flags.c_contiguous) for a in arrays)


def norm_weight_gradient(g, x, mean, rstd, normalized):
    """The sum over rows of g * (x - mean) * rstd, in the computation type."""
    if not x.size or g.shape != x.shape or not are_contiguous_floats(x, g) or not _statistics(x, mean, rstd):
        return NotImplemented
    rows, width, _ = _split(x, normalized)
    step = max(16, min(512, -(-rows // 16)))
    units = -(-rows // step)
    partial = empty((units, width), computation(x.dtype))
    run("norm_weight_rows", x.dtype, units, 1, (partial, x, g, mean, rstd), (width, rows, step))
    return np.add.reduce(partial, 0).reshape(x.shape[x.ndim - normalized :])


# -- cross entropy of rows with class numbers


def cross_entropy(x, target, weight, ignored):
    """(loss per row, log-sum-exp per row, a row with a target that is no class or -1, number of rows that count)"""
    inner, rows = computation(x.dtype), len(x)
    loss, lse, found = empty((rows,), inner), empty((rows,), inner), np.array((-1, 0))
    run("cross_entropy_rows", x.dtype, rows, grain_of(x.shape[1]), (loss, lse, x, target, weight, found), (x.shape[1], ignored))
    bad, kept = found.tolist()
    return loss, lse, bad, kept


def cross_entropy_backward(x, target, lse, scale, ignored):
    """(softmax - onehot) * scale per row; a number for `scale`: 0 where the target is the ignored one"""
    out, shared = empty(x.shape, x.dtype), isinstance(scale, float)
    run(
        "cross_entropy_back_rows",
        x.dtype,
        len(x),
        grain_of(x.shape[1]),
        (out, None if shared else scale, x, target, lse),
        (x.shape[1], ignored),
        (scale if shared else 0.0,),
    )
    return out
