"""Reading and writing by integer tensors: gather, scatter, index_select, advanced indexing, embedding.

Reads are Maps whose load goes to an index that was itself loaded; writes are Scatters. Indices are int64 tensors. Which
operations accept negative indices follows PyTorch: advanced indexing does, the others refuse them.
"""

import functools

import numpy as np

from ...runtime import copy_gather
from .. import _call, dtypes
from ..op.gradient import Meta
from ..op.meta import Spec
from ..op.op import composite, indexed, mask, scalar, scatter, size, static, tensors
from ..sizes import numel
from .arithmetic import add, cast, div, eq, masked_fill, maximum, mul, where
from .creation import arange, full
from .rearrange import pad
from .views import as_strided, reshape, restrided, slice_dim, squeeze, unsqueeze


def check_indices(index, size, text, error: type[Exception] = IndexError):
    """Refuse indices outside [0, size); `text` may name the offender as {bad}."""
    if copy_gather.out_of_range(index, size):
        bad = index[(index < 0) | (index >= size)].flat[0]
        raise error(text.format(bad=bad, size=size))
    return index


def read(found, index, size, text, error: type[Exception] = IndexError):
    """What a native read gave, with its report of an index out of range turned into the error."""
    if found is NotImplemented:
        return found
    refuse(found[1], index, size, text, error)
    return found[0]


def refuse(bad, index, size, text, error: type[Exception] = IndexError):
    """Raise for position `bad` of the indices; -1: all are fine."""
    if bad >= 0:
        raise error(text.format(bad=index.flat[bad], size=size))


def _zeros(like, shape):
    return full(tuple(shape), 0, like.dtype, like.device)


# -- along one dim

_OUT_OF_DIM = "index {bad} is out of bounds for dimension %d with size {size}"


def _along(x_shape, index, dim):
    """numpy's index that addresses `index` along `dim` and the own position elsewhere."""
    rank = index.ndim
    return tuple(
        [index if d == dim else np.arange(n).reshape((1,) * d + (n,) + (1,) * (rank - 1 - d)) for d, n in enumerate(index.shape)]
    )


@indexed(meta=lambda x, dim, index: index.shape, promote="keep", refuses=True)
def gather(s, i, x, dim: static, index: mask):
    at = s.indirect(index(*i), x.shape[dim])
    return x(*i[:dim], at, *i[dim + 1 :])


@gather.native
def _(x, dim, index):
    if x.ndim == 0:
        return NotImplemented
    return read(copy_gather.take_elements(x, dim, index), index, x.shape[dim], _OUT_OF_DIM % dim, RuntimeError)


@gather.numpy
def _(x, dim, index):
    if x.ndim == 0:
        check_indices(index, 1, _OUT_OF_DIM % dim, RuntimeError)
        return np.broadcast_to(x, index.shape).copy()
    check_indices(index, x.shape[dim], _OUT_OF_DIM % dim, RuntimeError)
    return x[_along(x.shape, index, dim)]


@gather.grad("x")
def _(g, x: Meta, dim, index):
    return scatter_add(_zeros(g, x.shape), dim, index, g)


gather.samples(
    lambda make: [
        (make(3, 4), 0, make.ints(3, 2, 4)),
        (make(3, 4), 1, make.ints(4, 3, 6)),
        (make(5), 0, make.ints(5, 3)),
        (make(3, 4), 1, make.ints(4, 2, 2)),
        (make(3, 4), 1, make.ints(4, 3, 0)),
    ]
)


def row_major(x, *rest):
    """What is written into lies row-major, however `x` does."""
    return Spec(tuple(x.shape), x.dtype)


_NATIVE = {"set": copy_gather.set_elements, "add": copy_gather.add_elements}


