"""Counting, quantiles, sets, integrals and differences along a dim, running extremes.

What has sizes that depend on values (unique, bincount) reads the values; a trace makes a read of its graph of it.
"""

import builtins
import math

import numpy as np

from ...runtime import sorting as order
from .. import dtypes, return_types
from ..dispatch import type_name
from ..ops import arithmetic as a, elementary as e, reduce as r, cumulative as s
from ..ops.checks import check_within
from ..ops.indexing import scatter_add
from ..ops.upcast import back, single
from ..ops.views import reshape, unsqueeze
from ..op.promote import result_type
from ..tensor import Tensor, read_of_fake
from . import creation, public, reductions
from .arguments import dim_of, dims_of, give, numpy_names, takes_out
from .host_fallback import on_host
from .reductions import _cast, _median_of_none, _running_input

_wrap = Tensor._fl_from_array
Extreme = return_types.cummax
Least = return_types.cummin
Mode = return_types.mode
Histogram = return_types.histogram


# -- running


@public.small(s.cumprod)
@public.both
@numpy_names
def cumprod(input, dim, *, dtype=None, out=None):
    x = _running_input(input, dtype, out)
    d = dim_of(x, dim)
    return give(_cast(s.cumprod(x, d) if x.ndim else r.prod(x, (), False), dtype), out)


def _running(record, kind):
    @numpy_names
    def function(input, dim, *, out=None):
        d = dim_of(input, dim)
        if not input.ndim:
            return give(kind(input.clone(), input.new_zeros((), dtype=dtypes.int64)), out)
        return give(kind(*record(input, d)), out)

    function.__name__ = function.__qualname__ = record.name
    return function


cummax, cummin = _running(s.cummax, Extreme), _running(s.cummin, Least)


@public.small(s.logcumsumexp)
@public.both
@numpy_names
def logcumsumexp(input, dim, *, out=None):
    return give(s.logcumsumexp(input, dim_of(input, dim)) if input.ndim else input.clone(), out)


# -- sets


def _ordered_unique(array, places=True):
    """(values, where each element is among them, how often each is there); without `places` the last two may be None."""
    flat, kind = array.reshape(-1), array.dtype
    if not places and kind.kind != "V":
        return np.unique(flat, equal_nan=False), None, None
    found = NotImplemented if kind.kind == "c" else order.sort(flat, 0, False)
    if found is NotImplemented:
        flat = flat.astype(np.float32) if kind.kind == "V" else flat  # (numpy does not know NaN in types of ml_dtypes)
        values, inverse, counts = np.unique(flat, return_inverse=True, return_counts=True, equal_nan=False)
        return values.astype(kind, copy=False), inverse.reshape(array.shape), counts
    ordered, at = found
    first = np.ones(flat.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    inverse = np.empty(flat.size, np.int64)
    inverse[at] = np.cumsum(first) - 1
    return ordered[starts], inverse.reshape(array.shape), np.diff(starts, append=flat.size)


def _chosen(values, inverse, counts, dtype, return_inverse, return_counts):
    found = [_wrap(np.ascontiguousarray(values), dtype)]
    if return_inverse:
        found.append(_wrap(np.array(inverse, np.int64, order="C"), dtypes.int64))
    if return_counts:
        found.append(_wrap(np.ascontiguousarray(counts, np.int64), dtypes.int64))
    return found[0] if len(found) == 1 else tuple(found)


@public.small
@public.both
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements in ascending order, or (dim given) the different slices in lexicographic order."""
    if input._fl_array is None:
        return read_of_fake(input, "unique", bool(return_inverse), bool(return_counts), _dim_or_none(input, dim))
    x = input._values("unique()")
    if dim is None:
        parts = _ordered_unique(x, return_inverse or return_counts)
    else:
        d = _slices_dim(input, dim)
        values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=d)
        parts = values, inverse.reshape(-1), counts
    return _chosen(*parts, input.dtype, return_inverse, return_counts)


@public.both
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Drops what equals the element (or slice) before it."""
    if input._fl_array is None:
        return read_of_fake(input, "unique_consecutive", bool(return_inverse), bool(return_counts), _dim_or_none(input, dim))
    x = input._values("unique_consecutive()")
    d = None if dim is None else _slices_dim(input, dim)
    rows = x.reshape(-1, 1) if d is None else np.moveaxis(x, d, 0)
    rows = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]).any(1)
    starts = np.flatnonzero(first)
    inverse = np.cumsum(first) - 1
    counts = np.diff(np.append(starts, len(rows)))
    values = x.reshape(-1)[starts] if d is None else np.take(x, starts, d)
    return _chosen(values, inverse.reshape(x.shape) if d is None else inverse, counts, input.dtype, return_inverse, return_counts)


