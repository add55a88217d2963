"""Sparse tensors by coordinates: a list of places and of values there, of which the dense tensor is made (or a product with one).

No Tensor: what it cannot do has no method and says so. Gradients go to the values.
"""

import math

from . import api
from .dtypes import bool as truth, int64
from .memory_formats import sparse_coo
from .sizes import Size
from .tensor import Tensor


def sparse_coo_tensor(
    indices,
    values=None,
    size=None,
    *,
    dtype=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
    is_coalesced=None,
):
    """Values (nnz, ...) at places `indices` (sparse dims, nnz); values at one place add up. `sparse_coo_tensor(size)` is empty.
    Places outside of `size` raise a RuntimeError."""
    if requires_grad:
        raise RuntimeError("sparse_coo_tensor(requires_grad=True) is not available: give values that require a gradient")
    if values is None:
        size = indices if size is None else size
        indices, values = api.zeros(len(size), 0, dtype=int64), api.zeros(0)
    indices = api.as_tensor(indices, device=device).to(int64)
    values = api.as_tensor(values, dtype=dtype, device=device)
    if indices.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {tuple(indices.shape)}")
    if not values.dim() or indices.shape[1] != values.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, nnz from "
            f"values: {values.shape[0] if values.dim() else 'a number'}"
        )
    ends = (indices.amax(1) + 1).tolist() if indices.shape[1] else [0] * indices.shape[0]
    shape = Size(ends + list(values.shape[1:])) if size is None else Size(size)
    _check(indices, ends, values, shape)
    return SparseTensor(indices, values, shape, bool(is_coalesced) or indices.shape[1] < 2)


def _check(indices, ends, values, shape):
    sparse, dense = indices.shape[0], values.dim() - 1
    if len(shape) != sparse + dense:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = "
            f"{sparse}, dense_dim = {dense}"
        )
    if tuple(shape[sparse:]) != tuple(values.shape[1:]):
        raise RuntimeError(f"values has incorrect size, expected {list(shape[sparse:])} behind nnz, got {list(values.shape[1:])}")
    for dim, end in enumerate(ends):
        if end > shape[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {shape[dim]} but found index {end - 1}"
            )
        if indices.shape[1] and indices[dim].min().item() < 0:
            raise RuntimeError(f"found negative index {indices[dim].min().item()} for dim {dim}")


class SparseTensor:
    """What `sparse_coo_tensor` gives."""

    is_sparse, layout = True, sparse_coo

    def __init__(self, indices, values, shape, coalesced):
        self._places, self._numbers, self.shape, self._coalesced = indices, values, shape, coalesced

    def __getattr__(self, name):
        raise AttributeError(f"sparse tensors have no {name!r} in flambeau: call to_dense() first")

    def __repr__(self):
        return (
            f"tensor(indices={self._places},\n       values={self._numbers},\n       size={tuple(self.shape)}, "
            f"nnz={self._nnz()}, layout={self.layout})"
        )

    dtype = property(lambda self: self._numbers.dtype)
    device = property(lambda self: self._numbers.device)
    requires_grad = property(lambda self: self._numbers.requires_grad)
    ndim = property(lambda self: len(self.shape))

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return len(self.shape)

    def numel(self):
        return math.prod(self.shape)

    def sparse_dim(self):
        return self._places.shape[0]

    def dense_dim(self):
        return self._numbers.dim() - 1

    def _nnz(self):
        return self._places.shape[1]

    def _indices(self):
        return self._places

    def _values(self):
        return self._numbers

    def is_coalesced(self):
        return self._coalesced

    def indices(self):
        self._settled("indices")
        return self._places

    def values(self):
        self._settled("values")
        return self._numbers

    def _settled(self, what):
        if not self._coalesced:
            raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")

    def coalesce(self):
        """The same tensor with each place once, in order."""
        if self._coalesced:
            return self
        flat = api.zeros(self._nnz(), dtype=int64, device=self.device)
        for size, places in zip(self.shape, self._places):
            flat = flat * size + places
        places, which = api.unique(flat, return_inverse=True)
        values = _added((len(places), *self._numbers.shape[1:]), (which,), self._numbers)
        return SparseTensor(api.stack(api.unravel_index(places, self.shape[: self.sparse_dim()])), values, self.shape, True)

    def to_dense(self, *, masked_grad=None):
        return _added(self.shape, tuple(self._places), self._numbers)

    def t(self):
        if self.sparse_dim() > 2 or self.dense_dim():
            raise RuntimeError("t() expects a tensor with <= 2 sparse and 0 dense dimensions")
        return SparseTensor(self._places.flip(0), self._numbers, Size(reversed(self.shape)), self._nnz() < 2)

    def __matmul__(self, other):
        return self.to_dense() @ other if isinstance(other, Tensor) else NotImplemented


def _added(shape, places, values):
    """Zeros of a shape, with values added at places; truth values by `or`."""
    if values.dtype is truth:
        return _added(shape, places, values.to(int64)).bool()
    if not places:
        return values.sum(0, dtype=values.dtype)
    return api.zeros(shape, dtype=values.dtype, device=values.device).index_put(places, values, accumulate=True)
