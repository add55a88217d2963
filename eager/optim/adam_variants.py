"""Relatives of Adam: Adamax (largest gradient), NAdam (Nesterov), RAdam (rectified), and SparseAdam's refusal.

All keep an exponential average of the gradient; what they divide it by differs.
"""

from .. import api
from ..tensor import Tensor
from .optimizer import larger, moved, moved_by_quotient, number_of
from .single_tensor import PerParameter, average, average_square, check_betas, check_common, check_range


def _averages(p, second):
    return {"exp_avg": api.zeros_like(p), second: api.zeros_like(p)}


class Adamax(PerParameter):
    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        check_common(lr, eps, weight_decay)
        check_betas(betas)
        super().__init__(
            params,
            dict(
                lr=lr,
                betas=betas,
                eps=eps,
                weight_decay=weight_decay,
                foreach=foreach,
                maximize=maximize,
                differentiable=differentiable,
                capturable=capturable,
            ),
        )

    def _fl_slots(self, p, group):
        return _averages(p, "exp_inf")

    def _fl_update(self, p, grad, state, group, lr, t):
        beta1, beta2 = group["betas"]
        move = average(state["exp_avg"], grad, beta1)
        top = state["exp_inf"].copy_(api.maximum(state["exp_inf"] * beta2, grad.abs().add_(group["eps"])))
        moved_by_quotient(p, move, top, -lr / (1 - beta1**t))


class NAdam(PerParameter):
    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        check_common(lr, eps, weight_decay)
        check_betas(betas)
        check_range(momentum_decay >= 0.0, "momentum_decay value", momentum_decay)
        super().__init__(
            params,
            dict(
                lr=lr,
                betas=betas,
                eps=eps,
                weight_decay=weight_decay,
                momentum_decay=momentum_decay,
                decoupled_weight_decay=decoupled_weight_decay,
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                differentiable=differentiable,
            ),
        )

    def _fl_slots(self, p, group):
        return {"mu_product": api.ones((), dtype=api.float32), **_averages(p, "exp_avg_sq")}

    def _fl_update(self, p, grad, state, group, lr, t):
        (beta1, beta2), decay = group["betas"], group["momentum_decay"]
        now, later = (beta1 * (1.0 - 0.5 * 0.96 ** (step * decay)) for step in (t, t + 1))
        state["mu_product"] *= now
        product = number_of(state["mu_product"])
        move = average(state["exp_avg"], grad, beta1)
        scale = average_square(state["exp_avg_sq"], grad, beta2).div(1 - beta2**t).sqrt().add(group["eps"])
        moved_by_quotient(p, grad, scale, -lr * (1.0 - now) / (1.0 - product))
        moved_by_quotient(p, move, scale, -lr * later / (1.0 - product * later))


class RAdam(PerParameter):
    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        check_common(lr, eps, weight_decay)
        check_betas(betas)
        super().__init__(
            params,
            dict(
                lr=lr,
                betas=betas,
                eps=eps,
                weight_decay=weight_decay,
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                decoupled_weight_decay=decoupled_weight_decay,
                differentiable=differentiable,
            ),
        )

    def _fl_slots(self, p, group):
        return _averages(p, "exp_avg_sq")

    def _fl_update(self, p, grad, state, group, lr, t):
        beta1, beta2 = group["betas"]
        move = average(state["exp_avg"], grad, beta1).div(1 - beta1**t)
        spread = average_square(state["exp_avg_sq"], grad, beta2)
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * t * beta2**t / (1 - beta2**t)
        known = larger(length, 5.0)  # there the variance of the rate is known well enough
        rectified = ((known - 4) * (known - 2) * longest / ((longest - 4) * (longest - 2) * known)) ** 0.5
        if isinstance(t, Tensor) or length > 5.0:
            rectified = move.mul((1 - beta2**t) ** 0.5 * rectified).div_(spread.sqrt().add(group["eps"]))
            move = api.where(length > 5.0, rectified, move) if isinstance(t, Tensor) else rectified
        moved(p, move, -lr)


class SparseAdam(PerParameter):
    """For sparse gradients, which this library does not make: the constructor works, a step with dense gradients is
    refused as PyTorch refuses it."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        check_range(lr > 0.0, "learning rate", lr)
        check_range(eps > 0.0, "epsilon value", eps)
        check_betas(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))

    def _fl_step_one(self, p, group):
        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")

    _fl_make_state = _fl_step_one
