"""Bags of rows looked up by integers, summed, averaged or maximised. Bag k has the indices from first[k] to first[k + 1]."""

import numpy as np

from ...runtime import moves
from .. import _call
from ..dtypes import finfo, float64, int64
from ..grads import Meta
from ..meta import Spec
from ..op import Out, composite, mask, optional, size, static
from .arithmetic import cast, clamp, div, eq, lt, maximum, mul, ne, where
from .creation import arange, full
from .indexing import (embedding_backward, embedding_lookup, gather, index_add, index_select, scatter_add,
                       scatter_extreme)
from .order import cumsum
from .reduce import sum as sum_dims
from .views import expand, slice_dim, unsqueeze


def bag_of(index, first):
    """The bag of each index: how many bags have begun, less one."""
    n, count = index.shape[0], first.shape[0] - 1
    ones = full((count,), 1, index.dtype, index.device)
    begun = index_add(full((n + 1,), 0, index.dtype, index.device), 0, slice_dim(first, 0, 0, 1, count), ones)
    return cumsum(slice_dim(begun, 0, 0, 1, n), 0) - 1


def _taken(index, skip, like):
    return where(ne(index, skip), full((), 1, like.dtype, like.device), full((), 0, like.dtype, like.device))


def _sizes(index, bag, skip, count, like):
    """How many rows each bag adds up, at least 1."""
    return maximum(index_add(full((count,), 0, like.dtype, like.device), 0, bag, _taken(index, skip, like)), 1)


@composite(refuses=True)
def bag_sum(weight, index: mask, first: mask, scale: optional, skip: static, mean: static):
    """(bags, width): rows of the weight, times `scale` where it is given; the row `skip` (-1: none) takes no part."""
    bag, count = bag_of(index, first), first.shape[0] - 1
    rows = embedding_lookup(weight, index)
    if scale is not None:
        rows = mul(rows, unsqueeze(scale, 1))
    rows = where(unsqueeze(ne(index, skip), 1), rows, full((), 0, weight.dtype, weight.device))
    total = index_add(full((count, weight.shape[1]), 0, weight.dtype, weight.device), 0, bag, rows)
    return div(total, unsqueeze(_sizes(index, bag, skip, count, weight), 1)) if mean else total


@bag_sum.native
def _(weight, index, first, scale, skip, mean):
    n = index.shape[0]
    if n == 0 or first[0] != 0 or first[-1] != n or (np.diff(first) < 0).any() or moves.out_of_range(index, weight.shape[0]):
        return NotImplemented
    return moves.sum_bags(weight, index, first, scale, skip, mean)


@bag_sum.meta
def _(weight, index, first, scale, skip, mean):
    return Spec((first.shape[0] - 1, weight.shape[1]), weight.dtype)


@bag_sum.grad("weight")
def _(g, weight: Meta, index, first, scale, skip, mean):
    return bag_sum_backward(g, index, first, scale, skip, mean, weight.shape[0])


@bag_sum.grad("scale")
def _(g, weight, index, first, skip, mean):
    lines = _shared(g, index, first, skip, mean)
    along = sum_dims(mul(lines, embedding_lookup(weight, index)), (1,), False)
    return mul(along, _taken(index, skip, along))


def _shared(g, index, first, skip, mean):
    """The gradient of each looked-up row, before it is scaled."""
    bag = bag_of(index, first)
    if mean:
        g = div(g, unsqueeze(_sizes(index, bag, skip, first.shape[0] - 1, g), 1))
    return index_select(g, 0, bag)


@composite
def bag_sum_backward(g, index: mask, first: mask, scale: optional, skip: static, mean: static, rows: size):
    """With respect to the table, which has so many rows."""
    lines = _shared(g, index, first, skip, mean)
    return embedding_backward(rows, index, lines if scale is None else mul(lines, unsqueeze(scale, 1)), skip)


bag_sum_backward.native(_call.bag_sum_backward)


@bag_sum.samples
def _(make):
    def first(*places):
        return make.wrap(np.array(places, np.int64))
    return [(make(5, 3), make.ints(5, 6), first(0, 2, 2, 6), None, -1, False),
            (make(5, 3), make.ints(5, 6), first(0, 2, 2, 6), None, 1, True),
            (make(4, 2), make.ints(4, 3), first(0, 3), make(3), 2, False)]


@composite(outputs=("out", Out("winner", differentiable=False, hidden=True)), refuses=True)
def bag_max(weight, index: mask, first: mask, skip: static):
    """(bags, width): the greatest of the rows, 0 of none; `winner`: the first row of the table that has it, -1 of none."""
    n, count, width = index.shape[0], first.shape[0] - 1, weight.shape[1]
    bag, rows, kept = bag_of(index, first), embedding_lookup(weight, index), unsqueeze(ne(index, skip), 1)
    lowest = finfo(weight.dtype).min
    candidates = where(kept, rows, full((), lowest, weight.dtype, weight.device))
    along = expand(unsqueeze(bag, 1), (n, width))
    top = scatter_extreme(full((count, width), lowest, weight.dtype, weight.device), 0, along, candidates, True, True)
    place = unsqueeze(arange(0, 1, n, float64, weight.device), 1)       # as doubles, which hold it exactly and have a kernel
    place = where(eq(candidates, gather(top, 0, along)), place, full((), n, float64, weight.device))
    best = cast(scatter_extreme(full((count, width), n, float64, weight.device), 0, along, place, False, True), int64)
    used = ne(index_add(full((count,), 0, int64, weight.device), 0, bag, cast(ne(index, skip), int64)), 0)
    best = clamp(best, 0, n - 1)
    chosen = gather(expand(unsqueeze(index, 1), (n, width)), 0, best)
    winner = where(unsqueeze(used, 1), chosen, full((), -1, int64, weight.device))
    out = where(unsqueeze(used, 1), gather(candidates, 0, best), full((), 0, weight.dtype, weight.device))
    return out, winner


bag_max.native(_call.bag_max)


@bag_max.meta
def _(weight, index, first, skip):
    sizes = (first.shape[0] - 1, weight.shape[1])
    return Spec(sizes, weight.dtype), Spec(sizes, int64)


@bag_max.grad("weight")
def _(g, weight: Meta, winner):
    return bag_max_backward(g, winner, weight.shape[0])


@composite
def bag_max_backward(g, winner: mask, rows: size):
    """With respect to the table, which has so many rows: of equal elements the first has the gradient."""
    taken = where(lt(winner, 0), full((), 0, g.dtype, g.device), g)
    return scatter_add(full((rows, g.shape[1]), 0, g.dtype, g.device), 0, clamp(winner, 0, None), taken)


bag_max_backward.native(_call.bag_max_backward)


@bag_max.samples
def _(make):
    def first(*places):
        return make.wrap(np.array(places, np.int64))
    return [(make(5, 3), make.ints(5, 6), first(0, 2, 2, 6), -1), (make(4, 2), make.ints(4, 3), first(0, 1, 3), 2)]
