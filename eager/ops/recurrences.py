"""The recurrences of LSTM, GRU and plain RNN layers, forward and backward, step by step.

Written once against a small vocabulary (`Steps`): over numpy arrays they are the records' kernels, over tensors they
are what a gradient is made of when it will be differentiated again. `x` holds the gates' inputs (T, N, G*H), the
product with the input weights and the biases included. `valid` (T, N), or None, is False where a sequence has no
such step: the state passes through; output and gates are zero there.
"""

from typing import NamedTuple
from collections.abc import Callable

import numpy as np


class Steps(NamedTuple):
    tanh: Callable
    sigmoid: Callable
    where: Callable  # (condition, a, b)
    stack: Callable  # along a new first dim
    cat: Callable  # along the last dim
    zeros: Callable  # (sizes, like)


def _sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


NUMPY_STEPS = Steps(
    np.tanh,
    _sigmoid,
    np.where,
    np.stack,
    lambda parts: np.concatenate(parts, -1),
    lambda sizes, like: np.zeros(sizes, like.dtype),
)


def times(length, reverse):
    """The steps in the order in which they are taken."""
    return range(length - 1, -1, -1) if reverse else range(length)


def parts(x, count):
    width = x.shape[-1] // count
    return [x[..., k * width : (k + 1) * width] for k in range(count)]


def column(valid, t):
    return valid[t][:, None]


def in_order(xp, steps, reverse):
    """A tensor over time from what was computed in the order of `times`."""
    return xp.stack(steps[::-1] if reverse else steps)


def previous(xp, values, first, valid, t, reverse):
    """The state before step t, from the states (or outputs) after each step and the first one."""
    at = t + 1 if reverse else t - 1
    if not 0 <= at < len(values):
        return first
    return values[at] if valid is None or not reverse else xp.where(column(valid, at), values[at], first)


def total(carried, over_time, t):
    return carried if over_time is None else carried + over_time[t]


# -- LSTM: gates are input, forget, cell, output; a projection makes the state of o * tanh(c)


def lstm(xp, x, h, c, weight, projection, valid, reverse):
    """-> outputs (T, N, P), last h, last c, gates after their activations (T, N, 4H), cells (T, N, H)."""
    outs, gates, cells = [], [], []
    for t in times(len(x), reverse):
        i, f, g, o = parts(x[t] + h @ weight.T, 4)
        i, f, g, o = xp.sigmoid(i), xp.sigmoid(f), xp.tanh(g), xp.sigmoid(o)
        gate, cell = xp.cat([i, f, g, o]), f * c + i * g
        out = state = o * xp.tanh(cell) if projection is None else (o * xp.tanh(cell)) @ projection.T
        if valid is not None:
            m = column(valid, t)
            out, state, cell = xp.where(m, out, 0.0), xp.where(m, state, h), xp.where(m, cell, c)
            gate = xp.where(m, gate, 0.0)
        h, c = state, cell
        outs.append(out), gates.append(gate), cells.append(c)
    return in_order(xp, outs, reverse), h, c, in_order(xp, gates, reverse), in_order(xp, cells, reverse)


def lstm_backward(xp, g_out, g_h, g_c, g_gates, g_cells, gates, cells, c0, weight, projection, valid, reverse):
    """-> gradients of x, h0, c0, and of each step's state (T, N, P) if there is a projection."""
    states, inputs = [], []
    dh = xp.zeros((gates.shape[1], weight.shape[1]), gates) if g_h is None else g_h
    dc = xp.zeros(tuple(c0.shape), gates) if g_c is None else g_c
    for t in times(len(gates), not reverse):
        i, f, g, o = parts(gates[t], 4)
        bent = xp.tanh(cells[t])
        step, dc = total(dh, g_out, t), total(dc, g_cells, t)
        inner = step if projection is None else step @ projection
        cell = dc + inner * o * (1.0 - bent * bent)
        slopes = [cell * g, cell * previous(xp, cells, c0, None, t, reverse), cell * i, inner * bent]
        if g_gates is not None:
            slopes = [a + b for a, b in zip(slopes, parts(g_gates[t], 4))]
        di, df, dg, do = slopes
        d = xp.cat([di * i * (1.0 - i), df * f * (1.0 - f), dg * (1.0 - g * g), do * o * (1.0 - o)])
        before, cell_before = d @ weight, cell * f
        if valid is not None:
            m = column(valid, t)
            d, step = xp.where(m, d, 0.0), xp.where(m, step, 0.0)
            before, cell_before = xp.where(m, before, dh), xp.where(m, cell_before, dc)
        dh, dc = before, cell_before
        inputs.append(d), states.append(step)
    states = None if projection is None else in_order(xp, states, not reverse)
    return in_order(xp, inputs, not reverse), dh, dc, states


