"""Scaled dot product attention over (..., L, E) queries and (..., S, E) keys.

The gradient keeps q, k, v, the result's log-sum-exp per row and the dropout mask, not the (L, S) weights: they are
computed again from q and k. A row with nothing to attend to gives zeros.
"""

import math
from typing import Any

import numpy as np

from ...runtime import attention as kernels, native
from .. import dtypes
from ..op.op import composite, indexed, optional, Out, pointwise, scalar, size, static, tensor
from .. import random
from ..random import draw
from ..state import state
from .activations import masked_scale
from .arithmetic import add, eq, mul, sub, where
from .creation import full
from .elementary import exp
from .upcast import back, single
from .products import gemm, numpy_product
from .random import keep_mask
from .reduce import logsumexp, sum as sum_dims
from .views import mT

_FLOATS: Any = (np.float32, np.float64)

INFINITY = float("inf")


@indexed(meta=lambda length, width, device: (length, width), promote=lambda *operands: (None, dtypes.bool), recompute=True)
def causal_mask(s, i, length: size, width: size, device=None):
    """True on and below the diagonal from the top left corner."""
    return s.le(s.index(i[1]), s.index(i[0]))


@causal_mask.numpy
def _(length, width, device):
    return np.tri(length, width, dtype=bool)


causal_mask.samples(lambda make: [(3, 4), (4, 2), (1, 1)])


@pointwise(exclude=("allowed",))
def hide(s, scores, allowed):
    """-inf where not allowed."""
    return s.where(allowed, scores, -INFINITY)


@hide.grad("scores")
def _(g, allowed):
    return where(allowed, g, 0.0)


hide.samples(lambda make: [(make(3, 4), make.positive(4) > 0), (make(3, 4), make.bools(3, 4)), (make(2, 3, 4), make.bools(4))])


def scores_of(q, k, mask, causal, scale):
    """q @ k.T * scale with masks applied, in the type in which halves compute."""
    scores = mul(single(gemm(q, mT(k))), scale)
    if causal:
        scores = hide(scores, causal_mask(q.shape[-2], k.shape[-2], q.device))
    if mask is None:
        return scores
    return hide(scores, mask) if mask.dtype is dtypes.bool else add(scores, single(mask))


def weights_of(scores, lse):
    """softmax from its log-sum-exp; a row of -inf gives zeros."""
    return exp(sub(scores, where(eq(lse, -INFINITY), 0.0, lse)))


@composite(
    outputs=("out", Out("lse", differentiable=False, hidden=True), Out("keep", differentiable=False, hidden=True)),
    draws=lambda q, k, v, mask, p, causal, scale: 0 if p == 0 else 1,
    template="attention",
)
def attention(q, k: tensor, v, mask: optional, p: scalar, causal: static, scale: scalar):
    """q, k, v of equal batch sizes; `mask` is None, boolean (True: attend) or added to the scores. `keep` is the
    dropout mask (an empty tensor without dropout)."""
    if p != 0:
        keep = keep_mask((*q.shape[:-1], k.shape[-2]), p, q.device)
        return *dropped_attention(q, k, v, mask, keep, p, causal, scale), keep
    weights, lse = _weights(q, k, mask, causal, scale)
    return gemm(back(weights, q), v), lse, keep_nothing(q)


@composite(outputs=("out", Out("lse", differentiable=False, hidden=True)), template="attention")
def dropped_attention(q, k: tensor, v, mask: optional, keep: tensor, p: scalar, causal: static, scale: scalar):
    """Attention whose weights are kept where `keep` says so, and count 1 / (1 - p) times there."""
    weights, lse = _weights(q, k, mask, causal, scale)
    return gemm(back(masked_scale(weights, keep, _kept_scale(p)), q), v), lse


def _weights(q, k, mask, causal, scale):
    """(softmax of the scores, its log-sum-exp); both NaN in rows with a score of inf, as softmax has them"""
    scores = scores_of(q, k, mask, causal, scale)
    lse = logsumexp(scores, (len(scores.shape) - 1,), True)
    lse = where(eq(lse, INFINITY), math.nan, lse)
    return weights_of(scores, lse), lse


def _kept_scale(p):
    return 0.0 if p == 1 else 1.0 / (1.0 - p)


