"""Factorisations beside torch.linalg's: reflections as LAPACK keeps them, and a few singular or eigenvalues of large
matrices. Names of torch that were removed say so."""

import numpy as np

from .. import dtypes, return_types
from ..dispatch import type_name
from ..tensor import Tensor
from . import creation, linalg, products, shapes
from .arguments import give
from .host_fallback import on_host

Geqrf = return_types.geqrf


# -- reflections


@on_host
def geqrf(input, *, out=None):
    """(a, tau): R on and above the diagonal of `a`; below it, and in `tau`, the reflections whose product is Q."""
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    if input.dtype.category < 2 or input.dtype.itemsize < 4:
        raise NotImplementedError(f'"geqrf_cpu" not implemented for {type_name(input.dtype)!r}')
    x = input._values("geqrf()")
    a, tau = np.linalg.qr(x, mode="raw")
    found = [np.ascontiguousarray(v, x.dtype) for v in (np.swapaxes(a, -1, -2), tau)]
    return give(Geqrf(*(Tensor._fl_from_array(v, input.dtype) for v in found)), out)


def ormqr(input, tau, other, left=True, transpose=False, *, out=None):
    """The product of Q, as `geqrf` gives it, with `other` (`left=False`: of `other` with Q), without making Q."""
    _check_reflections(input, tau, other, left)
    forward = left == bool(transpose)  # the reflection next to `other` comes first
    n, m = tau.shape[-1], input.shape[-2]
    below, one = creation.tril(input, -1), creation.eye(m, dtype=input.dtype, device=input.device)
    x = other
    for k in range(n) if forward else reversed(range(n)):
        v = below[..., :, k : k + 1] + one[:, k : k + 1]
        scale = tau[..., k, None, None]
        scale = scale.conj() if transpose and scale.is_complex() else scale
        if left:
            x = x - products.matmul(v, products.matmul(linalg.adjoint_of(v), x)) * scale
        else:
            x = x - products.matmul(products.matmul(x, v) * scale, linalg.adjoint_of(v))
    return give(x, out)


def _check_reflections(input, tau, other, left):
    if input.ndim < 2:
        raise RuntimeError("torch.ormqr: input must have at least 2 dimensions.")
    if other.ndim < 2:
        raise RuntimeError("torch.ormqr: other must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.shape[side] < tau.shape[-1]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]")
    if other.shape[side] != input.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if tau.shape[-1] != min(other.shape[side], input.shape[-1]):
        raise RuntimeError(f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    for name, t in (("tau", tau), ("other", other)):
        if t.dtype is not input.dtype:
            raise RuntimeError(
                f"torch.ormqr: Expected input and {name} to have the same dtype, but input has dtype"
                f"{type_name(input.dtype).removesuffix('Tensor')} and {name} has dtype "
                f"{type_name(t.dtype).removesuffix('Tensor')}"
            )


def lu(A, pivot=True, get_infos=False, out=None):
    """(factors, pivots), and with `get_infos` which matrices are singular."""
    found = linalg.lu_factor_ex(A, pivot=pivot) if get_infos else linalg.lu_factor(A, pivot=pivot)
    return give(tuple(found), out)


# -- low rank, by a random projection and powers: Halko, Martinsson and Tropp, "Finding structure with randomness", 2011


def _range(A, q, niter):
    """Orthonormal columns that span, nearly, what A's q largest singular vectors do (their algorithm 4.4)."""
    x = products.matmul(A, _random(A, q))
    Q = linalg.qr(x).Q
    for _ in range(niter):
        Q = linalg.qr(products.matmul(linalg.adjoint_of(A), Q)).Q
        Q = linalg.qr(products.matmul(A, Q)).Q
    return Q


def _random(A, q):
    """A normal matrix that `A` can be multiplied by."""
    return A.new_empty((*A.shape[:-2], A.shape[-1], q)).normal_()


def svd_lowrank(A, q=6, niter=2, M=None):
    """(U, S, V) of rank q, nearly that of `A - M`."""
    q = 6 if q is None else q
    if M is not None:
        A = A - M.expand(A.shape)
    m, n = A.shape[-2:]
    wide = m < n
    A = linalg.adjoint_of(A) if wide else A
    Q = _range(A, q, niter)
    U, S, Vh = linalg.svd(products.matmul(linalg.adjoint_of(Q), A), full_matrices=False)
    U, V = products.matmul(Q, U), linalg.adjoint_of(Vh)
    return (V, S, U) if wide else (U, S, V)


def pca_lowrank(A, q=None, center=True, niter=2):
    """`svd_lowrank` of the matrix less the means of its columns."""
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


# -- extreme eigenvalues: Knyazev, "Toward the optimal preconditioned eigensolver", 2001


def lobpcg(
    A,
    k=None,
    B=None,
    X=None,
    n=None,
    iK=None,
    niter=None,
    tol=None,
    largest=None,
    method=None,
    tracker=None,
    ortho_iparams=None,
    ortho_fparams=None,
    ortho_bparams=None,
):
    """(the k largest or smallest eigenvalues of A x = w B x, their vectors): the best in the span of the present vectors,
    their residuals (times `iK`) and the last steps, until all residuals are below `tol`."""
    if A.shape[-2] != A.shape[-1]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if tracker is not None or ortho_iparams or ortho_fparams or ortho_bparams:
        raise NotImplementedError("lobpcg: tracker and the parameters of the orthogonalisation are not available")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: method must be 'basic' or 'ortho', but got {method!r}")
    size = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if X is None else X.shape[-1]) if n is None else n
    if size < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={size}) is smaller than 3 x the "
            f"number of requested eigenpairs (={n})"
        )
    if A.ndim > 2:
        return _batched(A, k, B, X, n, iK, niter, tol, largest)
    found = _lobpcg(
        A,
        B,
        _random(A, n) if X is None else X,
        iK,
        1000 if niter is None else niter,
        dtypes.finfo(A.dtype).eps ** 0.5 if tol is None else tol,
        largest is None or largest,
    )
    return found[0][:k], found[1][:, :k]


