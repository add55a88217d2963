"""Sums, means, extremes, order statistics: functions over dims, and of two tensors where PyTorch overloads the name."""

import builtins
import math
import warnings
from typing import Any

from .. import dtypes, return_types
from ..dispatch import small, type_name
from ..ops import arithmetic as a, sorting as o, reduce as r
from ..ops.complex_numbers import imag, real
from ..ops.factorizations import svd
from ..ops.elementary import sqrt
from ..ops.views import contiguous, permute, reshape, unsqueeze
from ..tensor import Tensor
from . import public
from .arguments import dim_of, dims_of, dtype_of, give, numpy_names
from .elementwise import sub
from .memory_format import back, memory_order

Sorted = return_types.sort
TopK = return_types.topk
Median = return_types.median
Kth = return_types.kthvalue


def _cast(x, dtype):
    dtype = dtype_of(dtype)
    return x if dtype is None or dtype is x.dtype else x.to(dtype)


@public.small(r.sum)
@public.both
@numpy_names
def sum(input, dim=None, keepdim=False, *, dtype=None, out=None):
    return give(_cast(r.sum(_cast(input, dtype), dims_of(input, dim), keepdim), dtype), out)


@public.small(r.nansum)
@public.both
@numpy_names
def nansum(input, dim=None, keepdim=False, *, dtype=None, out=None):
    if dtype is not None and dtype_of(dtype).category < 2 <= input.dtype.category:
        input = a.where(a.ne(input, input), 0, input)  # (a whole number is never NaN)
    x = _cast(input, dtype)
    if x.dtype.category != 2:
        return sum(a.where(a.ne(x, x), 0, x), dim, keepdim, dtype=dtype, out=out)
    return give(r.nansum(x, dims_of(x, dim), keepdim), out)


@public.small(r.mean)
@public.both
@numpy_names
def mean(input, dim=None, keepdim=False, *, dtype=None, out=None):
    x = _cast(input, dtype)
    if x.dtype.category < 2:
        what = "Input dtype" if dtype is None else "Optional dtype"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {what} must be either a floating point or complex "
            "dtype. "
            f"Got: {type_name(x.dtype)}"
        )
    return give(r.mean(x, dims_of(x, dim), keepdim), out)


@public.small(r.prod)
@public.both
@numpy_names
def prod(input, dim=None, keepdim=False, *, dtype=None, out=None):
    return give(_cast(r.prod(_cast(input, dtype), dims_of(input, dim), keepdim), dtype), out)


def _truth(record, input, dim, keepdim):
    """Bytes answer in bytes; no dims at all leave every element alone."""
    none = isinstance(dim, (tuple, list)) and not dim
    result = a.ne(input, 0) if none else record(input, dims_of(input, dim), keepdim)
    return result.to(dtypes.uint8) if input.dtype is dtypes.uint8 else result


@public.small(r.any_)
@public.both
@numpy_names
def any(input, dim=None, keepdim=False, *, out=None):
    return give(_truth(r.any_, input, dim, keepdim), out)


@public.small(r.all_)
@public.both
@numpy_names
def all(input, dim=None, keepdim=False, *, out=None):
    return give(_truth(r.all_, input, dim, keepdim), out)


@public.small(r.logsumexp)
@public.both
@numpy_names
def logsumexp(input, dim, keepdim=False, *, out=None):
    return give(r.logsumexp(input, dims_of(input, dim), keepdim), out)


@public.small
@public.both
@numpy_names
def count_nonzero(input, dim=None):
    return r.sum(a.ne(input, 0), dims_of(input, dim), False)


def _nonempty(x, dims, name):
    for d in dims:
        if type(x.shape[d]) is int and x.shape[d] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")
    return dims


def _refuse_empty(x, name):
    if builtins.any(type(n) is int and n == 0 for n in x.shape):
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )


def _some(x, dim, name):
    """The dims of a reduction without a neutral element."""
    if dim == ():
        _refuse_empty(x, name)
    return _nonempty(x, dims_of(x, dim), name)


PAIRS = {"max": return_types.max, "min": return_types.min}


