"""Normalisation per channel under PyTorch's names: batch, instance, group and local response norm."""

from ..dispatch import small, type_name
from ..ops import batch_norm as records
from ..sizes import numel


def _check_vectors(channels, **named):
    for name, t in named.items():
        if t is not None and numel(t.shape) != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {numel(t.shape)}")


def _check_count(shape):
    count = shape[0] * numel(shape[2:])
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {shape}")
    return count


def _check_type(input, name):
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {type_name(input.dtype)!r}')


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Normalises each channel of (N, C, ...). In training the running statistics move by `momentum` towards the batch's
    mean and unbiased variance."""
    if training:
        return batch_norm_with_moments(input, running_mean, running_var, weight, bias, momentum, eps)[0]
    if running_mean is None or running_var is None:
        name = "running_mean" if running_mean is None else "running_var"
        raise RuntimeError(f"{name} must be defined in evaluation mode")
    _check(input, running_mean, running_var, weight, bias)
    return records.batch_norm_eval(input, running_mean, running_var, weight, bias, eps)


def _check(input, running_mean, running_var, weight, bias):
    _check_vectors(
        input.shape[1] if input.ndim > 1 else 0, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    _check_type(input, "batch_norm")


def batch_norm_with_moments(input, running_mean, running_var, weight, bias, momentum, eps):
    """(values, mean, variance) in training; of nothing there are no moments (None)."""
    count = _check_count(input.shape)
    _check(input, running_mean, running_var, weight, bias)
    if input.numel() == 0:
        return input * 1 if weight is None else input * weight.reshape((1, -1) + (1,) * (input.ndim - 2)), None, None
    out, mean, var = records.batch_norm(input, weight, bias, eps)
    _update(running_mean, running_var, mean, var, momentum, count)
    return out, mean, var


def _update(running_mean, running_var, mean, var, momentum, count):
    correction = count / (count - 1)
    if running_mean is not None and running_var is not None:
        records.update_running(running_mean, running_var, mean, var, momentum, correction)
    elif running_mean is not None:
        running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
    elif running_var is not None:
        running_var.mul_(1 - momentum).add_(var, alpha=momentum * correction)


def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    """Batch norm with the moments of each sample by itself."""
    count = numel(input.shape[2:])
    if use_input_stats and count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    channels = input.shape[1]
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    _check_vectors(channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _check_type(input, "batch_norm")
    if input.numel() == 0:
        return input * 1
    out, mean, var = records.group_norm(input, channels, weight, bias, eps)
    if running_mean is not None or running_var is not None:
        _update(running_mean, running_var, mean.mean(0), var.mean(0), momentum, count)
    return out


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalises `num_groups` groups of channels of each sample of (N, C, ...)."""
    shape = input.shape
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if shape[1] % num_groups != 0:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(shape)} and num_groups={num_groups}"
        )
    if (shape[0] * shape[1] // num_groups) * numel(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(shape)}")
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and (t.ndim != 1 or t.shape[0] != shape[1]):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but "
                f"got {name} of shape {list(t.shape)} and input of shape {list(shape)}"
            )
    _check_type(input, "group_norm")
    if input.numel() == 0:
        return input * 1
    return records.group_norm(input, num_groups, weight, bias, eps)[0]


batch_norm, group_norm = small("batch_norm", batch_norm), small("group_norm", group_norm)
