"""Sparse tensors by coordinates (COO) and by compressed rows or columns (CSR, CSC): places, and values there, of which the
dense tensor, or a product with one, is made.

No Tensors, though `isinstance` says so as of PyTorch's: what they cannot do has no method and says so. Functions of the library
that take them (`torch.mm`, `torch.matmul`, `torch.sum`, ...) are given to them by `__torch_function__`. Gradients go to the
values. Each is made of ops on places and values, so that a sparse matrix times a dense one costs a row of the dense one per value
(https://pytorch.org/docs/stable/sparse.html).
"""

import math
import operator
from typing import Any

from . import api
from .dtypes import bool as truth, int64
from .memory_formats import sparse_coo, sparse_csc, sparse_csr
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


def sparse_csr_tensor(
    crow_indices,
    col_indices,
    values,
    size=None,
    *,
    dtype=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
):
    """A matrix by rows: `crow_indices` (rows + 1) tell where the columns `col_indices` (nnz) and `values` (nnz) of each begin."""
    return _compressed(SparseCsrTensor, crow_indices, col_indices, values, size, dtype, device, requires_grad)


def sparse_csc_tensor(
    ccol_indices,
    row_indices,
    values,
    size=None,
    *,
    dtype=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
):
    """A matrix by columns: `ccol_indices` (columns + 1) tell where the rows `row_indices` (nnz) and `values` (nnz) of each
    begin."""
    return _compressed(SparseCscTensor, ccol_indices, row_indices, values, size, dtype, device, requires_grad)


def _compressed(kind, starts, others, values, size, dtype, device, requires_grad):
    """Checks what a compressed matrix is made of."""
    name, (first, second) = f"sparse_{kind._short}_tensor", kind._names
    if requires_grad:
        raise RuntimeError(f"{name}(requires_grad=True) is not available: give values that require a gradient")
    starts, others = (api.as_tensor(i, device=device) for i in (starts, others))
    values = api.as_tensor(values, dtype=dtype, device=device)
    if starts.dim() != 1 or others.dim() != 1 or not values.dim():
        raise RuntimeError(
            f"{name}: {first} and {second} must have one dim (there are no batches of such tensors) and values at least one, "
            f"but got {starts.dim()}, {others.dim()} and {values.dim()}"
        )
    places, numbers = starts.tolist(), others.tolist()
    inner = [len(places) - 1, max(numbers, default=-1) + 1]
    inner = inner[:: 1 if kind._axis == 0 else -1]
    shape = Size((*inner, *values.shape[1:])) if size is None else Size(size)
    if len(shape) != 1 + values.dim() or tuple(shape[2:]) != tuple(values.shape[1:]) or len(places) != shape[kind._axis] + 1:
        raise RuntimeError(f"{name}: {first} must have one number more than dim {kind._axis} of {list(shape)}, not {len(places)}")
    if places[0] != 0 or places[-1] != len(numbers) or any(a > b for a, b in zip(places, places[1:])):
        raise RuntimeError(f"{name}: {first} must ascend from 0 to nnz = {len(numbers)}, but got {places}")
    if len(numbers) != values.shape[0]:
        raise RuntimeError(f"{name}: {second} and values must have the same nnz, but got {len(numbers)} and {values.shape[0]}")
    if any(not 0 <= number < shape[1 - kind._axis] for number in numbers):
        raise RuntimeError(f"{name}: {second} must be in [0, {shape[1 - kind._axis]}), but got {numbers}")
    return kind(starts, others, values, shape)


def starts_of(rows, count):
    """Sorted rows (nnz) of a matrix with so many rows -> where each row begins (count + 1)."""
    return api.cat([api.zeros(1, dtype=int64, device=rows.device), api.bincount(rows, minlength=count).cumsum(0)])


def rows_of(starts):
    """`starts_of` undone."""
    return api.repeat_interleave(api.arange(starts.shape[0] - 1, device=starts.device), starts.to(int64).diff())


