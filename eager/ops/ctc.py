"""Connectionist temporal classification: minus the log-probability of all alignments of a target with the steps.

A target of L labels has 2L+1 states, a blank before, between and after its labels. alpha[t, s] is the log-probability
of all ways to be in state s at step t, beta the same for what comes after; their product is the occupancy, whose sum
per class is minus the gradient.
"""

import numpy as np

from ...runtime import ctc
from ..op.meta import Spec
from ..op.op import extern, mask, Out, static, tensor


def _states(targets, counts, blank):
    """(labels of the states (N, S), states that may be entered from two before, states that exist)."""
    rows, width = len(counts), 2 * max(counts, default=0) + 1
    labels = np.full((rows, width), blank, np.int64)
    if width > 1:
        labels[:, 1::2] = np.where(np.arange(width // 2) < np.array(counts)[:, None], targets[:, : width // 2], blank)
    skip = np.zeros((rows, width), bool)
    skip[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    exists = np.arange(width) < 2 * np.array(counts)[:, None] + 1
    return labels, skip, exists


def _moved(x, by):
    """States `by` before (positive) or after; -inf beyond the ends."""
    out = np.full_like(x, -np.inf)
    if by > 0:
        out[:, by:] = x[:, :-by]
    else:
        out[:, :by] = x[:, -by:]
    return out


def _logsum(*parts):
    top = np.maximum.reduce(parts)
    safe = np.where(np.isfinite(top), top, 0)
    return np.log(np.add.reduce([np.exp(p - safe) for p in parts])) + safe


def _alphas(x, picked, skip, exists):
    alpha = np.full(picked.shape, -np.inf, x.dtype)
    alpha[0, :, :2] = picked[0, :, :2]
    alpha[0] = np.where(exists, alpha[0], -np.inf)
    for t in range(1, len(x)):
        before = alpha[t - 1]
        two = np.where(skip, _moved(before, 2), -np.inf)
        alpha[t] = np.where(exists, _logsum(before, _moved(before, 1), two) + picked[t], -np.inf)
    return alpha


def _last_states(lengths, counts, width):
    """0 at the two states in which an alignment may end, -inf elsewhere; (N, S)."""
    ends = 2 * np.array(counts)[:, None]
    s = np.arange(width)
    return np.where((s == ends) | ((s == ends - 1) & (ends > 0)), 0.0, -np.inf)


def _picked(x, labels):
    return np.take_along_axis(x, np.broadcast_to(labels, (len(x), *labels.shape)), 2)


@extern(outputs=("out", Out("alpha", differentiable=False, hidden=True)))
def ctc_loss(x, targets: mask, lengths: static, counts: static, blank: static, zero_infinity: static, normalised: static):
    """x (T, N, C) log-probabilities, targets (N, L), their lengths as tuples -> (N) losses.

    `normalised`: x is taken to be the result of log_softmax and its gradient is that of the softmax's argument, as
    PyTorch defines it.
    """
    work = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    labels, skip, exists = _states(targets, counts, blank)
    alpha = _alphas(work, _picked(work, labels), skip, exists)
    at = np.maximum(np.array(lengths) - 1, 0), np.arange(len(counts))
    ends = alpha[at] + _last_states(lengths, counts, labels.shape[1])
    loss = -_logsum(*ends.T)
    empty = np.array(lengths) == 0
    loss = np.where(empty, np.where(np.array(counts) == 0, 0.0, np.inf), loss)
    if zero_infinity:
        loss = np.where(np.isinf(loss), 0.0, loss)
    return loss.astype(x.dtype), alpha


@ctc_loss.native
def _(x, targets, lengths, counts, blank, zero_infinity, normalised):
    found = ctc.forward(x, targets, lengths, counts, blank)
    if found is NotImplemented or not zero_infinity:
        return found
    loss, alpha = found
    return np.where(np.isinf(loss), loss.dtype.type(0), loss), alpha


@ctc_loss.meta
def _(x, targets, lengths, counts, blank, zero_infinity, normalised):
    length, rows, _ = x.shape
    return Spec((rows,), x.dtype), Spec((length, rows, 2 * max(counts, default=0) + 1), x.dtype.compute)


@ctc_loss.grad("x")
def _(g, x, targets, lengths, counts, blank, zero_infinity, normalised, out, alpha):
    return ctc_loss_backward(g, x, targets, alpha, out, lengths, counts, blank, zero_infinity, normalised)


@extern(meta=lambda g, x, *rest: tuple(x.shape), exclude=("targets",))
def ctc_loss_backward(
    g,
    x: tensor,
    targets: mask,
    alpha: tensor,
    loss: tensor,
    lengths: static,
    counts: static,
    blank: static,
    zero_infinity: static,
    normalised: static,
):
    work = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    labels, skip, exists = _states(targets, counts, blank)
    picked, lengths = _picked(work, labels), np.array(lengths)
    ends = _last_states(lengths, counts, labels.shape[1])
    nll = np.array(loss, work.dtype)
    impossible = np.isneginf(alpha[np.maximum(lengths - 1, 0), np.arange(len(counts))] + ends).all(1)
    nll[impossible] = np.inf
    skip_out, out = np.zeros_like(skip), np.zeros_like(work)
    skip_out[:, :-2] = skip[:, 2:]
    beta, rows = np.full(labels.shape, -np.inf, work.dtype), np.arange(len(counts))[:, None]
    for t in range(len(work) - 1, -1, -1):
        if t + 1 < len(work):
            after = beta + picked[t + 1]
            beta = _logsum(after, _moved(after, -1), np.where(skip_out, _moved(after, -2), -np.inf))
        beta = np.where((lengths == t + 1)[:, None], ends, np.where(exists, beta, -np.inf))
        occupancy = np.exp(alpha[t] + beta + nll[:, None])
        step = np.zeros_like(work[t])
        np.add.at(step, (rows, labels), occupancy)
        out[t] = (np.exp(work[t]) - step) if normalised else -step
        out[t][t >= lengths] = 0
    scale = np.where(impossible & zero_infinity, 0.0, g)
    out = np.where(scale[None, :, None] == 0, 0.0, out) * scale[None, :, None]
    return out.astype(x.dtype)


ctc_loss_backward.native(ctc.backward)


@ctc_loss_backward.grad("*")
def _(g, needs):
    raise RuntimeError("derivative for ctc_loss_backward is not implemented: ctc_loss is differentiable once")


@ctc_loss.samples
def _(make):
    return [
        (make(6, 2, 4), make.wrap(np.array([[1, 2], [3, 3]])), (6, 5), (2, 2), 0, False, False),
        (make(4, 3, 3), make.wrap(np.array([[1], [2], [0]])), (4, 2, 3), (1, 1, 0), 0, True, False),
    ]
