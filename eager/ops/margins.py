"""Losses of margins: how far the score of a class stays ahead of those of the others. Scores are (rows, classes)."""

import numpy as np

from ...runtime import kernel_calls, kernels
from .. import _call, dtypes
from ..op.meta import Spec
from ..op.op import composite, mask, scalar, static
from .arithmetic import add, cast, clamp, div, eq, gt, logical_and, logical_not, lt, masked_fill, mul, ne, neg, sub
from .checks import all_within
from .creation import full
from .indexing import gather, scatter_add, scatter_value
from .losses import reduced, unreduced
from .sorting import cumsum
from .reduce import sum as sum_dims
from .views import unsqueeze

NO_LABEL = "argument #2 'target' is out of range"


def _positive(gaps):
    """What is above 0; the difference of two infinities is not."""
    return masked_fill(gaps, logical_not(gt(gaps, 0)), 0.0)


@composite(refuses=True)
def multi_margin_loss(x, target: mask, p: static, margin: scalar, reduction: static):
    """The mean over other classes of max(0, margin - x[target] + x[other]) ** p."""
    own = unsqueeze(target, 1)
    gaps = _positive(add(sub(margin, gather(x, 1, own)), x))
    gaps = gaps if p == 1 else mul(gaps, gaps)
    return reduced(div(sum_dims(scatter_value(gaps, 1, own, 0.0), (1,), False), x.shape[1]), reduction)


multi_margin_loss.native(_call.multi_margin)


@multi_margin_loss.grad("x")
def _(g, x, target, p, margin, reduction):
    return multi_margin_loss_backward(g, x, target, p, margin, reduction)


@composite
def multi_margin_loss_backward(g, x, target: mask, p: static, margin: scalar, reduction: static):
    """Others that are too near are pushed away, the target by as much."""
    own = unsqueeze(target, 1)
    gaps = _positive(add(sub(margin, gather(x, 1, own)), x))
    slope = unsqueeze(div(unreduced(g, (x.shape[0],), reduction), x.shape[1]), 1)
    pull = mul(cast(gt(gaps, 0), x.dtype), slope) if p == 1 else mul(gaps, mul(slope, 2.0))
    pull = scatter_value(pull, 1, own, 0.0)
    return scatter_add(pull, 1, own, neg(sum_dims(pull, (1,), True)))


multi_margin_loss_backward.native(_call.multi_margin_backward)


def _labels(x, target):
    """(places of the labels, gaps, whether each counts): (rows, labels, classes). Labels end at the first negative one; those
    that are no classes do not count."""
    classes = x.shape[1]
    listed = logical_and(eq(cumsum(cast(gt(0, target), target.dtype), 1), 0), lt(target, classes))
    places = clamp(target, 0, classes - 1)
    none = full(tuple(x.shape), 0, target.dtype, x.device)
    chosen = gt(scatter_add(none, 1, places, cast(listed, target.dtype)), 0)
    gaps = _positive(add(unsqueeze(sub(1.0, gather(x, 1, places)), 2), unsqueeze(x, 1)))
    return places, gaps, logical_and(unsqueeze(listed, 2), unsqueeze(logical_not(chosen), 1))


@composite
def multilabel_margin_rows(x, target: mask):
    """Of each row the sum of max(0, 1 - (x[label] - x[other])), for every label, over the number of classes."""
    _, gaps, counted = _labels(x, target)
    return div(sum_dims(masked_fill(gaps, logical_not(counted), 0.0), (1, 2), False), x.shape[1])


@composite
def multilabel_margin_rows_backward(g, x, target: mask):
    """Every class that is no label is pushed away by the labels that it is too near, each of which it pushes back."""
    places, gaps, counted = _labels(x, target)
    near = cast(logical_and(counted, ne(gaps, 0)), x.dtype)
    times = scatter_add(sum_dims(near, (1,), False), 1, places, neg(sum_dims(near, (2,), False)))
    return mul(times, unsqueeze(div(g, x.shape[1]), 1))


@multilabel_margin_rows.meta
def _(x, target):
    return Spec((x.shape[0],), x.dtype)