def _scatter(name, mode, kernel):
    native = _NATIVE.get(mode) or functools.partial(copy_gather.combine_elements, {"mul": "product"}.get(mode, mode))

    @scatter(name=name, mode=mode, meta=row_major, ranges=lambda x, dim, index, source: index.shape, promote="keep", refuses=True)
    def record(s, i, x, dim: static, index: mask, source):
        at = s.indirect(index(*i), x.shape[dim])
        return (*i[:dim], at, *i[dim + 1 :]), source(*i)

    @record.numpy
    def _(x, dim, index, source):
        out = copy_gather.copied(x)
        write(out, dim, index, source)
        return out

    @record.inplace.numpy
    def write(x, dim, index, source):
        check_indices(index, x.shape[dim] if x.ndim else 1, _OUT_OF_DIM % dim, RuntimeError)
        source = source[tuple(slice(n) for n in index.shape)]
        if np.may_share_memory(x, index):  # (checked above: what is written would change it)
            index = index.copy()
        if np.may_share_memory(x, source):
            source = source.copy()
        if x.ndim == 0 or not native(x, dim, np.ascontiguousarray(index), np.ascontiguousarray(source)):
            kernel(x, _along(x.shape, index, dim), source)

    return record


def _assign(out, where, values):
    out[where] = values


scatter_set = _scatter("scatter", "set", _assign)
scatter_add = _scatter("scatter_add", "add", np.add.at)


@scatter_set.grad("x")
def _(g, dim, index):
    return scatter_value(g, dim, index, 0)


@scatter_set.grad("source")
def _(g, dim, index, source: Meta):
    return _fit(gather(g, dim, index), source.shape)


@scatter_add.grad("x")
def _(g):
    return g


@scatter_add.grad("source")
def _(g, dim, index, source: Meta):
    return _fit(gather(g, dim, index), source.shape)


# -- products and extremes of what comes to one place

scatter_mul = _scatter("scatter_mul", "mul", np.multiply.at)
scatter_max = _scatter("scatter_max", "max", np.maximum.at)
scatter_min = _scatter("scatter_min", "min", np.minimum.at)


def _used(source, index):
    """The part of a source whose elements have an index."""
    for d, (n, m) in enumerate(zip(source.shape, index.shape)):
        source = source if n == m else slice_dim(source, d, 0, 1, m)
    return source


def _factors(x, dim, index, source):
    """Per place: the product without its zeros, and how many zeros there are, x's own among them."""
    zero, none = eq(source, 0), eq(x, 0)
    rest = scatter_mul(where(none, 1, x), dim, index, where(zero, 1, source))
    return rest, scatter_add(cast(none, dtypes.int64), dim, index, cast(zero, dtypes.int64))


def _without(rest, zeros, factor):
    """The product of the others: of one of the factors of `rest`, with so many zeros at its place."""
    zero = eq(factor, 0)
    return where(zero, where(eq(zeros, 1), rest, 0), where(eq(zeros, 0), div(rest, where(zero, 1, factor)), 0))


@scatter_mul.grad("x")
def _(g, x, dim, index, source):
    """Where nothing at a place is zero: the product by x."""
    rest, zeros = _factors(x, dim, index, _used(source, index))
    return mul(g, _without(rest, zeros, x))


@scatter_mul.grad("source")
def _(g, x, dim, index, source):
    used = _used(source, index)
    rest, zeros = _factors(x, dim, index, used)
    others = _without(gather(rest, dim, index), gather(zeros, dim, index), used)
    return _fit(mul(gather(g, dim, index), others), source.shape)


def _winners(x, out, dim, index, source):
    """Where x, and which elements of the source, have the extreme of their place; and how many share it."""
    own, theirs = eq(x, out), eq(source, gather(out, dim, index))
    count = scatter_add(cast(own, dtypes.int64), dim, index, cast(theirs, dtypes.int64))
    return own, theirs, count


def _share(here, g, count):
    """What ties shares the gradient evenly; where a NaN has won, nothing equals it, and all is NaN."""
    return mul(cast(here, g.dtype), div(g, cast(count, g.dtype)))


