"""New tensors: from data, from sizes, in the likeness of another tensor; and conversions of type and device."""

import functools
import math
from typing import Any

import numpy as np

from ...runtime import native
from .. import dtypes
from ..device import runtimes
from ..dispatch import number_of
from ..errors import DataDependent
from ..memory_formats import preserve_format, strided
from ..op.meta import map_strides
from ..op.op import OPS
from ..ops import creation as records
from ..ops.arithmetic import cast, clone as clone_record
from ..ops.complex_numbers import complex_of
from ..ops.rearrange import stack as stack_record
from ..ops.views import contiguous as contiguous_record, contiguous_copy
from ..op.promote import promote_types
from ..sizes import SymFloat, SymInt, is_int, is_number
from ..storage import NEGATIVE_STRIDES, UntypedStorage
from ..tensor import Tensor, fake_tensor
from ..typed_storage import TypedStorage
from . import public
from .arguments import device_of, dtype_of, fitting, give, parse_to, size_of, sizes_of

_wrap = Tensor._fl_from_array


@public.function
def is_tensor(obj):
    return isinstance(obj, Tensor)


@public.function
def is_floating_point(input):
    return input.is_floating_point()


@public.function
def is_complex(input):
    return input.is_complex()


@public.function
def numel(input):
    return input.numel()


# -- from data


@public.small
@public.function
def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new leaf with a copy of the data: numbers, nested sequences (of numbers or tensors), arrays, tensors."""
    t = _of_data(data, dtype, device, copy=True)
    t = t.pin_memory() if pin_memory else t
    return t.requires_grad_() if requires_grad else t


_PLAIN_DATA = (list, tuple, int, float, complex, np.ndarray, np.generic, Tensor)


def _of_data(data, dtype, device, copy):
    if not isinstance(data, _PLAIN_DATA) and hasattr(data, "__cuda_array_interface__"):
        device_of("cuda")
        t = runtimes["cuda"].imported(data).to(device=device, dtype=dtype_of(dtype))
        return t.clone() if copy else t
    if isinstance(data, (UntypedStorage, TypedStorage)):
        return _on_device(_of_storage(data, dtype_of(dtype)), device)
    try:
        t = _wrap(*_array_of(data, dtype_of(dtype), copy=copy))
    except Symbolic:
        t = _of_symbolic(data, dtype_of(dtype) or _type_of(data))
    return _on_device(t, device)


def _of_storage(data, dtype):
    """A tensor over a storage's memory, whatever was asked for: all of it, read as the type (of a typed storage: as its own)."""
    held = data.untyped()
    kind = data.dtype if isinstance(data, TypedStorage) else dtype or dtypes.int64
    rest = held.nbytes() % kind.itemsize
    if rest:
        raise RuntimeError(f"a storage of {held.nbytes()} bytes is no whole number of elements of {kind}")
    t = _wrap(np.empty(0, kind.numpy), kind).set_(held)
    return t if dtype in (None, kind) else t.to(dtype)


class Symbolic(DataDependent):
    """Numbers without a value yet were found where numbers are needed."""


def _of_symbolic(data, dtype):
    """Numbers of which some are symbolic: one op each, stacked."""
    if isinstance(data, (list, tuple)):
        return stack_record(tuple(_of_symbolic(each, dtype) for each in data), 0)
    return cast(data, dtype) if isinstance(data, Tensor) else records.full((), data, dtype, device_of(None))


@public.small
@public.function
def as_tensor(data, dtype=None, device=None):
    """Like `tensor`, but a tensor or array whose type fits is not copied."""
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype_of(dtype)) if dtype is not None or device is not None else data
    return _of_data(data, dtype, device, copy=False)


@public.function
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    t = tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device)
    return t.requires_grad_() if requires_grad else t


@public.function
def from_numpy(ndarray):
    """A tensor over the array's own memory."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    _check_array(ndarray)
    # (a matrix, a masked array: its elements alone, whose operators are not to be asked)
    t = _wrap(ndarray.view(np.ndarray) if type(ndarray) is not np.ndarray else ndarray, dtypes.from_numpy(ndarray.dtype))
    held = t._fl_ensure_storage()
    held.foreign = held.lent = True
    return t


def _check_array(array):
    """An array that tensors can view: no negative strides, this machine's byte order."""
    if any(step < 0 for step in array.strides):
        raise ValueError(NEGATIVE_STRIDES)
    if dtypes.is_swapped(array):
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte "
            "orders is currently not supported."
        )


