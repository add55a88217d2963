"""Activations, softmax and dropout.

Softmax and its relatives are composites: row reductions and maps, which a compiler fuses into one loop nest. Their
gradients name the output only. Backward formulas that a map can say in one go are records of their own.
"""

import math

import numpy as np

from ...runtime import kernels, copy_gather, row_kernels
from .. import dtypes
from ..op.op import composite, Out, pointwise, scalar, static
from .. import random
from ..random import draw
from .arithmetic import absolute, add, div, ge, gt, le, logical_and, logical_or, lt, minimum, mul, neg, square, sub, where
from .elementary import exp, log, sigmoid, tanh
from .upcast import back, single
from .random import mask_over
from .reduce import amax, sum as sum_dims
from .samples import unary
from .views import contiguous, slice_dim

_SQRT_HALF, _SQRT_TWO_OVER_PI = math.sqrt(0.5), math.sqrt(2.0 / math.pi)
_DENSITY, _CUBIC = 1.0 / math.sqrt(2.0 * math.pi), 0.044715


@pointwise(public="relu relu_ F.relu", fast=True)
def relu(s, x):
    return s.maximum(x, 0)


@relu.grad("x")
def _(g, out):
    return where(le(out, 0), 0.0, g)


relu.samples(lambda make: unary(make, positive=True) + [(make(5),), (make.ints(5, 3),)])


@pointwise(fast=True)
def leaky_relu(s, x, slope: scalar):
    return s.where(x > 0, x, x * slope)


@leaky_relu.grad("x")
def _(g, x, slope):
    return where(gt(x, 0), g, mul(g, slope))


leaky_relu.samples(lambda make: [(make(3, 4), 0.01), (make(2, 3), 0.2), (make(), 0.1)])


@pointwise(promote="float", public="F.silu", fast=True)
def silu(s, x):
    return x / (1.0 + s.exp(-x))


@silu.grad("x")
def _(g, x):
    return silu_backward(g, x)


@pointwise(fast=True)
def silu_backward(s, g, x):
    y = 1.0 / (1.0 + s.exp(-x))
    return g * (y * (1.0 + x * (1.0 - y)))


@silu_backward.grad("g")
def _(g_out, x):
    return silu_backward(g_out, x)


@silu_backward.grad("x")
def _(g_out, g, x):
    y = sigmoid(x)
    bend = mul(mul(y, sub(1.0, y)), add(2.0, mul(x, sub(1.0, mul(y, 2.0)))))
    return mul(mul(g_out, g), bend)


# -- gelu


@pointwise(promote="float", fast=True)
def gelu(s, x):
    return x * 0.5 * (1.0 + s.erf(x * _SQRT_HALF))


@gelu.grad("x")
def _(g, x):
    return gelu_backward(g, x)


@pointwise(fast=True)
def gelu_backward(s, g, x):
    below = 0.5 * (1.0 + s.erf(x * _SQRT_HALF))
    return g * (below + x * (s.exp(x * x * -0.5) * _DENSITY))


def gaussian(x):
    return mul(exp(mul(square(x), -0.5)), _DENSITY)


@gelu_backward.grad("g")
def _(g_out, x):
    return gelu_backward(g_out, x)


@gelu_backward.grad("x")
def _(g_out, g, x):
    return mul(mul(g_out, g), mul(gaussian(x), sub(2.0, square(x))))


@pointwise(promote="float", fast=True)
def gelu_tanh(s, x):
    inner = (x + x * x * x * _CUBIC) * _SQRT_TWO_OVER_PI
    return x * 0.5 * (1.0 + s.tanh(inner))


@gelu_tanh.grad("x")
def _(g, x):
    return gelu_tanh_backward(g, x)


@pointwise(fast=True)
def gelu_tanh_backward(s, g, x):
    """With e = exp(-2 |u|), (1 + tanh u) / 2 is 1 / (1 + e) or e / (1 + e), and 1 - tanh^2 u is 4 e / (1 + e)^2."""
    square = x * x
    inner = (x + x * square * _CUBIC) * _SQRT_TWO_OVER_PI
    slope = (1.0 + square * (3.0 * _CUBIC)) * _SQRT_TWO_OVER_PI
    e = s.exp(-2.0 * s.abs(inner))
    d = 1.0 / (1.0 + e)
    return g * (s.where(inner > 0.0, d, e * d) + x * (2.0 * (e * d) * d) * slope)