def _to_source(g, x, out, dim, index, source):
    _, theirs, count = _winners(x, out, dim, index, _used(source, index))
    share = gather(div(g, cast(count, g.dtype)), dim, index)
    return _fit(mul(cast(theirs, g.dtype), share), source.shape)


def _to_base(g, x, out, dim, index, source):
    own, _, count = _winners(x, out, dim, index, _used(source, index))
    return _share(own, g, count)


for _record in (scatter_max, scatter_min):
    _record.grad("x")(_to_base)
    _record.grad("source")(_to_source)


@composite(refuses=True)
def scatter_extreme(x, dim: static, index: mask, source, largest: static, include_self: static):
    """The largest or smallest of what comes to a place, and of what x has there unless that counts for nothing."""
    if not include_self:
        x = scatter_value(x, dim, index, beyond(x.dtype, not largest))
    return (scatter_max if largest else scatter_min)(x, dim, index, source)


def beyond(dtype, largest: bool):
    """What every number of a type is at most, or at least."""
    if dtype.is_floating_point:
        return float("inf") if largest else float("-inf")
    if dtype is dtypes.bool:
        return largest
    return dtypes.iinfo(dtype).max if largest else dtypes.iinfo(dtype).min


@scatter_extreme.grad("x")
def _(g, x, out, dim, index, source, include_self):
    """x is asked whether it ties even where it counts for nothing, as PyTorch does."""
    share = _to_base(g, x, out, dim, index, source)
    return share if include_self else scatter_value(share, dim, index, 0)


@scatter_extreme.grad("source")
def _(g, x, out, dim, index, source):
    return _to_source(g, x, out, dim, index, source)


def _fit(g, shape):
    """Zeros behind g up to `shape`: elements of the source that no index used have no gradient."""
    if all(n == m for n, m in zip(g.shape, shape)):
        return g
    return pad(g, tuple((0, m - n) for n, m in zip(g.shape, shape)), 0)


def _scatter_samples(make):
    return [
        (make(3, 4), 0, make.permutation(3, 3, 4), make(3, 4)),
        (make(3, 5), 1, make.permutation(5, 3, 5), make(3, 5)),
        (make(4), 0, make.permutation(4, 4), make(4)),
        (make(3, 4), 1, make.ints(4, 2, 1), make(3, 2)),
        (make(3, 4), 1, make.ints(4, 3, 0), make(3, 0)),
    ]


scatter_set.samples(_scatter_samples)
scatter_extreme.samples(
    lambda make: [
        (make(3, 4), 0, make.ints(3, 6, 4), make(6, 4), True, False),
        (make(3, 4), 1, make.ints(4, 3, 5), make(3, 5), False, True),
        (make(4), 0, make.ints(4, 3), make(3), False, False),
    ]
)
for _record in (scatter_mul, scatter_max, scatter_min):
    _record.samples(
        lambda make: (
            _scatter_samples(make)
            + [(make(3, 4), 0, make.ints(3, 6, 4), make(6, 4)), (make(3, 4), 1, make.ints(4, 3, 5), make(3, 5))]
        )
    )
scatter_add.samples(lambda make: _scatter_samples(make) + [(make(3, 4), 0, make.ints(3, 6, 4), make(6, 4))])


@scatter(name="scatter_value", meta=row_major, ranges=lambda x, dim, index, value: index.shape, promote="keep", refuses=True)
def scatter_value(s, i, x, dim: static, index: mask, value: scalar):
    at = s.indirect(index(*i), x.shape[dim])
    return (*i[:dim], at, *i[dim + 1 :]), s.const(value, x.dtype)


@scatter_value.numpy
def _(x, dim, index, value):
    check_indices(index, x.shape[dim] if x.ndim else 1, _OUT_OF_DIM % dim, RuntimeError)
    out = copy_gather.copied(x)
    out[_along(x.shape, index, dim)] = value
    return out


