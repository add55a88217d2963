"""The native attention kernels on arrays (batch, heads, length, depth); rows of the last dim are contiguous, the other
dims have any strides. Key heads may be fewer than query heads: neighbours share one."""

from __future__ import annotations

import numpy as np

from .jobs import TYPES, WHOLE, computation, empty, grain_of, run

_NO_MASK, _BOOL_MASK, _ADDED_MASK = range(3)
_TILE = 1 << 16              # scores of one block: they stay in a core's cache
_STEP = 6                    # rows of a micro-kernel


def _strides(x):
    """Strides of the first three dims in elements, or None."""
    step = x.itemsize
    if x.shape[-1] > 1 and x.strides[-1] != step or any(s % step for s in x.strides) or not x.flags.aligned:
        return None
    return tuple(s // step for s in x.strides[:3])


def as_four(x):
    """An array of two to four dims with ones in front."""
    return x.reshape((1,) * (4 - x.ndim) + x.shape) if x.ndim < 4 else x


def _block(length, width, most):
    """Queries of a block: blocks of nearly one size, a multiple of the micro-kernel's rows, few enough scores."""
    rows = max(_STEP, min(most, _TILE // max(width, 1)))
    count = -(-length // rows)
    return -(-(-(-length // count)) // _STEP) * _STEP


def _mask_numbers(mask, shape):
    """(strides of the mask broadcast to `shape`, kind)"""
    if mask is None:
        return (0, 0, 0, 0), _NO_MASK
    wide = np.broadcast_to(mask, shape)
    return tuple(s // mask.itemsize for s in wide.strides), _BOOL_MASK if mask.dtype == np.bool_ else _ADDED_MASK


def _numbers(q, k, v, g, mask, causal, block):
    strides = [_strides(x) for x in (q, k, v, g)]
    if any(s is None for s in strides) or q.dtype not in TYPES or any(x.dtype != q.dtype for x in (k, v, g)):
        return None
    if mask is not None and mask.dtype not in (np.dtype(bool), q.dtype):
        return None
    batch, heads, length, depth = q.shape
    width = k.shape[2]
    mask_strides, kind = _mask_numbers(mask, (batch, heads, length, width))
    return (heads, length, width, depth, v.shape[3], int(causal), block, heads // k.shape[1],
            *[s for own in strides for s in own], *mask_strides, kind)


def forward(q, k, v, mask, keep, causal, scale, keep_scale):
    """(out, log-sum-exp per query), or NotImplemented."""
    batch, heads, length, depth = q.shape
    width, deep = k.shape[2], v.shape[3]
    block = _block(length, width, 96)
    numbers = _numbers(q, k, v, q, mask, causal, block)
    if numbers is None or not q.size or not k.size or not v.size:
        return NotImplemented
    out, lse = empty((batch, heads, length, deep), q.dtype), empty((batch, heads, length, 1), computation(q.dtype))
    units = batch * heads * -(-length // block)
    run("attention_forward", q.dtype, units, grain_of(block * width * 4), (out, lse, q, k, v, mask, keep), numbers,
        (scale, keep_scale))
    return out, lse


def backward(g, q, k, v, mask, keep, lse, causal, scale, keep_scale):
    """Gradients of q, k, v, or NotImplemented; k and v have as many heads as q."""
    batch, heads, length, depth = q.shape
    width = k.shape[2]
    block = _block(length, width, 256)
    numbers = _numbers(q, k, v, g, mask, causal, block) if q.dtype in WHOLE else None
    if numbers is None or not q.size or not k.size or not v.size or k.shape[1] != heads:
        return NotImplemented
    outs = tuple(empty(x.shape, x.dtype) for x in (q, k, v))
    run("attention_backward", q.dtype, batch * heads, grain_of(block * width * 4),
        (*outs, q, k, v, mask, keep, g, lse), numbers, (scale, keep_scale))
    return outs
