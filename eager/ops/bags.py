"""Bags of rows looked up by integers, summed or averaged. Bag k has the indices from first[k] to first[k + 1]."""

import numpy as np

from ...runtime import moves
from ..meta import Spec
from ..op import composite, mask, optional, static
from .arithmetic import div, maximum, mul, ne, where
from .creation import full
from .indexing import embedding_backward, embedding_lookup, index_add, index_select
from .order import cumsum
from .reduce import sum as sum_dims
from .views import slice_dim, unsqueeze


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


@bag_sum.grad("*")
def _(g, weight, index, first, scale, skip, mean, needs):
    bag = bag_of(index, first)
    if mean:
        g = div(g, unsqueeze(_sizes(index, bag, skip, first.shape[0] - 1, g), 1))
    lines, grads = index_select(g, 0, bag), {}
    if "weight" in needs:
        values = lines if scale is None else mul(lines, unsqueeze(scale, 1))
        grads["weight"] = embedding_backward(weight.shape[0], index, values, skip)
    if "scale" in needs:
        along = sum_dims(mul(lines, embedding_lookup(weight, index)), (1,), False)
        grads["scale"] = mul(along, _taken(index, skip, along))
    return grads


@bag_sum.samples
def _(make):
    def first(*places):
        return make.wrap(np.array(places, np.int64))
    return [(make(5, 3), make.ints(5, 6), first(0, 2, 2, 6), None, -1, False),
            (make(5, 3), make.ints(5, 6), first(0, 2, 2, 6), None, 1, True),
            (make(4, 2), make.ints(4, 3), first(0, 3), make(3), 2, False)]