@scatter_value.grad("x")
def _(g, dim, index):
    return scatter_value(g, dim, index, 0)


scatter_value.samples(
    lambda make: [
        (make(3, 4), 0, make.ints(3, 2, 4), 1.5),
        (make(3, 4), 1, make.ints(4, 3, 2), -1),
        (make(4), 0, make.ints(4, 0), 1),
    ]
)


@indexed(meta=lambda x, dim, index: (*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :]), promote="keep", refuses=True)
def index_select(s, i, x, dim: static, index: mask):
    at = s.indirect(index(i[dim]), x.shape[dim])
    return x(*i[:dim], at, *i[dim + 1 :])


@index_select.native
def _(x, dim, index):
    if dim != 0 or x.ndim == 0:
        return NotImplemented
    return read(copy_gather.take_rows(x, index), index, x.shape[0], "index out of range in self")


@index_select.numpy
def _(x, dim, index):
    return np.take(x, check_indices(index, x.shape[dim], "index out of range in self"), axis=dim)


@index_select.grad("x")
def _(g, x: Meta, dim, index):
    return index_add(_zeros(g, x.shape), dim, index, g)


index_select.samples(
    lambda make: [(make(3, 4), 0, make.ints(3, 5)), (make(3, 4), 1, make.ints(4, 2)), (make(4), 0, make.ints(4, 0))]
)


def _index_write(name, mode, kernel):
    @scatter(
        name=name, mode=mode, meta=row_major, ranges=lambda x, dim, index, source: source.shape, promote="keep", refuses=True
    )
    def record(s, i, x, dim: static, index: mask, source):
        at = s.indirect(index(i[dim]), x.shape[dim])
        return (*i[:dim], at, *i[dim + 1 :]), source(*i)

    @record.numpy
    def _(x, dim, index, source):
        out = copy_gather.copied(x)
        write(out, dim, index, source)
        return out

    @record.inplace.numpy
    def write(x, dim, index, source):
        if mode == "add" and x.ndim > 1:
            check_indices(index, x.shape[dim], _OUT_OF_DIM % dim, RuntimeError)
        check_indices(index, x.shape[dim] if x.ndim else 1, "index out of range in self")
        if mode == "set" or not added_rows(x, dim, index, source):
            kernel(x, (slice(None),) * dim + (index,), source)

    return record


def added_rows(x, dim, index, source) -> bool:
    """x at `index` along `dim` += source, natively; False where numpy has to do it."""
    if not x.size or not source.size or index.ndim != 1 or not x.flags.c_contiguous:
        return False
    outer, width = numel(x.shape[:dim]), numel(x.shape[dim + 1 :])
    return (
        copy_gather.add_rows(x.reshape(outer, x.shape[dim], width), index, source.reshape(outer, index.size, width))
        is not NotImplemented
    )


index_add = _index_write("index_add", "add", np.add.at)
index_copy = _index_write("index_copy", "set", _assign)


@index_add.grad("x")
def _(g):
    return g


@index_copy.grad("x")
def _(g, dim, index):
    return index_fill(g, dim, index, 0)


@index_add.grad("source")
@index_copy.grad("source")
def _(g, dim, index):
    return index_select(g, dim, index)


@scatter(ranges=lambda x, dim, index, value: (*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :]), promote="keep", refuses=True)
def index_fill(s, i, x, dim: static, index: mask, value: scalar):
    at = s.indirect(index(i[dim]), x.shape[dim])
    return (*i[:dim], at, *i[dim + 1 :]), s.const(value, x.dtype)


@index_fill.numpy
def _(x, dim, index, value):
    out = x.copy("K")
    out[(slice(None),) * dim + (check_indices(index, x.shape[dim], "index out of range in self"),)] = value
    return out


@index_fill.grad("x")
def _(g, dim, index):
    return index_fill(g, dim, index, 0)


