"""torch.sparse: products with tensors by coordinates; other forms of sparse tensors do not exist here."""

from .. import sparse as coordinates
from ..memory_formats import sparse_coo
from ..tensor import Tensor
from . import missing

_ADVICE = "there are no sparse tensors of this kind; torch.sparse_coo_tensor makes one by coordinates"


def mm(mat1, mat2, reduce="sum"):
    """The product of a matrix by coordinates and a dense one."""
    if not isinstance(mat1, coordinates.SparseTensor) or not isinstance(mat2, Tensor):
        raise missing.error("torch.sparse.mm of these arguments", "the first is a sparse_coo_tensor, the second a tensor")
    if reduce != "sum":
        raise missing.error(f"torch.sparse.mm(reduce={reduce!r})", "products are summed")
    return mat1 @ mat2


def addmm(mat, mat1, mat2, beta=1.0, alpha=1.0):
    """`beta * mat + alpha * (mat1 @ mat2)`, `mat1` by coordinates."""
    return beta * mat + alpha * mm(mat1, mat2)


def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The entries that are not zero, with their places; `sparse_dim`: how many leading dims places have (all of them)."""
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
