"""x[...] and x[...] = y, and reading and writing by index tensors.

A key is taken apart from left to right: ints, slices, None and Ellipsis become views; tensors (also sequences and arrays)
remain, with the dim that each stands at, for one advanced index at the end. Boolean masks become their non-zero
positions. A sequence that holds more than numbers is a tuple of indices; an integer tensor without dims is an int.
"""

import operator

import numpy as np

from .. import dtypes
from ..dispatch import type_name
from ..meta import broadcast_shapes
from ..ops import arithmetic as a, indexing as r, views as v
from ..ops.rearrange import stack
from ..record import mark_multiple
from ..sizes import SymFloat, SymInt
from ..tensor import Tensor, read_of_fake
from .arguments import dim_of, fitting, give
from .creation import as_tensor

_FULL = slice(None)
_AS_TUPLE = 32                  # sequences of as many parts or more are always one index


# -- keys

def getitem(self, key):
    kind = type(key)
    if kind is int:
        return _select(self, 0, key)
    if kind is slice:
        return v.alias(self) if key == _FULL and self.ndim else _slice(self, 0, key)
    out, indices, dims = _take_apart(self, key)
    if not indices:
        return v.alias(out) if out is self else out
    return r.index(out, indices, dims)


def _parts(key) -> tuple:
    """The parts of a key: of a tuple, and of a short sequence that holds anything but numbers."""
    if isinstance(key, tuple):
        return tuple(key)
    if isinstance(key, (Tensor, np.ndarray)) or not _is_sequence(key):
        return key,
    if len(key) < _AS_TUPLE and any(k is None or k is Ellipsis or isinstance(k, (Tensor, slice)) or _is_sequence(k) for k in key):
        return tuple(key)
    return key,


def _is_sequence(k) -> bool:
    return isinstance(k, (list, tuple, range, str, bytes, bytearray, np.ndarray)) or (
        not isinstance(k, (Tensor, dict, np.generic)) and hasattr(type(k), "__getitem__") and hasattr(type(k), "__len__"))


def _take_apart(x, key):
    """(view, index tensors, their dims in the view)."""
    given = _parts(key)
    room = x.ndim - sum(_width(k) for k in given)
    if room < 0:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    indices, dims, d = [], [], 0
    for k in map(_convert, given):
        if type(k) is int or isinstance(k, SymInt):
            x = _select(x, d, k)
        elif type(k) is slice:
            x = x if k == _FULL else _slice(x, d, k)
            d += 1
        elif k is None:
            x = v.unsqueeze(x, d)
            d += 1
        elif k is Ellipsis:
            d += room
        elif type(k) is bool:
            x = v.unsqueeze(x, d)
            indices.append(as_tensor([0] if k else [], dtype=dtypes.int64))
            dims.append(d)
            d += 1
        elif not k.ndim and k.dtype in _MASKS:
            x = v.unsqueeze(x, d)
            indices.append(nonzero(k, as_tuple=True)[0])
            dims.append(d)
            d += 1
        else:
            for index in _positions(k, x, d):
                indices.append(index)
                dims.append(d)
                d += 1
    _check_places(x, indices, dims)
    return x, tuple(indices), tuple(dims)


_MASKS = (dtypes.bool, dtypes.uint8)


def _check_places(x, indices, dims):
    """What sizes alone refuse: more indices than dims, and indices into a dim without elements."""
    if dims and dims[-1] >= x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim} (got {dims[-1] + 1})")
    for index, d in zip(indices, dims):
        if type(x.shape[d]) is int and x.shape[d] == 0 and all(type(n) is not int or n for n in _common(indices)):
            raise IndexError("index is out of bounds for dimension with size 0")


def _common(indices):
    return r._broadcast([index.shape for index in indices])


