"""LAPACK's functions that numpy has in doubles only: they are called in the OpenBLAS that numpy brings (csrc/openblas.cpp)."""

from __future__ import annotations

import numpy as np

from . import _native


def qr(x):
    """(q, r), the reduced factors of a float32 matrix (m, n) that isn't empty; None where numpy brings no such library."""
    columns, r = np.array(x.T, np.float32, order="C"), np.empty((min(x.shape), x.shape[1]), np.float32)
    if not _native.qr_of_floats(columns, r):
        return None
    return np.ascontiguousarray(columns[: len(r)].T), r
