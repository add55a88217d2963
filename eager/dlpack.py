"""DLPack: tensors to and from other libraries without a copy.

In: a tensor, or any object with `__dlpack__`, or a capsule. Out: a capsule, or a tensor over the same memory. numpy
makes and reads the capsules; types that numpy lacks pass through it as unsigned integers, and the type in the capsule
is changed before and after.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import dtypes
from .tensor import Tensor, install_methods

_CPU = 1
_CODES = {4: dtypes.bfloat16, 10: dtypes.float8_e4m3fn, 12: dtypes.float8_e5m2}  # DLDataTypeCode of the others' types
_UNSIGNED = 1
_TYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}  # where the structs keep DLDataType: code, bits, lanes


class DLDeviceType:
    """The numbers of the protocol's devices."""

    kDLCPU, kDLCUDA, kDLCPUPinned, kDLMetal, kDLROCM = 1, 2, 3, 8, 10


def type_code(capsule):
    """The byte in the capsule's struct that holds the type's code."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = api.PyCapsule_GetPointer.argtypes = ctypes.py_object, ctypes.c_char_p
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    for name, offset in _TYPE_AT.items():
        if api.PyCapsule_IsValid(capsule, name):
            return ctypes.c_uint8.from_address(api.PyCapsule_GetPointer(capsule, name) + offset)
    raise RuntimeError("from_dlpack: the capsule is not a DLPack tensor, or was used before")


def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """A capsule over the tensor's memory. Tensors that require grad are refused: detach() first."""
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream is not None:
        raise AssertionError("stream should be None on cpu.")
    array = self.numpy()
    array = array.copy() if copy else array
    code = next((code for code, d in _CODES.items() if d is self._fl_dtype), None)
    capsule = _export(array if code is None else array.view(f"u{array.itemsize}"), max_version)
    if code is not None:
        type_code(capsule).value = code
    return capsule


def _export(array, max_version):
    """numpy before 2.1 knows capsules without a version only."""
    try:
        return array.__dlpack__(max_version=max_version)
    except TypeError:
        return array.__dlpack__()


def __dlpack_device__(self):
    """(device type, device number)."""
    if self._fl_device.type != "cpu":
        raise ValueError(f"Unknown device type {self._fl_device.type} for Dlpack")
    return _CPU, 0


class _Capsule:
    """What numpy asks for: an object with the protocol's two methods around a bare capsule."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return _CPU, 0


def from_dlpack(ext_tensor, *, device=None, copy=None) -> Tensor:
    """A tensor over the memory of an object with `__dlpack__`, or of a capsule (which is used up).

    RuntimeError for memory that the CPU cannot reach and for types that do not exist here."""
    t = ext_tensor.detach() if isinstance(ext_tensor, Tensor) else _imported(ext_tensor)
    if device is not None:
        t = t.to(device)
    return t.clone() if copy else t


def _imported(source) -> Tensor:
    if hasattr(source, "__dlpack__"):
        kind = source.__dlpack_device__()[0]
        if kind != _CPU:
            raise RuntimeError(f"from_dlpack: memory of device type {int(kind)} cannot be reached from the CPU")
        source = source.__dlpack__()
    code = type_code(source)
    dtype = _CODES.get(code.value)
    if dtype is not None:
        code.value = _UNSIGNED
    array = writeable(np.from_dlpack(_Capsule(source)))
    if dtype is not None:
        array = array.view(dtype.numpy)
    t = Tensor._fl_from_array(array, dtypes.from_numpy(array.dtype))
    t._fl_ensure_storage().foreign = True
    return t


def writeable(array: np.ndarray) -> np.ndarray:
    """The same memory as a writeable array: numpy marks imports from capsules without a version as read-only, though
    such capsules say nothing about it.
    """
    if array.flags.writeable or array.size == 0:
        return array
    start = array.__array_interface__["data"][0]
    span = sum((n - 1) * step for n, step in zip(array.shape, array.strides)) + array.itemsize
    block: Any = (ctypes.c_char * span).from_address(start)
    block.owner = array
    return np.ndarray(array.shape, array.dtype, block, 0, array.strides)


def to_dlpack(tensor):
    """The capsule of a tensor."""
    return tensor.__dlpack__()


install_methods({"__dlpack__": __dlpack__, "__dlpack_device__": __dlpack_device__})
