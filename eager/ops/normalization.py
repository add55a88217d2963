"""Layer and RMS normalisation over the last dims: row reductions and maps, fused by a compiler into one loop nest.

What the gradient needs is x and two numbers per row (mean and 1/deviation), which come out as hidden outputs. The
variance is that of the centred values; halves compute in float32 and are rounded once.
"""

import math

import numpy as np

from ...runtime import row_kernels as rows
from ..op.gradient import Meta
from ..op.meta import Spec
from ..op.op import composite, optional, Out, scalar, static, tensor
from ..state import state
from .upcast import back, single
from .arithmetic import add, mul, square, sub
from .elementary import rsqrt
from .reduce import mean as mean_dims, sum as sum_dims
from .views import contiguous

_HIDDEN = (Out("mean", differentiable=False, hidden=True), Out("rstd", differentiable=False, hidden=True))


def last_dims(x, count):
    return tuple(range(len(x.shape) - count, len(x.shape)))


def _standardised(y, dims, eps):
    """(x - mean, mean, 1 / deviation)"""
    middle = mean_dims(y, dims, True)
    centred = sub(y, middle)
    return centred, middle, rsqrt(add(mean_dims(square(centred), dims, True), eps))


@composite(outputs=("out", *_HIDDEN))
def layer_norm(x, normalized: static, weight: optional, bias: optional, eps: scalar):
    """(x - mean) * rstd * weight + bias over the last `normalized` dims."""
    centred, middle, rstd = _standardised(single(contiguous(x)), last_dims(x, normalized), eps)
    return _scaled(mul(centred, rstd), weight, bias, x), middle, rstd


def _scaled(hat, weight, bias, like):
    out = hat if weight is None else mul(hat, single(weight))
    return back(out if bias is None else add(out, single(bias)), like)


@layer_norm.rebuilt
def _(x, normalized, weight, bias, eps, middle, rstd):
    return _scaled(mul(sub(single(contiguous(x)), middle), rstd), weight, bias, x)


def _numpy_rows(x, normalized):
    """(rows, their length, rows per chunk) of contiguous float32 or float64, else None."""
    if x.dtype not in (np.float32, np.float64) or not x.flags.c_contiguous or not x.size:
        return None
    width = math.prod(x.shape[x.ndim - normalized :])
    return x.size // width, width, max(1, (1 << 15) // width)


layer_norm.native(rows.layer_norm)


@layer_norm.numpy
def _(x, normalized, weight, bias, eps):
    plan = _numpy_rows(x, normalized)
    if plan is None:
        return NotImplemented
    rows, width, step = plan
    shape = x.shape[: x.ndim - normalized] + (1,) * normalized
    out, middle, rstd = np.empty_like(x), np.empty((rows, 1), x.dtype), np.empty((rows, 1), x.dtype)
    flat, result, ones = x.reshape(rows, width), out.reshape(rows, width), np.full(width, 1.0 / width, x.dtype)
    weight, bias = (None if a is None else a.reshape(width) for a in (weight, bias))
    for k in range(0, rows, step):
        part, m, r = result[k : k + step], middle[k : k + step], rstd[k : k + step]
        np.matmul(flat[k : k + step], ones, out=m[:, 0])
        np.subtract(flat[k : k + step], m, out=part)
        np.einsum("ij,ij->i", part, part, out=r[:, 0])
        r *= 1.0 / width
        r += eps
        np.sqrt(r, out=r)
        np.divide(1.0, r, out=r)
        part *= r
        if weight is not None:
            part *= weight
        if bias is not None:
            part += bias
    return out, middle.reshape(shape), rstd.reshape(shape)


@layer_norm.meta
def _(x, normalized, weight, bias, eps):
    rows = tuple(x.shape[: len(x.shape) - normalized]) + (1,) * normalized
    inner = x.dtype.compute
    return Spec(tuple(x.shape), x.dtype), Spec(rows, inner), Spec(rows, inner)


@layer_norm.grad("x")
def _(g, x, mean, rstd, weight, normalized, eps):
    if state.grad:  # to be differentiated again: mean and deviation are functions of x
        _, mean, rstd = _standardised(single(x), last_dims(x, normalized), eps)
    return layer_norm_backward(g, x, mean, rstd, weight, normalized)


@layer_norm.grad("weight")
def _(g, x, mean, rstd, weight: Meta, normalized, eps):
    if state.grad:
        _, mean, rstd = _standardised(single(x), last_dims(x, normalized), eps)
    return back(norm_weight_gradient(g, x, mean, rstd, normalized), weight)


@layer_norm.grad("bias")
def _(g, bias: Meta, normalized):
    return _over_rows(g, bias, normalized)


def _over_rows(x, like, normalized):
    dims = tuple(range(len(x.shape) - normalized))
    return back(sum_dims(x, dims, False) if dims else x, like)


