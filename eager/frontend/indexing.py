"""x[...] and x[...] = y, and reading and writing by index tensors.

A key is taken apart from left to right: ints, slices, None and Ellipsis become views; tensors (also sequences and arrays)
remain, with the dim that each stands at, for one advanced index at the end. Boolean masks become their non-zero
positions. A sequence that holds more than numbers is a tuple of indices; an integer tensor without dims is an int.
"""

import operator
from typing import Any

import numpy as np

from .. import dtypes
from ..dispatch import number_of, refuse_repeats, small, type_name
from ..op.meta import broadcast_shapes
from ..ops import arithmetic as a, indexing as r, views as v
from ..ops.checks import check_within
from ..ops.rearrange import stack
from ..autograd_node import mark_multiple
from ..sizes import SymFloat, SymInt, is_number
from ..state import state
from ..tensor import Tensor, read_of_fake
from . import public
from .arguments import check_holds, dim_of, fitting, give, settings
from .creation import as_tensor
from .expanded_writes import distinct, fill, fill_masked

_FULL = slice(None)
_AS_TUPLE = 32  # sequences of as many parts or more are always one index


# -- keys


@public.views
def getitem(self, key):
    kind = type(key)
    if kind is int:
        return _select(self, 0, key)
    if kind is slice:
        return v.alias(self) if key == _FULL and self.ndim else _slice(self, 0, key)
    if kind is Tensor and key._fl_dtype is dtypes.bool and _plain_mask(self, key):
        return _selected(self, key)
    out, indices, dims = _take_apart(self, key)
    if not indices:
        return v.alias(out) if out is self else out
    return r.index(out, indices, dims)


def _plain_mask(x, mask) -> bool:
    """A mask over all dims of an array, outside of autograd and modes: the native path takes most of these."""
    return (
        state.quick is not None
        and x._fl_array is not None
        and mask._fl_array is not None
        and x._fl_array.shape == mask._fl_array.shape
        and not (state.grad and x.requires_grad)
    )


def _by_places(x, mask):
    out, indices, dims = _take_apart(x, mask)
    return r.index(out, indices, dims)


_selected = small("masked_select", _by_places)


def _parts(key) -> tuple:
    """The parts of a key: of a tuple, and of a short sequence that holds anything but numbers."""
    if isinstance(key, tuple):
        return tuple(key)
    if isinstance(key, (Tensor, np.ndarray)) or not _is_sequence(key):
        return (key,)
    if len(key) < _AS_TUPLE and any(k is None or k is Ellipsis or isinstance(k, (Tensor, slice)) or _is_sequence(k) for k in key):
        return tuple(key)
    return (key,)


def _is_sequence(k) -> bool:
    return isinstance(k, (list, tuple, range, str, bytes, bytearray, np.ndarray)) or (
        not isinstance(k, (Tensor, dict, np.generic)) and hasattr(type(k), "__getitem__") and hasattr(type(k), "__len__")
    )


def _take_apart(x, key, number=None):
    """(view, index tensors, their dims in the view). `number`: what an integer tensor without dims stands for."""
    given = _parts(key)
    room = x.ndim - sum(_width(k) for k in given)
    if room < 0:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    indices, dims, d = [], [], 0
    for k in given:
        k: Any = _convert(k, number or _number_of)
        if type(k) is int or isinstance(k, SymInt):
            x = _select(x, d, k)
        elif type(k) is slice:
            if k != _FULL and not (d >= x.ndim and _takes_all(k)):  # (behind a second ellipsis)
                x = _slice(x, d, k)
            d += 1
        elif k is None:
            if d > x.ndim:  # (behind a second ellipsis)
                raise IndexError(f"Dimension out of range (expected to be in range of [{-x.ndim - 1}, {x.ndim}], but got {d})")
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
            indices.append(k)
            dims.append(d)
            d += _width(k)
    indices, dims = _placed(x, indices, dims)
    _check_places(x, indices, dims)
    return x, tuple(indices), tuple(dims)


