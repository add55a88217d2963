"""Products of matrices by cuBLAS: one call for a batch, in the arrays' own types and orders.

In: (*batch, M, K) and (*batch, K, N). Out: (*batch, M, N). cuBLAS thinks in columns, so it is asked for the transposed
result, b.T @ a.T, whose memory is that of the result in rows. Halves accumulate in float32. float32 is rounded to TF32
only where `float32_matmul_precision` allows it. Integers take cupy's kernel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes
from ..compat.backends import cuda as backends
from ..frontend.legacy import get_float32_matmul_precision
from .find_cupy import cupy

# the library's numbers for types (cudaDataType) and for how it computes (cublasComputeType)
_R16F, _R32F, _R64F, _C32F, _C64F, _R16BF = 2, 0, 1, 4, 5, 14
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_TF32 = 68, 70, 77
_DEFAULT_ALGORITHM = -1
_KINDS = {
    "float16": (_R16F, _COMPUTE_32F, np.float32),
    "float32": (_R32F, _COMPUTE_32F, np.float32),
    "float64": (_R64F, _COMPUTE_64F, np.float64),
    "complex64": (_C32F, _COMPUTE_32F, np.complex64),
    "complex128": (_C64F, _COMPUTE_64F, np.complex128),
}
_BFLOAT16 = (_R16BF, _COMPUTE_32F, np.float32)


def tf32_allowed() -> bool:
    """Whether float32 products may round their operands to 10 bits."""
    return get_float32_matmul_precision() != "highest" or backends.matmul.allow_tf32


def product(a, b):
    """a @ b for arrays with at least two dims and equal or broadcast batch sizes; vectors as numpy takes them."""
    if a.ndim < 2 or b.ndim < 2:
        row, column = a.ndim < 2, b.ndim < 2
        out = product(a[None] if row else a, b[:, None] if column else b)
        return out[(..., *((0,) if row else (slice(None),)), *((0,) if column else ()))]
    if a.dtype.name not in _KINDS or a.dtype != b.dtype:
        return cupy().matmul(a, b)
    return multiplied(a, b, _KINDS[a.dtype.name])


def bfloat16_product(a, b):
    """The same of bits (uint16)."""
    return multiplied(a, b, _BFLOAT16)


def multiplied(a, b, kind):
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    out = cupy().empty((*batch, rows, columns), a.dtype)
    if out.size == 0:
        return out
    if inner == 0:
        out.fill(0)
        return out
    count = math.prod(batch)
    a, a_turned, a_lead, a_step = operand(a, batch)
    b, b_turned, b_lead, b_step = operand(b, batch)
    call(out, (b, b_turned, b_lead, b_step), (a, a_turned, a_lead, a_step), columns, rows, inner, count, kind)
    return out


def operand(x, batch):
    """(memory, whether it is column-major, its leading dim, elements from one matrix to the next)."""
    if x.shape[:-2] != batch and any(n != 1 for n in x.shape[:-2]):
        x = cupy().broadcast_to(x, (*batch, *x.shape[-2:]))
    step = batch_step(x)
    lead: Any = None if step is None else leading(x)
    if lead is None:
        x = cupy().ascontiguousarray(x)
        step, lead = batch_step(x), leading(x)
    return x, lead[0], lead[1], step if math.prod(x.shape[:-2]) > 1 else 0


def leading(x):
    """(column-major, leading dim) of matrices whose rows or columns are dense; None for others."""
    rows, columns = x.shape[-2:]
    size = x.dtype.itemsize
    across, along = (s // size for s in x.strides[-2:])
    if (along == 1 or columns == 1) and (across >= max(columns, 1) or rows == 1):
        return False, max(across if rows > 1 else 1, columns)
    if (across == 1 or rows == 1) and (along >= max(rows, 1) or columns == 1):
        return True, max(along if columns > 1 else 1, rows)
    return None


def batch_step(x):
    """Elements between neighbouring matrices, if that is one number."""
    size, step, expected = x.dtype.itemsize, 0, None
    for n, stride in zip(reversed(x.shape[:-2]), reversed(x.strides[:-2])):
        if n == 1:
            continue
        stride //= size
        if expected is None:
            step = stride
        elif stride != expected:
            return None
        expected = stride * n
    return step


def call(out, left, right, m, n, k, count, kind):
    """out (column-major m x n) = left (m x k) @ right (k x n), `count` times."""
    from cupy_backends.cuda.libs import cublas

    number, compute, scalar = kind
    if compute == _COMPUTE_32F and number == _R32F and tf32_allowed():
        compute = _COMPUTE_TF32
    one, zero = np.array(1, scalar), np.array(0, scalar)
    handle = cupy().cuda.get_cublas_handle()
    turns = [1 if turned else 0 for _, turned, _, _ in (left, right)]
    cublas.gemmStridedBatchedEx(
        handle,
        *turns,
        m,
        n,
        k,
        one.ctypes.data,
        left[0].data.ptr,
        number,
        left[2],
        left[3],
        right[0].data.ptr,
        number,
        right[2],
        right[3],
        zero.ctypes.data,
        out.data.ptr,
        number,
        m,
        m * n,
        count,
        compute,
        _DEFAULT_ALGORITHM,
    )


def gemm(a, b, dtype):
    """The record's kernel over arrays in memory's type."""
    if dtype is dtypes.bfloat16:
        return bfloat16_product(a, b)
    return product(a, b)