@public.function
def scalar_tensor(value, *, dtype=None, device=None):
    return tensor(value, dtype=dtype or dtypes.get_default_dtype(), device=device)


def _array_of(data, dtype, copy):
    """(array, dtype) of data."""
    if isinstance(data, (bytearray, memoryview)):
        data = np.asarray(data) if isinstance(data, memoryview) else list(data)
    if isinstance(data, Tensor):
        source = data._values("tensor()")
        d = dtype or data.dtype
        return source.astype(d.numpy, copy=copy), d
    if isinstance(data, (np.ndarray, np.generic)):
        d = dtype or dtypes.from_numpy(data.dtype)
        array = np.asarray(data)
        _check_array(array)
        return (_copied(array, d.numpy, copy) if array.dtype != d.numpy or copy else array), d
    if isinstance(data, (list, tuple)) and _holds_arrays(data):
        dtype = dtype or _type_of(data)
        data = [_nested(each, dtype) for each in data]
    return _array_of_numbers(data, dtype)


def _copied(array, kind, copy):
    """As `astype`; what is copied anyway comes to lie on whole cache lines."""
    if not array.flags.c_contiguous or array.dtype == kind and not copy:
        return array.astype(kind, copy=copy)
    out = native.empty(array.shape, kind)
    np.copyto(out, array, casting="unsafe")
    return out


MOST_DIMS = 128  # of nested sequences; deeper ones hold themselves, or are a mistake


def _holds_arrays(data):
    first, depth = data, 0
    while isinstance(first, (list, tuple)) and first:
        first, depth = first[0], depth + 1
        if depth > MOST_DIMS:
            raise ValueError(f"too many dimensions '{type(first).__name__}'")
    return isinstance(first, (Tensor, np.ndarray, np.generic)) or any(isinstance(each, (Tensor, np.generic)) for each in data)


def _type_of(each):
    """What the types of all that a list holds promote to, Python numbers at their default types; None of nothing that has one."""
    if isinstance(each, (list, tuple)):
        found = [d for d in map(_type_of, each) if d is not None]
        return functools.reduce(promote_types, found) if found else None
    if isinstance(each, Tensor):
        return each.dtype
    if isinstance(each, (np.ndarray, np.generic)):
        return dtypes.from_numpy(each.dtype)
    if type(each) is int and not -(2**63) <= each < 2**64:
        _refuse_wide(each, None)
    return dtypes.of_number(each) if isinstance(each, (bool, int, float, complex, SymInt, SymFloat)) else None


def _nested(each, dtype):
    if isinstance(each, Tensor):
        if each.numel() != 1:
            if each.dtype.category < 2:
                raise TypeError("only integer tensors of a single element can be converted to an index")
            raise ValueError("only one element tensors can be converted to Python scalars")
        return each._values("tensor()").astype(dtype.numpy).reshape(())
    return [_nested(e, dtype) for e in each] if isinstance(each, (list, tuple)) else each


def _array_of_numbers(data, dtype):
    if isinstance(data, (SymInt, SymFloat)):
        raise Symbolic("tensor() of a symbolic number")
    array: Any
    try:
        array = np.array(data)
    except ValueError:
        array = _array_of_odd(data)
    if array.dtype.kind == "O" and any(isinstance(each, (SymInt, SymFloat)) for each in array.flat):
        raise Symbolic("tensor() of symbolic numbers")
    if _is_mixed(array) and _type_of(data) is dtypes.int64:
        array = np.array(data, object)
    if array.dtype.kind == "O":
        array = _of_wide_numbers(array, dtype)
    if array.dtype.kind in "OUS":
        array = _array_of_odd(data, dtype)
    if dtype is None:
        dtype = _inferred(array)
    if dtype.category < 3 and array.dtype != dtype.numpy:
        _check_held(array, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype.numpy, copy=False), dtype


