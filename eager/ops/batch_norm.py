"""Normalisation per channel: batch norm (training and evaluation) and group norm, of (N, C, ...).

Training gives mean and biased variance as hidden outputs: gradients and running statistics are made of them. Instance
norm is group norm with a group per channel. Halves compute in float32 and are rounded once. Results keep the memory
order of what is normalised.
"""

import numpy as np

from ..op.gradient import Meta
from ..op.meta import Spec
from ..op.op import composite, optional, Out, scalar, static, tensor
from ..state import state
from . import batch_norm_kernels as kernels
from .arithmetic import add, div, mul, square, sub
from .elementary import rsqrt
from .upcast import back, single
from .image_layout import image_like, ordered, tidy
from .reduce import extent, mean as mean_dims, sum as sum_dims
from .views import reshape, view_as_size

_MOMENTS = (Out("mean", differentiable=False, hidden=True), Out("var", differentiable=False, hidden=True))


def _others(x):
    """All dims but that of the channels."""
    return (0, *range(2, len(x.shape)))


def column(v, x):
    """A value per channel, broadcast against x."""
    v = single(v)
    return view_as_size(v, (1, v.shape[0]) + (1,) * (len(x.shape) - 2)) if len(x.shape) > 1 else v


def _moments(y):
    """Mean and biased variance per channel."""
    middle = mean_dims(y, _others(y), False)
    return middle, mean_dims(square(sub(y, column(middle, y))), _others(y), False)


def _normalised(y, mean, var, eps):
    return mul(sub(y, column(mean, y)), column(rsqrt(add(var, eps)), y))


def _scaled(hat, weight, bias, like):
    out = hat if weight is None else mul(hat, column(weight, hat))
    return back(out if bias is None else add(out, column(bias, hat)), like)


# -- batch norm in training


@composite(outputs=("out", *_MOMENTS))
def batch_norm(x, weight: optional, bias: optional, eps: scalar):
    """(x - mean) / sqrt(var + eps) * weight + bias, with the moments of each channel over batch and positions."""
    y = single(tidy(x))
    mean, var = _moments(y)
    return _scaled(_normalised(y, mean, var, eps), weight, bias, x), mean, var


@batch_norm.rebuilt
def _(x, weight, bias, eps, mean, var):
    return _scaled(_normalised(single(tidy(x)), mean, var, eps), weight, bias, x)


@batch_norm.meta
def _(x, weight, bias, eps):
    moments = Spec((x.shape[1],), x.dtype.compute)
    return image_like(x), moments, moments


@batch_norm.native
def _(x, weight, bias, eps):
    moments = kernels.moments(x)
    if moments is NotImplemented:
        return NotImplemented
    mean, var = moments
    return kernels.normalised(x, mean, var, weight, bias, eps), mean, var


@batch_norm.numpy
def _(x, weight, bias, eps):
    y = kernels.widened(x)
    dims = (0, *range(2, x.ndim))
    mean = y.mean(dims, keepdims=True)
    var = np.square(y - mean).mean(dims)
    mean = mean.reshape(var.shape)
    return kernels.numpy_normalised(y, mean, var, weight, bias, eps, x.dtype), mean, var


@batch_norm.grad("*")
def _(g, x, mean, var, weight, eps, needs):
    if state.grad:  # to be differentiated again: the moments are functions of x
        mean, var = _moments(single(x))
    dx, dweight, dbias = batch_norm_backward(g, x, mean, var, weight, eps)
    return {
        "x": dx,
        "weight": None if weight is None else back(dweight, weight),
        "bias": dbias if weight is None else back(dbias, weight),
    }


@batch_norm.samples
def _(make):
    return [
        (make(4, 3), make(3), make(3), 1e-5),
        (make(2, 3, 4), make(3), make(3), 1e-3),
        (make(2, 3, 2, 2), None, None, 1e-5),
        (make(2, 3, 2, 2), make(3), make(3), 1e-5),
        (make(2, 4, 4, 3).permute(0, 3, 1, 2), make(3), make(3), 1e-5),
        (make(2, 2, 2, 1, 3), make(2), make(2), 1e-5),
    ]


@composite
def channel_sums(g, x, mean: tensor):
    """Per channel: the sum of g, and that of g * (x - mean)."""
    slope = single(g)
    return (sum_dims(slope, _others(x), False), sum_dims(mul(slope, sub(single(x), column(mean, x))), _others(x), False))


@channel_sums.meta
def _(g, x, mean):
    vector = Spec((x.shape[1],), x.dtype.compute)
    return vector, vector


