"""Optimizer steps over arrays in place; False where the native kernels do not take the arrays."""

from __future__ import annotations

import math

from .jobs import GRAIN, plain, run


def adam(param, grad, first, second, biggest, step, lr, beta1, beta2, eps, weight_decay, decoupled, maximize) -> bool:
    """One step of Adam, number `step` (counted from 1)."""
    if not param.size or not plain(param, grad, first, second, biggest):
        return False
    rate, spread = lr / (1.0 - beta1 ** step), math.sqrt(1.0 - beta2 ** step)
    factor = 1.0 - lr * weight_decay if decoupled else 1.0
    run("adam_step", param.dtype, param.size, GRAIN, (param, grad, first, second, biggest), (),
        (rate, spread, eps, 1.0 - beta1, beta2, 1.0 - beta2, factor, 0.0 if decoupled else weight_decay,
         -1.0 if maximize else 1.0))
    return True


def sgd(param, grad, buffer, lr, momentum, dampening, weight_decay, nesterov, maximize) -> bool:
    """One step of SGD; `buffer` None without momentum."""
    if not param.size or not plain(param, grad, buffer):
        return False
    run("sgd_step", param.dtype, param.size, GRAIN, (param, grad, buffer), (int(nesterov),),
        (lr, momentum, 1.0 - dampening, weight_decay, -1.0 if maximize else 1.0))
    return True