def _is_mixed(array):
    """Whether these may be integers of which some fit into 64 bits with a sign, some without: floating numbers to NumPy."""
    return array.dtype == np.float64 and array.size > 0 and np.fmax.reduce(np.abs(array), axis=None) >= 2.0**63


def _of_wide_numbers(array, dtype):
    """Python numbers of which some are integers that no type of NumPy holds, as floating ones if these are wanted."""
    kinds = {each.dtype.type(0).item().__class__ if isinstance(each, np.number) else type(each) for each in array.flat}
    if not kinds <= {int, float, bool, complex}:
        return array
    if dtype is not None and dtype.category == 0:
        return array != 0
    if complex in kinds or dtype is not None and dtype.is_complex:
        return array.astype(np.complex128)
    if float in kinds or dtype is not None and dtype.is_floating_point:
        return array.astype(np.float64)
    if dtype is dtypes.uint64 and 0 <= min(array.flat) and max(array.flat) < 2**64:
        return array.astype(np.uint64)
    _refuse_wide(min(array.flat), dtype)


def _refuse_wide(least, dtype):
    if dtype is dtypes.uint64:
        raise OverflowError("can't convert negative int to unsigned" if least < 0 else "int too big to convert")
    raise ValueError("Overflow when unpacking long long")


def _check_held(array, dtype):
    """Python numbers that the type does not hold are refused; bytes take the complement of negative integers."""
    kind = array.dtype.kind
    if kind == "c" and dtype.category:
        raise TypeError("must be real number, not complex")
    if dtype.category != 1 or kind == "b" or not array.size:
        return
    if kind == "f" and dtype is dtypes.uint64:
        raise TypeError("'float' object cannot be interpreted as an integer")
    least, most = array.min(), array.max()
    if kind in "iu" and (most > dtypes.iinfo(dtypes.int64).max or dtype is dtypes.uint64 and least < 0):
        return None if dtype is dtypes.uint64 and least >= 0 else _refuse_wide(least, dtype)
    limits = dtypes.iinfo(dtype)
    low = -limits.max if kind == "i" and not limits.min else limits.min
    if not (low <= least and most <= limits.max):
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")


def _array_of_odd(data, dtype=None):
    """Data of which numpy makes no array of numbers: wide integers, nothing, or an error that says what is wrong."""
    sizes, first = [], data
    while isinstance(first, (list, tuple)) or isinstance(first, np.ndarray) and first.ndim:
        sizes.append(len(first))
        if len(sizes) > MOST_DIMS:
            raise ValueError(f"too many dimensions '{type(first).__name__}'")
        if not sizes[-1]:
            break
        first = first[0]
    if isinstance(first, str) and sizes:
        raise ValueError("too many dimensions 'str'")
    if dtype is None:
        _check_kinds(data)
    if 0 in sizes:
        return np.empty(sizes, np.float64)
    _check_sizes(data, sizes, 0)
    if dtype is None or dtype.category < 1:
        raise ValueError("Overflow when unpacking long long")
    if dtype.category == 1:
        raise OverflowError("int too big to convert")
    return np.array(data, dtype.numpy if dtype.itemsize > 2 else np.float32)


def _check_kinds(each):
    if isinstance(each, (list, tuple)):
        for part in each:
            _check_kinds(part)
    elif isinstance(each, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(each).__name__}'")
    elif not isinstance(each, _PLAIN_DATA) and not isinstance(each, (SymInt, SymFloat)):
        raise RuntimeError(f"Could not infer dtype of {type(each).__name__}")


def _check_sizes(each, sizes, d):
    """Whether nested sequences are as long as the first of their level, and hold numbers at the last."""
    if d == len(sizes):
        if not isinstance(each, (int, float, complex, np.generic)) and getattr(each, "ndim", 1):
            if not isinstance(each, (list, tuple, np.ndarray)):
                raise RuntimeError(f"Could not infer dtype of {type(each).__name__}")
            raise TypeError(f"'{type(each).__name__}' object cannot be interpreted as an integer")
        return
    if not isinstance(each, (list, tuple)) and not (isinstance(each, np.ndarray) and each.ndim):
        raise TypeError("not a sequence")
    if len(each) != sizes[d]:
        raise ValueError(f"expected sequence of length {sizes[d]} at dim {d} (got {len(each)})")
    for part in each:
        _check_sizes(part, sizes, d + 1)