@channel_sums.native
def _(g, x, mean):
    return kernels.sums(kernels.matched(g, x), x, mean)


@composite(outputs=("dx", "dweight", "dbias"))
def batch_norm_backward(g, x, mean: tensor, var, weight: optional, eps: scalar):
    """dx = rstd * weight * (g - mean(g) - (x - mean) * mean(g * (x - mean)) * rstd**2)."""
    rstd = rsqrt(add(var, eps))
    total, along = channel_sums(g, x, mean)
    n = extent(x.shape, _others(x))
    steep = div(mul(along, square(rstd)), n)
    inner = sub(sub(single(g), column(div(total, n), x)), mul(sub(single(x), column(mean, x)), column(steep, x)))
    scale = rstd if weight is None else mul(rstd, single(weight))
    return back(mul(inner, column(scale, x)), x), mul(along, rstd), total


@batch_norm_backward.meta
def _(g, x, mean, var, weight, eps):
    vector = Spec((x.shape[1],), x.dtype.compute)
    return image_like(x), vector, vector


@batch_norm_backward.native
def _(g, x, mean, var, weight, eps):
    g = kernels.matched(g, x)
    found = kernels.sums(g, x, mean)
    if found is NotImplemented:
        return NotImplemented
    total, along = found
    n, rstd = x.size // len(total), kernels.inverse_deviation(var, eps)
    scale = rstd if weight is None else rstd * weight
    share = scale / -n
    slope = share * along * rstd * rstd
    centre, shift = kernels.line(mean, rstd, slope, share * total)
    return kernels.affine(x, centre, scale, shift, g, slope), (along * rstd).astype(along.dtype), total


# the samples give moments as they come: the formula holds for any values
@batch_norm_backward.samples
def _(make):
    return [
        (make(4, 3), make(4, 3), make(3), make.positive(3), make(3), 1e-5),
        (make(2, 3, 2, 2), make(2, 3, 2, 2), make(3), make.positive(3), None, 1e-5),
    ]


channel_sums.samples(lambda make: [(make(4, 3), make(4, 3), make(3)), (make(2, 3, 2), make(2, 3, 2), make(3))])


# -- batch norm in evaluation


@composite
def batch_norm_eval(x, mean: tensor, var: tensor, weight: optional, bias: optional, eps: scalar):
    """The same with moments that are given."""
    return _scaled(_normalised(single(tidy(x)), single(mean), single(var), eps), weight, bias, x)


@batch_norm_eval.meta
def _(x, mean, var, weight, bias, eps):
    return image_like(x)


@batch_norm_eval.native
def _(x, mean, var, weight, bias, eps):
    return kernels.normalised(x, mean, var, weight, bias, eps)


@batch_norm_eval.numpy
def _(x, mean, var, weight, bias, eps):
    return kernels.numpy_normalised(kernels.widened(x), mean, var, weight, bias, eps, x.dtype)


@batch_norm_eval.grad("*")
def _(g, x, mean, var, weight, bias: Meta, eps, needs):
    rstd = rsqrt(add(single(var), eps))
    scale = rstd if weight is None else mul(rstd, single(weight))
    grads = {"x": back(mul(single(g), column(scale, x)), x)} if "x" in needs else {}
    if needs - {"x"}:
        total, along = channel_sums(g, x, single(mean))
        grads["bias"] = None if bias is None else back(total, bias)
        grads["weight"] = None if weight is None else back(mul(along, rstd), weight)
        grads["mean"] = back(mul(total, mul(scale, -1.0)), mean)
        grads["var"] = back(mul(mul(along, scale), mul(square(rstd), -0.5)), var)
    return grads


@batch_norm_eval.samples
def _(make):
    return [
        (make(4, 3), make(3), make.positive(3), make(3), make(3), 1e-5),
        (make(2, 3, 2, 2), make(3), make.positive(3), None, None, 1e-3),
        (make(0, 3, 2), make(3), make.positive(3), make(3), make(3), 1e-5),
        (make(2, 4, 4, 3).permute(0, 3, 1, 2), make(3), make.positive(3), make(3), make(3), 1e-5),
    ]


@composite(mutates=("running_mean", "running_var"), outputs=())
def update_running(running_mean, running_var, mean: tensor, var, momentum: scalar, correction: scalar):
    """running + momentum * (batch - running); `correction` makes the variance unbiased."""
    return (_blended(running_mean, mean, momentum, 1.0), _blended(running_var, var, momentum, correction))


def _blended(running, batch, momentum, correction):
    return back(add(mul(single(running), 1.0 - momentum), mul(single(batch), momentum * correction)), running)


