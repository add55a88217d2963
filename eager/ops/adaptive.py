"""Adaptive pooling: output o of m pools the inputs floor(o n / m) .. ceil((o + 1) n / m) - 1 of n, in each of the last
dims. Windows differ by one in length, so loads past a window's end are masked."""

import functools

import numpy as np

from ...runtime import kernel_calls, kernels
from .. import dtypes
from ..op.gradient import Meta
from ..op.op import composite, indexed, mask, Out, reduction, size, static
from ..sizes import contiguous_strides, numel
from .upcast import back, single
from . import linear_filter
from .image_layout import empty_image, image_like, tidy
from .pooling import flat_last, lowest
from .resampling import nearest
from .creation import full
from .indexing import scatter_add
from .views import reshape


def _sizes(x, output_size):
    return tuple(x.shape[: len(x.shape) - len(output_size)]) + tuple(output_size)


def _spatial(x, output_size):
    return tuple(x.shape[len(x.shape) - len(output_size) :])


def _extents(inputs, outputs):
    """The longest window of each dim."""
    return tuple(
        (n + m - 1) // m + (0 if type(n) is int and type(m) is int and n % m == 0 else 1) for n, m in zip(inputs, outputs)
    )


def _spans(inputs, outputs):
    """The same without a look at remainders, so that positions in windows mean the same for symbolic sizes."""
    return tuple((n + m - 1) // m + 1 for n, m in zip(inputs, outputs))


def start_of(o, n, m):
    return (o * n) // m


def end_of(o, n, m):
    return ((o + 1) * n + m - 1) // m


def _window(s, i, r, x, output_size):
    """The input's index and a mask."""
    lead, inside, index = i[: len(i) - len(output_size)], None, []
    for o, k, n, m in zip(i[len(lead) :], r, _spatial(x, output_size), output_size):
        at = start_of(o, n, m) + k
        index.append(at)
        fits = s.lt(s.index(at), s.index(end_of(o, n, m)))
        inside = fits if inside is None else s.logical_and(inside, fits)
    return (*lead, *index), inside


def _sum_load(s, i, r, x, output_size):
    index, inside = _window(s, i, r, x, output_size)
    return x(*index, mask=inside, other=0)


@reduction(
    combine="sum",
    loop=_sum_load,
    ranges=lambda x, output_size: _extents(_spatial(x, output_size), output_size),
    meta=lambda x, output_size: image_like(x, _sizes(x, output_size)),
)
def windows_sum(s, x, output_size: size):
    return x


@functools.lru_cache(256)
def _taps(n, m):
    o = np.arange(m)
    return linear_filter.intervals(start_of(o, n, m), end_of(o, n, m))


@functools.lru_cache(256)
def _adjoint(n, m):
    return linear_filter.adjoint(_taps(n, m), n)


def _even(inputs, outputs):
    """Whether all windows of a dim are equally long and apart."""
    return all(type(n) is int and type(m) is int and m and n % m == 0 for n, m in zip(inputs, outputs))


@composite(meta=lambda x, output_size: image_like(x, _sizes(x, output_size)))
def adaptive_sum(x, output_size: size):
    """Windows that are equally long in one step, others one dim after the other: they are products of intervals."""
    if _even(_spatial(x, output_size), output_size):
        return windows_sum(x, output_size)
    for d, m in enumerate(output_size, len(x.shape) - len(output_size)):
        x = intervals_sum(x, d, m)
    return x


@adaptive_sum.numpy
@windows_sum.numpy
def _(x, output_size):
    y = x
    for d, m in enumerate(output_size, x.ndim - len(output_size)):
        y = linear_filter.apply(y, d, _taps(y.shape[d], m))
    return y


@adaptive_sum.grad("x")
@windows_sum.grad("x")
def _(g, x: Meta, output_size):
    return adaptive_spread(g, _spatial(x, output_size))


def _along(x, dim, n):
    return image_like(x, (*x.shape[:dim], n, *x.shape[dim + 1 :]))


def _interval_load(s, i, r, x, dim, size):
    n, o = x.shape[dim], i[dim]
    at = start_of(o, n, size) + r[0]
    return x(*i[:dim], at, *i[dim + 1 :], mask=s.lt(s.index(at), s.index(end_of(o, n, size))), other=0)


@reduction(combine="sum", loop=_interval_load, meta=_along, ranges=lambda x, dim, size: _extents((x.shape[dim],), (size,)))
def intervals_sum(s, x, dim: static, size: size):
    """`adaptive_sum` along one dim."""
    return x


@intervals_sum.numpy
def _(x, dim, size):
    return linear_filter.apply(x, dim, _taps(x.shape[dim], size))


@intervals_sum.calls
def _(c, outs, x, dim, size):
    return linear_filter.call(c, outs[0], x, dim, lambda: _taps(x.shape[dim], size))


@intervals_sum.grad("x")
def _(g, x: Meta, dim):
    return intervals_spread(g, dim, x.shape[dim])


@composite(meta=lambda slope, sizes: image_like(slope, _sizes(slope, sizes)))
def adaptive_spread(slope, sizes: size):
    """Each value added to all inputs of its window."""
    for d, n in enumerate(sizes, len(slope.shape) - len(sizes)):
        m = slope.shape[d]
        slope = nearest(slope, d, n, None, False) if _even((n,), (m,)) else intervals_spread(slope, d, n)
    return slope


@adaptive_spread.numpy
def _(slope, sizes):
    y = slope
    for d, n in enumerate(sizes, slope.ndim - len(sizes)):
        y = linear_filter.apply(y, d, _adjoint(n, y.shape[d]))
    return y


@adaptive_spread.grad("slope")
def _(g, slope: Meta, sizes):
    return adaptive_sum(g, _spatial(slope, sizes))


def _spread_load(s, i, r, slope, dim, size):
    """The r-th output whose window may cover input p: from floor(p m / n) on."""
    p, m = i[dim], slope.shape[dim]
    o = (p * m) // size + r[0]
    fits = s.logical_and(s.lt(s.index(o), s.index(m)), s.lt(s.index(o * size), s.index((p + 1) * m)))
    return slope(*i[:dim], o, *i[dim + 1 :], mask=fits, other=0)


@reduction(
    combine="sum", loop=_spread_load, meta=_along, ranges=lambda slope, dim, size: ((slope.shape[dim] + size - 1) // size + 1,)
)
def intervals_spread(s, slope, dim: static, size: size):
    """`adaptive_spread` along one dim."""
    return slope


@intervals_spread.numpy
def _(slope, dim, size):
    return linear_filter.apply(slope, dim, _adjoint(size, slope.shape[dim]))


@intervals_spread.calls
def _(c, outs, slope, dim, size):
    return linear_filter.call(c, outs[0], slope, dim, lambda: _adjoint(size, slope.shape[dim]))


@intervals_spread.grad("slope")
def _(g, slope: Meta, dim):
    return intervals_sum(g, dim, slope.shape[dim])


@indexed(meta=lambda x, sizes: image_like(x))
def adaptive_scale(s, i, x, sizes: size):
    """A sum divided by the number of inputs of its window."""
    count = None
    for o, n, m in zip(i[len(i) - len(sizes) :], sizes, _spatial(x, sizes)):
        length = s.cast(s.index(end_of(o, n, m) - start_of(o, n, m)), x.dtype.compute)
        count = length if count is None else count * length
    return x(*i) / s.cast(count, x.dtype)


@adaptive_scale.numpy
def _(x, sizes):
    out = empty_image(x, x.shape)
    return np.divide(x, _counts(sizes, x.shape[x.ndim - len(sizes) :], x.dtype), out=out)


@functools.lru_cache(256)
def _counts(inputs, outputs, dtype):
    """How many inputs each window has."""
    count = np.ones((), dtype)
    for d, (n, m) in enumerate(zip(inputs, outputs)):
        o = np.arange(m)
        count = count * (end_of(o, n, m) - start_of(o, n, m)).astype(dtype).reshape((-1,) + (1,) * (len(inputs) - 1 - d))
    return count


@adaptive_scale.grad("x")
def _(g, sizes):
    return adaptive_scale(g, sizes)


@composite
def adaptive_avg_pool(x, output_size: size):
    sizes = _spatial(x, output_size)
    return back(adaptive_scale(adaptive_sum(single(tidy(x)), output_size), sizes), x)


@adaptive_avg_pool.numpy
def _(x, output_size):
    if x.dtype.itemsize < 4 or not x.flags.c_contiguous:
        return NotImplemented
    y = x
    for d, m in enumerate(output_size, x.ndim - len(output_size)):
        y = linear_filter.apply(y, d, _taps(y.shape[d], m))
    return np.divide(y, _counts(_spatial(x, output_size), tuple(output_size), x.dtype))


@adaptive_avg_pool.meta
def _(x, output_size):
    return image_like(x, _sizes(x, output_size))


@adaptive_avg_pool.grad("x")
def _(g, x: Meta, output_size):
    sizes = _spatial(x, output_size)
    return back(adaptive_spread(adaptive_scale(single(tidy(g)), sizes), sizes), x)


adaptive_sum.samples(
    lambda make: [
        (make(2, 3, 5, 7), (3, 4)),
        (make(2, 6), (4,)),
        (make(2, 3, 4, 4), (2, 2)),
        (make(1, 4, 4, 3).permute(0, 3, 1, 2), (3, 1)),
        (make(1, 2, 3), (5,)),
    ]
)
windows_sum.samples(lambda make: [(make(2, 3, 4, 4), (2, 2)), (make(2, 6), (3,))])
intervals_sum.samples(lambda make: [(make(2, 7, 3), 1, 3), (make(2, 5), 1, 4), (make(1, 3), 1, 5)])
intervals_spread.samples(lambda make: [(make(2, 3, 4), 1, 7), (make(2, 4), 1, 6), (make(1, 5), 1, 3)])
adaptive_spread.samples(lambda make: [(make(2, 3, 4), (5, 7)), (make(2, 4), (6,)), (make(1, 5), (3,))])
adaptive_scale.samples(lambda make: [(make(2, 3, 4), (5, 7)), (make(2, 4), (6,))])
adaptive_avg_pool.samples(lambda make: [(make(2, 3, 5, 7), (3, 4)), (make(2, 6), (4,))])


# -- maxima


def _max_load(s, i, r, x, output_size):
    index, inside = _window(s, i, r, x, output_size)
    return x(*index, mask=inside, other=lowest(x.dtype))


def _max_meta(x, output_size):
    sizes = _sizes(x, output_size)
    return image_like(x, sizes), image_like(x, sizes, dtypes.int64)


@reduction(
    combine="argmax",
    loop=_max_load,
    outputs=("values", Out("place", differentiable=False)),
    meta=_max_meta,
    ranges=lambda x, output_size: _spans(_spatial(x, output_size), output_size),
)
def adaptive_max_pool(s, x, output_size: size):
    return x


@adaptive_max_pool.native
def _(x, output_size):
    if not isinstance(x, np.ndarray) or not kernels.are_contiguous_floats(x) or not x.size:
        return NotImplemented
    sizes, n = _spatial(x, output_size), len(output_size)
    if n > 3 or 0 in output_size:
        return NotImplemented
    steps = contiguous_strides(_spans(sizes, output_size))
    values = kernels.empty(_sizes(x, output_size), x.dtype)
    places = kernels.empty(values.shape, np.dtype(np.int64))
    ones = (1,) * (3 - n)
    kernels.run(
        "adaptive_max",
        x.dtype,
        numel(x.shape[: x.ndim - n]),
        kernels.grain_of(numel(sizes)),
        (values, places, x),
        (*ones, *sizes, *ones, *output_size, *ones, *steps),
    )
    return values, places


@adaptive_max_pool.calls
def _(c, outs, x, output_size):
    sizes, n = _spatial(x, output_size), len(output_size)
    if n > 3 or x.dtype.name not in kernel_calls.TYPES or c.is_empty(x) or c.is_empty(outs[0]):
        return None
    ones = (1,) * (3 - n)
    numbers = (*ones, *sizes, *ones, *output_size, *ones, *contiguous_strides(_spans(sizes, output_size)))
    return (
        kernel_calls.RuntimeCall(
            "adaptive_max",
            kernel_calls.TYPES[x.dtype.name],
            numel(x.shape[: len(x.shape) - n]),
            numel(sizes),
            (*outs, c.rows(x)),
            numbers,
        ),
    )


@adaptive_max_pool.grad("x")
def _(g, x: Meta, place, output_size):
    """Windows overlap, so gradients add up at flat indices."""
    sizes = _spatial(x, output_size)
    indices = adaptive_indices(place, sizes)
    return put_at(g, indices, tuple(x.shape), len(sizes))


def put_at(x, indices, shape, n):
    """Zeros of `shape` with x added at flat indices into its last n dims."""
    base = full(shape[: len(shape) - n] + (numel(shape[len(shape) - n :]),), 0, x.dtype, x.device)
    added = scatter_add(base, len(base.shape) - 1, flat_last(indices, n), flat_last(x, n))
    return reshape(added, shape)


@indexed(meta=lambda place, sizes: image_like(place), exclude=("place",), promote="long")
def adaptive_indices(s, i, place: mask, sizes: size):
    """Flat indices into the pooled dims, from positions in windows."""
    rest, flat = place(*i), None
    outputs = _spatial(place, sizes)
    o, extents = i[len(i) - len(sizes) :], _spans(sizes, outputs)
    for d in reversed(range(len(sizes))):
        k = rest % extents[d] if d else rest
        rest = rest // extents[d]
        part = (k + s.index(start_of(o[d], sizes[d], outputs[d]))) * s.index(contiguous_strides(sizes)[d])
        flat = part if flat is None else flat + part
    return flat


adaptive_max_pool.samples(
    lambda make: [
        (make(2, 3, 5, 7), (3, 4)),
        (make(2, 6), (4,)),
        (make(2, 3, 4, 4), (2, 2)),
        (make(1, 4, 4, 3).permute(0, 3, 1, 2), (3, 1)),
    ]
)
adaptive_indices.samples(lambda make: [(make.ints(9, 2, 3, 4), (5, 7)), (make.ints(2, 3, 4), (8,))])