def _inferred(array):
    """Python numbers take the default types."""
    kind = array.dtype.kind
    return (
        dtypes.get_default_dtype()
        if kind == "f"
        else dtypes.default_complex()
        if kind == "c"
        else dtypes.bool
        if kind == "b"
        else dtypes.int64
    )


def _on_device(t, device):
    device = device_of(device)
    return t if device is t.device else to_device(t, device)


def to_device(t, device):
    """cpu and meta are here; other devices are those of loaded backends."""
    if device.type in runtimes or runtimes and t._fl_device.type in runtimes:
        return OPS["transfer"](t, device)
    if device.type == "meta":
        return fake_tensor(t._fl_sizes, t._fl_strides, t.dtype, device)
    if device.type != "cpu":
        _refuse(device)
    if t.is_meta:
        raise RuntimeError("Cannot copy out of meta tensor; no data! Use to_empty() to move a module off meta")
    return t


def _refuse(device):
    raise RuntimeError(f"no {device.type} runtime on this machine: tensors can be made on 'cpu' and 'meta', not on '{device}'")


# -- from sizes


def finished(t, requires_grad, out=None, pin_memory=False, layout=None, memory_format=None):
    """What every factory ends with: its options are honoured, or refused by name."""
    if layout is not None and layout is not strided:
        raise RuntimeError(
            f"layout={layout}: factories make strided tensors only; sparse_coo_tensor() makes sparse ones from "
            "their places and values"
        )
    if memory_format is not None:
        t = contiguous(t, memory_format)
    t = give(t.pin_memory() if pin_memory else t, out)
    return t.requires_grad_() if requires_grad else t


def _unnamed(names):
    if names is not None:
        raise RuntimeError(f"names={names!r}: there are no named tensors; leave the names out")


def _factory_options(dtype, device):
    device = device_of(device)
    if device.type not in ("cpu", "meta") and device.type not in runtimes:
        _refuse(device)
    return dtype_of(dtype, dtypes.get_default_dtype()), device


@public.small
@public.function
def empty(
    *size, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False, memory_format=None, names=None
):
    _unnamed(names)
    dtype, device = _factory_options(dtype, device)
    return finished(records.empty(_sizes(size), dtype, device), requires_grad, out, pin_memory, layout, memory_format)


def _sizes(size, name="size"):
    size = sizes_of(size)
    total = 1
    for n in size:
        if type(n) is not int:
            return size
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(size)}")
        total *= n
    if total >= _MOST:
        _refuse_sizes(size)
    return size


_MOST = 2**60  # elements, of which no machine has memory for


def _refuse_sizes(size):
    wide = [n for n in size if n >= 2**63]
    if wide:
        raise TypeError(f"argument 'size' must be tuple of ints of 64 bits, but found {wide[0]}")
    raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)}")


@public.small
@public.function
def zeros(*size, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False, names=None):
    _unnamed(names)
    dtype, device = _factory_options(dtype, device)
    return finished(records.full(_sizes(size), 0, dtype, device), requires_grad, out, pin_memory, layout)


@public.small
@public.function
def ones(*size, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False, names=None):
    _unnamed(names)
    dtype, device = _factory_options(dtype, device)
    return finished(records.full(_sizes(size), 1, dtype, device), requires_grad, out, pin_memory, layout)


@public.small
@public.function
def full(size, fill_value, *, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False, names=None):
    _unnamed(names)
    fill_value = _number("full", fill_value)
    if is_int(size):
        raise TypeError("full(): argument 'size' (position 1) must be tuple of ints, not int")
    dtype, device = _factory_options(dtype or dtypes.of_number(fill_value), device)
    made = records.full(_sizes((size,)), fitting(fill_value, dtype), dtype, device)
    return finished(made, requires_grad, out, pin_memory, layout)


def _number(name, fill_value):
    """A number: Python's, numpy's, or what a tensor of one element says."""
    found = fill_value.item() if isinstance(fill_value, Tensor) else number_of(fill_value)
    if not is_number(found):
        raise TypeError(f"{name}(): argument 'fill_value' (position 2) must be Number, not {type(found).__name__}")
    return found


