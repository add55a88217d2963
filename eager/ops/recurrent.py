"""Recurrent layers: one record per kind for a whole sequence in one direction, and one for its gradient.

In: the gates' inputs over time (the product with the input weights is outside), the first state, the recurrent
weights. Out: the outputs and last states, and hidden what the gradient needs: gates and cells after their activations.
The weights' gradients are one product over all steps. Float32 runs in one native call per sequence.
"""

import numpy as np

from ..op.gradient import Meta
from ..op.meta import Spec
from ..op.op import extern, optional, Out, static, tensor
from ..state import state
from . import native_recurrent, recurrences
from .arithmetic import mul, where
from .creation import full
from .elementary import sigmoid, tanh
from .upcast import back, single
from .products import gemm
from .rearrange import cat, stack
from .recurrences import NUMPY_STEPS, Steps
from .reduce import sum as sum_dims
from .views import permute, reshape, slice_dim, unsqueeze

TENSOR_STEPS = Steps(
    tanh,
    sigmoid,
    where,
    lambda steps: stack(tuple(steps), 0),
    lambda parts: cat(tuple(parts), len(parts[0].shape) - 1),
    lambda sizes, like: full(sizes, 0, like.dtype, like.device),
)


def _hidden(name):
    return Out(name, hidden=True)


def _steps(fn, rounded, *args):
    """A recurrence over arrays. Halves compute in float32; the first `rounded` outputs get back the type."""
    own = next(a.dtype for a in args if isinstance(a, np.ndarray))
    outs = fn(NUMPY_STEPS, *[_wide(a) for a in args])
    outs = [np.zeros(0, np.float32) if o is None else np.array(o) if o.base is not None else o for o in outs]
    return tuple([o.astype(own, copy=False) if k < rounded else o for k, o in enumerate(outs)])


def _wide(a):
    return a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype.itemsize == 2 else a


def _flat(x):
    return reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))


def _over_time(g, x):
    """The sum over all steps and rows of outer products: the gradient of a weight (rows of g, columns of x)."""
    return gemm(permute(_flat(g), (1, 0)), _flat(x))


def _before(out, first, valid, reverse):
    """The state before each step, (T, N, H)."""
    length = out.shape[0]
    first = unsqueeze(first, 0)
    rest = slice_dim(out, 0, 1 if reverse else 0, 1, length - 1)
    if not reverse:
        return cat((first, rest), 0)
    if valid is None:
        return cat((rest, first), 0)
    known = cat((slice_dim(valid, 0, 1, 1, length - 1), full((1, valid.shape[1]), False, valid.dtype, valid.device)), 0)
    return where(unsqueeze(known, 2), cat((rest, first), 0), first)


# -- LSTM


@extern(outputs=("out", "hn", "cn", _hidden("gates"), _hidden("cells")), exclude=("valid",))
def lstm_sequence(x, h0: tensor, c0: tensor, weight: tensor, projection: optional, valid: optional, reverse: static):
    """x (T, N, 4H), h0 (N, P), c0 (N, H), weight (4H, P), projection (P, H) or None (P = H), valid (T, N) or None."""
    return _steps(recurrences.lstm, 3, x, h0, c0, weight, projection, valid, reverse)


@lstm_sequence.native
def _(x, h0, c0, weight, projection, valid, reverse):
    if projection is not None:
        return NotImplemented
    return native_recurrent.forward("lstm", x, h0, c0, weight, None, valid, reverse, 4)


@lstm_sequence.calls
def _(c, outs, x, h0, c0, weight, projection, valid, reverse):
    if projection is not None:
        return None
    return native_recurrent.forward_calls(c, "lstm", x, h0, c0, weight, None, valid, reverse, *outs)


