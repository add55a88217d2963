"""Losses. `reduction`: "none", "mean" or "sum".

cross_entropy keeps one number per row (log-sum-exp) besides its inputs; its gradient is (softmax - target) scaled.
"""

from typing import Any

import numpy as np

from ...runtime import kernels, copy_gather, row_kernels as rows
from .. import _call
from ..op.gradient import Meta
from ..op.meta import Spec
from ..op.op import composite, optional, Out, pointwise, scalar, size, static
from ..state import state
from .activations import log_sigmoid
from .arithmetic import absolute, add, cast, clamp, div, eq, lt, masked_fill, mul, ne, neg, sign, square, sub, where
from .elementary import exp, log, log1p, sigmoid
from .upcast import back, single
from .indexing import check_indices, gather, index_select, spread
from .reduce import extent, logsumexp, mean, sum as sum_dims
from .views import expand, reshape, squeeze, unsqueeze

_FLOATS: Any = (np.float32, np.float64)


def reduced(loss, reduction):
    if reduction == "none":
        return loss
    return (mean if reduction == "mean" else sum_dims)(loss, tuple(range(len(loss.shape))), False)


def unreduced(g, shape, reduction):
    """The gradient of each element's loss."""
    if reduction == "none":
        return g
    g = div(g, extent(shape, range(len(shape)))) if reduction == "mean" else g
    return expand(g, tuple(shape))


@composite
def mse_loss(x, target, reduction: static):
    return reduced(square(sub(x, target)), reduction)


@mse_loss.grad("x")
def _(g, x, target, reduction):
    return _twice(g, sub(x, target), reduction)


@mse_loss.grad("target")
def _(g, x, target, reduction):
    return _twice(g, sub(target, x), reduction)


def _twice(g, difference, reduction):
    """What overflows does so before the gradient meets it, as in PyTorch."""
    size = extent(difference.shape, range(len(difference.shape))) if reduction == "mean" else 1
    return mul(mul(difference, 2.0 if type(size) is int and size == 0 else 2.0 / size), expand(g, tuple(difference.shape)))


@composite
def l1_loss(x, target, reduction: static):
    return reduced(absolute(sub(x, target)), reduction)


@pointwise(promote="float", fast=True)
def bent_square(s, x, target, bound: scalar, half: scalar, width: scalar, slope: scalar):
    """Half the square of the difference over `width`, up to `bound`; a line of `slope` beyond. `half`: of the bound."""
    size = s.abs(x - target)
    return s.where(s.lt(size, bound), size * size * 0.5 / width, (size - half) * slope)


bent_square.samples(lambda make: [(make(3, 4), make(3, 4), 0.7, 0.35, 1.0, 0.7), (make(4), make(3, 4), 0.5, 0.25, 0.5, 1.0)])


@bent_square.grad("x")
def _(g, x, target, bound, width, slope):
    return _bent_slope(g, sub(x, target), bound, width, slope)


@bent_square.grad("target")
def _(g, x, target, bound, width, slope):
    return _bent_slope(g, sub(target, x), bound, width, slope)


def _bent_slope(g, difference, bound, width, slope):
    return mul(g, where(lt(absolute(difference), bound), div(difference, width), mul(sign(difference), slope)))


@composite
def huber_loss(x, target, reduction: static, delta: scalar):
    return reduced(bent_square(x, target, delta, 0.5 * delta, 1.0, delta), reduction)


@composite
def smooth_l1_loss(x, target, reduction: static, beta: scalar):
    if beta == 0:
        return reduced(absolute(sub(x, target)), reduction)
    return reduced(bent_square(x, target, beta, 0.5 * beta, beta, 1.0), reduction)