def _convert(k):
    """A part of a key as int, slice, None, Ellipsis, bool or tensor."""
    if k is None or k is Ellipsis or type(k) in (int, slice, bool) or isinstance(k, SymInt):
        return k
    if isinstance(k, Tensor):
        return _number_of(k) if k.ndim == 0 and k.dtype.category == 1 and k.dtype is not dtypes.uint8 else k
    if _is_sequence(k):
        k = _of_sequence(k)
        return _number_of(k) if k.ndim == 0 and k.dtype is dtypes.int64 else k
    try:
        return operator.index(k)
    except TypeError:
        raise IndexError("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
                         f"indices (got {_type_text(k)})") from None


def _type_text(k):
    kind = type(k)
    return kind.__name__ if kind.__module__ != "numpy" else f"numpy.{kind.__name__}"


def _number_of(k):
    """The int that an integer tensor without dims is; of one without bytes, the number that its trace stands for it."""
    return int(k.item()) if k._array is not None else read_of_fake(k, "item")


def _of_sequence(k):
    """A sequence or an array as a tensor of positions, or as a mask."""
    if isinstance(k, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(k).__name__}'")
    if not isinstance(k, (list, tuple, np.ndarray)):
        k = list(k)
    if isinstance(k, (list, tuple)) and k and all(isinstance(each, Tensor) and each._array is None for each in k):
        t = stack(tuple([v.reshape(each, ()) for each in k]), 0)
    else:
        t = as_tensor(k)
    return t if t.dtype in _MASKS else t.long()


def _width(k):
    """How many dims of the tensor a part of a key speaks for."""
    if k is None or k is Ellipsis or type(k) is bool:
        return 0
    return k.ndim if isinstance(k, Tensor) and k.dtype in _MASKS else 1


def _positions(k, x, d):
    """An index tensor as int64 positions; a mask as the positions of its True elements, one tensor per dim."""
    if k.dtype is dtypes.int64:
        return k,
    if k.dtype in _MASKS:
        shape = x.shape[d:d + k.ndim]
        for e, n in enumerate(k.shape):
            if e >= len(shape) or n != shape[e]:
                raise IndexError(f"The shape of the mask {list(k.shape)} at index {e} does not match the shape of the "
                                 "indexed tensor "
                                 f"{list(x.shape)} at index {d + e}")
        return nonzero(k, as_tuple=True)
    if k.dtype is not dtypes.int32:
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return k.long(),


def _select(x, d, index):
    if not x.ndim:
        raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ "
                         "to convert a 0-dim "
                         "tensor to a number")
    n = x.shape[d]
    if index >= n or index < -n:
        if type(index) is int and not -2**63 <= index < 2**63:
            raise ValueError("Overflow when unpacking long long")
        raise IndexError(f"index {index} is out of bounds for dimension {d} with size {n}")
    return v.select(x, d, index + n if index < 0 else index)


def _slice(x, d, key):
    if not x.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    n = x.shape[d]
    step = 1 if key.step is None else _number(key.step)
    if type(step) is int and step == 0:
        raise ValueError("slice step cannot be zero")
    if step <= 0:
        raise ValueError("step must be greater than zero")
    start = 0 if key.start is None else _within(_number(key.start), n)
    stop = n if key.stop is None else _within(_number(key.stop), n)
    length = stop - start
    if key.stop is not None and length < 0:
        length = 0
    if not (type(step) is int and step == 1):
        length = (length + step - 1) // step
    return v.slice_dim(x, d, start, step, length)