@update_running.meta
def _(running_mean, running_var, mean, var, momentum, correction):
    return tuple(running_mean.shape), tuple(running_var.shape)


def _numpy_update(running_mean, running_var, mean, var, momentum, correction):
    for running, batch, factor in ((running_mean, mean, momentum), (running_var, var, momentum * correction)):
        running[...] = running * (1.0 - momentum) + batch * factor


update_running.kernels["inplace"] = _numpy_update


# -- group norm


def _grouped(x, groups):
    """x as (N, groups, C / groups, ...): a view, whatever the memory order."""
    return view_as_size(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))


def _inner(y):
    return tuple(range(2, len(y.shape)))


def _spread(v, y):
    """A value per (sample, group), broadcast against the grouped y."""
    return view_as_size(v, tuple(v.shape) + (1,) * (len(y.shape) - 2))


def _group_moments(y):
    mean = mean_dims(y, _inner(y), False)
    return mean, mean_dims(square(sub(y, _spread(mean, y))), _inner(y), False)


def _group_normalised(y, mean, var, eps, shape):
    hat = mul(sub(y, _spread(mean, y)), _spread(rsqrt(add(var, eps)), y))
    return reshape(hat, tuple(shape))


@composite(outputs=("out", *_MOMENTS))
def group_norm(x, groups: static, weight: optional, bias: optional, eps: scalar):
    """Batch norm's formula with the moments of each sample's group of channels."""
    y = _grouped(single(tidy(x)), groups)
    mean, var = _group_moments(y)
    return _scaled(_group_normalised(y, mean, var, eps, x.shape), weight, bias, x), mean, var


@group_norm.rebuilt
def _(x, groups, weight, bias, eps, mean, var):
    return _scaled(_group_normalised(_grouped(single(tidy(x)), groups), mean, var, eps, x.shape), weight, bias, x)


@group_norm.meta
def _(x, groups, weight, bias, eps):
    moments = Spec((x.shape[0], groups), x.dtype.compute)
    return image_like(x), moments, moments


@group_norm.native
def _(x, groups, weight, bias, eps):
    if not x.flags.c_contiguous or not x.size:
        return kernels.group_norm_last(x, groups, weight, bias, eps)
    rows = x.reshape(1, x.shape[0] * groups, -1)
    moments = kernels.moments(rows)
    if moments is NotImplemented:
        return NotImplemented
    mean, var = (m.reshape(x.shape[0], groups) for m in moments)
    shape = x.shape
    vectors = _per_plane(mean, var, shape, weight, bias, eps)
    return kernels.affine(x.reshape(1, shape[0] * shape[1], -1), *vectors).reshape(shape), mean, var