# The slopes of a loss of x and target with respect to x or, where the second name is True, to target; `bound` is its number.
_SLOPES = {
    ("huber", False): lambda x, target, bound: _bent(x, target, bound, bound),
    ("huber", True): lambda x, target, bound: _bent(target, x, bound, bound),
    ("smooth", False): lambda x, target, bound: _bent(x, target, bound, 1.0),
    ("smooth", True): lambda x, target, bound: _bent(target, x, bound, 1.0),
    ("logits", False): lambda x, target, bound: sub(sigmoid(x), target),
    ("logits", True): lambda x, target, bound: neg(x),
    ("soft_margin", False): lambda x, target, bound: neg(mul(target, sigmoid(neg(mul(target, x))))),
    ("soft_margin", True): lambda x, target, bound: neg(mul(x, sigmoid(neg(mul(target, x))))),
    ("answers", False): lambda x, target, bound: _answer_slope(single(x), target),
}


@composite
def loss_slope(g, x, target, reduction: static, kind: static, of_target: static, bound: static):
    """The gradient of a reduced loss with respect to one of the pair."""
    slope = _SLOPES[kind, of_target](x, target, bound)
    g = unreduced(g, x.shape, reduction)
    return back(mul(single(g), slope), g) if kind == "answers" else mul(g, slope)


loss_slope.native(_call.loss_slope)
loss_slope.samples(
    lambda make: [
        (make(), make(3, 4), make(3, 4), "mean", "huber", False, 0.7),
        (make(4), make(4), make(4), "none", "smooth", True, 0.5),
        (make(), make(2, 3), make.probabilities(2, 3), "sum", "logits", False, 0.0),
        (make(2, 3), make(2, 3), make(2, 3), "none", "soft_margin", True, 0.0),
        (make(), make.probabilities(5), make.probabilities(5), "mean", "answers", False, 0.0),
    ]
)


@huber_loss.native
def _(x, target, reduction, delta):
    return _call.pair_loss(x, target, reduction, "huber", delta) if delta else NotImplemented


@smooth_l1_loss.native
def _(x, target, reduction, beta):
    return _call.pair_loss(x, target, reduction, "smooth", beta)


@huber_loss.grad("x")
def _(g, x, target, reduction, delta):
    return loss_slope(g, x, target, reduction, "huber", False, delta)


@huber_loss.grad("target")
def _(g, x, target, reduction, delta):
    return loss_slope(g, x, target, reduction, "huber", True, delta)


@smooth_l1_loss.grad("x")
def _(g, x, target, reduction, beta):
    return loss_slope(g, x, target, reduction, "smooth", False, beta)


@smooth_l1_loss.grad("target")
def _(g, x, target, reduction, beta):
    return loss_slope(g, x, target, reduction, "smooth", True, beta)


def _bent(x, target, bound, height):
    return sign(sub(x, target)) if bound == 0 else bent_line(x, target, bound, height / bound, height)


@pointwise(promote="float", fast=True)
def bent_line(s, x, target, bound: scalar, rise: scalar, height: scalar):
    """A line through 0 of the difference that goes on as +-height beyond the bound: finite for every number, whatever its
    square."""
    d = x - target
    return s.where(s.lt(s.abs(d), bound), d * rise, s.where(s.eq(d, d), s.sign(d) * height, d))


bent_line.samples(lambda make: [(make(3, 4), make(3, 4), 0.7, 1.0, 0.7), (make(4), make(3, 4), 0.5, 2.0, 1.0)])


@bent_line.grad("x")
def _(g, x, target, bound, rise):
    return _bent_rise(g, sub(x, target), bound, rise)


@bent_line.grad("target")
def _(g, x, target, bound, rise):
    return neg(_bent_rise(g, sub(x, target), bound, rise))


def _bent_rise(g, d, bound, rise):
    return where(lt(absolute(d), bound), mul(g, rise), where(eq(d, d), 0.0, g))


def _pairs(make, *extra):
    return [(make(3, 4), make(3, 4), "mean", *extra), (make(5), make(5), "none", *extra), (make(2, 3), make(2, 3), "sum", *extra)]


mse_loss.samples(_pairs)
l1_loss.samples(_pairs)
huber_loss.samples(lambda make: _pairs(make, 0.7))
smooth_l1_loss.samples(lambda make: _pairs(make, 0.7))


