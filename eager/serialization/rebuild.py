"""What files call: tensors from storages, and the few containers, every argument checked.

In: arguments as a file gives them, trusted in nothing. Out: tensors whose geometry lies inside their storage. The names
are those of PyTorch's functions without the leading underscore.
"""

from __future__ import annotations

import collections
from typing import Any

from .. import dtypes
from ..device import meta
from ..nn.parameter import Buffer, Parameter
from ..sizes import Size
from ..storage import UntypedStorage
from ..memory_formats import sparse_coo, sparse_csc, sparse_csr, strided as strided_layout
from ..tensor import Tensor, fake_tensor
from ..typed_storage import LEGACY, TypedStorage

_ENCODINGS = ("latin1", "latin-1", "iso-8859-1", "utf-8", "utf8", "ascii")
_SMALL = 1 << 62


class Malformed(Exception):
    """The file asks for something that does not fit together."""


def check(condition, what: str) -> None:
    if not condition:
        raise Malformed(what)


def _count(n) -> bool:
    return type(n) is int and 0 <= n < _SMALL


def _geometry(offset, sizes, strides):
    check(
        isinstance(sizes, tuple)
        and isinstance(strides, tuple)
        and len(sizes) == len(strides) <= 64
        and all(map(_count, (offset, *sizes, *strides))),
        f"sizes {sizes!r}, strides {strides!r}, offset {offset!r}",
    )


def _span(offset, sizes, strides) -> int:
    """How many elements of a storage the geometry needs."""
    return 0 if 0 in sizes else offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides))


def _tensor(untyped, dtype, offset, sizes, strides, requires_grad=False, hooks=None, metadata=None) -> Tensor:
    check(isinstance(untyped, UntypedStorage), f"a tensor over {type(untyped).__name__}")
    _geometry(offset, sizes, strides)
    span = _span(offset, sizes, strides)
    if span * dtype.itemsize > untyped.nbytes():
        raise RuntimeError(
            f"setStorage: sizes {list(sizes)}, strides {list(strides)}, storage offset {offset}, and itemsize "
            f"{dtype.itemsize} requiring a storage size of {span * dtype.itemsize} are out of bounds for "
            f"storage of size {untyped.nbytes()}"
        )
    if untyped.bytes is None:
        t = fake_tensor(sizes, strides, dtype, untyped.device, storage=untyped, offset=offset)
    else:
        t = Tensor._fl_over(untyped, dtype, sizes, strides, offset)
    t = _marked(t, metadata)
    if requires_grad:
        t.requires_grad_()
    for hook in (hooks or {}).values():
        t.register_hook(hook)
    return t


def _marked(t: Tensor, metadata) -> Tensor:
    """The lazy marks of complex views are applied at once."""
    if not metadata:
        return t
    check(isinstance(metadata, dict) and set(metadata) <= {"conj", "neg"}, f"tensor metadata {metadata!r}")
    array = t._values("loading")
    if metadata.get("conj"):
        array = array.conj()
    return Tensor._fl_from_array(-array if metadata.get("neg") else array, t._fl_dtype)


def _typed(storage) -> TypedStorage:
    check(isinstance(storage, TypedStorage), f"a typed storage was expected, not {type(storage).__name__}")
    return storage


def rebuild_tensor(storage, storage_offset, size, stride) -> Tensor:
    return _tensor(_typed(storage)._untyped_storage, storage.dtype, storage_offset, size, stride)


def rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None) -> Tensor:
    return _tensor(
        _typed(storage)._untyped_storage, storage.dtype, storage_offset, size, stride, requires_grad, backward_hooks, metadata
    )


def rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None) -> Tensor:
    check(isinstance(dtype, dtypes.dtype), f"{dtype!r} is no dtype")
    return _tensor(_typed(storage)._untyped_storage, dtype, storage_offset, size, stride, requires_grad, backward_hooks, metadata)


def rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad) -> Tensor:
    check(isinstance(dtype, dtypes.dtype), f"{dtype!r} is no dtype")
    _geometry(0, size, stride)
    return fake_tensor(size, stride, dtype, meta, bool(requires_grad))


def rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad) -> Tensor:
    check(isinstance(data, Tensor), "no tensor to copy")
    return data.to(dtype=dtype, device=device).requires_grad_(bool(requires_grad))


