"""Linear algebra under the names of torch.linalg, and of torch where the names are older.

Batches of matrices lie in the last two dims. Results with several parts are named tuples.
"""

import math
from typing import Any

from .. import dtypes, return_types
from ..dispatch import small
from ..ops import arithmetic as a, complex_numbers as c, factorizations as d, elementary as e, reduce as r
from ..ops.checks import all_solved
from ..ops.views import contiguous_copy
from ..tensor import Tensor
from . import composition, creation, products, reductions, shapes
from . import public
from .arguments import dim_of, dims_of, dtype_of, give, takes_out

LinAlgError = d.LinAlgError
SLogDet = return_types.linalg_slogdet
QR = return_types.linalg_qr
SVD = return_types.linalg_svd
Eig = return_types.linalg_eig
Eigh = return_types.linalg_eigh
LU = return_types.linalg_lu
LUFactor = return_types.linalg_lu_factor
LstSq = return_types.linalg_lstsq


def _matrices(x, name, square=False):
    if not (x.dtype.category >= 2 and x.dtype.itemsize >= 4):
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {x.dtype}")
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if square and x.shape[-1] != x.shape[-2]:
        raise RuntimeError(f"{name}: A must be batches of square matrices, but they are {x.shape[-2]} by {x.shape[-1]} matrices")
    return x


def adjoint_of(x):
    return c.conj(x.transpose(-2, -1)) if x.dtype.is_complex else x.transpose(-2, -1)


# -- inverses and determinants


@takes_out
def inv(A):
    return d.inv(_matrices(A, "linalg.inv", True))


def inv_ex(A, *, check_errors=False, out=None):
    kind = return_types.linalg_inv_ex
    found = kind(*d.inv_ex(_matrices(A, "linalg.inv", True)))
    if check_errors:
        _check_info(
            found.info,
            "linalg.inv_ex: The diagonal element {} is zero, the inversion could not be completed because "
            "the input matrix is singular.",
        )
    return give(found, out)


def _check_info(info, text, kind: type[Exception] = LinAlgError):
    """An error about the first matrix of a batch that has no solution."""
    all_solved(info, text, kind.__name__)


@takes_out
def det(A):
    return d.det(_matrices(A, "linalg.det", True))


def slogdet(A, *, out=None):
    return give(SLogDet(*d.slogdet(_matrices(A, "linalg.slogdet", True))), out)


def _slogdet(A, *, out=None):
    """torch.slogdet: its result has a name of its own."""
    return give(return_types.slogdet(*slogdet(A)), out)


def logdet(input):
    sign, size = slogdet(input)
    if input.dtype.is_complex:
        return a.add(size, e.log(sign))
    return a.where(a.eq(sign, -1), math.nan, size)


def _power_base(A):
    """Square matrices of any type: whole numbers and halves are multiplied as they are."""
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        _matrices(A if A.dtype.category >= 2 and A.dtype.itemsize >= 4 else A.to(dtypes.float32), "linalg.matrix_power", True)
    return A


def matrix_power(A, n, *, out=None):
    x = _power_base(A)
    if n == 0:
        return give(creation.eye(x.shape[-1], dtype=x.dtype).expand(x.shape).clone(), out)
    if n == 1:
        return give(contiguous_copy(x), out)
    x = inv(x) if n < 0 else x
    result, n = None, abs(n)
    while n:
        if n % 2:
            result = x if result is None else products.matmul(result, x)
        n //= 2
        x = products.matmul(x, x) if n else x
    return give(result, out)


def matrix_exp(A):
    return d.matrix_exp(_matrices(A, "linalg.matrix_exp", True))


# -- solving


def _is_vector(A, B):
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))


def solve(A, B, *, left=True, out=None):
    return give(_solved(A, B, left, lambda a, b: (d.solve(a, b), None))[0], out)


def _solved(A, B, left, record):
    """(solution, info) by a record that takes matrices from the left."""
    _matrices(A, "linalg.solve", True)
    if A.dtype is not B.dtype:
        raise RuntimeError(
            "linalg.solve: Expected A and B to have the same dtype, but found A of type "
            f"{A.dtype} and B of type {B.dtype} instead"
        )
    vector = _is_vector(A, B)
    b = B.unsqueeze(-1) if vector else B
    if b.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'}"
            f" ({A.shape[-2]}x{A.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )
    x, info = record(A, b) if left else record(A.transpose(-2, -1), b.transpose(-2, -1))
    x = x if left else x.transpose(-2, -1)
    return x.squeeze(-1) if vector else x, info


