"""Bags of rows looked up by integers, summed, averaged or maximised. Bag k has the indices from first[k] to first[k + 1]."""

import math

import numpy as np

from ...runtime import copy_gather
from .. import _call, dtypes
from ..op.gradient import Meta
from ..op.meta import Spec
from ..op.op import Out, composite, mask, optional, size, static
from .arithmetic import cast, clamp, div, eq, logical_and, logical_or, lt, maximum, mul, ne, where
from .creation import arange, full
from .indexing import (
    embedding_backward,
    embedding_lookup,
    gather,
    index as index_of,
    index_add,
    index_select,
    scatter_add,
    scatter_max,
    scatter_min,
)
from .sorting import cumsum
from .reduce import sum as sum_dims
from .views import contiguous, expand, slice_dim, unsqueeze


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
    return copy_gather.sum_bags(weight, index, first, scale, skip, mean) if _in_order(weight, index, first) else NotImplemented


def _in_order(weight, index, first) -> bool:
    """Whether each index lies in one bag and is a row of the weight."""
    n = index.shape[0]
    return (
        n
        and first[0] == 0
        and first[-1] == n
        and (first[1:] >= first[:-1]).all()
        and not copy_gather.out_of_range(index, weight.shape[0])
    )


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

    return [
        (make(5, 3), make.ints(5, 6), first(0, 2, 2, 6), None, -1, False),
        (make(5, 3), make.ints(5, 6), first(0, 2, 2, 6), None, 1, True),
        (make(4, 2), make.ints(4, 3), first(0, 3), make(3), 2, False),
    ]


@composite(refuses=True)
def bag_winners(weight, index: mask, first: mask, skip: static):
    """(bags, width), int64: which row of the weight is the greatest of its bag: of equals the first, a NaN where it is the first
    of all, and -1 in empty bags."""
    n, sizes = index.shape[0], (first.shape[0] - 1, weight.shape[1])
    if n == 0:
        return full(sizes, -1, index.dtype, index.device)
    bag, kept = bag_of(index, first), ne(index, skip)
    # positions as doubles, which hold them exactly and have a kernel
    place = where(kept, cast(arange(0, 1, n, index.dtype, index.device), dtypes.float64), math.inf)
    begun = gather(_extreme(scatter_min, sizes[:1], math.inf, bag, place), 0, bag)
    rows = where(unsqueeze(kept, 1), embedding_lookup(weight, index), -math.inf)
    rows = where(logical_and(ne(rows, rows), unsqueeze(ne(place, begun), 1)), -math.inf, rows)
    at = contiguous(expand(unsqueeze(bag, 1), tuple(rows.shape)))
    top = gather(_extreme(scatter_max, sizes, -math.inf, at, rows), 0, at)
    best = logical_or(eq(rows, top), ne(rows, rows))
    found = _extreme(scatter_min, sizes, math.inf, at, where(best, unsqueeze(place, 1), math.inf))
    known = lt(found, math.inf)
    return where(known, index_of(index, (cast(where(known, found, 0.0), index.dtype),), (0,)), -1)


def _extreme(scatter, sizes, start, at, values):
    return scatter(full(sizes, start, values.dtype, values.device), 0, at, values)


@bag_winners.native
def _(weight, index, first, skip):
    return copy_gather.bag_winners(weight, index, first, skip) if _in_order(weight, index, first) else NotImplemented


@bag_winners.meta
def _(weight, index, first, skip):
    return Spec((first.shape[0] - 1, weight.shape[1]), index.dtype)


@bag_winners.samples
def _(make):
    def first(*places):
        return make.wrap(np.array(places, np.int64))

    return [(make(5, 3), make.ints(5, 6), first(0, 2, 2, 6), -1), (make(4, 2), make.ints(4, 3), first(0, 3), 2)]


@composite(outputs=("out", Out("winner", differentiable=False, hidden=True)), refuses=True)
def bag_max(weight, index: mask, first: mask, skip: static):
    """(bags, width): the greatest of the rows, 0 of none; `winner`: as `bag_winners` has it."""
    winner = bag_winners(weight, index, first, skip)
    picked = gather(weight, 0, clamp(winner, 0, None))
    return where(lt(winner, 0), full((), 0, weight.dtype, weight.device), picked), winner


@bag_max.native
def _(weight, index, first, skip):
    found = _call.bag_max(weight, index, first, skip)
    if found is not NotImplemented or not _in_order(weight, index, first):
        return found
    winner = copy_gather.bag_winners(weight, index, first, skip)
    if winner is NotImplemented:
        return winner
    picked = np.take_along_axis(weight, np.maximum(winner, 0), 0)
    picked[winner < 0] = 0
    return picked, winner


@bag_max.meta
def _(weight, index, first, skip):
    sizes = (first.shape[0] - 1, weight.shape[1])
    return Spec(sizes, weight.dtype), Spec(sizes, dtypes.int64)


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
