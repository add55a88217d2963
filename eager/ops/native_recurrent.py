"""The native kernels of recurrent sequences: float32, one call for all steps (runtime/csrc/recurrent.h). `*_calls` are the
same for compiled code, over regions and with the outputs given."""

from typing import Any

import numpy as np

from ...runtime import kernel_calls, kernels

_FEW = 16  # rows over all steps below which packing the weights costs more than it gains
_FLOAT = np.dtype(np.float32)


def _eligible(x, *others):
    """All float32; `x` has units next to each other."""
    return (
        x.dtype == _FLOAT
        and x.shape[0] * x.shape[1] >= _FEW
        and x.size
        and x.strides[2] == 4
        and all(a is None or a.dtype == _FLOAT for a in others)
    )


def _dense(*arrays) -> list[Any]:
    return [None if a is None else np.ascontiguousarray(a) for a in arrays]


def forward(name, x, h0, c0, weight, bias, valid, reverse, kept):
    """-> out, hn, cn (or None), gates with `kept` per unit, cells; NotImplemented for others."""
    if not _eligible(x, h0, c0, weight, bias):
        return NotImplemented
    (length, rows), size = x.shape[:2], h0.shape[1]
    h0, c0, weight, bias, valid = _dense(h0, c0, weight, bias, valid)
    out, hn = kernels.empty((length, rows, size), _FLOAT), np.empty((rows, size), _FLOAT)
    cn = None if c0 is None else np.empty((rows, size), _FLOAT)
    cells = None if c0 is None else kernels.empty((length, rows, size), _FLOAT)
    gates = kernels.empty((length, rows, kept * size), _FLOAT) if kept else None
    numbers = length, rows, size, int(reverse), x.strides[0] // 4, x.strides[1] // 4
    kernels.run(name + "_forward", _FLOAT, 1, 1, (x, h0, c0, weight, bias, valid, out, hn, cn, gates, cells), numbers)
    return out, hn, cn, gates, cells


def backward(name, g_out, g_hn, g_cn, gates, cells, out, first, weight, valid, reverse):
    """-> gradients of x, h0, and of c0 (LSTM) or the recurrent products (GRU)."""
    over = gates if gates is not None else out
    if not _eligible(over, g_out, g_hn, g_cn, cells, out, first, weight):
        return NotImplemented
    (length, rows), size = over.shape[:2], weight.shape[1]
    if g_out is not None and g_out.strides[2] != 4:
        g_out = np.ascontiguousarray(g_out)
    strides = (0, 0) if g_out is None else (g_out.strides[0] // 4, g_out.strides[1] // 4)
    g_hn, g_cn, gates, cells, out, first, weight, valid = _dense(g_hn, g_cn, gates, cells, out, first, weight, valid)
    g_x, g_h = kernels.empty((length, rows, weight.shape[0]), _FLOAT), np.empty((rows, size), _FLOAT)
    sizes = {"lstm": (rows, size), "gru": g_x.shape}.get(name)
    third = None if sizes is None else kernels.empty(sizes, _FLOAT)
    kernels.run(
        name + "_backward",
        _FLOAT,
        1,
        1,
        (g_out, g_hn, g_cn, gates, cells, out, first, weight, valid, g_x, g_h, third),
        (length, rows, size, int(reverse), *strides),
    )
    return g_x, g_h, third


def _single(c, x, *others):
    return not c.is_empty(x) and all(a is None or a.dtype.name == "float32" for a in (x, *others))


def _flops(numbers, weight):
    """Of one product with the recurrent weights a step."""
    length, rows = numbers[:2]
    return 2 * length * rows * weight.shape[0] * weight.shape[1]


def forward_calls(c, name, x: Any, h0: Any, c0, weight: Any, bias, valid, reverse, out, hn, cn, gates, cells):
    if not _single(c, x, h0, c0, weight, bias):
        return None
    x = kernel_calls.along_last(c, x)
    h0, c0, weight, bias, valid = kernel_calls.rows_of(c, h0, c0, weight, bias, valid)
    numbers = *x.shape[:2], h0.shape[1], reverse, *x.strides[:2]
    arrays = x, h0, c0, weight, bias, valid, out, hn, cn, gates, cells
    same = {"lstm": ((9, 0),), "gru": ()}.get(name, ((6, 0),))  # gates, or states, where their inputs were
    flops = _flops(numbers, weight)
    return (kernel_calls.RuntimeCall(name + "_forward", 0, 1, 1, arrays, numbers, flops=flops, same=same, alone=True),)


def backward_calls(c, name, g_out, g_hn, g_cn, gates, cells, out, first, weight: Any, valid, reverse, g_x, g_h, third):
    if not _single(c, g_x, g_out, g_hn, g_cn, gates, cells, out, first, weight):
        return None
    g_out = kernel_calls.along_last(c, g_out)
    strides = (0, 0) if g_out is None else g_out.strides[:2]
    g_hn, g_cn, gates, cells, out, first, weight, valid = kernel_calls.rows_of(
        c, g_hn, g_cn, gates, cells, out, first, weight, valid
    )
    numbers = *g_x.shape[:2], weight.shape[1], reverse, *strides
    arrays = g_out, g_hn, g_cn, gates, cells, out, first, weight, valid, g_x, g_h, third
    same = ((9, 3),) if name == "lstm" else ()  # gradients where the gates were
    flops = _flops(numbers, weight)
    return (kernel_calls.RuntimeCall(name + "_backward", 0, 1, 1, arrays, numbers, flops=flops, same=same, alone=True),)
