"""Adagrad and Adadelta: rates per element from the squares of all gradients, or from their running average."""

from .. import api
from .optimizer import moved, moved_by_quotient
from .single_tensor import PerParameter, average_square, check_common, check_range


class Adagrad(PerParameter):
    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        fused=None,
    ):
        check_common(lr, eps, weight_decay)
        check_range(lr_decay >= 0.0, "lr_decay value", lr_decay)
        check_range(initial_accumulator_value >= 0.0, "initial_accumulator_value value", initial_accumulator_value)
        super().__init__(
            params,
            dict(
                lr=lr,
                lr_decay=lr_decay,
                eps=eps,
                weight_decay=weight_decay,
                initial_accumulator_value=initial_accumulator_value,
                foreach=foreach,
                maximize=maximize,
                differentiable=differentiable,
                fused=fused,
            ),
        )
        for group in self.param_groups:
            for p in group["params"]:
                self._fl_state_of(p, group)

    def share_memory(self):
        """Puts the state where other processes see it."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def _fl_slots(self, p, group):
        start = group["initial_accumulator_value"]
        return {"sum": api.full_like(p, complex(start, start) if p.is_complex() else start)}

    def _fl_update(self, p, grad, state, group, lr, t):
        total = state["sum"].addcmul_(grad, grad, value=1)
        moved_by_quotient(p, grad, total.sqrt().add(group["eps"]), -lr / (1 + (t - 1) * group["lr_decay"]))


class Adadelta(PerParameter):
    def __init__(
        self,
        params,
        lr=1.0,
        rho=0.9,
        eps=1e-6,
        weight_decay=0,
        foreach=None,
        *,
        capturable=False,
        maximize=False,
        differentiable=False,
    ):
        check_common(lr, eps, weight_decay)
        check_range(0.0 <= rho <= 1.0, "rho value", rho)
        super().__init__(
            params,
            dict(
                lr=lr,
                rho=rho,
                eps=eps,
                weight_decay=weight_decay,
                maximize=maximize,
                capturable=capturable,
                foreach=foreach,
                differentiable=differentiable,
            ),
        )

    def _fl_slots(self, p, group):
        return {"square_avg": api.zeros_like(p), "acc_delta": api.zeros_like(p)}

    def _fl_update(self, p, grad, state, group, lr, t):
        rho, eps = group["rho"], group["eps"]
        spread = average_square(state["square_avg"], grad, rho).add(eps).sqrt()
        delta = state["acc_delta"].add(eps).sqrt().div(spread).mul(grad)
        average_square(state["acc_delta"], delta, rho)
        moved(p, delta, -lr)
