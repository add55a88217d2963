"""Factorisation of symmetric indefinite matrices: A = P L D L^T P^T with blocks of one or two in D (Bunch and Kaufman, 1977),
as LAPACK keeps it: D and L in the lower triangle, exchanges counted from 1, negative for blocks of two.
"""

import math

import numpy as np

from .. import dtypes, return_types
from ..dispatch import type_name
from ..ops.factorizations import LinAlgError
from ..tensor import Tensor
from .arguments import give, takes_out
from .host_fallback import on_host

LDL = return_types.linalg_ldl_factor
LDLInfo = return_types.linalg_ldl_factor_ex
_GROWTH = (1 + math.sqrt(17)) / 8


def _checked(A, name, hermitian):
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
    if hermitian and A.dtype.is_complex:
        raise NotImplementedError(f"torch.linalg.{name}: hermitian=True is not available for complex matrices")


@on_host
def ldl_factor_ex(A, *, hermitian=False, check_errors=False, out=None):
    """(LD, pivots, info): info is the first block of D that is zero, counted from 1, or 0."""
    _checked(A, "ldl_factor_ex", hermitian)
    x = np.tril(A._values("ldl_factor_ex()"))
    rows = x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
    pivots, info = np.zeros(rows.shape[:2], np.int32), np.zeros(len(rows), np.int32)
    for k, matrix in enumerate(rows):
        info[k] = _factor(matrix, pivots[k])
    if check_errors and info.any():
        raise LinAlgError(f"torch.linalg.ldl_factor_ex: a block of D is zero: {info.max()}")
    found = (
        Tensor._from_array(x, A.dtype),
        Tensor._from_array(pivots.reshape(x.shape[:-1]), dtypes.int32),
        Tensor._from_array(info.reshape(x.shape[:-2]), dtypes.int32),
    )
    return give(LDLInfo(*found), out)


def ldl_factor(A, *, hermitian=False, out=None):
    return give(LDL(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2]), out)


def _factor(a, pivots):
    """Of one matrix, in place: its lower triangle."""
    n, k, info = len(a), 0, 0
    while k < n:
        chosen, step = _pivot(a, k)
        if chosen is None:  # a column of zeros
            pivots[k], info = k + 1, info or k + 1
            k += 1
            continue
        last = k + step - 1
        if chosen != last:
            _exchange(a, k, last, chosen)
        if step == 1:
            column = a[k + 1 :, k].copy()
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.tril(np.outer(a[k + 1 :, k], column))
            pivots[k] = chosen + 1
        else:
            block = np.array([[a[k, k], a[k + 1, k]], [a[k + 1, k], a[k + 1, k + 1]]])
            columns = a[k + 2 :, k : k + 2].copy()
            a[k + 2 :, k : k + 2] = np.linalg.solve(block, columns.T).T
            a[k + 2 :, k + 2 :] -= np.tril(a[k + 2 :, k : k + 2] @ columns.T)
            pivots[k : k + 2] = -(chosen + 1)
        k += step
    return info


def _pivot(a, k):
    """(the row to exchange with, the size of the block)"""
    own = abs(a[k, k])
    if k + 1 == len(a):
        return (k, 1) if own else (None, 1)
    row = k + 1 + int(np.argmax(np.abs(a[k + 1 :, k])))
    most = abs(a[row, k])
    if not max(own, most):
        return None, 1
    if own >= _GROWTH * most:
        return k, 1
    beside = max(np.abs(a[row, k:row]).max(), np.abs(a[row + 1 :, row]).max(initial=0))
    if own >= _GROWTH * most * (most / beside):
        return k, 1
    return (row, 1) if abs(a[row, row]) >= _GROWTH * beside else (row, 2)


def _exchange(a, k, p, q):
    """Rows and columns p < q of what is left from k on."""
    a[[p, q], k:p] = a[[q, p], k:p]
    a[p, p], a[q, q] = a[q, q], a[p, p]
    inner = a[p + 1 : q, p].copy()
    a[p + 1 : q, p], a[q, p + 1 : q] = a[q, p + 1 : q], inner
    a[q + 1 :, [p, q]] = a[q + 1 :, [q, p]]


@takes_out
@on_host
def ldl_solve(LD, pivots, B, *, hermitian=False):
    """x of A x = B, from what `ldl_factor` gave."""
    _checked(LD, "ldl_solve", hermitian)
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
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.broadcast_to(b, batch + b.shape[-2:]).copy()
    a, p = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(p, batch + p.shape[-1:])
    for at in np.ndindex(*batch):
        _solve(a[at], p[at], x[at])
    return Tensor._from_array(x, B.dtype)


def _solve(a, pivots, x):
    n, k, starts = len(a), 0, []
    while k < n:
        step = 1 if pivots[k] > 0 else 2
        last, other = k + step - 1, abs(int(pivots[k])) - 1
        x[[last, other]] = x[[other, last]]
        end = k + step
        x[end:] -= a[end:, k:end] @ x[k:end]
        block = np.tril(a[k:end, k:end])
        x[k:end] = np.linalg.solve(block + np.tril(block, -1).T, x[k:end])
        starts.append((k, end, last, other))
        k = end
    for k, end, last, other in reversed(starts):
        x[k:end] -= a[end:, k:end].T @ x[end:]
        x[[last, other]] = x[[other, last]]
