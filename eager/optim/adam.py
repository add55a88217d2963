"""Adam and AdamW: exponential averages of the gradient and of its square.

AdamW decays the weights directly (`p *= 1 - lr * decay`), Adam adds `decay * p` to the gradient.
"""

from .. import api
from ..ops.optimizer import adam_rows
from .differentiable import adam
from .optimizer import Optimizer, as_float
from .single_tensor import check_betas, check_common, check_range, differentiable_step


def _check(lr, betas, eps, weight_decay):
    check_common(lr, eps)
    check_betas(betas)
    check_range(0.0 <= weight_decay, "weight_decay value", weight_decay)


class Adam(Optimizer):
    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay: float = 0,
        amsgrad=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
        fused=None,
        decoupled_weight_decay=False,
    ):
        _check(lr, betas, eps, weight_decay)
        super().__init__(
            params,
            dict(
                lr=lr,
                betas=betas,
                eps=eps,
                weight_decay=weight_decay,
                amsgrad=amsgrad,
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                differentiable=differentiable,
                fused=fused,
                decoupled_weight_decay=decoupled_weight_decay,
            ),
        )

    def _fl_make_state(self, p, group):
        state = self.state[p]
        state["step"] = api.tensor(0.0, dtype=api.float32)
        for name in ("exp_avg", "exp_avg_sq") + (("max_exp_avg_sq",) if group["amsgrad"] else ()):
            state[name] = api.zeros_like(p)

    def _init_group(self, group, params_with_grad, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps):
        """Fills the lists with the group's parameters that have a gradient, and their state, which is made if it is new; True if
        one of them is complex. Optimizers that derive from this one write their own step with it."""
        self._fl_prepare(group)
        for p in group["params"]:
            if p.grad is not None:
                state = self.state[p]
                params_with_grad.append(p)
                grads.append(p.grad)
                exp_avgs.append(state["exp_avg"])
                exp_avg_sqs.append(state["exp_avg_sq"])
                if group["amsgrad"]:
                    max_exp_avg_sqs.append(state["max_exp_avg_sq"])
                state_steps.append(state["step"])
        return any(p.is_complex() for p in params_with_grad)

    @differentiable_step
    def step(self, closure=None):
        loss = self._fl_evaluate(closure)
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            options = (
                as_float(group["lr"]),
                beta1,
                beta2,
                group["eps"],
                group["weight_decay"],
                group["decoupled_weight_decay"],
                group["maximize"],
            )
            self._fl_prepare(group)
            rows = []
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                state = self.state[p]
                if not state:
                    self._fl_make_state(p, group)
                if group["differentiable"]:
                    adam(p, grad, state, group)
                    continue
                biggest = state["max_exp_avg_sq"] if group["amsgrad"] else None
                rows.append((p, grad, state["exp_avg"], state["exp_avg_sq"], biggest, state["step"]))
            adam_rows(rows, *options)
        return loss


class AdamW(Adam):
    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        amsgrad=False,
        *,
        maximize=False,
        foreach=None,
        capturable=False,
        differentiable=False,
        fused=None,
    ):
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
