"""The operators that PyTorch's layers are written with, under their names: arguments by position, modes as numbers, and
what a backward would need among the results."""

import math
from typing import Any

import numpy as np

from .. import dtypes, return_types
from ..dispatch import type_name
from ..ops import activations as act, batch_norm, normalization
from ..ops.checks import check_within
from ..ops.random import keep_mask
from ..sizes import numel
from ..tensor import Tensor
from . import activations, composition, channel_norm, convolution as convolutions, creation, dropout, embedding, image_ops, linalg
from . import padding, reductions, shapes
from .arguments import dim_of, size_of, sizes_of, takes_out
from .host_fallback import on_host

HistogramDD = return_types.histogramdd


# -- embeddings

_BAG_MODES = ("sum", "mean", "max")


def embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """(bags, the bag of each index, the sizes of the bags, which row gave each maximum); sums have neither sizes nor rows,
    and, where they need no look at single indices, no bags of indices."""
    if mode not in (0, 1, 2):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    if per_sample_weights is not None and mode:
        raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    name = _BAG_MODES[mode]
    found = embedding.embedding_bag(
        indices, weight, offsets, None, 2, scale_grad_by_freq, name, sparse, per_sample_weights, include_last_offset, padding_idx
    )
    flat, bag, count = embedding.bags(indices, offsets, include_last_offset)
    zeros = bag.new_zeros((count,))
    if mode == 0:
        skipped = weight.dtype is not dtypes.float64 and padding_idx is None
        return found, bag.new_empty((0,)) if skipped else bag, zeros, zeros.clone()
    padding = embedding.padding_row(padding_idx, weight)
    kept = flat != padding
    sizes = zeros.index_add(0, bag, kept.long())
    if mode == 1:
        return found, bag, sizes, sizes.clone()
    return found, bag, sizes, embedding.winners(weight.detach(), indices, offsets, include_last_offset, padding)


def embedding_renorm_(input, indices, max_norm, norm_type):
    """Scales the rows that are looked up down, in place, to the largest norm allowed."""
    embedding.renorm(input, embedding.checked_indices(indices, "embedding_renorm_"), max_norm, norm_type)
    return input


# -- convolutions, padding, grids


def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """The dims of `weight` say how many are spatial; one number stands for all of them."""
    n = weight.ndim - 2
    if n not in (1, 2, 3):
        raise RuntimeError(f"convolution: expected a weight of 3 to 5 dimensions, but got weight of size {list(weight.shape)}")
    if input.ndim != weight.ndim:
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight "
            f"{list(weight.shape)}, but got {input.ndim}-dimensional input of size {list(input.shape)} instead"
        )
    stride, padding, dilation = (tuple(map(size_of, v)) for v in (stride, padding, dilation))
    if not transposed:
        return getattr(convolutions, f"conv{n}d")(input, weight, bias, stride, padding, dilation, groups)
    return getattr(convolutions, f"conv_transpose{n}d")(
        input, weight, bias, stride, padding, tuple(map(size_of, output_padding)), groups, dilation
    )


def conv_tbc(input, weight, bias, pad=0):
    """A convolution over (time, batch, channel) with weights (time, in, out)."""
    if input.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.ndim != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    return convolutions.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad).permute(2, 0, 1)


@takes_out
def constant_pad_nd(input, pad, value=0):
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    return padding.pad(input, tuple(pad), "constant", value)


_GRID_MODES, _GRID_PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    for what, value, names in (
        ("interpolation_mode", interpolation_mode, _GRID_MODES),
        ("padding_mode", padding_mode, _GRID_PADDINGS),
    ):
        if value not in range(len(names)):
            raise RuntimeError(f"grid_sampler(): {what} must be one of {dict(enumerate(names))}, but got {value}")
    return image_ops.grid_sample(input, grid, _GRID_MODES[interpolation_mode], _GRID_PADDINGS[padding_mode], bool(align_corners))


def _sampler(n):
    def function(input, grid, interpolation_mode, padding_mode, align_corners):
        if grid.shape[-1] == input.ndim - 2 and input.ndim != n + 2:
            raise RuntimeError(
                f"grid_sampler_{n}d(): expected {n + 2}D input and grid with same number of dimensions, but got "
                f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
            )
        return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)

    function.__name__ = function.__qualname__ = f"grid_sampler_{n}d"
    return function


grid_sampler_2d, grid_sampler_3d = _sampler(2), _sampler(3)


@takes_out
def affine_grid_generator(theta, size, align_corners):
    return image_ops.affine_grid(theta, size, bool(align_corners))


# -- normalisation: (values, mean, 1 / deviation)


def _found(out, mean, rstd, shape):
    return out, *(t.detach().to(out.dtype).reshape(shape) for t in (mean, rstd))


def native_layer_norm(input, normalized_shape, weight, bias, eps):
    sizes = sizes_of((normalized_shape,))
    n = len(sizes)
    if not n or tuple(input.shape[-n:]) != sizes:
        raise RuntimeError(
            f"Given normalized_shape={list(sizes)}, expected input with shape [*, {', '.join(map(str, sizes))}], "
            f"but got input of size{list(input.shape)}"
        )
    out, mean, rstd = normalization.layer_norm(input, n, weight, bias, eps)
    return _found(out, mean, rstd, (*input.shape[:-n], *(1,) * n))


