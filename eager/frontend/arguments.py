"""From what programs write to what records take: dims, sizes, dtypes, devices, `out=`.

Canonical: dims are non-negative ints or sorted tuples of them, sizes tuples of ints, types our singletons.
"""

import builtins
import functools
import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import dtypes
from .. import device as devices
from ..autograd import is_grad_enabled
from ..dispatch import store, type_name
from ..sizes import is_int, is_number, numel
from ..state import state
from ..tensor import Tensor

_PYTHON_TYPES = {float: dtypes.float64, int: dtypes.int64, bool: dtypes.bool, complex: dtypes.complex128}


def dtype_of(given, default: Any = None) -> dtypes.dtype | Any:
    """A dtype from a dtype, a Python type or None."""
    if given is None:
        return default
    if isinstance(given, dtypes.dtype):
        return given
    if given in _PYTHON_TYPES:
        return _PYTHON_TYPES[given]
    raise TypeError(f"dtype must be a torch.dtype, not {given!r}")


def device_of(given):
    """A device from a device, a string, an index or None (the default device)."""
    return devices.resolve_device(given)


def dim_of(x, dim, extra=0):
    """One dim as a non-negative int; `extra` counts positions beyond the last dim (unsqueeze, stack)."""
    if not isinstance(dim, int):
        if isinstance(dim, (tuple, list)):
            raise TypeError(f"argument 'dim' must be int, not {type(dim).__name__}")
        dim = dim.__index__()
    n = len(x.shape) + extra
    low = max(n, 1)
    if not -low <= dim < low:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-low}, {low - 1}], but got {dim})")
    return dim + low if dim < 0 else dim


def dims_of(x, dim):
    """Several dims as a sorted tuple; None or nothing means all."""
    rank = len(x.shape)
    if dim is None or isinstance(dim, (tuple, list)) and not dim:
        return tuple(range(rank))
    found = tuple(dim_of(x, d) for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    if len(set(found)) != len(found):
        twice = next(d for d in found if found.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return tuple(sorted(found)) if rank else ()


_LEAST = 448.0  # which every floating type holds


def check_holds(dtype, value):
    """Refuse a tensor of one element that is read as a number and that elements of this type do not hold."""
    if value.dtype is not dtype and value._fl_array is not None:
        fitting(value.item(), dtype)


def fitting(value, dtype, halves=None):
    """A Python number as elements of this type hold it: integers take the whole part, unsigned ones the complement of
    negative numbers; what is out of range is refused (for halves what is out of the range of the type `halves`, where it is
    given: the kernel reads the number in that type). Tensors and symbolic numbers stay as they are.
    """
    if (
        type(value) is int
        and dtype.category in (1, 2)
        and 0 <= value < 128
        or type(value) is float
        and dtype.category == 2
        and -_LEAST < value < _LEAST
    ):
        return value
    if type(value) is int and not -(2**63) <= value < 2**64:
        dtypes.of_number(value)  # (refuses it)
    if not isinstance(value, (int, float, complex)) or dtype.category == 0:
        return value
    if dtype.category == 3:
        most = dtypes.finfo(dtype.to_real()).max
        _in_range(all(abs(part) <= most or not math.isfinite(part) for part in (value.real, value.imag)), dtype)
        return value
    if isinstance(value, complex):
        _in_range(value.imag == 0, dtype)
        value = value.real
    if dtype.category == 1:
        limits = dtypes.iinfo(dtype)
        low = -limits.max if isinstance(value, int) and not limits.min else limits.min
        _in_range(low <= value <= limits.max, dtype)  # (NaN is nowhere)
        return int(value) + (limits.max + 1 if value < 0 and not limits.min else 0)
    if isinstance(value, int) or math.isfinite(value):
        held = halves if halves is not None and dtype.itemsize < 4 else dtype
        _in_range(abs(value) <= dtypes.finfo(held).max, held)
    return float(value) if isinstance(value, int) and abs(value) >= 2**63 else value


_SMALL = 1e4  # which every type of real numbers holds


def settings(x, *numbers, halves=None):
    """The numbers that set how a function of x works, as elements of x hold them (see `fitting`)."""
    return tuple(
        [
            n if type(n) is float and -_SMALL < n < _SMALL and x.dtype.category == 2 else _setting(n, x.dtype, halves)
            for n in numbers
        ]
    )


def _setting(number, dtype, halves):
    if not isinstance(number, (int, float)):
        return number
    return fitting(number, dtype, halves)


def _in_range(fits, dtype):
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {c_name(dtype)} without overflow")


def c_name(dtype):
    """What messages about numbers out of range call a type of elements."""
    return f"{dtype.name}_t" if dtype.category == 1 and dtype is not dtypes.int32 else dtype.c_name


def size_of(n):
    """One size: ints (symbolic or not) stay, one-element tensors and numpy integers become ints."""
    if is_int(n):
        return n
    if isinstance(n, (Tensor, np.integer)):
        return n.__index__()
    raise TypeError(f"sizes must be ints, but found {type(n).__name__}")


def sizes_of(args):
    """Sizes given as separate ints or as one sequence."""
    if len(args) == 1 and not is_int(args[0]) and not isinstance(args[0], (Tensor, np.integer)):
        args = args[0] if isinstance(args[0], Iterable) else args
    return tuple([n if type(n) is int else size_of(n) for n in args])


def known_size(size, total, what="shape"):
    """Sizes with at most one -1, which takes what is left of `total` elements."""
    unknown = [d for d, n in enumerate(size) if type(n) is int and n == -1]
    if not unknown:
        if numel(size) != total:
            raise RuntimeError(f"{what} '{list(size)}' is invalid for input of size {total}")
        return tuple(size)
    rest = numel(n for d, n in enumerate(size) if d != unknown[0])
    if len(unknown) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if type(rest) is int and rest == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(size)} because the unspecified "
            "dimension size -1 "
            "can be any value and is ambiguous"
        )
    if total % rest != 0:
        raise RuntimeError(f"{what} '{list(size)}' is invalid for input of size {total}")
    return tuple(total // rest if d == unknown[0] else n for d, n in enumerate(size))


def give(result, out) -> Any:
    """The result, or `out` with the result written into it (tuples pairwise)."""
    if out is None:
        return result
    if isinstance(result, tuple):
        return type(result)(*map(give, result, out)) if hasattr(result, "_fields") else tuple(map(give, result, out))
    return store(out, result)


def written(function, name):
    """The in-place form of a function of new tensors: the result is copied into the tensor. What the gradient of the
    function needs of the old value is taken from a copy.
    """

    def method(self, *args, **kw):
        tracked = is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in (self, *args, *kw.values()))
        result = function(self.clone() if tracked else self, *args, **kw)
        if result.dtype.category > self.dtype.category:
            raise RuntimeError(
                f"result type {type_name(result.dtype)} can't be cast to the desired output type {type_name(self.dtype)} ({name})"
            )
        return self.copy_(result)

    method.__name__ = method.__qualname__ = name
    return method