def _slices_dim(x, dim):
    d = dim_of(x, dim)
    if any(not n for k, n in enumerate(x.shape) if k != d):
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return d


def _dim_or_none(input, dim):
    return None if dim is None else dim_of(input, dim)


_FEW_SOUGHT = 1 << 10


@public.function
@on_host
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Which elements are among the test elements."""
    given = [t if isinstance(t, Tensor) else None for t in (elements, test_elements)]
    if not any(given_t is not None for given_t in given):
        raise ValueError("isin() expects at least one tensor")
    for t in given:
        if t is not None and t.dtype.category in (0, 3):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {type_name(t.dtype)}")
    kind = result_type([elements, test_elements]).numpy
    whole = [type(t) is int and kind.kind in "iu" for t in (elements, test_elements)]  # may lie beyond the elements' type
    x, y = (
        t._values("isin()").astype(kind) if isinstance(t, Tensor) else np.asarray(t, None if wide else kind)
        for t, wide in zip((elements, test_elements), whole)
    )
    return _wrap(np.asarray(_is_among(x, y, invert)), dtypes.bool)


def _is_among(x, y, invert):
    """np.isin; of few elements without the many calls that it makes. (NaN is among nothing.)"""
    if not 0 < x.size + y.size <= _FEW_SOUGHT or not y.size or x.dtype != y.dtype or x.dtype.kind not in "iuf":
        return np.isin(x, y, invert=invert)
    known = np.sort(y, None)
    at = known.searchsorted(x.reshape(-1)).reshape(x.shape)
    return (np.not_equal if invert else np.equal)(known.take(at, mode="clip"), x)


# -- counting


@public.both
def bincount(input, weights=None, minlength=0):
    """How often each non-negative integer occurs, or the sum of the weights at it."""
    if input.ndim != 1 or input.dtype.category > 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if input._fl_array is None and type(minlength) is int and minlength >= 0:
        return read_of_fake(input, "bincount", weights, minlength)
    x = input._values("bincount()")
    if x.size and x.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if not x.size:
        return input.new_zeros(minlength, dtype=dtypes.int64)  # whatever the type of the weights
    if weights is None:
        return _wrap(np.bincount(x, minlength=minlength).astype(np.int64), dtypes.int64)
    if weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    kind = dtypes.float32 if weights.dtype is dtypes.float32 else dtypes.float64
    weights = a.cast(weights, kind) if weights.dtype.is_complex else weights
    return _wrap(np.bincount(x, weights._values("bincount()"), minlength).astype(kind.numpy), kind)


@public.both
@on_host
def histc(input, bins=100, min=0, max=0, *, out=None):
    """Counts in equal bins of [min, max] (of the data if both are equal), in input's type."""
    for bound in (min, max):
        dtypes.of_number(bound)  # (refuses an integer that 64 bits do not hold)
    if input._fl_fake and min < max and math.isfinite(float(max) - float(min)) and input.dtype.category:
        return give(_counts_between(input, bins, float(min), float(max)), out)
    x = input._values("histc()")
    if input.dtype.category == 0:
        raise RuntimeError("histc is not implemented for 'Bool'")
    low, high = (float(x.min()), float(x.max())) if min == max and x.size else (float(min), float(max))
    if low > high:
        raise RuntimeError("max must be larger than min")
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"range of [{low}, {high}] is not finite")
    if low == high:
        low, high = low - 1, high + 1
    v = x.reshape(-1) if x.dtype == np.float32 else x.astype(np.float64).reshape(-1)
    low, high = v.dtype.type(low), v.dtype.type(high)  # all of it in the type of the numbers
    v = v[(v >= low) & (v <= high)]
    if not np.isfinite(high - low):  # the width is no number, half of it is
        v, low, high = v / 2, low / 2, high / 2
    if low == high:  # a number so large that 1 is nothing to it
        at = np.full(v.shape, (bins - 1) // 2)
    else:
        at = np.minimum(((v - low) / (high - low) * bins).astype(np.int64), bins - 1)
    return give(_wrap(np.bincount(at, minlength=bins).astype(x.dtype), input.dtype), out)


def _counts_between(input, bins, low, high):
    """`histc` between bounds that are numbers, as operations of a graph."""
    v = a.cast(reshape(input, (input.numel(),)), dtypes.float32 if input.dtype is dtypes.float32 else dtypes.float64)
    low, high = (float(np.float32(b)) if v.dtype is dtypes.float32 else b for b in (low, high))
    inside = a.logical_and(a.ge(v, low), a.le(v, high))
    at = a.cast(a.mul(a.div(a.sub(a.where(inside, v, low), low), high - low), bins), dtypes.int64)
    counts = creation.zeros(bins, dtype=dtypes.int64, device=input.device)
    return a.cast(scatter_add(counts, 0, a.minimum(at, bins - 1), a.cast(inside, dtypes.int64)), input.dtype)


@public.both
@on_host
def histogram(input, bins, *, range=None, weight=None, density=False, out=None):
    x = input._values("histogram()").reshape(-1)
    edges = bins._values("histogram()") if isinstance(bins, Tensor) else bins
    if range is None and not isinstance(bins, Tensor):
        range = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    counts, found = np.histogram(x, edges, range, density, None if weight is None else weight._values("").reshape(-1))
    return give(Histogram(_wrap(counts.astype(x.dtype), input.dtype), _wrap(found.astype(x.dtype), input.dtype)), out)


@public.small
@public.both
@on_host
@numpy_names
def mode(input, dim=-1, keepdim=False, *, out=None):
    """The most frequent value (of several the smallest), and the last place where it stands."""
    d = dim_of(input, dim)
    x = input._values("mode()")
    x = x.astype(np.float32) if x.dtype.itemsize == 2 and input.dtype.is_floating_point else x
    if not x.ndim:
        return give(Mode(input.clone(), input.new_zeros((), dtype=dtypes.int64)), out)
    if not x.shape[d]:
        raise IndexError(f"mode(): Expected reduction dim {d} to have non-zero size.")
    rows = np.moveaxis(x, d, -1)
    flat = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])
    places = _last_of_most_frequent(flat)
    index = unsqueeze(_wrap(places.reshape(rows.shape[:-1]), dtypes.int64), d)
    values = input.gather(d, index)
    return give(Mode(values, index) if keepdim else Mode(values.squeeze(d), index.squeeze(d)), out)