@composite
def norm_weight_gradient(g, x, mean: optional, rstd: tensor, normalized: static):
    """g * (x - mean) * rstd summed over the rows, in the computation type; without a mean x itself counts."""
    centred = single(x) if mean is None else sub(single(x), mean)
    product = mul(single(g), mul(centred, rstd))
    dims = tuple(range(len(x.shape) - normalized))
    return sum_dims(product, dims, False) if dims else product


@norm_weight_gradient.meta
def _(g, x, mean, rstd, normalized):
    return Spec(tuple(x.shape[len(x.shape) - normalized :]), x.dtype.compute)


norm_weight_gradient.native(rows.norm_weight_gradient)
norm_weight_gradient.samples(
    lambda make: [
        (make(3, 4), make(3, 4), make(3, 1), make.positive(3, 1), 1),
        (make(2, 3, 4), make(2, 3, 4), None, make.positive(2, 1, 1), 2),
        (make(5), make(5), make(1), make.positive(1), 1),
    ]
)


@composite
def layer_norm_backward(g, x, mean: tensor, rstd, weight: optional, normalized: static):
    """rstd * (h - mean(h) - xhat * mean(h * xhat)) with h = g * weight."""
    dims = last_dims(x, normalized)
    h = single(g) if weight is None else mul(single(g), single(weight))
    hat = mul(sub(single(x), mean), rstd)
    inner = sub(sub(h, mean_dims(h, dims, True)), mul(hat, mean_dims(mul(h, hat), dims, True)))
    return back(mul(inner, rstd), x)


layer_norm_backward.native(rows.norm_backward)


@layer_norm_backward.numpy
def _(g, x, mean, rstd, weight, normalized):
    plan = _numpy_rows(x, normalized)
    if plan is None or not g.flags.c_contiguous or g.dtype != x.dtype:
        return NotImplemented
    rows, width, step = plan
    out = np.empty_like(x)
    mean, rstd = mean.reshape(rows, 1), rstd.reshape(rows, 1)
    g, x, result = (a.reshape(rows, width) for a in (g, x, out))
    scale, weight = 1.0 / width, None if weight is None else weight.reshape(width)
    hat = np.empty((min(step, rows), width), x.dtype)
    for k in range(0, rows, step):
        part, r = result[k : k + step], rstd[k : k + step]
        own = hat[: len(part)]
        np.subtract(x[k : k + step], mean[k : k + step], out=own)
        own *= r
        np.multiply(g[k : k + step], 1.0 if weight is None else weight, out=part)
        along = np.einsum("ij,ij->i", part, own)[:, None] * x.dtype.type(scale)
        part -= np.add.reduce(part, 1, keepdims=True) * x.dtype.type(scale)
        own *= along
        part -= own
        part *= r
    return out


@layer_norm.samples
def _(make):
    return [
        (make(3, 4), 1, make(4), make(4), 1e-5),
        (make(2, 3, 4), 1, make(4), None, 1e-5),
        (make(2, 3, 4), 2, None, None, 1e-3),
        (make(4, 3).t(), 1, make(4), make(4), 1e-5),
        (make(0, 4), 1, make(4), make(4), 1e-5),
        (make(5), 1, None, None, 1e-5),
    ]


def _rms(y, dims, eps):
    return rsqrt(add(mean_dims(square(y), dims, True), eps))


@composite(outputs=("out", _HIDDEN[1]))
def rms_norm(x, normalized: static, weight: optional, eps: scalar):
    """x / sqrt(mean(x*x) + eps) * weight over the last `normalized` dims."""
    y = single(contiguous(x))
    rstd = _rms(y, last_dims(x, normalized), eps)
    return _scaled(mul(y, rstd), weight, None, x), rstd


rms_norm.native(rows.rms_norm)


@rms_norm.rebuilt
def _(x, normalized, weight, eps, rstd):
    return _scaled(mul(single(contiguous(x)), rstd), weight, None, x)


@rms_norm.grad("x")
def _(g, x, rstd, weight, normalized, eps):
    rstd = _rms(single(x), last_dims(x, normalized), eps) if state.grad else rstd
    return rms_norm_backward(g, x, rstd, weight, normalized)


@rms_norm.grad("weight")
def _(g, x, rstd, weight: Meta, normalized, eps):
    rstd = _rms(single(x), last_dims(x, normalized), eps) if state.grad else rstd
    return back(norm_weight_gradient(g, x, None, rstd, normalized), weight)


@composite
def rms_norm_backward(g, x, rstd, weight: optional, normalized: static):
    h = single(g) if weight is None else mul(single(g), single(weight))
    hat = mul(single(x), rstd)
    along = mean_dims(mul(h, hat), last_dims(x, normalized), True)
    return back(mul(sub(h, mul(hat, along)), rstd), x)


@rms_norm_backward.native
def _(g, x, rstd, weight, normalized):
    return rows.norm_backward(g, x, None, rstd, weight, normalized)


rms_norm.samples(lambda make: [(make(3, 4), 1, make(4), 1e-5), (make(2, 3, 4), 2, None, 1e-3), (make(5), 1, None, 1e-5)])