class SparseBase:
    """What both forms share: they are made of `_coordinates()`, the places of their values."""

    __class__ = property(lambda self: Tensor)  # for isinstance: programs ask it as of PyTorch's
    is_sparse = is_sparse_csr = False
    # to autograd it is a constant: its values are the operands
    _grad_fn = _fl_view = _base = None
    _fl_requires_grad = False
    is_cuda = is_meta = is_quantized = is_nested = is_mkldnn = False
    _kind = "sparse"
    shape: Size
    _numbers: Any

    def parts(self) -> tuple:
        """What its constructor takes."""
        raise NotImplementedError

    def _coordinates(self) -> Any:
        """(sparse dims, nnz), in the order of the values."""
        raise NotImplementedError

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        method = FUNCTIONS.get(name)
        answer = NotImplemented if method is None else method(*args, **(kwargs or {}))
        if answer is NotImplemented:
            which = "sparse tensors" if method is None else "sparse tensor in this place"
            raise TypeError(f"torch.{name}() takes no {which} in flambeau: call to_dense() first")
        return answer

    def __reduce__(self):
        return rebuilt, (self.layout, self.parts())

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self._kind} tensors have no {name!r} in flambeau: call to_dense() first")

    dtype = property(lambda self: self._numbers.dtype)
    device = property(lambda self: self._numbers.device)
    requires_grad = property(lambda self: self._numbers.requires_grad)
    grad_fn = property(lambda self: self._numbers.grad_fn)
    is_leaf = property(lambda self: self._numbers.is_leaf)
    ndim = property(lambda self: len(self.shape))
    mT = property(lambda self: self.transpose(-2, -1))
    T = property(lambda self: self.t())

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return len(self.shape)

    ndimension = dim

    def numel(self):
        return math.prod(self.shape)

    nelement = numel

    def __len__(self):
        return self.shape[0]

    def _nnz(self):
        return self._numbers.shape[0]

    def is_floating_point(self):
        return self._numbers.is_floating_point()

    def is_complex(self):
        return self._numbers.is_complex()

    def requires_grad_(self, requires_grad=True):
        self._numbers.requires_grad_(requires_grad)
        return self

    def to(self, *args, **kwargs):
        return self._with(self._numbers.to(*args, **kwargs))

    def detach(self):
        return self._with(self._numbers.detach())

    def clone(self, *, memory_format=None):
        return self._with(self._numbers.clone())

    def contiguous(self, memory_format=None):
        return self

    def float(self):
        return self._with(self._numbers.float())

    def double(self):
        return self._with(self._numbers.double())

    def half(self):
        return self._with(self._numbers.half())

    def cpu(self):
        return self._with(self._numbers.cpu())

    def type(self, dtype=None):
        if dtype is None:
            return self._numbers.type().replace("torch.", "torch.sparse.")
        return self._with(self._numbers.type(dtype))

    # -- arithmetic on values

    def __neg__(self):
        return self._with(-self._numbers)

    neg = __neg__

    def __abs__(self):
        once = self.coalesce()
        return once._with(once._numbers.abs())

    abs = __abs__

    def __mul__(self, other):
        """By a number; or by a dense tensor of the same shape, of which only what stands at the places counts."""
        if isinstance(other, SparseBase):
            return self * other.to_dense()
        if isinstance(other, Tensor) and other.dim():
            other = other.expand(self.shape)[tuple(self._coordinates())]
        elif not isinstance(other, (int, float, complex, Tensor)):
            return NotImplemented
        return self._with(self._numbers * other)

    __rmul__ = mul = multiply = __mul__

    def __truediv__(self, other):
        if not isinstance(other, (int, float, complex, Tensor)) or isinstance(other, Tensor) and other.dim():
            return NotImplemented  # (zeros of the one divide zeros of the other)
        return self._with(self._numbers / other)

    div = true_divide = __truediv__

    def sum(self, dim=None, dtype=None):
        """Of all values; or over dims, a sparse tensor (dense where none is left)."""
        values = self._numbers if dtype is None else self._numbers.to(dtype)
        if dim is None:
            return values.sum()
        dims = {d % self.dim() for d in ([dim] if isinstance(dim, int) else dim)}
        return self.to_sparse_coo()._with(values)._sum_over(dims)

    def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
        """In another form, by `layout`: by coordinates without one."""
        if sparse_dim is not None or blocksize is not None or dense_dim is not None:
            raise RuntimeError("to_sparse(): of a sparse tensor there is another `layout` alone, with the dims as they are")
        forms = {
            None: self.to_sparse_coo,
            sparse_coo: self.to_sparse_coo,
            sparse_csr: self.to_sparse_csr,
            sparse_csc: self.to_sparse_csc,
        }
        if layout not in forms:
            raise RuntimeError(f"to_sparse(layout={layout}): there are sparse_coo, sparse_csr and sparse_csc")
        return forms[layout]()

    def to_sparse_csr(self):
        return self.to_sparse_coo().to_sparse_csr()

    def to_sparse_csc(self):
        return self.transpose(0, 1).to_sparse_csr().transpose(0, 1)

    # -- products

    def __matmul__(self, other):
        if isinstance(other, SparseBase):
            return (self @ other.to_dense()).to_sparse()
        return _product(self, other) if isinstance(other, Tensor) else NotImplemented

    mm = matmul = bmm = mv = __matmul__

    def __rmatmul__(self, other):
        """A dense matrix times this: the transposed product."""
        if not isinstance(other, Tensor) or isinstance(other, SparseBase):
            return NotImplemented
        if other.dim() == 1:
            return _product(self.mT, other)
        return _product(self.mT, other.mT).mT

    def to_dense(self, dtype=None, *, masked_grad=None):
        dense = _added(self.shape, tuple(self._coordinates()), self._numbers)
        return dense if dtype is None else dense.to(dtype)


