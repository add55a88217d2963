"""Connectionist temporal classification by the native kernels; NotImplemented for other operands."""

from __future__ import annotations

import numpy as np

from .kernels import WHOLE, empty, grain_of, run


def _problem(x, targets, lengths, counts, blank):
    """(targets, lengths and counts as int64 arrays, the kernel's numbers), or None."""
    if x.dtype not in WHOLE or not x.size:
        return None
    steps, rows, classes = x.shape
    if not len(targets) == len(lengths) == len(counts) == rows:
        raise ValueError(f"ctc_loss: {rows} rows of scores, {len(targets)} of targets, {len(lengths)} and {len(counts)} lengths")
    if (
        not 0 <= blank < classes
        or not all(0 <= n <= steps for n in lengths)
        or not all(0 <= n <= targets.shape[1] for n in counts)
    ):
        return None
    targets = np.ascontiguousarray(targets, np.int64)
    known = targets
    if min(counts, default=0) < targets.shape[1]:
        known = targets[np.arange(targets.shape[1]) < np.array(counts)[:, None]]
    if known.size and (known.min() < 0 or known.max() >= classes):
        return None
    numbers = (steps, rows, classes, targets.shape[1], 2 * max(counts, default=0) + 1, blank)
    return targets, np.array(lengths, np.int64), np.array(counts, np.int64), numbers


def forward(x, targets, lengths, counts, blank):
    """(losses, alpha)"""
    found = _problem(x, targets, lengths, counts, blank)
    if found is None:
        return NotImplemented
    targets, lengths, counts, numbers = found
    steps, rows, _, _, states, _ = numbers
    loss, alpha = empty((rows,), x.dtype), empty((steps, rows, states), x.dtype)
    run(
        "ctc_forward",
        x.dtype,
        rows,
        grain_of(steps * states * 32),
        (loss, alpha, np.ascontiguousarray(x), targets, lengths, counts),
        numbers,
    )
    return loss, alpha


def backward(g, x, targets, alpha, loss, lengths, counts, blank, zero_infinity, normalised):
    found = _problem(x, targets, lengths, counts, blank)
    if found is None or any(a.dtype != x.dtype for a in (g, alpha, loss)):
        return NotImplemented
    if alpha.shape != (*x.shape[:2], found[3][4]) or not g.shape == loss.shape == x.shape[1:2]:
        raise ValueError(f"ctc_loss_backward: {g.shape}, {loss.shape} and {alpha.shape} do not belong to scores of {x.shape}")
    targets, lengths, counts, numbers = found
    steps, rows, _, _, states, _ = numbers
    out = empty(x.shape, x.dtype)
    arrays = [np.ascontiguousarray(a) for a in (g, x, targets, alpha, loss)]
    run(
        "ctc_backward",
        x.dtype,
        rows,
        grain_of(steps * states * 32),
        (out, *arrays, lengths, counts),
        (*numbers, int(zero_infinity), int(normalised)),
    )
    return out