index_copy.samples(
    lambda make: [(make(5, 3), 0, make.permutation(5, 5), make(5, 3)), (make(2, 4), 1, make.permutation(4, 4), make(2, 4))]
)
index_add.samples(
    lambda make: [
        (make(3, 4), 0, make.ints(3, 5), make(5, 4)),
        (make(3, 4), 1, make.ints(4, 2), make(3, 2)),
        (make(4), 0, make.ints(4, 0), make(0)),
    ]
)
index_fill.samples(lambda make: [(make(3, 4), 0, make.ints(3, 2), 1.5), (make(4), 0, make.ints(4, 2), -1)])


@indexed(meta=lambda x, index, dim, size: (*x.shape[:dim], size, *x.shape[dim:]), promote="keep")
def spread(s, i, x, index: mask, dim: static, size):
    """Zeros with a new dim of `size`, and x at position `index` along it: the gradient of picking one element per
    row."""
    rest = i[:dim] + i[dim + 1 :]
    return s.where(s.eq(s.index(i[dim]), index(*rest)), x(*rest), s.const(0, x.dtype))


spread.native(_call.spread)


@spread.numpy
def _(x, index, dim, size):
    out = copy_gather.zeros(x.shape[:dim] + (size,) + x.shape[dim:], x.dtype)
    np.put_along_axis(out, np.expand_dims(index, dim), np.expand_dims(x, dim), dim)
    return out


@spread.grad("x")
def _(g, index, dim):
    return squeeze(gather(g, dim, unsqueeze(index, dim)), (dim,))


spread.samples(
    lambda make: [(make(3), make.ints(4, 3), 1, 4), (make(2, 3), make.ints(5, 2, 3), 0, 5), (make(), make.ints(2), 0, 2)]
)


@indexed(meta=lambda x, num_classes: (*x.shape, num_classes), promote="long", recompute=True)
def one_hot(s, i, x: mask, num_classes: size):
    return s.cast(s.eq(s.index(i[-1]), x(*i[:-1])), dtypes.int64)


one_hot.samples(lambda make: [(make.ints(5, 3), 5), (make.ints(4, 2, 3), 6), (make.ints(3), 3), (make.ints(3, 0), 3)])


# -- embedding


@indexed(meta=lambda weight, index: (*index.shape, *weight.shape[1:]), promote="keep", refuses=True)
def embedding_lookup(s, i, weight, index: mask):
    """Rows of weight (rows, *rest) at integers of any shape."""
    n = len(index.shape)
    return weight(s.indirect(index(*i[:n]), weight.shape[0]), *i[n:])


@embedding_lookup.native
def _(weight, index):
    return read(copy_gather.take_rows(weight, index), index, weight.shape[0], "index out of range in self")


@embedding_lookup.numpy
def _(weight, index):
    return np.take(weight, check_indices(index, weight.shape[0], "index out of range in self"), axis=0)


@embedding_lookup.grad("weight")
def _(g, weight: Meta, index):
    return embedding_backward(weight.shape[0], index, g, -1)


embedding_lookup.samples(
    lambda make: [
        (make(5, 3), make.ints(5, 4)),
        (make(5, 3), make.ints(5, 2, 3)),
        (make(4, 2), make.ints(4)),
        (make(4, 2), make.ints(4, 0)),
    ]
)


@composite(refuses=True)
def embedding(weight, index, padding_idx: static = -1):
    """`padding_idx` names the row that gets no gradient (-1: none)."""
    return embedding_lookup(weight, index)


@embedding.grad("weight")
def _(g, weight: Meta, index, padding_idx):
    return embedding_backward(weight.shape[0], index, g, padding_idx)


embedding.samples(lambda make: [(make(5, 3), make.ints(5, 4)), (make(5, 3), make.ints(5, 2, 3), 1)])