@gelu_tanh_backward.grad("g")
def _(g_out, x):
    return gelu_tanh_backward(g_out, x)


@gelu_tanh_backward.grad("x")
def _(g_out, g, x):
    """With u the argument of tanh and h = 1 - t*t: f'' = h*u' + x/2 * h * (u'' - 2*t*u'**2)."""
    t = tanh(mul(add(x, mul(mul(square(x), x), _CUBIC)), _SQRT_TWO_OVER_PI))
    rest = sub(1.0, square(t))
    slope = mul(add(1.0, mul(square(x), 3.0 * _CUBIC)), _SQRT_TWO_OVER_PI)
    bend = sub(mul(x, 6.0 * _CUBIC * _SQRT_TWO_OVER_PI), mul(mul(t, 2.0), square(slope)))
    return mul(mul(g_out, g), mul(rest, add(slope, mul(mul(x, 0.5), bend))))


for _op in (silu, gelu, gelu_tanh):
    _op.samples(lambda make: unary(make) + [(make.special(7),)])
for _op in (silu_backward, gelu_backward, gelu_tanh_backward):
    _op.samples(lambda make: [(make(3, 4), make(3, 4)), (make(), make()), (make(0, 2), make(0, 2))])


# -- others


@pointwise(promote="float", fast=True)
def softplus(s, x, beta: scalar = 1.0, threshold: scalar = 20.0):
    return s.where(x * beta > threshold, x, s.log1p(s.exp(s.minimum(x * beta, threshold))) / beta)


@softplus.grad("x")
def _(g, x, beta, threshold):
    steep = mul(x, beta)
    return where(gt(steep, threshold), g, mul(g, sigmoid(steep)))


softplus.samples(lambda make: unary(make) + [(make(4), 2.0, 1.0)])


@pointwise(promote="float", fast=True)
def log_sigmoid(s, x):
    return s.minimum(x, 0.0) - s.log1p(s.exp(-s.abs(x)))


@log_sigmoid.grad("x")
def _(g, x):
    return mul(g, sigmoid(neg(x)))


log_sigmoid.samples(lambda make: unary(make))


@pointwise(fast=True)
def elu(s, x, alpha: scalar = 1.0, scale: scalar = 1.0, input_scale: scalar = 1.0):
    return s.where(x > 0, x * scale, s.expm1(s.minimum(x, 0.0) * input_scale) * (alpha * scale))


@elu.grad("x")
def _(g, x, alpha, scale, input_scale):
    low = mul(exp(mul(minimum(x, 0.0), input_scale)), alpha * scale * input_scale)
    return where(le(x, 0), mul(g, low), mul(g, scale))


elu.samples(lambda make: unary(make, positive=True) + [(make(5), 0.5, 1.1, 0.9)])


@pointwise(fast=True)
def threshold(s, x, limit: scalar, value: scalar):
    return s.where(x <= limit, value, x)


@threshold.grad("x")
def _(g, x, limit):
    return where(le(x, limit), 0.0, g)


threshold.samples(lambda make: [(make(3, 4), 0.1, 20.0), (make(5), -0.5, 0.0)])


@pointwise(promote="float")
def mish(s, x):
    """x tanh(log(1 + e^x)), whose tanh is n / (n + 2) with n = e^x (e^x + 2)."""
    e = s.exp(s.minimum(x, 20.0))
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


@mish.grad("x")
def _(g, x):
    return mish_backward(g, x)


@pointwise
def mish_backward(s, g, x):
    """With n as above and d = n + 2: n / d + 4 x e^x (e^x + 1) / d^2; beyond 20 the second term is below 1e-15."""
    y = s.minimum(x, 20.0)
    e = s.exp(y)
    n = e * (e + 2.0)
    d = n + 2.0
    return g * (n / d + y * (4.0 * (e / d)) * ((e + 1.0) / d))  # (4 y overflows where e is 0)


