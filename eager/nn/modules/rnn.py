"""Recurrent layers and cells: RNN, LSTM, GRU over padded or packed sequences, and one step of each.

Weights are called weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0 (projection), with the layer's
number and `_reverse` for the second direction. States are (layers * directions, N, H).
"""

import math
import numbers
import warnings
from typing import Any

from ...api import empty, zeros
from ...frontend import recurrent_layers
from ...state import state as running
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def apply_permutation(tensor, permutation, dim=1):
    return tensor.index_select(dim, permutation)


def _permuted(states, permutation):
    return states if permutation is None else tuple(apply_permutation(s, permutation) for s in states)


def _check_options(input_size, hidden_size, num_layers, bias, batch_first, dropout: Any, proj_size):
    share: Any = dropout
    if not isinstance(dropout, numbers.Number) or not 0 <= share <= 1 or isinstance(dropout, bool):
        raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
    if share > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
            f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    for name, value, kind in (
        ("bias", bias, bool),
        ("batch_first", batch_first, bool),
        ("input_size", input_size, int),
        ("hidden_size", hidden_size, int),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNNBase(Module):
    """What RNN, LSTM and GRU share: the weights, the layers, the forms of input and state."""

    __constants__ = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]

    def __init__(
        self,
        mode,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        proj_size=0,
        device=None,
        dtype=None,
    ):
        super().__init__()
        _check_options(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._all_weights = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: 1 + bool(bidirectional)]:
                self._fl_add_weights(layer, suffix, {"device": device, "dtype": dtype})
        self.reset_parameters()

    def _fl_add_weights(self, layer, suffix, kind):
        directions, state = 2 if self.bidirectional else 1, self.proj_size or self.hidden_size
        gates = _GATES[self.mode] * self.hidden_size
        sizes = {"weight_ih": (gates, self.input_size if layer == 0 else state * directions), "weight_hh": (gates, state)}
        if self.bias:
            sizes.update(bias_ih=(gates,), bias_hh=(gates,))
        if self.proj_size:
            sizes["weight_hr"] = (self.proj_size, self.hidden_size)
        names = []
        for name, size in sizes.items():
            names.append(f"{name}_l{layer}{suffix}")
            setattr(self, names[-1], Parameter(empty(size, **kind)))
        self._all_weights.append(names)

    def reset_parameters(self):
        """All uniform in +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self):
        """Nothing: the weights need not lie in one block."""

    def _update_flat_weights(self):
        """Nothing: `_flat_weights` looks them up."""

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self):
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self):
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    # -- checks

    def check_input(self, input, batch_sizes):
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}")
        weight = self._flat_weights[0]
        if input.dtype != weight.dtype and running.autocast is None:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert "
                f"input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )

    def get_expected_hidden_size(self, input, batch_sizes):
        batch = batch_sizes[0] if batch_sizes is not None else input.size(0 if self.batch_first else 1)
        return self._fl_state_count(), batch, self.proj_size or self.hidden_size

    def get_expected_cell_size(self, input, batch_sizes):
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def _fl_state_count(self):
        return self.num_layers * (2 if self.bidirectional else 1)

    def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(tuple(expected_hidden_size), list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes):
        """An error unless the input and the state (a pair for LSTM) have the sizes that the layer wants."""
        self.check_input(input, batch_sizes)
        for state, (size, text) in zip(self._fl_states(hidden), self._fl_expected(input, batch_sizes)):
            self.check_hidden_size(state, size, text)

    def _fl_expected(self, input, batch_sizes):
        """Per state: its sizes and the text when they are others."""
        return [(self.get_expected_hidden_size(input, batch_sizes), "Expected hidden size {}, got {}")]

    def _fl_check_rank(self, hx, batched):
        if hx[0].dim() != (3 if batched else 2):
            raise RuntimeError(
                f"For {'batched 3-D' if batched else 'unbatched 2-D'} input, hx should also be "
                f"{3 if batched else 2}-D but got {hx[0].dim()}-D tensor"
            )

    # -- forward

    def _fl_states(self, hx):
        return (hx,)

    def forward(self, input, hx=None):
        """`input`: (T, N, F), (N, T, F) with batch_first, (T, F), or a PackedSequence. -> (outputs, last state)."""
        states = None if hx is None else self._fl_states(hx)
        if isinstance(input, PackedSequence):
            return self._fl_forward_packed(input, states)
        name = self.mode[:3] if self.mode.startswith("RNN") else self.mode
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{name}: Expected input to be 2D or 3D, got {input.dim()}D {'tensor ' if name == 'RNN' else ''}instead"
            )
        batched = input.dim() == 3
        if states is not None:
            self._fl_check_rank(states, batched)
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
            states = None if states is None else tuple(s.unsqueeze(1) for s in states)
        out, states = self._fl_run(input, states, None)
        if not batched:
            out, states = out.squeeze(0 if self.batch_first else 1), tuple(s.squeeze(1) for s in states)
        return out, self._fl_given(states)

    def _fl_forward_packed(self, packed, states):
        data, sizes, order, back = packed
        states = None if states is None else _permuted(states, order)
        out, states = self._fl_run(data, states, sizes.tolist())
        return PackedSequence(out, sizes, order, back), self._fl_given(_permuted(states, back))

    def _fl_run(self, input, states, batch_sizes):
        self.check_input(input, batch_sizes)
        expected = self._fl_expected(input, batch_sizes)
        if states is None:
            states = tuple(zeros(size, dtype=input.dtype, device=input.device) for size, _ in expected)
        for state, (size, text) in zip(states, expected):
            self.check_hidden_size(state, size, text)
        return recurrent_layers.run(
            self.mode,
            input,
            states,
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            self.batch_first and batch_sizes is None,
            batch_sizes,
        )

    def _fl_given(self, states):
        return states[0]

    def permute_hidden(self, hx, permutation):
        return hx if permutation is None else apply_permutation(hx, permutation)

    def extra_repr(self):
        shown = f"{self.input_size}, {self.hidden_size}"
        defaults = dict(proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False)
        return shown + "".join(
            f", {name}={getattr(self, name)}" for name, value in defaults.items() if getattr(self, name) != value
        )


def _without_projection(kw):
    if "proj_size" in kw:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """h = tanh (or relu) of W_ih x + b_ih + W_hh h + b_hh."""

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        nonlinearity="tanh",
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        device=None,
        dtype=None,
        **kw,
    ):
        _without_projection(kw)
        if kw:
            raise TypeError(f"RNN.__init__() got an unexpected keyword argument {next(iter(kw))!r}")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            "RNN_" + nonlinearity.upper(),
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """r, z = sigmoid; n = tanh(W_in x + b_in + r * (W_hn h + b_hn)); h = (1 - z) * n + z * h."""

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        device=None,
        dtype=None,
        **kw,
    ):
        _without_projection(kw)
        if kw:
            raise TypeError(f"GRU.__init__() got an unexpected keyword argument {next(iter(kw))!r}")
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)


class LSTM(RNNBase):
    """c = f * c + i * g, h = o * tanh(c), with a projection W_hr h if `proj_size` is given; the state is (h, c)."""

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
        proj_size=0,
        device=None,
        dtype=None,
    ):
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        )

    def _fl_states(self, hx):
        return tuple(hx)

    def _fl_given(self, states):
        return states

    def _fl_expected(self, input, batch_sizes):
        return [
            (self.get_expected_hidden_size(input, batch_sizes), "Expected hidden[0] size {}, got {}"),
            (self.get_expected_cell_size(input, batch_sizes), "Expected hidden[1] size {}, got {}"),
        ]

    def _fl_check_rank(self, hx, batched):
        rank = 3 if batched else 2
        if any(s.dim() != rank for s in hx):
            raise RuntimeError(
                f"For {'batched 3-D' if batched else 'unbatched 2-D'} input, hx and cx should also be "
                f"{rank}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )

    def permute_hidden(self, hx, permutation):
        return _permuted(hx, permutation)


# -- cells


class RNNCellBase(Module):
    """Weights weight_ih, weight_hh, bias_ih, bias_hh of one step."""

    __constants__ = ["input_size", "hidden_size", "bias"]
    mode = "RNN_TANH"

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.weight_ih = Parameter(empty((num_chunks * hidden_size, input_size), **kind))
        self.weight_hh = Parameter(empty((num_chunks * hidden_size, hidden_size), **kind))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(num_chunks * hidden_size, **kind)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self):
        shown = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return shown + ("" if nonlinearity == "tanh" else f", nonlinearity={nonlinearity}")

    def _fl_checked_mode(self):
        return self.mode

    def _fl_step(self, input, states, count, text):
        """New states for `input` (N, F) or (F)."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for k, s in enumerate(states or ()):
            if s.dim() not in (1, 2):
                raise ValueError(f"{name}: Expected {text.format(k)} to be 1D or 2D, got {s.dim()}D instead")
        lone = input.dim() == 1
        input = input.unsqueeze(0) if lone else input
        if states is None:
            states = (zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device),) * count
        elif lone:
            states = tuple(s.unsqueeze(0) for s in states)
        states = recurrent_layers.cell(
            self._fl_checked_mode(), input, states, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
        return tuple(s.squeeze(0) for s in states) if lone else states


class RNNCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def _fl_checked_mode(self):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return "RNN_" + self.nonlinearity.upper()

    def forward(self, input, hx=None):
        return self._fl_step(input, None if hx is None else (hx,), 1, "hidden")[0]


class GRUCell(RNNCellBase):
    mode = "GRU"

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        return self._fl_step(input, None if hx is None else (hx,), 1, "hidden")[0]


class LSTMCell(RNNCellBase):
    """Takes and returns (h, c)."""

    mode = "LSTM"

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        return self._fl_step(input, None if hx is None else tuple(hx), 2, "hx[{}]")
