"""Tensors built of others: blocks, products of sets, windows; splitting by dims; and reading or writing parts out of
place (select_scatter, scatter_reduce, put)."""

import builtins
import itertools
import math

import numpy as np

from .. import dtypes
from ..dispatch import type_name
from ..ops import arithmetic as a, indexing as indexing_records
from ..ops.creation import full
from ..op.promote import result_type
from ..state import state
from ..tensor import Tensor
from .arguments import device_of, dim_of, dtype_of, from_old_form, give, size_of, takes_out
from .host_fallback import on_host
from . import creation, elementwise, indexing, products, public, reductions, shapes

_wrap = Tensor._fl_from_array


def _list(tensors):
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)


# -- blocks and products


def _is_value(t) -> bool:
    """Numbers in memory of the host that nothing is recorded for."""
    return type(t) is Tensor and t._fl_array is not None and not (state.grad and t.requires_grad)


@public.function
def block_diag(*tensors):
    parts = [t.reshape(1, -1) if t.ndim < 2 else t for t in _list(tensors)]
    if any(t.ndim > 2 for t in parts):
        raise RuntimeError("torch.block_diag: Input tensors must have 2 or fewer dimensions.")
    width = sum(t.shape[1] for t in parts)
    if parts and state.quick is not None and all(_is_value(t) and t.dtype is parts[0].dtype for t in parts):
        out, row, column = np.zeros((sum(t.shape[0] for t in parts), width), parts[0].dtype.numpy), 0, 0
        for t in parts:
            below, right = row + t.shape[0], column + t.shape[1]
            out[row:below, column:right] = t._fl_array
            row, column = below, right
        return Tensor._fl_from_array(out, parts[0].dtype)
    rows, at = [], 0
    for t in parts:
        left, right = t.new_zeros(t.shape[0], at), t.new_zeros(t.shape[0], width - at - t.shape[1])
        rows.append(shapes.cat([left, t, right], 1))
        at += t.shape[1]
    return shapes.cat(rows, 0)


@public.function
def cartesian_prod(*tensors):
    """All combinations of elements, one per row, as itertools.product orders them."""
    parts = _list(tensors)
    if any(t.ndim != 1 for t in parts):
        raise RuntimeError("Expect a 1D vector, but got shape " + str([list(t.shape) for t in parts]))
    if len(parts) == 1:
        return parts[0]
    return shapes.stack([g.reshape(-1) for g in shapes.meshgrid(*parts, indexing="ij")], 1)


@public.function
def combinations(input, r=2, with_replacement=False):
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if not r:
        return input.new_empty(0)
    make = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(make(builtins.range(input.shape[0]), r))
    index = _wrap(np.array(places, np.int64).reshape(-1, r), dtypes.int64)
    return input[index]


@public.small
@public.both
@takes_out
def kron(input, other):
    """Every element of input times the whole of other."""
    n = max(input.ndim, other.ndim)
    x = input.reshape((1,) * (n - input.ndim) + tuple(input.shape))
    y = other.reshape((1,) * (n - other.ndim) + tuple(other.shape))
    sizes = tuple(x.shape[k] * y.shape[k] for k in builtins.range(n))
    if not n:
        return a.mul(x, y)
    # rows of the result at once: both in its last dim, so that the loop of the product is a long one
    wide, last = (x.shape[-1], y.shape[-1]), builtins.range(n - 1)
    x = x.unsqueeze(-1).expand(*x.shape, wide[1])
    y = y.unsqueeze(-2).expand(*y.shape[:-1], *wide)
    left = (*(m for k in last for m in (x.shape[k], 1)), sizes[-1])
    right = (*(m for k in last for m in (1, y.shape[k])), sizes[-1])
    return a.mul(x.reshape(left), y.reshape(right)).reshape(sizes)


@public.both
def ger(input, vec2, *, out=None):
    return products.outer(input, vec2, out=out)


@public.both
@public.in_place
def addr(input, vec1, vec2, *old, beta=1, alpha=1, out=None):
    if old:
        return from_old_form(addr, (input, vec1, vec2, *old), 3, "beta", "alpha")
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, float) and result_type((input, vec1, vec2)).category < 2:
            raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    return give(products._scaled_sum(input, products.outer(vec1, vec2), beta, alpha), out)


@public.function
def chain_matmul(*matrices, out=None):
    result = matrices[0]
    for m in matrices[1:]:
        result = products.matmul(result, m)
    return give(result, out)


