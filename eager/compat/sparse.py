"""torch.sparse: products and sums of tensors by coordinates and by compressed rows or columns; other forms do not exist here."""

from .. import api, dtypes, sparse as coordinates
from ..memory_formats import sparse_coo, sparse_csc, sparse_csr
from ..tensor import Tensor
from . import missing

_ADVICE = "there are no sparse tensors of this kind; torch.sparse_coo_tensor makes one by coordinates"


_REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "amax", "amin": "amin", "max": "amax", "min": "amin"}


def mm(mat1, mat2, reduce="sum"):
    """The product of a sparse matrix and a dense one, or of two sparse ones (sparse). `reduce`: what becomes of the products of a
    row: "sum", "mean", "amax", "amin"; 0 where there are none."""
    if not isinstance(mat1, coordinates.SparseBase):
        if isinstance(mat2, coordinates.SparseBase) and isinstance(mat1, Tensor) and reduce == "sum":
            return mat2.__rmatmul__(mat1)
        raise missing.error("torch.sparse.mm of these arguments", "one of them is sparse, the other sparse or a tensor")
    if reduce not in _REDUCTIONS:
        raise ValueError(f"torch.sparse.mm: reduce must be one of {', '.join(_REDUCTIONS)}, but got {reduce!r}")
    if reduce == "sum":
        return mat1 @ mat2
    mat1 = mat1.coalesce()
    rows, columns = mat1._coordinates()
    products = mat1._values().unsqueeze(1) * mat2[columns]
    made = api.zeros(mat1.shape[0], mat2.shape[1], dtype=products.dtype, device=products.device)
    places = rows.unsqueeze(1).expand_as(products)
    return made.scatter_reduce(0, places, products, _REDUCTIONS[reduce], include_self=False)


def addmm(mat, mat1, mat2, beta=1.0, alpha=1.0):
    """`beta * mat + alpha * (mat1 @ mat2)`, `mat1` by coordinates."""
    return coordinates._addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input, dim=None, dtype=None):
    """Of all values, a tensor; or over dims, a sparse tensor (a tensor where no place is left)."""
    return input.sum(dim, dtype)


def _constructor(dtype):
    """The old `torch.sparse.FloatTensor(indices, values, size)`, also `(size)` and `()`."""

    def make(*args, device=None):
        if not args or isinstance(args[0], int):
            return coordinates.sparse_coo_tensor(args or (0,), dtype=dtype, device=device)
        indices, values, *size = args
        return coordinates.sparse_coo_tensor(indices, values, *size, dtype=dtype, device=device)

    make.__name__ = make.__qualname__ = f"{dtype.scalar_type}Tensor"
    return make


globals().update({f"{d.scalar_type}Tensor": _constructor(d) for d in dtypes.LEGACY if not d.is_complex})


def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The entries that are not zero, with their places; `sparse_dim`: how many leading dims places have (all of them)."""
    if layout in (sparse_csr, sparse_csc):
        return to_sparse(self).to_sparse(layout=layout)
    if layout not in (None, sparse_coo) or blocksize is not None or dense_dim is not None:
        raise missing.error(f"torch.Tensor.to_sparse(layout={layout})", _ADVICE)
    sparse_dim = self.dim() if sparse_dim is None else sparse_dim
    if not 0 <= sparse_dim <= self.dim():
        raise RuntimeError(f"dense_to_sparse: sparse_dim argument must be in [0,{self.dim()}] range, but {sparse_dim} is given")
    if not sparse_dim and self.dim():
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    there = self.detach() != 0
    if sparse_dim < self.dim():
        there = there.flatten(sparse_dim).any(-1)
    places = there.nonzero().t()
    values = self[tuple(places)] if sparse_dim else self.reshape(1)[: places.shape[1]]
    return coordinates.sparse_coo_tensor(places, values, self.shape, is_coalesced=True)