def _takes_all(k: slice) -> bool:
    return k.stop is None and k.start in (None, 0) and k.step in (None, 1)


def _placed(x, indices, dims):
    """Index tensors of one dim each, when the whole key has been read: masks give one for each of their dims."""
    found = [(index, d + e) for k, d in zip(indices, dims) for e, index in enumerate(_positions(k, x, d))]
    return [_as_long(index) for index, _ in found], [d for _, d in found]


_MASKS = (dtypes.bool, dtypes.uint8)


def _check_places(x, indices, dims):
    """What sizes alone refuse: more indices than dims, and indices into a dim without elements."""
    if dims and dims[-1] >= x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim} (got {dims[-1] + 1})")
    for d in dims:
        if type(x.shape[d]) is int and x.shape[d] == 0 and all(type(n) is not int or n for n in _common(indices)):
            raise IndexError("index is out of bounds for dimension with size 0")


def _common(indices):
    return r._broadcast([index.shape for index in indices])


def _convert(k, number=None):
    """A part of a key as int, slice, None, Ellipsis, bool or tensor."""
    if k is None or k is Ellipsis or type(k) in (int, slice, bool) or isinstance(k, SymInt):
        return k
    if isinstance(k, Tensor):
        return (number or _number_of)(k) if _is_position(k) and k.dtype.category == 1 else k
    if _is_sequence(k):
        k = _of_sequence(k)
        return _number_of(k) if k.ndim == 0 and k.dtype is dtypes.int64 else k
    try:
        return operator.index(k)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
            f"indices (got {_type_text(k)})"
        ) from None


def _type_text(k):
    kind = type(k)
    return kind.__name__ if kind.__module__ != "numpy" else f"numpy.{kind.__name__}"


def _number_of(k):
    """The int that an integer tensor without dims is; of one without bytes, the number that its trace stands for it."""
    return int(k.item()) if k._fl_array is not None else read_of_fake(k, "item")


def _same(k):
    return k.long()


def _all_unread(key) -> bool:
    """Whether the only tensors of a key are integers that a trace does not know: a write needs no view of the place, so
    they need not be read."""
    tensors = [
        k for k in _parts(key) if not (k is None or k is Ellipsis or isinstance(k, (int, slice, SymInt)) and type(k) is not bool)
    ]
    return bool(tensors) and all(
        isinstance(k, Tensor) and k._fl_array is None and _is_position(k) and k.dtype.category == 1 for k in tensors
    )


def _of_sequence(k):
    """A sequence or an array as a tensor of positions, or as a mask."""
    if isinstance(k, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(k).__name__}'")
    if not isinstance(k, (list, tuple, np.ndarray)):
        k = list(k)
    if isinstance(k, (list, tuple)) and any(isinstance(each, Tensor) and each.dtype.category > 1 for each in k):
        raise TypeError("only integer tensors of a single element can be converted to an index")
    if isinstance(k, (list, tuple)) and k and all(isinstance(each, Tensor) and each._fl_array is None for each in k):
        t = stack(tuple([v.reshape(each, ()) for each in k]), 0)
    else:
        t = as_tensor(k)
    if t.dtype.is_complex:
        raise TypeError("'complex' object cannot be interpreted as an integer")
    return t if t.dtype in _MASKS else t.long()


def _width(k):
    """How many dims of the tensor a part of a key speaks for."""
    if k is None or k is Ellipsis or type(k) is bool:
        return 0
    return k.ndim if isinstance(k, Tensor) and k.dtype in _MASKS else 1


def _positions(k, x, d):
    """An index tensor, or of a mask the positions of its True elements, one tensor per dim."""
    if k.dtype in _MASKS:
        shape = x.shape[d : d + k.ndim]
        for e, n in enumerate(k.shape):
            if e >= len(shape) or n != shape[e]:
                raise IndexError(
                    f"The shape of the mask {list(k.shape)} at index {e} does not match the shape of the "
                    "indexed tensor "
                    f"{list(x.shape)} at index {d + e}"
                )
        return nonzero(k, as_tuple=True)
    return (k,)