def _extremes(name, over, along, pairwise):
    pair = PAIRS[name]

    @numpy_names
    def function(input, dim=None, keepdim=False, *, other=None, out=None):
        if isinstance(dim, Tensor) or other is not None:
            return give(pairwise(input, dim if other is None else other), out)
        if dim is None:
            _refuse_empty(input, name)
            return give(over(input, dims_of(input, None), False), out)
        if not input.ndim:
            dim_of(input, dim)
            return give(pair(a.clone(input), input.new_zeros((), dtype=dtypes.int64)), out)
        d = dim_of(input, dim)
        return give(pair(*along(input, _nonempty(input, (d,), name), keepdim)), out)

    function.__name__ = function.__qualname__ = name
    return function


max = _extremes("max", r.max_of_all, r.max_dim, a.maximum)
min = _extremes("min", r.min_of_all, r.min_dim, a.minimum)


@public.small(r.amax)
@public.both
@numpy_names
def amax(input, dim=(), keepdim=False, *, out=None):
    return give(r.amax(input, _some(input, dim, "amax"), keepdim), out)


@public.small(r.amin)
@public.both
@numpy_names
def amin(input, dim=(), keepdim=False, *, out=None):
    return give(r.amin(input, _some(input, dim, "amin"), keepdim), out)


PAIRS["aminmax"] = _AMINMAX = return_types.aminmax


@public.small
@public.both
@numpy_names
def aminmax(input, *, dim=None, keepdim=False, out=None):
    dims = () if dim is None else dim
    return give(_AMINMAX(amin(input, dims, keepdim), amax(input, dims, keepdim)), out)


def _position(name, record):
    @numpy_names
    def function(input, dim=None, keepdim=False, *, out=None):
        if input.dtype is dtypes.bool:
            raise RuntimeError(f"{name}(): does not support bool input")
        if dim is None:
            if type(input.numel()) is int and input.numel() == 0:
                raise IndexError(
                    f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                    "the reduction dim with "
                    "the 'dim' argument."
                )
        dims = dims_of(input, dim)
        return give(record(input, _nonempty(input, dims, name), keepdim), out)

    function.__name__ = function.__qualname__ = name
    return function


argmax, argmin = _position("argmax", r.argmax), _position("argmin", r.argmin)


# -- variance


def _correction(unbiased, correction):
    if correction is not None:
        dtypes.of_number(correction)  # (refuses an integer that 64 bits do not hold)
        return correction
    return 1 if unbiased is None or unbiased else 0


def _warn_of_few(x, dims, correction, name):
    """Not more elements than the correction leave nothing to divide by."""
    count = r.extent(x.shape, dims)
    if type(count) is int and count <= correction:
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel).",
            stacklevel=4,
        )


def _real_spread(record, x, correction, dims, keepdim):
    if x.dtype not in (dtypes.float32, dtypes.bfloat16) or r.extent(x.shape, dims) > correction:
        return record(x, correction, dims, keepdim)
    spread = r.exhausted_var(x, correction, dims, keepdim)
    if record is r.var_mean:
        return spread, r.mean(x, dims, keepdim)
    return spread if record is r.var else sqrt(spread)


def _complex_spread(record, x, correction, dims, keepdim):
    """Of complex numbers: the variances of both parts together, a real number."""
    total = a.add(*[_real_spread(r.var, part(x), correction, dims, keepdim) for part in (real, imag)])
    if record is r.var_mean:
        return total, r.mean(x, dims, keepdim)
    return total if record is r.var else sqrt(total)


def _refuse_whole(input, name):
    if input.dtype.category < 2:
        raise RuntimeError(f"{name} only support floating point and complex dtypes: got {type_name(input.dtype)}")


def _spread(record, floating_name):
    @numpy_names
    def function(input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None):
        if isinstance(dim, bool):  # var(input, unbiased)
            dim, unbiased = None, dim
        _refuse_whole(input, floating_name)
        correction, dims = _correction(unbiased, correction), dims_of(input, dim)
        _warn_of_few(input, dims, correction, name)
        if input.dtype.is_complex:
            return give(_complex_spread(record, input, correction, dims, keepdim), out)
        return give(_real_spread(record, input, correction, dims, keepdim), out)

    name = function.__name__ = function.__qualname__ = floating_name.partition(" ")[0]
    return function


var, std, var_mean = _spread(r.var, "var and std"), _spread(r.std, "std and var"), _spread(r.var_mean, "var_mean")


