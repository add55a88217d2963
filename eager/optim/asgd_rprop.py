"""ASGD (averaged weights) and Rprop (steps that grow and shrink with the sign of the gradient)."""

from .. import api
from ..tensor import Tensor
from .optimizer import assigned, larger, moved, number_of
from .single_tensor import PerParameter, check_common


class ASGD(PerParameter):
    def __init__(
        self,
        params,
        lr=1e-2,
        lambd=1e-4,
        alpha=0.75,
        t0=1e6,
        weight_decay=0,
        foreach=None,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        check_common(lr, 0.0, weight_decay)
        super().__init__(
            params,
            dict(
                lr=lr,
                lambd=lambd,
                alpha=alpha,
                t0=t0,
                weight_decay=weight_decay,
                foreach=foreach,
                maximize=maximize,
                differentiable=differentiable,
                capturable=capturable,
            ),
        )

    def _fl_slots(self, p, group):
        return {
            "eta": api.tensor(float(group["lr"]), dtype=api.float32),
            "mu": api.ones((), dtype=api.float32),
            "ax": api.zeros_like(p),
        }

    def _fl_update(self, p, grad, state, group, lr, t):
        lambd, eta, mu = group["lambd"], number_of(state["eta"]), number_of(state["mu"])
        p.mul_(1 - lambd * eta)
        moved(p, grad, -eta)
        if isinstance(mu, Tensor):
            state["ax"].copy_(api.where(mu == 1, p, state["ax"] + (p - state["ax"]) * mu))
        elif mu == 1:
            state["ax"].copy_(p)
        else:
            state["ax"].add_(p.sub(state["ax"]).mul_(mu))
        assigned(state["eta"], lr / (1 + lambd * lr * t) ** group["alpha"])
        assigned(state["mu"], 1 / larger(t - group["t0"], 1))


class Rprop(PerParameter):
    def __init__(
        self,
        params,
        lr=1e-2,
        etas=(0.5, 1.2),
        step_sizes=(1e-6, 50),
        *,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        check_common(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(
            params,
            dict(
                lr=lr,
                etas=etas,
                step_sizes=step_sizes,
                foreach=foreach,
                maximize=maximize,
                differentiable=differentiable,
                capturable=capturable,
            ),
        )

    def _fl_slots(self, p, group):
        lr = float(group["lr"])
        return {"prev": api.zeros_like(p), "step_size": api.full_like(p, complex(lr, lr) if p.is_complex() else lr)}

    def _fl_update(self, p, grad, state, group, lr, t):
        (shrink, grow), (low, high) = group["etas"], group["step_sizes"]
        agree = grad * state["prev"]
        factor = api.where(agree > 0, grow, api.where(agree < 0, shrink, 1.0)).to(grad.dtype)
        state["step_size"].mul_(factor).clamp_(low, high)
        grad = api.where(agree < 0, 0.0, grad)
        p.sub_(grad.sign() * state["step_size"])
        state["prev"].copy_(grad)
