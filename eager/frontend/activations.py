"""The rarer activations of nn.functional, and those that write in place by name."""

import warnings

from .. import dtypes, random
from ..dispatch import type_name
from ..ops import activations as act
from ..ops import shrink
from .arguments import settings


def hardshrink(input, lambd=0.5):
    return shrink.hardshrink(input, *settings(input, lambd))


def softshrink(input, lambd=0.5):
    if type(lambd) is int:
        dtypes.of_number(lambd)  # (refuses what 64 bits do not hold)
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    if type(lambd) in (int, float) and input.dtype.category == 2 and lambd > dtypes.finfo(input.dtype).max:
        raise RuntimeError(
            f"lambda must be in range [0, {dtypes.finfo(input.dtype).max:g}] for input dtype "
            f"{type_name(input.dtype)}, but found {lambd}"
        )
    return shrink.softshrink(input, lambd)


def tanhshrink(input):
    return input - input.tanh()


def prelu(input, weight):
    """`weight`: one value, or one per channel (dim 1)."""
    if weight.numel() == 1:
        return shrink.prelu(input, weight.reshape(()) if input.dim() == 0 else weight.reshape((1,) * input.dim()))
    if input.dim() == 0:
        raise RuntimeError("Not allow zero-dim input tensor.")
    channels = input.shape[1] if input.dim() > 1 else 1
    if weight.dim() > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}")
    if weight.numel() != channels:
        raise RuntimeError(
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
            f"{weight.numel()} and channel size = {channels}."
        )
    return shrink.prelu(input, weight.reshape((1, -1) + (1,) * (input.dim() - 2)))


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Slopes below zero are drawn from [lower, upper) in training, their mean otherwise."""
    lower, upper = settings(input, lower, upper, halves=dtypes.float32)
    if not training:
        return (act.leaky_relu.inplace if inplace else act.leaky_relu)(input, (lower + upper) / 2)
    slopes = input.new_empty(input.shape)
    slopes = slopes.uniform_(lower, upper) if random.in_order is None else _slopes_in_order(slopes, input, lower, upper)
    if not inplace:
        return shrink.prelu(input, slopes)
    return input.copy_(shrink.prelu(input.clone(), slopes))  # (the gradient needs what the input was)


def _slopes_in_order(slopes, input, lower, upper):
    """PyTorch draws one, in doubles, for each element that is not above zero (aten/src/ATen/native/Activation.cpp)."""
    found = input.detach() <= 0
    drawn = input.new_empty(int(found.sum()), dtype=dtypes.float64).uniform_(lower, upper)
    return slopes.fill_(1.0).masked_scatter_(found, drawn.to(slopes.dtype))


def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    return rrelu(input, lower, upper, training, True)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """softmax((logits + Gumbel noise) / tau); `hard`: one-hot forward, with the gradient of the soft one."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -logits.detach().new_empty(logits.shape).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one = soft.new_zeros(soft.shape).scatter_(dim, index, 1.0)
    return one - soft.detach() + soft


def elu_(input, alpha=1.0):
    return act.elu.inplace(input, *settings(input, alpha, halves=dtypes.float32), 1.0, 1.0)


def selu_(input):
    return act.elu.inplace(input, 1.6732632423543772, 1.0507009873554805, 1.0)


def celu_(input, alpha=1.0):
    return act.elu.inplace(input, *settings(input, alpha, halves=dtypes.float32), 1.0, 1.0 / alpha)


def leaky_relu_(input, negative_slope=0.01):
    return act.leaky_relu.inplace(input, *settings(input, negative_slope, halves=dtypes.float32))


def threshold_(input, threshold, value):
    return act.threshold.inplace(input, *threshold_settings(input, threshold, value))


def threshold_settings(input, threshold, value):
    """Both as elements of input; the limit of halves is compared in single precision."""
    return *settings(input, threshold, halves=dtypes.float32), *settings(input, value)


def hardtanh_(input, min_val=-1.0, max_val=1.0):
    return input.copy_(act.hardtanh(input, *settings(input, min_val, max_val)))