@public.small
@public.function
def std_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    _refuse_whole(input, "std_mean")
    dims, correction = dims_of(input, dim), _correction(unbiased, correction)
    _warn_of_few(input, dims, correction, "std_mean")
    if input.dtype.is_complex:
        return _complex_spread(r.std, input, correction, dims, keepdim), r.mean(input, dims, keepdim)
    return _real_spread(r.std, input, correction, dims, keepdim), r.mean(input, dims, keepdim)


@public.small(r.norm)
@public.both
@numpy_names
def norm(input, p: Any = "fro", dim=None, keepdim=False, *, out=None, dtype=None):
    x = _cast(input, dtype)
    if p == "nuc":
        return give(_nuclear(x, dims_of(x, dim), keepdim), out)
    dtypes.of_number(p)  # (refuses an integer that 64 bits do not hold)
    p = 2.0 if p in (None, "fro") else float(p)
    if x.dtype.category < 2:
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {type_name(x.dtype)}")
    return give(_norm_over(x, p, dims_of(x, dim), keepdim), out)


def _nuclear(x, dims, keepdim):
    """The sum of the singular values."""
    if len(dims) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    rest = tuple(d for d in range(x.ndim) if d not in dims)
    found = r.sum(svd(permute(x, rest + dims), False)[1], (len(rest),), False)
    for d in dims if keepdim else ():
        found = unsqueeze(found, d)
    return found


def _norm_over(x, p, dims, keepdim):
    """The p-norm of real or complex numbers."""
    if p < 0 or p == math.inf:
        empty = [d for d in dims if type(x.shape[d]) is int and not x.shape[d]]
        if empty:
            what = "an empty tensor" if len(dims) == x.ndim else f"the dimension {empty[0]}, which is empty,"
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {p:g} norm on {what} because the operation does not have an identity"
            )
    return r.norm(a.absolute(x) if x.dtype.is_complex else x, p, dims, keepdim)


@numpy_names
def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None):
    return norm(x, ord, dim, keepdim, dtype=dtype, out=out)


_quick_norm = small("norm", norm, r.norm)


@public.both
def dist(input, other, p=2):
    return _quick_norm(sub(input, other), p)


# -- order


@public.small(o.cumsum)
@public.both
@numpy_names
def cumsum(input, dim, *, dtype=None, out=None):
    x = _running_input(input, dtype, out)
    d = dim_of(x, dim)
    return give(_cast(o.cumsum(x, d) if x.ndim else r.sum(x, (), False), dtype), out)


def _running_input(input, dtype, out):
    """The operand of a running sum or product in its type: `dtype`, else that of `out`."""
    dtype = dtype_of(dtype)
    if dtype is dtypes.bool:
        raise NotImplementedError("running sums and products are not implemented for 'Bool'")
    if out is not None and dtype is not None and dtype is not out.dtype:
        raise RuntimeError(f"Expected out tensor to have dtype {dtype.name}, but got {out.dtype.name} instead")
    return _cast(input, dtype if out is None else out.dtype)


def _in_place(function):
    """A running sum or product into its input."""

    def method(self, dim, *, dtype=None):
        dim_of(self, dim)
        if dtype_of(dtype, self.dtype) is not self.dtype:
            raise RuntimeError(
                f"Bad in-place call: input tensor dtype {self.dtype.name} and output tensor dtype "
                f"{dtype_of(dtype).name} should match"
            )
        return a.copy.inplace(self, function(a.clone(self), dim).to(self.dtype))

    method.__name__ = method.__qualname__ = function.__name__ + "_"
    return method


def _has_order(x, name):
    if x.dtype.is_complex:
        raise RuntimeError(f"{name} does not support complex dtypes on CPU")
    return x


@public.small
@public.both
def sort(input, dim=-1, descending=False, stable=False, *, out=None):
    return give(Sorted(*_sorted(input, dim, descending)), out)


@public.small
@public.both
def argsort(input, dim=-1, descending=False, stable=False):
    return _sorted(input, dim, descending)[1]


def _sorted(input, dim, descending):
    """(values, positions) in the input's order of memory."""
    d, order = dim_of(input, dim), memory_order(input)
    _has_order(input, "Sort")
    if order is None:
        return o.sort(input, d, bool(descending))
    found = o.sort(permute(input, order), order.index(d), bool(descending))
    return [permute(part, tuple(back(order))) for part in found]