def _number(k):
    if isinstance(k, SymInt):
        return k
    if not hasattr(k, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return k.__index__()


def _within(k, n):
    if k < 0:
        k = k + n
        return k if k >= 0 else 0
    return k if k <= n else n


# -- writing

def setitem(self, key, value):
    if isinstance(key, Tensor) and key.dtype is dtypes.bool and key.ndim and _scalar(value):
        target, mask = self, key
        _check_mask(self, mask)
        for _ in range(self.ndim - mask.ndim):
            mask = v.unsqueeze(mask, mask.ndim)
        a.masked_fill.inplace(target, mask, value.to(self.dtype) if isinstance(value, Tensor) else
                               fitting(value, self.dtype, True))
        return
    value = _as_value(self, value)
    if type(key) is bool:
        if key:
            _assign(v.unsqueeze(self, 0), value)
        return
    out, indices, dims = _take_apart(self, key)
    if not indices:
        _assign(out, value)
        return
    values = _as_values(out, value, _fills(_parts(key), value))
    places = r.indexed_sizes(out, indices, dims)
    values = _strip(values, len(places))
    _check_fits(values, places)
    r.index_put.inplace(out, indices, values, dims)


def _check_fits(values, places):
    if values.ndim > len(places):
        raise RuntimeError(f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing "
                           f"result of shape {list(places)}")
    for n, m in zip(reversed(values.shape), reversed(tuple(places))):
        if n is not m and not (type(n) is int and n == 1) and n != m and n != 1:
            raise RuntimeError(f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing "
                               f"result of shape {list(places)}")


def _scalar(value):
    return isinstance(value, (int, float, complex)) or (isinstance(value, Tensor) and not value.ndim)


def _check_mask(x, mask):
    for d, (n, m) in enumerate(zip(mask.shape, x.shape)):
        if n != m:
            raise IndexError(f"The shape of the mask {list(mask.shape)} at index {d} does not match the shape of the "
                             "indexed tensor "
                             f"{list(x.shape)} at index {d}")
    if mask.ndim > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")


def _as_value(x, value):
    """What is stored: a tensor or a number."""
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, int) and not -2**63 <= value < 2**63:
        raise ValueError("Overflow when unpacking long long")
    if not isinstance(value, (Tensor, int, float, complex, SymInt, SymFloat)):
        raise TypeError(f"can't assign a {_type_text(value)} to a torch.{type_name(x.dtype)}Tensor")
    return value


def _assign(out, value):
    value = fitting(value, out.dtype, True)
    if isinstance(value, Tensor):
        value = _strip(value, out.ndim)
    a.copy.inplace(out, value)


def _strip(value, ndim):
    """Leading dims of size 1 that the target does not have are dropped."""
    while value.ndim > ndim and type(value.shape[0]) is int and value.shape[0] == 1:
        value = v.squeeze(value, (0,))
    return value


def _as_values(x, value, casts):
    if not isinstance(value, Tensor):
        return as_tensor(fitting(value, x.dtype, True), dtype=x.dtype)
    if value.dtype is x.dtype:
        return value
    if not casts:
        raise RuntimeError("Index put requires the source and destination dtypes match, got "
                           f"{type_name(x.dtype)} for the destination and {type_name(value.dtype)} for the source.")
    return value.to(x.dtype)


def _fills(key, value):
    """One value at a single mask may have another type than the tensor."""
    places = [_convert(k) for k in key if not (k is None or k is Ellipsis or type(k) is slice)]
    masks = [k for k in places if type(k) is bool or isinstance(k, Tensor)]
    one = len(masks) == 1 and (not isinstance(value, Tensor) or value.numel() == 1)
    if one and isinstance(masks[0], Tensor) and masks[0].dtype is dtypes.uint8:
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
    return one and isinstance(value, Tensor) and (type(masks[0]) is bool or masks[0].ndim and masks[0].dtype is dtypes.bool)


# -- functions

def nonzero(input, *, out=None, as_tuple=False):
    """Positions of the elements that are not zero: rows of one tensor, or a tuple of tensors per dim."""
    if as_tuple and out is not None:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    if input._array is None and (out is None or input._storage.runtime is not None) and input.ndim:
        rows = give(read_of_fake(input, "nonzero"), out)
        return tuple([column.contiguous() for column in rows.unbind(1)]) if as_tuple else rows
    found = np.nonzero(np.atleast_1d(input._values("nonzero()")))
    if not input.ndim:
        found = found if as_tuple else ()
    if as_tuple:
        return tuple(_positions_tensor(index) for index in found)
    count = len(found[0]) if found else int(bool(input))
    rows = _positions_tensor(np.stack(found, 1) if found else np.zeros((count, 0), np.int64))
    return give(rows if input._array is not None or input.is_meta else rows.to(input.device), out)


def _positions_tensor(array):
    return Tensor._from_array(np.ascontiguousarray(array, np.int64), dtypes.int64)


argwhere = nonzero


