"""Layers of recurrent sequences, padded (T, N, F) or packed, and the cells of one step.

In: inputs, states (layers * directions, N, H), and the weights flat in PyTorch's order: per layer and direction input
weight, recurrent weight, their biases, projection. A layer's input product is one for all steps; the steps themselves
are one record per direction (ops/recurrent.py).
"""

from typing import NamedTuple

import numpy as np

from .. import dtypes
from ..ops import recurrent as r
from ..ops.activations import dropout as drop
from ..ops.arithmetic import add, cast
from ..ops.creation import full
from ..ops.indexing import index_copy, index_select
from ..ops.products import linear
from ..ops.rearrange import cat, stack
from ..ops.views import reshape, select, slice_dim, squeeze, transpose, unsqueeze
from ..tensor import Tensor


class Weights(NamedTuple):
    """Of one layer in one direction."""

    input: Tensor
    recurrent: Tensor
    input_bias: Tensor | None
    recurrent_bias: Tensor | None
    projection: Tensor | None


def _weights(params, has_biases, projected):
    """The flat list in groups."""
    size = 2 + 2 * bool(has_biases) + bool(projected)
    groups = [tuple(params[k : k + size]) for k in range(0, len(params), size)]
    return [
        Weights(g[0], g[1], g[2] if has_biases else None, g[3] if has_biases else None, g[-1] if projected else None)
        for g in groups
    ]


# -- where the steps of the sequences lie


class Padded:
    """(T, N, F): every sequence has every step."""

    valid = None

    def over_time(self, x):
        return x

    def gathered(self, x):
        return x


class Packed:
    """(total, F), step by step; `batch_sizes` tells how many sequences have each step. The steps are computed on
    (T, N, F), with a mask."""

    def __init__(self, batch_sizes, device):
        self.length, self.batch = len(batch_sizes), batch_sizes[0]
        has = np.arange(self.batch)[None] < np.asarray(batch_sizes)[:, None]
        self.places = _tensor(np.flatnonzero(has), dtypes.int64).to(device)
        self.valid = _tensor(has, dtypes.bool).to(device)

    def over_time(self, x):
        """The other steps are zero."""
        flat = full((self.length * self.batch, x.shape[1]), 0, x.dtype, x.device)
        return reshape(index_copy(flat, 0, self.places, x), (self.length, self.batch, x.shape[1]))

    def gathered(self, x):
        return index_select(reshape(x, (self.length * self.batch, x.shape[2])), 0, self.places)


def _tensor(array, dtype):
    return Tensor._fl_from_array(np.ascontiguousarray(array), dtype)


# -- one layer in one direction: (inputs, states, weights, layout, reverse) -> (outputs over time, states)


def _sum(a, b):
    return a if b is None else b if a is None else add(a, b)


def _lstm(x, states, w, layout, reverse):
    gates = layout.over_time(linear(x, w.input, _sum(w.input_bias, w.recurrent_bias)))
    out, hn, cn = r.lstm_sequence(gates, *states, w.recurrent, w.projection, layout.valid, reverse)[:3]
    return out, (hn, cn)


def _gru(x, states, w, layout, reverse):
    """The reset gate scales the recurrent part of the new gate with its bias, which so cannot join the input's."""
    size, bias, own = w.recurrent.shape[1], w.input_bias, None
    if w.recurrent_bias is not None:
        joint, own = (slice_dim(w.recurrent_bias, 0, at, 1, n) for at, n in ((0, 2 * size), (2 * size, size)))
        joint = cat((joint, full((size,), 0, joint.dtype, joint.device)), 0)
        bias = add(bias, joint)
    parts = layout.over_time(linear(x, w.input, bias)), w.recurrent, own
    if parts[0].dtype is not states[0].dtype:  # autocast: products in its type, the steps in the state's
        parts = [part if part is None else cast(part, states[0].dtype) for part in parts]
    gates, recurrent, own = parts
    out, hn = r.gru_sequence(gates, *states, recurrent, own, layout.valid, reverse)[:2]
    return out, (hn,)


def _plain(relu):
    def layer(x, states, w, layout, reverse):
        gates = layout.over_time(linear(x, w.input, _sum(w.input_bias, w.recurrent_bias)))
        out, hn = r.rnn_sequence(gates, *states, w.recurrent, layout.valid, relu, reverse)
        return out, (hn,)

    return layer


LAYERS = {"LSTM": _lstm, "GRU": _gru, "RNN_TANH": _plain(False), "RNN_RELU": _plain(True)}


def run_layers(layer, x, states, weights, layout, dropout, train, bidirectional):
    """All layers; `states` is a tuple of tensors (layers * directions, N, size). -> (outputs, last states)."""
    directions, finals = 2 if bidirectional else 1, []
    for at in range(0, len(weights), directions):
        if at and dropout and train:
            x = drop(x, float(dropout))[0]
        outs = []
        for k in range(at, at + directions):
            out, last = layer(x, tuple(select(s, 0, k) for s in states), weights[k], layout, k > at)
            outs.append(out)
            finals.append(last)
        x = layout.gathered(outs[0] if not bidirectional else cat(tuple(outs), 2))
    return x, tuple(stack(parts, 0) for parts in zip(*finals))


def run(mode, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False, batch_sizes=None):
    """`hx`: a tuple of states. `batch_sizes` (a list) makes `input` packed. -> (outputs, states)."""
    if batch_sizes is None and not input.shape[1 if batch_first else 0]:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    projected = mode == "LSTM" and hx[0].shape[2] != hx[1].shape[2]
    weights = _weights(params, has_biases, projected)
    if len(weights) != num_layers * (2 if bidirectional else 1):
        raise RuntimeError(f"{mode.lower()}: {len(params)} weights do not make {num_layers} layers")
    x = transpose(input, 0, 1) if batch_first else input
    layout = Padded() if batch_sizes is None else Packed(batch_sizes, input.device)
    x, states = run_layers(LAYERS[mode], x, tuple(hx), weights, layout, dropout, train, bidirectional)
    return (transpose(x, 0, 1) if batch_first else x), states


def _check_cell(input, states, w_ih):
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(f"input has inconsistent input_size: got {input.shape[1]} expected {w_ih.shape[1]}")
    for k, h in enumerate(states):
        if h.shape[0] != input.shape[0]:
            raise RuntimeError(f"Input batch size {input.shape[0]} doesn't match hidden{k} batch size {h.shape[0]}")


def cell(mode, input, states, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step: a sequence of length one. -> the new states."""
    _check_cell(input, states, w_ih)
    if w_hh.shape[1] != states[0].shape[1]:
        raise RuntimeError(f"hidden0 has inconsistent hidden_size: got {states[0].shape[1]}, expected {w_hh.shape[1]}")
    weights = Weights(w_ih, w_hh, b_ih, b_hh, None)
    out, last = LAYERS[mode](unsqueeze(input, 0), tuple(states), weights, Padded(), False)
    return (squeeze(out, (0,)), *last[1:])
