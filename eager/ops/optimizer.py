"""Optimizer steps: each updates a parameter and its state in place, in one pass over cache-sized pieces.

The decompositions are the pure form (new values of what they mutate); the kernels write. `step` is a tensor of one
element that counts, in float32 as PyTorch keeps it; bias corrections are computed in float64.
"""

import math

import numpy as np

from ...runtime import optimizer_step
from .. import _call, dtypes
from ..op.op import composite, scalar, static, tensor
from ..state import state
from .arithmetic import add, cast, div, maximum, mul, neg, square, sub
from .elementary import power, sqrt

PIECE = 1 << 14


def pieces(*arrays):
    """Aligned flat pieces of contiguous arrays of one size, or the arrays themselves where one is not contiguous."""
    if not all(a.flags.c_contiguous for a in arrays):
        yield arrays
        return
    flat = [a.reshape(-1) for a in arrays]
    for k in range(0, flat[0].size, PIECE):
        yield [a[k : k + PIECE] for a in flat]


# -- SGD


@composite(mutates=("param",), outputs=())
def sgd_step(param, grad, lr: scalar, weight_decay: scalar, maximize: static):
    grad = _direction(param, grad, weight_decay, maximize)
    return (sub(param, mul(grad, lr)),)


@sgd_step.calls
def _(c, outs, param, grad, lr, weight_decay, maximize):
    options, reals = (0, int(maximize)), (lr, 0.0, 1.0, weight_decay)
    return optimizer_step.sgd_calls(c, (outs[0], None), (param, None), grad, options, reals)


def _direction(param, grad, weight_decay, maximize):
    grad = neg(grad) if maximize else grad
    return add(grad, mul(param, weight_decay)) if weight_decay else grad


def _numpy_direction(p, g, weight_decay, maximize, room):
    """The gradient to follow, in `room` (scratch of g's size)."""
    if weight_decay:
        np.multiply(p, weight_decay, out=room)
        return np.subtract(room, g, out=room) if maximize else np.add(room, g, out=room)
    return np.negative(g, out=room) if maximize else g


def _numpy_sgd(param, grad, lr, weight_decay, maximize):
    if optimizer_step.sgd([(param, grad, None)], lr, 0.0, 0.0, weight_decay, False, maximize):
        return
    for p, g in pieces(param, grad):
        room = np.empty_like(p)
        p -= np.multiply(_numpy_direction(p, g, weight_decay, maximize, room), lr, out=room)


sgd_step.kernels["inplace"] = _numpy_sgd


@composite(mutates=("param", "buffer"), outputs=())
def sgd_momentum_step(
    param, grad, buffer, lr: scalar, momentum: scalar, dampening: scalar, weight_decay: scalar, nesterov: static, maximize: static
):
    grad = _direction(param, grad, weight_decay, maximize)
    buffer = add(mul(buffer, momentum), mul(grad, 1.0 - dampening))
    step = add(grad, mul(buffer, momentum)) if nesterov else buffer
    return sub(param, mul(step, lr)), buffer


@sgd_momentum_step.calls
def _(c, outs, param, grad, buffer, lr, momentum, dampening, weight_decay, nesterov, maximize):
    options, reals = (int(nesterov), int(maximize)), (lr, momentum, 1.0 - dampening, weight_decay)
    return optimizer_step.sgd_calls(c, outs, (param, buffer), grad, options, reals)


def _numpy_sgd_momentum(param, grad, buffer, lr, momentum, dampening, weight_decay, nesterov, maximize):
    if optimizer_step.sgd([(param, grad, buffer)], lr, momentum, dampening, weight_decay, nesterov, maximize):
        return
    for p, g, b in pieces(param, grad, buffer):
        room, more = np.empty_like(p), np.empty_like(p)
        g = _numpy_direction(p, g, weight_decay, maximize, room)
        b *= momentum
        b += np.multiply(g, 1.0 - dampening, out=more) if dampening else g
        step = np.add(g, np.multiply(b, momentum, out=more), out=more) if nesterov else b
        p -= np.multiply(step, lr, out=more)


sgd_momentum_step.kernels["inplace"] = _numpy_sgd_momentum


def sgd_rows(rows, lr, momentum, dampening, weight_decay, nesterov, maximize):
    """Rows (param, grad, buffer or None), in one parallel run where they are plain tensors."""
    reals = lr, momentum, 1.0 - dampening, weight_decay
    if state.quick is not None and _call.steps(optimizer_step.SGD, 0, (0, 2), (1,), -1, rows, (nesterov, maximize), reals):
        return
    for param, grad, buffer in rows:
        if buffer is None:
            sgd_step(param, grad, lr, weight_decay, maximize)
        else:
            sgd_momentum_step(param, grad, buffer, lr, momentum, dampening, weight_decay, nesterov, maximize)


# -- Adam


def _corrections(step, beta1, beta2):
    """(1 - beta1**t, sqrt(1 - beta2**t)) as 0-dim float64 tensors."""
    t = cast(step, dtypes.float64)
    return sub(1.0, power(beta1, t)), sqrt(sub(1.0, power(beta2, t)))


def _moments(grad, exp_avg, exp_avg_sq, beta1, beta2):
    exp_avg = add(exp_avg, mul(sub(grad, exp_avg), 1.0 - beta1))
    return exp_avg, add(mul(exp_avg_sq, beta2), mul(square(grad), 1.0 - beta2))