@composite
def binary_cross_entropy(x, target, weight: optional, reduction: static):
    """Logarithms are cut at -100, so that a certain wrong answer costs 100."""
    loss = _answer_loss(x, target)
    return reduced(loss if weight is None else mul(loss, weight), reduction)


@composite
def soft_margin_loss(x, target, reduction: static):
    """log(1 + exp(-t * x))"""
    return reduced(neg(log_sigmoid(mul(target, x))), reduction)


@soft_margin_loss.native
def _(x, target, reduction):
    return _call.pair_loss(x, target, reduction, "soft_margin", 0.0)


@soft_margin_loss.grad("x")
def _(g, x, target, reduction):
    return loss_slope(g, x, target, reduction, "soft_margin", False, 0.0)


@soft_margin_loss.grad("target")
def _(g, x, target, reduction):
    return loss_slope(g, x, target, reduction, "soft_margin", True, 0.0)


soft_margin_loss.samples(_pairs)


def _answer_loss(x, target):
    return neg(add(mul(target, clamp(log(x), -100.0, None)), mul(sub(1.0, target), clamp(log1p(neg(x)), -100.0, None))))


@binary_cross_entropy.native
def _(x, target, weight, reduction):
    return _call.pair_loss(x, target, reduction, "answers", 0.0) if weight is None else NotImplemented


def _answer_slope(x, target):
    """(x - t) / (x (1 - x)), finite where an answer is certain; in halves the bound would be zero."""
    return div(sub(x, target), clamp(mul(x, sub(1.0, x)), 1e-12, None))


@binary_cross_entropy.grad("x")
def _(g, x, target, weight, reduction):
    if weight is None:
        return loss_slope(g, x, target, reduction, "answers", False, 0.0)
    g = mul(unreduced(g, x.shape, reduction), weight)
    return back(mul(single(g), _answer_slope(single(x), target)), g)


@binary_cross_entropy.grad("target")
def _(g, x, weight, reduction):
    """The gradient is made small last: a logarithm may be infinite."""
    slope = mul(sub(log1p(neg(x)), log(x)), g)
    slope = slope if weight is None else mul(slope, weight)
    return div(slope, extent(x.shape, range(len(x.shape)))) if reduction == "mean" else slope


@binary_cross_entropy.grad("weight")
def _(g, x, target, reduction):
    return mul(unreduced(g, x.shape, reduction), _answer_loss(x, target))


@composite
def binary_cross_entropy_with_logits(x, target, weight: optional, pos_weight: optional, reduction: static):
    """(1 - t) * x + w * softplus(-x), with w = 1 + (pos_weight - 1) * t."""
    loss = _logit_loss(x, target, pos_weight)
    return reduced(loss if weight is None else mul(loss, weight), reduction)


def _tail(x):
    """softplus(-x)"""
    return add(log1p(exp(neg(absolute(x)))), clamp(neg(x), 0.0, None))


def _logit_loss(x, target, pos_weight):
    tail = _tail(x)
    if pos_weight is not None:
        tail = mul(add(mul(sub(pos_weight, 1.0), target), 1.0), tail)
    return add(mul(sub(1.0, target), x), tail)


@binary_cross_entropy_with_logits.native
def _(x, target, weight, pos_weight, reduction):
    alone = weight is None and pos_weight is None
    return _call.pair_loss(x, target, reduction, "logits", 0.0) if alone else NotImplemented


@binary_cross_entropy_with_logits.grad("x")
def _(g, x, target, weight, pos_weight, reduction):
    if weight is None and pos_weight is None:
        return loss_slope(g, x, target, reduction, "logits", False, 0.0)
    g = unreduced(g, x.shape, reduction)
    g = g if weight is None else mul(g, weight)
    if pos_weight is None:
        return mul(g, sub(sigmoid(x), target))
    positive = mul(pos_weight, target)
    return mul(g, sub(mul(sub(add(positive, 1.0), target), sigmoid(x)), positive))


