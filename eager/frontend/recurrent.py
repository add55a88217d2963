"""lstm, gru, rnn_tanh, rnn_relu over whole sequences, and the cells of one step: the functions behind the modules."""

from ..tensor import Tensor
from . import public
from .recurrent_layers import cell as _cell, run as _run


def _public(mode, name):
    def function(input, *args, **kw):
        """(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or packed:
        (data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)."""
        sizes = None
        if (
            args
            and isinstance(args[0], Tensor)
            and isinstance(args[1], (Tensor, tuple, list))
            and (isinstance(args[1], Tensor) or isinstance(args[2], (tuple, list)))
        ):
            sizes, args = args[0].tolist(), args[1:]
        hx, *rest = args
        out, states = _run(mode, input, (hx,) if isinstance(hx, Tensor) else tuple(hx), *rest, batch_sizes=sizes, **kw)
        return (out, *states)

    function.__name__ = function.__qualname__ = name
    return function


lstm, gru = _public("LSTM", "lstm"), _public("GRU", "gru")
rnn_tanh, rnn_relu = _public("RNN_TANH", "rnn_tanh"), _public("RNN_RELU", "rnn_relu")


@public.function
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return _cell("LSTM", input, hx, w_ih, w_hh, b_ih, b_hh)


@public.function
def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return _cell("GRU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@public.function
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return _cell("RNN_TANH", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@public.function
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return _cell("RNN_RELU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


public.each(globals(), function="gru lstm rnn_relu rnn_tanh")