def _as_long(k):
    if k.dtype is dtypes.int64:
        return k
    if k.dtype is not dtypes.int32:
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return k.long()


def _select(x, d, index):
    if type(index) is int and not -(2**63) <= index < 2**63:
        raise ValueError("Overflow when unpacking long long")
    if not x.ndim:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ "
            "to convert a 0-dim "
            "tensor to a number"
        )
    n = x.shape[d] if d < x.ndim else 0
    if index >= n or index < -n:
        raise IndexError(f"index {index} is out of bounds for dimension {d} with size {n}")
    return v.select(x, d, index + n if index < 0 else index)


def _slice(x, d, key):
    if not x.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    n = x.shape[d] if d < x.ndim else 0
    step = 1 if key.step is None else _number(key.step)
    if type(step) is int and step == 0:
        raise ValueError("slice step cannot be zero")
    if step <= 0:
        raise ValueError("step must be greater than zero")
    if d >= x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
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
        if isinstance(value, Tensor):
            check_holds(self.dtype, value)
        held = value.to(self.dtype) if isinstance(value, Tensor) else fitting(value, self.dtype, dtypes.float64)
        fill_masked(target, mask, held)
        return
    value = _as_value(self, value)
    if type(key) is int and not -(2**63) <= key < 2**63:
        raise ValueError("Overflow when unpacking long long")
    if type(key) is bool:
        if key:
            _assign(v.unsqueeze(self, 0), value)
        return
    unread = _all_unread(key) and not _is_part(value, self)
    out, indices, dims = _take_apart(self, key, _same if unread else _number_of)
    if not indices:
        _assign(out, value)
        return
    places = r.indexed_sizes(out, indices, dims)
    values = _as_values(out, value, unread or _fills(out, _parts(key), value))
    values = _strip(values, len(places))
    _check_fits(values, places)
    if unread and any(type(n) is int and n == 0 for n in places):
        _check_positions(out, indices, dims)
    r.index_put.inplace(out, indices, values, dims)


def _check_positions(out, indices, dims):
    """Positions that a trace does not know are looked at also where nothing is written, as those that are known are."""
    for index, d in zip(indices, dims):
        if not index.ndim:
            n = out.shape[d]
            check_within(index, -n, n - 1, f"index {{bad}} is out of bounds for dimension {d} with size {n}", "IndexError")


def _check_fits(values, places):
    pairs = zip(reversed(values.shape), reversed(tuple(places)))
    if values.ndim > len(places) or any(n is not m and not (type(n) is int and n == 1) and n != m and n != 1 for n, m in pairs):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing "
            f"result of shape {list(places)}"
        )


def _scalar(value):
    return isinstance(value, (int, float, complex)) or (isinstance(value, Tensor) and not value.ndim)


def _check_mask(x, mask):
    for d, (n, m) in enumerate(zip(mask.shape, x.shape)):
        if n != m:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {d} does not match the shape of the "
                "indexed tensor "
                f"{list(x.shape)} at index {d}"
            )
    if mask.ndim > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")


def _is_part(value, x):
    """Whether what is stored lies in x's memory (`x[i] += 1` stores what it has read, in its place)."""
    return isinstance(value, Tensor) and value._fl_storage is x._fl_storage is not None


def _as_value(x, value):
    """What is stored: a tensor or a number."""
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("Overflow when unpacking long long")
    if not isinstance(value, (Tensor, int, float, complex, SymInt, SymFloat)):
        raise TypeError(f"can't assign a {_type_text(value)} to a torch.{type_name(x.dtype)}Tensor")
    return value


def _assign(out, value):
    value = fitting(value, out.dtype, dtypes.float64)
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
        return as_tensor(fitting(value, x.dtype, dtypes.float64), dtype=x.dtype)
    if value.dtype is x.dtype:
        return value
    if not casts:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{type_name(x.dtype)} for the destination and {type_name(value.dtype)} for the source."
        )
    if value.numel() == 1:
        check_holds(x.dtype, value)
    return value.to(x.dtype)


