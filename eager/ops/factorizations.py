"""Linear algebra of matrices (*, n, m): factorisations and solutions by numpy's LAPACK, with gradients as formulas.

Types: float32, float64 and complex ones; halves are refused as PyTorch refuses them. Gradients use the adjoint without
conjugation where a formula is holomorphic (see op/gradient.py) and say `explicit` where the record is not.
"""

import itertools

import numpy as np

from ...runtime import lapack, small_factors
from .. import dtypes
from ..op.gradient import explicit
from ..op.meta import Spec, broadcast_shapes
from ..op.op import composite, extern, optional, Out, size, static
from .arithmetic import add, cast, div, eq, gt, maximum, mul, neg, sub, where
from .complex_numbers import conj, real
from .checks import LinAlgError
from .creation import eye, full, tril, triu
from .indexing import scatter_add
from .products import matmul
from .rearrange import cat
from .reduce import amax, sum as sum_dims
from .views import diagonal, expand, mT, slice_dim, unsqueeze


def _run(function, *args, text="linalg", **kw):
    try:
        return function(*args, **kw)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{text}: {error}") from None


def _h(x):
    """The conjugate transpose."""
    return conj(mT(x)) if x.dtype.is_complex else mT(x)


def _like(x, *shape, dtype=None):
    return Spec(tuple(shape), dtype or x.dtype)


def _batch(x):
    return tuple(x.shape[:-2])


def _diagonal_matrix(values):
    """(*, n) -> (*, n, n)"""
    n = values.shape[-1]
    return mul(unsqueeze(values, len(values.shape)), eye(n, n, values.dtype, values.device))


# -- inverse, determinant, solutions


@extern(meta=lambda x: x.shape, refuses=True)
def inv(x):
    return _run(
        np.linalg.inv,
        x,
        text="linalg.inv: The diagonal element is zero, the inversion could not be completed "
        "because the input matrix is singular",
    )


@inv.grad("x")
def _(g, out):
    back = mT(out)
    return neg(matmul(matmul(back, g), back))


@extern(meta=lambda x: _batch(x))
def det(x):
    found = np.asarray(np.linalg.det(x), x.dtype)
    if not found.all():  # numpy takes a pivot of zero for the end
        found = np.where((found == 0) & ~np.isfinite(x).all((-2, -1)), found.dtype.type(np.nan), found)
    return found


det.native(small_factors.determinants)


@det.grad("x")
def _(g, x):
    """det * inverse.T, by cofactors where the matrix is singular to the bit."""
    return mul(unsqueeze(unsqueeze(g, len(g.shape)), len(g.shape) + 1), adjugate(x))


@extern(meta=lambda x: x.shape)
def adjugate(x):
    """The matrix of cofactors, d det / dx: by the singular values, so that it exists for singular matrices."""
    u, s, vh = np.linalg.svd(x)
    n = x.shape[-1]
    others = np.stack([np.prod(np.delete(s, k, -1), -1) for k in range(n)], -1) if n > 1 else np.ones_like(s)
    turn = np.linalg.det(u) * np.linalg.det(vh)
    return (
        np.conj(turn[..., None, None].conj() * ((u * others[..., None, :]) @ vh)).astype(x.dtype)
        if x.dtype.kind == "c"
        else (turn[..., None, None] * ((u * others[..., None, :]) @ vh)).astype(x.dtype)
    )


@adjugate.grad("x")
def _(g, x):
    return adjugate_backward(g, x)


@composite(refuses=True)
def adjugate_backward(g, x):
    """For C = det(x) * inverse.T: the derivative of the product."""
    back = mT(inv(x))
    out = mul(unsqueeze(unsqueeze(det(x), len(x.shape) - 2), len(x.shape) - 1), back)
    along = sum_dims(mul(g, back), (len(x.shape) - 2, len(x.shape) - 1), True)
    return add(neg(matmul(matmul(out, mT(g)), back)), mul(along, out))