@binary_cross_entropy_with_logits.grad("target")
def _(g, x, weight, pos_weight, reduction):
    g = unreduced(g, x.shape, reduction)
    g = g if weight is None else mul(g, weight)
    if pos_weight is None:
        return neg(mul(g, x))
    return mul(g, sub(mul(_tail(x), pos_weight), _tail(neg(x))))


@binary_cross_entropy_with_logits.grad("weight")
def _(g, x, target, pos_weight, reduction):
    return mul(unreduced(g, x.shape, reduction), _logit_loss(x, target, pos_weight))


@binary_cross_entropy_with_logits.grad("pos_weight")
def _(g, x, target, weight, reduction):
    g = unreduced(g, x.shape, reduction)
    g = g if weight is None else mul(g, weight)
    return mul(g, mul(target, _tail(x)))


binary_cross_entropy.samples(
    lambda make: [
        (make.probabilities(3, 4), make.probabilities(3, 4), None, "mean"),
        (make.probabilities(5), make.probabilities(5), make(5), "sum"),
    ]
)
binary_cross_entropy_with_logits.samples(
    lambda make: [
        (make(3, 4), make.probabilities(3, 4), None, None, "mean"),
        (make(2, 3), make.probabilities(2, 3), make(3), make.positive(3), "none"),
    ]
)


@composite
def kl_div(x, target, reduction: static, log_target: static):
    """target * (log target - x), x being log-probabilities; "batchmean" divides the sum by the first size."""
    if log_target:
        loss = mul(exp(target), sub(target, x))
    else:
        safe = where(eq(target, 0), 1.0, target)
        loss = sub(mul(target, log(safe)), mul(target, x))
    if reduction == "batchmean":
        return div(reduced(loss, "sum"), x.shape[0])
    return reduced(loss, reduction)


kl_div.samples(lambda make: [(make(3, 4), make.probabilities(3, 4), "batchmean", False), (make(3, 4), make(3, 4), "sum", True)])


# -- class indices; the classes are dim 1 of x (N, C, ...)


def _class_weights(target, weight, ignore_index, dtype):
    """(target with ignored positions at class 0, weight of each position: 0 where ignored); `dtype`: of the scores."""
    kept = ne(target, ignore_index)
    safe = where(kept, target, 0)
    if weight is None:
        return safe, cast(kept, dtype.compute)
    picked = reshape(index_select(weight, 0, reshape(safe, (extent(safe.shape, range(len(safe.shape))),))), tuple(safe.shape))
    return safe, where(kept, single(picked), 0.0)


def check_targets(target, classes, ignore_index):
    """IndexError for a class that does not exist. Fakes have none to look at."""
    found = target._fl_array
    if found is not None and copy_gather.out_of_range(found, classes):
        wrong = found[((found < 0) | (found >= classes)) & (found != ignore_index)]
        if wrong.size:
            raise IndexError(f"Target {wrong.flat[0]} is out of bounds.")


def _pick(x, target):
    return squeeze(gather(x, 1, unsqueeze(target, 1)), (1,))


def _all(x):
    return tuple(range(len(x.shape)))


@composite(outputs=("out", Out("total", differentiable=False, hidden=True)), refuses=True)
def nll_loss(x, target, weight: optional, reduction: static, ignore_index: static):
    """-weight[target] * x[target]; the mean divides by the sum of the weights."""
    safe, w = _class_weights(target, weight, ignore_index, x.dtype)
    loss = masked_fill(neg(mul(single(_pick(x, safe)), w)), eq(target, ignore_index), 0.0)
    total = sum_dims(w, _all(w), False)
    if reduction == "none":
        return back(loss, x), total
    loss = sum_dims(loss, _all(loss), False)
    return back(div(loss, total) if reduction == "mean" else loss, x), total


def _per_position(g, w, total, reduction, ignored):
    """The gradient of each position's unweighted loss: zero where ignored, also if all are and the mean is NaN."""
    g = single(g)
    if reduction == "mean":
        g = div(g, total)
    return masked_fill(mul(w, g), ignored, 0.0)


