"""Element types: one singleton per type, with its numpy type and PyTorch's names, and the default floating type.

bfloat16 and the float8 types are ml_dtypes' (numpy has none). `compute` is the type in which halves compute.
"""

from __future__ import annotations

import builtins
import sys

import ml_dtypes
import numpy as np

from .sizes import SymFloat


class dtype:
    """An element type. Compare with `is`; printed with PyTorch's name."""

    __slots__ = (
        "name",
        "scalar_type",
        "c_name",
        "itemsize",
        "numpy",
        "is_floating_point",
        "is_complex",
        "is_signed",
        "rank",
        "category",
        "compute",
        "__weakref__",
    )

    def __init__(self, name: str, numpy_type, rank: int, scalar_type: str, c_name: str):
        self.name, self.numpy, self.rank = name, np.dtype(numpy_type), rank
        self.scalar_type, self.c_name = scalar_type, c_name  # as errors name it: c10::ScalarType's name, and the type in C++
        self.itemsize = self.numpy.itemsize
        self.is_floating_point = name.startswith(("float", "bfloat"))
        self.is_complex = name.startswith("complex")
        self.is_signed = name != "bool" and not name.startswith("uint")
        self.compute = self
        # 0 bool, 1 integer, 2 floating, 3 complex: the order in which kinds of numbers promote
        self.category = 3 if self.is_complex else 2 if self.is_floating_point else 0 if name == "bool" else 1

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return self.name  # pickles as this module's singleton

    def to_real(self) -> dtype:
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def to_complex(self) -> dtype:
        return complex128 if self.name == "float64" else complex64


bool = dtype("bool", np.bool_, 0, "Bool", "bool")
uint8 = dtype("uint8", np.uint8, 1, "Byte", "unsigned char")
int8 = dtype("int8", np.int8, 1, "Char", "signed char")
int16 = dtype("int16", np.int16, 2, "Short", "short int")
int32 = dtype("int32", np.int32, 3, "Int", "int")
int64 = dtype("int64", np.int64, 4, "Long", "long int")
uint16 = dtype("uint16", np.uint16, 2, "UInt16", "short unsigned int")
uint32 = dtype("uint32", np.uint32, 3, "UInt32", "unsigned int")
uint64 = dtype("uint64", np.uint64, 4, "UInt64", "long unsigned int")
float8_e4m3fn = dtype("float8_e4m3fn", ml_dtypes.float8_e4m3fn, 4, "Float8_e4m3fn", "c10::Float8_e4m3fn")
float8_e5m2 = dtype("float8_e5m2", ml_dtypes.float8_e5m2, 4, "Float8_e5m2", "c10::Float8_e5m2")
float16 = dtype("float16", np.float16, 5, "Half", "c10::Half")
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, 5, "BFloat16", "c10::BFloat16")
float32 = dtype("float32", np.float32, 6, "Float", "float")
float64 = dtype("float64", np.float64, 7, "Double", "double")
complex64 = dtype("complex64", np.complex64, 8, "ComplexFloat", "c10::complex<float>")
complex128 = dtype("complex128", np.complex128, 9, "ComplexDouble", "c10::complex<double>")

ALL = tuple([d for d in tuple(globals().values()) if type(d) is dtype])  # in the order of TypeNumber (csrc/call.h)
# Those with classes of tensors and storages, as FloatTensor and FloatStorage; PyTorch made none for types that came later.
LEGACY = tuple([d for d in ALL if d not in (uint16, uint32, uint64, float8_e4m3fn, float8_e5m2)])
for _half in (float16, bfloat16, float8_e4m3fn, float8_e5m2):
    _half.compute = float32

ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
BY_NAME = {d.name: d for d in ALL} | {alias: globals()[name] for alias, name in ALIASES.items()}
BY_NUMPY = {d.numpy: d for d in ALL}


def from_numpy(numpy_type) -> dtype:
    """Our type for a numpy type (byte-swapped ones by their native form)."""
    found = BY_NUMPY.get(numpy_type)
    if found is None:
        found = BY_NUMPY.get(np.dtype(numpy_type).newbyteorder("="))
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{np.dtype(numpy_type).name}. The only supported types are: "
            + ", ".join(d.name for d in ALL)
            + "."
        )
    return found


_default = float32
on_default_change: list = []  # functions to call when it changes


def get_default_dtype() -> dtype:
    return _default


def set_default_dtype(d: dtype) -> None:
    """Only floating types may be the default."""
    global _default
    if not (isinstance(d, dtype) and d.is_floating_point):
        raise TypeError(f"only floating-point types are supported as the default type, got {d!r}")
    _default = d
    for listener in on_default_change:
        listener()


def default_complex() -> dtype:
    return complex128 if _default is float64 else complex64


def of_number(number) -> dtype:
    """The type that a lone Python number takes; OverflowError for an integer that 64 bits do not hold."""
    if isinstance(number, builtins.bool):
        return bool
    if type(number) is builtins.int and not -(2**63) <= number < 2**64:
        raise OverflowError("int too big to convert" if number > 0 else "can't convert negative int to unsigned")
    if isinstance(number, (complex, np.complexfloating)):
        return default_complex()
    if isinstance(number, np.generic):
        return _default if number.dtype.kind in "fb" else int64
    return _default if isinstance(number, (float, SymFloat)) else int64


class finfo:
    """Machine limits of a floating type (default: the default type)."""

    def __init__(self, d: dtype | None = None):
        d = d or _default
        if not (d.is_floating_point or d.is_complex):
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{d!r}'")
        info = ml_dtypes.finfo(d.to_real().numpy)
        self.dtype, self.bits = d.name, info.bits
        self.max, self.min, self.eps = float(info.max), float(info.min), float(info.eps)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = float(info.resolution)

    def __repr__(self):
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """Machine limits of an integer type."""

    def __init__(self, d: dtype):
        if d.category != 1:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{d!r}'")
        info = np.iinfo(d.numpy)
        self.dtype, self.bits, self.max, self.min = d.name, info.bits, int(info.max), int(info.min)

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def is_swapped(array: np.ndarray) -> builtins.bool:
    """True for an array whose bytes are in the other order than this machine's."""
    return array.dtype.byteorder == (">" if sys.byteorder == "little" else "<")
