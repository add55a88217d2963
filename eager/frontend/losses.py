"""The rarer losses of nn.functional: margins, Poisson and Gaussian likelihoods, triplets, CTC."""

import math

from .. import _call, dtypes
from ..dispatch import small
from ..op.meta import broadcast_shapes
from ..op.op import specialise
from ..ops import ctc as _ctc
from ..ops import losses as _losses, margins as _margins
from ..ops.activations import log_sigmoid
from ..ops.arithmetic import where
from ..ops.checks import all_within, check_within
from ..tensor import Tensor
from .arguments import settings
from .distance import pairwise_distance
from .shapes import broadcast_tensors


def _word(size_average, reduce, reduction):
    """The old pair of flags as one word, checked."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
    """exp(x) - t * x, or x - t * log(x + eps) without log_input; `full` adds Stirling's approximation of log t!."""
    reduction = _word(size_average, reduce, reduction)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _losses.reduced(loss, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """(log var + (x - t)^2 / var) / 2, var cut at eps from below; `full` adds log(2 pi) / 2."""
    if not isinstance(var, Tensor):
        var = input.new_full(input.shape, var)
    if tuple(var.shape) != tuple(input.shape):
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif tuple(input.shape[:-1]) != tuple(var.shape[:-1]) or var.shape[-1] != 1:
            try:
                broadcast_shapes([tuple(input.shape), tuple(var.shape)])
            except RuntimeError:
                raise ValueError("var is of incorrect size") from None
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    (eps,) = settings(var, eps)
    if not _call.within(var, 0, None, None):
        all_within(where(var.isnan(), 0, var), 0, None, "var has negative entry/entries", "ValueError")
    known = var.detach()
    var = where(known < eps, var - known + eps, var)  # the value of the cut, the gradient of var
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    return _losses.reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """x where t is 1, max(0, margin - x) where it is -1."""
    (margin,) = settings(input, margin)
    far = (margin - input).clamp(min=0)
    loss = far.masked_fill(target == 1, 0) + input.masked_fill(target == -1, 0)
    return _losses.reduced(loss, _word(size_average, reduce, reduction))


def _label_sizes(input, target, name):
    shape = tuple(input.shape)
    if input.ndim > 2 or tuple(target.shape) != shape:
        raise RuntimeError(f"{name}: inconsistent target size: {list(target.shape)} for input of size: {list(shape)}")


def _positive(gaps):
    """What is above 0; the difference of two infinities is not."""
    return gaps.masked_fill((gaps > 0).logical_not(), 0)


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """For labels up to the first -1: the mean over classes of max(0, 1 - (x[label] - x[other]))."""
    reduction = _word(size_average, reduce, reduction)
    _label_sizes(input, target, "multilabel_margin_loss")
    lone = input.ndim < 2
    x, t = (input.reshape(1, -1), target.reshape(1, -1)) if lone else (input, target)
    check_within(t, -1, x.shape[1] - 1, _margins.NO_LABEL)
    loss = _margins.multilabel_margin_loss(x, t, reduction)
    return loss.squeeze(0) if lone and reduction == "none" else loss


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean over classes of the logistic loss of each."""
    reduction = _word(size_average, reduce, reduction)
    loss = -(target * log_sigmoid(input) + (1 - target) * log_sigmoid(-input))
    loss = loss if weight is None else loss * weight
    return _losses.reduced(loss.mean(-1), reduction)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-t * x))"""
    if input.shape != target.shape:
        input, target = broadcast_tensors(input, target)
    if target.dtype is dtypes.bool:
        return -target  # (refused, as there)
    return in_type_of(input, _losses.soft_margin_loss(input, target, _word(size_average, reduce, reduction)))


def in_type_of(x, loss):
    """PyTorch writes some losses into memory of the type of one operand."""
    return loss if loss.dtype is x.dtype else loss.to(x.dtype)


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean over other classes of max(0, margin - x[target] + x[other]) ** p, times the target's weight."""
    reduction = _word(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    lone = input.ndim < 2
    x, t = (input.reshape(1, -1), target.reshape(1)) if lone else (input, target)
    if x.ndim != 2 or tuple(t.shape) != (x.shape[0],):
        raise RuntimeError(f"inconsistent target size, expected {[x.shape[0]]} but got {list(t.shape)}")
    if weight is not None and weight.shape[0] != x.shape[1]:
        raise RuntimeError(f"inconsistent weight size, expected {x.shape[1]} but got {list(weight.shape)}")
    check_within(t, 0, x.shape[1] - 1, "target out of range")
    (margin,) = settings(x, margin, halves=dtypes.float32)
    flat = lone and target.ndim == 0
    if weight is None:
        loss = _margins.multi_margin_loss(x, t, p, margin, reduction)
        return loss.squeeze(0) if flat and reduction == "none" else loss
    own = t.unsqueeze(1)
    gaps = _positive(margin - x.gather(1, own) + x)
    gaps = gaps if p == 1 else gaps * gaps
    gaps = gaps * weight[t].unsqueeze(1)
    loss = gaps.scatter(1, own, 0.0).sum(1) / x.shape[1]
    return _losses.reduced(loss.squeeze(0) if flat else loss, reduction)


def margin_ranking_loss(input1, input2, target, margin: float = 0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -t * (x1 - x2) + margin)"""
    reduction = _word(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _losses.reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def cosine_embedding_loss(input1, input2, target, margin: float = 0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos where t is 1, max(0, cos - margin) where it is -1."""
    reduction = _word(size_average, reduce, reduction)
    for k, (what, x) in enumerate((("input1", input1), ("input2", input2), ("target", target)), 1):
        if not isinstance(x, Tensor):
            raise TypeError(f"cosine_embedding_loss(): argument '{what}' (position {k}) must be Tensor, not {type(x).__name__}")
    if target.dim() not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.dim() != input1.dim() - 1 and target.dim() == 1 or input1.dim() > target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs "
            f"with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    eps = 1e-12
    dot, first, second = (input1 * input2).sum(-1), (input1 * input1).sum(-1) + eps, (input2 * input2).sum(-1) + eps
    cosine = dot / (first * second).sqrt()
    near = (1 - cosine).masked_fill(target != 1, 0)
    far = (cosine - margin).clamp(min=0).masked_fill(target != -1, 0)
    return _losses.reduced(near + far, reduction)


def _triplet(anchor, positive, negative, distance, margin, swap, reduction):
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and negative "
            f"{negative.dim()}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return _losses.reduced((margin + near - far).clamp(min=0), reduction)


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p: float = 2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"
):
    """max(0, |a - p| - |a - n| + margin); `swap`: the smaller of |a - n| and |p - n|."""
    reduction = _word(size_average, reduce, reduction)
    return _triplet(anchor, positive, negative, lambda a, b: pairwise_distance(a, b, p, eps), margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """The same with any distance of two tensors."""
    measure = distance_function or (lambda a, b: pairwise_distance(a, b, 2.0, 1e-6))
    return _triplet(anchor, positive, negative, measure, margin, swap, _word(None, None, reduction))


# -- CTC


def _counts(lengths):
    return tuple(int(n) for n in (lengths.reshape(-1).tolist() if isinstance(lengths, Tensor) else lengths))


def _padded_targets(targets, counts):
    """(N, longest) from one target after the other."""
    if sum(counts) != targets.numel():
        raise RuntimeError(
            f"Expected tensor to have size {sum(counts)} at dimension 0, but got size {targets.numel()} "
            "for argument #2 'targets' (while checking arguments for ctc_loss)"
        )
    padded = targets.new_zeros((len(counts), max(max(counts), 1)))
    at = 0
    for n, count in enumerate(counts):
        padded[n, :count] = targets[at : at + count]
        at += count
    return padded


def _check_ctc(log_probs, targets, lengths, counts, blank):
    steps, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for name, values in (("input_lengths", lengths), ("target_lengths", counts)):
        if len(values) != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
        if min(values, default=0) < 0:
            raise RuntimeError(
                f"Expected {name} to have value at least 0, but got value {min(values)} (while checking arguments for ctc_loss)"
            )
    if targets.dim() == 2 and max(counts, default=0) > targets.shape[1]:
        raise RuntimeError(
            f"Expected tensor to have size at least {max(counts)} at dimension 1, but got size {targets.shape[1]} "
            "for argument #2 'targets' (while checking arguments for ctc_loss)"
        )
    if max(lengths, default=0) > steps:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {steps}, but got value {max(lengths)} "
            "(while checking arguments for ctc_loss)"
        )
    if targets.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError("ctc_loss: targets must be integers")


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """log_probs (T, N, C) or (T, C); targets (N, S) or all in one vector; lengths N ints. The mean is that of each loss
    divided by its target's length."""
    reduction = _word(None, None, reduction)
    lone = log_probs.dim() == 2
    if lone:
        log_probs = log_probs.unsqueeze(1)
    lengths, counts = _counts(input_lengths), _counts(target_lengths)
    _check_ctc(log_probs, targets, lengths, counts, blank)
    if targets.dim() == 1:
        targets = _padded_targets(targets, counts)
    loss = _ctc.ctc_loss(log_probs, targets.long(), lengths, counts, blank, bool(zero_infinity), True)[0]
    if reduction == "mean":
        divisors = [max(n, 1) for n in counts]
        return (loss / (divisors[0] if len(set(divisors)) == 1 else loss.new_tensor(divisors))).mean()
    return loss.squeeze(0) if lone and reduction == "none" else _losses.reduced(loss, reduction)


multi_margin_loss = small("multi_margin_loss", multi_margin_loss, specialise(_margins.multi_margin_loss))
multilabel_margin_loss = small("multilabel_margin_loss", multilabel_margin_loss, specialise(_margins.multilabel_margin_loss))
soft_margin_loss = small("soft_margin_loss", soft_margin_loss, specialise(_losses.soft_margin_loss))
triplet_margin_loss = small("triplet_margin_loss", triplet_margin_loss)