def keep_nothing(q):
    return full((0,), True, dtypes.bool, q.device)


def _ready(x):
    """An array as the native kernels take it: four dims, rows without gaps."""
    x = kernels.as_four(x)
    return x if x.shape[-1] <= 1 or x.strides[-1] == x.itemsize else np.ascontiguousarray(x)


@attention.native
def _(q, k, v, mask, p, causal, scale):
    if not 3 <= q.ndim <= 4 or not kernels.eligible(q, k, v, mask):
        return NotImplemented
    keep = np.ones(0, bool) if p == 0 else _drawn_mask(q.shape[:-1] + k.shape[-2:-1], p)
    out, lse = kernels.forward(_ready(q), _ready(k), _ready(v), mask, keep if p else None, causal, scale, _kept_scale(p))
    return out.reshape(q.shape[:-1] + v.shape[-1:]), lse.reshape(q.shape[:-1] + (1,)), keep


@attention.calls
def _(c, outs, q, k, v, mask, p, causal, scale):
    if not kernels.eligible_regions(c, q, k, v, mask, p, scale):
        return None
    return kernels.forward_calls(c, outs[0], outs[1], q, k, v, mask, causal, scale)


@dropped_attention.calls
def _(c, outs, q, k, v, mask, keep, p, causal, scale):
    if not kernels.eligible_regions(c, q, k, v, mask, p, scale, True):
        return None
    return kernels.forward_calls(c, outs[0], outs[1], q, k, v, mask, causal, scale, keep, _kept_scale(p))


@attention.numpy
def _(q, k, v, mask, p, causal, scale):
    """Matrix by matrix, so that the scores of one stay in a core's cache."""
    if q.dtype not in _FLOATS or mask is not None or q.ndim < 3 or not q.size or not k.size:
        return NotImplemented
    length, width = q.shape[-2], k.shape[-2]
    keep = np.ones(0, bool) if p == 0 else _drawn_mask(q.shape[:-1] + (width,), p)
    out = np.empty(q.shape[:-1] + v.shape[-1:], q.dtype)
    lse = np.empty(q.shape[:-1] + (1,), q.dtype)
    hidden = ~np.tri(length, width, dtype=bool) if causal else None
    scale = q.dtype.type(scale)
    for at in np.ndindex(q.shape[:-2]):
        scores = numpy_product(q[at], k[at].T)
        scores *= scale
        if causal:
            scores[hidden] = -np.inf
        top = np.maximum.reduce(scores, 1, keepdims=True)
        scores -= top
        np.exp(scores, out=scores)
        total = np.add.reduce(scores, 1, keepdims=True)
        lse[at] = np.log(total) + top
        scores /= total
        if p != 0:
            scores *= keep[at]
            scores *= _kept_scale(p)
        out[at] = numpy_product(scores, v[at])
    return out, lse, keep


def _drawn_mask(shape, p):
    """What `keep_mask` draws."""
    if random.in_order is not None:
        return keep_mask(tuple(shape), p)._fl_array
    uniform = np.empty(shape, np.float32)
    native.philox(uniform, *draw())
    return uniform >= p


@attention.grad("*")
def _(g, q, k, v, mask, p, causal, scale, lse, keep, needs):
    return _share(g, q, k, v, mask, p, causal, scale, lse, keep, needs)


@dropped_attention.grad("*")
def _(g, q, k, v, mask, keep, p, causal, scale, lse, needs):
    return _share(g, q, k, v, mask, p, causal, scale, lse, keep, needs)


def _share(g, q, k, v, mask, p, causal, scale, lse, keep, needs):
    """In one step, unless it is to be differentiated again or the mask wants its share."""
    known = not state.grad and "mask" not in needs and type(p) in (int, float)
    if known:
        return dict(zip("qkv", attention_backward(g, q, k, v, mask, keep, lse, p, causal, scale)))
    # to be differentiated again: the log-sum-exp is a function of the scores
    return _gradients(g, q, k, v, mask, p, causal, scale, None if state.grad else lse, keep, needs)