def masked_select(input, mask, *, out=None):
    shape = broadcast_shapes((tuple(input.shape), tuple(mask.shape)), "masked_select")
    return give(getitem(input.expand(shape), mask.expand(shape)), out)


def _long(index, name):
    if index.dtype is not dtypes.int64:
        if index.dtype is dtypes.int32 and name in ("index_select", "embedding", "index_add"):
            return index.long()
        raise RuntimeError(f"{name}(): Expected dtype int64 for index")
    return index


def _check_rank(x, index, name):
    if max(x.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {name} tensor: got "
                           f"{list(index.shape)} and "
                           f"{list(x.shape)}")


def gather(input, dim, index, *, sparse_grad=False, out=None):
    if sparse_grad:
        raise RuntimeError("gather(sparse_grad=True) is not supported: gradients are dense; leave it out")
    d = dim_of(input, dim)
    index = _long(index, "gather")
    _check_rank(input, index, "input")
    for e, (n, m) in enumerate(zip(index.shape, input.shape)):
        if e != d and n > m:
            raise RuntimeError(f"Size does not match at dimension {e} expected index {list(index.shape)} to be no "
                               "larger than self "
                               f"{list(input.shape)} apart from dimension {d}")
    return give(r.gather(input, d, index), out)


def take_along_dim(input, indices, dim=None, *, out=None):
    if dim is None:
        return gather(v.reshape(input, (input.numel(),)), 0, v.reshape(indices, (indices.numel(),)), out=out)
    d = dim_of(input, dim)
    flat = [tuple(1 if e == d else n for e, n in enumerate(x.shape)) for x in (input, indices)]
    common = broadcast_shapes(flat, "take_along_dim")
    shapes = [(*common[:d], x.shape[d], *common[d + 1:]) for x in (input, indices)]
    return gather(input.expand(*shapes[0]), d, indices.expand(*shapes[1]), out=out)


def take(input, index):
    return r.index(v.reshape(input, (input.numel(),)), (_long(index, "take"),), (0,))


def _scatter_source(self, src, name):
    if src.dtype is not self.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    return src


def _scatter_args(self, dim, index, src, name):
    d = dim_of(self, dim)
    index = _long(index, name)
    _check_rank(self, index, "self")
    if isinstance(src, Tensor):
        _scatter_source(self, src, name)
        for e, (n, m, k) in enumerate(zip(index.shape, self.shape, src.shape)):
            if (e != d and n > m) or n > k:
                raise RuntimeError(f"Expected index {list(index.shape)} to be no larger than self {list(self.shape)} "
                                   f"apart from dimension {d} "
                                   f"and to be no larger size than src {list(src.shape)}")
    return d, index, src


def _scatter(self, dim, index, src, value, inplace):
    src = value if src is None else src
    args = _scatter_args(self, dim, index, src, "scatter")
    record = r.scatter_set if isinstance(src, Tensor) else r.scatter_value
    return (record.inplace if inplace else record)(self, *args)


def scatter(input, dim, index, src=None, *, value=None, reduce=None, out=None):
    if reduce is not None:
        raise RuntimeError(f"scatter: reduce={reduce!r} is not available; use scatter_add")
    return give(_scatter(input, dim, index, src, value, False), out)


def scatter_(self, dim, index, src=None, *, value=None, reduce=None):
    if reduce is not None:
        raise RuntimeError(f"scatter_: reduce={reduce!r} is not available; use scatter_add_")
    return _scatter(self, dim, index, src, value, True)


def scatter_add(input, dim, index, src, *, out=None):
    return give(r.scatter_add(input, *_scatter_args(input, dim, index, src, "scatter_add")), out)


def scatter_add_(self, dim, index, src):
    return r.scatter_add.inplace(self, *_scatter_args(self, dim, index, src, "scatter_add"))


def index_select(input, dim, index, *, out=None):
    d = dim_of(input, dim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    index = v.reshape(_long(index, "index_select"), (index.numel(),))
    if not input.ndim:
        if index.shape[0] != 1:
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.shape[0]} value(s)")
        return give(v.reshape(r.index_select(v.unsqueeze(input, 0), 0, index), ()), out)
    if input.ndim > 1 and type(input.shape[d]) is int and not input.shape[d] and index.shape[0] != 0:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    return give(r.index_select(input, d, index), out)