@nll_loss.native
def _(x, target, weight, reduction, ignore_index):
    """Rows of one class each, none of them ignored."""
    if (
        weight is not None
        or x.ndim != 2
        or not x.size
        or target.ndim != 1
        or target.dtype != np.int64
        or len(target) != len(x)
        or 0 <= ignore_index < x.shape[1]
        or not kernels.are_contiguous_floats(x)
        or copy_gather.out_of_range(target, x.shape[1])
    ):
        return NotImplemented
    loss = -_computed(x.take(target + np.arange(0, x.size, x.shape[1])))
    total = np.asarray(len(target), loss.dtype)
    if reduction != "none":
        loss = np.add.reduce(loss)
        loss = loss / total if reduction == "mean" else loss
    return np.asarray(loss, x.dtype), total


def _computed(x):
    return x.astype(kernels.computation(x.dtype), copy=False)


@nll_loss.grad("x")
def _(g, x: Meta, target, weight, reduction, ignore_index, total):
    return nll_loss_backward(g, target, weight, total, reduction, ignore_index, x.shape[1], x.dtype)


@composite
def nll_loss_backward(g, target, weight: optional, total, reduction: static, ignore_index: static, classes: size, dtype: static):
    """Each row's slope at its class, zero elsewhere."""
    safe, w = _class_weights(target, weight, ignore_index, dtype)
    slope = spread(neg(_per_position(g, w, total, reduction, eq(target, ignore_index))), safe, 1, classes)
    return slope if slope.dtype is dtype else cast(slope, dtype)


nll_loss_backward.native(_call.nll_loss_backward)


@composite(
    outputs=("out", Out("lse", differentiable=False, hidden=True), Out("total", differentiable=False, hidden=True)), refuses=True
)
def cross_entropy(x, target, weight: optional, reduction: static, ignore_index: static, label_smoothing: scalar):
    """-log softmax(x)[target], weighted; smoothing mixes in the mean over all classes."""
    y = single(x)
    lse = _log_total(y)
    safe, w = _class_weights(target, weight, ignore_index, x.dtype)
    total = sum_dims(w, _all(w), False)
    loss = masked_fill(mul(sub(lse, _pick(y, safe)), w), eq(target, ignore_index), 0.0)
    if label_smoothing:
        smooth = _smooth_part(y, lse, target, weight, ignore_index)
        if reduction == "mean" and weight is not None:  # weights may add up to nothing, which each part is divided by
            loss, smooth = (div(sum_dims(part, _all(part), False), total) for part in (loss, smooth))
            return back(add(mul(loss, 1.0 - label_smoothing), mul(smooth, label_smoothing)), x), lse, total
        loss = add(mul(loss, 1.0 - label_smoothing), mul(smooth, label_smoothing))
    if reduction != "none":
        loss = sum_dims(loss, _all(loss), False)
        loss = div(loss, total) if reduction == "mean" else loss
    return back(loss, x), lse, total


def _log_total(y):
    """The logarithm of each row's sum of exponentials; NaN where a score is infinite, since log_softmax is NaN throughout."""
    lse = logsumexp(y, (1,), False)
    return where(eq(lse, float("inf")), float("nan"), lse)


def _columns(weight, x):
    return reshape(single(weight), (1, x.shape[1]) + (1,) * (len(x.shape) - 2))


def _smooth_part(y, lse, target, weight, ignore_index):
    """Mean over the classes of weight * (lse - y), zero where ignored."""
    spread_loss = sub(unsqueeze(lse, 1), y)
    spread_loss = spread_loss if weight is None else mul(spread_loss, _columns(weight, y))
    return masked_fill(div(sum_dims(spread_loss, (1,), False), y.shape[1]), eq(target, ignore_index), 0.0)


@cross_entropy.meta
def _(x, target, weight, reduction, ignore_index, label_smoothing):
    inner = x.dtype.compute
    rows = tuple(target.shape)
    return Spec(rows if reduction == "none" else (), x.dtype), Spec(rows, inner), Spec((), inner)


