"""Kernels and devices of others: C++ against the public header `include/flambeau_op.h`, built by the toolchain.

In: C++ text (or a built shared object) and arrays. Out: a callable per exported function. The structs here mirror the
header; a call holds the arrays that it passes.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Sequence

import numpy as np

from . import _native, toolchain
from .errors import FlambeauError

HEADER = os.path.join(os.path.dirname(__file__), "include", "flambeau_op.h")
ABI = 1
TYPES = {
    name: k
    for k, name in enumerate("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split())
}
NO_KERNEL = 1


class KernelError(FlambeauError, RuntimeError):
    """A kernel in C++ refused its operands; the text is its own."""


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("offset", ctypes.c_long),
        ("type", ctypes.c_int),
        ("dims", ctypes.c_int),
        ("sizes", ctypes.POINTER(ctypes.c_long)),
        ("strides", ctypes.POINTER(ctypes.c_long)),
    ]


def struct(data: int, type_name: str, sizes: Sequence[int], strides: Sequence[int], offset: int = 0) -> Tensor:
    """A tensor as kernels see it; strides in elements."""
    if type_name not in TYPES:
        raise TypeError(f"kernels in C++ take {', '.join(TYPES)}, not {type_name}")
    longs = ctypes.c_long * max(len(sizes), 1)
    return Tensor(data, offset, TYPES[type_name], len(sizes), longs(*sizes), longs(*strides))


@functools.lru_cache(4096)
def _geometry(dtype: np.dtype, sizes: tuple, strides: tuple) -> Tensor:
    return struct(0, dtype.name, sizes, [step // dtype.itemsize for step in strides])


def of_array(array: np.ndarray) -> Tensor:
    like = _geometry(array.dtype, array.shape, array.strides)
    return Tensor(array.__array_interface__["data"][0], 0, like.type, like.dims, like.sizes, like.strides)


def structs(tensors: Sequence[Tensor]):
    return (Tensor * max(len(tensors), 1))(*tensors)


def doubles(numbers: Sequence[float]):
    return (ctypes.c_double * max(len(numbers), 1))(*map(float, numbers))


@functools.cache
def _runtime() -> int:
    """The address of the runtime's table of functions, whose first two the header names."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    api = pointer(_native.api, b"flambeau.runtime._native.api")
    return ctypes.cast(api, ctypes.POINTER(ctypes.c_void_p))[0]


def build(source: str, flags: Sequence[str] = ()) -> str:
    """The path of the shared object that C++ text gives. It is kept by content: header, text, options, compiler."""
    with open(HEADER) as file:
        header = file.read()
    text, found = re.subn(r'^#include [<"]flambeau_op\.h[>"]$', lambda _: header, source, flags=re.MULTILINE)
    if not found:
        raise ValueError('the C++ text must say #include "flambeau_op.h" on a line of its own')
    return toolchain.build([text], tuple(flags))


def load(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


class Kernel:
    """`kernel(outs, ins, numbers)`: arrays that are filled, arrays that are read, floats. Arrays may have any strides.
    Raises KernelError with the text that the C++ function returned."""

    def __init__(self, library: ctypes.CDLL, name: str):
        try:
            self.function = getattr(library, name)
        except AttributeError:
            raise KernelError(f"the library has no function {name!r}: define it with FLAMBEAU_KERNEL({name})") from None
        self.function.restype, self.name, self.library = ctypes.c_char_p, name, library
        self.function.argtypes = [
            ctypes.POINTER(Tensor),
            ctypes.c_int,
            ctypes.POINTER(Tensor),
            ctypes.c_int,
            ctypes.POINTER(ctypes.c_double),
            ctypes.c_int,
            ctypes.c_void_p,
        ]

    def __call__(self, outs: Sequence[np.ndarray], ins: Sequence[np.ndarray], numbers: Sequence[float] = ()) -> None:
        for array in outs:
            if not array.flags.writeable:
                raise ValueError(f"{self.name}: a result's memory is read-only")
        told = self.function(
            structs([of_array(a) for a in outs]),
            len(outs),
            structs([of_array(a) for a in ins]),
            len(ins),
            doubles(numbers),
            len(numbers),
            _runtime(),
        )
        if told is not None:
            raise KernelError(told.decode())

    def __repr__(self) -> str:
        return f"<kernel {self.name} in {self.library._name}>"
