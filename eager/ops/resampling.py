"""Resampling of single dims: nearest, linear, cubic, and filtered for antialiasing.

An output's place in the input is (o + 1/2) * scale - 1/2, or o * (n - 1) / (size - 1) where corners are aligned. `scale`
is the inverse of a factor that the caller named, or None: the ratio of the sizes. Places are computed in the tensor's
computation type, as PyTorch does. Several dims are resampled one after the other.
"""

import functools
import math
import types

import numpy as np

from .. import dtypes
from ..op.gradient import Meta
from ..op.op import composite, indexed, scatter, size, static, tensor
from ..op.prims import NUMPY
from . import linear_filter
from .arithmetic import absolute, div, mul, where
from .creation import arange
from .elementary import floor, sin
from .image_layout import image_like
from .reduce import sum as sum_dims
from .views import transpose, unsqueeze


def _sizes(x, dim, n):
    return (*x.shape[:dim], n, *x.shape[dim + 1 :])


def _scale(s, n, size, scale, align, dtype):
    if align:
        if type(size) is int and size == 1:
            return s.const(0, dtype)
        return s.cast(s.index(n - 1), dtype) / s.cast(s.maximum(s.index(size - 1), 1), dtype)
    if scale is not None:
        return s.const(scale, dtype)
    return s.cast(s.index(n), dtype) / s.cast(s.index(size), dtype)


