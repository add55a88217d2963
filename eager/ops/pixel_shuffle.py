"""Shuffles: pixels between channels and places, channels between groups, rows onto diagonals. Each is another one's gradient."""

import numpy as np

from ..op.op import composite, size, static
from .creation import full
from .views import contiguous_copy, diagonal, permute, reshape, transpose


def _regrouped(x, sizes, order, result):
    return reshape(contiguous_copy(permute(reshape(x, sizes), order)), result)


def _up(shape, r):
    """(sizes in parts, their order, sizes of the result) of a pixel shuffle."""
    *lead, c, h, w = shape
    n = len(lead)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return (*lead, c // (r * r), r, r, h, w), order, (*lead, c // (r * r), h * r, w * r)


def _down(shape, r):
    """The same of its inverse."""
    *lead, c, h, w = shape
    n = len(lead)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return (*lead, c, h // r, r, w // r, r), order, (*lead, c * r * r, h // r, w // r)


@composite
def pixel_shuffle(x, factor: static):
    """(..., C * r * r, H, W) to (..., C, H * r, W * r)."""
    return _regrouped(x, *_up(x.shape, factor))


@composite
def pixel_unshuffle(x, factor: static):
    """(..., C, H * r, W * r) to (..., C * r * r, H, W)."""
    return _regrouped(x, *_down(x.shape, factor))


def _array_regrouped(x, sizes, order, result):
    return np.ascontiguousarray(x.reshape(sizes).transpose(order)).reshape(result)


@pixel_shuffle.numpy
def _(x, factor):
    return _array_regrouped(x, *_up(x.shape, factor))


@pixel_unshuffle.numpy
def _(x, factor):
    return _array_regrouped(x, *_down(x.shape, factor))


@pixel_shuffle.grad("x")
def _(g, factor):
    return pixel_unshuffle(g, factor)


@pixel_unshuffle.grad("x")
def _(g, factor):
    return pixel_shuffle(g, factor)


@composite
def channel_shuffle(x, groups: size):
    """Channels (groups, each) become (each, groups)."""
    n, c, *rest = x.shape
    return reshape(contiguous_copy(transpose(reshape(x, (n, groups, c // groups, *rest)), 1, 2)), (n, c, *rest))


@channel_shuffle.numpy
def _(x, groups):
    n, c, *rest = x.shape
    return np.ascontiguousarray(x.reshape(n, groups, c // groups, *rest).swapaxes(1, 2)).reshape(x.shape)


@channel_shuffle.grad("x")
def _(g, groups):
    return channel_shuffle(g, g.shape[1] // groups)


def _planes(shape, offset, dim1, dim2):
    """The sizes of a tensor whose planes have rows of this shape on a diagonal."""
    *sizes, n = shape
    sizes.insert(dim1, n + abs(offset))
    sizes.insert(dim2, n + abs(offset))
    return tuple(sizes)


@composite
def diag_embed(x, offset: static, dim1: static, dim2: static):
    """Zeros with rows of x on the diagonals of the planes of two dims, of which the first is the smaller one."""
    return diagonal.put(full(_planes(x.shape, offset, dim1, dim2), 0, x.dtype, x.device), x, offset, dim1, dim2)


@diag_embed.numpy
def _(x, offset, dim1, dim2):
    out = np.zeros(_planes(x.shape, offset, dim1, dim2), x.dtype)
    place = out.diagonal(offset, dim1, dim2)
    place.flags.writeable = True
    place[...] = x
    return out


@diag_embed.grad("x")
def _(g, offset, dim1, dim2):
    return diagonal(g, offset, dim1, dim2)


pixel_shuffle.samples(lambda make: [(make(2, 8, 2, 3), 2), (make(9, 2, 1), 3), (make(1, 2, 4, 1, 2), 2)])
pixel_unshuffle.samples(lambda make: [(make(2, 2, 4, 6), 2), (make(1, 6, 3), 3)])
channel_shuffle.samples(lambda make: [(make(2, 6, 2, 3), 3), (make(1, 4, 5), 2)])
diag_embed.samples(lambda make: [(make(3), 0, 0, 1), (make(2, 3), 1, 1, 2), (make(2, 3), -2, 0, 2), (make(3, 2), 0, 0, 1)])