class SparseTensor(SparseBase):
    """What `sparse_coo_tensor` gives."""

    is_sparse, layout = True, sparse_coo

    def __init__(self, indices, values, shape, coalesced):
        self._places, self._numbers, self.shape, self._coalesced = indices, values, shape, coalesced

    def __repr__(self):
        return (
            f"tensor(indices={self._places},\n       values={self._numbers},\n       size={tuple(self.shape)}, "
            f"nnz={self._nnz()}, layout={self.layout})"
        )

    def parts(self):
        return self._places, self._numbers, self.shape, self._coalesced

    def _with(self, values):
        return SparseTensor(self._places, values, self.shape, self._coalesced)

    def _coordinates(self):
        return self._places

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

    def _coalesced_(self, coalesced):
        """Says that places are in order, each of them once, or that they need not be; nothing is looked at."""
        self._coalesced = bool(coalesced)
        return self

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

    def to_sparse_coo(self):
        return self

    def to_sparse_csr(self):
        if self.sparse_dim() != 2:
            raise RuntimeError(f"to_sparse_csr() takes matrices, but this has {self.sparse_dim()} sparse dims")
        sorted_ = self.coalesce()
        rows, columns = sorted_._places
        return SparseCsrTensor(starts_of(rows, self.shape[0]), columns, sorted_._numbers, self.shape)

    def t(self):
        if self.sparse_dim() > 2 or self.dense_dim():
            raise RuntimeError("t() expects a tensor with <= 2 sparse and 0 dense dimensions")
        return SparseTensor(self._places.flip(0), self._numbers, Size(reversed(self.shape)), self._nnz() < 2)

    def transpose(self, dim0, dim1):
        dim0, dim1 = dim0 % self.dim(), dim1 % self.dim()
        if max(dim0, dim1) >= self.sparse_dim():
            raise RuntimeError("transpose() exchanges two of the sparse dims, those of the places")
        order = list(range(self.sparse_dim()))
        order[dim0], order[dim1] = dim1, dim0
        shape = [self.shape[k] for k in order] + list(self.shape[self.sparse_dim() :])
        return SparseTensor(self._places[order], self._numbers, Size(shape), self._nnz() < 2 or dim0 == dim1 and self._coalesced)

    def unsqueeze(self, dim):
        dim = dim % (self.dim() + 1)
        if dim > self.sparse_dim():
            raise RuntimeError("unsqueeze() adds a dim to the sparse ones, those of the places")
        zeros = api.zeros(1, self._nnz(), dtype=self._places.dtype, device=self.device)
        places = api.cat([self._places[:dim], zeros, self._places[dim:]])
        return SparseTensor(places, self._numbers, Size((*self.shape[:dim], 1, *self.shape[dim:])), self._coalesced)

    def index_select(self, dim, index):
        """Through the dense tensor."""
        return self.to_dense().index_select(dim, index).to_sparse(self.sparse_dim())

    def _sum_over(self, dims):
        kept = [d for d in range(self.sparse_dim()) if d not in dims]
        inner = [d - self.sparse_dim() + 1 for d in dims if d >= self.sparse_dim()]
        values = self._numbers.sum(inner) if inner else self._numbers
        shape = Size(n for d, n in enumerate(self.shape) if d not in dims)
        if not kept:
            return values.sum(0)
        return SparseTensor(self._places[kept], values, shape, self._nnz() < 2).coalesce()

    def __add__(self, other):
        if not isinstance(other, SparseBase):
            return self.to_dense() + other if isinstance(other, Tensor) else NotImplemented
        other = other.to_sparse_coo()
        if other.shape != self.shape or other.sparse_dim() != self.sparse_dim():
            raise RuntimeError(f"add: sparse tensors of sizes {list(self.shape)} and {list(other.shape)} do not add up")
        places = api.cat([self._places, other._places], 1)
        return SparseTensor(places, api.cat([self._numbers, other._numbers]), self.shape, places.shape[1] < 2)

    __radd__ = add = __add__

    def __sub__(self, other):
        return self + -other

    sub = __sub__

    def __rsub__(self, other):
        return (-self).__add__(other)


