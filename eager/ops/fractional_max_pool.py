"""Maxima over windows whose starts are drawn: one sample per image, channel and dim."""

from typing import Any

from .. import _call, dtypes
from ..op.gradient import Meta
from ..op.meta import Spec
from ..op.op import composite, mask, Out, static
from ..sizes import numel
from .creation import arange, full
from .indexing import gather, scatter_add
from .views import reshape


def _starts(sample, n, m, k):
    """Where the windows of a dim start, per sample and channel: (N, C, m)."""
    if m == 1:
        return sample.new_zeros((*sample.shape, 1)).long() + (n - k)
    alpha = (n - k) / (m - 1)
    places = arange(0, 1, m, dtypes.int64, sample.device)
    steps = places.to(sample.dtype)
    starts = ((steps + sample.unsqueeze(-1)) * alpha).long() - (sample * alpha).long().unsqueeze(-1)
    return starts.masked_fill(places == m - 1, n - k)


@composite(outputs=("values", Out("places", differentiable=False)), refuses=True)
def fractional_max(x, samples: mask, kernel_size: static, sizes: static):
    """(maxima, their flat places in the pooled dims) of windows given by flat indices (N, C, window, outputs): the outputs last,
    for long inner loops."""
    n = len(kernel_size)
    flat: Any = None
    lead, own = tuple(x.shape[:2]), tuple(x.shape[2:])
    for d in range(n):
        # samples of an image come as (width, height), those of a volume as (time, height, width)
        column = n - 1 - d if n == 2 else d
        starts = _starts(samples[:, :, column], own[d], sizes[d], kernel_size[d]).to(x.device)
        at = starts.reshape(*lead, *(1,) * n, *(sizes[d] if e == d else 1 for e in range(n)))
        window = (kernel_size[d] if e == d else 1 for e in range(n))
        inner = arange(0, 1, kernel_size[d], dtypes.int64, x.device).reshape(1, 1, *window, *(1,) * n)
        flat = at + inner if flat is None else flat * own[d] + at + inner
    count = numel(kernel_size)
    flat = flat.expand(*lead, *kernel_size, *sizes).reshape(*lead, -1)
    picked = gather(x.reshape(*lead, -1), 2, flat).reshape(*lead, count, *sizes)
    values, place = picked.max(2)
    return values, flat.reshape(*lead, count, *sizes).gather(2, place.unsqueeze(2)).squeeze(2)


fractional_max.native(_call.fractional_max)


@fractional_max.meta
def _(x, samples, kernel_size, sizes):
    sizes = (*x.shape[:2], *sizes)
    return Spec(sizes, x.dtype), Spec(sizes, dtypes.int64)


@fractional_max.grad("x")
def _(g, x: Meta, places, kernel_size):
    lead, area = tuple(x.shape[:2]), numel(x.shape[2:])
    count = numel(g.shape[2:])
    zeros = full((*lead, area), 0, g.dtype, g.device)
    return reshape(scatter_add(zeros, 2, reshape(places, (*lead, count)), reshape(g, (*lead, count))), tuple(x.shape))


fractional_max.samples(
    lambda make: [
        (make(2, 3, 6, 7), make.probabilities(2, 3, 2), (2, 2), (3, 4)),
        (make(1, 2, 5, 4, 6), make.probabilities(1, 2, 3), (2, 1, 3), (3, 1, 2)),
    ]
)
