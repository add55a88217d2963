"""Convolutions of one to three dims, plain and transposed: one record, whose gradients are the same record and the
gradient of the weight.

In: x (N, C, *sizes) and a weight (O, C/groups, *kernel), transposed: (C, O/groups, *kernel); numbers per spatial dim.
The gradient of a plain convolution is a transposed one and the other way around, so derivatives of any order are made
of two records. A result is channels-last if x or the weight is.
"""

from typing import Any

from ...runtime import kernel_calls
from ..op.gradient import Meta
from ..op.meta import Spec
from ..op.op import extern, optional, size, static
from . import conv_kernels as kernels
from .reduce import sum as sum_dims
from .views import slice_dim


def window_sizes(sizes, kernel, stride, padding, dilation):
    """How many windows fit per dim."""
    return tuple([(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation)])


def unwindowed_sizes(sizes, kernel, stride, padding, dilation, output_padding):
    """The sizes that a transposed convolution makes of `sizes` windows."""
    return tuple(
        [
            (n - 1) * s - 2 * p + d * (k - 1) + extra + 1
            for n, k, s, p, d, extra in zip(sizes, kernel, stride, padding, dilation, output_padding)
        ]
    )


def output_sizes(x, weight, stride, padding, dilation, transposed, output_padding, groups):
    kernel, sizes = tuple(weight.shape[2:]), tuple(x.shape[2:])
    if transposed:
        made = unwindowed_sizes(sizes, kernel, stride, padding, dilation, output_padding)
        return (x.shape[0], weight.shape[1] * groups, *made)
    return (x.shape[0], weight.shape[0], *window_sizes(sizes, kernel, stride, padding, dilation))


def last_strides(sizes):
    """Channels-last strides of (N, C, H, W)."""
    n, c, h, w = sizes
    return h * w * c, 1, w * c, c


@extern(template="conv")
def convolution(
    x,
    weight,
    bias: optional,
    stride: size,
    padding: size,
    dilation: size,
    transposed: static,
    output_padding: size,
    groups: static,
):
    """Cross-correlation of x with the weight, or (transposed) its adjoint."""
    return kernels.convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@convolution.meta