@mish_backward.grad("g")
def _(g_out, x):
    return mish_backward(g_out, x)


@mish_backward.grad("x")
def _(g_out, g, x):
    """With t the tanh, s the sigmoid of x and u = 1 - t^2: u s (2 + x (1 - s - 2 t s))."""
    s, t = sigmoid(x), tanh(softplus(x))
    bend = add(2.0, mul(x, sub(sub(1.0, s), mul(mul(t, s), 2.0))))
    return mul(mul(g_out, g), mul(mul(sub(1.0, square(t)), s), bend))


@composite
def softsign(x):
    return div(x, add(absolute(x), 1.0))


@pointwise(fast=True)
def hardtanh(s, x, low: scalar, high: scalar):
    return s.minimum(s.maximum(x, low), high)


@hardtanh.grad("x")
def _(g, out, low, high):
    """Nothing at the bounds themselves, unlike clamp."""
    return where(logical_or(le(out, low), ge(out, high)), 0.0, g)


@pointwise(public="F.hardsigmoid", fast=True)
def hardsigmoid(s, x):
    return s.minimum(s.maximum(x + 3.0, 0.0), 6.0) / 6.0


@hardsigmoid.grad("x")
def _(g, x):
    return where(logical_and(gt(x, -3.0), lt(x, 3.0)), div(g, 6.0), 0.0)


@pointwise(public="F.hardswish", fast=True)
def hardswish(s, x):
    return x * s.minimum(s.maximum(x + 3.0, 0.0), 6.0) / 6.0


@hardswish.grad("x")
def _(g, x):
    return hardswish_backward(g, x)


@pointwise(fast=True)
def hardswish_backward(s, g, x):
    return s.where(x <= -3.0, 0.0, s.where(x < 3.0, g * (x / 3.0 + 0.5), g))


@hardswish_backward.grad("g")
def _(g_out, x):
    return hardswish_backward(g_out, x)


@hardswish_backward.grad("x")
def _(g_out, g, x):
    return where(logical_and(gt(x, -3.0), lt(x, 3.0)), div(mul(g_out, g), 3.0), 0.0)


mish.samples(unary)
mish_backward.samples(lambda make: [(make(3, 4), make(3, 4)), (make(0), make(0))])
softsign.samples(unary)
hardtanh.samples(lambda make: [(make(3, 4), -0.7, 0.6), (make(5), 0.0, 6.0)])
hardsigmoid.samples(unary)
hardswish.samples(unary)
hardswish_backward.samples(lambda make: [(make(3, 4), make(3, 4)), (make(), make()), (make(0, 2), make(0, 2))])


# -- softmax