class _Compressed(SparseBase):
    """A matrix, row by row or column by column: where each begins, the places along the other dim, and values."""

    _short, _axis, _names = "", 0, ("", "")

    def __init__(self, starts, others, values, shape):
        self._starts, self._others, self._numbers, self.shape = starts, others, values, shape

    def __repr__(self):
        first, second = self._names
        return (
            f"tensor({first}={self._starts},\n       {second}={self._others},\n       values={self._numbers}, "
            f"size={tuple(self.shape)}, nnz={self._nnz()}, layout={self.layout})"
        )

    def parts(self):
        return self._starts, self._others, self._numbers, self.shape

    def _with(self, values):
        return type(self)(self._starts, self._others, values, self.shape)

    def _coordinates(self):
        return api.stack([rows_of(self._starts), self._others.to(int64)][:: 1 if self._axis == 0 else -1])

    def values(self):
        return self._numbers

    _values = values

    def coalesce(self):
        return self

    def to_sparse_coo(self):
        return SparseTensor(self._coordinates(), self._numbers, self.shape, self._axis == 0 or self._nnz() < 2)

    def t(self):
        return self.transpose(0, 1)

    def transpose(self, dim0, dim1):
        """The same numbers: rows read as columns, or columns as rows."""
        if {dim0 % 2, dim1 % 2} != {0, 1}:
            return self
        turned = SparseCscTensor if self._axis == 0 else SparseCsrTensor
        return turned(self._starts, self._others, self._numbers, Size((self.shape[1], self.shape[0], *self.shape[2:])))

    def __add__(self, other):
        if isinstance(other, SparseBase):
            return (self.to_sparse_coo() + other).to_sparse(layout=self.layout)
        return self.to_dense() + other if isinstance(other, Tensor) else NotImplemented

    __radd__ = add = __add__


class SparseCsrTensor(_Compressed):
    """What `sparse_csr_tensor` gives: a matrix, row by row."""

    is_sparse_csr, layout, _kind = True, sparse_csr, "sparse_csr"
    _short, _axis, _names = "csr", 0, ("crow_indices", "col_indices")

    def crow_indices(self):
        return self._starts

    def col_indices(self):
        return self._others

    def to_sparse_csr(self):
        return self


class SparseCscTensor(_Compressed):
    """What `sparse_csc_tensor` gives: a matrix, column by column."""

    layout, _kind = sparse_csc, "sparse_csc"
    _short, _axis, _names = "csc", 1, ("ccol_indices", "row_indices")

    def ccol_indices(self):
        return self._starts

    def row_indices(self):
        return self._others

    def to_sparse_csc(self):
        return self