def _like_options(input, dtype, device):
    return dtype_of(dtype, input.dtype), input.device if device is None else device_of(device)


def _in_likeness(input, dtype, device, make, requires_grad, pin_memory=False, layout=None, memory_format=None):
    """A tensor of input's sizes, and in the memory format that is asked for, or else in input's order where that is dense."""
    dtype, device = _like_options(input, dtype, device)
    if memory_format is not None and memory_format is not preserve_format:
        return finished(make(tuple(input.shape), dtype, device), requires_grad, None, pin_memory, layout, memory_format)
    strides = map_strides(tuple(input.shape), (input,)) if input.ndim > 1 and not input.is_contiguous() else None
    if strides is None or input.numel() == 0:
        return finished(make(tuple(input.shape), dtype, device), requires_grad, None, pin_memory, layout)
    order = sorted(range(input.ndim), key=lambda d: -strides[d])
    dense = make(tuple(input.shape[d] for d in order), dtype, device)
    made = dense.permute([order.index(d) for d in range(input.ndim)]).detach()
    return finished(made, requires_grad, None, pin_memory, layout)


@public.small
@public.function
def empty_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None, layout=None, pin_memory=False):
    return _in_likeness(input, dtype, device, records.empty, requires_grad, pin_memory, layout, memory_format)


@public.function
def full_like(
    input, fill_value, *, dtype=None, device=None, requires_grad=False, memory_format=None, layout=None, pin_memory=False
):
    fill = _number("full_like", fill_value)
    return _full_in_likeness(input, fill, dtype, device, requires_grad, memory_format, layout, pin_memory)


def _full_in_likeness(input, fill, dtype, device, requires_grad, memory_format, layout, pin_memory):
    def make(size, d, where):
        return records.full(size, fitting(fill, d), d, where)

    return _in_likeness(input, dtype, device, make, requires_grad, pin_memory, layout, memory_format)


@public.small
@public.function
def zeros_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None, layout=None, pin_memory=False):
    return _full_in_likeness(input, 0, dtype, device, requires_grad, memory_format, layout, pin_memory)


@public.small
@public.function
def ones_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None, layout=None, pin_memory=False):
    return _full_in_likeness(input, 1, dtype, device, requires_grad, memory_format, layout, pin_memory)


