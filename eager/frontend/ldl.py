"""Factorisation of symmetric and Hermitian matrices that need not be definite, A = P L D L^T P^T, by LAPACK through scipy, as
LAPACK keeps it: D, with blocks of one or two, and L in the lower triangle, exchanges counted from 1, negative for blocks of two.
"""

import itertools
import math

import numpy as np

from .. import dtypes, return_types
from ..dispatch import type_name
from ..optional_imports import extra
from ..ops.factorizations import LinAlgError
from ..tensor import Tensor
from .arguments import give, takes_out
from .host_fallback import on_host

LDL = return_types.linalg_ldl_factor
LDLInfo = return_types.linalg_ldl_factor_ex


def _lapack(step, array, hermitian, asker):
    """LAPACK's `trf` or `trs` for the type of the array."""
    name = ("he" if hermitian and array.dtype.kind == "c" else "sy") + step
    return extra("scipy.linalg.lapack", f"torch.linalg.{asker}", "special").get_lapack_funcs(name, (array,))


def _checked(A, name):
    if A.dtype.category < 2 or A.dtype.itemsize < 4:
        raise RuntimeError(
            f"torch.linalg.{name}: Expected a floating point or complex tensor as input. Got "
            f"{type_name(A.dtype).removesuffix('Tensor')}"
        )
    if A.ndim < 2:
        raise RuntimeError(f"torch.linalg.{name}: The input tensor A must have at least 2 dimensions.")
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"torch.linalg.{name}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )


@on_host
def ldl_factor_ex(A, *, hermitian=False, check_errors=False, out=None):
    """(LD, pivots, info): info is the first block of D that is zero, counted from 1, or 0."""
    _checked(A, "ldl_factor_ex")
    x = np.tril(A._values("ldl_factor_ex()"))
    rows = x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
    pivots, info = np.zeros(rows.shape[:2], np.int32), np.zeros(len(rows), np.int32)
    factor, n = _lapack("trf", x, hermitian, "ldl_factor"), x.shape[-1]
    for k, matrix in enumerate(rows):
        made, pivots[k], info[k] = factor(matrix, lower=True, lwork=max(64 * n, 1))
        matrix[...] = np.tril(made)
    if check_errors and info.any():
        raise LinAlgError(f"torch.linalg.ldl_factor_ex: a block of D is zero: {info.max()}")
    found = (
        Tensor._fl_from_array(x, A.dtype),
        Tensor._fl_from_array(pivots.reshape(x.shape[:-1]), dtypes.int32),
        Tensor._fl_from_array(info.reshape(x.shape[:-2]), dtypes.int32),
    )
    return give(LDLInfo(*found), out)


def ldl_factor(A, *, hermitian=False, out=None):
    return give(LDL(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2]), out)


@takes_out
@on_host
def ldl_solve(LD, pivots, B, *, hermitian=False):
    """x of A x = B, from what `ldl_factor` gave."""
    _checked(LD, "ldl_solve")
    if tuple(LD.shape[:-1]) != tuple(pivots.shape):
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {list(pivots.shape)} instead"
        )
    if B.ndim < 2:
        raise RuntimeError(
            f"torch.linalg.ldl_solve: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions instead"
        )
    if LD.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for torch.linalg.ldl_solve: each A matrix is {LD.shape[-1]} by "
            f"{LD.shape[-1]} but each b matrix is {B.shape[-2]} by {B.shape[-1]}"
        )
    if B.dtype is not LD.dtype:
        names = [type_name(t.dtype).removesuffix("Tensor") for t in (B, LD)]
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {names[0]} and A of type {names[1]} instead."
        )
    a, p, b = LD._values("ldl_solve()"), pivots._values("ldl_solve()"), B._values("ldl_solve()")
    if not _are_exchanges(p):
        raise RuntimeError(
            "Pivots given to ldl_solve must all satisfy |pivot| <= LD.size(-2). Did you properly pass the result of ldl_factor?"
        )
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.broadcast_to(b, batch + b.shape[-2:]).copy()
    a, p = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(p, batch + p.shape[-1:])
    solve = _lapack("trs", x, hermitian, "ldl_solve")
    for at in np.ndindex(*batch) if x.size else ():
        x[at] = solve(a[at], p[at], x[at], lower=True)[0]
    return Tensor._fl_from_array(x, B.dtype)


def _are_exchanges(pivots):
    """Whether LAPACK, which does not look, may follow them: rows that exist, and blocks of two rows."""
    size, n = np.abs(pivots), pivots.shape[-1]
    if not pivots.size or not ((size >= 1) & (size <= n)).all():
        return not pivots.size
    runs = itertools.chain.from_iterable(itertools.groupby(row < 0) for row in pivots.reshape(-1, n))
    return all(len(list(run)) % 2 == 0 for negative, run in runs if negative)