def _batched(A, k, B, X, n, iK, niter, tol, largest):
    batch = A.shape[:-2]

    def part(t, at):
        return None if t is None else t.expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:])[at]

    count = A.reshape(-1, *A.shape[-2:]).shape[0]
    found = [lobpcg(part(A, i), k, part(B, i), part(X, i), n, part(iK, i), niter, tol, largest) for i in range(count)]
    values, vectors = (shapes.stack(parts) for parts in zip(*found))
    return values.reshape(*batch, k), vectors.reshape(*batch, *vectors.shape[-2:])


def _lobpcg(A, B, X, iK, niter, tol, largest):
    values, X = _best(A, B, X, X.shape[1], largest)
    P = None
    for _ in range(niter):
        BX = X if B is None else B @ X
        R = A @ X - BX * values
        if bool((R.detach().norm(dim=0) <= tol * (values.detach().abs() + 1) * X.detach().norm(dim=0)).all()):
            break
        W = R if iK is None else iK @ R
        basis = [X, W] if P is None else [X, W, P]
        values, new = _best(
            A, B, shapes.cat([c / c.norm(dim=0, keepdim=True).clamp(min=1e-300) for c in basis], 1), X.shape[1], largest
        )
        P = new - X @ (linalg.adjoint_of(BX) @ new)
        X = new
    return values, X


def _best(A, B, S, count, largest):
    """Rayleigh and Ritz: the best `count` pairs in the span of the columns of S, which may be dependent."""
    gram = linalg.adjoint_of(S) @ (S if B is None else B @ S)
    weights, turned = linalg.eigh(gram)
    kept = weights > weights[-1] * dtypes.finfo(weights.dtype).eps * S.shape[1]
    turned = S @ (turned[:, kept] / weights[kept].sqrt())
    values, vectors = linalg.eigh(linalg.adjoint_of(turned) @ (A @ turned))
    if largest:
        values, vectors = values.flip(0), vectors.flip(1)
    return values[:count], turned @ vectors[:, :count]


# -- what torch removed


def _removed(name, instead):
    def function(*args, **kw):
        raise RuntimeError(
            f"This function was deprecated since version 1.9 and is now removed. `torch.{name}` is deprecated in "
            f"favor of `torch.linalg.{instead}`."
        )

    function.__name__ = function.__qualname__ = name
    return function


REMOVED = {
    name: _removed(name, instead)
    for name, instead in (
        ("solve", "solve"),
        ("lstsq", "lstsq"),
        ("eig", "eig"),
        ("symeig", "eigh"),
        ("matrix_rank", "matrix_rank"),
    )
}
FUNCTIONS = {**{f.__name__: f for f in (geqrf, ormqr, lu, svd_lowrank, pca_lowrank, lobpcg)}, **REMOVED}
METHODS = {name: FUNCTIONS[name] for name in ("geqrf", "ormqr", "lu", "solve", "lstsq", "eig", "symeig")}