def _native_rows(x, target, weight, label_smoothing) -> bool:
    smooth = not label_smoothing or weight is None and x.dtype.itemsize >= 4 and x.flags.c_contiguous
    return (
        x.ndim == 2
        and smooth
        and x.size > 0
        and target.ndim == 1
        and target.dtype == np.int64
        and kernels.are_contiguous_floats(x, weight)
        and target.flags.c_contiguous
    )


@cross_entropy.native
def _(x, target, weight, reduction, ignore_index, label_smoothing):
    if not _native_rows(x, target, weight, label_smoothing):
        return NotImplemented
    loss, lse, bad, count = rows.cross_entropy(x, target, weight, ignore_index)
    if bad >= 0:
        raise IndexError(f"Target {target[bad]} is out of bounds.")
    if label_smoothing:
        with np.errstate(all="ignore"):
            shared = np.where(target != ignore_index, lse - np.add.reduce(x, 1) / x.dtype.type(x.shape[1]), 0)
        loss = loss * lse.dtype.type(1.0 - label_smoothing) + shared * lse.dtype.type(label_smoothing)
    if weight is None:
        total = np.asarray(count, lse.dtype)
    else:
        kept = target != ignore_index
        total = np.asarray(np.add.reduce(weight[np.where(kept, target, 0)] * kept, dtype=lse.dtype), lse.dtype)
    if reduction != "none":
        loss = np.add.reduce(loss)
    if reduction == "mean" and weight is None:
        loss = loss / total if count else np.nan
    elif reduction == "mean":
        with np.errstate(all="ignore"):
            loss = loss / total
    return np.asarray(loss, x.dtype), lse, total


@cross_entropy.numpy
def _(x, target, weight, reduction, ignore_index, label_smoothing):
    if x.ndim != 2 or weight is not None or label_smoothing or x.dtype not in _FLOATS or not x.size:
        return NotImplemented
    kept = target != ignore_index
    safe = target if kept.all() else np.where(kept, target, 0)
    check_indices(safe, x.shape[1], "Target {bad} is out of bounds.")
    lse = _row_lse(x)
    loss = lse - x[np.arange(len(x)), safe]
    if safe is not target:
        loss = np.where(kept, loss, x.dtype.type(0))
    total = np.asarray(np.count_nonzero(kept), x.dtype)
    if reduction != "none":
        loss = np.add.reduce(loss)
        loss = loss / total if reduction == "mean" else loss
    return np.asarray(loss, x.dtype), lse, total


