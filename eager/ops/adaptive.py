"""Adaptive pooling: output o of m pools the inputs floor(o n / m) .. ceil((o + 1) n / m) - 1 of n, in each of the last
dims. Windows differ by one in length, so loads past a window's end are masked."""

import functools

import numpy as np

from ...runtime import jobs
from .. import dtypes
from ..grads import Meta
from ..op import composite, indexed, mask, Out, reduction, size
from ..prims import COMBINES
from ..sizes import contiguous_strides
from .halves import back, single
from . import taps
from .images import empty_image, image_like, tidy
from .pooling import flat_last
from .creation import full
from .indexing import scatter_add
from .views import reshape


def _sizes(x, output_size):
    return tuple(x.shape[:len(x.shape) - len(output_size)]) + tuple(output_size)


def _spatial(x, output_size):
    return tuple(x.shape[len(x.shape) - len(output_size):])


def _extents(inputs, outputs):
    """The longest window of each dim."""
    return tuple((n + m - 1) // m + (0 if type(n) is int and type(m) is int and n % m == 0 else 1)
                 for n, m in zip(inputs, outputs))


def _spans(inputs, outputs):
    """The same without a look at remainders, so that positions in windows mean the same for symbolic sizes."""
    return tuple((n + m - 1) // m + 1 for n, m in zip(inputs, outputs))


def start_of(o, n, m):
    return (o * n) // m


def end_of(o, n, m):
    return ((o + 1) * n + m - 1) // m


def _window(s, i, r, x, output_size):
    """The input's index and a mask."""
    lead, inside, index = i[:len(i) - len(output_size)], None, []
    for o, k, n, m in zip(i[len(lead):], r, _spatial(x, output_size), output_size):
        at = start_of(o, n, m) + k
        index.append(at)
        fits = s.lt(s.index(at), s.index(end_of(o, n, m)))
        inside = fits if inside is None else s.logical_and(inside, fits)
    return (*lead, *index), inside


def _sum_load(s, i, r, x, output_size):
    index, inside = _window(s, i, r, x, output_size)
    return x(*index, mask=inside, other=0)


@reduction(combine="sum", loop=_sum_load, ranges=lambda x, output_size: _extents(_spatial(x, output_size), output_size),
           meta=lambda x, output_size: image_like(x, _sizes(x, output_size)))
def adaptive_sum(s, x, output_size: size):
    return x


@functools.lru_cache(256)
def _taps(n, m):
    o = np.arange(m)
    return taps.intervals(start_of(o, n, m), end_of(o, n, m))


@functools.lru_cache(256)
def _adjoint(n, m):
    return taps.adjoint(_taps(n, m), n)


@adaptive_sum.numpy
def _(x, output_size):
    """One dim after the other: windows are products of intervals."""
    y = x
    for d, m in enumerate(output_size, x.ndim - len(output_size)):
        y = taps.apply(y, d, _taps(y.shape[d], m))
    return y


@adaptive_sum.grad("x")
def _(g, x: Meta, output_size):
    return adaptive_spread(g, _spatial(x, output_size))


def _spread_load(s, i, r, slope, sizes):
    """The r-th output whose window may cover input p: from floor(p m / n) on."""
    lead, inside, index = i[:len(i) - len(sizes)], None, []
    for p, k, n, m in zip(i[len(lead):], r, sizes, _spatial(slope, sizes)):
        o = (p * m) // n + k
        index.append(o)
        fits = s.logical_and(s.lt(s.index(o), s.index(m)), s.lt(s.index(o * n), s.index((p + 1) * m)))
        inside = fits if inside is None else s.logical_and(inside, fits)
    return slope(*lead, *index, mask=inside, other=0)


@reduction(combine="sum", loop=_spread_load,
           ranges=lambda slope, sizes: tuple((m + n - 1) // n + 1 for n, m in zip(sizes, _spatial(slope, sizes))),
           meta=lambda slope, sizes: image_like(slope, _sizes(slope, sizes)))
def adaptive_spread(s, slope, sizes: size):
    """Each value added to all inputs of its window."""
    return slope


@adaptive_spread.numpy
def _(slope, sizes):
    y = slope
    for d, n in enumerate(sizes, slope.ndim - len(sizes)):
        y = taps.apply(y, d, _adjoint(n, y.shape[d]))
    return y


@adaptive_spread.grad("slope")
def _(g, slope: Meta, sizes):
    return adaptive_sum(g, _spatial(slope, sizes))


@indexed(meta=lambda x, sizes: image_like(x))
def adaptive_scale(s, i, x, sizes: size):
    """A sum divided by the number of inputs of its window."""
    count = None
    for o, n, m in zip(i[len(i) - len(sizes):], sizes, _spatial(x, sizes)):
        length = s.index(end_of(o, n, m) - start_of(o, n, m))
        count = length if count is None else count * length
    return x(*i) / s.cast(count, x.dtype)


@adaptive_scale.numpy
def _(x, sizes):
    out = empty_image(x, x.shape)
    count = np.ones((), x.dtype)
    for d, (n, m) in enumerate(zip(sizes, x.shape[x.ndim - len(sizes):])):
        o = np.arange(m)
        count = count * (end_of(o, n, m) - start_of(o, n, m)).astype(x.dtype).reshape((-1,) + (1,) * (len(sizes) - 1 - d))
    return np.divide(x, count, out=out)


@adaptive_scale.grad("x")
def _(g, sizes):
    return adaptive_scale(g, sizes)


@composite
def adaptive_avg_pool(x, output_size: size):
    sizes = _spatial(x, output_size)
    return back(adaptive_scale(adaptive_sum(single(tidy(x)), output_size), sizes), x)


@adaptive_avg_pool.grad("x")
def _(g, x: Meta, output_size):
    sizes = _spatial(x, output_size)
    return back(adaptive_spread(adaptive_scale(single(tidy(g)), sizes), sizes), x)


adaptive_sum.samples(lambda make: [(make(2, 3, 5, 7), (3, 4)), (make(2, 6), (4,)), (make(2, 3, 4, 4), (2, 2)),
                                   (make(1, 4, 4, 3).permute(0, 3, 1, 2), (3, 1)), (make(1, 2, 3), (5,))])
adaptive_spread.samples(lambda make: [(make(2, 3, 4), (5, 7)), (make(2, 4), (6,)), (make(1, 5), (3,))])
adaptive_scale.samples(lambda make: [(make(2, 3, 4), (5, 7)), (make(2, 4), (6,))])
adaptive_avg_pool.samples(lambda make: [(make(2, 3, 5, 7), (3, 4)), (make(2, 6), (4,))])


# -- maxima

def _lowest(dtype):
    return COMBINES["max"].identity(dtype)


def _max_load(s, i, r, x, output_size):
    index, inside = _window(s, i, r, x, output_size)
    return x(*index, mask=inside, other=_lowest(x.dtype))


def _max_meta(x, output_size):
    sizes = _sizes(x, output_size)
    return image_like(x, sizes), image_like(x, sizes, dtypes.int64)


@reduction(combine="argmax", loop=_max_load, outputs=("values", Out("place", differentiable=False)), meta=_max_meta,
           ranges=lambda x, output_size: _spans(_spatial(x, output_size), output_size))
def adaptive_max_pool(s, x, output_size: size):
    return x


@adaptive_max_pool.native
def _(x, output_size):
    if not isinstance(x, np.ndarray) or not jobs.plain(x) or not x.size:
        return NotImplemented
    sizes, n = _spatial(x, output_size), len(output_size)
    if n > 3 or 0 in output_size:
        return NotImplemented
    steps = contiguous_strides(_spans(sizes, output_size))
    values = jobs.empty(_sizes(x, output_size), x.dtype)
    places = jobs.empty(values.shape, np.dtype(np.int64))
    ones = (1,) * (3 - n)
    jobs.run("adaptive_max", x.dtype, _numel(x.shape[:x.ndim - n]), jobs.grain_of(_numel(sizes)), (values, places, x),
             (*ones, *sizes, *ones, *output_size, *ones, *steps))
    return values, places


@adaptive_max_pool.grad("x")
def _(g, x: Meta, place, output_size):
    """Windows overlap, so gradients add up at flat indices."""
    sizes = _spatial(x, output_size)
    indices = adaptive_indices(place, sizes)
    return put_at(g, indices, tuple(x.shape), len(sizes))


def put_at(x, indices, shape, n):
    """Zeros of `shape` with x added at flat indices into its last n dims."""
    base = full(shape[:len(shape) - n] + (_numel(shape[len(shape) - n:]),), 0, x.dtype, x.device)
    added = scatter_add(base, len(base.shape) - 1, flat_last(indices, n), flat_last(x, n))
    return reshape(added, shape)


def _numel(sizes):
    total = 1
    for n in sizes:
        total = total * n
    return total


@indexed(meta=lambda place, sizes: image_like(place), exclude=("place",), promote="long")
def adaptive_indices(s, i, place: mask, sizes: size):
    """Flat indices into the pooled dims, from positions in windows."""
    rest, flat = place(*i), None
    outputs = _spatial(place, sizes)
    o, extents = i[len(i) - len(sizes):], _spans(sizes, outputs)
    for d in reversed(range(len(sizes))):
        k = rest % extents[d] if d else rest
        rest = rest // extents[d]
        part = (k + s.index(start_of(o[d], sizes[d], outputs[d]))) * s.index(contiguous_strides(sizes)[d])
        flat = part if flat is None else flat + part
    return flat


adaptive_max_pool.samples(lambda make: [(make(2, 3, 5, 7), (3, 4)), (make(2, 6), (4,)), (make(2, 3, 4, 4), (2, 2)),
                                        (make(1, 4, 4, 3).permute(0, 3, 1, 2), (3, 1))])
adaptive_indices.samples(lambda make: [(make.ints(9, 2, 3, 4), (5, 7)), (make.ints(2, 3, 4), (8,))])
