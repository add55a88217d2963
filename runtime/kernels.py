"""Threaded native kernels on numpy arrays, by name.

In: arrays whose sizes the caller has checked. Out: nothing; kernels write into arrays that the caller made. What the
arrays and numbers of a kernel mean stands with it in `csrc/` (softmax_norm.h, reduce.h, gather_scatter.h,
optimizer_steps.h, attention.h).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from . import _native

_job, _NUMBERS = _native.job, _native.jobs()
TYPES = {np.dtype(t): k for k, t in enumerate((np.float32, np.float64, ml_dtypes.bfloat16, np.float16))}  # FbType of csrc/abi.h
WHOLE = {np.dtype(np.float32), np.dtype(np.float64)}  # types that compute in themselves
SIZES = {4: 0, 8: 1, 2: 2, 1: 3}  # bytes of an element, for kernels that only move it
GRAIN = 1 << 14  # elements that are worth a thread
empty = _native.empty


def run(name: str, dtype, units: int, grain: int, arrays: tuple, numbers: tuple = (), reals: tuple = ()) -> None:
    """Run units [0, units) of a kernel; threads take `grain` of them or more at a time."""
    _job(_NUMBERS[name], TYPES[dtype], units, grain, arrays, numbers, reals)


def has_job(name: str, dtype) -> bool:
    """Whether a kernel is there for a type."""
    return name in _NUMBERS and _native.has_job(_NUMBERS[name], TYPES[dtype])


def run_sized(name: str, itemsize: int, units: int, grain: int, arrays: tuple, numbers: tuple = ()) -> None:
    """The same for kernels that go by the size of an element."""
    _job(_NUMBERS[name], SIZES[itemsize], units, grain, arrays, numbers, ())


def grain_of(work: int) -> int:
    """Units a thread takes when one unit is `work` elements."""
    return max(1, GRAIN // max(work, 1))


_BLOCKS = {"avx512": 64, "avx2": 32, "baseline": 16}


def column_block() -> int:
    """Columns in one unit of a columns kernel: four registers of floats."""
    return _BLOCKS[_native.get_isa()]


def computation(dtype) -> np.dtype:
    """The type in which a kernel of `dtype` computes."""
    return dtype if dtype in WHOLE else np.dtype(np.float32)


def are_contiguous_floats(*arrays) -> bool:
    """All contiguous, of one floating type that the kernels know; None counts as well."""
    dtype = arrays[0].dtype
    return dtype in TYPES and all(a is None or (a.dtype == dtype and a.flags.c_contiguous and a.flags.aligned) for a in arrays)
