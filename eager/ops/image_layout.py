"""What records of (N, C, spatial...) share: memory order of results, windows over the last dims.

A window's tap is one of its positions; `taps` gives, per tap, which outputs and which inputs meet there.
"""

import itertools

import numpy as np

from ...runtime import native
from ..op.meta import Spec
from ..tensor import is_dense
from .views import contiguous_copy

_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def channels_last(x) -> bool:
    """A tensor with the channels innermost in memory (and not row-major as well)."""
    order = _LAST.get(len(x.shape))
    if order is None or x.is_contiguous():
        return False
    return is_dense(tuple(x.shape), x._fl_strides, order)


def image_like(x, sizes=None, dtype=None):
    """What is known of a result: channels last where x has them last, else row-major."""
    sizes = tuple(x.shape if sizes is None else sizes)
    return Spec(sizes, dtype or x.dtype, last_strides(sizes) if channels_last(x) else None)


def last_strides(sizes):
    strides, step = [0] * len(sizes), 1
    for d in reversed(_LAST[len(sizes)]):
        strides[d] = step
        if type(sizes[d]) is not int or sizes[d] > 1:
            step = step * sizes[d]
    return tuple(strides)


def tidy(x):
    """x with row-major memory, or channels last."""
    return x if x.is_contiguous() or channels_last(x) else contiguous_copy(x)


def array_is_last(x) -> bool:
    """The same question of an array."""
    order = _LAST.get(x.ndim)
    return order is not None and not x.flags.c_contiguous and x.transpose(order).flags.c_contiguous


def empty_image(x, sizes, dtype=None):
    """An array of these sizes in the memory order of the array x."""
    dtype = dtype or x.dtype
    if not array_is_last(x):
        return native.empty(tuple(sizes), np.dtype(dtype))
    order = _LAST[x.ndim]
    return native.empty(tuple([sizes[d] for d in order]), np.dtype(dtype)).transpose(np.argsort(order))


def ordered(out, x):
    """`out` in the memory order of x."""
    if out.flags.c_contiguous and not array_is_last(x):
        return out
    result = empty_image(x, out.shape, out.dtype)
    result[...] = out
    return result


# -- windows over the last dims


def pooled_size(n, kernel, stride, padding, dilation, ceil_mode):
    """Windows along a dim; with `ceil_mode` also a last one that is not whole, unless it starts in the padding."""
    room = n + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return room // stride + 1
    count = (room + stride - 1) // stride + 1
    return count - 1 if (count - 1) * stride >= n + padding else count


def pooled_sizes(shape, kernel, stride, padding, dilation, ceil_mode=False):
    lead = tuple(shape[: len(shape) - len(kernel)])
    each = zip(shape[len(lead) :], kernel, stride, padding, dilation)
    return lead + tuple([pooled_size(n, k, s, p, d, ceil_mode) for n, k, s, p, d in each])


def taps(inputs, outputs, kernel, stride, padding, dilation):
    """(number, slices of the outputs, slices of the inputs) per position of a window; both over the last dims."""
    for number, place in enumerate(itertools.product(*map(range, kernel))):
        pairs = [_meet(*a) for a in zip(place, inputs, outputs, stride, padding, dilation)]
        yield number, (..., *(a for a, _ in pairs)), (..., *(b for _, b in pairs))


def _meet(k, n, m, stride, padding, dilation):
    shift = k * dilation - padding
    low = max(0, -(shift // stride)) if shift < 0 else 0
    high = max(low, min(m, (n - 1 - shift) // stride + 1))
    start = low * stride + shift
    return slice(low, high), slice(start, start + (high - low) * stride, stride) if high > low else slice(0, 0)


def window_index(s, o, k, sizes, stride, padding, dilation, bounded):
    """The input's index under the window's position k of output o, and a mask (None: always inside)."""
    index, inside = [], None
    for at, place, n, step, pad, gap in zip(o, k, sizes, stride, padding, dilation):
        e = at * step + place * gap - pad
        index.append(e)
        if bounded or not (type(pad) is int and pad == 0):
            fits = s.logical_and(s.ge(s.index(e), 0), s.lt(s.index(e), s.index(n)))
            inside = fits if inside is None else s.logical_and(inside, fits)
    return tuple(index), inside


def candidates(kernel, stride, dilation):
    """How many windows can cover one input, per dim."""
    return tuple((d * (k - 1)) // s + 1 for k, s, d in zip(kernel, stride, dilation))


def covering(s, i, r, outputs, stride, padding):
    """The r-th window that may cover input i: its index, a mask of being one, and how far inside it i lies."""
    index, inside, offsets = [], None, []
    for at, back, m, step, pad in zip(i, r, outputs, stride, padding):
        e = (at + pad) // step - back
        index.append(e)
        offsets.append(s.index(at + pad - e * step))
        fits = s.logical_and(s.ge(s.index(e), 0), s.lt(s.index(e), s.index(m)))
        inside = fits if inside is None else s.logical_and(inside, fits)
    return tuple(index), inside, offsets