@public.small
@public.both
def topk(input, k, dim=-1, largest=True, sorted=True, *, out=None):
    d = dim_of(input, dim)
    size = input.shape[d] if input.ndim else 1
    if k < 0 or k > size:
        raise RuntimeError(f"selected index k out of range: k={k} for dim {d} of size {size}")
    _has_order(input, "topk")
    if input.dtype is dtypes.bool:
        raise RuntimeError("topk does not support bool dtypes on CPU")
    found = o.topk(input, k, d, largest, sorted)
    return give(TopK(*(found if d == input.ndim - 1 else map(contiguous, found))), out)


def _some_along(input, d, name):
    if input.ndim and type(input.shape[d]) is int and not input.shape[d]:
        raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


@public.small
@public.both
@numpy_names
def kthvalue(input, k, dim=-1, keepdim=False, *, out=None):
    d = dim_of(input, dim)
    _some_along(input, d, "kthvalue")
    if not 0 < k <= (input.shape[d] if input.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {d}")
    picked = sort(input, dim)
    if input.ndim:
        picked = [contiguous(unsqueeze(x.select(d, k - 1), d) if keepdim else x.select(d, k - 1)) for x in picked]
    return give(Kth(*picked), out)


@public.small
@public.both
@numpy_names
def median(input, dim=None, keepdim=False, *, out=None):
    """The lower of the two middle values; NaN if there is one."""
    if dim is None:
        flat = reshape(input, (input.numel(),))
        if type(flat.shape[0]) is int and not flat.shape[0]:
            return give(_median_of_none(input), out)
        return give(_lower_middle(flat, 0, False)[0], out)
    d = dim_of(input, dim)
    _some_along(input, d, "median")
    return give(Median(*_lower_middle(input, d, keepdim)), out)


def _lower_middle(x, d, keepdim):
    """(value, place) of the lower of the two middle elements of each row, or of its first NaN."""
    n = x.shape[d] if x.ndim else 1
    if not x.ndim or not x.dtype.is_floating_point:
        return kthvalue(x, (n + 1) // 2, d, keepdim)
    values, places = sort(x, d)
    numbers = r.sum(a.eq(values, values), (d,), True)  # they stand before the NaN
    at = a.where(a.lt(numbers, n), numbers, (n + 1) // 2 - 1)
    found = values.gather(d, at), places.gather(d, at)
    return found if keepdim else tuple(part.squeeze(d) for part in found)


def _median_of_none(x):
    """NaN; of integers what it turns into: the least one, of a type shorter than int32 zero."""
    if x.dtype.is_floating_point:
        return x.new_full((), float("nan"))
    return x.new_full((), dtypes.iinfo(x.dtype).min if x.dtype.itemsize > 2 else 0)


@public.function
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None, out=None):
    """Where each value of input would be inserted into the sorted rows of sorted_sequence (input's sizes; int64)."""
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    edges = sorted_sequence if sorter is None else sorted_sequence.gather(-1, sorter)
    if not isinstance(input, Tensor):
        dtypes.of_number(input)  # (refuses one that no type holds)
    x = input if isinstance(input, Tensor) else edges.new_tensor(input)
    if edges.ndim != 1 and (edges.ndim != x.ndim or edges.shape[:-1] != x.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            f"boundaries tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(edges.shape)} and input value tensor {list(x.shape)}"
        )
    kind = dtypes.int32 if out_int32 else dtypes.int64
    if out is not None and out.dtype is not kind:
        raise RuntimeError(
            "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) "
            f"depending on whether out_int32 flag is True, but we got output tensor's dtype "
            f"{type_name(out.dtype)} and out_int32 flag is {out_int32}"
        )
    found = o.searchsorted(edges, x, right or side == "right")
    return give(found.to(kind) if out_int32 else found, out)


@public.function
def bucketize(input, boundaries, *, out_int32=False, right=False, out=None):
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize: boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


public.each(globals(), both="argmax argmin max min std var", function="var_mean")
public.SMALL.update(var_mean=None, max=r.max_of_all, min=r.min_of_all, argmax=r.argmax, argmin=r.argmin, var=r.var, std=r.std)
public.methods(cumsum_=_in_place(cumsum))