def _(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    sizes = output_sizes(x, weight, stride, padding, dilation, transposed, output_padding, groups)
    last = kernels.wants_last(x, weight)
    return Spec(sizes, x.dtype, last_strides(sizes) if last else None)


@convolution.native
def _(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    return kernels.native_convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@convolution.calls
def _(c, outs, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    if x.dtype.name not in kernel_calls.TYPES:
        return None
    form = kernel_calls.TRANSPOSED if transposed else kernel_calls.PLAIN
    tiles = not transposed and not any(c.is_empty(r) for r in (x, weight, outs[0]))
    bias = None if bias is None else c.rows(bias)
    return (kernel_calls.ConvCall(form, c.rows(x), c.rows(weight), bias, outs[0], stride, padding, dilation, groups, tiles),)


@convolution.grad("x")
def _(g, x: Meta, weight, stride, padding, dilation, transposed, groups):
    if transposed:
        return _forward(g, weight, x.shape[2:], stride, padding, dilation, groups)
    return _adjoint(g, weight, x.shape[2:], stride, padding, dilation, groups)


@convolution.grad("weight")
def _(g, x, weight: Meta, stride, padding, dilation, transposed, groups):
    x, g = (g, x) if transposed else (x, g)
    return convolution_weight(x, g, tuple(weight.shape[2:]), stride, padding, dilation, groups)


@convolution.grad("bias")
def _(g):
    return sum_dims(g, (0, *range(2, len(g.shape))), False)


def _forward(x, weight, windows, stride, padding, dilation, groups):
    """The convolution of x, at the first `windows` positions per dim."""
    out = convolution(x, weight, None, stride, padding, dilation, False, (0,) * len(stride), groups)
    for d, n in enumerate(windows, 2):
        if out.shape[d] is not n and out.shape[d] != n:
            out = slice_dim(out, d, 0, 1, n)
    return out


def _adjoint(g, weight, sizes, stride, padding, dilation, groups):
    """The transposed convolution of g onto `sizes`."""
    least = unwindowed_sizes(g.shape[2:], weight.shape[2:], stride, padding, dilation, (0,) * len(stride))
    extra = tuple([n - m for n, m in zip(sizes, least)])
    return convolution(g, weight, None, stride, padding, dilation, True, extra, groups)


@extern
def convolution_weight(x, y, kernel: size, stride: size, padding: size, dilation: size, groups: static):
    """The gradient of a weight: x's windows times y (N, O, *windows), summed over batch and windows."""
    return kernels.convolution_weight(x, y, kernel, stride, padding, dilation, groups)


@convolution_weight.meta
def _(x, y, kernel, stride, padding, dilation, groups):
    return (y.shape[1], x.shape[1] // groups, *kernel)


@convolution_weight.native
def _(x, y, kernel, stride, padding, dilation, groups):
    return kernels.native_convolution_weight(x, y, kernel, stride, padding, dilation, groups)


@convolution_weight.calls
def _(c, outs, x, y, kernel, stride, padding, dilation, groups):
    if x.dtype.name not in kernel_calls.TYPES:
        return None
    return (kernel_calls.ConvCall(kernel_calls.WEIGHT, c.rows(x), outs[0], None, c.rows(y), stride, padding, dilation, groups),)


@convolution_weight.grad("x")
def _(g, x: Meta, y, stride, padding, dilation, groups):
    return _adjoint(y, g, x.shape[2:], stride, padding, dilation, groups)


@convolution_weight.grad("y")
def _(g, x, y: Meta, stride, padding, dilation, groups):
    return _forward(x, g, y.shape[2:], stride, padding, dilation, groups)


@convolution.samples
def _(make):
    def case(x, w, bias=False, stride: Any = 1, padding: Any = 0, dilation: Any = 1, transposed=False, extra=0, groups=1):
        n = len(x) - 2
        own = [v if type(v) is tuple else (v,) * n for v in (stride, padding, dilation, extra)]
        made = make(w[1] * groups if transposed else w[0]) if bias else None
        return (make(*x), make(*w), made, *own[:3], transposed, own[3], groups)

    last = make(2, 5, 4, 3).permute(0, 3, 1, 2)
    return [
        case((2, 3, 5, 4), (4, 3, 3, 2), True, padding=1),
        case((1, 2, 7), (3, 2, 3), True, stride=2, padding=1),
        case((1, 4, 5, 6), (4, 2, 3, 3), stride=(2, 1), dilation=(1, 2), groups=2, padding=(1, 2)),
        case((2, 3, 4, 4), (6, 1, 3, 3), True, groups=3),
        case((1, 2, 3, 4, 3), (2, 2, 2, 2, 2), True, padding=1),
        case((0, 2, 4, 4), (3, 2, 3, 3), True),
        case((2, 3, 4, 3), (4, 3, 1, 1)),
        (last, make(2, 3, 2, 2), make(2), (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
        case((2, 3, 3, 4), (3, 2, 3, 3), True, stride=2, padding=1, transposed=True, extra=1),
        case((1, 4, 4), (4, 2, 3), True, stride=2, dilation=3, transposed=True, extra=2, groups=2),
        case((1, 2, 2, 3, 2), (2, 2, 2, 2, 2), transposed=True, stride=(1, 2, 1)),
    ]


@convolution_weight.samples
def _(make):
    one = ((1, 1), (1, 1), (1, 1))
    return [
        (make(2, 3, 5, 4), make(2, 4, 5, 4), (3, 3), *one, 1),
        (make(1, 4, 7), make(1, 2, 4), (3,), (2,), (1,), (1,), 2),
        (make(0, 2, 4, 4), make(0, 3, 4, 4), (3, 3), *one, 1),
        (make(2, 2, 6, 5), make(2, 2, 2, 2), (2, 2), (2, 2), (0, 0), (2, 1), 2),
    ]
