"""Pooling over windows of the last dims: reductions whose loads are masked at the border.

Maxima remember the position in the window; the gradient is a reduction too: an input adds up the gradients of the few
windows that cover it and picked it. Averages are sums times a factor that depends on the output's place at most.
"""

import numpy as np

from .. import _call, dtypes
from ..op.gradient import Meta
from ..op.op import composite, indexed, mask, Out, reduction, size, static
from ..op.prims import COMBINES
from ..sizes import contiguous_strides, numel
from .arithmetic import div
from .upcast import back, single
from .image_layout import candidates, covering, empty_image, image_like, ordered, pooled_sizes, taps, tidy, window_index
from .indexing import gather
from .pooling_kernels import (
    max_backward_calls,
    max_calls,
    max_windows,
    max_windows_backward,
    sum_backward_calls,
    sum_calls,
    sum_windows,
    sum_windows_backward,
)
from .views import reshape


def lowest(dtype):
    return COMBINES["max"].identity(dtype)


def _spatial(x, kernel):
    return tuple(x.shape[len(x.shape) - len(kernel) :])


# -- maxima


def _max_sizes(x, kernel_size, stride, padding, dilation, ceil_mode):
    return pooled_sizes(x.shape, kernel_size, stride, padding, dilation, ceil_mode)


def _max_load(s, i, r, x, kernel_size, stride, padding, dilation, ceil_mode):
    n = len(kernel_size)
    lead, o = i[: len(i) - n], i[len(i) - n :]
    index, inside = window_index(s, o, r, _spatial(x, kernel_size), stride, padding, dilation, ceil_mode)
    return x(*lead, *index) if inside is None else x(*lead, *index, mask=inside, other=lowest(x.dtype))


def _max_op(name, combine, outputs):
    def fn(s, x, kernel_size: static, stride: static, padding: static, dilation: static, ceil_mode: static):
        return x

    fn.__name__ = name

    def meta(x, *window):
        sizes = _max_sizes(x, *window)
        values = image_like(x, sizes)
        return values if outputs is None else (values, image_like(x, sizes, dtypes.int64))

    return reduction(
        fn, combine=combine, outputs=outputs, ranges=lambda x, kernel_size, *rest: kernel_size, loop=_max_load, meta=meta
    )


max_pool = _max_op("max_pool", "argmax", ("values", Out("place", differentiable=False)))
max_pool_values = _max_op("max_pool_values", "max", None)


@max_pool.native
def _(x, *window):
    return max_windows(x, _max_sizes(x, *window), window, True)


@max_pool_values.native
def _(x, *window):
    return max_windows(x, _max_sizes(x, *window), window, False)


@max_pool.calls
def _(c, outs, x, *window):
    return max_calls(c, outs[0], outs[1], x, window)


@max_pool_values.calls
def _(c, outs, x, *window):
    return max_calls(c, outs[0], None, x, window)


@max_pool.numpy
def _(x, kernel_size, stride, padding, dilation, ceil_mode):
    sizes = _max_sizes(x, kernel_size, stride, padding, dilation, ceil_mode)
    values, place = empty_image(x, sizes), empty_image(x, sizes, np.int64)
    values.fill(lowest(dtypes.from_numpy(x.dtype)))
    place.fill(-1)
    for number, o, i in taps(_spatial(x, kernel_size), sizes[-len(kernel_size) :], kernel_size, stride, padding, dilation):
        here, best, at = x[i], values[o], place[o]
        better = (here > best) | ((here != here) & (best == best)) | (at < 0)
        np.copyto(best, here, where=better)
        np.copyto(at, number, where=better)
    return values, place


@max_pool_values.numpy
def _(x, kernel_size, stride, padding, dilation, ceil_mode):
    sizes = _max_sizes(x, kernel_size, stride, padding, dilation, ceil_mode)
    values = empty_image(x, sizes)
    values.fill(lowest(dtypes.from_numpy(x.dtype)))
    for _, o, i in taps(_spatial(x, kernel_size), sizes[-len(kernel_size) :], kernel_size, stride, padding, dilation):
        np.maximum(values[o], x[i], out=values[o])
    return values


@max_pool.grad("x")
def _(g, x: Meta, place, kernel_size, stride, padding, dilation):
    return max_pool_backward(g, place, _spatial(x, kernel_size), kernel_size, stride, padding, dilation)