def _whole(n, size, scale):
    """size / n or n / size where one of them is a whole number, as (factor up, factor down); else None."""
    if type(n) is not int or type(size) is not int or not n or not size:
        return None
    if scale is not None and scale != n / size:
        return None
    if size % n == 0:
        return size // n, 1
    return (1, n // size) if n % size == 0 else None


# -- nearest


def nearest_index(s, o, n, size, scale, exact):
    """Where output o is read: floor((o + 1/2 if exact else o) * scale)."""
    whole = _whole(n, size, scale)
    if whole is not None:
        up, down = whole
        return o // up if down == 1 else o * down + (down // 2 if exact else 0)
    place = s.cast(s.index(o), dtypes.float32)
    if exact:
        place = place + 0.5
    place = s.floor(place * _scale(s, n, size, scale, False, dtypes.float32))
    at = s.minimum(s.cast(place, dtypes.int64), s.index(n - 1))
    return s.indirect(at, n, check=False)


@functools.lru_cache(256)
def _nearest_taps(n, size, scale, exact):
    index = np.broadcast_to(nearest_index(NUMPY, np.arange(size), n, size, scale, exact), (size,))
    return linear_filter.regular(index.reshape(-1, 1), np.ones((size, 1)))


@functools.lru_cache(256)
def _nearest_adjoint(n, size, scale, exact):
    return linear_filter.adjoint(_nearest_taps(n, size, scale, exact), n)


@indexed(meta=lambda x, dim, size, scale, exact: image_like(x, _sizes(x, dim, size)), promote="keep")
def nearest(s, i, x, dim: static, size: size, scale: static, exact: static):
    return x(*i[:dim], nearest_index(s, i[dim], x.shape[dim], size, scale, exact), *i[dim + 1 :])


@nearest.numpy
def _(x, dim, size, scale, exact):
    return linear_filter.apply(x, dim, _nearest_taps(x.shape[dim], size, scale, exact))


@nearest.grad("x")
def _(g, x: Meta, dim, size, scale, exact):
    return nearest_backward(x.shape[dim], g, dim, scale, exact)


@scatter(
    mode="add",
    ranges=lambda n, slope, *rest: slope.shape,
    meta=lambda n, slope, dim, scale, exact: image_like(slope, _sizes(slope, dim, n)),
    promote="same",
)
def nearest_backward(s, i, n: size, slope: tensor, dim: static, scale: static, exact: static):
    return (*i[:dim], nearest_index(s, i[dim], n, slope.shape[dim], scale, exact), *i[dim + 1 :]), slope(*i)


@nearest_backward.numpy
def _(n, slope, dim, scale, exact):
    return linear_filter.apply(slope, dim, _nearest_adjoint(n, slope.shape[dim], scale, exact))


@nearest_backward.calls
def _(c, outs, n, slope, dim, scale, exact):
    return linear_filter.call(c, outs[0], slope, dim, lambda: _nearest_adjoint(n, slope.shape[dim], scale, exact))


@nearest_backward.grad("slope")
def _(g, slope: Meta, dim, n, scale, exact):
    return nearest(g, dim, slope.shape[dim], scale, exact)


nearest.samples(
    lambda make: [
        (make(2, 3), 1, 6, None, False),
        (make(2, 5), 1, 3, None, False),
        (make(2, 5), 1, 3, None, True),
        (make(2, 3, 4), 1, 7, 0.4, False),
        (make.ints(9, 2, 3), 0, 4, None, True),
        (make(1, 3, 2, 2).permute(0, 3, 1, 2), 2, 6, None, False),
    ]
)
nearest_backward.samples(lambda make: [(3, make(2, 6), 1, None, False), (5, make(2, 3), 1, None, True)])


# -- linear and cubic

COUNT = {"linear": 2, "cubic": 4}
_A = -0.75  # Keys' parameter, as PyTorch and OpenCV have it


def reads(s, o, n, size, kind, scale, align, dtype):
    """[(index value, weight)] of output o, in the type in which halves compute: they cannot tell the places of a row."""
    dtype = dtype.compute
    ratio = _scale(s, n, size, scale, align, dtype)
    place = s.cast(s.index(o), dtype)
    place = place * ratio if align else (place + 0.5) * ratio - 0.5
    if kind == "linear":
        place = s.maximum(place, 0)
    low = s.floor(place)
    t = place - low
    at, last = s.cast(low, dtypes.int64), s.index(n - 1)
    weights = [1.0 - t, t] if kind == "linear" else cubic_weights(t)
    first = 0 if kind == "linear" else -1
    return [(s.minimum(s.maximum(at + (first + k), 0), last), w) for k, w in enumerate(weights)]


def _near(t):
    return ((_A + 2) * t - (_A + 3)) * t * t + 1.0


def _far(t):
    return ((t - 5.0) * t + 8.0) * t * _A - 4.0 * _A


def cubic_weights(t):
    """Of the four neighbours of a place t beyond the second."""
    return [_far(t + 1.0), _near(t), _near(1.0 - t), _far(2.0 - t)]


def cubic_slopes(t):
    """The derivatives of these weights by t."""

    def near(u):
        return (3 * (_A + 2) * u - 2 * (_A + 3)) * u

    def far(u):
        return ((3 * u - 10.0) * u + 8.0) * _A

    return [far(t + 1.0), near(t), near(1.0 - t) * -1.0, far(2.0 - t) * -1.0]


@functools.lru_cache(256)
def _taps(n, size, kind, scale, align, dtype):
    found = reads(NUMPY, np.arange(size), n, size, kind, scale, align, dtypes.from_numpy(dtype))
    return linear_filter.regular(*(np.stack([np.broadcast_to(part[k], (size,)) for part in found], 1) for k in range(2)))


@functools.lru_cache(256)
def _adjoint(n, size, kind, scale, align, dtype):
    return linear_filter.adjoint(_taps(n, size, kind, scale, align, dtype), n)


@indexed(meta=lambda x, dim, size, *rest: image_like(x, _sizes(x, dim, size)))
def resample(s, i, x, dim: static, size: size, kind: static, scale: static, align: static):
    """One dim of a floating tensor, with 2 or 4 reads per output."""
    out = None
    n = x.shape[dim]
    for at, w in reads(s, i[dim], n, size, kind, scale, align, x.dtype):
        part = s.cast(x(*i[:dim], s.indirect(at, n, check=False), *i[dim + 1 :]), x.dtype.compute) * w
        out = part if out is None else out + part
    return s.cast(out, x.dtype)


@resample.numpy
def _(x, dim, size, kind, scale, align):
    return linear_filter.apply(x, dim, _taps(x.shape[dim], size, kind, scale, align, x.dtype))


@resample.calls
def _(c, outs, x, dim, size, kind, scale, align):
    dtype = x.dtype.numpy
    return linear_filter.call(c, outs[0], x, dim, lambda: _taps(x.shape[dim], size, kind, scale, align, dtype))


@resample.grad("x")
def _(g, x: Meta, dim, size, kind, scale, align):
    return resample_backward(x.shape[dim], g, dim, kind, scale, align)


@scatter(
    mode="add",
    promote="same",
    ranges=lambda n, slope, dim, kind, *rest: (*slope.shape, COUNT[kind]),
    meta=lambda n, slope, dim, *rest: image_like(slope, _sizes(slope, dim, n)),
)
def resample_backward(s, i, n: size, slope: tensor, dim: static, kind: static, scale: static, align: static):
    """The adjoint of `resample`: `n` is the size of the dim before."""
    *i, k = i
    at = weight = None
    found = reads(s, i[dim], n, slope.shape[dim], kind, scale, align, slope.dtype)
    for number, (index, w) in enumerate(found):
        chosen = s.eq(s.index(k), number)
        at = index if at is None else s.where(chosen, index, at)
        weight = w if weight is None else s.where(chosen, w, weight)
    part = s.cast(slope(*i), slope.dtype.compute) * weight
    return (*i[:dim], s.indirect(at, n, check=False), *i[dim + 1 :]), s.cast(part, slope.dtype)


@resample_backward.numpy
def _(n, slope, dim, kind, scale, align):
    return linear_filter.apply(slope, dim, _adjoint(n, slope.shape[dim], kind, scale, align, slope.dtype))


@resample_backward.calls
def _(c, outs, n, slope, dim, kind, scale, align):
    dtype = slope.dtype.numpy
    return linear_filter.call(c, outs[0], slope, dim, lambda: _adjoint(n, slope.shape[dim], kind, scale, align, dtype))


@resample_backward.grad("slope")
def _(g, slope: Meta, dim, n, kind, scale, align):
    return resample(g, dim, slope.shape[dim], kind, scale, align)


resample.samples(
    lambda make: [
        (make(2, 3), 1, 6, "linear", None, False),
        (make(2, 5), 1, 3, "linear", None, True),
        (make(2, 3), 1, 4, "cubic", None, False),
        (make(2, 3, 4), 1, 7, "linear", 0.4, False),
        (make(5, 2), 0, 3, "cubic", None, True),
        (make(1, 3, 2, 2).permute(0, 3, 1, 2), 2, 6, "linear", None, False),
        (make(2, 3), 1, 1, "linear", None, True),
    ]
)
resample_backward.samples(lambda make: [(3, make(2, 6), 1, "linear", None, False), (5, make(2, 3), 1, "cubic", None, True)])


# -- antialiased: a filter stretched over what one output covers

REACH = {"linear": 1.0, "cubic": 2.0, "lanczos": 3.0}


# the same words for numpy's arrays and for tensors
_WORDS = types.SimpleNamespace(where=where, sin=sin, floor=floor, absolute=absolute)


def _filter(s, x, kind):
    """The kernel at distances x >= 0: a triangle, Keys' cubic with -1/2, or Lanczos' windowed sinc."""
    if kind == "linear":
        return s.where(x < 1.0, 1.0 - x, 0.0)
    if kind == "lanczos":
        return s.where(x < 3.0, _sinc(s, x) * _sinc(s, x / 3.0), 0.0)
    near = (x * 1.5 - 2.5) * x * x + 1.0
    far = (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5
    return s.where(x < 1.0, near, s.where(x < 2.0, far, 0.0))


def _sinc(s, x):
    turn = s.where(x == 0.0, 1.0, x) * math.pi
    return s.where(x == 0.0, 1.0, s.sin(turn) / turn)


def _ratio(n, size, scale, align):
    if align:
        return (n - 1) / (size - 1) if size > 1 else 0.0
    return n / size if scale is None else scale


def _weights(s, inputs, outputs, ratio, kind):
    """The filter of each output (a column) at each input (a row), not yet divided by its sum."""
    return _filter(s, s.absolute(inputs + 0.5 - (outputs + 0.5) * ratio) / max(ratio, 1.0), kind)


def _window(s, inputs, outputs, ratio, kind):
    """Whether an output reads an input at all."""
    center, reach = (outputs + 0.5) * ratio, max(ratio, 1.0) * REACH[kind]
    return (inputs >= s.floor(center - reach + 0.5)) & (inputs < s.floor(center + reach + 0.5))


@composite
def antialias_weights(n: size, size: size, kind: static, scale: static, align: static, dtype: static, device: static):
    """(size, n): row o holds the weights of the inputs for output o; rows add up to 1."""
    weights = _weights(_WORDS, *_places(n, size, dtype, device), _ratio(n, size, scale, align), kind)
    return div(weights, sum_dims(weights, (1,), True))


@composite
def antialias_window(n: size, size: size, kind: static, scale: static, align: static, dtype: static, device: static):
    """(size, n): whether output o reads an input at all. The others' numbers are nothing to it, not even infinite ones."""
    return _window(_WORDS, *_places(n, size, dtype, device), _ratio(n, size, scale, align), kind)


def _places(n, size, dtype, device):
    return unsqueeze(arange(0, 1, n, dtype, device), 0), unsqueeze(arange(0, 1, size, dtype, device), 1)


@functools.lru_cache(256)
def _filter_taps(n, size, kind, scale, align, dtype):
    """The map of the filter, from the rows of its matrix."""
    of = np.arange(n, dtype=dtype)[None], np.arange(size, dtype=dtype)[:, None], _ratio(n, size, scale, align), kind
    weights, window = _weights(np, *of), np.broadcast_to(_window(np, *of), (size, n))
    return np.cumsum(window.sum(1)), np.ascontiguousarray(window.nonzero()[1]), (weights / weights.sum(1, keepdims=True))[window]


@functools.lru_cache(256)
def _filter_adjoint(n, size, kind, scale, align, dtype):
    return linear_filter.adjoint(_filter_taps(n, size, kind, scale, align, dtype), n)


def _weighed(x, dim, weights, window):
    """Sums over one dim of x times the rows of a matrix, of what lies in the rows' windows."""
    for _ in x.shape[dim + 1 :]:
        weights, window = unsqueeze(weights, len(weights.shape)), unsqueeze(window, len(window.shape))
    return sum_dims(where(window, mul(unsqueeze(x, dim), weights), 0.0), (dim + 1,), False)


@composite
def resample_filtered(x, dim: static, size: size, kind: static, scale: static, align: static):
    """One dim of a floating tensor through the filter, which reads a few elements per output."""
    of = (x.shape[dim], size, kind, scale, align, x.dtype, x.device)
    return _weighed(x, dim, antialias_weights(*of), antialias_window(*of))


@composite
def resample_filtered_backward(n: size, slope: tensor, dim: static, kind: static, scale: static, align: static):
    """The adjoint of `resample_filtered`: `n` is the size of the dim before."""
    of = (n, slope.shape[dim], kind, scale, align, slope.dtype, slope.device)
    return _weighed(slope, dim, transpose(antialias_weights(*of), 0, 1), transpose(antialias_window(*of), 0, 1))


@resample_filtered.meta
def _(x, dim, size, *rest):
    return image_like(x, _sizes(x, dim, size))


@resample_filtered_backward.meta
def _(n, slope, dim, *rest):
    return image_like(slope, _sizes(slope, dim, n))


@resample_filtered.numpy
def _(x, dim, size, kind, scale, align):
    return linear_filter.apply(x, dim, _filter_taps(x.shape[dim], size, kind, scale, align, x.dtype))


@resample_filtered_backward.numpy
def _(n, slope, dim, kind, scale, align):
    return linear_filter.apply(slope, dim, _filter_adjoint(n, slope.shape[dim], kind, scale, align, slope.dtype))


@resample_filtered.calls
def _(c, outs, x, dim, size, kind, scale, align):
    dtype = x.dtype.numpy
    return linear_filter.call(c, outs[0], x, dim, lambda: _filter_taps(x.shape[dim], size, kind, scale, align, dtype))


@resample_filtered_backward.calls
def _(c, outs, n, slope, dim, kind, scale, align):
    dtype = slope.dtype.numpy
    return linear_filter.call(c, outs[0], slope, dim, lambda: _filter_adjoint(n, slope.shape[dim], kind, scale, align, dtype))


@resample_filtered.grad("x")
def _(g, x: Meta, dim, size, kind, scale, align):
    return resample_filtered_backward(x.shape[dim], g, dim, kind, scale, align)


@resample_filtered_backward.grad("slope")
def _(g, slope: Meta, dim, n, kind, scale, align):
    return resample_filtered(g, dim, slope.shape[dim], kind, scale, align)


resample_filtered.samples(
    lambda make: [
        (make(2, 3, 6), 2, 4, "linear", None, False),
        (make(2, 7, 2), 1, 3, "cubic", None, False),
        (make(1, 4), 1, 6, "linear", None, False),
        (make(2, 9, 2), 1, 4, "lanczos", None, False),
        (make(2, 9), 1, 3, "linear", None, True),
    ]
)
resample_filtered_backward.samples(
    lambda make: [(6, make(2, 3, 4), 2, "linear", None, False), (7, make(2, 3, 2), 1, "cubic", None, False)]
)