# -- GRU: gates are reset, update, new; `bias` is that of the new gate's recurrent part, which the reset gate scales


def gru(xp, x, h, weight, bias, valid, reverse):
    """-> outputs, last h, gates (T, N, 4H): reset, update, new, and the recurrent part of new."""
    outs, gates = [], []
    for t in times(len(x), reverse):
        (ar, az, an), (br, bz, q) = parts(x[t], 3), parts(h @ weight.T, 3)
        q = q if bias is None else q + bias
        r, z = xp.sigmoid(ar + br), xp.sigmoid(az + bz)
        n = xp.tanh(an + r * q)
        gate, out = xp.cat([r, z, n, q]), (1.0 - z) * n + z * h
        state = out
        if valid is not None:
            m = column(valid, t)
            gate, out, state = xp.where(m, gate, 0.0), xp.where(m, out, 0.0), xp.where(m, state, h)
        h = state
        outs.append(out), gates.append(gate)
    return in_order(xp, outs, reverse), h, in_order(xp, gates, reverse)


def gru_backward(xp, g_out, g_h, g_gates, gates, out, h0, weight, valid, reverse):
    """-> gradients of x, of h0, and of the recurrent products (T, N, 3H)."""
    inputs, products = [], []
    dh = xp.zeros(tuple(h0.shape), gates) if g_h is None else g_h
    for t in times(len(gates), not reverse):
        r, z, n, q = parts(gates[t], 4)
        step = total(dh, g_out, t)
        dz, dn = step * (previous(xp, out, h0, valid, t, reverse) - n), step * (1.0 - z)
        dr, dq = 0.0, 0.0
        if g_gates is not None:
            dr, add_z, add_n, dq = parts(g_gates[t], 4)
            dz, dn = dz + add_z, dn + add_n
        dn = dn * (1.0 - n * n)
        dr, dz, dq = (dr + dn * q) * r * (1.0 - r), dz * z * (1.0 - z), dq + dn * r
        product, d = xp.cat([dr, dz, dq]), xp.cat([dr, dz, dn])
        before = step * z + product @ weight
        if valid is not None:
            m = column(valid, t)
            d, product, before = xp.where(m, d, 0.0), xp.where(m, product, 0.0), xp.where(m, before, dh)
        dh = before
        inputs.append(d), products.append(product)
    return in_order(xp, inputs, not reverse), dh, in_order(xp, products, not reverse)


# -- plain: h = tanh or relu of the sum


def rnn(xp, x, h, weight, valid, relu, reverse):
    """-> outputs, last h."""
    outs = []
    for t in times(len(x), reverse):
        a = x[t] + h @ weight.T
        out = state = xp.where(a > 0, a, 0.0) if relu else xp.tanh(a)
        if valid is not None:
            m = column(valid, t)
            out, state = xp.where(m, out, 0.0), xp.where(m, state, h)
        h = state
        outs.append(out)
    return in_order(xp, outs, reverse), h


def rnn_backward(xp, g_out, g_h, out, weight, valid, relu, reverse):
    """-> gradients of x and h0."""
    inputs = []
    dh = xp.zeros((out.shape[1], weight.shape[1]), out) if g_h is None else g_h
    for t in times(len(out), not reverse):
        step = total(dh, g_out, t)
        d = xp.where(out[t] > 0, step, 0.0) if relu else step * (1.0 - out[t] * out[t])
        before = d @ weight
        if valid is not None:
            m = column(valid, t)
            d, before = xp.where(m, d, 0.0), xp.where(m, before, dh)
        dh = before
        inputs.append(d)
    return in_order(xp, inputs, not reverse), dh
