"""torch.linalg: linear algebra of (batches of) matrices. The functions are in spellings/linalg.py."""

# ruff: noqa: F401
from . import overrides
from .frontend import shapes
from .frontend.linalg import (
    LinAlgError,
    cholesky,
    cholesky_ex,
    cond,
    cross,
    det,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    householder_product,
    inv,
    inv_ex,
    lstsq,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    matrix_exp,
    matrix_norm,
    matrix_power,
    matrix_rank,
    multi_dot,
    norm,
    pinv,
    qr,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
    svd,
    svdvals,
    tensorinv,
    tensorsolve,
    vander,
    vecdot,
    vector_norm,
)
from .frontend.products import matmul
from .frontend.ldl import ldl_factor, ldl_factor_ex, ldl_solve


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    return shapes.diagonal(A, offset, dim1, dim2)


overrides.publish(
    globals(), [name for name, f in globals().items() if not name.startswith("_") and callable(f) and not isinstance(f, type)]
)