@max_pool_values.grad("x")
def _(g, x, kernel_size, stride, padding, dilation, ceil_mode):
    place = max_pool(x, kernel_size, stride, padding, dilation, ceil_mode)[1]
    return max_pool_backward(g, place, _spatial(x, kernel_size), kernel_size, stride, padding, dilation)


def _max_samples(make):
    return [
        (make(2, 3, 6, 5), (2, 2), (2, 2), (0, 0), (1, 1), False),
        (make(1, 2, 7, 7), (3, 3), (2, 2), (1, 1), (1, 1), False),
        (make(2, 6, 6), (3, 2), (1, 2), (1, 0), (2, 1), False),
        (make(3, 7), (2,), (2,), (0,), (1,), True),
        (make(1, 5, 4, 3).permute(0, 3, 1, 2), (2, 2), (1, 1), (1, 1), (1, 1), False),
        (make(1, 2, 4, 4, 3), (2, 2, 2), (2, 2, 1), (0, 1, 1), (1, 1, 1), False),
        (make.ints(9, 1, 2, 4, 4), (3, 3), (1, 1), (1, 1), (1, 1), True),
    ]


max_pool.samples(_max_samples)
max_pool_values.samples(_max_samples)


def _spread_sizes(g, sizes):
    return tuple(g.shape[: len(g.shape) - len(sizes)]) + tuple(sizes)