def _by_rows(write, x, dim, *others):
    """The array that write(out, x, *others) fills, in chunks of rows that fit a core's cache, for a last dim of contiguous
    memory; NotImplemented otherwise."""
    arrays = (x, *others)
    if (
        dim != x.ndim - 1
        or x.dtype not in (np.float32, np.float64)
        or x.size == 0
        or not all(a.flags.c_contiguous and a.dtype == x.dtype for a in arrays)
    ):
        return NotImplemented
    out = kernels.empty(x.shape, x.dtype)
    flat = [a.reshape(-1, x.shape[-1]) for a in (out, *arrays)]
    step = max(1, (1 << 16) // x.shape[-1])
    with np.errstate(all="ignore"):
        for k in range(0, len(flat[0]), step):
            write(*(a[k : k + step] for a in flat))
    return out


@composite
def softmax(x, dim: static):
    """exp(x - max) / sum; halves compute in float32 and are rounded once."""
    y = single(contiguous(x))
    e = exp(sub(y, amax(y, (dim,), True)))
    return back(div(e, sum_dims(e, (dim,), True)), x)


softmax.native(row_kernels.softmax)


@softmax.numpy
def _(x, dim):
    def write(out, x):
        np.subtract(x, np.maximum.reduce(x, -1, keepdims=True), out=out)
        np.exp(out, out=out)
        out /= np.add.reduce(out, -1, keepdims=True)

    return _by_rows(write, x, dim)


@softmax.grad("x")
def _(g, out, dim):
    return softmax_backward(g, out, dim)


@composite
def softmax_backward(g, y, dim: static):
    y = single(y)
    return back(mul(sub(single(g), sum_dims(mul(single(g), y), (dim,), True)), y), g)


softmax_backward.native(row_kernels.softmax_backward)


@softmax_backward.numpy
def _(g, y, dim):
    def write(out, y, g):
        np.subtract(g, np.add.reduce(g * y, -1, keepdims=True), out=out)
        out *= y

    return _by_rows(write, y, dim, g)


@composite
def log_softmax(x, dim: static):
    y = single(contiguous(x))
    shifted = sub(y, amax(y, (dim,), True))
    return back(sub(shifted, log(sum_dims(exp(shifted), (dim,), True))), x)


log_softmax.native(row_kernels.log_softmax)


@log_softmax.numpy
def _(x, dim):
    def write(out, x):
        np.subtract(x, np.maximum.reduce(x, -1, keepdims=True), out=out)
        out -= np.log(np.add.reduce(np.exp(out), -1, keepdims=True))

    return _by_rows(write, x, dim)


@log_softmax.grad("x")
def _(g, out, dim):
    return log_softmax_backward(g, out, dim)


@composite
def log_softmax_backward(g, y, dim: static):
    upstream = single(g)
    return back(sub(upstream, mul(exp(single(y)), sum_dims(upstream, (dim,), True))), g)


log_softmax_backward.native(row_kernels.log_softmax_backward)
for _op in (softmax, log_softmax):
    _op.samples(
        lambda make: [
            (make(3, 4), 1),
            (make(3, 4), 0),
            (make(2, 3, 4), 1),
            (make(5), 0),
            (make(4, 3).t(), 1),
            (make(2, 3).to(dtypes.bfloat16), 1),
            (make(0, 3), 1),
        ]
    )
for _op in (softmax_backward, log_softmax_backward):
    _op.samples(lambda make: [(make(3, 4), make.positive(3, 4), 1), (make(2, 3, 2), make.positive(2, 3, 2), 1)])


@composite
def glu(x, dim: static):
    half = x.shape[dim] // 2
    return mul(slice_dim(x, dim, 0, 1, half), sigmoid(slice_dim(x, dim, half, 1, half)))


glu.samples(lambda make: [(make(3, 4), 1), (make(2, 3), 0)])


# -- dropout


@composite(outputs=("out", Out("keep", differentiable=False, hidden=True)), draws=lambda *args: 1)
def dropout(x, p: scalar):
    """Zero with probability p, the others times 1/(1-p). The mask is a draw of one ordinal: who wants to save memory
    draws it again instead of keeping it."""
    keep = mask_over(x, p)
    return masked_scale(x, keep, _scale(p)), keep


def _scale(p):
    return 0.0 if type(p) is float and p == 1.0 else 1.0 / (1.0 - p)


@dropout.native
def _(x, p):
    if not x.size or random.in_order is not None or not kernels.are_contiguous_floats(x):
        return NotImplemented
    return copy_gather.dropout(x, p, _scale(p), *draw())


@dropout.grad("x")
def _(g, keep, p):
    return masked_scale(g, keep, _scale(p))


dropout.samples(lambda make: [(make(3, 4), 0.3), (make(2, 3, 2), 0.5), (make(0, 2), 0.5), (make(4, 3).t(), 0.1), (make(5), 1.0)])


@pointwise(promote="first", exclude=("keep",))
def masked_scale(s, x, keep, scale: scalar):
    """A product with the scale or 0: NaN and infinity do not vanish where they are not kept."""
    return s.where(keep, x * scale, x * 0.0)


@masked_scale.native
def _(x, keep, scale):
    return copy_gather.masked_scale(x, keep, scale) if isinstance(x, np.ndarray) else NotImplemented


@masked_scale.grad("x")
def _(g, keep, scale):
    return masked_scale(g, keep, scale)


masked_scale.samples(lambda make: [(make(3, 4), make.bools(3, 4), 2.0), (make(0, 2), make.bools(0, 2), 1.5)])