def solve_ex(A, B, *, left=True, check_errors=False, out=None):
    kind = return_types.linalg_solve_ex
    found = kind(*_solved(A, B, left, d.solve_ex))
    if check_errors:
        _check_info(found.info, "torch.linalg.solve_ex: The solver failed because the input matrix is singular.")
    return give(found, out)


@takes_out
def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    _matrices(A, "linalg.solve_triangular", True)
    if left:
        return d.solve_triangular(A, B, upper, unitriangular)
    return d.solve_triangular(A.transpose(-2, -1), B.transpose(-2, -1), not upper, unitriangular).transpose(-2, -1)


def triangular_solve(b, A, upper=True, transpose=False, unitriangular=False, *, out=None):
    kind = return_types.triangular_solve
    x = (
        d.solve_triangular(A.transpose(-2, -1), b, not upper, unitriangular)
        if transpose
        else d.solve_triangular(A, b, upper, unitriangular)
    )
    return give(kind(x, A.clone()), out)


@takes_out
def cholesky(A, *, upper=False):
    low = d.cholesky(_matrices(A, "linalg.cholesky", True))
    return adjoint_of(low) if upper else low


def cholesky_ex(A, *, upper=False, check_errors=False, out=None):
    """(L, info): info is the order of the leading minor that is not positive-definite, or 0."""
    kind = return_types.linalg_cholesky_ex
    low, info = d.cholesky_ex(_matrices(A, "linalg.cholesky", True))
    if check_errors:
        _check_info(
            info,
            "linalg.cholesky_ex: The factorization could not be completed because the input is not "
            "positive-definite (the leading minor of order {} is not positive-definite).",
        )
    return give(kind(adjoint_of(low) if upper else low, info), out)


def old_cholesky(input, upper=False, *, out=None):
    return cholesky(input, upper=upper, out=out)


@takes_out
def cholesky_solve(B, L, upper=False):
    return d.cholesky_solve(B, adjoint_of(L) if upper else L)


@takes_out
def cholesky_inverse(L, upper=False):
    return cholesky_solve(creation.eye(L.shape[-1], dtype=L.dtype).expand(L.shape), L, upper)


def lstsq(A, B, rcond=None, *, driver=None):
    """Least squares by the pseudo-inverse (so that rank-deficient matrices have a solution of least norm)."""
    _matrices(A, "linalg.lstsq")
    vector = _is_vector(A, B)
    b = B.unsqueeze(-1) if vector else B
    m, n = A.shape[-2:]
    rcond = dtypes.finfo(A.dtype).eps * max(m, n) if rcond is None else rcond
    x = products.matmul(pinv(A, rtol=rcond), b)
    rank = matrix_rank(A, rtol=rcond)
    residuals = a.square(a.absolute(products.matmul(A, x) - b)).sum(-2) if m > n else x.new_empty(0)
    values = svdvals(A) if driver in ("gelsd", "gelss") else x.new_empty(0)
    return LstSq(x.squeeze(-1) if vector else x, residuals, rank, values)


# -- factorisations


def qr(A, mode="reduced", *, out=None):
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    return give(QR(*d.qr(_matrices(A, "linalg.qr"), mode)), out)


qr = small("linalg_qr", qr, None, QR)


def old_qr(input, some=True, *, out=None):
    kind = return_types.qr
    return give(kind(*d.qr(_matrices(input, "qr"), "reduced" if some else "complete")), out)


def _pivoted(pivot, name):
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU: leave pivot=True")