@scatter(
    mode="add",
    ranges=lambda rows, index, x, padding_idx: x.shape,
    promote="same",
    refuses=True,
    meta=lambda rows, index, x, padding_idx: (rows, *x.shape[len(index.shape) :]),
)
def embedding_backward(s, i, rows: size, index: mask, x, padding_idx: static = -1):
    """Rows of x added up at `index`; those of `padding_idx` add nothing."""
    n = len(index.shape)
    at, value = index(*i[:n]), x(*i)
    if padding_idx >= 0:
        value = s.where(s.eq(at, padding_idx), s.const(0, x.dtype), value)
    return (s.indirect(at, rows), *i[n:]), value


@embedding_backward.native
def _(rows, index, x, padding_idx):
    if not index.size or not x.size or not x.flags.c_contiguous:
        return NotImplemented
    width = x.shape[index.ndim :]
    out = copy_gather.zeros((rows,) + width, x.dtype)
    bad = copy_gather.add_rows(
        out.reshape(1, rows, -1), np.ascontiguousarray(index).reshape(-1), x.reshape(1, index.size, -1), padding_idx
    )
    if bad is NotImplemented:
        return bad
    refuse(bad, index, rows, "index out of range in self")
    return out


@embedding_backward.numpy
def _(rows, index, x, padding_idx):
    """Sorted by row, so that each row is one run to add up."""
    width = x.shape[index.ndim :]
    flat, values = index.reshape(-1), x.reshape((-1,) + width)
    out = copy_gather.zeros((rows,) + width, x.dtype)
    if flat.size:
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        out[ordered[starts]] = np.add.reduceat(values[order], starts, axis=0)
    if padding_idx >= 0:
        out[padding_idx] = 0
    return out


@embedding_backward.grad("x")
def _(g, index, padding_idx):
    picked = embedding_lookup(g, index)
    if padding_idx < 0:
        return picked
    hidden = eq(index, padding_idx)
    for _ in range(len(picked.shape) - len(index.shape)):
        hidden = unsqueeze(hidden, len(hidden.shape))
    return masked_fill(picked, hidden, 0)


embedding_backward.samples(
    lambda make: [(5, make.ints(5, 4), make(4, 3)), (5, make.ints(5, 2, 3), make(2, 3, 2), 1), (3, make.ints(3, 0), make(0, 2))]
)


# -- advanced indexing: tensors at some of the dims


