"""Tensors and the memory of others: buffers, numpy's results, sets of storages."""

import warnings

import numpy as np

from .. import dtypes
from ..errors import DataDependent
from ..tensor import Tensor, fake_tensor
from . import public
from ..typed_storage import LEGACY, STORAGE_NAMES


@public.function
def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A flat tensor over an object's memory: `count` elements (-1: all) from byte `offset` on. Memory that the object
    shows as read-only is read-only here as well."""
    try:
        view = memoryview(buffer).cast("B")
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    length, size = view.nbytes, dtype.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % size:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})"
        )
    if count > 0 and offset + count * size > length:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater "
            f"than actual buffer length ({length} bytes)"
        )
    if view.readonly:
        warnings.warn("The given buffer is not writable: the tensor over it cannot be written to.", UserWarning, stacklevel=2)
    end = length if count < 0 else offset + count * size
    array = np.frombuffer(view[offset:end], np.uint8).view(dtype.numpy)
    t = Tensor._fl_from_array(array, dtype)
    t._fl_ensure_storage().foreign = True
    return t.requires_grad_() if requires_grad else t


def array_wrap(self, array, context=None, return_scalar=False):
    """What numpy's functions of tensors give: tensors; truth values as uint8."""
    array = np.asarray(array)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    return Tensor._fl_from_array(array, dtypes.from_numpy(array.dtype))


def is_set_to(self, tensor):
    """True if both are the same elements of one storage."""
    return (
        self._fl_ensure_storage() is tensor._fl_ensure_storage()
        and self.storage_offset() == tensor.storage_offset()
        and self._fl_sizes == tensor._fl_sizes
        and self._fl_strides == tensor._fl_strides
    )


def storage_type(self):
    """The old class of the tensor's storage."""
    name = STORAGE_NAMES.get(self._fl_dtype)
    if name is None:
        raise RuntimeError(f"there is no class of storages of {self._fl_dtype}")
    return LEGACY[name]


public.methods(__array_wrap__=array_wrap, is_set_to=is_set_to, storage_type=storage_type)


def view_as_type(t, dtype):
    """The same memory read as another type (without a gradient); the last dimension takes the change of size."""
    if t._fl_array is None and t._fl_device.type != "meta" and t._fl_storage.runtime is None:
        raise DataDependent("view(dtype)")
    old, new = t._fl_dtype.itemsize, dtype.itemsize
    geometry = tuple(t._fl_sizes), tuple(t._fl_strides), t.storage_offset()
    if old != new:
        names = t._fl_dtype.scalar_type, dtype.scalar_type
        geometry = (_narrowed if old > new else _widened)(*geometry, max(old, new) // min(old, new), *names)
    storage = t._fl_ensure_storage()
    if t._fl_array is None:
        sizes, strides, offset = geometry
        return fake_tensor(sizes, strides, dtype, t._fl_device, storage=storage, offset=offset)
    return Tensor._fl_over(storage, dtype, *geometry)


def _refuse(what, old, new):
    raise RuntimeError(f"{what} to view {old} as {new} (different element sizes)")


def _narrowed(sizes, strides, offset, ratio, old, new):
    """Geometry for elements that are `ratio` times smaller."""
    if not sizes:
        _refuse("self.dim() cannot be 0", old, new)
    if strides[-1] != 1:
        tail = f"to view {old} as {new} (different element sizes), but got"
        raise RuntimeError(f"self.stride(-1) must be 1 {tail} {strides[-1]}")
    return (*sizes[:-1], sizes[-1] * ratio), (*[s * ratio for s in strides[:-1]], 1), offset * ratio


def _widened(sizes, strides, offset, ratio, old, new):
    """Geometry for elements that are `ratio` times larger."""
    if not sizes:
        _refuse("self.dim() cannot be 0", old, new)
    tail = f"to view {old} as {new} (different element sizes), but got"
    if sizes[-1] % ratio:
        raise RuntimeError(f"self.size(-1) must be divisible by {ratio} {tail} {sizes[-1]}")
    if offset % ratio:
        raise RuntimeError(f"self.storage_offset() must be divisible by {ratio} {tail} {offset}")
    if strides[-1] != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {tail} {strides[-1]}")
    for d, step in enumerate(strides[:-1]):
        if step % ratio:
            raise RuntimeError(f"self.stride({d}) must be divisible by {ratio} {tail} {step}")
    return (*sizes[:-1], sizes[-1] // ratio), (*[s // ratio for s in strides[:-1]], 1), offset // ratio