def _fills(x, key, value):
    """One value at a single mask may have another type than the tensor. How many there are is asked only where it matters."""
    places = [_convert(k, _same) for k in key if not (k is None or k is Ellipsis or type(k) is slice)]
    masks = [k for k in places if type(k) is bool or isinstance(k, Tensor) and not _is_position(k)]
    if len(masks) != 1 or not isinstance(masks[0], Tensor) or not masks[0].ndim:
        return False
    bytes_, given = masks[0].dtype is dtypes.uint8, isinstance(value, Tensor)
    if not bytes_ and (not given or value.dtype is x.dtype) or given and value.numel() != 1:
        return False
    if bytes_:
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
    return masks[0].dtype is dtypes.bool


# -- functions


@public.both
def nonzero(input, *, out=None, as_tuple=False):
    """Positions of the elements that are not zero: rows of one tensor, or a tuple of tensors per dim."""
    if as_tuple and out is not None:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    if input._fl_array is None and (out is None or input._fl_storage.runtime is not None) and input.ndim:
        empty = any(type(n) is int and n == 0 for n in input.shape)  # (then nothing needs to be read)
        rows = give(input.new_zeros((0, input.ndim), dtype=dtypes.int64) if empty else read_of_fake(input, "nonzero"), out)
        return tuple([column.contiguous() for column in rows.unbind(1)]) if as_tuple else rows
    found = np.nonzero(np.atleast_1d(input._values("nonzero()")))
    if not input.ndim:
        found = found if as_tuple else ()
    if as_tuple:
        return tuple(_positions_tensor(index) for index in found)
    count = len(found[0]) if found else int(bool(input))
    places = found[0][:, None] if len(found) == 1 else np.stack(found, 1) if found else np.zeros((count, 0), np.int64)
    rows = _positions_tensor(places)
    return give(rows if input._fl_array is not None or input.is_meta else rows.to(input.device), out)


def _positions_tensor(array):
    return Tensor._fl_from_array(np.ascontiguousarray(array, np.int64), dtypes.int64)


argwhere = nonzero


@public.small
@public.both
def masked_select(input, mask, *, out=None):
    if mask.dtype is not dtypes.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shapes((tuple(input.shape), tuple(mask.shape)), "masked_select")
    return give(getitem(input.expand(shape), mask.expand(shape)), out)


def _long(index, name):
    if index.dtype is not dtypes.int64:
        if index.dtype is dtypes.int32:
            return index.long()
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    return index


def _row(x):
    """A tensor without dims as one of a single element: along a dim both are the same."""
    return x if x.ndim else v.reshape(x, (1,))


def _is_empty(x):
    return any(type(n) is int and n == 0 for n in x.shape)


@public.small(r.gather)
@public.both
def gather(input, dim, index, *, sparse_grad=False, out=None):
    if sparse_grad:
        raise RuntimeError("gather(sparse_grad=True) is not supported: gradients are dense; leave it out")
    d, shape = dim_of(input, dim), tuple(index.shape)
    if _is_empty(index):
        return give(v.reshape(v.slice_dim(v.reshape(input, (input.numel(),)), 0, 0, 1, 0), shape), out)
    x, index = _row(input), _row(_long(index, "gather"))
    if x.ndim != index.ndim:
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as input tensor: got {list(shape)} and {list(input.shape)}"
        )
    for e, (n, m) in enumerate(zip(index.shape, x.shape)):
        if e != d and n > m:
            raise RuntimeError(
                f"Size does not match at dimension {e} expected index {list(index.shape)} to be no "
                f"larger than self {list(x.shape)} apart from dimension {d}"
            )
    found = r.gather(x, d, index)
    return give(found if len(shape) == index.ndim else v.reshape(found, shape), out)