def _last_of_most_frequent(rows):
    """Per row, the last place of the value that is there most often, of several the smallest; 0 where that is NaN."""
    n = rows.shape[1]
    ordered, steps = np.sort(rows, 1), np.arange(n)
    begins = np.ones(rows.shape, bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    length = steps - np.maximum.accumulate(np.where(begins, steps, 0), 1)  # how many equals stand before each
    values = np.take_along_axis(ordered, length.argmax(1)[:, None], 1)
    found = (rows == values)[:, ::-1]
    return np.where(found.any(1), n - 1 - found.argmax(1), 0)


# -- quantiles and NaN-aware means


def _quantile(input, q, dim, keepdim, interpolation, ignore):
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    number = isinstance(q, (int, float))
    if number and not 0 <= q <= 1:
        raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")
    q = q if isinstance(q, Tensor) else input.new_tensor(q)
    if q.dtype is not input.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if q.ndim > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    d = None if dim is None else dim_of(input, dim)
    if not number:
        check_within(q, 0.0, 1.0, "quantile() q values must be in the range [0, 1]")
    kept = input.ndim
    x = reshape(input, (input.numel(),)) if d is None else input.movedim(d, -1)
    x = x if x.ndim else x.reshape(1)
    ordered = x.sort(-1).values
    counts = a.logical_not(e.isnan(ordered)).sum(-1, keepdim=True)
    n = ordered.shape[-1]
    last = counts - 1 if ignore else counts * 0 + (n - 1)
    at = _mul_last(q, last)
    at = at if ignore else a.where(a.lt(counts, n), (n - 1) * 1.0, at)  # the last NaN, where there is one
    low, high = _places(at, interpolation)
    picked = _pick(ordered, low, high, at, interpolation)
    out = picked.movedim(-1, 0) if q.ndim else picked.squeeze(-1)
    if keepdim and input.ndim:
        out = out.unsqueeze(dim_of(input, dim) + q.ndim) if dim is not None else out.reshape((*out.shape[: q.ndim], *[1] * kept))
    return out


def _mul_last(q, last):
    return a.mul(reshape(q, (q.numel(),)), a.clamp(last, 0, None).to(q.dtype))


def _places(at, interpolation):
    if interpolation == "nearest":
        at = e.round(at)
    low, high = e.floor(at), e.ceil(at)
    return (high if interpolation == "higher" else low).long(), (low if interpolation == "lower" else high).long()


def _pick(ordered, low, high, at, interpolation):
    below, above = ordered.gather(-1, low), ordered.gather(-1, high)
    if interpolation in ("lower", "higher", "nearest"):
        return below
    share = at * 0 + 0.5 if interpolation == "midpoint" else at - low
    return a.lerp(below, above, share)


@public.both
@numpy_names
def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
    return give(_quantile(input, q, dim, keepdim, interpolation, False), out)


@public.both
@numpy_names
def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
    return give(_quantile(input, q, dim, keepdim, interpolation, True), out)


@public.both
@numpy_names
def nanmean(input, dim=None, keepdim=False, *, dtype=None, out=None):
    if input.dtype.category < 2:
        raise RuntimeError(f"nanmean(): expected input to have floating point or complex dtype but got {type_name(input.dtype)}")
    x = _cast(input, dtype)
    dims, valid = dims_of(x, dim), a.logical_not(e.isnan(x))
    total = r.sum(a.where(valid, x, 0.0), dims, keepdim) if x.dtype.is_complex else r.nansum(x, dims, keepdim)
    return give(a.div(total, r.sum(valid, dims, keepdim)), out)


@public.both
@numpy_names
def nanmedian(input, dim=None, keepdim=False, *, out=None):
    """The lower median of what is not NaN."""
    x = reshape(input, (input.numel(),)) if dim is None else input
    d = dim_of(x, 0 if dim is None else dim)
    if x.ndim == 0:
        return give(return_types.nanmedian(x.clone(), creation.zeros((), dtype=dtypes.int64)), out)
    if x.shape[d] == 0:
        if dim is None:
            return give(_median_of_none(x), out)
        raise IndexError(f"median(): Expected reduction dim {d} to have non-zero size.")
    values, indices = x.sort(d)
    counts = a.logical_not(e.isnan(values)).sum(d, keepdim=True)
    at = a.clamp(a.floor_divide(counts - 1, 2), 0, None)
    found = values.gather(d, at), indices.gather(d, at)
    if dim is None:
        return give(found[0].reshape(()), out)
    kind = return_types.nanmedian
    return give(kind(*found) if keepdim else kind(*(t.squeeze(d) for t in found)), out)


# -- correlations


@public.both
def cov(input, *, correction=1, fweights=None, aweights=None):
    """Covariances of the rows."""
    if input.ndim > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    x = x if x.dtype.category >= 2 else x.to(dtypes.get_default_dtype())
    w = None
    for given in (fweights, aweights):
        if given is not None:
            w = given if w is None else w * given
    count = x.shape[1] if w is None else w.sum()
    middle = x.mean(1, keepdim=True) if w is None else ((x * w).sum(1, keepdim=True) / count)
    if correction and aweights is not None:
        freedom = count - correction * (w * aweights).sum() / count
    else:
        freedom = count - correction
    centred = x - middle
    freedom = freedom.clamp(min=0) if isinstance(freedom, Tensor) else builtins.max(freedom, 0)
    other = centred.conj() if x.dtype.is_complex else centred
    product = (centred if w is None else centred * w) @ other.transpose(0, 1)
    return (product / freedom if isinstance(freedom, Tensor) or freedom else product * math.nan).squeeze()


@public.both
def corrcoef(input):
    c = cov(input)
    if not c.ndim:
        return c / c
    scale = e.sqrt(c.diagonal())
    return a.clamp(c / scale.unsqueeze(1) / scale.unsqueeze(0), -1.0, 1.0)


# -- differences and integrals


@public.small
@public.both
@takes_out
def diff(input, n=1, dim=-1, prepend=None, append=None):
    from .shapes import cat

    if n == 0:
        return input.clone()
    d = dim_of(input, dim)
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    parts = [x for x in (prepend, input, append) if x is not None]
    x = cat(parts, d) if len(parts) > 1 else input
    for _ in range(builtins.min(n, x.shape[d])):
        length = x.shape[d] - 1
        high, low = x.narrow(d, 1, length), x.narrow(d, 0, length)
        x = a.logical_xor(high, low) if x.dtype is dtypes.bool else a.sub(high, low)
    return x


@public.function
def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """Central differences inside, one-sided ones of order 1 or 2 at the ends; one tensor per dim."""
    dims = dims_of(input, dim)
    if isinstance(spacing, (int, float)):
        spacing = [spacing] * len(dims)
    return tuple(_gradient(input, step, d, edge_order) for step, d in zip(spacing, dims))


def _gradient(x, step, d, order):
    from .shapes import cat

    n = x.shape[d]
    if n <= order:
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")

    def at(k, length=1):
        return x.narrow(d, k % n, length)

    if isinstance(step, Tensor):
        h = a.sub(step[1:], step[:-1])
        h = h.reshape([-1 if k == d else 1 for k in range(x.ndim)])
    else:
        h = x.new_full([n - 1 if k == d else 1 for k in range(x.ndim)], step)
    left, right = h.narrow(d, 0, n - 2), h.narrow(d, 1, n - 2)
    inner = (
        -right / (left * (left + right)) * at(0, n - 2)
        + (right - left) / (left * right) * at(1, n - 2)
        + left / (right * (left + right)) * at(2, n - 2)
    )
    first, last = h.narrow(d, 0, 1), h.narrow(d, n - 2, 1)
    if order == 1:
        return cat([(at(1) - at(0)) / first, inner, (at(-1) - at(-2)) / last], d)
    second, before = h.narrow(d, 1, 1), h.narrow(d, n - 3, 1)
    start = (
        -(2 * first + second) / (first * (first + second)) * at(0)
        + (first + second) / (first * second) * at(1)
        - first / (second * (first + second)) * at(2)
    )
    end = (
        last / (before * (before + last)) * at(-3)
        - (last + before) / (before * last) * at(-2)
        + (2 * last + before) / (last * (before + last)) * at(-1)
    )
    return cat([start, inner, end], d)


def _steps(y, x, dx, d):
    n = y.shape[d]
    if x is None:
        return 1 if dx is None else dx
    step = a.sub(x.narrow(-1, 1, x.shape[-1] - 1), x.narrow(-1, 0, x.shape[-1] - 1)) if x.ndim == 1 else diff(x, dim=d)
    return step.reshape([n - 1 if k == d else 1 for k in range(y.ndim)]) if x.ndim == 1 else step


def _trapezoids(name, y, x, dx, dim):
    if dtypes.bool in (y.dtype, y.dtype if x is None else x.dtype):
        raise RuntimeError(f"{name}: received a bool input for `{'y' if x is None else 'x` or `y'}`, but bool is not supported")
    d = dim_of(y, dim)
    n = y.shape[d]
    return a.mul(a.mul(a.add(y.narrow(d, 1, n - 1), y.narrow(d, 0, n - 1)), _steps(y, x, dx, d)), 0.5), d


@public.function
def trapezoid(y, x=None, *, dx=None, dim=-1):
    if y.shape[dim_of(y, dim)] == 0:
        return y.sum(dim)
    parts, d = _trapezoids("trapezoid", y, x, dx, dim)
    return parts.sum(d)


trapz = trapezoid


@public.function
def cumulative_trapezoid(y, x=None, *, dx=None, dim=-1):
    parts, d = _trapezoids("cumulative_trapezoid", y, x, dx, dim)
    return parts.cumsum(d)


@public.both
@public.in_place
@takes_out
def renorm(input, p, dim, maxnorm):
    """Slices along dim whose p-norm exceeds maxnorm are scaled down to it."""
    if input.dtype.category < 2:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {type_name(input.dtype)}"
        )
    dtypes.of_number(p)  # (refuses an integer that 64 bits do not hold)
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    d = dim_of(input, dim)
    rest = tuple(k for k in range(input.ndim) if k != d)
    x = single(input)
    norm = reductions._norm_over(
        a.cast(x, dtypes.complex128 if x.dtype.is_complex else dtypes.float64) if x is input else x, float(p), rest, True
    )
    over = a.gt(norm, maxnorm)  # (others take no part, in gradients either)
    scale = a.where(over, a.div(maxnorm, a.add(a.where(over, norm, 1.0), 1e-7)), 1.0)
    return back(a.mul(x, a.cast(scale, x.dtype.to_real())), input)


@public.both
def is_nonzero(input):
    if input.numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {'no values' if not input.numel() else 'more than one value'} is ambiguous"
        )
    return bool(input.item())


@public.both
def msort(input, *, out=None):
    return give(input.sort(0).values, out)


public.each(globals(), both="cummax cummin", function="trapz")
public.methods(cumprod_=reductions._in_place(cumprod))
