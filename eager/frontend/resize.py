"""Other memory, or another part of it, under the same tensor: set_, resize_, resize_as_."""

import numpy as np

from ..dispatch import bump, type_name
from ..autograd_node import check_write
from ...runtime.errors import Unsupported
from ..sizes import contiguous_strides, numel
from ..state import state
from ..storage import UntypedStorage, strided
from ..tensor import Tensor
from . import public
from .arguments import sizes_of


def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """The memory of a tensor (its own geometry unless sizes are given) or of a storage; nothing: no memory at all."""
    _refuse_capture("set_")
    if state.grad and self.requires_grad and self._grad_fn is None:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    check_write(self, state.grad and self.requires_grad)
    if source is None:
        return _put(self, UntypedStorage(device=self._fl_device), (0,), (1,), 0)
    if isinstance(source, Tensor):
        if source._fl_dtype is not self._fl_dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source._fl_dtype.c_name} to a tensor of type {self._fl_dtype.c_name}"
            )
        if size is None:
            return _put(self, source._fl_ensure_storage(), tuple(source._fl_sizes), source._fl_strides, source.storage_offset())
        source = source._fl_ensure_storage()
    held = _untyped(source, self._fl_dtype)
    size = (held.nbytes() // self._fl_dtype.itemsize - storage_offset,) if size is None else sizes_of((size,))
    stride = contiguous_strides(size) if stride is None else sizes_of((stride,))
    if len(stride) != len(size):
        raise RuntimeError(f"setStorage: mismatch in length of sizes ({len(size)}) and strides ({len(stride)})")
    return _put(self, held, size, stride, storage_offset)


def _untyped(source, dtype):
    if hasattr(source, "untyped"):
        own = getattr(source, "dtype", dtype)
        if own is not dtype:
            raise RuntimeError(
                f"Expected a Storage of type {type_name(dtype)} or an UntypedStorage, but got type "
                f"{type_name(own)} for argument 1 'storage'"
            )
        return source.untyped()
    raise TypeError(f"set_(): argument 'source' must be Tensor or Storage, not {type(source).__name__}")


def _refuse_capture(name) -> None:
    if state.modes:
        raise Unsupported("in-place view", f"{name}: a tensor changes its memory in place", "make a new tensor")


def _put(t, storage, sizes, strides, offset):
    """This part of a storage, which grows where it is too small, as the memory of `t`."""
    if any(s < 0 for s in strides) or offset < 0:
        raise RuntimeError(f"Storage offset and strides must not be negative, but got {offset} and {list(strides)}")
    end = 0 if not numel(sizes) else offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides))
    if t._fl_device.type == "cpu":
        if end * t._fl_dtype.itemsize > storage.nbytes():
            _grow(storage, end * t._fl_dtype.itemsize)
        t._fl_array = (
            strided(storage.bytes, t._fl_dtype.numpy, sizes, strides, offset) if end else np.empty(sizes, t._fl_dtype.numpy)
        )
    t._fl_storage, t._fl_geometry = storage, (tuple(sizes), tuple(strides), offset)
    bump(t)
    return t


def _grow(storage, nbytes) -> None:
    """More bytes; memory that was lent (by numpy, a file, another process) cannot grow."""
    if storage.shared is not None or storage.lent:
        raise RuntimeError("Trying to resize storage that is not resizable")
    storage.resize_(nbytes)


def resize_(self, *sizes, size=None, memory_format=None):
    """Contiguous with other sizes, over the same memory from the same offset on; more memory is added where needed, and
    what is in it is undefined."""
    _refuse_capture("resize_")
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    check_write(self, False)
    size = sizes_of(sizes if size is None else (size,))
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    storage, offset = self._fl_ensure_storage(), self.storage_offset()
    return _put(self, storage, size, _strides_in(size, memory_format), offset)


def _strides_in(size, memory_format) -> tuple:
    name = getattr(memory_format, "name", None)
    if name in (None, "contiguous_format"):
        return contiguous_strides(size)
    if name == "preserve_format":
        raise RuntimeError("Unsupported memory format Preserve")
    order = (0, *range(2, len(size)), 1)
    if len(size) != {"channels_last": 4, "channels_last_3d": 5}[name]:
        raise RuntimeError(f"required rank {4 if name == 'channels_last' else 5} tensor to use {name} format")
    inner = contiguous_strides(tuple(size[d] for d in order))
    return tuple(inner[order.index(d)] for d in range(len(size)))


@public.in_place_function("resize_as")
def resize_as_(self, the_template, *, memory_format=None):
    """`resize_` to the sizes of another tensor."""
    return resize_(self, tuple(the_template._fl_sizes), memory_format=memory_format)


public.methods(set_=set_, resize_=resize_, resize_as_=resize_as_)
