"""The native attention kernels on arrays (batch, heads, length, depth); rows of the last dim are contiguous, the other
dims have any strides. Key heads may be fewer than query heads: neighbours share one."""

from __future__ import annotations

import numpy as np

from .kernel_calls import RuntimeCall, along_last
from .kernel_calls import TYPES as NAMED_TYPES
from .kernels import TYPES, computation, empty, grain_of, run

_NO_MASK, _BOOL_MASK, _ADDED_MASK = range(3)
_TILE = 1 << 16  # scores of one block: they stay in a core's cache
_STEP = 12  # rows of a micro-kernel, or of two
# most queries of a block, and with a causal mask, where a block computes up to its last row's keys
_FORWARD, _BACKWARD = (96, 48), (256, 96)


def as_four(x):
    """An array of two to four dims with ones in front."""
    return x.reshape((1,) * (4 - x.ndim) + x.shape) if x.ndim < 4 else x


def ceil_div(a, b):
    return -(-a // b)


def _block(length, width, most, largest=max, least=min):
    """Queries of a block: blocks of nearly one size, a multiple of the micro-kernel's rows, few enough scores."""
    rows = largest(_STEP, least(most, _TILE // largest(width, 1)))
    each = ceil_div(length, ceil_div(length, rows))
    return ceil_div(each, _STEP) * _STEP


def _mask_numbers(mask, shape):
    """(strides of the mask broadcast to `shape`, kind)"""
    if mask is None:
        return (0, 0, 0, 0), _NO_MASK
    wide = np.broadcast_to(mask, shape)
    return tuple(s // mask.itemsize for s in wide.strides), _BOOL_MASK if mask.dtype == np.bool_ else _ADDED_MASK


def eligible(q, k, v, mask) -> bool:
    """One floating type, elements in all operands, a boolean mask or one of that type."""
    return (
        q.dtype in TYPES
        and k.dtype == q.dtype
        and v.dtype == q.dtype
        and q.size > 0
        and k.size > 0
        and v.size > 0
        and all(x.flags.aligned for x in (q, k, v))
        and (mask is None or mask.dtype in (np.dtype(bool), q.dtype))
    )


def _numbers(q, k, v, g, mask, causal, block):
    strides = [tuple(s // x.itemsize for s in x.strides[:3]) for x in (q, k, v, g)]
    batch, heads, length, depth = q.shape
    width = k.shape[2]
    mask_strides, kind = _mask_numbers(mask, (batch, heads, length, width))
    return (
        heads,
        length,
        width,
        depth,
        v.shape[3],
        int(causal),
        block,
        heads // k.shape[1],
        *[s for own in strides for s in own],
        *mask_strides,
        kind,
    )


def forward(q, k, v, mask, keep, causal, scale, keep_scale):
    """(out, log-sum-exp per query) of eligible operands."""
    batch, heads, length, depth = q.shape
    width, deep = k.shape[2], v.shape[3]
    block = _block(length, width, _FORWARD[causal])
    numbers = _numbers(q, k, v, q, mask, causal, block)
    out, lse = empty((batch, heads, length, deep), q.dtype), empty((batch, heads, length, 1), computation(q.dtype))
    units = batch * heads * -(-length // block)
    run(
        "attention_forward",
        q.dtype,
        units,
        grain_of(block * width * 4),
        (out, lse, q, k, v, mask, keep),
        numbers,
        (scale, keep_scale),
    )
    return out, lse


def backward(g, q, k, v, mask, keep, lse, causal, scale, keep_scale):
    """Gradients of q, k, v (eligible, float32 or float64); k and v have as many heads as q."""
    batch, heads, length, depth = q.shape
    width = k.shape[2]
    block = _block(length, width, _BACKWARD[causal])
    numbers = _numbers(q, k, v, g, mask, causal, block)
    outs = tuple(empty(x.shape, x.dtype) for x in (q, k, v))
    run(
        "attention_backward",
        q.dtype,
        batch * heads,
        grain_of(block * width * 4),
        (*outs, q, k, v, mask, keep, g, lse),
        numbers,
        (scale, keep_scale),
    )
    return outs


# -- for compiled code, over regions of three or four dims and with the outputs given


def _strides(region):
    """(batch, head, row) of a region whose rows are contiguous."""
    return (0,) * (4 - len(region.shape)) + tuple(region.strides[:-1])


def _mask_strides(mask):
    if mask is None:
        return (0, 0, 0, 0), _NO_MASK
    own = [0 if n == 1 else s for n, s in zip(mask.shape, mask.strides)]
    return (0,) * (4 - len(own)) + tuple(own), _BOOL_MASK if mask.dtype.name == "bool" else _ADDED_MASK


def eligible_regions(c, q, k, v, mask, p, scale, dropped=False) -> bool:
    """As `eligible`, without dropout unless `dropped`, and with a known scale."""
    kinds = (None, "bool", q.dtype.name)
    return (
        3 <= len(q.shape) <= 4
        and q.dtype.name in NAMED_TYPES
        and k.dtype is q.dtype
        and v.dtype is q.dtype
        and not any(c.is_empty(x) for x in (q, k, v))
        and type(p) in (int, float)
        and (p == 0 or dropped)
        and type(scale) in (int, float)
        and (mask.dtype.name if mask is not None else None) in kinds
    )


def _region_numbers(c, q, k, v, g, mask, causal, most):
    heads, (length, depth), width = q.shape[-3], q.shape[-2:], k.shape[-2]
    block = _block(length, width, most, c.max, c.min)
    mask_strides, kind = _mask_strides(mask)
    strides = [s for x in (q, k, v, g) for s in _strides(x)]
    return (heads, length, width, depth, v.shape[-1], int(causal), block, 1, *strides, *mask_strides, kind)


def _items(q):
    """Matrices: batch times heads."""
    return q.shape[0] * q.shape[1] if len(q.shape) == 4 else q.shape[0]


def _flops(c, q, k, causal, depths):
    """Of products over `depths` elements for each query and each key that it sees: a causal one those up to its place."""
    length, width = q.shape[-2], k.shape[-2]
    first = c.min(length, width)  # queries that see one key more than the query before
    return _items(q) * depths * (first * (first + 1) + 2 * (length - first) * width if causal else 2 * length * width)


def forward_calls(c, out, lse, q, k, v, mask, causal, scale, keep=None, keep_scale=1.0):
    """With a mask of dropout, other targets have kernels."""
    q, k, v = (along_last(c, x) for x in (q, k, v))
    numbers = _region_numbers(c, q, k, v, q, mask, causal, _FORWARD[causal])
    length, width, block = numbers[1], numbers[2], numbers[6]
    return (
        RuntimeCall(
            "attention_forward",
            NAMED_TYPES[q.dtype.name],
            _items(q) * ceil_div(length, block),
            block * width * 4,
            (out, lse, q, k, v, mask, keep and c.rows(keep)),
            numbers,
            (scale, keep_scale),
            flops=_flops(c, q, k, causal, q.shape[-1] + v.shape[-1]),
        ),
    )


def backward_calls(c, outs, g, q, k, v, mask, lse, causal, scale, keep=None, keep_scale=1.0):
    g, q, k, v = (along_last(c, x) for x in (g, q, k, v))
    numbers = _region_numbers(c, q, k, v, g, mask, causal, _BACKWARD[causal])
    return (
        RuntimeCall(
            "attention_backward",
            NAMED_TYPES[q.dtype.name],
            _items(q),
            numbers[6] * numbers[2] * 4,
            (*outs, q, k, v, mask, keep and c.rows(keep), g, c.rows(lse)),
            numbers,
            (scale, keep_scale),
            native=q.dtype.name in ("float32", "float64"),
            flops=_flops(c, q, k, causal, 3 * q.shape[-1] + 2 * v.shape[-1]),
        ),
    )