@multilabel_margin_rows_backward.meta
def _(g, x, target):
    return Spec(tuple(x.shape), x.dtype)


@multilabel_margin_rows.grad("x")
def _(g, x, target):
    return multilabel_margin_rows_backward(g, x, target)


def _work(classes):
    return classes * (classes + 15) // 8


def _is_eligible(x, target):
    return x.dtype in kernels.WHOLE and target.dtype == np.int64 and x.shape == target.shape and x.size


@multilabel_margin_rows.native
def _(x, target):
    if not _is_eligible(x, target):
        return NotImplemented
    rows, classes = x.shape
    out = kernels.empty((rows,), x.dtype)
    arrays = (out, np.ascontiguousarray(x), np.ascontiguousarray(target))
    kernels.run("multilabel_margin", x.dtype, rows, kernels.grain_of(_work(classes)), arrays, (classes,))
    return out


@multilabel_margin_rows_backward.native
def _(g, x, target):
    if not _is_eligible(x, target) or g.dtype != x.dtype or g.shape != x.shape[:1]:
        return NotImplemented
    rows, classes = x.shape
    out = kernels.empty(x.shape, x.dtype)
    arrays = (out, np.ascontiguousarray(g), np.ascontiguousarray(x), np.ascontiguousarray(target))
    kernels.run("multilabel_margin_back", x.dtype, rows, kernels.grain_of(_work(classes)), arrays, (classes, 1))
    return out


def _job(c, name, x, target, arrays, *numbers):
    if x.dtype not in (dtypes.float32, dtypes.float64) or target.dtype is not dtypes.int64 or c.is_empty(x):
        return None
    rows, classes = x.shape
    arrays += tuple(kernel_calls.rows_of(c, x, target))
    return (kernel_calls.RuntimeCall(name, kernel_calls.TYPES[x.dtype.name], rows, _work(classes), arrays, (classes, *numbers)),)


@multilabel_margin_rows.calls
def _(c, outs, x, target):
    return _job(c, "multilabel_margin", x, target, outs)


@multilabel_margin_rows_backward.calls
def _(c, outs, g, x, target):
    if g.dtype is not x.dtype:
        return None
    one = g.strides[0] == 0
    return _job(c, "multilabel_margin_back", x, target, (*outs, g if one else c.rows(g)), int(not one))


@composite(refuses=True)
def multilabel_margin_loss(x, target: mask, reduction: static):
    """The mean over classes of max(0, 1 - (x[label] - x[other])), for every label."""
    all_within(target, -1, x.shape[1] - 1, NO_LABEL)
    return reduced(multilabel_margin_rows(x, target), reduction)


multilabel_margin_loss.native(_call.multilabel_margin)


@multilabel_margin_loss.grad("x")
def _(g, x, target, reduction):
    return multilabel_margin_loss_backward(g, x, target, reduction)


@composite
def multilabel_margin_loss_backward(g, x, target: mask, reduction: static):
    """The same of the losses of the rows."""
    return multilabel_margin_rows_backward(unreduced(g, (x.shape[0],), reduction), x, target)


multilabel_margin_loss_backward.native(_call.multilabel_margin_backward)
multi_margin_loss.samples(
    lambda make: [
        (make(4, 5), make.ints(5, 4), 1, 0.7, "mean"),
        (make(3, 4), make.ints(4, 3), 2, 1.0, "none"),
        (make(2, 3), make.ints(3, 2), 1, 1.0, "sum"),
    ]
)
multilabel_margin_loss.samples(lambda make: [(make(4, 5), make.ints(5, 4, 5), "mean"), (make(2, 3), make.ints(3, 2, 3), "none")])
multilabel_margin_rows.samples(lambda make: [(make(4, 5), make.ints(5, 4, 5)), (make(2, 3), make.ints(3, 2, 3))])
multilabel_margin_rows_backward.samples(
    lambda make: [(make(4), make(4, 5), make.ints(5, 4, 5)), (make(2), make(2, 3), make.ints(3, 2, 3))]
)