def _first(s, o, kernel_size, stride, padding, dilation):
    """The place of the first element in the window of output o: what a window of nothing but -inf has picked, whose place
    may be one of the padding before it."""
    number = s.index(0)
    for at, k, step, before, gap in zip(o, kernel_size, stride, padding, dilation):
        missing = s.maximum(s.index(before) - at * step, 0)
        number = number * k + (missing if gap == 1 else (missing + (gap - 1)) // gap)
    return number


def _max_spread(s, i, r, g, place, sizes, kernel_size, stride, padding, dilation):
    """The gradient of a window that covers input i, if i is what it picked."""
    n = len(kernel_size)
    lead, own = i[: len(i) - n], i[len(i) - n :]
    o, inside, offsets = covering(s, own, r, tuple(g.shape[len(g.shape) - n :]), stride, padding)
    number = s.index(0)
    for k, gap, offset in zip(kernel_size, dilation, offsets):
        fits = s.lt(offset, s.index(gap * (k - 1) + 1))
        if gap != 1:
            fits = s.logical_and(fits, s.eq(offset % gap, 0))
            offset = offset // gap
        inside = s.logical_and(inside, fits)
        number = number * k + offset
    own_place = place(*lead, *o, mask=inside, other=-1)
    if any(type(p) is not int or p for p in padding):
        own_place = s.maximum(own_place, _first(s, o, kernel_size, stride, padding, dilation))
    picked = s.eq(own_place, number)
    return s.where(picked, g(*lead, *o, mask=inside, other=0), s.const(0, g.dtype))


@reduction(
    combine="sum",
    loop=_max_spread,
    exclude=("place",),
    ranges=lambda g, place, sizes, kernel_size, stride, padding, dilation: candidates(kernel_size, stride, dilation),
    meta=lambda g, place, sizes, *window: image_like(g, _spread_sizes(g, sizes)),
)
def max_pool_backward(s, slope, place: mask, sizes: size, kernel_size: static, stride: static, padding: static, dilation: static):
    """Gradients of maxima, each put where its maximum was; `sizes`: of the dims that were pooled."""
    return slope


@max_pool_backward.native
def _(g, place, sizes, *window):
    found = _call.max_pool_backward(g, place, sizes, *window)
    if found is not NotImplemented:
        return found
    return max_windows_backward(g, place, _spread_sizes(g, sizes), window)


@max_pool_backward.calls
def _(c, outs, g, place, sizes, *window):
    return max_backward_calls(c, outs[0], g, place, sizes, window)


@max_pool_backward.numpy
def _(g, place, sizes, kernel_size, stride, padding, dilation):
    out = empty_image(g, _spread_sizes(g, sizes))
    out.fill(0)
    first = 0
    for n, k, step, before, gap in zip(g.shape[-len(sizes) :], kernel_size, stride, padding, dilation):
        first = np.expand_dims(first, -1) * k + (np.maximum(before - np.arange(n) * step, 0) + gap - 1) // gap
    place = np.maximum(place, first)
    for number, o, i in taps(sizes, g.shape[-len(sizes) :], kernel_size, stride, padding, dilation):
        out[i] += np.where(place[o] == number, g[o], g.dtype.type(0))
    return out


@max_pool_backward.grad("slope")
def _(g, place, sizes, kernel_size, stride, padding, dilation):
    return at_maxima(g, max_indices(place, sizes, kernel_size, stride, padding, dilation), len(sizes))


def at_maxima(x, indices, n):
    """x at flat indices into its last n dims."""
    flat = flat_last(x, n)
    picked = gather(flat, len(flat.shape) - 1, flat_last(indices, n))
    return reshape(picked, tuple(indices.shape))


def flat_last(x, n):
    lead = tuple(x.shape[: len(x.shape) - n])
    return reshape(x, (*lead, numel(x.shape[len(lead) :])))


@max_pool_backward.samples
def _(make):
    return [
        (make(2, 3, 2), make.ints(4, 2, 3, 2), (6, 5), (2, 2), (2, 2), (0, 0), (1, 1)),
        (make(2, 4, 4), make.ints(2, 2, 4, 4) + 4, (8, 8), (3, 3), (2, 2), (1, 1), (1, 1)),
        (make(1, 1, 4), make.ints(2, 1, 1, 4), (8,), (2,), (2,), (0,), (1,)),
        (make(2, 2), make.ints(2, 2, 2), (6,), (2,), (2,), (0,), (3,)),
        (make(2, 3, 3), make.ints(1, 2, 3, 3), (4, 4), (2, 2), (2, 2), (1, 1), (1, 1)),
        (make(2, 2, 2), make.ints(1, 2, 2, 2), (4, 4), (2, 2), (2, 2), (1, 1), (2, 2)),
    ]


@indexed(meta=lambda place, sizes, *window: image_like(place), exclude=("place",), promote="long")
def max_indices(s, i, place: mask, sizes: size, kernel_size: static, stride: static, padding: static, dilation: static):
    """Flat indices into the pooled dims, from positions in windows."""
    rest, flat = place(*i), None
    o = i[len(i) - len(kernel_size) :]
    for d in reversed(range(len(kernel_size))):
        k = rest % kernel_size[d] if d else rest
        rest = rest // kernel_size[d]
        at = k * dilation[d] + s.index(o[d] * stride[d] - padding[d])
        within = 0 if dilation[d] == 1 else (at + dilation[d] * padding[d]) % dilation[d]  # of nothing but -inf: its first
        at = s.minimum(s.where(s.lt(at, 0), within, at), s.index(sizes[d] - 1))
        part = at * s.index(contiguous_strides(sizes)[d])
        flat = part if flat is None else flat + part
    return flat


max_indices.native(_call.max_indices)
max_indices.samples(
    lambda make: [
        (make.ints(9, 2, 4, 4), (7, 7), (3, 3), (2, 2), (1, 1), (1, 1)),
        (make.ints(2, 3, 4), (8,), (2,), (2,), (0,), (1,)),
        (make.ints(1, 2, 2, 2), (4, 4), (2, 2), (2, 2), (1, 1), (2, 2)),
    ]
)


# -- sums and averages


def _sum_load(s, i, r, x, kernel_size, stride, padding, ceil_mode):
    n = len(kernel_size)
    lead, o = i[: len(i) - n], i[len(i) - n :]
    index, inside = window_index(s, o, r, _spatial(x, kernel_size), stride, padding, (1,) * n, ceil_mode)
    return x(*lead, *index) if inside is None else x(*lead, *index, mask=inside, other=0)


def _sum_sizes(x, kernel_size, stride, padding, ceil_mode):
    return pooled_sizes(x.shape, kernel_size, stride, padding, (1,) * len(kernel_size), ceil_mode)


@reduction(
    combine="sum",
    loop=_sum_load,
    ranges=lambda x, kernel_size, *rest: kernel_size,
    meta=lambda x, *window: image_like(x, _sum_sizes(x, *window)),
)
def window_sum(s, x, kernel_size: static, stride: static, padding: static, ceil_mode: static):
    return x


@window_sum.numpy
def _(x, kernel_size, stride, padding, ceil_mode):
    sizes = _sum_sizes(x, kernel_size, stride, padding, ceil_mode)
    out = empty_image(x, sizes)
    out.fill(0)
    for _, o, i in taps(
        _spatial(x, kernel_size), sizes[-len(kernel_size) :], kernel_size, stride, padding, (1,) * len(kernel_size)
    ):
        out[o] += x[i]
    return out


@window_sum.calls
def _(c, outs, x, kernel_size, stride, padding, ceil_mode):
    return sum_calls(c, outs[0], x, (kernel_size, stride, padding), 1, True)


@window_sum.grad("x")
def _(g, x: Meta, kernel_size, stride, padding, ceil_mode):
    return window_spread(g, _spatial(x, kernel_size), kernel_size, stride, padding, ceil_mode)


def _sum_spread(s, i, r, g, sizes, kernel_size, stride, padding, ceil_mode):
    n = len(kernel_size)
    lead, own = i[: len(i) - n], i[len(i) - n :]
    o, inside, offsets = covering(s, own, r, tuple(g.shape[len(g.shape) - n :]), stride, padding)
    for k, offset in zip(kernel_size, offsets):
        inside = s.logical_and(inside, s.lt(offset, s.index(k)))
    return g(*lead, *o, mask=inside, other=0)


@reduction(
    combine="sum",
    loop=_sum_spread,
    ranges=lambda g, sizes, kernel_size, stride, *rest: candidates(kernel_size, stride, (1,) * len(kernel_size)),
    meta=lambda g, sizes, *window: image_like(g, _spread_sizes(g, sizes)),
)
def window_spread(s, slope, sizes: size, kernel_size: static, stride: static, padding: static, ceil_mode: static):
    """Each value added to all inputs of its window."""
    return slope


@window_spread.numpy
def _(g, sizes, kernel_size, stride, padding, ceil_mode):
    out = empty_image(g, _spread_sizes(g, sizes))
    out.fill(0)
    for _, o, i in taps(sizes, g.shape[-len(sizes) :], kernel_size, stride, padding, (1,) * len(sizes)):
        out[i] += g[o]
    return out


@window_spread.calls
def _(c, outs, g, sizes, kernel_size, stride, padding, ceil_mode):
    return sum_backward_calls(c, outs[0], g, sizes, (kernel_size, stride, padding), 1, True)


@window_spread.grad("slope")
def _(g, kernel_size, stride, padding, ceil_mode):
    return window_sum(g, kernel_size, stride, padding, ceil_mode)


_WINDOWS = (((2, 2), (2, 2), (0, 0), False), ((3, 3), (2, 2), (1, 1), False), ((3, 2), (1, 2), (1, 0), True))
window_sum.samples(
    lambda make: (
        [(make(2, 3, 6, 7), *window) for window in _WINDOWS]
        + [(make(3, 7), (2,), (2,), (0,), True), (make(1, 5, 4, 3).permute(0, 3, 1, 2), *_WINDOWS[1])]
    )
)
window_spread.samples(
    lambda make: [
        (make(2, 3, 3), (6, 7), *_WINDOWS[0]),
        (make(2, 3, 4), (6, 7), *_WINDOWS[1]),
        (make(1, 4), (7,), (2,), (2,), (0,), True),
    ]
)


@indexed(meta=lambda x, sizes, *window: image_like(x))
def window_scale(s, i, x, sizes: size, kernel_size: static, stride: static, padding: static, count_include_pad: static):
    """A sum divided by the number of inputs (or also of padding) under its window."""
    count, kind = None, x.dtype.compute
    for o, n, k, step, pad in zip(i[len(i) - len(sizes) :], sizes, kernel_size, stride, padding):
        start = s.index(o * step - pad)
        if count_include_pad:
            length = s.minimum(start + k, s.index(n + pad)) - start
        else:
            length = s.minimum(start + k, s.index(n)) - s.maximum(start, 0)
        count = s.cast(length, kind) if count is None else count * s.cast(length, kind)
    return x(*i) / s.cast(count, x.dtype)


@window_scale.numpy
def _(x, sizes, kernel_size, stride, padding, count_include_pad):
    return ordered(x / window_counts(x.shape, sizes, kernel_size, stride, padding, count_include_pad).astype(x.dtype), x)


def window_counts(shape, sizes, kernel_size, stride, padding, count_include_pad):
    """The divisor of each output, over the last dims."""
    count = np.ones((), np.int64)
    for d, (m, n, k, step, pad) in enumerate(zip(shape[-len(sizes) :], sizes, kernel_size, stride, padding)):
        start = np.arange(m) * step - pad
        length = np.minimum(start + k, n + pad) - start if count_include_pad else np.minimum(start + k, n) - np.maximum(start, 0)
        count = count * length.reshape((-1,) + (1,) * (len(sizes) - 1 - d))
    return count


@window_scale.grad("x")
def _(g, sizes, kernel_size, stride, padding, count_include_pad):
    return window_scale(g, sizes, kernel_size, stride, padding, count_include_pad)


window_scale.samples(
    lambda make: [(make(2, 3, 4), (6, 7), (3, 3), (2, 2), (1, 1), False), (make(1, 4), (7,), (2,), (2,), (0,), True)]
)


def _uniform(padding, ceil_mode, count_include_pad):
    """Every output is divided by the window's size."""
    return not ceil_mode and (count_include_pad or all(type(p) is int and p == 0 for p in padding))


def _averaged(y, sizes, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor):
    if divisor is not None:
        return div(y, divisor)
    if _uniform(padding, ceil_mode, count_include_pad):
        return div(y, numel(kernel_size))
    return window_scale(y, sizes, kernel_size, stride, padding, count_include_pad)


@composite
def avg_pool(
    x, kernel_size: static, stride: static, padding: static, ceil_mode: static, count_include_pad: static, divisor: static
):
    """Means over windows, in float32 for halves."""
    y = window_sum(single(tidy(x)), kernel_size, stride, padding, ceil_mode)
    return back(_averaged(y, _spatial(x, kernel_size), kernel_size, stride, padding, ceil_mode, count_include_pad, divisor), x)


@avg_pool.meta
def _(x, kernel_size, stride, padding, ceil_mode, *rest):
    return image_like(x, _sum_sizes(x, kernel_size, stride, padding, ceil_mode))


@avg_pool.native
def _(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor):
    sizes = _sum_sizes(x, kernel_size, stride, padding, ceil_mode)
    return sum_windows(x, sizes, (kernel_size, stride, padding), divisor or 0, count_include_pad)


@avg_pool.calls
def _(c, outs, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor):
    return sum_calls(c, outs[0], x, (kernel_size, stride, padding), divisor, count_include_pad)


@avg_pool.grad("x")
def _(g, x: Meta, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor):
    return avg_pool_backward(g, _spatial(x, kernel_size), kernel_size, stride, padding, ceil_mode, count_include_pad, divisor)


@composite
def avg_pool_backward(
    g,
    sizes: size,
    kernel_size: static,
    stride: static,
    padding: static,
    ceil_mode: static,
    count_include_pad: static,
    divisor: static,
):
    y = _averaged(single(tidy(g)), sizes, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor)
    return back(window_spread(y, sizes, kernel_size, stride, padding, ceil_mode), g)


@avg_pool_backward.meta
def _(g, sizes, *window):
    return image_like(g, _spread_sizes(g, sizes))


@avg_pool_backward.native
def _(g, sizes, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor):
    found = _call.avg_pool_backward(g, sizes, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor)
    if found is not NotImplemented:
        return found
    return sum_windows_backward(g, _spread_sizes(g, sizes), (kernel_size, stride, padding), divisor or 0, count_include_pad)


@avg_pool_backward.calls
def _(c, outs, g, sizes, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor):
    return sum_backward_calls(c, outs[0], g, sizes, (kernel_size, stride, padding), divisor, count_include_pad)


avg_pool.samples(
    lambda make: [
        (make(2, 3, 6, 7), (2, 2), (2, 2), (0, 0), False, True, None),
        (make(2, 6, 7), (3, 3), (2, 2), (1, 1), False, False, None),
        (make(2, 6, 7), (3, 3), (2, 2), (1, 1), True, True, None),
        (make(1, 2, 7), (3,), (2,), (1,), False, True, 2),
        (make(1, 5, 4, 3).permute(0, 3, 1, 2), (2, 2), (2, 2), (1, 1), False, False, None),
        (make(1, 2, 3, 4, 4), (2, 2, 2), (1, 2, 2), (1, 0, 0), False, True, None),
    ]
)
