"""SGD with momentum, dampening, Nesterov momentum and L2 weight decay."""

from ..ops.optimizer import sgd_rows
from .differentiable import sgd
from .optimizer import Optimizer, as_float
from .single_tensor import check_range, differentiable_step


class SGD(Optimizer):
    def __init__(
        self,
        params,
        lr=1e-3,
        momentum=0,
        dampening=0,
        weight_decay=0,
        nesterov=False,
        *,
        maximize=False,
        foreach=None,
        differentiable=False,
        fused=None,
    ):
        check_range(not as_float(lr) < 0.0, "learning rate", lr)
        check_range(not momentum < 0.0, "momentum value", momentum)
        check_range(not weight_decay < 0.0, "weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            dict(
                lr=lr,
                momentum=momentum,
                dampening=dampening,
                weight_decay=weight_decay,
                nesterov=nesterov,
                maximize=maximize,
                foreach=foreach,
                differentiable=differentiable,
                fused=fused,
            ),
        )

    def _fl_make_state(self, p, group):
        self.state[p]["momentum_buffer"] = p.detach().clone().zero_()

    @differentiable_step
    def step(self, closure=None):
        loss = self._fl_evaluate(closure)
        for group in self.param_groups:
            momentum, options = group["momentum"], (group["weight_decay"], group["nesterov"], group["maximize"])
            if momentum != 0 and not group["dampening"] and not group["differentiable"]:
                self._fl_prepare(group)
            first, rows = [], []
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if group["differentiable"]:
                    sgd(p, grad, self.state[p], group)
                elif momentum == 0:
                    rows.append((p, grad, None))
                else:
                    state = self.state[p]
                    started = state.get("momentum_buffer") is not None
                    if not started:  # PyTorch starts the buffer from the first gradient, undamped
                        self._fl_make_state(p, group)
                    (rows if started else first).append((p, grad, state["momentum_buffer"]))
            lr = as_float(group["lr"])
            if first:
                sgd_rows(first, lr, momentum, 0.0, *options)
            sgd_rows(rows, lr, momentum, group["dampening"], *options)
        return loss
