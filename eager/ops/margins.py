"""Losses of margins: how far the score of a class stays ahead of those of the others. Scores are (rows, classes)."""

from .. import _call
from ..op import composite, mask, scalar, static
from .arithmetic import add, cast, clamp, div, eq, gt, logical_and, logical_not, masked_fill, mul, ne, neg, sub
from .creation import full
from .indexing import gather, scatter_add, scatter_value
from .losses import reduced, unreduced
from .order import cumsum
from .reduce import sum as sum_dims
from .views import unsqueeze


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
    """(places of the labels, gaps, whether each counts): (rows, labels, classes). Labels end at the first negative one."""
    listed = eq(cumsum(cast(_none(target), target.dtype), 1), 0)
    places = clamp(target, 0, None)
    none = full(tuple(x.shape), 0, target.dtype, x.device)
    chosen = gt(scatter_add(none, 1, places, cast(listed, target.dtype)), 0)
    gaps = _positive(add(unsqueeze(sub(1.0, gather(x, 1, places)), 2), unsqueeze(x, 1)))
    return places, gaps, logical_and(unsqueeze(listed, 2), unsqueeze(logical_not(chosen), 1))


def _none(target):
    """Whether a place holds no label."""
    return gt(0, target)


@composite(refuses=True)
def multilabel_margin_loss(x, target: mask, reduction: static):
    """The mean over classes of max(0, 1 - (x[label] - x[other])), for every label."""
    _, gaps, counted = _labels(x, target)
    return reduced(div(sum_dims(masked_fill(gaps, logical_not(counted), 0.0), (1, 2), False), x.shape[1]), reduction)


multilabel_margin_loss.native(_call.multilabel_margin)


@multilabel_margin_loss.grad("x")
def _(g, x, target, reduction):
    return multilabel_margin_loss_backward(g, x, target, reduction)


@composite
def multilabel_margin_loss_backward(g, x, target: mask, reduction: static):
    """The same of every label and every class that is none."""
    places, gaps, counted = _labels(x, target)
    slope = unsqueeze(unsqueeze(div(unreduced(g, (x.shape[0],), reduction), x.shape[1]), 1), 1)
    pull = mul(cast(logical_and(counted, ne(gaps, 0)), x.dtype), slope)
    return scatter_add(sum_dims(pull, (1,), False), 1, places, neg(sum_dims(pull, (2,), False)))


multilabel_margin_loss_backward.native(_call.multilabel_margin_backward)
multi_margin_loss.samples(lambda make: [(make(4, 5), make.ints(5, 4), 1, 0.7, "mean"),
                                        (make(3, 4), make.ints(4, 3), 2, 1.0, "none"),
                                        (make(2, 3), make.ints(3, 2), 1, 1.0, "sum")])
multilabel_margin_loss.samples(lambda make: [(make(4, 5), make.ints(5, 4, 5), "mean"),
                                             (make(2, 3), make.ints(3, 2, 3), "none")])