_ZERO_PIVOT = (
    "U[{},{}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
    "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)


def lu_factor(A, *, pivot=True, out=None):
    _pivoted(pivot, "linalg.lu_factor")
    packed, pivots = d.lu_factor(_matrices(A, "linalg.lu_factor"))
    _check_info(_first_zero(packed), "torch.linalg.lu_factor: " + _ZERO_PIVOT, RuntimeError)
    return give(LUFactor(packed, pivots), out)


def lu_factor_ex(A, *, pivot=True, check_errors=False, out=None):
    _pivoted(pivot, "linalg.lu_factor_ex")
    kind = return_types.linalg_lu_factor_ex
    found = kind(*(parts := d.lu_factor(_matrices(A, "linalg.lu_factor"))), _first_zero(parts[0]))
    if check_errors:
        _check_info(found.info, "torch.linalg.lu_factor_ex: " + _ZERO_PIVOT, RuntimeError)
    return give(found, out)


def _first_zero(packed):
    """The number of the first diagonal element of U that is zero, counted from 1; 0 where there is none."""
    zero = a.eq(shapes.diagonal(packed.detach(), 0, -2, -1), 0)
    if not zero.shape[-1]:
        return creation.zeros(tuple(packed.shape[:-2]), dtype=dtypes.int32)
    at = reductions.argmax(zero.to(dtypes.int32), -1)
    return a.where(reductions.any(zero, -1), at + 1, 0).to(dtypes.int32)


def _permutation(pivots, rows, dtype):
    """The matrix P of A = P @ L @ U from row exchanges counted from 1."""
    order = d.row_order(pivots, rows)
    return a.eq(creation.arange(rows).unsqueeze(-1), order.unsqueeze(-2)).to(dtype)


def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True, *, out=None):
    """(P, L, U) of what `lu_factor` gave; what is not unpacked is an empty tensor."""
    kind = return_types.lu_unpack
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    P = low = up = LU_data.new_empty(0)
    if unpack_data:
        low = creation.tril(LU_data.narrow(-1, 0, k), -1) + creation.eye(m, k, dtype=LU_data.dtype)
        up = creation.triu(LU_data.narrow(-2, 0, k))
    if unpack_pivots:
        P = _permutation(LU_pivots, m, LU_data.dtype)
    return give(kind(P, low, up), out)


def lu(A, *, pivot=True, out=None):
    """A = P @ L @ U"""
    _pivoted(pivot, "linalg.lu")
    return give(LU(*lu_unpack(*d.lu_factor(_matrices(A, "linalg.lu")))), out)


@takes_out
def lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    """X of A @ X = B (left) or X @ A = B, for A = P @ L @ U or (adjoint) its conjugate transpose."""
    if not left:
        return adjoint_of(_lu_solved(LU, pivots, adjoint_of(B), not adjoint))
    return _lu_solved(LU, pivots, B, adjoint)


def _lu_solved(LU, pivots, B, adjoint):
    P, low, up = lu_unpack(LU, pivots)
    if adjoint:
        x = d.solve_triangular(adjoint_of(up), B, False, False)
        return products.matmul(P, d.solve_triangular(adjoint_of(low), x, True, True))
    x = d.solve_triangular(low, products.matmul(P.transpose(-2, -1), B), False, True)
    return d.solve_triangular(up, x, True, False)


def old_lu_solve(b, LU_data, LU_pivots, *, out=None):
    return lu_solve(LU_data, LU_pivots, b, out=out)


def _no_driver(driver, name):
    if driver is not None:
        raise RuntimeError(f"{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")


def svd(A, full_matrices=True, *, driver=None, out=None):
    _no_driver(driver, "torch.linalg.svd")
    return give(SVD(*d.svd(_matrices(A, "linalg.svd"), full_matrices)), out)


def old_svd(input, some=True, compute_uv=True, *, out=None):
    """(U, S, V) with V not transposed; without `compute_uv`, U and V are zeros."""
    kind = return_types.svd
    u, s, vh = d.svd(_matrices(input, "svd"), not some)
    if not compute_uv:
        m, n = input.shape[-2:]
        batch = tuple(input.shape[:-2])
        return give(kind(input.new_zeros(*batch, m, m), s, input.new_zeros(*batch, n, n)), out)
    return give(kind(u, s, adjoint_of(vh)), out)


@takes_out
def svdvals(A, *, driver=None):
    _no_driver(driver, "torch.linalg.svdvals")
    return d.svd(_matrices(A, "linalg.svdvals"), False)[1]


def _lower(A, UPLO):
    return adjoint_of(A) if UPLO.upper() == "U" else A


def eigh(A, UPLO="L", *, out=None):
    return give(Eigh(*d.eigh(_lower(_matrices(A, "linalg.eigh", True), UPLO))), out)


@takes_out
def eigvalsh(A, UPLO="L"):
    return d.eigh(_lower(_matrices(A, "linalg.eigvalsh", True), UPLO))[0]