@public.small(r.gather)
@public.both
def take_along_dim(input, indices, dim=None, *, out=None):
    if indices.dtype is not dtypes.int64:
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {type_name(indices.dtype)}")
    if dim is None:
        return gather(v.reshape(input, (input.numel(),)), 0, v.reshape(indices, (indices.numel(),)), out=out)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    d = dim_of(input, dim)
    flat = [tuple(1 if e == d else n for e, n in enumerate(x.shape)) for x in (input, indices)]
    common = broadcast_shapes(flat, "take_along_dim")
    shapes = [(*common[:d], *x.shape[d : d + 1], *common[d + 1 :]) for x in (input, indices)]
    if input.ndim and not _is_empty(input):
        indices = _wrapped(indices, input.shape[d])
    return gather(input.expand(*shapes[0]), d, indices.expand(*shapes[1]), out=out)


def _wrapped(index, size):
    """Positions modulo the size of the dim; a tensor with bytes that has none outside stays itself."""
    array = index._fl_array
    if array is not None and (not array.size or array.min() >= 0 and array.max() < size):
        return index
    return a.remainder(index, size)


@public.small
@public.both
def take(input, index):
    if index.dtype is not dtypes.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {type_name(index.dtype)}")
    if _is_empty(input) and not _is_empty(index):
        raise IndexError("take(): tried to take from an empty tensor")
    return r.index(v.reshape(input, (input.numel(),)), (index,), (0,))


def _scatter_args(self, dim, index, src, name):
    """(dim, index, source) for a tensor with dims; an index without elements is None."""
    d = dim_of(self, dim)
    if isinstance(src, Tensor):
        if src.dtype is not self.dtype:
            raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if _is_empty(index) and (
        index.dtype is not dtypes.int64 or max(self.ndim, 1) != index.ndim or isinstance(src, Tensor) and src.ndim != index.ndim
    ):
        return d, None, src
    index = _row(_long(index, name))
    if max(self.ndim, 1) != index.ndim:
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as self tensor: got {list(index.shape)} and {list(self.shape)}"
        )
    if isinstance(src, Tensor):
        src = _row(src)
        if src.ndim != index.ndim:
            raise RuntimeError(
                f"Index tensor must have the same number of dimensions as src tensor: got {list(index.shape)} "
                f"and {list(src.shape)}"
            )
    for e, n in enumerate(index.shape):
        if (e != d and n > self.shape[e]) or isinstance(src, Tensor) and n > src.shape[e]:
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than self {list(self.shape)} "
                f"apart from dimension {d}"
                + (f" and to be no larger size than src {list(src.shape)}" if isinstance(src, Tensor) else "")
            )
    return d, index, src


def _scatter(self, dim, index, src, value, inplace, name="scatter", record=None):
    src = value if src is None else src
    if not isinstance(src, (Tensor, int, float, complex, SymInt, SymFloat)):
        raise TypeError(f"{name}(): argument 'src' (position 3) must be Tensor or Number, not {type(src).__name__}")
    d, index, src = _scatter_args(self, dim, index, src, name)
    if index is None:
        return self if inplace else self.clone()  # no element goes anywhere, whatever the index is made of
    record = record or (r.scatter_set if isinstance(src, Tensor) else r.scatter_value)
    src = src if isinstance(src, Tensor) else fitting(src, self.dtype)
    if not inplace:
        return record(self, d, index, src) if self.ndim else v.reshape(record(_row(self), d, index, src), ())
    record.inplace(self if self.ndim else v.unsqueeze(self, 0), d, index, src)
    return self


def _scatter_reducing(input, dim, index, src, value, reduce, inplace):
    """scatter with a reduction: sums and products."""
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    src = value if src is None else src
    if not isinstance(src, Tensor):
        src = input.new_full(tuple(index.shape), src)
    made = scatter_add(input, dim, index, src) if reduce == "add" else input.scatter_reduce(dim, index, src, "prod")
    return input.copy_(made) if inplace else made


@public.small(r.scatter_set)
@public.both
def scatter(input, dim, index, src=None, *, value=None, reduce=None, out=None):
    if reduce is not None:
        return give(_scatter_reducing(input, dim, index, src, value, reduce, False), out)
    return give(_scatter(input, dim, index, src, value, False), out)