@public.small
@public.method
def new_empty(self, *size, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return finished(records.empty(_sizes(size), *_like_options(self, dtype, device)), requires_grad, None, pin_memory, layout)


@public.small
@public.method
def new_zeros(self, *size, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return finished(records.full(_sizes(size), 0, *_like_options(self, dtype, device)), requires_grad, None, pin_memory, layout)


@public.small
@public.method
def new_ones(self, *size, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return finished(records.full(_sizes(size), 1, *_like_options(self, dtype, device)), requires_grad, None, pin_memory, layout)


@public.method
def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    dtype, device = _like_options(self, dtype, device)
    made = records.full(_sizes((size,)), fitting(_number("new_full", fill_value), dtype), dtype, device)
    return finished(made, requires_grad, None, pin_memory, layout)


@public.method
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    return tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


@public.function
def empty_strided(size, stride, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    dtype, device = _factory_options(dtype, device)
    span = 1 + sum((n - 1) * s for n, s in zip(size, stride)) if all(size) else 0
    flat = records.empty((span,), dtype, device)
    return finished(flat.as_strided(tuple(size), tuple(stride)).detach(), requires_grad, None, pin_memory, layout)


@public.small
@public.function
def arange(
    *args,
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    dtype=None,
    device=None,
    requires_grad=False,
    out=None,
    layout=None,
    pin_memory=False,
):
    """arange(end), arange(start, end), arange(start, end, step)."""
    if len(args) == 1:
        end = args[0]
    elif args:
        start, end, step = (*args, step)[:3]
    start, end, step = (v.item() if isinstance(v, (Tensor, np.generic)) else v for v in (start, end, step))
    _refuse_beyond(start, end, step)
    floating = any(isinstance(v, (float, SymFloat)) for v in (start, end, step))
    dtype, device = _factory_options(dtype or (dtypes.get_default_dtype() if floating else dtypes.int64), device)
    if any(isinstance(v, float) and not math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if dtype.category == 2 and dtype.itemsize < 4:
        start, end = fitting(start, dtype, dtypes.float32), fitting(end, dtype, dtypes.float32)
    if dtype is dtypes.int64 and all(isinstance(v, (int, float)) for v in (start, end, step)):
        start, end, step, floating = int(start), int(end), int(step), False
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    length = math.ceil((end - start) / step) if floating else -((start - end) // step)
    if dtype.category == 1:  # counted as the numbers are, in steps of their whole parts
        start, step = (int(v) if isinstance(v, float) else v for v in (start, step))
    return finished(records.arange(start, step, length, dtype, device), requires_grad, out, pin_memory, layout)


def _refuse_beyond(*numbers):
    """Integers that 64 bits do not hold raise OverflowError."""
    for number in numbers:
        if type(number) is int and not -(2**63) <= number < 2**63:
            dtypes.of_number(number)


@public.small
@public.function
def linspace(start, end, steps, *, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False):
    start, end = (v.item() if isinstance(v, Tensor) else v for v in (start, end))
    _refuse_beyond(start, end)
    if isinstance(start, complex) or isinstance(end, complex):
        dtype = _complex_type(dtype)
    dtype, device = _factory_options(dtype, device)
    steps = size_of(steps)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if dtype.is_complex:
        real, imag = [
            records.linspace(getattr(start, part), getattr(end, part), steps, dtype.to_real(), device)
            for part in ("real", "imag")
        ]
        return finished(complex_of(real, imag), requires_grad, out, pin_memory, layout)
    if steps:
        start, end = fitting(start, dtype), fitting(end, dtype)
    return finished(records.linspace(start, end, steps, dtype, device), requires_grad, out, pin_memory, layout)


def _complex_type(dtype):
    """The type of steps between complex numbers."""
    if dtype is not None and not dtype_of(dtype).is_complex:
        raise RuntimeError(
            f"torch.linspace(): inferred dtype {dtypes.default_complex().name} can't be safely cast to passed "
            f"dtype {dtype_of(dtype).name}"
        )
    return dtype or dtypes.default_complex()


@public.function
def logspace(
    start: Any,
    end: Any,
    steps,
    base=10.0,
    *,
    dtype=None,
    device=None,
    requires_grad=False,
    out=None,
    layout=None,
    pin_memory=False,
):
    ends: Any = (start, end)
    inexact = isinstance(ends[0], complex) or isinstance(ends[1], complex)
    dtype = dtype_of(dtype, dtypes.default_complex() if inexact else dtypes.get_default_dtype())
    if dtype.category < 2 and steps != 1:
        start, end = int(start), int(end)  # the ends have the type of the result, what lies between has not
    exponents = linspace(start, end, steps, dtype=dtypes.complex128 if inexact else dtypes.float64)
    return finished(_on_device(cast(base**exponents, dtype), device), requires_grad, out, pin_memory, layout)


@public.function
def eye(n, m=None, *, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False):
    dtype, device = _factory_options(dtype, device)
    for name, count in (("n", n), ("m", n if m is None else m)):
        if not is_int(count):
            raise TypeError(f"eye(): argument '{name}' must be int, not {type(count).__name__}")
        if count < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {count}")
    return finished(records.eye(n, n if m is None else m, dtype, device), requires_grad, out, pin_memory, layout)


@public.small(records.tril)
@public.both
@public.in_place
def tril(input, diagonal=0, *, out=None):
    return give(records.tril(_matrix(input, "tril"), diagonal), out)


@public.small(records.triu)
@public.both
@public.in_place
def triu(input, diagonal=0, *, out=None):
    return give(records.triu(_matrix(input, "triu"), diagonal), out)


def _matrix(x, name):
    if x.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions, got {list(x.shape)}")
    return x


@public.function
def tril_indices(row, col, offset=0, *, dtype=dtypes.int64, device=None, layout=None):
    places = _wrap(np.stack(np.tril_indices(row, offset, col)).astype(dtype.numpy), dtype)
    return finished(_on_device(places, device), False, layout=layout)


@public.function
def triu_indices(row, col, offset=0, *, dtype=dtypes.int64, device=None, layout=None):
    places = _wrap(np.stack(np.triu_indices(row, offset, col)).astype(dtype.numpy), dtype)
    return finished(_on_device(places, device), False, layout=layout)


# -- conversions


@public.method
def to(self, *args, **kw):
    """The same tensor if nothing changes."""
    device, dtype, _, copy, memory_format = parse_to(args, kw)
    t = self
    if device is not None and device is not t.device and (device.type != t.device.type or device.type == "cuda"):
        t = to_device(t, device)
    if dtype is not None and dtype is not t.dtype:
        t = cast(t, dtype)
    if memory_format is not None and not t.is_contiguous(memory_format):
        t = contiguous(t, memory_format=memory_format)
    return clone_record(t) if copy and t is self else t


@public.method
def contiguous(self, memory_format=None):
    name = getattr(memory_format, "name", "contiguous_format")
    if name in ("contiguous_format", "preserve_format"):
        return contiguous_record(self)
    if self.is_contiguous(memory_format):
        return self
    order = {"channels_last": (0, 2, 3, 1), "channels_last_3d": (0, 2, 3, 4, 1)}[name]
    if self.ndim != len(order):
        raise RuntimeError(f"required rank {len(order)} tensor to use {name} format, got {list(self.shape)}")
    return contiguous_copy(self.permute(order)).permute([order.index(d) for d in range(self.ndim)])


@public.small
@public.both
def clone(input, *, memory_format=None):
    name = getattr(memory_format, "name", "preserve_format")
    if name == "preserve_format":
        return clone_record(input)
    t = contiguous(input, memory_format)
    return t if t is not input else clone_record(input) if name != "contiguous_format" else contiguous_copy(input)


def _caster(name, dtype):
    def method(self, memory_format=None):
        if memory_format is not None:
            return to(self, dtype, memory_format=memory_format)
        return self if self.dtype is dtype else cast(self, dtype)

    method.__name__ = name
    return method


_CAST_NAMES = {d: d.scalar_type.lower().replace("complex", "c") for d in dtypes.LEGACY}
CASTS = {name: _caster(name, d) for d, name in _CAST_NAMES.items()}
_BY_CLASS = {f"{d.scalar_type}Tensor": d for d in dtypes.ALL}


@public.method("type")
def type_of(self, dtype=None, non_blocking=False):
    """Without an argument the old name of the type, else a cast."""
    if dtype is None:
        return f"torch.{self.dtype.scalar_type}Tensor"
    if isinstance(dtype, str):
        if dtype.rpartition(".")[2] not in _BY_CLASS:
            raise ValueError(f"invalid type: {dtype!r}")
        dtype = _BY_CLASS[dtype.rpartition(".")[2]]
    elif dtype is Tensor:
        dtype = dtypes.get_default_dtype()
    elif not isinstance(dtype, (dtypes.dtype, type)):
        raise TypeError("dtype must be a type, str, or dtype object")
    return self if self.dtype is dtype else cast(self, dtype)


@public.method
def type_as(self, other):
    return to(self, other)


@public.method
def cpu(self, memory_format=None):
    return to(self, device="cpu", memory_format=memory_format)


@public.method
def cuda(self, device=None, non_blocking=False, memory_format=None):
    return to(self, "cuda" if device is None else device, non_blocking=non_blocking, memory_format=memory_format)


def legacy_tensor(cls, *args, device=None):
    """`Tensor(2, 3)` is uninitialised memory, `Tensor([2, 3])` is data in the default type, `Tensor(t)` shares t's
    memory."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        t = args[0].detach()
    elif len(args) == 1 and isinstance(args[0], (list, tuple, np.ndarray)) and not hasattr(args[0], "numel"):
        t = tensor(args[0], dtype=dtypes.get_default_dtype())
    else:
        t = empty(*(args or (0,)))
    if cls is not Tensor:
        t.__class__ = cls
    return t


public.methods(__new__=staticmethod(legacy_tensor), **CASTS)