@adjugate_backward.native
def _(g, x):
    """By the singular values, so that it exists for singular matrices: in their basis a cofactor's slope is the product of all
    singular values but two."""
    if x.dtype.kind == "c" or not x.size:
        return NotImplemented
    u, s, vh = np.linalg.svd(x)
    n = x.shape[-1]
    others = np.zeros(x.shape, x.dtype)
    for i, k in itertools.permutations(range(n), 2):
        others[..., i, k] = np.prod(np.delete(s, (i, k), -1), -1)
    turned = np.swapaxes(u, -1, -2) @ g @ np.swapaxes(vh, -1, -2)
    slope = -np.swapaxes(others * turned, -1, -2)
    places = np.arange(n)
    slope[..., places, places] = (others @ turned[..., places, places][..., None])[..., 0]
    turn = np.linalg.det(u) * np.linalg.det(vh)
    return (turn[..., None, None] * (u @ slope @ vh)).astype(x.dtype)


@extern(
    outputs=(Out("sign", differentiable=False), "logabsdet"),
    meta=lambda x: (_like(x, *_batch(x)), _like(x, *_batch(x), dtype=x.dtype.to_real())),
)
def slogdet(x):
    sign, size = np.linalg.slogdet(x)
    if not np.isfinite(size).all():  # the logarithm of NaN, and its sign
        undefined = (np.isnan(size) | (sign == 0)) & ~np.isfinite(x).all((-2, -1))
        sign, size = np.where(undefined, 0, sign), np.where(undefined, np.nan, size)
    return np.asarray(sign, x.dtype), np.asarray(size, x.real.dtype)


@slogdet.grad("x")
@explicit
def _(g_logabsdet, x):
    return mul(unsqueeze(unsqueeze(g_logabsdet, len(g_logabsdet.shape)), len(g_logabsdet.shape) + 1), _h(inv_ex(x)[0]))


@extern(meta=lambda a, b: (*broadcast_shapes((_batch(a), _batch(b)), "solve"), *b.shape[-2:]), refuses=True)
def solve(a, b):
    """The X of a @ X = b."""
    return _run(np.linalg.solve, a, b, text="torch.linalg.solve: The solver failed because the input matrix is singular").astype(
        b.dtype, copy=False
    )


@solve.grad("b")
def _(g, a):
    return solve(mT(a), g)


@solve.grad("a")
def _(g, a, out):
    return neg(matmul(solve(mT(a), g), mT(out)))


def _zero_pivots(lu):
    """Per factorised matrix the number of its first pivot that is zero, counted from 1; 0 where there is none."""
    zero = np.diagonal(lu, 0, -2, -1) == 0
    if not zero.shape[-1]:
        return np.zeros(zero.shape[:-1], np.int32)
    return np.where(zero.any(-1), zero.argmax(-1) + 1, 0).astype(np.int32)


def _divided(a, b):
    """(a solution by elimination, where pivots that are zero divide as any number does; the numbers of these pivots)"""
    with np.errstate(all="ignore"):
        lu, pivots = lu_factor.fn(a)
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        order = np.broadcast_to(row_order.fn(pivots, a.shape[-1]), (*batch, a.shape[-1]))
        rows = np.take_along_axis(np.broadcast_to(b, (*batch, *b.shape[-2:])), order[..., None], -2)
        return solve_triangular.fn(lu, solve_triangular.fn(lu, rows, False, True), True, False), _zero_pivots(lu)


_INFO = Out("info", differentiable=False)


@extern(
    outputs=("x", _INFO),
    meta=lambda a, b: (
        _like(b, *broadcast_shapes((_batch(a), _batch(b)), "solve_ex"), *b.shape[-2:]),
        _like(a, *_batch(a), dtype=dtypes.int32),
    ),
)
def solve_ex(a, b):
    """As `solve`; of a singular matrix what elimination gives (infinite or NaN), and the number of its pivot that is zero."""
    try:
        return np.linalg.solve(a, b).astype(b.dtype, copy=False), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        return _divided(a, b)


@solve_ex.grad("b")
def _(g_x, a):
    return solve_ex(mT(a), g_x)[0]


@solve_ex.grad("a")
def _(g_x, a, x):
    return neg(matmul(solve_ex(mT(a), g_x)[0], mT(x)))


