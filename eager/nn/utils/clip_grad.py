"""Gradients of all parameters scaled to a joint norm, or each element cut to a range."""

import types
import warnings

from ... import api
from ...autograd import no_grad
from ...tensor import Tensor


def _grads(parameters):
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    elif isinstance(parameters, types.GeneratorType):
        parameters = list(parameters)
        if not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=4)
    return [p.grad for p in parameters if p.grad is not None]


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors together, as if they were one vector."""
    tensors, norm_type = [tensors] if isinstance(tensors, Tensor) else list(tensors), float(norm_type)
    if not tensors:
        return api.tensor(0.0)
    norms = [api.norm(t.detach(), norm_type) for t in tensors]
    total = norms[0] if len(norms) == 1 else api.norm(api.stack(norms), norm_type)
    if error_if_nonfinite and not bool(api.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the non-finite "
            "norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def _scale(grads, max_norm, total):
    factor = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(factor if grad.dtype is factor.dtype else factor.to(grad.dtype))


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scale all gradients by max_norm / total_norm where that is below 1."""
    with no_grad():
        _scale(_grads(parameters), max_norm, total_norm)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scale all gradients so that their joint norm is at most max_norm; returns the norm before."""
    grads = _grads(parameters)
    with no_grad():
        total = get_total_norm(grads, norm_type, error_if_nonfinite)
        _scale(grads, max_norm, total)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Cut every element of every gradient to [-clip_value, clip_value]."""
    with no_grad():
        for grad in _grads(parameters):
            grad.clamp_(-float(clip_value), float(clip_value))
