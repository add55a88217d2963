"""bfloat16 and float8 on a GPU: their bits in memory, float32 in kernels.

In: arrays of bits (uint16, uint8), or float32 numbers. Out: the other. cupy's functions know none of these types, so a
kernel meets float32, which holds every such number; results are rounded to nearest, ties to even, when they are stored.
"""

from __future__ import annotations

import functools

import numpy as np

from .. import dtypes
from .find_cupy import cupy

BITS = {dtypes.bfloat16: np.dtype(np.uint16), dtypes.float8_e4m3fn: np.dtype(np.uint8), dtypes.float8_e5m2: np.dtype(np.uint8)}
CARRIER = np.dtype(np.float32)


def memory_type(dtype) -> np.dtype:
    """What lies in memory for one of our types."""
    return BITS.get(dtype, dtype.numpy)


def kernel_type(dtype) -> np.dtype:
    """What kernels compute with for one of our types."""
    return CARRIER if dtype in BITS else dtype.numpy


def decoded(bits, dtype):
    """The numbers, as float32."""
    if dtype is dtypes.bfloat16:
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return _device_table("values", dtype)[bits.astype(np.int64)]


def encoded(x, dtype):
    """The bits of float32 numbers."""
    x = cupy().ascontiguousarray(x.astype(np.float32, copy=False))
    return _bfloat16(x) if dtype is dtypes.bfloat16 else _float8(x, dtype)


def _bfloat16(x):
    bits = x.view(np.uint32)
    rounded = (bits + (((bits >> 16) & 1) + 0x7FFF).astype(np.uint32)) >> 16
    nan = (bits >> 16) | 0x40
    return cupy().where(x != x, nan, rounded).astype(np.uint16)


def _float8(x, dtype):
    """How many borders between neighbours a size lies beyond is its code."""
    code = cupy().searchsorted(_device_table("borders", dtype), cupy().abs(x).reshape(-1), side="left").reshape(x.shape)
    code = cupy().where(x != x, 0x7F, code)
    return (code | cupy().where(cupy().signbit(x), 0x80, 0)).astype(np.uint8)


def _device_table(which, dtype):
    return _tables(which, dtype, cupy().cuda.runtime.getDevice())


@functools.lru_cache(None)
def _tables(which, dtype, _device):
    return cupy().asarray(_values(dtype) if which == "values" else _borders(dtype))


def _values(dtype) -> np.ndarray:
    return np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.float32)


def _borders(dtype) -> np.ndarray:
    """Between codes c and c + 1: what exceeds it has the higher code. A tie belongs to the even one. The last border is
    where the type overflows, to infinity or (where it has none) to NaN.
    """
    values = _values(dtype)[:128]
    last = int(np.flatnonzero(np.isfinite(values))[-1])
    sizes = values[: last + 1].astype(np.float64)
    middles = np.append((sizes[1:] + sizes[:-1]) / 2, sizes[-1] + (sizes[-1] - sizes[-2]) / 2).astype(np.float32)
    odd = np.arange(len(middles)) % 2 == 1
    return np.where(odd, np.nextafter(middles, np.float32(0)), middles)
