"""RMSprop: the gradient over the root of a running average of its square; optionally centered, with momentum."""

from .. import api
from .optimizer import moved, moved_by_quotient
from .single_tensor import PerParameter, average, average_square, check_common, check_range


class RMSprop(PerParameter):
    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        check_common(lr, eps, weight_decay)
        check_range(momentum >= 0.0, "momentum value", momentum)
        check_range(alpha >= 0.0, "alpha value", alpha)
        super().__init__(
            params,
            dict(
                lr=lr,
                momentum=momentum,
                alpha=alpha,
                eps=eps,
                centered=centered,
                weight_decay=weight_decay,
                capturable=capturable,
                foreach=foreach,
                maximize=maximize,
                differentiable=differentiable,
            ),
        )

    def _fl_slots(self, p, group):
        slots = {"square_avg": api.zeros_like(p)}
        if group["momentum"] > 0:
            slots["momentum_buffer"] = api.zeros_like(p)
        if group["centered"]:
            slots["grad_avg"] = api.zeros_like(p)
        return slots

    def _fl_update(self, p, grad, state, group, lr, t):
        spread = average_square(state["square_avg"], grad, group["alpha"])
        if group["centered"]:
            middle = average(state["grad_avg"], grad, group["alpha"])
            spread = spread.addcmul(middle, middle, value=-1)
        scale = spread.sqrt().add(group["eps"])
        if group["momentum"] > 0:
            move = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, scale)
            moved(p, move, -lr)
        else:
            moved_by_quotient(p, grad, scale, -lr)
