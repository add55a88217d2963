"""Distances of rows: of all pairs above the diagonal row by row, of rows side by side; cosines of their angles."""

from ...runtime.kernel_calls import TYPES, RuntimeCall, rows_of
from .. import _call, dtypes
from ..op.meta import Spec
from ..op.op import composite, scalar, static
from .arithmetic import add, div, eq, floor_divide, lt, mul, neg, still, sub, where
from .creation import arange, full
from .indexing import index_add, index_select
from .sorting import searchsorted
from .reduce import norm, sum as sum_dims
from .views import unsqueeze


_KERNELS = ("float32", "float64")


def _pairs(x):
    """The rows of each pair, made by records: a graph may keep them for its gradients."""
    n = x.shape[0]
    count = n * (n - 1) // 2
    rows, place = arange(0, 1, n, dtypes.int64, x.device), arange(0, 1, count, dtypes.int64, x.device)
    begin = sub(mul(rows, n), floor_divide(mul(rows, add(rows, 1)), 2))  # the first pair of each row
    first = sub(searchsorted(begin, place, True), 1)
    return first, add(sub(place, index_select(begin, 0, first)), add(first, 1))


@composite
def pair_distances(x):
    """|x[i] - x[j]| for i < j."""
    first, second = _pairs(x)
    return norm(sub(index_select(x, 0, first), index_select(x, 0, second)), 2.0, (1,), False)


pair_distances.native(_call.pair_distances)


def _job(name, out, x, arrays):
    rows, width = x.shape
    return (RuntimeCall(name, TYPES[out.dtype.name], rows, rows * width, arrays, (rows, width)),)


@pair_distances.calls
def _(c, outs, x):
    if x.dtype.name not in _KERNELS or c.is_empty(x) or c.is_empty(outs[0]):
        return None
    x = c.rows(x)
    return _job("pair_distances", outs[0], x, (outs[0], x))


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


@pair_distances_backward.calls
def _(c, outs, g, x, d):
    if x.dtype.name not in _KERNELS or {g.dtype, d.dtype} != {x.dtype} or c.is_empty(x) or c.is_empty(g):
        return None
    g, x, d = rows_of(c, g, x, d)
    return _job("pair_distances_back", outs[0], x, (outs[0], g, x, d))


pair_distances.samples(lambda make: [(make(5, 3),), (make(2, 4),), (make(4, 1),)])
pair_distances_backward.samples(lambda make: [(make(10), make(5, 3), make.positive(10)), (make(1), make(2, 4), make.positive(1))])


# -- of rows side by side


@composite
def row_distance(x, y, eps: scalar):
    """The length of x - y + eps over the last dim."""
    apart = add(sub(x, y), eps)
    return norm(apart, 2.0, (len(apart.shape) - 1,), False)


row_distance.native(_call.row_distance)


@row_distance.grad("x")
def _(g, x, y, eps, out):
    return row_distance_backward(g, x, y, eps, out)


@row_distance.grad("y")
def _(g, x, y, eps, out):
    return neg(row_distance_backward(g, x, y, eps, out))


@composite
def row_distance_backward(g, x, y, eps: scalar, out):
    """With respect to x; at distance zero the gradient is zero."""
    share = where(eq(out, 0), 0.0, div(g, out))
    return mul(add(sub(x, y), eps), unsqueeze(share, len(share.shape)))


row_distance_backward.native(_call.row_distance_backward)
row_distance.samples(lambda make: [(make(4, 3), make(4, 3), 1e-6), (make(2, 3, 5), make(5), 0.1)])


def _length(x, dim, eps):
    """(the length, the same as at least eps but with the length's gradient)"""
    size = norm(x, 2.0, (dim,), True)
    return size, where(lt(size, eps), add(still(size), eps), size)


@composite
def cosine_similarity(x, y, dim: static, eps: scalar):
    """The cosine of the angle between vectors along `dim`; their lengths count as at least eps."""
    return sum_dims(mul(div(x, _length(x, dim, eps)[1]), div(y, _length(y, dim, eps)[1])), (dim,), False)


cosine_similarity.native(_call.cosine_similarity)


@cosine_similarity.grad("x")
def _(g, x, y, dim, eps):
    return cosine_similarity_backward(g, x, y, dim, eps)


@cosine_similarity.grad("y")
def _(g, x, y, dim, eps):
    return cosine_similarity_backward(g, y, x, dim, eps)


@composite
def cosine_similarity_backward(g, x, y, dim: static, eps: scalar):
    """With respect to x: the other's direction less the share that lies along x."""
    size, length = _length(x, dim, eps)
    other = div(y, _length(y, dim, eps)[1])
    cosine = sum_dims(mul(div(x, length), other), (dim,), True)
    along = where(eq(size, 0), 0.0, div(x, size))
    return mul(div(unsqueeze(g, dim), length), sub(other, mul(cosine, along)))


cosine_similarity_backward.native(_call.cosine_similarity_backward)
cosine_similarity.samples(lambda make: [(make(4, 3), make(4, 3), 1, 1e-8), (make(2, 3, 5), make(2, 3, 5), 1, 0.1)])