@lstm_sequence.meta
def _(x, h0, c0, weight, projection, valid, reverse):
    over, inner = tuple(x.shape[:2]), x.dtype.compute
    return (
        Spec((*over, h0.shape[1]), x.dtype),
        Spec(tuple(h0.shape), x.dtype),
        Spec(tuple(c0.shape), x.dtype),
        Spec(tuple(x.shape), inner),
        Spec((*over, c0.shape[1]), inner),
    )


@lstm_sequence.grad("*")
def _(g_out, g_hn, g_cn, g_gates, g_cells, x: Meta, h0, c0, weight, projection, valid, reverse, out, gates, cells, needs):
    grads = (g_out, g_hn, g_cn, g_gates, g_cells)
    values = (gates, cells, c0, weight, projection, valid, reverse)
    if state.grad:
        g1, g2, g3, g4, g5, first, by, onto = [None if t is None else single(t) for t in grads + (c0, weight, projection)]
        dx, dh, dc, steps = recurrences.lstm_backward(
            TENSOR_STEPS, g1, g2, g3, g4, g5, gates, cells, first, by, onto, valid, reverse
        )
    else:
        dx, dh, dc, steps = lstm_sequence_backward(*grads, *values)
    found = {"x": dx, "h0": dh, "c0": dc}
    if "weight" in needs:
        found["weight"] = _over_time(back(dx, weight), _before(out, h0, valid, reverse))
    if "projection" in needs:
        output = slice_dim(gates, 2, 3 * c0.shape[1], 1, c0.shape[1])
        found["projection"] = _over_time(back(steps, weight), back(mul(output, tanh(cells)), weight))
    return found


@extern(outputs=("g_x", "g_h0", "g_c0", "g_steps"), exclude=("valid",))
def lstm_sequence_backward(
    g_out: optional,
    g_hn: optional,
    g_cn: optional,
    g_gates: optional,
    g_cells: optional,
    gates,
    cells: tensor,
    c0: tensor,
    weight: tensor,
    projection: optional,
    valid: optional,
    reverse: static,
):
    """Gradients of x, h0, c0 and of each step's state (T, N, P) (empty without a projection)."""
    return _in_type(
        weight,
        _steps(
            recurrences.lstm_backward,
            0,
            g_out,
            g_hn,
            g_cn,
            g_gates,
            g_cells,
            gates,
            cells,
            c0,
            weight,
            projection,
            valid,
            reverse,
        ),
    )


def _in_type(weight, outs):
    return tuple([o.astype(weight.dtype, copy=False) for o in outs])


@lstm_sequence_backward.native
def _(g_out, g_hn, g_cn, g_gates, g_cells, gates, cells, c0, weight, projection, valid, reverse):
    if projection is not None or g_gates is not None or g_cells is not None:
        return NotImplemented
    found = native_recurrent.backward("lstm", g_out, g_hn, g_cn, gates, cells, None, c0, weight, valid, reverse)
    return found if found is NotImplemented else (*found, np.zeros(0, np.float32))


@lstm_sequence_backward.calls
def _(c, outs, g_out, g_hn, g_cn, g_gates, g_cells, gates, cells, c0, weight, projection, valid, reverse):
    if projection is not None or g_gates is not None or g_cells is not None:
        return None
    return native_recurrent.backward_calls(
        c, "lstm", g_out, g_hn, g_cn, gates, cells, None, c0, weight, valid, reverse, *outs[:3]
    )


@lstm_sequence_backward.meta
def _(g_out, g_hn, g_cn, g_gates, g_cells, gates, cells, c0, weight, projection, valid, reverse):
    d, state_size = weight.dtype, weight.shape[1]
    steps = (0,) if projection is None else (*gates.shape[:2], state_size)
    return (Spec(tuple(gates.shape), d), Spec((gates.shape[1], state_size), d), Spec(tuple(c0.shape), d), Spec(steps, d))


# -- GRU