def _product(sparse, dense):
    """(..., m, n) @ (..., n, k) or (n,): each value times the row that its column names, added up at its row."""
    if sparse.dim() < 2 or sparse._numbers.dim() > 1:
        return sparse.to_dense() @ dense
    if dense.dim() == 1:
        return _product(sparse, dense.unsqueeze(1)).squeeze(-1)
    *batch, m, n = sparse.shape
    if dense.dim() < 2 or dense.shape[-2] != n:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({m}x{n} and {'x'.join(map(str, dense.shape))})")
    if list(dense.shape[:-2]) != batch:
        return sparse.to_dense() @ dense
    places = sparse._coordinates()
    rows = sparse._numbers.unsqueeze(1) * dense[(*places[:-2], places[-1])]
    return api.zeros((*batch, m, dense.shape[-1]), dtype=rows.dtype, device=rows.device).index_put(
        (*places[:-2], places[-2]), rows, accumulate=True
    )


# What functions of the library do with sparse operands. Operators of Tensor would ask again: the sparse operand's are called.


def _linear(input, weight, bias=None):
    product = _matmul(input, weight.t())
    return product if bias is None else product + bias


def _matmul(mat1, mat2):
    return mat1.__matmul__(mat2) if isinstance(mat1, SparseBase) else mat2.__rmatmul__(mat1)


def _addmm(input, mat1, mat2, *, beta: float = 1, alpha: float = 1):
    return _add(input * beta, _matmul(mat1, mat2) * alpha)


def _add(input, other, *, alpha=1):
    other = other if alpha == 1 else other * alpha
    return input.__add__(other) if isinstance(input, SparseBase) or not isinstance(other, SparseBase) else other.__add__(input)


def _sub(input, other, *, alpha=1):
    return _add(input, other, alpha=-alpha)


def _mul(input, other):
    return input.__mul__(other) if isinstance(input, SparseBase) else other.__mul__(input)


def _div(input, other):
    return input.__truediv__(other) if isinstance(input, SparseBase) else NotImplemented


FUNCTIONS = {
    "linear": _linear,
    **dict.fromkeys(("mm", "matmul", "bmm", "mv", "dsmm", "hspmm", "spmm", "smm", "__matmul__"), _matmul),
    **dict.fromkeys(("addmm", "sspaddmm"), _addmm),
    **dict.fromkeys(("add", "__add__", "__radd__"), _add),
    **dict.fromkeys(("sub", "__sub__"), _sub),
    **dict.fromkeys(("mul", "multiply", "__mul__", "__rmul__"), _mul),
    **dict.fromkeys(("div", "true_divide", "__truediv__"), _div),
    **{name: getattr(operator, name) for name in ("neg", "abs")},
    "sum": lambda input, dim=None, dtype=None: input.sum(dim, dtype),
    "t": lambda input: input.t(),
    "transpose": lambda input, dim0, dim1: input.transpose(dim0, dim1),
    "clone": lambda input, *, memory_format=None: input.clone(),
    "numel": lambda input: input.numel(),
    "is_floating_point": lambda input: input.is_floating_point(),
    "is_complex": lambda input: input.is_complex(),
    "index_select": lambda input, dim, index: input.index_select(dim, index),
}


def rebuilt(layout, parts):
    """Of a pickle, or of a file as PyTorch writes it: `parts()` of a tensor of this layout, checked again."""
    if layout is sparse_coo:
        indices, values, size, *coalesced = parts
        return sparse_coo_tensor(indices, values, size, is_coalesced=coalesced[0] if coalesced else None)
    make = {sparse_csr: sparse_csr_tensor, sparse_csc: sparse_csc_tensor}.get(layout)
    if make is None:
        raise RuntimeError(f"there are no sparse tensors of layout {layout}")
    return make(*parts)


def _added(shape, places, values):
    """Zeros of a shape, with values added at places; truth values by `or`."""
    if values.dtype is truth:
        return _added(shape, places, values.to(int64)).bool()
    if not places:
        return values.sum(0, dtype=values.dtype)
    return api.zeros(shape, dtype=values.dtype, device=values.device).index_put(places, values, accumulate=True)