@public.method
def scatter_(self, dim, index, src=None, *, value=None, reduce=None):
    if reduce is not None:
        return _scatter_reducing(self, dim, index, src, value, reduce, True)
    return _scatter(self, dim, index, src, value, True)


@public.small(r.scatter_add)
@public.both
def scatter_add(input, dim, index, src, *, out=None):
    return give(_scatter(input, dim, index, src, None, False, "scatter_add", r.scatter_add), out)


@public.method
def scatter_add_(self, dim, index, src):
    return _scatter(self, dim, index, src, None, True, "scatter_add", r.scatter_add)


@public.small(r.index_select)
@public.both
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


def _vector(index, name):
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    return _row(index)


def _rows_of(self, d, source):
    """(self, source) with dims: a tensor without dims is a single row."""
    return (self, source) if self.ndim else (v.unsqueeze(self, 0), _row(source))


def _add_args(self, dim, index, source, alpha):
    d = dim_of(self, dim)
    index = _vector(_long(index, "index_add"), "index_add_")
    (alpha,) = settings(source, alpha)
    source = source if alpha == 1 else a.mul(source, alpha if self.dtype is not dtypes.bool else bool(alpha))
    if source.dtype is not self.dtype:
        raise RuntimeError(f"index_add_(): self ({self.dtype}) and source ({source.dtype}) must have the same scalar type")
    count = source.shape[d] if source.ndim > d else 1
    if index.shape[0] != count:
        raise RuntimeError(
            f"index_add_(): Number of indices ({index.shape[0]}) should be equal to source.size(dim): ({count}), for dim: {d}"
        )
    _check_slices(
        self,
        source,
        d,
        "source tensor shape must match self tensor shape, excluding the specified dimension. "
        f"Got self.shape = {list(self.shape)} source.shape = {list(source.shape)}",
    )
    return d, index, source


def _check_slices(self, source, d, text):
    if source.ndim != self.ndim or any(
        e != d and n is not m and n != m for e, (n, m) in enumerate(zip(self.shape, source.shape))
    ):
        raise RuntimeError(text)


def _copy_args(self, dim, index, source):
    d = dim_of(self, dim)
    if index.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    if index.dtype is not dtypes.int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {type_name(index.dtype)}")
    if source.dtype is not self.dtype:
        raise RuntimeError(
            f"index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{type_name(self.dtype)} and (source) {type_name(source.dtype)}"
        )
    index, count = _row(index), source.shape[d] if source.ndim else 1
    if self.ndim and source.ndim and source.ndim != self.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({self.ndim})"
        )
    if not source.ndim and index.shape[0] != 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {index.shape[0]})")
    if index.shape[0] != count:
        raise IndexError(f"index_copy_(): Number of indices ({index.shape[0]}) should be equal to source.size(dim) ({count})")
    if source.ndim and self.ndim:
        _check_slices(
            self,
            source,
            d,
            "index_copy_(): Source/destination tensor must have same slice shapes. Got "
            f"{list(self.shape)} and {list(source.shape)} at dimension {d}",
        )
    elif self.ndim:
        source = v.expand(v.reshape(source, (1,) * self.ndim), tuple(1 if e == d else n for e, n in enumerate(self.shape)))
    return d, index, source


def _index_fill_args(self, dim, index, value):
    d = dim_of(self, dim)
    if index.dtype is not dtypes.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
            )
        value = value.item()
    value = number_of(value)
    if not is_number(value):
        raise TypeError(f"index_fill_(): argument 'value' (position 3) must be Number or Tensor, not {type(value).__name__}")
    if isinstance(value, complex) and not self.dtype.is_complex:
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    index, n = _row(index), self.shape[d] if self.ndim else 1
    if index._fl_array is None or index._fl_array.size and index._fl_array.min() < 0:
        index = a.where(a.lt(index, 0), a.add(index, n), index)
    return d, index, fitting(value, self.dtype)