@extern(outputs=("out", "hn", _hidden("gates")), exclude=("valid",))
def gru_sequence(x, h0: tensor, weight: tensor, bias: optional, valid: optional, reverse: static):
    """x (T, N, 3H), h0 (N, H), weight (3H, H), bias (H) of the new gate's recurrent part."""
    return _steps(recurrences.gru, 2, x, h0, weight, bias, valid, reverse)


@gru_sequence.native
def _(x, h0, weight, bias, valid, reverse):
    found = native_recurrent.forward("gru", x, h0, None, weight, bias, valid, reverse, 4)
    return found if found is NotImplemented else (found[0], found[1], found[3])


@gru_sequence.calls
def _(c, outs, x, h0, weight, bias, valid, reverse):
    return native_recurrent.forward_calls(
        c, "gru", x, h0, None, weight, bias, valid, reverse, outs[0], outs[1], None, outs[2], None
    )


@gru_sequence.meta
def _(x, h0, weight, bias, valid, reverse):
    over = tuple(x.shape[:2])
    return (Spec((*over, h0.shape[1]), x.dtype), Spec(tuple(h0.shape), x.dtype), Spec((*over, 4 * h0.shape[1]), x.dtype.compute))


@gru_sequence.grad("*")
def _(g_out, g_hn, g_gates, x: Meta, h0, weight, bias, valid, reverse, out, gates, needs):
    if state.grad:
        g1, g2, g3 = [None if t is None else single(t) for t in (g_out, g_hn, g_gates)]
        dx, dh, products = recurrences.gru_backward(
            TENSOR_STEPS, g1, g2, g3, gates, single(out), single(h0), single(weight), valid, reverse
        )
    else:
        dx, dh, products = gru_sequence_backward(g_out, g_hn, g_gates, gates, out, h0, weight, valid, reverse)
    found = {"x": dx, "h0": dh}
    if "weight" in needs:
        found["weight"] = _over_time(back(products, weight), _before(out, h0, valid, reverse))
    if "bias" in needs:
        size = h0.shape[1]
        found["bias"] = sum_dims(slice_dim(products, 2, 2 * size, 1, size), (0, 1), False)
    return found


@extern(outputs=("g_x", "g_h0", "g_products"), exclude=("valid",))
def gru_sequence_backward(
    g_out: optional,
    g_hn: optional,
    g_gates: optional,
    gates,
    out: tensor,
    h0: tensor,
    weight: tensor,
    valid: optional,
    reverse: static,
):
    """Gradients of x, h0 and of the recurrent products (T, N, 3H)."""
    return _in_type(weight, _steps(recurrences.gru_backward, 0, g_out, g_hn, g_gates, gates, out, h0, weight, valid, reverse))


@gru_sequence_backward.native
def _(g_out, g_hn, g_gates, gates, out, h0, weight, valid, reverse):
    if g_gates is not None:
        return NotImplemented
    return native_recurrent.backward("gru", g_out, g_hn, None, gates, None, out, h0, weight, valid, reverse)


@gru_sequence_backward.calls
def _(c, outs, g_out, g_hn, g_gates, gates, out, h0, weight, valid, reverse):
    if g_gates is not None:
        return None
    return native_recurrent.backward_calls(c, "gru", g_out, g_hn, None, gates, None, out, h0, weight, valid, reverse, *outs)


@gru_sequence_backward.meta
def _(g_out, g_hn, g_gates, gates, out, h0, weight, valid, reverse):
    sizes = (*gates.shape[:2], weight.shape[0])
    return Spec(sizes, weight.dtype), Spec(tuple(h0.shape), weight.dtype), Spec(sizes, weight.dtype)


# -- plain

_PLAIN = {False: "rnn_tanh", True: "rnn_relu"}


@extern(outputs=("out", "hn"), exclude=("valid",))
def rnn_sequence(x, h0: tensor, weight: tensor, valid: optional, relu: static, reverse: static):
    """x (T, N, H), h0 (N, H), weight (H, H); h = tanh, or relu, of x + h @ weight.T."""
    return _steps(recurrences.rnn, 2, x, h0, weight, valid, relu, reverse)