def _per_plane(mean, var, shape, weight, bias, eps):
    """Centre, scale and shift of each (sample, channel)."""
    n, groups = mean.shape
    spread = (n, groups, shape[1] // groups)
    weight, bias = (default if a is None else a.reshape(1, *spread[1:]) for a, default in ((weight, 1.0), (bias, 0.0)))
    rstd = kernels.inverse_deviation(var, eps)[..., None]
    scale = rstd * weight
    centre, shift = kernels.line(mean[..., None], rstd, scale, bias)
    return tuple(np.broadcast_to(v, spread).reshape(-1) for v in (centre, scale, shift))


@group_norm.numpy
def _(x, groups, weight, bias, eps):
    y = kernels.widened(x)
    y = y.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    dims = tuple(range(2, y.ndim))
    with np.errstate(all="ignore"):
        mean = y.mean(dims, keepdims=True)
        var = np.square(y - mean).mean(dims)
        hat = (y - mean) / np.sqrt(var.reshape(mean.shape) + var.dtype.type(eps))
        out = hat.reshape(x.shape)
        for v, apply in ((weight, np.multiply), (bias, np.add)):
            out = out if v is None else apply(out, kernels.column(v, x))
    return ordered(out.astype(x.dtype, copy=False), x), mean.reshape(var.shape), var


@group_norm.grad("*")
def _(g, x, mean, var, groups, weight, bias: Meta, eps, needs):
    if state.grad:
        mean, var = _group_moments(_grouped(single(x), groups))
    grads = {}
    if "x" in needs:
        grads["x"] = group_norm_backward(g, x, mean, var, groups, weight, eps)
    if "bias" in needs or "weight" in needs:
        to_weight, to_bias = group_norm_vector_gradients(g, x, mean, var, groups, eps)
        grads.update(
            {
                name: back(found, like)
                for name, found, like in (("weight", to_weight, weight), ("bias", to_bias, bias))
                if name in needs
            }
        )
    return grads


@composite(outputs=("weight", "bias"))
def group_norm_vector_gradients(g, x, mean: tensor, var, groups: static, eps: scalar):
    """What each channel's factor and offset get, in the computation type."""
    hat = _group_normalised(_grouped(single(x), groups), mean, var, eps, x.shape)
    return sum_dims(mul(single(g), hat), _others(x), False), sum_dims(single(g), _others(x), False)


@group_norm_vector_gradients.meta
def _(g, x, mean, var, groups, eps):
    return (Spec((x.shape[1],), x.dtype.compute),) * 2


@group_norm_vector_gradients.native
def _(g, x, mean, var, groups, eps):
    if not x.size or g.dtype != x.dtype or g.shape != x.shape or kernels.layout(x) is None:
        return NotImplemented
    n, c = x.shape[:2]
    flat, flat_g = (np.ascontiguousarray(a).reshape(1, n * c, -1) for a in (x, g))
    found = kernels.sums(flat_g, flat, np.repeat(mean.reshape(-1), c // groups))
    if found is NotImplemented:
        return NotImplemented
    total, along = found
    scaled = along.reshape(n, groups, -1) * kernels.inverse_deviation(var, eps)[..., None]
    return scaled.sum(0).reshape(c).astype(total.dtype), total.reshape(n, c).sum(0)


group_norm_vector_gradients.samples(
    lambda make: [
        (make(2, 4, 3), make(2, 4, 3), make(2, 2), make.positive(2, 2), 2, 1e-5),
        (make(2, 4, 2, 2), make(2, 4, 2, 2), make(2, 4), make.positive(2, 4), 4, 1e-5),
    ]
)


@composite
def group_norm_backward(g, x, mean: tensor, var, groups: static, weight: optional, eps: scalar):
    h = _grouped(single(g) if weight is None else mul(single(g), column(weight, x)), groups)
    y = _grouped(single(x), groups)
    rstd = _spread(rsqrt(add(var, eps)), y)
    hat = mul(sub(y, _spread(mean, y)), rstd)
    inner = sub(sub(h, mean_dims(h, _inner(y), True)), mul(hat, mean_dims(mul(h, hat), _inner(y), True)))
    return back(reshape(mul(inner, rstd), tuple(x.shape)), x)


@group_norm_backward.meta
def _(g, x, mean, var, groups, weight, eps):
    return image_like(x)


@group_norm_backward.native
def _(g, x, mean, var, groups, weight, eps):
    if not x.size or g.dtype != x.dtype or kernels.layout(x) is None:
        return NotImplemented
    image, x, g = x, np.ascontiguousarray(x), np.ascontiguousarray(g)
    n, c = x.shape[:2]
    size = x.size // (n * groups)
    planes = np.repeat(mean.reshape(-1), c // groups)
    flat, flat_g = x.reshape(1, n * c, -1), g.reshape(1, n * c, -1)
    found = kernels.sums(flat_g, flat, planes)
    if found is NotImplemented:
        return NotImplemented
    spread = (n, groups, c // groups)
    total, along = (a.reshape(spread) for a in found)
    rstd = kernels.inverse_deviation(var, eps)
    w = np.ones(spread) if weight is None else np.broadcast_to(weight.reshape(1, *spread[1:]).astype(np.float64), spread)
    share = rstd / -size
    slope = share * rstd * rstd * (w * along).sum(2)
    centre, shift = kernels.line(mean, rstd, slope, share * (w * total).sum(2))
    centre, shift, slope = (np.broadcast_to(a[..., None], spread).reshape(-1) for a in (centre, shift, slope))
    scale = (w * rstd[..., None]).reshape(-1)
    return ordered(kernels.affine(flat, centre, scale, shift, flat_g, slope).reshape(x.shape), image)


@group_norm.samples
def _(make):
    return [
        (make(2, 4), 2, make(4), make(4), 1e-5),
        (make(2, 4, 3), 2, make(4), make(4), 1e-3),
        (make(2, 4, 2, 2), 4, None, None, 1e-5),
        (make(1, 4, 2, 3), 1, make(4), make(4), 1e-5),
        (make(2, 3, 3, 4).permute(0, 3, 1, 2), 2, make(4), make(4), 1e-5),
    ]


group_norm_backward.samples(
    lambda make: [
        (make(2, 4, 3), make(2, 4, 3), make(2, 2), make.positive(2, 2), 2, make(4), 1e-5),
        (make(2, 4, 2, 2), make(2, 4, 2, 2), make(2, 4), make.positive(2, 4), 4, None, 1e-5),
    ]
)