def eig(A, *, out=None):
    return give(Eig(*d.eig(_matrices(A, "linalg.eig", True))), out)


@takes_out
def eigvals(A):
    return d.eig(_matrices(A, "linalg.eigvals", True))[0]


def _tolerance(s, A, atol, rtol):
    if rtol is None:
        rtol = dtypes.finfo(A.dtype).eps * max(A.shape[-2:]) if atol is None else 0.0
    limit = a.mul(s.amax(-1, keepdim=True), rtol)
    return limit if atol is None else a.maximum(limit, atol if isinstance(atol, Tensor) else s.new_tensor(atol))


@takes_out
def pinv(A, *, atol=None, rtol=None, hermitian=False):
    """The pseudo-inverse; of a `hermitian` matrix by its eigenvalues, from its lower triangle."""
    if hermitian:
        values, vectors = d.eigh(_matrices(A, "linalg.pinv", True))
        large = a.absolute(values.detach())
        kept = a.gt(large, _tolerance(large, A, atol, rtol))
        inverse = a.where(kept, a.div(1.0, a.where(kept, values, 1.0)), 0.0)
        return products.matmul(a.mul(vectors, inverse.unsqueeze(-2)), adjoint_of(vectors))
    real = A.dtype.to_real()
    relative, absolute = (x if isinstance(x, Tensor) or x is None else A.new_tensor(x, dtype=real) for x in (rtol, atol))
    if relative is None:
        eps = dtypes.finfo(A.dtype).eps * max(A.shape[-2:]) if absolute is None else 0.0
        relative = A.new_full((), eps, dtype=real)
    return d.pseudo_inverse(_matrices(A, "linalg.pinv"), relative, absolute)


def pinverse(input, rcond=1e-15):
    return pinv(input, rtol=rcond)


@takes_out
def matrix_rank(A, tol=None, *, atol=None, rtol=None, hermitian=False):
    s = a.absolute(eigvalsh(A)) if hermitian else svdvals(A)
    return a.gt(s, _tolerance(s, A, atol if tol is None else tol, rtol)).sum(-1)


def cond(A, p=None, *, out=None):
    if p in (None, 2, -2):
        s = svdvals(A)
        return give(s[..., 0] / s[..., -1] if p != -2 else s[..., -1] / s[..., 0], out)
    inverse, info = inv_ex(A)
    inverse = a.where(a.gt(info.unsqueeze(-1).unsqueeze(-1), 0), math.inf, inverse)  # of singular matrices
    found = matrix_norm(A, p) * matrix_norm(inverse, p)
    return give(a.where(e.isnan(found), math.inf, found), out)  # 0 times infinity, as numpy has it


# -- norms


def _magnitudes(x):
    return a.absolute(x) if x.dtype.is_complex else x


@takes_out
def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if x.dtype.category < 2:
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {x.dtype}")
    dtypes.of_number(ord)  # (refuses an integer that 64 bits do not hold)
    x = x if dtype is None else x.to(dtype_of(dtype))
    return reductions._norm_over(x, float(ord), dims_of(x, dim), keepdim)


vector_norm = small("vector_norm", vector_norm, r.norm)


@takes_out
def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    x = A if dtype is None else A.to(dtype_of(dtype))
    if x.dtype.category < 2:
        raise RuntimeError(f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {x.dtype}")
    if x.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    rows, cols = (dim_of(x, k) for k in dim)
    if ord == "fro":
        return r.norm(_magnitudes(x), 2.0, tuple(sorted((rows, cols))), keepdim)
    if ord in ("nuc", 2, -2):
        s = svdvals(x.movedim((rows, cols), (-2, -1)))
        found = s.sum(-1) if ord == "nuc" else _extreme(s, ord, -1, False)
    elif ord in (1, -1, math.inf, -math.inf):
        along, over = (rows, cols) if abs(ord) == 1 else (cols, rows)
        sums = a.absolute(x).sum(along, keepdim=True)
        found = _extreme(sums, ord, over, True)
        return found if keepdim else found.squeeze((rows, cols))
    else:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if keepdim:
        for k in sorted((rows, cols)):
            found = found.unsqueeze(k)
    return found


def _extreme(x, ord, dim, keepdim):
    """The greatest (of nothing 0) for positive orders, else the least."""
    size = x.shape[dim]
    if ord > 0 and type(size) is int and size == 0:
        return x.sum(dim, keepdim=keepdim)
    return x.amax(dim, keepdim=keepdim) if ord > 0 else x.amin(dim, keepdim=keepdim)


def norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """Of vectors (one dim, or all elements if neither ord nor dim is given) or of matrices (two dims)."""
    pair = isinstance(dim, (tuple, list)) and len(dim) == 2 or (dim is None and ord is not None and A.ndim == 2)
    if isinstance(ord, str) or (pair and ord is not None):
        return matrix_norm(A, ord, tuple(dim) if dim is not None else (-2, -1), keepdim, dtype=dtype, out=out)
    if ord is not None and dim is None and A.ndim != 1:
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D.")
    if isinstance(dim, (tuple, list)) and len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype, out=out)