def _row_lse(x):
    lse, step = np.empty(len(x), x.dtype), max(1, (1 << 15) // x.shape[1])
    for k in range(0, len(x), step):
        rows = x[k : k + step]
        top = np.maximum.reduce(rows, 1)
        top = np.where(np.isfinite(top), top, x.dtype.type(0))
        shifted = rows - top[:, None]
        lse[k : k + step] = np.log(np.add.reduce(np.exp(shifted, out=shifted), 1)) + top
    lse[lse == np.inf] = np.nan
    return lse


@cross_entropy.grad("x")
def _(g, x, target, weight, reduction, ignore_index, label_smoothing, lse, total):
    if state.grad:  # to be differentiated again: the log-sum-exp is a function of x
        lse = _log_total(single(x))
    return cross_entropy_backward(g, x, target, weight, lse, total, reduction, ignore_index, label_smoothing)


@composite
def cross_entropy_backward(
    g, x, target, weight: optional, lse, total, reduction: static, ignore_index: static, label_smoothing: scalar
):
    """(softmax - onehot) * weight * g / total, and the same for the smoothed part."""
    safe, w = _class_weights(target, weight, ignore_index, x.dtype)
    probability = exp(sub(single(x), unsqueeze(lse, 1)))
    per = _per_position(g, w, total, reduction, eq(target, ignore_index))
    per = mul(per, 1.0 - label_smoothing) if label_smoothing else per
    out = sub(mul(probability, unsqueeze(per, 1)), spread(per, safe, 1, x.shape[1]))
    if label_smoothing:
        out = add(out, _smooth_gradient(g, probability, target, weight, total, reduction, ignore_index, label_smoothing))
    return back(out, x)


def _smooth_gradient(g, probability, target, weight, total, reduction, ignore_index, label_smoothing):
    classes = probability.shape[1]
    g = div(single(g), total) if reduction == "mean" else single(g)
    g = unsqueeze(masked_fill(expand(g, tuple(target.shape)), eq(target, ignore_index), 0.0), 1)
    scale = mul(g, label_smoothing / classes)
    if weight is None:
        return mul(scale, sub(mul(probability, classes), 1.0))
    columns = _columns(weight, probability)
    return mul(scale, sub(mul(probability, sum_dims(columns, (1,), True)), columns))


@cross_entropy_backward.native
def _(g, x, target, weight, lse, total, reduction, ignore_index, label_smoothing):
    if not _native_rows(x, target, weight, label_smoothing) or lse.dtype != kernels.computation(x.dtype):
        return NotImplemented
    if weight is None and reduction != "none" and not label_smoothing:
        count = float(total) if reduction == "mean" else 1.0
        return rows.cross_entropy_backward(x, target, lse, float(g) / count if count else 0.0, ignore_index)
    if label_smoothing:
        return _smoothed_rows(g, x, target, lse, total, reduction, ignore_index, label_smoothing)
    kept = target != ignore_index
    with np.errstate(all="ignore"):
        scale = np.asarray(g, lse.dtype) / total if reduction == "mean" else np.asarray(g, lse.dtype)
    if weight is not None:
        scale = scale * weight[np.where(kept, target, 0)].astype(lse.dtype)
    scale = np.where(kept, scale, lse.dtype.type(0)).astype(lse.dtype, copy=False)
    return rows.cross_entropy_backward(x, target, lse, np.ascontiguousarray(scale), ignore_index)


def _smoothed_rows(g, x, target, lse, total, reduction, ignore_index, label_smoothing):
    """Without smoothing, and the part of the target's class spread over all."""
    kept = target != ignore_index
    with np.errstate(all="ignore"):
        scale = np.where(kept, g / total if reduction == "mean" else g, lse.dtype.type(0)).astype(lse.dtype, copy=False)
    out = rows.cross_entropy_backward(x, target, lse, scale, ignore_index)
    share = scale * lse.dtype.type(label_smoothing)
    out -= (share / lse.dtype.type(x.shape[1]))[:, None]
    out[np.arange(len(x)), np.where(kept, target, 0)] += share
    return out


@cross_entropy_backward.numpy
def _(g, x, target, weight, lse, total, reduction, ignore_index, label_smoothing):
    if x.ndim != 2 or weight is not None or label_smoothing or x.dtype not in _FLOATS or not x.size:
        return NotImplemented
    kept = target != ignore_index
    scale = np.where(kept, g / total if reduction == "mean" else g, x.dtype.type(0)).astype(x.dtype, copy=False)
    out, step = kernels.empty(x.shape, x.dtype), max(1, (1 << 15) // x.shape[1])
    for k in range(0, len(x), step):
        part = out[k : k + step]
        np.exp(np.subtract(x[k : k + step], lse[k : k + step, None], out=part), out=part)
        part *= scale[k : k + step, None]
    out[np.arange(len(x)), np.where(kept, target, 0)] -= scale
    return out


@cross_entropy.samples
def _(make):
    return [
        (make(4, 5), make.ints(5, 4), None, "mean", -100, 0.0),
        (make(4, 5), make.ints(5, 4), make.positive(5), "sum", 2, 0.0),
        (make(2, 3, 4), make.ints(3, 2, 4), None, "none", -100, 0.0),
        (make(4, 5), make.ints(5, 4), make.positive(5), "mean", 1, 0.1),
        (make(4, 5), make.ints(5, 4), None, "mean", -100, 0.2),
    ]


@nll_loss.samples
def _(make):
    return [
        (make(4, 5), make.ints(5, 4), None, "mean", -100),
        (make(4, 5), make.ints(5, 4), make.positive(5), "sum", 2),
        (make(2, 3, 4), make.ints(3, 2, 4), None, "none", -100),
    ]
