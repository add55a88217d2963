"""Distances of all pairs of rows, above the diagonal row by row."""

from .. import _call, dtypes
from ..meta import Spec
from ..op import composite
from .arithmetic import add, div, eq, floor_divide, mul, neg, sub, where
from .creation import arange, full
from .indexing import index_add, index_select
from .order import searchsorted
from .reduce import norm
from .views import unsqueeze


def _pairs(x):
    """The rows of each pair, made by records: a graph may keep them for its gradients."""
    n = x.shape[0]
    count = n * (n - 1) // 2
    rows, place = arange(0, 1, n, dtypes.int64, x.device), arange(0, 1, count, dtypes.int64, x.device)
    begin = sub(mul(rows, n), floor_divide(mul(rows, add(rows, 1)), 2))       # the first pair of each row
    first = sub(searchsorted(begin, place, True), 1)
    return first, add(sub(place, index_select(begin, 0, first)), add(first, 1))


@composite
def pair_distances(x):
    """|x[i] - x[j]| for i < j."""
    first, second = _pairs(x)
    return norm(sub(index_select(x, 0, first), index_select(x, 0, second)), 2.0, (1,), False)


pair_distances.native(_call.pair_distances)


@pair_distances.meta
def _(x):
    return Spec((x.shape[0] * (x.shape[0] - 1) // 2,), x.dtype)


@pair_distances.grad("x")
def _(g, x, out):
    return pair_distances_backward(g, x, out)


@composite
def pair_distances_backward(g, x, d):
    """Each pair pulls on both of its rows; equal rows do not."""
    first, second = _pairs(x)
    share = where(eq(d, 0), 0.0, div(g, d))
    along = mul(sub(index_select(x, 0, first), index_select(x, 0, second)), unsqueeze(share, 1))
    total = index_add(full(tuple(x.shape), 0, x.dtype, x.device), 0, first, along)
    return index_add(total, 0, second, neg(along))


@pair_distances_backward.meta
def _(g, x, d):
    return Spec(tuple(x.shape), x.dtype)


pair_distances_backward.native(_call.pair_distances_backward)
pair_distances.samples(lambda make: [(make(5, 3),), (make(2, 4),), (make(4, 1),)])
pair_distances_backward.samples(lambda make: [(make(10), make(5, 3), make.positive(10)), (make(1), make(2, 4), make.positive(1))])
