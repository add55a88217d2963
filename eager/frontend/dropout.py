"""Dropout of whole channels, and the kind that keeps mean and variance of self-normalising activations."""

import math

from ..dispatch import small
from ..ops.random import keep_mask, mask_over

_FLOOR = 1.7580993408473766  # minus SELU's limit at minus infinity: scale * alpha


def _check(p):
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _written(input, result, inplace):
    return input.copy_(result) if inplace else result


def _channel_mask(input, p):
    shape = tuple(input.shape)
    return keep_mask(shape[:2] + (1,) * (len(shape) - 2), p, input.device)


def _feature_dropout(input, p, training, inplace):
    """Zeroes channels of (N, C, ...) with probability p; the others times 1/(1-p)."""
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    if not training or p == 0 or input.numel() == 0:
        return input
    noise = _channel_mask(input, p).to(input.dtype) * (0.0 if p == 1 else 1.0 / (1.0 - p))
    return input.mul_(noise) if inplace else input * noise


def _unbatched(input, p, training, inplace, lone):
    if not lone:
        return _feature_dropout(input, p, training, inplace)
    out = _feature_dropout(input.unsqueeze(0), p, training, False).squeeze(0)
    return _written(input, out, inplace)


def dropout1d(input, p=0.5, training=True, inplace=False):
    _check(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d "
            "exists to provide channel-wise dropout on inputs with 1 spatial dimension, a channel "
            "dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _unbatched(input, p, training, inplace, input.ndim == 2)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Inputs of three dims count as (N, C, L)."""
    _check(p)
    return _feature_dropout(input, p, training, inplace)


def dropout3d(input, p=0.5, training=True, inplace=False):
    _check(p)
    return _unbatched(input, p, training, inplace, input.ndim in (3, 4))


def _alpha(input, keep, p):
    """a * (x where kept, else -floor) + b, so that mean 0 and variance 1 stay."""
    a = 0.0 if p == 1 else 1.0 / math.sqrt((_FLOOR * _FLOOR * p + 1.0) * (1.0 - p))
    b = _FLOOR * a * p
    kept = keep.to(input.dtype)
    return input * (kept * a) + ((kept - 1.0) * (_FLOOR * a) + b)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    _check(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    return _written(input, _alpha(input, mask_over(input, p), p), inplace)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    _check(p)
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    if not training or p == 0 or input.numel() == 0:
        return input
    return _written(input, _alpha(input, _channel_mask(input, p), p), inplace)


dropout1d, dropout2d, dropout3d = small("dropout1d", dropout1d), small("dropout2d", dropout2d), small("dropout3d", dropout3d)
alpha_dropout = small("alpha_dropout", alpha_dropout)
feature_alpha_dropout = small("feature_alpha_dropout", feature_alpha_dropout)