def rebuild_parameter(data, requires_grad, backward_hooks) -> Parameter:
    check(isinstance(data, Tensor), f"a Parameter of {type(data).__name__}")
    param = Parameter(data, bool(requires_grad))
    for hook in (backward_hooks or {}).values():
        param.register_hook(hook)
    return param


def rebuild_parameter_with_state(data, requires_grad, backward_hooks, state) -> Parameter:
    return set_state(rebuild_parameter(data, requires_grad, backward_hooks), state)


def rebuild_from_type_v2(function, new_type, arguments, state) -> Tensor:
    """A tensor of a class, with attributes."""
    check(function in TENSORS and isinstance(arguments, tuple), f"{function!r} makes no tensors")
    t = function(*arguments)
    check(isinstance(new_type, type) and issubclass(new_type, Tensor), f"{new_type!r} is no class of tensors")
    if isinstance(state, dict) and state.get("_is_buffer") is True and new_type is Tensor:
        new_type = Buffer
        state = {k: v for k, v in state.items() if k != "_is_buffer"}
    if type(t) is not new_type:
        t.__class__ = new_type
    custom = new_type.__dict__.get("__setstate__")
    if custom is not None:
        custom(t, state)
        return t
    return set_state(t, state)


def set_state(obj, state):
    """Attributes from a dict, or from a pair (dict, dict of slots); none may hide one of the class."""
    part: Any
    for part in state if isinstance(state, tuple) and len(state) == 2 else (state,):
        check(part is None or isinstance(part, dict), f"attributes given as {type(part).__name__}")
        for name, value in (part or {}).items():
            check(
                isinstance(name, str) and not callable(getattr(type(obj), name, None)),
                f"attribute {name!r} would hide a method of {type(obj).__name__}",
            )
            obj.__dict__[name] = value
    return obj


def _unsupported(what):
    def function(*args):
        raise RuntimeError(f"the file holds a {what}, which flambeau does not have")

    function.__name__ = f"rebuild_{what.replace(' ', '_')}"
    return function


TENSORS = [
    rebuild_tensor,
    rebuild_tensor_v2,
    rebuild_tensor_v3,
    rebuild_meta_tensor_no_storage,
    rebuild_device_tensor_from_cpu_tensor,
    rebuild_parameter,
    rebuild_parameter_with_state,
    *map(_unsupported, ("sparse tensor", "nested tensor", "qtensor", "wrapper subclass", "device tensor from numpy")),
]


# -- containers and values


def get_layout(name):
    known = {repr(each): each for each in (strided_layout, sparse_coo, sparse_csr, sparse_csc)}
    check(name in known, f"layout {name!r}: there are {', '.join(known)}")
    return known[name]


def size(values=()) -> Size:
    check(isinstance(values, (tuple, list)) and all(map(_count, values)), f"torch.Size of {values!r}")
    return Size(values)


def encode(text, encoding="utf-8") -> bytes:
    """The bytes that older protocols spell as text."""
    check(isinstance(text, str) and encoding in _ENCODINGS, f"encode({text!r:.40}, {encoding!r})")
    return text.encode(encoding)


def counter(values=None):
    check(values is None or isinstance(values, dict), "a Counter is made of a dict")
    return collections.Counter(values)


def new_set(values=()) -> set:
    check(isinstance(values, (list, tuple)), "a set is made of a list")
    return set(values)


def new_bytearray(values=b"", encoding: Any = None) -> bytearray:
    """From bytes or text, never from a length."""
    if isinstance(values, str):
        return bytearray(encode(values, encoding))
    check(isinstance(values, bytes) and encoding is None, f"a bytearray of {type(values).__name__}")
    return bytearray(values)


def new_complex(real=0, imag=0) -> complex:
    check(isinstance(real, (int, float)) and isinstance(imag, (int, float)), "complex() takes two numbers")
    return complex(real, imag)


def storage_type(kind):
    """The element type that a storage class of a file stands for; None for untyped ones."""
    if kind in (UntypedStorage, TypedStorage):
        return None
    check(isinstance(kind, type) and kind in LEGACY.values(), f"{kind!r} is no class of storages")
    return kind._dtype
