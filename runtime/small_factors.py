"""Determinants and Cholesky factors of many small matrices; NotImplemented for other operands."""

from __future__ import annotations

import numpy as np

from .kernels import WHOLE, empty, grain_of, run

MOST_ROWS = 32  # as in csrc/small_factors.h


def _is_eligible(x) -> bool:
    return x.dtype in WHOLE and x.size > 0 and x.shape[-1] <= MOST_ROWS and x.flags.c_contiguous


def determinants(x):
    """Of matrices of (..., n, n), by elimination in doubles."""
    if not _is_eligible(x):
        return NotImplemented
    n, out = x.shape[-1], empty(x.shape[:-2], x.dtype)
    run("small_determinants", x.dtype, out.size, grain_of(n**3), (out, x), (n,))
    return out


def cholesky(x):
    """The lower factors of symmetric matrices of (..., n, n), in doubles; NotImplemented where one is not positive-definite."""
    if not _is_eligible(x):
        return NotImplemented
    n, out, good = x.shape[-1], empty(x.shape, x.dtype), empty(x.shape[:-2], np.dtype(np.bool_))
    run("small_cholesky", x.dtype, good.size, grain_of(n**3), (out, x, good), (n,))
    return out if good.all() else NotImplemented
