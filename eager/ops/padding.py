"""Padding with what the tensor itself holds: reflected, replicated or wrapped around. Constants are `rearrange.pad`.

`padding`: (before, after) for every dim; negative amounts cut off (not where the tensor is wrapped around).
"""

from typing import Any

import numpy as np

from ...runtime import native
from .. import _call
from ..op.gradient import Meta
from ..op.op import indexed, scatter, size, static, tensor
from ..op.prims import NUMPY
from ..sizes import is_int
from .image_layout import empty_image, image_like, ordered

_NUMPY_MODES: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _none(before, after):
    return is_int(before) and is_int(after) and type(before) is int and type(after) is int and before == 0 and after == 0


def _source(s, at, n, before, mode):
    """Where position `at` of the padded dim is read."""
    if mode == "circular":
        return (at - before + n) % n
    if mode == "replicate":
        return s.indirect(s.minimum(s.maximum(s.index(at - before), 0), s.index(n - 1)), n, check=False)
    mirrored = s.indirect(s.abs(s.index(at - before)), n, check=False)
    return n - 1 - s.indirect(s.abs(s.index(n - 1 - mirrored)), n, check=False)


def _sizes(shape, padding):
    return tuple(n + before + after for n, (before, after) in zip(shape, padding))


def _places(s, i, sizes, padding, mode):
    return tuple(at if _none(*pair) else _source(s, at, n, pair[0], mode) for at, n, pair in zip(i, sizes, padding))


@indexed(meta=lambda x, padding, mode: image_like(x, _sizes(x.shape, padding)), promote="keep")
def pad_edges(s, i, x, padding: size, mode: static):
    return x(*_places(s, i, x.shape, padding, mode))


pad_edges.native(_call.pad_edges)


@pad_edges.numpy
def _(x, padding, mode):
    whole = _padded(x, [(max(b, 0), max(a, 0)) for b, a in padding], mode)  # what is cut off is mirrored too
    kept = tuple(slice(max(-b, 0), n - max(-a, 0)) for n, (b, a) in zip(whole.shape, padding))
    return ordered(whole[kept], x)


def _padded(x, padding, mode):
    """numpy's pad by plain copies, one dim after the other; its own where a dim is walked more than once."""
    if not x.flags.c_contiguous or any(max(pair) > n - (mode == "reflect") for n, pair in zip(x.shape, padding)):
        return np.pad(x, padding, _NUMPY_MODES[mode])
    out = native.empty(tuple([n + b + a for n, (b, a) in zip(x.shape, padding)]), x.dtype)
    out[tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, padding))] = x
    for d, (n, (before, after)) in enumerate(zip(x.shape, padding)):
        y = out.swapaxes(0, d)
        end = before + n
        if mode == "reflect":
            y[:before], y[end:] = y[2 * before : before : -1], y[end - after - 1 : end - 1][::-1]
        elif mode == "replicate":
            y[:before], y[end:] = y[before : before + 1], y[end - 1 : end]
        else:
            y[:before], y[end:] = y[n:end], y[before : before + after]
    return out


@pad_edges.grad("x")
def _(g, x: Meta, padding, mode):
    return pad_edges_backward(tuple(x.shape), g, padding, mode)


def _check_belongs(sizes, slope, padding):
    """Sizes that do not belong to the gradient would have it added anywhere."""
    for n, (before, after), m in zip(sizes, padding, slope.shape):
        if type(n) is int and type(m) is int and n + before + after != m:
            raise RuntimeError(
                f"pad_edges_backward: a gradient of sizes {list(slope.shape)} is not that of a tensor of sizes "
                f"{list(sizes)} padded by {list(padding)}"
            )


def _unpadded_meta(sizes, slope, padding, mode):
    _check_belongs(sizes, slope, padding)
    return image_like(slope, sizes)


@scatter(mode="add", promote="same", ranges=lambda sizes, slope, *rest: slope.shape, meta=_unpadded_meta)
def pad_edges_backward(s, i, sizes: size, slope: tensor, padding: size, mode: static):
    """The gradients of all copies of an element, added up."""
    return _places(s, i, sizes, padding, mode), slope(*i)


pad_edges_backward.native(_call.pad_edges_backward)


@pad_edges_backward.numpy
def _(sizes, slope, padding, mode):
    _check_belongs(sizes, slope, padding)
    y = slope
    for d, (n, (before, after)) in enumerate(zip(sizes, padding)):
        if not _none(before, after):
            y = _unpadded(y, d, n, before, after, mode)
    return ordered(y.copy() if y is slope else y, slope)


def _unpadded(y, d, n, before, after, mode):
    def part(a, low, high):
        return a[(slice(None),) * d + (slice(low, high),)]

    out = empty_image(y, (*y.shape[:d], n, *y.shape[d + 1 :]))
    out.fill(0)
    length = y.shape[d]
    low, high = max(before, 0), length - max(after, 0)
    part(out, low - before, high - before)[...] = part(y, low, high)
    for at in (*range(low), *range(high, length)):
        place = int(_source(NUMPY, np.asarray(at), n, before, mode))
        part(out, place, place + 1)[...] += part(y, at, at + 1)
    return out


@pad_edges_backward.grad("slope")
def _(g, padding, mode):
    return pad_edges(g, padding, mode)


def _samples(make):
    return (
        [(make(2, 4), ((0, 0), (1, 2)), mode) for mode in _NUMPY_MODES]
        + [(make(1, 3, 4, 5), ((0, 0), (0, 0), (2, 1), (1, 3)), mode) for mode in _NUMPY_MODES]
        + [(make(2, 5), ((0, 0), pair), mode) for mode in ("reflect", "replicate") for pair in ((-1, 2), (4, -2))]
        + [(make(1, 3, 4, 2).permute(0, 3, 1, 2), ((0, 0), (0, 0), (1, 1), (1, 1)), "reflect")]
    )


pad_edges.samples(_samples)
pad_edges_backward.samples(
    lambda make: (
        [((2, 4), make(2, 7), ((0, 0), (1, 2)), mode) for mode in _NUMPY_MODES]
        + [((2, 5), make(2, 6), ((0, 0), (-1, 2)), mode) for mode in ("reflect", "replicate")]
    )
)
