"""Tensors as cupy arrays: views of a storage's block, and values as kernels want them.

In: a tensor on a GPU (or a 0-dim one of the host beside it). Out: an array over its memory (`memory`), its values in the type
of kernels (`loaded`); and the other way, values into a tensor (`stored`).
"""

from __future__ import annotations

import numpy as np

from ..sizes import contiguous_strides
from ..tensor import Tensor
from . import narrow_floats
from .find_cupy import cupy
from .allocator import CudaStorage


def memory(t: Tensor):
    """The array over a tensor's own memory, in memory's type."""
    kind, sizes = narrow_floats.memory_type(t._fl_dtype), tuple(t._fl_sizes)
    if 0 in sizes:
        return cupy().empty(sizes, kind)
    step = kind.itemsize
    strides = tuple(int(s) * step for s in t._fl_strides)
    return cupy().ndarray(sizes, kind, t._fl_storage.block.data + t.storage_offset() * step, strides)


def loaded(t: Tensor):
    """The values of a tensor, in the type of kernels. Those of a tensor without dims on the host are a number."""
    if t._fl_array is not None:
        return from_host(t)
    array = memory(t)
    return narrow_floats.decoded(array, t._fl_dtype) if t._fl_dtype in narrow_floats.BITS else array


def from_host(t: Tensor):
    kind = narrow_floats.kernel_type(t._fl_dtype)
    if t.ndim == 0:
        return cupy().asarray(t._fl_array.astype(kind))
    return cupy().asarray(np.ascontiguousarray(t._fl_array.astype(kind, copy=False)))


def array_of(a):
    """An argument as ported kernels take it."""
    if isinstance(a, Tensor):
        return loaded(a)
    if isinstance(a, np.generic):
        return a.item()
    if type(a) in (tuple, list) and a and isinstance(a[0], Tensor):
        return type(a)(map(loaded, a))
    return a


def stored(t: Tensor, value, inputs=()) -> None:
    """Values into a tensor that has sizes only: their own memory if it is theirs alone and lies as the tensor wants it."""
    kind, sizes = narrow_floats.memory_type(t._fl_dtype), tuple(t._fl_sizes)
    value = value if isinstance(value, cupy().ndarray) else cupy().asarray(value)
    if t._fl_dtype in narrow_floats.BITS and value.dtype != kind:
        value = narrow_floats.encoded(value, t._fl_dtype)
    strides = t._fl_geometry[1]
    wanted = contiguous_strides(sizes) if strides is None else strides
    whole = t._fl_geometry[2] == 0 and value.base is None and value.dtype == kind and tuple(value.shape) == sizes
    if whole and lies(value, wanted) and not any(value.data.mem is held for held in inputs):
        t._fl_storage = CudaStorage.holding(value, t._fl_device)
        return
    give_memory(t)
    target = memory(t)
    value = value if value.dtype == kind else value.astype(kind)
    target[...] = value.reshape(sizes) if value.size == target.size and tuple(value.shape) != sizes else value


def lies(value, strides) -> bool:
    """Whether an array without gaps has these strides (in elements)."""
    step = value.dtype.itemsize
    return (
        value.size == 0
        or value.size * step == value.nbytes
        and all(n == 1 or have == want * step for n, have, want in zip(value.shape, value.strides, strides))
        and sum((n - 1) * s for n, s in zip(value.shape, value.strides)) + step == value.nbytes
    )


def give_memory(t: Tensor) -> None:
    """A block under a tensor that has none."""
    span = 0 if t.numel() == 0 else sum((n - 1) * step for n, step in zip(t._fl_sizes, t._fl_strides)) + 1
    t._fl_storage = CudaStorage(span * t._fl_dtype.itemsize, t._fl_device)
    t._fl_geometry = (*t._fl_geometry[:2], 0)