def _broadcast(shapes):
    rank = max(len(shape) for shape in shapes)
    out = []
    for column in zip(*[(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]):
        wide = [n for n in column if not (type(n) is int and n == 1)]
        if any(n != wide[0] for n in wide[1:]):
            raise IndexError(
                "shape mismatch: indexing tensors could not be broadcast together with shapes "
                + ", ".join(str(list(shape)) for shape in shapes)
            )
        out.append(wide[0] if wide else 1)
    return tuple(out)


def _layout(x, indices, dims):
    """(broadcast shape of the indices, its first position in the result): in place where dims are adjacent, else in
    front."""
    adjacent = all(b == a + 1 for a, b in zip(dims, dims[1:]))
    return _broadcast([index.shape for index in indices]), dims[0] if adjacent else 0


def indexed_sizes(x, indices, dims):
    shape, at = _layout(x, indices, dims)
    rest = [n for d, n in enumerate(x.shape) if d not in dims]
    return (*rest[:at], *shape, *rest[at:])


def _source(s, i, x, indices, dims):
    """The index into x of element i of the result."""
    shape, at = _layout(x, indices, dims)
    here, rest = i[at : at + len(shape)], iter(i[:at] + i[at + len(shape) :])
    where = dict(zip(dims, indices))
    index = []
    for d in range(len(x.shape)):
        if d not in where:
            index.append(next(rest))
            continue
        loader = where[d]
        own = here[len(here) - len(loader.shape) :]
        value = loader(*(0 if type(n) is int and n == 1 else k for n, k in zip(loader.shape, own)))
        size = s.index(x.shape[d])
        value = s.where(s.lt(value, 0), value + size, value)
        index.append(s.indirect(value, x.shape[d]))
    return tuple(index)


def _numpy_index(x, indices, dims):
    """numpy's key: the indices, counted from the front, where they stand."""
    where = dict(zip(dims, indices))
    for d, index in where.items():
        size = x.shape[d]
        if index.size and copy_gather.out_of_range(index, size):
            low, high = index.min(), index.max()
            if low < -size or high >= size:
                raise IndexError(f"index {high if high >= size else low} is out of bounds for dimension {d} with size {size}")
            where[d] = np.where(index < 0, index + size, index)
    return tuple(where.get(d, slice(None)) for d in range(max(dims) + 1))


def _linear(x, where):
    """(x with its indexed leading dims as one, the one index into it) of `_numpy_index`, or None where numpy shall look."""
    if any(type(index) is slice or index.dtype != np.int64 for index in where) or not x.flags.c_contiguous:
        return None
    linear = where[0]
    for extent, index in zip(x.shape[1:], where[1:]):
        linear = linear * extent + index
    return x.reshape(-1, *x.shape[len(where) :]), np.ascontiguousarray(linear)


def _taken(x, where):
    """x[where] of two and more indices, natively where it pays."""
    found = _linear(x, where) if len(where) > 1 and where[-1].size >= copy_gather.SMALL else None
    rows = NotImplemented if found is None else copy_gather.take_rows(*found)
    return x[where] if rows is NotImplemented else rows[0]


@indexed(meta=indexed_sizes, promote="keep", exclude=("indices",), refuses=True)
def index(s, i, x, indices: tensors, dims: static):
    """x[..., indices, ...]: integer tensors (broadcast together) at `dims`, everything at the other dims."""
    return x(*_source(s, i, x, indices, dims))


@index.numpy
def _(x, indices, dims):
    """(Where no element is asked for, no index is looked at.)"""
    sizes = indexed_sizes(x, indices, dims)
    return _taken(x, _numpy_index(x, indices, dims)) if 0 not in sizes else np.empty(sizes, x.dtype)


@index.grad("x")
def _(g, x: Meta, indices, dims):
    return index_put_add(_zeros(g, x.shape), indices, g, dims)


@index.samples
def _(make):
    return [
        (make(4, 3), (make.ints(4, 5),), (0,)),
        (make(4, 3), (make.ints(3, 2, 2),), (1,)),
        (make(4, 3), (make.ints(4, 2, 1), make.ints(3, 3)), (0, 1)),
        (make(2, 3, 4), (make.ints(2, 5), make.ints(4, 5)), (0, 2)),
        (make(4, 3), (make.ints(4, 5) - 4,), (0,)),
        (make(4, 3), (make.ints(4, 0),), (0,)),
    ]


def _added(x, where, values) -> bool:
    """x[where] += values with duplicates added up, natively."""
    found = _linear(x, where)
    if found is None:
        return False
    rows, index = found
    if values.shape != index.shape + rows.shape[1:]:
        return False
    return added_rows(rows, 0, index.reshape(-1), np.ascontiguousarray(values).reshape(index.size, *rows.shape[1:]))


def _index_put(name, mode, kernel):
    @scatter(
        name=name,
        mode=mode,
        promote="keep",
        exclude=("indices",),
        refuses=True,
        ranges=lambda x, indices, values, dims: indexed_sizes(x, indices, dims),
    )
    def record(s, i, x, indices: tensors, values, dims: static):
        own = i[len(i) - len(values.shape) :]
        value = values(*(0 if type(n) is int and n == 1 else k for n, k in zip(values.shape, own)))
        return _source(s, i, x, indices, dims), value

    @record.numpy
    def _(x, indices, values, dims):
        out = copy_gather.copied(x) if x.flags.c_contiguous else x.copy("K")
        write(out, indices, values, dims)
        return out

    @record.inplace.numpy
    def write(x, indices, values, dims):
        if 0 in indexed_sizes(x, indices, dims):
            return
        where = _numpy_index(x, indices, dims)
        if mode == "set" or not _added(x, where, values):
            kernel(x, where, values)

    @record.grad("values")
    def _(g, indices, dims):
        return index(g, indices, dims)

    return record


index_put = _index_put("index_put", "set", _assign)
index_put_add = _index_put("index_put_add", "add", np.add.at)


def _places(size, steps, offset, device):
    """Where in memory each element lies."""
    place = full((), offset, dtypes.int64, device)
    for d, (n, step) in enumerate(zip(size, steps)):
        along = arange(0, step, n, dtypes.int64, device) if step else full((n,), 0, dtypes.int64, device)
        place = add(place, reshape(along, (n,) + (1,) * (len(size) - 1 - d)))
    return place


def _reach(size, steps):
    return 0 if 0 in size else sum((n - 1) * step for n, step in zip(size, steps))


def _memory(x, size, steps, offset, own):
    """(elements of memory that holds a restrided tensor `x` and its view, where the ones lie there, where the others do)"""
    shape, low = tuple(x.shape), min(0, offset)
    span = max(_reach(shape, own), offset + _reach(size, steps)) + 1 - low
    return span, _places(shape, own, -low, x.device), _places(size, steps, offset - low, x.device)


@restrided.grad("x")
def _(g, x: Meta, size, steps, offset, own):
    """As for as_strided, over memory that holds both tensors; elements of `x` in one place share its gradient."""
    span, mine, theirs = _memory(x, size, steps, offset, own)
    flat = index_put_add(_zeros(g, (span,)), (theirs,), g, (0,))
    if 0 in own:
        count = index_put_add(_zeros(g, (span,)), (mine,), full(x.shape, 1, g.dtype, g.device), (0,))
        flat = div(flat, maximum(count, 1))
    return index(flat, (mine,), (0,))


@restrided.put.grad("base")
def _(g, size, steps, offset, own):
    """What was written over has no gradient. The gradient need not lie in memory as the tensor did."""
    span, mine, theirs = _memory(g, size, steps, offset, own)
    kept = index_put(full((span,), 1, g.dtype, g.device), (theirs,), full((), 0, g.dtype, g.device), (0,))
    return where(eq(index(kept, (mine,), (0,)), 0), full((), 0, g.dtype, g.device), g)


@restrided.put.grad("value")
def _(g, size, steps, offset, own):
    span, mine, theirs = _memory(g, size, steps, offset, own)
    return index(index_put(_zeros(g, (span,)), (mine,), g, (0,)), (theirs,), (0,))


@as_strided.grad("x")
def _(g, x: Meta, size, steps, offset):
    """Every element's gradient goes back to its place in the (contiguous) memory; places seen twice add up."""
    place = _places(size, steps, offset, g.device)
    flat = index_put_add(_zeros(g, (numel(x.shape),)), (place,), g, (0,))
    return reshape(flat, tuple(x.shape))


@index_put.grad("x")
def _(g, indices, dims):
    return index_put(g, indices, full((), 0, g.dtype, g.device), dims)


@index_put_add.grad("x")
def _(g):
    return g


@index_put.samples
def _(make):
    return [
        (make(4, 3), (make.permutation(4, 4),), make(4, 3), (0,)),
        (make(4, 3), (make.permutation(3, 3),), make(3), (1,)),
        (make(4, 3), (make.permutation(4, 4),), make(), (0,)),
        (make(4, 3), (make.ints(4, 0),), make(0, 3), (0,)),
    ]


@index_put_add.samples
def _(make):
    return [
        (make(4, 3), (make.ints(4, 5),), make(5, 3), (0,)),
        (make(4, 3), (make.ints(4, 5), make.ints(3, 5)), make(5), (0, 1)),
        (make(2, 3, 4), (make.ints(2, 5), make.ints(4, 5)), make(5, 3), (0, 2)),
    ]