def _gradients(g, q, k, v, mask, p, causal, scale, lse, keep, needs):
    """With W the weights, D the dropped ones: dV = D.T G, dW = (G V.T) dropped, dS = W * (dW - rowsum(dW * W))."""
    scores = scores_of(q, k, mask, causal, scale)
    lse = logsumexp(scores, (len(scores.shape) - 1,), True) if lse is None else lse
    weights = weights_of(scores, lse)
    dropped = type(p) not in (int, float) or p != 0
    used = masked_scale(weights, keep, _kept_scale(p)) if dropped else weights
    grads = {}
    if "v" in needs:
        grads["v"] = gemm(mT(back(used, g)), g)
    if needs & {"q", "k", "mask"}:
        slope = single(gemm(g, mT(v)))
        slope = masked_scale(slope, keep, _kept_scale(p)) if dropped else slope
        product = mul(slope, weights)
        slope = sub(product, mul(weights, sum_dims(product, (len(product.shape) - 1,), True)))
        scaled = back(mul(slope, scale), q)
        grads.update(q=gemm(scaled, k), k=gemm(mT(scaled), q), mask=None if mask is None or mask.dtype is dtypes.bool else slope)
    return grads


@composite(outputs=("q", "k", "v"))
def attention_backward(g, q, k: tensor, v, mask: optional, keep: tensor, lse, p: scalar, causal: static, scale: scalar):
    """The gradients of q, k and v."""
    grads = _gradients(g, q, k, v, mask, p, causal, scale, lse, keep, {"q", "k", "v"})
    return grads["q"], grads["k"], grads["v"]


@attention_backward.native
def _(g, q, k, v, mask, keep, lse, p, causal, scale):
    if not 3 <= q.ndim <= 4 or not kernels.eligible(q, k, v, mask) or g.dtype != q.dtype or q.dtype not in _FLOATS:
        return NotImplemented
    grads = kernels.backward(
        _ready(g),
        _ready(q),
        _ready(k),
        _ready(v),
        mask,
        np.ascontiguousarray(keep) if p else None,
        np.ascontiguousarray(lse),
        causal,
        scale,
        _kept_scale(p),
    )
    return tuple(a.reshape(x.shape) for a, x in zip(grads, (q, k, v)))


@attention_backward.calls
def _(c, outs, g, q, k, v, mask, keep, lse, p, causal, scale):
    if not kernels.eligible_regions(c, q, k, v, mask, p, scale, True) or g.dtype is not q.dtype:
        return None
    dropped = (keep, _kept_scale(p)) if p != 0 else ()
    return kernels.backward_calls(c, outs, g, q, k, v, mask, lse, causal, scale, *dropped)


@attention.samples
def _(make):
    scale = 1.0 / math.sqrt(3)
    return [
        (make(2, 4, 3), make(2, 5, 3), make(2, 5, 2), None, 0.0, False, scale),
        (make(2, 4, 3), make(2, 4, 3), make(2, 4, 3), None, 0.0, True, scale),
        (make(1, 2, 4, 3), make(1, 2, 4, 3), make(1, 2, 4, 3), make.bools(4, 4), 0.0, False, 0.5),
        (make(2, 4, 3), make(2, 4, 3), make(2, 4, 3), make(4, 4), 0.0, False, scale),
        (make(2, 4, 3), make(2, 4, 3), make(2, 4, 3), None, 0.3, True, scale),
    ]


@dropped_attention.samples
def _(make):
    scale = 1.0 / math.sqrt(3)
    return [
        (make(2, 4, 3), make(2, 5, 3), make(2, 5, 2), None, make.bools(2, 4, 5), 0.3, False, scale),
        (make(1, 2, 4, 3), make(1, 2, 4, 3), make(1, 2, 4, 3), make(4, 4), make.bools(1, 2, 4, 4), 0.3, True, scale),
    ]


@attention_backward.samples
def _(make):
    nothing, scale = make.bools(0), 1.0 / math.sqrt(3)
    return [
        (make(2, 4, 3), make(2, 4, 3), make(2, 4, 3), make(2, 4, 3), None, nothing, make(2, 4, 1), 0.0, True, scale),
        (
            make(2, 4, 2),
            make(2, 4, 3),
            make(2, 5, 3),
            make(2, 5, 2),
            make.bools(4, 5),
            make.bools(2, 4, 5),
            make(2, 4, 1),
            0.3,
            False,
            scale,
        ),
    ]