@public.function
def vander(x, N=None, increasing=False):
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.shape[0] if N is None else N
    powers = creation.arange(n, dtype=dtypes.int64)
    out = x.unsqueeze(1) ** (powers if increasing else powers.flip(0))
    return out


@public.both
def diagflat(input, offset=0):
    return shapes.diag(input.reshape(-1), offset)


@public.small
@public.both
def cross(input, other, dim=None, *, out=None):
    """The vector product along a dim of size 3 (the first such dim if none is given)."""
    if dim is None:
        dim = next((d for d, n in enumerate(input.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    x, y = shapes.broadcast_tensors(input, other)
    d = dim_of(x, dim)
    if x.shape[d] != 3:
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {x.shape[d]} and {y.shape[d]}")
    (x0, x1, x2), (y0, y1, y2) = x.unbind(d), y.unbind(d)
    return give(shapes.stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], d), out)


@public.function
def column_stack(tensors, *, out=None):
    return give(shapes.hstack([t.reshape(-1, 1) if t.ndim < 2 else t for t in tensors]), out)


row_stack = shapes.vstack


def _check_sections(name, input, d, sections):
    if isinstance(sections, int) and sections > 0 and input.shape[d] % sections:
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {d}, but the size of the dimension "
            f"{input.shape[d]} is not divisible by the split_size {sections}!"
        )


@public.both
def hsplit(input, indices_or_sections):
    return _split("hsplit", input, 1, 0 if input.ndim == 1 else 1, indices_or_sections)


@public.both
def vsplit(input, indices_or_sections):
    return _split("vsplit", input, 2, 0, indices_or_sections)


@public.both
def dsplit(input, indices_or_sections):
    return _split("dsplit", input, 3, 2, indices_or_sections)


def _split(name, input, least, dim, indices_or_sections):
    if input.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {input.ndim} dimensions!"
        )
    _check_sections(name, input, dim, indices_or_sections)
    return shapes.tensor_split(input, indices_or_sections, dim)


@public.function
def unravel_index(indices, shape):
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    found, rest = [], indices
    for n in reversed(sizes):
        found.append(rest % n)
        rest = a.floor_divide(rest, n)
    return tuple(reversed(found))


@public.function
def range(start=0, end=None, step=1, *, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False):
    """Like arange, but with the end included and floating by default."""
    start, end = (0, start) if end is None else (start, end)
    count = math.floor((end - start) / step) + 1
    t = creation.arange(count, dtype=dtypes.float64) * step + start
    t = t.to(device_of(device), dtype_of(dtype, dtypes.get_default_dtype()))
    return creation.finished(t, requires_grad, out, pin_memory, layout)


# -- parts out of place


@public.both
def select_scatter(input, src, dim, index):
    out = input.clone()
    return _filled(out, out.select(dim, index), src)


def _filled(out, part, src):
    """`out` with a part of it replaced by a tensor of the part's sizes."""
    if tuple(part.shape) != tuple(src.shape):
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(part.shape)}"
        )
    part.copy_(src)
    return out


@public.both
def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
    out = input.clone()
    d = dim_of(input, dim)
    return _filled(out, out[(slice(None),) * d + (slice(start, end, step),)], src)


@public.both
def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1):
    out = input.clone()
    return _filled(out, shapes.diagonal(out, offset, dim1, dim2), src)


@public.both
def as_strided_scatter(input, src, size, stride, storage_offset=None):
    out = input.clone()
    return _filled(out, out.as_strided(size, stride, storage_offset or 0), src)


@public.both
@public.in_place
def put(input, index, source, accumulate=False):
    """A copy of input whose elements at flat positions are the source's."""
    if index.dtype is not dtypes.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {type_name(index.dtype)}")
    if source.dtype is not input.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{type_name(input.dtype)} and source.dtype = {type_name(source.dtype)}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    flat = input.reshape(-1)
    index, source = index.reshape(-1), source.reshape(-1)
    index = a.where(a.lt(index, 0), index + flat.shape[0], index)
    return indexing.index_put(flat, (index,), source, accumulate).reshape(input.shape)


