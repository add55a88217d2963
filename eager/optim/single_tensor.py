"""What the optimizers that treat each parameter by itself have in common: the loop of `step`, checks, the state.

A subclass gives `_slots(p, group)`, the tensors of a new parameter's state besides `step`, and `_update(p, grad, state,
group, lr, t)`, which changes `p` in place; `lr` and `t` are numbers, or tensors of one element while a program is captured.
Accepted for every group: foreach, maximize, capturable, differentiable.
"""

import functools

from .. import api
from ..autograd import set_grad_enabled
from .optimizer import Optimizer, as_float, number_of


def check_range(ok, text, value):
    if not ok:
        raise ValueError(f"Invalid {text}: {value}")


def check_betas(betas):
    for i, beta in enumerate(betas):
        check_range(0.0 <= beta < 1.0, f"beta parameter at index {i}", beta)


def check_common(lr, eps=0.0, weight_decay=0.0):
    check_range(as_float(lr) >= 0.0, "learning rate", lr)
    check_range(eps >= 0.0, "epsilon value", eps)
    check_range(weight_decay >= 0.0, "weight_decay value", weight_decay)


def differentiable_step(step):
    """Steps record nothing, unless the optimizer was made with differentiable=True."""

    @functools.wraps(step)
    def run(self, *args, **kw):
        with set_grad_enabled(bool(self.defaults.get("differentiable")) and api.is_grad_enabled()):
            return step(self, *args, **kw)

    return run


class PerParameter(Optimizer):
    decoupled = False  # weight decay goes into the gradient

    def _fl_slots(self, p, group):
        return {}

    def _fl_update(self, p, grad, state, group, lr, t):
        raise RuntimeError(f"{type(self).__name__} does not define _update()")

    def _fl_make_state(self, p, group):
        self.state[p]["step"] = api.tensor(0.0, dtype=api.float32)
        self.state[p].update(self._fl_slots(p, group))

    def _fl_state_of(self, p, group):
        if not self.state[p]:
            self._fl_make_state(p, group)
        return self.state[p]

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    @differentiable_step
    def step(self, closure=None):
        loss = self._fl_evaluate(closure)
        for group in self.param_groups:
            self._fl_prepare(group)
            for p in group["params"]:
                if p.grad is not None:
                    self._fl_step_one(p, group)
        return loss

    def _fl_step_one(self, p, group):
        state = self._fl_state_of(p, group)
        state["step"] += 1
        grad = -p.grad if group.get("maximize") else p.grad
        decay, lr = group.get("weight_decay", 0), number_of(group["lr"])
        if decay and group.get("decoupled_weight_decay", self.decoupled):
            p.mul_(1 - lr * decay)
        elif decay:
            grad = grad.add(p, alpha=decay)
        if p.is_complex():
            pairs = {k: api.view_as_real(v) if getattr(v, "is_complex", bool)() else v for k, v in state.items()}
            self._fl_update(api.view_as_real(p), api.view_as_real(grad), pairs, group, lr, number_of(state["step"]))
            state.update((k, v) for k, v in pairs.items() if not state.get(k, v).is_complex())
        else:
            self._fl_update(p, grad, state, group, lr, number_of(state["step"]))


def average(slot, value, rate):
    """slot := rate * slot + (1 - rate) * value"""
    return slot.mul_(rate).add_(value, alpha=1 - rate)


def average_square(slot, value, rate):
    return slot.mul_(rate).addcmul_(value, value, value=1 - rate)