# -- products


@takes_out
def multi_dot(tensors):
    parts = list(tensors)
    row, column = parts[0].ndim == 1, parts[-1].ndim == 1
    parts[0] = parts[0].unsqueeze(0) if row else parts[0]
    parts[-1] = parts[-1].unsqueeze(-1) if column else parts[-1]
    result = _in_best_order(parts)
    result = result.squeeze(0) if row else result
    return result.squeeze(-1) if column else result


def _in_best_order(parts):
    """The product with the fewest multiplications."""
    sizes = [parts[0].shape[0], *[p.shape[1] for p in parts]]
    best: dict[tuple[int, int], tuple[Any, Any]] = {(k, k): (0, None) for k in range(len(parts))}
    for length in range(1, len(parts)):
        for i in range(len(parts) - length):
            j = i + length
            best[i, j] = min((best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))

    def product(i, j):
        k = best[i, j][1]
        return parts[i] if i == j else products.mm(product(i, k), product(k + 1, j))

    return product(0, len(parts) - 1)


@takes_out
def vecdot(x, y, *, dim=-1):
    if x.dtype.category < 2 or y.dtype is not x.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected floating point or complex tensors of the same dtype. Got {x.dtype} and {y.dtype}"
        )
    return reductions.sum(a.mul(c.conj(x) if x.dtype.is_complex else x, y), dim)


def cross(input, other, *, dim=-1, out=None):
    return composition.cross(input, other, dim, out=out)


def vander(x, *, N=None):
    n = x.shape[-1] if N is None else N
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    return x.unsqueeze(-1) ** creation.arange(n, dtype=dtypes.int64)


@takes_out
def tensorinv(A, ind=2):
    front, back = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    return inv(A.reshape(math.prod(front), -1)).reshape(back + front)


@takes_out
def tensorsolve(A, B, dims=None):
    if dims is not None:
        rest = [k for k in range(A.ndim) if k not in [dim_of(A, q) for q in dims]]
        A = A.permute(*rest, *[dim_of(A, q) for q in dims])
    back = tuple(A.shape[B.ndim :])
    return solve(A.reshape(-1, math.prod(back)), B.reshape(-1)).reshape(back)


@takes_out
def householder_product(A, tau):
    """The first columns of the product of reflections I - tau v v^H, v from the columns of A below the diagonal."""
    m, n = A.shape[-2:]
    q = creation.eye(m, dtype=A.dtype).expand(*A.shape[:-2], m, m)
    for k in range(tau.shape[-1]):
        column = creation.tril(A, -1)[..., :, k : k + 1]
        v = column + creation.eye(m, dtype=A.dtype)[:, k : k + 1]
        q = q - products.matmul(products.matmul(q, v) * tau[..., k, None, None], adjoint_of(v))
    return q.narrow(-1, 0, n)


# torch's own older names
TOP_LEVEL = dict(
    inverse=inv,
    det=det,
    slogdet=_slogdet,
    logdet=logdet,
    matrix_power=matrix_power,
    matrix_exp=matrix_exp,
    cholesky=old_cholesky,
    cholesky_solve=cholesky_solve,
    cholesky_inverse=cholesky_inverse,
    qr=old_qr,
    svd=old_svd,
    pinverse=pinverse,
    triangular_solve=triangular_solve,
    lu_solve=old_lu_solve,
    lu_unpack=lu_unpack,
    orgqr=householder_product,
)
public.each(TOP_LEVEL, both=" ".join(name for name in TOP_LEVEL if name != "lu_unpack"), function="lu_unpack")
