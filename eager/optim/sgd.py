"""SGD with momentum, dampening, Nesterov momentum and L2 weight decay."""

from ..ops.optimizer import sgd_momentum_step, sgd_step
from .differentiable import sgd
from .optimizer import Optimizer, as_float
from .per_parameter import differentiable_step


class SGD(Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False,
                 foreach=None, differentiable=False, fused=None):
        if as_float(lr) < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize, foreach=foreach,
                                      differentiable=differentiable, fused=fused))

    @differentiable_step
    def step(self, closure=None):
        loss = self._evaluate(closure)
        for group in self.param_groups:
            lr, momentum = as_float(group["lr"]), group["momentum"]
            decay, maximize = group["weight_decay"], group["maximize"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                if group["differentiable"]:
                    sgd(p, p.grad, self.state[p], group)
                    continue
                if momentum == 0:
                    sgd_step(p, p.grad, lr, decay, maximize)
                    continue
                state = self.state[p]
                first = state.get("momentum_buffer") is None
                if first:     # PyTorch starts the buffer from the first gradient, undamped
                    state["momentum_buffer"] = p.detach().clone().zero_()
                sgd_momentum_step(p, p.grad, state["momentum_buffer"], lr, momentum,
                                  0.0 if first else group["dampening"], decay, group["nesterov"], maximize)
        return loss