def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    if C % group:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={group}"
        )
    if input.numel() != N * C * HxW:
        raise RuntimeError(f"native_group_norm: input of size {list(input.shape)} has not N * C * HxW = {N * C * HxW} elements")
    out = batch_norm.group_norm(input.reshape(N, C, HxW), group, weight, bias, eps)[0]
    var, mean = reductions.var_mean(input.to(input.dtype.compute).reshape(N, group, -1), 2, correction=0)
    return out.reshape(input.shape), mean.to(input.dtype), (var + eps).rsqrt().to(input.dtype)  # (all differentiable)


def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """Not in training the moments are of no elements."""
    if not training:
        out = channel_norm.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
        return out, input.new_empty((0,)), input.new_empty((0,))
    out, mean, var = channel_norm.batch_norm_with_moments(input, running_mean, running_var, weight, bias, momentum, eps)
    return _found(out, mean, (var + eps).rsqrt(), (input.shape[1],))


# -- dropout and activations


def native_dropout(input, p, train):
    """(values, what was kept); `train=None` means True."""
    if train is not None and not train:
        return input.clone(), creation.ones_like(input, dtype=dtypes.bool)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={1 - p:g}")
    if not input.is_floating_point() and not input.is_complex():
        raise RuntimeError(f"result type Float can't be cast to the desired output type {type_name(input.dtype)}")
    kept = keep_mask(tuple(input.shape), p, input.device)
    return input * kept.to(input.dtype) * (0.0 if p == 1 else 1.0 / (1.0 - p)), kept


def alpha_dropout_(input, p, train):
    return dropout.alpha_dropout(input, p, train, True)


def feature_alpha_dropout_(input, p, train):
    return dropout.feature_alpha_dropout(input, p, train, True)


def feature_dropout_(input, p, train):
    return dropout.dropout2d(input, p, train, True)


def celu_(input, alpha=1.0):
    return activations.celu_(input, alpha)


def threshold_(input, threshold, value):
    return act.threshold.inplace(input, threshold, value)


def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    return activations.rrelu_(input, lower, upper, training)


# -- norms


@takes_out
def frobenius_norm(input, dim, keepdim=False):
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dims)} dimensions instead.")
    return linalg.vector_norm(input, 2, dims or None, keepdim)


@takes_out
def nuclear_norm(input, *args, dim=None, keepdim=False):
    """nuclear_norm(input, keepdim) of the last two dims, or nuclear_norm(input, dim, keepdim)."""
    if args and not isinstance(args[0], bool):
        dim, args = args[0], args[1:]
    keepdim = args[0] if args else keepdim
    return linalg.matrix_norm(input, "nuc", (-2, -1) if dim is None else tuple(dim), keepdim)


def norm_except_dim(v, pow=2, dim=0):
    """The norms of the slices along a dim, which is kept as the others are; -1: of all elements."""
    if dim == -1:
        return linalg.vector_norm(v, pow)
    kept = dim_of(v, dim)
    return linalg.vector_norm(v, pow, tuple(d for d in range(v.ndim) if d != kept) or (0,), True)


# -- positions, memory, histograms


