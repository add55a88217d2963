"""Copies that move elements: cat, stack, pad, flip, roll. Maps that read their index and load, masked, where they
like."""

import itertools
from typing import Any

import numpy as np

from ...runtime import copy_gather, native
from ..op.gradient import Meta
from ..op.meta import Spec, map_strides
from ..op.op import composite, indexed, scalar, size, static, tensors
from .image_layout import empty_image, image_like
from .views import slice_dim, unsqueeze


def _cat_sizes(parts, dim):
    length = parts[0].shape[dim]
    for x in parts[1:]:
        length = length + x.shape[dim]
    return (*parts[0].shape[:dim], length, *parts[0].shape[dim + 1 :])


@indexed(meta=_cat_sizes)
def cat(s, i, parts: tensors, dim: static):
    """Parts of one dtype, equal in all sizes but the one along `dim`."""
    start, value = 0, None
    for x in parts:
        at = i[dim] - start
        inside = s.logical_and(s.ge(s.index(at), 0), s.lt(s.index(at), s.index(x.shape[dim])))
        loaded = x(*i[:dim], at, *i[dim + 1 :], mask=inside, other=0)
        value = loaded if value is None else s.where(s.ge(s.index(at), 0), loaded, value)
        start = start + x.shape[dim]
    return value


@cat.native
def _(parts, dim):
    same = all(x.dtype == parts[0].dtype for x in parts)
    return copy_gather.concatenate(parts, dim) if same else NotImplemented


@cat.calls
def _(c, outs, parts, dim):
    return copy_gather.concatenate_calls(c, outs[0], parts, dim)


@cat.numpy
def _(parts, dim):
    return np.concatenate(parts, axis=dim)


@cat.grad("parts")
def _(g, parts: Meta, dim):
    metas: Any = parts  # one of each tensor
    grads, start = [], 0
    for x in metas:
        grads.append(slice_dim(g, dim, start, 1, x.shape[dim]))
        start = start + x.shape[dim]
    return tuple(grads)


@cat.samples
def _(make):
    return [
        ((make(2, 3), make(4, 3)), 0),
        ((make(2, 3), make(2, 1), make(2, 2)), 1),
        ((make(2, 0, 2), make(2, 3, 2)), 1),
        ((make(3, 2).t(), make(2, 3)), 0),
        ((make(4),), 0),
    ]


@composite
def stack(parts: tensors, dim: static):
    return cat(tuple(unsqueeze(x, dim) for x in parts), dim)


@stack.samples
def _(make):
    return [((make(2, 3), make(2, 3)), 0), ((make(2), make(2), make(2)), 1), ((make(), make()), 0), ((make(0, 2), make(0, 2)), 2)]


def _pad_sizes(x, padding, value):
    return tuple(n + before + after for n, (before, after) in zip(x.shape, padding))


@indexed(meta=lambda x, padding, value: image_like(x, _pad_sizes(x, padding, value)))
def pad(s, i, x, padding: size, value: scalar = 0):
    """`padding`: (before, after) for every dim; negative amounts cut off."""
    inside, index = None, []
    for at, n, (before, after) in zip(i, x.shape, padding):
        at = at - before
        if not (type(before) is int and type(after) is int and before <= 0 and after <= 0):
            fits = s.logical_and(s.ge(s.index(at), 0), s.lt(s.index(at), s.index(n)))
            inside = fits if inside is None else s.logical_and(inside, fits)
        index.append(at)
    return x(*index) if inside is None else x(*index, mask=inside, other=value)


@pad.numpy
def _(x, padding, value):
    out = empty_image(x, _pad_sizes(x, padding, value))
    out.fill(value)
    out[tuple(slice(max(b, 0), n - max(a, 0)) for n, (b, a) in zip(out.shape, padding))] = x[
        tuple(slice(max(-b, 0), n - max(-a, 0)) for n, (b, a) in zip(x.shape, padding))
    ]
    return out


@pad.grad("x")
def _(g, padding):
    return pad(g, tuple((-before, -after) for before, after in padding), 0)


@pad.samples
def _(make):
    return [
        (make(2, 3), ((1, 0), (0, 2)), 0.5),
        (make(4), ((-1, 2),), 0),
        (make(3, 4), ((-1, -1), (0, -2)), 0),
        (make(0, 2), ((1, 1), (0, 0)), 1.0),
    ]


def like(x, dtype=None):
    """What is known of a result in x's sizes and memory order."""
    sizes = tuple(x.shape)
    return Spec(sizes, dtype or x.dtype, map_strides(sizes, (x,)))


@indexed(meta=lambda x, dims: like(x))
def flip(s, i, x, dims: static):
    return x(*(x.shape[d] - 1 - at if d in dims else at for d, at in enumerate(i)))


@flip.numpy
def _(x, dims):
    turned = np.flip(x, dims)
    return copy_gather.copied(turned) if x.flags.c_contiguous else turned.copy(order="K")


@flip.grad("x")
def _(g, dims):
    return flip(g, dims)


flip.samples(
    lambda make: [(make(4, 3).t(), (1,)), (make(3, 4), (0,)), (make(2, 3, 2), (0, 2)), (make(3), ()), (make(0, 2), (1,))]
)


@indexed(meta=lambda x, shifts, dims: x.shape)
def roll(s, i, x, shifts: size, dims: static):
    index = list(i)
    for shift, d in zip(shifts, dims):
        index[d] = (index[d] - shift) % x.shape[d]
    return x(*index)


@roll.numpy
def _(x, shifts, dims):
    """Each dim is two runs that change places: blocks of all dims are moved at once."""
    moved = dict.fromkeys(dims, 0)
    for shift, d in zip(shifts, dims):
        moved[d] += shift
    runs = [(_WHOLE,)] * x.ndim  # of each dim: (where to, where from) of its runs
    for d, shift in moved.items():
        if (n := x.shape[d]) and (shift := shift % n):
            runs[d] = (slice(shift, None), slice(-shift)), (slice(shift), slice(-shift, None))
    out = native.empty(x.shape, x.dtype)
    for block in itertools.product(*runs):
        to, at = zip(*block)
        out[to] = x[at]
    return out


_WHOLE = slice(None), slice(None)


@roll.grad("x")
def _(g, shifts, dims):
    return roll(g, tuple(-n for n in shifts), dims)


roll.samples(lambda make: [(make(3, 4), (1,), (1,)), (make(3, 4), (-2, 5), (0, 1)), (make(5), (2,), (0,))])
