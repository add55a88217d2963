"""Methods of Tensor that are rare: Python functions per element, complex types, geometry in place, and what was removed."""

import importlib

import numpy as np

from ..compat import missing
from ..dispatch import become_view, bump
from ..memory_formats import channels_last, memory_format
from ..autograd_node import check_write
from . import creation, shapes
from .arguments import dtype_of


# -- a Python function per element


def _elements(name, self, others, callable_):
    """Writes `callable_(element, elements of the others)` into every place."""
    if any(t.requires_grad for t in (self, *others)):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    for what, t in zip(("'other'",) if len(others) == 1 else ("argument 'x'", "argument 'y'"), others):
        if t.dtype is not self.dtype:
            raise TypeError(f"{name}: expected {self.type()} for {what} (got {t.type()})")
    if self.is_meta:
        return self
    if self.device.type != "cpu":
        raise TypeError(f"{name} is only implemented on CPU tensors")
    others = [shapes.expand(t, *self.shape) for t in others]
    columns = [t._values(f"{name}()").reshape(-1).tolist() for t in (self, *others)]
    target = self._values(f"{name}()")
    check_write(self, False)
    found = [_number(callable_(*row), self.dtype) for row in zip(*columns)]
    target[...] = np.asarray(found, dtype=None if self.dtype.is_complex else object).astype(target.dtype).reshape(target.shape)
    bump(self)
    return self


def _number(value, dtype):
    if dtype.is_complex:
        return complex(value)
    if not isinstance(value, (int, float, np.generic)) and not hasattr(value, "__float__"):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    return float(value) if dtype.is_floating_point else int(value)


def apply_(self, callable):
    return _elements("apply_", self, (), callable)


def map_(self, tensor, callable):
    return _elements("map_", self, (tensor,), callable)


def map2_(self, x, y, callable):
    return _elements("map2_", self, (x, y), callable)


# -- types and memory


def chalf(self, memory_format=None):
    raise NotImplementedError("Tensor.chalf(): there are no complex numbers of two halves (torch.complex32); use cfloat()")


def new_empty_strided(self, size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    return creation.empty_strided(
        tuple(size),
        tuple(stride),
        dtype=dtype_of(dtype, self.dtype),
        device=self.device if device is None else device,
        requires_grad=requires_grad,
        layout=layout,
        pin_memory=pin_memory,
    )


def as_strided_(self, size, stride, storage_offset=None):
    return become_view(self, lambda t: shapes.as_strided(t, tuple(size), tuple(stride), storage_offset))


def const_data_ptr(self):
    """The address, for memory that is only read."""
    return self.data_ptr()


def dim_order(self, *, ambiguity_check=False):
    """The dims from the outermost in memory to the innermost. `ambiguity_check`: an error where sizes of 1 or strides leave
    several orders; a list of memory formats: only where not exactly one of them fits."""
    if not isinstance(ambiguity_check, (bool, list)):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    formats = ambiguity_check if isinstance(ambiguity_check, list) else []
    if any(not isinstance(f, memory_format) for f in formats):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    if ambiguity_check is not False and (1 in self.shape or len(set(self.stride())) < self.ndim):
        if sum(self.is_contiguous(memory_format=f) for f in formats) != 1:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
            )
    if ambiguity_check is not False and 0 in self.stride():
        raise RuntimeError("The tensor does not have unique dim order.")
    return _order(self)


def _order(t):
    """By falling strides, of equal ones the larger size first; dims of stride 0 stay where they are."""
    strides, order = t.stride(), list(range(t.ndim))
    formats = t.is_contiguous(), t.ndim == 4 and t.is_contiguous(memory_format=channels_last)
    if sum(formats) == 1:
        return tuple(order) if formats[0] else (0, 2, 3, 1)
    for i in reversed(range(t.ndim - 1)):
        at = i
        for after in range(i + 1, t.ndim):
            (a, m), (b, n) = ((strides[d], t.shape[d]) for d in (order[at], order[after]))
            if a and b and (a < b or (a == b and m < n)):
                order[at], order[after] = order[after], order[at]
                at = after
            elif a and b and a > b:
                break
    return tuple(order)


# -- sparse tensors


def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The tensor by coordinates (`torch.sparse_coo_tensor`) of what is not zero."""
    return importlib.import_module("..compat.sparse", __package__).to_sparse(
        self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim
    )


def to_sparse_csr(self, dense_dim=None):
    """The matrix by compressed rows (`torch.sparse_csr_tensor`) of what is not zero."""
    return to_sparse(self, dense_dim=dense_dim).to_sparse_csr()


def to_sparse_csc(self, dense_dim=None):
    """The matrix by compressed columns (`torch.sparse_csc_tensor`) of what is not zero."""
    return to_sparse(self, dense_dim=dense_dim).to_sparse_csc()


def to_dense(self, dtype=None, *, masked_grad=None):
    """The tensor itself: it is dense."""
    return self if dtype is None else self.to(dtype)


# -- removed


def reinforce(self, reward):
    raise RuntimeError(
        "reinforce() was removed.\nUse torch.distributions instead: the gradient of -(distribution.log_prob(action) * reward)."
    )


METHODS = {
    f.__name__: f
    for f in (
        apply_,
        map_,
        map2_,
        chalf,
        new_empty_strided,
        as_strided_,
        const_data_ptr,
        dim_order,
        reinforce,
        to_sparse,
        to_sparse_csr,
        to_sparse_csc,
        to_dense,
    )
}
METHODS["to_sparse_coo"] = to_sparse
_ABSENT = {
    "tensors are dense; torch.sparse_coo_tensor takes coordinates": """
        to_sparse_bsr to_sparse_bsc coalesce is_coalesced indices values sparse_dim
        dense_dim crow_indices col_indices ccol_indices row_indices sparse_mask sparse_resize_ sparse_resize_and_clear_
           smm sspaddmm resize_as_sparse_""",
    "there are no quantized tensors": """
        int_repr q_scale q_zero_point q_per_channel_axis q_per_channel_scales q_per_channel_zero_points qscheme""",
    "there is no device and no layout of this kind": "to_mkldnn to_padded_tensor is_distributed ipu xpu mtia",
    "it is an operator of PyTorch's core": "hash_tensor index slice_inverse module_load",
}
for _advice, _names in _ABSENT.items():
    METHODS.update(missing.functions("torch.Tensor", _names, _advice))
METHODS["_make_wrapper_subclass"] = staticmethod(
    missing.function(
        "torch.Tensor._make_wrapper_subclass", "subclasses hold the elements themselves: Tensor._make_subclass or as_subclass"
    )
)