@takes_out
def nonzero_static(input, *, size, fill_value=-1):
    """The positions of the first `size` elements that are not zero, in rows; rows that are left over have `fill_value`."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    shape, count = tuple(input.shape), input.numel()
    mask = (input != 0).reshape(-1)
    place = mask.long().cumsum(0) - 1
    place = place.masked_fill(~mask, size).clamp(max=size)
    flat = creation.full((size + 1,), count, dtype=dtypes.int64, device=input.device)
    flat = flat.scatter(0, place, creation.arange(count, device=input.device)).narrow(0, 0, size)
    columns, rest = [], flat
    for d in range(len(shape)):
        step = numel(shape[d + 1 :])
        columns.append(rest // max(step, 1))
        rest = rest % max(step, 1)
    if not columns:
        return input.new_empty((size, 0), dtype=dtypes.int64)
    return shapes.stack(columns, 1).masked_fill((flat == count).unsqueeze(1), fill_value)


def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """Uninitialised memory in which the dims lie in the order of `physical_layout`, outermost first."""
    size, order = sizes_of((size,)), tuple(physical_layout)
    if len(size) != len(order):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(size)} is not equal to len(physical_layout) = {len(order)}"
        )
    if any(not 0 <= d < len(size) for d in order):
        bad = next(d for d in order if not 0 <= d < len(size))
        raise RuntimeError(
            f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {bad} at index "
            f"{order.index(bad)}).  NB: negative dims not currently supported; file an issue if you want it."
        )
    if len(set(order)) != len(order):
        raise RuntimeError("Duplicate dim not allowed")
    strides, step = [0] * len(size), 1
    for d in reversed(order):
        strides[d] = step
        step *= size[d] if type(size[d]) is not int else max(size[d], 1)
    return creation.empty_strided(
        size, tuple(strides), dtype=dtype, device=device, requires_grad=requires_grad, layout=layout, pin_memory=pin_memory
    )


@on_host
def histogramdd(input, bins, range=None, weight=None, density=False):
    """Counts of rows of the last dim in boxes: `bins` is their number, numbers per column, or edges per column."""
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    if not input.is_floating_point():
        raise NotImplementedError(f'"histogramdd" not implemented for {type_name(input.dtype)!r}')
    n = input.shape[-1]
    bins = [bins] * n if isinstance(bins, int) else list(bins)
    if len(bins) != n:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    if range is not None and len(range) != 2 * n:
        raise RuntimeError(
            f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} elements, but got {len(range)}"
        )
    x = input._values("histogramdd()")
    rows = x.reshape(-1, n)
    edges = [_edges(k, rows[:, k], bins[k], None if range is None else range[2 * k : 2 * k + 2], x.dtype) for k in np.arange(n)]
    weights = None if weight is None else weight._values("histogramdd()").reshape(-1)
    counts, _ = np.histogramdd(rows, edges, density=density, weights=weights)
    return HistogramDD(
        Tensor._fl_from_array(counts.astype(x.dtype), input.dtype), tuple(Tensor._fl_from_array(e, input.dtype) for e in edges)
    )


def _edges(k, column, bins, bounds, dtype):
    if isinstance(bins, Tensor):
        return bins._values("histogramdd()").astype(dtype)
    if bins <= 0:
        raise RuntimeError(f"torch.histogramdd(): bins must be > 0, but got {bins} for dimension {k}")
    low, high = bounds if bounds is not None else (column.min(), column.max()) if column.size else (0.0, 1.0)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension {k}'s range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension {k}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1).astype(dtype)


# -- reductions of segments

_SEGMENTS = {"sum": "sum", "mean": "mean", "prod": "prod", "max": "amax", "amax": "amax", "min": "amin", "amin": "amin"}
_STARTS = {"sum": 0, "mean": math.nan, "prod": 1, "amax": -math.inf, "amin": math.inf}


@takes_out
def segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Neighbours along `axis` reduced in segments of given `lengths` or between `offsets`. Dims before `axis` have segments of
    their own; what no element goes to is `initial`, or the reduction's value for nothing."""
    if reduce not in _SEGMENTS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    kind = _SEGMENTS[reduce]
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if not data.is_floating_point():
        raise NotImplementedError(f'"_segment_reduce_cpu" not implemented for {type_name(data.dtype)!r}')
    axis = dim_of(data, axis)
    given: Any = lengths if lengths is not None else offsets
    if given.ndim - 1 != axis:
        what = "lengths" if lengths is not None else "offsets"
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of {what} but got {axis}.")
    sizes = lengths if lengths is not None else given.diff(dim=-1)
    if not unsafe:
        check_within(sizes, 0, None, "lengths contains negative value!")
        if lengths is not None:
            n = data.shape[axis]
            check_within(
                sizes.sum(-1),
                n,
                n,
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.",
            )
    segment = _segments(sizes.long(), data.shape[axis])
    return _reduced_segments(data, kind, axis, sizes, segment, initial)


def _segments(sizes, length):
    """Of each place along the last dim the segment in which it lies; one past the last for what is in none."""
    ends = sizes.cumsum(-1)
    places = creation.arange(length, device=sizes.device)
    return (places.unsqueeze(-1) >= ends.unsqueeze(-2)).long().sum(-1)


def _reduced_segments(data, kind, axis, sizes, segment, initial):
    count, rest = sizes.shape[-1], data.ndim - axis - 1
    shape = (*data.shape[:axis], count + 1, *data.shape[axis + 1 :])
    index = segment.reshape((*segment.shape, *(1,) * rest)).expand(data.shape)
    base = data.new_full(shape, 0.0 if initial is None else initial)
    if kind in ("sum", "mean"):
        out = base.scatter_add(axis, index, data)
    else:
        out = composition.scatter_reduce(base, axis, index, data, kind, include_self=initial is not None)
    out, counts = out.narrow(axis, 0, count), sizes.reshape((*sizes.shape, *(1,) * rest))
    if kind == "mean":
        out = out / counts.clamp(min=1).to(data.dtype)
    return out if initial is not None else out.masked_fill(counts == 0, _STARTS[kind])


def cudnn_is_acceptable(tensor):
    """There is no cuDNN."""
    return False


FUNCTIONS = {
    f.__name__: f
    for f in (
        embedding_bag,
        embedding_renorm_,
        convolution,
        conv_tbc,
        constant_pad_nd,
        grid_sampler,
        grid_sampler_2d,
        grid_sampler_3d,
        affine_grid_generator,
        native_layer_norm,
        native_group_norm,
        native_batch_norm,
        native_dropout,
        alpha_dropout_,
        feature_alpha_dropout_,
        feature_dropout_,
        celu_,
        threshold_,
        rrelu_,
        frobenius_norm,
        nuclear_norm,
        norm_except_dim,
        nonzero_static,
        empty_permuted,
        histogramdd,
        segment_reduce,
        cudnn_is_acceptable,
    )
}
