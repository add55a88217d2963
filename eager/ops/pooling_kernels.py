"""Native kernels of pooling, for row-major arrays and images with the channels last; `NotImplemented` elsewhere.

A window is (kernel, stride, padding, dilation, ...), a number per pooled dim; sizes are those of the result.
"""

import math
from types import NoneType

import numpy as np

from ...runtime import kernel_calls, kernels
from .image_layout import array_is_last, empty_image, ordered


def _layout(x, sizes, pooled):
    """`pooled`: how many dims. Without a batch there is no order with the channels last."""
    if x.dtype not in kernels.TYPES or not x.size or 0 in sizes or not x.flags.aligned:
        return None
    return "planes" if x.flags.c_contiguous else "last" if x.ndim == pooled + 2 and array_is_last(x) else None


def _three(values, fill):
    return (fill,) * (3 - len(values)) + tuple(values)


def _numbers(channels, inputs, outputs, kernel, stride, padding, dilation=(), counted=False):
    n = len(kernel)
    return (
        channels,
        *_three(inputs[-n:], 1),
        *_three(outputs[-n:], 1),
        *_three(kernel, 1),
        *_three(stride, 1),
        *_three(padding, 0),
        *_three(dilation, 1),
        int(counted),
    )


def _run(name, x, big, outs, arrays, window, divisor, counted, n, inner):
    """Run a kernel: a unit is a plane, or what its comment says where the channels are last. `big`: the pooled sizes."""
    order = "last" if not x.flags.c_contiguous else "planes"
    channels = x.shape[1] if order == "last" else 1
    numbers = _numbers(channels, big, outs, *window, counted=counted)
    positions = math.prod(outs[-n:]) * math.prod(window[0])
    if order == "planes":
        units = math.prod(x.shape[: x.ndim - n])
        kernels.run(f"{name}_planes", x.dtype, units, kernels.grain_of(positions), arrays, numbers, (float(divisor),))
    else:
        units, work = inner(x.shape[0], outs, positions * channels)
        kernels.run(f"{name}_last", x.dtype, units, kernels.grain_of(work), arrays, numbers, (float(divisor),))


def _output_rows(batch, outs, work):
    rows = outs[-2] * (outs[-3] if len(outs) == 5 else 1)
    return batch * rows, work // rows


def _channel_blocks(channels):
    def units(batch, outs, work):
        blocks = -(-channels // 64)
        return batch * blocks, work // blocks

    return units


def _images(batch, outs, work):
    return batch, work


def _made(x, sizes):
    return kernels.empty(tuple(sizes), x.dtype) if x.flags.c_contiguous else empty_image(x, sizes)


def _tidy(g):
    """Gradients also come expanded."""
    return g if array_is_last(g) else np.ascontiguousarray(g)


def max_windows(x, sizes, window, with_place):
    kernel, stride, padding, dilation, _ = window
    if _layout(x, sizes, len(kernel)) is None:
        return NotImplemented
    out = _made(x, sizes)
    place = empty_image(x, sizes, np.int64) if with_place else None
    _run("max", x, x.shape, sizes, (out, place, x), (kernel, stride, padding, dilation), 0, False, len(kernel), _output_rows)
    return (out, place) if with_place else out


def max_windows_backward(g, place, sizes, window):
    g = np.ascontiguousarray(g) if place.flags.c_contiguous else ordered(g, place)
    order = _layout(g, sizes, len(window[0]))
    same = place.flags.c_contiguous if order == "planes" else order and array_is_last(place)
    if not same:
        return NotImplemented
    out = _made(g, sizes)
    if order == "last":
        out.fill(0)
    _run("max_back", g, sizes, g.shape, (out, place, g), window, 0, False, len(window[0]), _channel_blocks(g.shape[1]))
    return out


def sum_windows(x, sizes, window, divisor, count_include_pad):
    if _layout(x, sizes, len(window[0])) is None:
        return NotImplemented
    out = _made(x, sizes)
    _run("avg", x, x.shape, sizes, (out, x), window, divisor, count_include_pad, len(window[0]), _output_rows)
    return out


def sum_windows_backward(g, sizes, window, divisor, count_include_pad):
    g = _tidy(g)
    order = _layout(g, sizes, len(window[0]))
    if order is None or g.dtype not in kernels.WHOLE:
        return NotImplemented
    out = _made(g, sizes)
    if order == "last":
        out.fill(0)
    _run("avg_back", g, sizes, g.shape, (out, g), window, divisor, count_include_pad, len(window[0]), _images)
    return out


# -- for compiled code: row-major planes, over regions and with the outputs given


def plane_calls(c, name, out, x, big, outs, arrays, window, types, divisor=0, counted=False):
    """`big`, `outs`: the pooled dims of both sides; `out` and `x` decide whether the kernel is eligible."""
    known = x.dtype.name in types and type(divisor) in (int, float, NoneType)
    if not known or c.is_empty(x) or c.is_empty(out) or not kernel_calls.is_rows(x):
        return None
    n, units, work = len(window[0]), 1, 1
    for size in x.shape[: len(x.shape) - n]:
        units = units * size
    for size in (*outs[-n:], *window[0]):
        work = work * size
    numbers = _numbers(1, big, outs, *window, counted=counted)
    return (
        kernel_calls.RuntimeCall(
            f"{name}_planes", kernel_calls.TYPES[x.dtype.name], units, work, arrays, numbers, (float(divisor or 0),)
        ),
    )


def max_calls(c, out, place, x, window):
    return plane_calls(c, "max", out, x, x.shape, out.shape, (out, place, x), window[:4], kernel_calls.TYPES)


def max_backward_calls(c, out, g, place, sizes, window):
    if not kernel_calls.is_rows(place):
        return None
    return plane_calls(c, "max_back", out, g, sizes, g.shape, (out, place, g), window, _WHOLE)


_WHOLE = ("float32", "float64")


def sum_calls(c, out, x, window, divisor, counted):
    return plane_calls(c, "avg", out, x, x.shape, out.shape, (out, x), window, kernel_calls.TYPES, divisor, counted)


def sum_backward_calls(c, out, g, sizes, window, divisor, counted):
    return plane_calls(c, "avg_back", out, g, sizes, g.shape, (out, g), window, _WHOLE, divisor, counted)