def _decayed(param, grad, lr, weight_decay, decoupled, maximize):
    grad = neg(grad) if maximize else grad
    if weight_decay and decoupled:
        param = mul(param, 1.0 - lr * weight_decay)
    elif weight_decay:
        grad = add(grad, mul(param, weight_decay))
    return param, grad


def _moved(param, exp_avg, spread, first, second, lr, eps):
    """param - lr / first * exp_avg / (sqrt(spread) / second + eps); the corrections are 0-dim and do not widen the
    result."""
    denominator = add(div(sqrt(spread), second), eps)
    return sub(param, mul(div(exp_avg, denominator), div(lr, first)))


@composite(mutates=("param", "exp_avg", "exp_avg_sq", "step"), outputs=())
def adam_step(
    param,
    grad,
    exp_avg,
    exp_avg_sq,
    step: tensor,
    lr: scalar,
    beta1: scalar,
    beta2: scalar,
    eps: scalar,
    weight_decay: scalar,
    decoupled: static,
    maximize: static,
):
    step = add(step, 1)
    param, grad = _decayed(param, grad, lr, weight_decay, decoupled, maximize)
    exp_avg, exp_avg_sq = _moments(grad, exp_avg, exp_avg_sq, beta1, beta2)
    first, second = _corrections(step, beta1, beta2)
    return _moved(param, exp_avg, exp_avg_sq, first, second, lr, eps), exp_avg, exp_avg_sq, step


@composite(mutates=("param", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"), outputs=())
def amsgrad_step(
    param,
    grad,
    exp_avg,
    exp_avg_sq,
    max_exp_avg_sq,
    step: tensor,
    lr: scalar,
    beta1: scalar,
    beta2: scalar,
    eps: scalar,
    weight_decay: scalar,
    decoupled: static,
    maximize: static,
):
    step = add(step, 1)
    param, grad = _decayed(param, grad, lr, weight_decay, decoupled, maximize)
    exp_avg, exp_avg_sq = _moments(grad, exp_avg, exp_avg_sq, beta1, beta2)
    max_exp_avg_sq = maximum(max_exp_avg_sq, exp_avg_sq)
    first, second = _corrections(step, beta1, beta2)
    return _moved(param, exp_avg, max_exp_avg_sq, first, second, lr, eps), exp_avg, exp_avg_sq, max_exp_avg_sq, step


@adam_step.calls
def _(c, outs, param, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay, decoupled, maximize):
    options, reals = (int(decoupled), int(maximize)), (lr, beta1, beta2, eps, weight_decay)
    return optimizer_step.adam_calls(
        c, (*outs[:3], None), (param, exp_avg, exp_avg_sq, None), grad, step, outs[3], options, reals
    )


@amsgrad_step.calls
def _(c, outs, param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay, decoupled, maximize):
    options, reals = (int(decoupled), int(maximize)), (lr, beta1, beta2, eps, weight_decay)
    olds = param, exp_avg, exp_avg_sq, max_exp_avg_sq
    return optimizer_step.adam_calls(c, outs[:4], olds, grad, step, outs[4], options, reals)


def _numpy_adam(param, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay, decoupled, maximize, biggest=None):
    row = (param, grad, exp_avg, exp_avg_sq, biggest, step)
    if optimizer_step.adam([row], lr, beta1, beta2, eps, weight_decay, decoupled, maximize):
        return
    step += 1
    t = float(step)
    rate, second = lr / (1.0 - beta1**t), math.sqrt(1.0 - beta2**t)
    together = (param, grad, exp_avg, exp_avg_sq) + (() if biggest is None else (biggest,))
    for p, g, m, v, *b in pieces(*together):
        room, more = np.empty_like(p), np.empty_like(p)
        if weight_decay and decoupled:
            p *= 1.0 - lr * weight_decay
        g = _numpy_direction(p, g, 0 if decoupled else weight_decay, maximize, room)
        np.subtract(g, m, out=more)
        more *= 1.0 - beta1
        m += more
        v *= beta2
        np.multiply(g, g, out=more)
        more *= 1.0 - beta2
        v += more
        spread = np.maximum(b[0], v, out=b[0]) if b else v
        np.sqrt(spread, out=room)
        room /= second
        room += eps
        np.divide(m, room, out=room)
        room *= rate
        p -= room


def adam_rows(rows, lr, beta1, beta2, eps, weight_decay, decoupled, maximize):
    """Rows (param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq or None, step), in one parallel run where they are plain."""
    reals = lr, beta1, beta2, eps, weight_decay
    if state.quick is not None and _call.steps(
        optimizer_step.ADAM, optimizer_step.COUNT, (0, 2, 3, 4), (1,), 5, rows, (decoupled, maximize), reals
    ):
        return
    options = *reals, decoupled, maximize
    for param, grad, exp_avg, exp_avg_sq, biggest, step in rows:
        if biggest is None:
            adam_step(param, grad, exp_avg, exp_avg_sq, step, *options)
        else:
            amsgrad_step(param, grad, exp_avg, exp_avg_sq, biggest, step, *options)


def _numpy_amsgrad(param, grad, exp_avg, exp_avg_sq, biggest, step, lr, beta1, beta2, eps, decay, decoupled, maximize):
    _numpy_adam(param, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, decay, decoupled, maximize, biggest)


adam_step.kernels["inplace"] = _numpy_adam
amsgrad_step.kernels["inplace"] = _numpy_amsgrad
for _op in (sgd_step, sgd_momentum_step, adam_step, amsgrad_step):
    _op.meta(lambda *args, op=_op: tuple(a for p, a in zip(op.params, args) if p.name in op.mutates))