_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@public.small
@public.both
@public.in_place
def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """Elements of src that go to one place of input are combined with it by `reduce`."""
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    d, index, src = indexing._scatter_args(input, dim, index, src, "scatter")
    if index is None or 0 in index.shape:
        return input.clone()
    if not input.ndim:
        return scatter_reduce(input.reshape(1), 0, index, src, reduce, include_self=include_self).reshape(())
    source = src if src.shape == index.shape else src[tuple(slice(n) for n in index.shape)]
    if reduce in ("amax", "amin"):
        if input.dtype.is_complex:
            raise NotImplementedError(f'"scatter_reduce" with {reduce} not implemented for {type_name(input.dtype)}: no order')
        return _extreme(input, d, index, source, reduce == "amax", bool(include_self))
    base = input if include_self else input.scatter(d, index, 1 if reduce == "prod" else 0)
    if reduce in ("sum", "mean"):
        total = base.scatter_add(d, index, source)
        return total if reduce == "sum" else _divided(total, input, d, index, include_self)
    return _product(base, d, index, source)


def _divided(total, input, d, index, include_self):
    ones = full(tuple(index.shape), 1, dtypes.int64, input.device)
    start = full(tuple(input.shape), 1 if include_self else 0, dtypes.int64, input.device)
    counts = start.scatter_add(d, index, ones).clamp(min=1)
    return a.div(total, counts) if total.dtype.category > 1 else a.floor_divide(total, counts.to(total.dtype))


@on_host
def _product(base, d, index, source):
    return indexing_records.scatter_mul(base, d, index, source)


@on_host
def _extreme(input, d, index, source, largest, include_self):
    return indexing_records.scatter_extreme(input, d, index, source, largest, include_self)


@public.both
@public.in_place
def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    if input.dtype.category in (0, 3):
        raise NotImplementedError(f'"index_reduce" not implemented for {type_name(input.dtype)}')
    d = dim_of(input, dim)
    wide = index.reshape([-1 if k == d else 1 for k in builtins.range(input.ndim)]).expand(source.shape)
    return scatter_reduce(input, d, wide, source, "prod" if reduce == "prod" else reduce, include_self=include_self)


@public.function
@public.in_place_function
def fill(input, value):
    return a.copy(input, elementwise.fill_value("fill", input, value))


@public.method
def fill_diagonal_(self, fill_value, wrap=False):
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim == 2 and not wrap:
        self.diagonal().fill_(fill_value)
    elif self.ndim == 2:
        rows, cols = self.shape
        flat = creation.arange(0, rows * cols, cols + 1)
        self[a.floor_divide(flat, cols), flat % cols] = fill_value
    else:
        if len(set(self.shape)) != 1:
            raise RuntimeError("all dimensions of input must be of equal length")
        at = creation.arange(self.shape[0])
        self[(at,) * self.ndim] = fill_value
    return self


@public.method
def sum_to_size(self, *size):
    sizes = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
    lead = self.ndim - len(sizes)
    if lead < 0:
        raise RuntimeError(f"size {{{list(sizes)}}} is not expandable to size {{{list(self.shape)}}}.")
    dims = [*builtins.range(lead), *[k + lead for k, n in enumerate(sizes) if n == 1 and self.shape[k + lead] != 1]]
    out = reductions.sum(self, dims, True) if dims else self
    return out.reshape(sizes)


# -- windows of signal processing


def _window(name, formula):
    def function(
        window_length, periodic=True, *args, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False, **kw
    ):
        n = int(size_of(window_length))  # the values are made here: code for each length
        device = device_of(device)
        t = np.arange(n) / max(n if periodic else n - 1, 1)
        values = np.ones(n) if n == 1 else formula(t, *args, **kw)
        d = dtype_of(dtype, dtypes.get_default_dtype())
        out = _wrap(np.asarray(values).astype(d.numpy), d).to(device)
        return creation.finished(out, requires_grad, None, pin_memory, layout)

    function.__name__ = function.__qualname__ = name
    return function


def _cosine(t, alpha, beta):
    return alpha - beta * np.cos(2 * math.pi * t)


hann_window = _window("hann_window", lambda t: _cosine(t, 0.5, 0.5))
hamming_window = _window("hamming_window", lambda t, alpha=0.54, beta=0.46: _cosine(t, alpha, beta))
blackman_window = _window("blackman_window", lambda t: 0.42 - 0.5 * np.cos(2 * math.pi * t) + 0.08 * np.cos(4 * math.pi * t))
bartlett_window = _window("bartlett_window", lambda t: 1 - np.abs(2 * t - 1))
kaiser_window = _window("kaiser_window", lambda t, beta=12.0: np.i0(beta * np.sqrt(1 - (2 * t - 1) ** 2)) / np.i0(beta))


public.each(globals(), function="bartlett_window blackman_window hamming_window hann_window kaiser_window row_stack")