@rnn_sequence.native
def _(x, h0, weight, valid, relu, reverse):
    found = native_recurrent.forward(_PLAIN[relu], x, h0, None, weight, None, valid, reverse, 0)
    return found if found is NotImplemented else found[:2]


@rnn_sequence.calls
def _(c, outs, x, h0, weight, valid, relu, reverse):
    return native_recurrent.forward_calls(
        c, _PLAIN[relu], x, h0, None, weight, None, valid, reverse, outs[0], outs[1], None, None, None
    )


@rnn_sequence.meta
def _(x, h0, weight, valid, relu, reverse):
    return Spec(tuple(x.shape), x.dtype), Spec(tuple(h0.shape), x.dtype)


@rnn_sequence.grad("*")
def _(g_out, g_hn, x: Meta, h0, weight, valid, relu, reverse, out, needs):
    if state.grad:
        g1, g2, states, by = [None if t is None else single(t) for t in (g_out, g_hn, out, weight)]
        dx, dh = recurrences.rnn_backward(TENSOR_STEPS, g1, g2, states, by, valid, relu, reverse)
    else:
        dx, dh = rnn_sequence_backward(g_out, g_hn, out, weight, valid, relu, reverse)
    found = {"x": dx, "h0": dh}
    if "weight" in needs:
        found["weight"] = _over_time(back(dx, weight), _before(out, h0, valid, reverse))
    return found


@extern(outputs=("g_x", "g_h0"), exclude=("valid",))
def rnn_sequence_backward(g_out: optional, g_hn: optional, out, weight: tensor, valid: optional, relu: static, reverse: static):
    return _in_type(weight, _steps(recurrences.rnn_backward, 0, g_out, g_hn, out, weight, valid, relu, reverse))


@rnn_sequence_backward.native
def _(g_out, g_hn, out, weight, valid, relu, reverse):
    found = native_recurrent.backward(_PLAIN[relu], g_out, g_hn, None, None, None, out, None, weight, valid, reverse)
    return found if found is NotImplemented else found[:2]


@rnn_sequence_backward.calls
def _(c, outs, g_out, g_hn, out, weight, valid, relu, reverse):
    return native_recurrent.backward_calls(
        c, _PLAIN[relu], g_out, g_hn, None, None, None, out, None, weight, valid, reverse, outs[0], outs[1], None
    )


@rnn_sequence_backward.meta
def _(g_out, g_hn, out, weight, valid, relu, reverse):
    return Spec(tuple(out.shape), weight.dtype), Spec(tuple(out.shape[1:]), weight.dtype)


# -- samples


def valid_steps(make, length, *counts):
    """(length, N): sequences of these lengths."""
    return make.wrap(np.arange(length)[:, None] < np.array(counts)[None])


@lstm_sequence.samples
def _(make):
    return [
        (make(3, 2, 16), make(2, 4), make(2, 4), make(16, 4), None, None, False),
        (make(4, 2, 12), make(2, 3), make(2, 3), make(12, 3), None, valid_steps(make, 4, 4, 2), True),
        (make(3, 2, 12), make(2, 2), make(2, 3), make(12, 2), make(2, 3), valid_steps(make, 3, 3, 1), False),
    ]


@gru_sequence.samples
def _(make):
    return [
        (make(3, 2, 12), make(2, 4), make(12, 4), make(4), None, False),
        (make(4, 2, 9), make(2, 3), make(9, 3), None, valid_steps(make, 4, 4, 2), True),
    ]


@rnn_sequence.samples
def _(make):
    return [
        (make(3, 2, 4), make(2, 4), make(4, 4), None, False, False),
        (make(4, 2, 3), make(2, 3), make(3, 3), valid_steps(make, 4, 4, 2), True, True),
    ]