def from_old_form(function, args, tensors, *names):
    """A call in the form of before PyTorch 1.5, with numbers before or between the tensors: `x.add_(alpha, other)`,
    `torch.addmm(beta, x, alpha, mat1, mat2)`. `tensors`: how many there are; `names`: what the numbers are, in their order."""
    given = [x for x in args if isinstance(x, Tensor)]
    numbers = [x for x in args if not isinstance(x, Tensor)]
    called = function.__name__
    if len(given) != tensors or not all(map(is_number, numbers)) or len(numbers) > len(names):
        raise TypeError(
            f"{called}() takes {tensors} tensors ({', '.join(names)} by name), but got "
            f"({', '.join([type(x).__name__ for x in args])})"
        )
    warnings.warn(f"{called}: numbers before tensors are a deprecated form; give {', '.join(names)} by name", stacklevel=3)
    return function(*given, **dict(zip(names, numbers)))


def takes_out(fn) -> Any:
    """Adds the keyword `out=` to a function that returns new tensors."""

    @functools.wraps(fn)
    def run(*args, out=None, **kw):
        result = fn(*args, **kw)
        return result if out is None else give(result, out)

    return run


def numpy_names(fn) -> Any:
    """Accepts numpy's names `axis` and `keepdims` beside `dim` and `keepdim`."""

    @functools.wraps(fn)
    def run(*args, **kw):
        if kw:
            if "axis" in kw:
                kw["dim"] = kw.pop("axis")
            if "keepdims" in kw:
                kw["keepdim"] = kw.pop("keepdims")
        return fn(*args, **kw)

    marked: Any = run
    marked.numpy_names = True
    return run


def takes_dim(function):
    """Whether a function has a parameter `dim` and does not accept `axis` for it yet."""
    inner = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code = inner.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return "dim" in names and not getattr(function, "numpy_names", False)


def lowered(record, *tensors) -> tuple:
    """The tensors in the type in which autocast runs the record; themselves where it is off."""
    return tensors if state.autocast is None else state.autocast(record, tensors)


def parse_to(args, kw):
    """The forms of `.to(...)`: (device, dtype, non_blocking, copy, memory_format); None where not given."""
    device = dtype = None
    kw = dict(kw)
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
        device, dtype = other.device, other.dtype
    elif rest and (isinstance(rest[0], dtypes.dtype) or rest[0] in (float, int, bool)):
        dtype = dtype_of(rest.pop(0))
    elif rest:
        device = rest.pop(0)
        if rest and not isinstance(rest[0], builtins.bool):
            dtype = dtype_of(rest.pop(0))
    if "other" in kw:
        other = kw.pop("other")
        device, dtype = other.device, other.dtype
    device = kw.pop("device", device)
    dtype = dtype_of(kw.pop("dtype", None), dtype)
    non_blocking = rest.pop(0) if rest else kw.pop("non_blocking", False)
    copy = rest.pop(0) if rest else kw.pop("copy", False)
    memory_format = kw.pop("memory_format", None)
    if rest or kw:
        raise TypeError(f"to() received an invalid combination of arguments: {(*args, *kw)}")
    return (None if device is None else devices.resolve_device(device)), dtype, non_blocking, copy, memory_format