def _index_args(self, dim, index, source, alpha=1):
    d = dim_of(self, dim)
    source = source if alpha == 1 else a.mul(source, alpha if self.dtype is not dtypes.bool else bool(alpha))
    if source.dtype is not self.dtype:
        raise RuntimeError(f"index_add_(): self ({self.dtype}) and source ({source.dtype}) must have the same scalar "
                           "type")
    return d, v.reshape(_long(index, "index_add"), (index.numel(),)), source


def index_add(input, dim, index, source, *, alpha=1, out=None):
    return give(r.index_add(input, *_index_args(input, dim, index, source, alpha)), out)


def index_add_(self, dim, index, source, *, alpha=1):
    return r.index_add.inplace(self, *_index_args(self, dim, index, source, alpha))


def index_copy(input, dim, index, source, *, out=None):
    return give(r.index_copy(input, *_index_args(input, dim, index, source)), out)


def index_copy_(self, dim, index, source):
    return r.index_copy.inplace(self, *_index_args(self, dim, index, source))


def _fill_value(x, value):
    return fitting(value.item() if isinstance(value, Tensor) else value, x.dtype)


def index_fill(input, dim, index, value):
    return r.index_fill(input, dim_of(input, dim), _long(index, "index_fill"), _fill_value(input, value))


def index_fill_(self, dim, index, value):
    return r.index_fill.inplace(self, dim_of(self, dim), _long(index, "index_fill"), _fill_value(self, value))


def _put_args(self, indices, values, accumulate):
    if not isinstance(indices, (tuple, list)):
        raise TypeError("index_put(): argument 'indices' (position 1) must be tuple of Tensors, not "
                        f"{type(indices).__name__}")
    for k, i in enumerate(indices):
        if i is not None and not isinstance(i, Tensor):
            raise TypeError(f"index_put(): expected Tensor as element {k} in argument 'indices', but got {type(i).__name__}")
    if not isinstance(values, Tensor):
        raise TypeError(f"index_put(): argument 'values' (position 2) must be Tensor, not {type(values).__name__}")
    x, where, dims = _take_apart(self, tuple(_FULL if i is None else v.unsqueeze(i, 0) if _is_position(i) else i
                                             for i in indices))
    values = _as_values(self, values, not accumulate and _fills(tuple(indices), values))
    values = _strip(values, len(r.indexed_sizes(x, where, dims)))
    _check_fits(values, r.indexed_sizes(x, where, dims))
    return x, where, values, dims


def _is_position(index):
    return not index.ndim and index.dtype not in _MASKS


def index_put(input, indices, values, accumulate=False):
    x, *rest = _put_args(input, indices, values, accumulate)
    return (r.index_put_add if accumulate else r.index_put)(x, *rest)


def index_put_(self, indices, values, accumulate=False):
    x, *rest = _put_args(self, indices, values, accumulate)
    return (r.index_put_add if accumulate else r.index_put).inplace(x, *rest)


def masked_scatter(input, mask, source):
    return masked_scatter_(input.clone(), mask, source)


def masked_scatter_(self, mask, source):
    """The elements of source, in order, at the True positions."""
    if not self.ndim:
        masked_scatter_(v.unsqueeze(self, 0), v.reshape(mask, (1,)), source)
        return self
    where = nonzero(mask.expand(*self.shape), as_tuple=True)
    flat = v.reshape(source, (source.numel(),))
    return r.index_put.inplace(self, where, v.slice_dim(flat, 0, 0, 1, where[0].shape[0]), tuple(range(self.ndim)))


def iterate(self):
    if not self.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(mark_multiple(tuple([v.select(self, 0, k) for k in range(int(self.shape[0]))])))


def contains(self, element):
    if not isinstance(element, (Tensor, int, float, bool)):
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")
    return bool(a.eq(self, element).any())


