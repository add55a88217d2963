"""Running sums and order: cumsum, sort, topk, searching, and tensors whose sizes depend on values."""

import numpy as np

from ...runtime import cumulative, sorting as order
from .. import dtypes
from ..op.gradient import Meta
from ..op.meta import Spec
from ..op.op import extern, Out, scan, size, static
from .creation import full
from .indexing import scatter_add
from .rearrange import flip


@scan(combine="sum", promote="int_to_long")
def cumsum(s, x):
    return x


@cumsum.native
def _(x, dim):
    return cumulative.running("sum", x, dim) if x.dtype.kind != "b" else NotImplemented


@cumsum.calls
def _(c, outs, x, dim):
    return cumulative.running_sum_calls(c, outs[0], x, dim)


def accumulated(function, x, dim):
    """Running sums or products by numpy's function, in what PyTorch keeps them in: halves in single precision, all else in
    twice its own."""
    if x.dtype.kind in "biu":
        return function(x, axis=dim, dtype=np.int64)
    kind = np.float32 if x.dtype.itemsize < 4 else np.complex128 if x.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        return function(x, axis=dim, dtype=kind).astype(x.dtype, copy=False)


@cumsum.numpy
def _(x, dim):
    return accumulated(np.cumsum, x, dim)


@cumsum.grad("x")
def _(g, dim):
    return flip(cumsum(flip(g, (dim,)), dim), (dim,))


cumsum.samples(
    lambda make: [
        (make(3, 4), 0),
        (make(3, 4), 1),
        (make(5), 0),
        (make(0, 3), 0),
        (make.ints(5, 2, 3), 1),
        (make.bools(4), 0),
        (make(4, 3).t(), 1),
    ]
)


_VALUES = ("values", Out("indices", differentiable=False))


def _scattered(g, x, indices, dim):
    """The gradient of picking elements by position along a dim."""
    if not len(x.shape):
        return g
    return scatter_add(full(x.shape, 0, g.dtype, g.device), dim, indices, g)


def _keys(x, descending):
    """Keys whose ascending stable order is the order asked for; NaN counts as the largest (numpy sorts it so, but not in
    the small types of ml_dtypes)."""
    if not descending:
        return x.astype(np.float32) if x.dtype.kind == "V" else x
    if x.dtype.kind in "iu":
        return ~x
    if x.dtype.kind == "b":
        return ~x
    x = x if x.dtype.itemsize >= 4 else x.astype(np.float32)
    return np.where(np.isnan(x), -np.inf, -x)


def _argsort(x, dim, descending):
    keys = _keys(x, descending)
    if descending and keys.dtype.kind == "f":  # NaN before infinity: a second, more important key
        return np.lexsort((keys, ~np.isnan(x)), axis=dim)
    return np.argsort(keys, axis=dim, kind="stable")


def _sorted_sizes(x, dim, descending):
    return tuple(x.shape), _like(x, tuple(x.shape))


@extern(template="order", outputs=_VALUES, meta=_sorted_sizes)
def sort(x, dim: static, descending=False):
    """Stable. (values, positions), row-major."""
    if x.ndim == 0:
        return x.copy(), np.zeros((), np.int64)
    order = _argsort(x, dim, descending)
    return np.ascontiguousarray(np.take_along_axis(x, order, dim)), np.ascontiguousarray(order, np.int64)


sort.native(order.sort)


@sort.calls
def _(c, outs, x, dim, descending):
    return order.sort_calls(c, outs[0], outs[1], x, dim, descending)


@sort.grad("x")
def _(g, x: Meta, indices, dim):
    return _scattered(g, x, indices, dim)


sort.samples(
    lambda make: [
        (make(4, 3).t(), 1),
        (make(3, 4), 1),
        (make(3, 4), 0, True),
        (make(5), 0),
        (make.ints(9, 6), 0, True),
        (make.special(7), 0),
        (make.special(7), 0, True),
        (make(0, 3), 0),
    ]
)


def _first_sizes(x, k, dim, largest, ordered):
    return _cut(x, k, dim), _like(x, _cut(x, k, dim))


@extern(template="order", outputs=_VALUES, meta=_first_sizes)
def topk(x, k: size, dim: static, largest=True, ordered=True):
    """The k largest (or smallest) along dim, in order."""
    if x.ndim == 0:
        return x.copy(), np.zeros((), np.int64)
    count = x.shape[dim]
    if k < count and x.dtype.kind == "f" and x.dtype.itemsize >= 4 and count > 32 and not np.isnan(x).any():
        part = np.take(np.argpartition(-x if largest else x, k - 1 if k else 0, axis=dim), np.arange(k), axis=dim)
        part = np.sort(part, axis=dim)
    else:
        part = np.broadcast_to(np.arange(count).reshape([-1 if d == dim else 1 for d in range(x.ndim)]), x.shape)
    values = np.take_along_axis(x, part, dim)
    order = np.take(_argsort(values, dim, largest), np.arange(k), axis=dim)
    return np.take_along_axis(values, order, dim), np.take_along_axis(part, order, dim).astype(np.int64, copy=False)


@topk.native
def _(x, k, dim, largest, ordered):
    return order.topk(x, k, dim, largest)


@topk.calls
def _(c, outs, x, k, dim, largest, ordered):
    return order.topk_calls(c, outs[0], outs[1], x, k, dim, largest)


@topk.grad("x")
def _(g, x: Meta, indices, dim):
    return _scattered(g, x, indices, dim)


topk.samples(
    lambda make: [
        (make(3, 5), 2, 1),
        (make(3, 5), 2, 0, False),
        (make(40), 3, 0),
        (make.ints(9, 6), 4, 0),
        (make(4), 0, 0),
        (make.special(7), 3, 0),
    ]
)


def _cut(x, k, dim):
    return (*x.shape[:dim], k, *x.shape[dim + 1 :]) if len(x.shape) else ()


def _like(x, shape):
    return Spec(shape, dtypes.int64)


@extern(meta=lambda edges, x, right: x.shape, promote=lambda edges, x: (None, dtypes.int64))
def searchsorted(edges, x, right=False):
    """Where x would be inserted into each sorted row of edges."""
    side = "right" if right else "left"
    edges, x = [
        v.astype(np.float32) if v.dtype.itemsize == 2 and v.dtype.kind not in "iu" else v for v in (edges, x)
    ]  # (NaN is last)
    if edges.ndim == 1:
        return np.searchsorted(edges, x, side).astype(np.int64)
    if not x.size:
        return np.zeros(x.shape, np.int64)
    rows, wanted = edges.reshape(-1, edges.shape[-1]), x.reshape(-1, x.shape[-1])
    return np.stack([np.searchsorted(e, v, side) for e, v in zip(rows, wanted)]).reshape(x.shape).astype(np.int64)


searchsorted.samples(
    lambda make: [(make.ints(9, 5).sort().values, make.ints(9, 2, 3)), (make(2, 5).sort().values, make(2, 3), True)]
)