def _written(record, self, d, index, what, inplace):
    """A write along a dim, also of a tensor without dims."""
    if inplace and record is r.index_fill and self.ndim:
        x = distinct(self)
        if x.shape[d] != self.shape[d] and not _is_empty(index):
            return fill(self, what)
        record.inplace(x, d, index, what)
        return self
    x, what = _rows_of(self, d, what) if isinstance(what, Tensor) else (self if self.ndim else v.unsqueeze(self, 0), what)
    if inplace:
        record.inplace(x, d, index, what)
        return self
    return record(x, d, index, what) if self.ndim else v.reshape(record(x, d, index, what), ())


@public.small(r.index_add)
@public.both
def index_add(input, dim, index, source, *, alpha=1, out=None):
    return give(_written(r.index_add, input, *_add_args(input, dim, index, source, alpha), False), out)


@public.method
def index_add_(self, dim, index, source, *, alpha=1):
    return _written(r.index_add, self, *_add_args(self, dim, index, source, alpha), True)


@public.small(r.index_copy)
@public.both
def index_copy(input, dim, index, source, *, out=None):
    return give(_written(r.index_copy, input, *_copy_args(input, dim, index, source), False), out)


@public.method
def index_copy_(self, dim, index, source):
    return _written(r.index_copy, self, *_copy_args(self, dim, index, source), True)


@public.small
@public.both
def index_fill(input, dim, index, value):
    return _written(r.index_fill, input, *_index_fill_args(input, dim, index, value), False)


@public.method
def index_fill_(self, dim, index, value):
    return _written(r.index_fill, self, *_index_fill_args(self, dim, index, value), True)


def _put_args(self, indices, values, accumulate):
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"index_put(): argument 'indices' (position 1) must be tuple of Tensors, not {type(indices).__name__}")
    for k, i in enumerate(indices):
        if not isinstance(i, Tensor):
            raise TypeError(f"index_put(): expected Tensor as element {k} in argument 'indices', but got {type(i).__name__}")
    if not indices:
        raise RuntimeError("index_put(): at least one index is needed, but 'indices' is empty")
    if not isinstance(values, Tensor):
        raise TypeError(f"index_put(): argument 'values' (position 2) must be Tensor, not {type(values).__name__}")
    x, where, dims = _take_apart(self, tuple(v.unsqueeze(i, 0) if _is_position(i) else i for i in indices))
    values = _as_values(self, values, not accumulate and _fills(self, tuple(indices), values))
    values = _strip(values, len(r.indexed_sizes(x, where, dims)))
    _check_fits(values, r.indexed_sizes(x, where, dims))
    return x, where, values, dims


def _is_position(index):
    return not index.ndim and index.dtype not in _MASKS


@public.both
@public.in_place_function
def index_put(input, indices, values, accumulate=False):
    x, *rest = _put_args(input, indices, values, accumulate)
    made = (r.index_put_add if accumulate else r.index_put)(x, *rest)
    return made if x is input else v.reshape(made, tuple(input.shape))


@public.small
@public.method
def index_put_(self, indices, values, accumulate=False):
    x, *rest = _put_args(self, indices, values, accumulate)
    (r.index_put_add if accumulate else r.index_put).inplace(x, *rest)
    return self


@public.both
def masked_scatter(input, mask, source):
    shape = broadcast_shapes((tuple(input.shape), tuple(mask.shape)), "masked_scatter")
    return masked_scatter_(input.expand(shape).clone(), mask, source)


@public.small
@public.method
def masked_scatter_(self, mask, source):
    """The elements of source, in order, at the True positions."""
    if source.dtype is not self.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got "
            f"{type_name(self.dtype)} and {type_name(source.dtype)}"
        )
    if mask.dtype is not dtypes.bool:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {type_name(mask.dtype)}")
    if not self.ndim:
        masked_scatter_(v.unsqueeze(self, 0), v.reshape(mask, (1,)), source)
        return self
    refuse_repeats("masked_scatter_", self)
    where = nonzero(mask.expand(*self.shape), as_tuple=True)
    if source.numel() < where[0].shape[0]:
        raise RuntimeError("Number of elements of source < number of ones in mask")
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


public.each(globals(), both="argwhere")
