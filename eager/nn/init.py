"""Initialisers: each fills a tensor in place, records no gradient, and returns the tensor.

fan_in and fan_out count the connections of one unit: weight.shape[1] and weight.shape[0], times the receptive field.
"""

import functools
import math
import warnings

from .. import api, linalg, random
from ..autograd import no_grad


def calculate_gain(nonlinearity, param=None):
    """The factor that keeps the variance through a nonlinearity."""
    gains = {"linear": 1, "sigmoid": 1, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity in gains:
        return gains[nonlinearity]
    if nonlinearity.startswith("conv"):
        return 1
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
            raise ValueError(f"negative_slope {param} not a valid number")
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """A normal cut to [a, b], by the inverse of its distribution function."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=2,
        )

    if random.in_order is not None:
        with no_grad():
            return _rejected_in_order(tensor, mean, std, a, b, generator)

    def below(x):
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    with no_grad():
        tensor.uniform_(2 * below(a) - 1, 2 * below(b) - 1, generator=generator)
        return tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(a, b)


def _rejected_in_order(tensor, mean, std, a, b, generator):
    """By rejection, as torch.nn.init of PyTorch 2.13 draws: normal numbers where more than 30% of them lie inside, else uniform
    ones under the density."""
    inside = (math.erf((b - mean) / std / math.sqrt(2.0)) - math.erf((a - mean) / std / math.sqrt(2.0))) / 2
    if inside > 0.3:
        low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()
        result = tensor.normal_(mean, std, generator=generator)
        while (outside := (result < low) | (result > high)).any():
            result = api.where(outside, api.empty_like(result).normal_(mean, std, generator=generator), result)
        return tensor if result is tensor else tensor.copy_(result)

    def refused(candidates):
        level = ((candidates - mean) / std).pow(2).mul(-0.5).sub(-0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2)
        return api.empty_like(tensor).uniform_(generator=generator).log_().gt(level)

    pending = refused(tensor.uniform_(a, b, generator=generator))
    while pending.any():
        candidates = api.empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(api.where(pending, candidates, tensor))
        pending = api.where(pending, refused(candidates), pending)
    return tensor


def constant_(tensor, val):
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    return constant_(tensor, 1.0)


def zeros_(tensor):
    return constant_(tensor, 0.0)


def eye_(tensor):
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.zero_().diagonal().fill_(1.0)
    return tensor


def dirac_(tensor, groups=1):
    """Weights of a convolution that passes its input channels on."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    middle, per_group = tuple(n // 2 for n in tensor.shape[2:]), tensor.shape[0] // groups
    with no_grad():
        tensor.zero_()
        for g in range(groups):
            part = tensor.narrow(0, g * per_group, per_group)
            part[(slice(None), slice(None), *middle)].diagonal().fill_(1)
    return tensor


def orthogonal_(tensor, gain=1, generator=None):
    """Rows (or columns, if there are more rows) of length gain at right angles: Q of a random matrix, with the signs of
    R's diagonal, so that all rotations are equally likely."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, cols = tensor.shape[0], tensor.numel() // tensor.shape[0]
    with no_grad():
        kind = tensor.dtype if tensor.dtype.itemsize >= 4 else api.float32
        flat = api.empty(rows, cols, dtype=kind).normal_(0, 1, generator=generator)
        q, r = linalg.qr(flat.t() if rows < cols else flat)
        q = q * r.diagonal().sign()
        tensor.copy_((q.t() if rows < cols else q).reshape(tensor.shape)).mul_(gain)
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal, with a share of `sparsity` of each column set to zero."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        if random.in_order is not None:
            for column in range(cols):  # (of the default generator)
                tensor[api.randperm(rows)[:zeros], column] = 0
        elif zeros and cols:
            chosen = api.rand(cols, rows, generator=generator).topk(zeros, 1)[1]
            tensor.scatter_(0, chosen.t(), 0.0)
    return tensor


def _empty(tensor):
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def xavier_uniform_(tensor, gain=1.0, generator=None):
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor, gain):
    return gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))


def kaiming_uniform_(tensor, a: float = 0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    if _empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * (calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    if _empty(tensor):
        return tensor
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)), generator)


# -- the old names


def _deprecated(function):
    old, new = function.__name__[:-1], function.__name__

    @functools.wraps(function)
    def run(*args, **kwargs):
        warnings.warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    run.__name__ = run.__qualname__ = old
    return run


uniform, normal, constant, eye, dirac, orthogonal, sparse = map(
    _deprecated, (uniform_, normal_, constant_, eye_, dirac_, orthogonal_, sparse_)
)
xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal = map(
    _deprecated, (xavier_uniform_, xavier_normal_, kaiming_uniform_, kaiming_normal_)
)
_no_grad_uniform_, _no_grad_normal_, _no_grad_fill_, _no_grad_zero_ = uniform_, normal_, constant_, zeros_
_no_grad_trunc_normal_, _calculate_correct_fan = trunc_normal_, _fan