@extern(outputs=("inverse", _INFO), meta=lambda x: (_like(x, *x.shape), _like(x, *_batch(x), dtype=dtypes.int32)))
def inv_ex(x):
    """As `inv`; of a singular matrix what elimination gives, and the number of its pivot that is zero."""
    try:
        return np.linalg.inv(x), np.zeros(x.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        return _divided(x, np.eye(x.shape[-1], dtype=x.dtype))


@inv_ex.grad("x")
def _(g_inverse, inverse):
    back = mT(inverse)
    return neg(matmul(matmul(back, g_inverse), back))


@extern(meta=lambda a, b, upper, unit: _like(b, *broadcast_shapes((_batch(a), _batch(b)), "solve"), *b.shape[-2:]))
def solve_triangular(a, b, upper: static, unit: static):
    """The X of a @ X = b, where only one triangle of a counts (`unit`: its diagonal counts as ones), by substitution."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])))
    n = a.shape[-1]
    for k in range(n - 1, -1, -1) if upper else range(n):
        known = slice(k + 1, n) if upper else slice(0, k)
        out[..., k, :] -= np.matmul(a[..., k : k + 1, known], out[..., known, :])[..., 0, :]
        if not unit:
            out[..., k, :] /= a[..., k, k, None]
    return out


@solve_triangular.grad("b")
def _(g, a, upper, unit):
    return solve_triangular(mT(a), g, not upper, unit)


@solve_triangular.grad("a")
def _(g, a, out, upper, unit):
    full = neg(matmul(solve_triangular(mT(a), g, not upper, unit), mT(out)))
    return triu(full, 1 if unit else 0) if upper else tril(full, -1 if unit else 0)


# -- Cholesky, QR, LU


def _lower_factor(x):
    """LAPACKs differ in what they say of a pivot that is NaN: it is not positive."""
    low = np.linalg.cholesky(x)
    if np.isnan(np.diagonal(low, axis1=-2, axis2=-1)).any():
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    return low


@extern(meta=lambda x: x.shape, refuses=True)
def cholesky(x):
    """The lower triangular factor of x = L @ L^H."""
    return _run(
        _lower_factor,
        x,
        text="linalg.cholesky: The factorization could not be completed because the input is not positive-definite",
    )


cholesky.native(small_factors.cholesky)


@composite
def cholesky_solve(b, factor):
    """The X of factor @ factor^H @ X = b."""
    return solve_triangular(_h(factor), solve_triangular(factor, b, False, False), True, False)


@cholesky_solve.grad("b")
@explicit
def _(g, factor):
    return cholesky_solve(g, factor)


@cholesky_solve.grad("factor")
@explicit
def _(g, factor, out):
    """Of the whole factor, as in inverse(factor @ factor^H) @ b; only the lower triangle of it was read."""
    one = matmul(cholesky_solve(g, factor), _h(out))
    return neg(matmul(add(one, _h(one)), factor))


def _halved(x):
    """The lower triangle with half the diagonal."""
    return sub(tril(x, 0), mul(_diagonal_matrix(diagonal(x, 0, len(x.shape) - 2, len(x.shape) - 1)), 0.5))


@cholesky.grad("x")
@explicit
def _(g, out):
    return _cholesky_gradient(g, out)


def _cholesky_gradient(g, out):
    """inverse(L)^H @ half(L^H g) @ inverse(L), made Hermitian"""
    middle = _halved(matmul(_h(out), g))
    left = solve_triangular(_h(out), middle, True, False)
    whole = _h(solve_triangular(_h(out), _h(left), True, False))
    return mul(add(whole, _h(whole)), 0.5)


@extern(outputs=("low", _INFO), meta=lambda x: (_like(x, *x.shape), _like(x, *_batch(x), dtype=dtypes.int32)))
def cholesky_ex(x):
    """As `cholesky`; of a matrix that is not positive-definite the columns that there are, and the order of the leading
    minor that is not."""
    try:
        return _lower_factor(x), np.zeros(x.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        found = [_columns_of_cholesky(one) for one in x.reshape(-1, *x.shape[-2:])]
        return (
            np.stack([low for low, _ in found]).reshape(x.shape),
            np.array([order for _, order in found], np.int32).reshape(x.shape[:-2]),
        )


def _columns_of_cholesky(x):
    low = np.tril(x)
    for k in range(len(low)):
        left = low[k, k].real - np.vdot(low[k, :k], low[k, :k]).real
        if not left > 0:
            low[k, k] = left
            return low, k + 1
        low[k, k] = np.sqrt(left)
        low[k + 1 :, k] = (low[k + 1 :, k] - low[k + 1 :, :k] @ low[k, :k].conj()) / low[k, k]
    return low, 0


@cholesky_ex.grad("x")
@explicit
def _(g_low, low):
    return _cholesky_gradient(g_low, low)


def _qr_meta(x, mode):
    m, n = x.shape[-2:]
    k = min(m, n)
    q = (*_batch(x), m, m if mode == "complete" else k) if mode != "r" else (0,)
    return _like(x, *q), _like(x, *_batch(x), m if mode == "complete" else k, n)


_FEW = 32  # rows and columns up to which factors are computed in doubles


@extern(outputs=("q", "r"), meta=_qr_meta)
def qr(x, mode: static):
    if mode == "r":
        return np.zeros(0, x.dtype), np.linalg.qr(x, "r")
    if mode == "reduced" and x.dtype == np.float32 and x.ndim == 2 and min(x.shape) > _FEW:
        found = lapack.qr(x)
        if found is not None:
            return found
    q, r = np.linalg.qr(x, mode)
    return q, r


@qr.grad("x")
@explicit
def _(g_q, g_r, q, r, mode):
    """For tall (or square) x with full rank: (gQ + Q sym(M)) R^-H with M = R gR^H - gQ^H Q."""
    if mode != "reduced" or q.shape[-2] < r.shape[-1]:
        raise RuntimeError("The derivative of linalg.qr depends on mode 'reduced' and on at least as many rows as columns")
    middle = sub(matmul(r, _h(g_r)) if g_r is not None else mul(r, 0.0), matmul(_h(g_q), q) if g_q is not None else 0.0)
    low = tril(middle, -1)
    diag = _diagonal_matrix(diagonal(middle, 0, len(middle.shape) - 2, len(middle.shape) - 1))
    symmetric = add(add(low, _h(low)), diag)
    whole = matmul(q, symmetric)
    whole = whole if g_q is None else add(g_q, whole)
    return _h(solve_triangular(r, _h(whole), True, False))


@extern(
    outputs=("lu", Out("pivots", differentiable=False)),
    meta=lambda x: (_like(x, *x.shape), _like(x, *_batch(x), min(x.shape[-2:]), dtype=dtypes.int32)),
)
def lu_factor(x):
    """Gaussian elimination with row exchanges, in place of L (unit diagonal) and U; pivots count from 1."""
    lu = x.reshape((-1,) + x.shape[-2:]).copy()
    m, n = x.shape[-2:]
    pivots = np.zeros((len(lu), min(m, n)), np.int32)
    rows = np.arange(len(lu))
    for k in range(min(m, n)):
        column = lu[:, k:, k]
        at = k + np.argmax(np.abs(column.real) + np.abs(column.imag), 1)  # (as LAPACK measures)
        pivots[:, k] = at + 1
        lu[rows, at], lu[:, k] = lu[:, k].copy(), lu[rows, at].copy()
        pivot = lu[:, k, k, None]
        lu[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)
        lu[:, k + 1 :, k + 1 :] -= lu[:, k + 1 :, k, None] * lu[:, k, None, k + 1 :]
    return lu.reshape(x.shape), pivots.reshape(x.shape[:-2] + pivots.shape[1:])


@extern(meta=lambda pivots, rows: Spec((*pivots.shape[:-1], rows), dtypes.int64))
def row_order(pivots, rows: size):
    """Which row stands where after the exchanges."""
    flat = pivots.reshape(-1, pivots.shape[-1])
    order = np.tile(np.arange(rows), (len(flat), 1))
    every = np.arange(len(flat))
    for k in range(flat.shape[1]):
        at = flat[:, k] - 1
        order[every, at], order[:, k] = order[:, k].copy(), order[every, at].copy()
    return order.reshape(*pivots.shape[:-1], rows)


@lu_factor.grad("x")
@explicit
def _(g, lu, pivots):
    """With X1 the first k = min(m, n) rows and columns of X, X2 the others:
    P L1^-H [(low(L1^H gL1 - gU2 U2^H) + up(gU1 U1^H - L2^H gL2)) U1^-H, gU2], and gL2 U1^-H below."""
    m, n = lu.shape[-2:]
    k, rank = min(m, n), len(lu.shape)

    def part(x, rows, cols):
        x = slice_dim(x, rank - 2, rows.start, 1, rows.stop - rows.start)
        return slice_dim(x, rank - 1, cols.start, 1, cols.stop - cols.start)

    first, below, beside = slice(0, k), slice(k, m), slice(k, n)
    packed, slope = part(lu, first, first), part(g, first, first)
    low = add(tril(packed, -1), eye(k, k, lu.dtype, lu.device))
    upper = triu(packed, 0)
    inner, outer = matmul(_h(low), tril(slope, -1)), matmul(triu(slope, 0), _h(upper))
    if n > k:
        inner = sub(inner, matmul(part(g, first, beside), _h(part(lu, first, beside))))
    if m > k:
        outer = sub(outer, matmul(_h(part(lu, below, first)), part(g, below, first)))

    def over_upper(x):
        return _h(solve_triangular(packed, _h(x), True, False))

    x = over_upper(add(tril(inner, -1), triu(outer, 0)))
    x = cat((x, part(g, first, beside)), rank - 1) if n > k else x
    x = solve_triangular(_h(packed), x, True, True)
    x = cat((x, over_upper(part(g, below, first))), rank - 2) if m > k else x
    places = expand(unsqueeze(row_order(pivots, m), rank - 1), tuple(lu.shape))
    return scatter_add(mul(x, 0.0), rank - 2, places, x)


# -- eigenvalues and singular values


@extern(
    refuses=True,
    outputs=("values", "vectors"),
    meta=lambda x: (_like(x, *x.shape[:-1], dtype=x.dtype.to_real()), _like(x, *x.shape)),
)
def eigh(x):
    """Of a Hermitian matrix (its lower triangle counts): eigenvalues in ascending order, eigenvectors as columns."""
    values, vectors = _run(np.linalg.eigh, x)
    return values, vectors


@eigh.grad("x")
@explicit
def _(g_values, g_vectors, values, vectors):
    """V (diag(gL) + (V^H gV) / (l_j - l_i)) V^H, its Hermitian part: x counts as Hermitian."""
    inner = None if g_values is None else _diagonal_matrix(g_values)
    if inner is not None and vectors.dtype.is_complex:
        inner = cast(inner, vectors.dtype)
    if g_vectors is not None:
        gap = sub(unsqueeze(values, len(values.shape) - 1), unsqueeze(values, len(values.shape)))
        same = eq(gap, 0)
        across = where(same, 0.0, div(matmul(_h(vectors), g_vectors), where(same, 1.0, gap)))
        inner = across if inner is None else add(inner, across)
    whole = matmul(matmul(vectors, inner), _h(vectors))
    return mul(add(whole, _h(whole)), 0.5)


def _svd_meta(x, full_matrices):
    m, n = x.shape[-2:]
    k = min(m, n)
    u, vh = (m, n) if full_matrices else (k, k)
    return (_like(x, *_batch(x), m, u), _like(x, *_batch(x), k, dtype=x.dtype.to_real()), _like(x, *_batch(x), vh, n))


@extern(refuses=True, outputs=("u", "s", "vh"), meta=_svd_meta)
def svd(x, full_matrices: static):
    return _run(np.linalg.svd, x, full_matrices=full_matrices)


@svd.grad("x")
@explicit
def _(g_u, g_s, g_vh, u, s, vh, full_matrices):
    """U (skew(U^H gU) / E S + diag(gS) + S skew(V^H gV) / E) V^H, plus what lies outside the spaces of U and V;
    E_ij = s_j^2 - s_i^2."""
    k, rank = s.shape[-1], len(s.shape)
    if full_matrices:  # vectors beyond the first min(m, n) are any that complete a base: they have no derivative
        u, vh = slice_dim(u, rank, 0, 1, k), slice_dim(vh, rank - 1, 0, 1, k)
        g_u = None if g_u is None else slice_dim(g_u, rank, 0, 1, k)
        g_vh = None if g_vh is None else slice_dim(g_vh, rank - 1, 0, 1, k)
    row, column = unsqueeze(s, rank - 1), unsqueeze(s, rank)
    gap = sub(mul(row, row), mul(column, column))
    same = eq(gap, 0)
    inner = _diagonal_matrix(g_s) if g_s is not None else mul(_diagonal_matrix(s), 0.0)
    inner = cast(inner, u.dtype) if u.dtype.is_complex else inner

    def skew(x):
        return where(same, 0.0, div(sub(x, _h(x)), where(same, 1.0, gap)))

    if g_u is not None:
        inner = add(inner, mul(skew(matmul(_h(u), g_u)), row))
    if g_vh is not None:
        inner = add(inner, mul(column, skew(matmul(vh, _h(g_vh)))))
    out = matmul(matmul(u, inner), vh)
    if g_u is not None and u.shape[-2] > k:
        scaled = div(g_u, row)
        out = add(out, matmul(sub(scaled, matmul(u, matmul(_h(u), scaled))), vh))
    if g_vh is not None and vh.shape[-1] > k:
        scaled = div(g_vh, column)
        out = add(out, matmul(u, sub(scaled, matmul(matmul(scaled, _h(vh)), vh))))
    return out


@extern(
    refuses=True,
    outputs=("values", "vectors"),
    meta=lambda x: (_like(x, *x.shape[:-1], dtype=x.dtype.to_complex()), _like(x, *x.shape, dtype=x.dtype.to_complex())),
)
def eig(x):
    """Of any square matrix, complex; eigenvectors of length 1."""
    values, vectors = _run(np.linalg.eig, x)
    kind = np.complex64 if x.dtype in (np.float32, np.complex64) else np.complex128
    return values.astype(kind), vectors.astype(kind)


@eig.grad("x")
@explicit
def _(g_values, g_vectors, values, vectors):
    """V^-H (diag(gL) + (V^H gV - V^H V diag(Re(V^H gV))) / conj(l_j - l_i)) V^H"""
    inner = None if g_values is None else _diagonal_matrix(g_values)
    if g_vectors is not None:
        across = matmul(_h(vectors), g_vectors)
        own = cast(real(diagonal(across, 0, len(across.shape) - 2, len(across.shape) - 1)), vectors.dtype)
        across = sub(across, matmul(matmul(_h(vectors), vectors), _diagonal_matrix(own)))
        gap = conj(sub(unsqueeze(values, len(values.shape) - 1), unsqueeze(values, len(values.shape))))
        same = eq(gap, 0)
        across = where(same, 0.0, div(across, where(same, 1.0, gap)))
        inner = across if inner is None else add(inner, across)
    return solve(_h(vectors), matmul(inner, _h(vectors)))


@extern(meta=lambda x: x.shape)
def matrix_exp(x):
    """By scaling, a Taylor polynomial of degree 18, and squaring."""
    v = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    size = np.abs(v).sum(-2).max(-1) if v.size else np.zeros(v.shape[:-2])
    steps = int(max(0, np.ceil(np.log2(max(float(np.max(size, initial=0)), 1e-9)))) + 1)
    v = v / 2.0**steps
    out = term = np.broadcast_to(np.eye(x.shape[-1], dtype=v.dtype), v.shape)
    for k in range(1, 19):
        term = term @ v / k
        out = out + term
    for _ in range(steps):
        out = out @ out
    return out.astype(x.dtype)


@matrix_exp.grad("x")
def _(g, x):
    """The upper right block of exp([[x.T, g], [0, x.T]])."""
    n, rank = x.shape[-1], len(x.shape)
    back = mT(x)
    top = cat((back, g), rank - 1)
    bottom = cat((mul(back, 0.0), back), rank - 1)
    whole = matrix_exp(cat((top, bottom), rank - 2))
    return slice_dim(slice_dim(whole, rank - 2, 0, 1, n), rank - 1, n, 1, n)


@composite(refuses=True)
def pseudo_inverse(x, relative, absolute: optional):
    """The Moore-Penrose inverse (*, m, n) of x (*, n, m): singular values of at most `relative` (*) of the largest, or of at most
    `absolute` (*), count as 0."""
    u, s, vh = svd(x, False)
    rank = len(s.shape)
    least = mul(amax(s, (rank - 1,), True), unsqueeze(cast(relative, s.dtype), len(relative.shape)))
    least = least if absolute is None else maximum(least, unsqueeze(cast(absolute, s.dtype), len(absolute.shape)))
    kept = gt(s, least)
    inverse = where(kept, div(1.0, where(kept, s, 1.0)), 0.0)
    found = matmul(mul(_h(vh), unsqueeze(inverse, rank - 1)), _h(u))
    return found if found.dtype is x.dtype else cast(found, x.dtype)


@pseudo_inverse.grad("x")
@explicit
def _(g, x, out):
    """Of matrices whose rank stays as it is; in products alone, since equal singular values have vectors without derivatives.
    Source: Golub and Pereyra, The differentiation of pseudo-inverses, 1973, equation 4.12."""
    p, ph, gh = out, _h(out), _h(g)
    if x.shape[-2] <= x.shape[-1]:
        k = matmul(gh, p)
        kp = matmul(k, ph)
        rest = matmul(matmul(ph, p), sub(gh, matmul(k, x)))
        return add(sub(neg(_h(matmul(p, k))), matmul(matmul(x, p), kp)), add(kp, rest))
    k = matmul(p, gh)
    pk = matmul(ph, k)
    rest = matmul(matmul(sub(gh, matmul(x, k)), p), ph)
    return add(sub(neg(_h(matmul(k, p))), matmul(matmul(pk, p), x)), add(pk, rest))


def _tiny(*sizes):
    return full(sizes, 1e-10, dtypes.float64, None)


def _positive(make, *shape):
    x = make(*shape)
    return add(matmul(x, mT(x)), mul(eye(shape[-1], shape[-1], dtypes.float32, x.device), 2.0))


def _regular(make, *shape):
    """Not symmetric, so that a transposed formula shows; a skew part leaves the matrix regular."""
    x = make(*shape)
    return add(_positive(make, *shape), sub(x, mT(x)))


for _op in (inv, det, adjugate, slogdet, matrix_exp, inv_ex):
    _op.samples(lambda make: [(_regular(make, 3, 3),), (_regular(make, 2, 2, 2),)])
adjugate_backward.samples(lambda make: [(make(3, 3), _regular(make, 3, 3)), (make(2, 2, 2), _regular(make, 2, 2, 2))])
for _op in (solve, solve_ex):
    _op.samples(lambda make: [(_regular(make, 3, 3), make(3, 2)), (_regular(make, 2, 3, 3), make(2, 3, 1))])
solve_triangular.samples(
    lambda make: [(_positive(make, 3, 3), make(3, 2), True, False), (_positive(make, 2, 3, 3), make(2, 3, 2), False, True)]
)
lu_factor.samples(lambda make: [(_regular(make, 3, 3),), (make(4, 2),), (make(2, 2, 3),)])
row_order.samples(lambda make: [(make.ints(2, 3) + 1, 3), (make.ints(2, 2, 2) + 1, 4)])
qr.samples(lambda make: [(make(4, 3), "reduced"), (make(2, 3, 3), "reduced")])
pseudo_inverse.samples(lambda make: [(make(4, 3), _tiny(), None), (make(2, 2, 3), _tiny(2), _tiny())])
