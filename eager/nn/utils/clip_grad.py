"""Gradients of all parameters cut to a joint norm, or each element to a range."""

from ... import api
from ...autograd import no_grad
from ...tensor import Tensor


def _grads(parameters):
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in parameters if p.grad is not None]


def _total_norm(grads, norm_type):
    if not grads:
        return api.tensor(0.0)
    norms = [api.norm(g.detach(), norm_type) for g in grads]
    return norms[0] if len(norms) == 1 else api.norm(api.stack(norms), norm_type)


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors together, as if they were one vector."""
    total = _total_norm([tensors] if isinstance(tensors, Tensor) else list(tensors), float(norm_type))
    if error_if_nonfinite and not bool(api.isfinite(total)):
        raise RuntimeError(f"The total norm of order {float(norm_type)} for gradients from `parameters` is non-finite, "
                           "so it cannot be clipped. To disable this error and scale the gradients by the non-finite "
                           "norm anyway, set `error_if_nonfinite=False`")
    return total


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scale all gradients so that their joint norm is at most max_norm; returns the norm before."""
    grads = _grads(parameters)
    with no_grad():
        total = get_total_norm(grads, norm_type, error_if_nonfinite)
        scale = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(scale)
    return total


def clip_grad_value_(parameters, clip_value, foreach=None):
    with no_grad():
        for grad in _grads(parameters):
            grad.clamp_(-float(clip_value), float(clip_value))
