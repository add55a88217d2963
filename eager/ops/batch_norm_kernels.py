"""Kernels of normalisation per channel on arrays (N, C, ...): moments, sums, and affine maps.

In: arrays, row-major or with channels last (the native kernels), or any (numpy). Out: arrays in the memory order of the
input. `NotImplemented`: not eligible, numpy or the decomposition takes over.
"""

import numpy as np

from ...runtime import kernels
from .image_layout import array_is_last, empty_image, ordered


def widened(x):
    """x in the type in which it is computed."""
    return x if x.dtype.itemsize >= 4 else x.astype(np.float32)


def column(v, x):
    return v.reshape((1, -1) + (1,) * (x.ndim - 2))


def numpy_normalised(y, mean, var, weight, bias, eps, dtype):
    scale = 1 / np.sqrt(widened(var) + np.float32(eps))
    scale = scale if weight is None else scale * weight
    out = (y - column(mean, y)) * column(scale, y).astype(y.dtype, copy=False)
    if bias is not None:
        out += column(bias, y)
    return ordered(out.astype(dtype, copy=False), y)


# -- native: values per channel in the computation type


def layout(x, *others):
    """ "planes" or "last" where the kernels know x's memory order and type and the others share both; else None."""
    if x.dtype not in kernels.TYPES or not x.size or any(a.dtype != x.dtype for a in others):
        return None
    arrays = (x, *others)
    if all(a.flags.c_contiguous and a.flags.aligned for a in arrays):
        return "last" if x.ndim == 2 else "planes"
    return "last" if all(array_is_last(a) for a in arrays) else None


def matched(g, x):
    """g in the memory order of x: gradients also come expanded."""
    if g.strides == x.strides or layout(x) is None:
        return g
    return np.ascontiguousarray(g) if x.flags.c_contiguous else ordered(g, x)


def _planes(x):
    batch, channels = x.shape[:2]
    return batch, channels, x.size // (batch * channels)


def _rows(x):
    """Rows, channels, rows in a chunk, chunks."""
    channels = x.shape[1]
    rows = x.size // channels
    step = max(1, min(rows, (1 << 15) // channels))
    return rows, channels, step, -(-rows // step)


def _vectors(count, dtype, *shape):
    return tuple(np.empty(shape, kernels.computation(dtype)) for _ in range(count))


def moments(x):
    """Mean and biased variance per channel."""
    order = layout(x)
    if order is None:
        return NotImplemented
    if order == "planes":
        n = _planes(x)
        mean, var = _vectors(2, x.dtype, n[1])
        kernels.run("moments_planes", x.dtype, n[1], kernels.grain_of(n[0] * n[2]), (mean, var, x), n)
        return mean, var
    rows, channels, step, chunks = _rows(x)
    means, squares = _vectors(2, x.dtype, chunks, channels)
    kernels.run("moments_last", x.dtype, chunks, 1, (means, squares, x), (rows, channels, step))
    return _merged(means, squares, rows, step, chunks)


def _merged(means, squares, rows, step, chunks):
    """The moments of all chunks together."""
    kind = means.dtype
    if chunks == 1:
        return means[0], squares[0] / kind.type(rows)
    counts = np.full((chunks, 1), step, np.float64)
    counts[-1] = rows - (chunks - 1) * step
    mean = (means * counts).sum(0) / rows
    var = (squares.sum(0, dtype=np.float64) + (np.square(means - mean) * counts).sum(0)) / rows
    return mean.astype(kind), var.astype(kind)


def sums(g, x, mean):
    """Per channel: the sum of g, and that of g * (x - mean)."""
    order = layout(x, g)
    kind = kernels.computation(x.dtype) if order else None
    if order is None or mean.dtype != kind:
        return NotImplemented
    mean = np.ascontiguousarray(mean)
    if order == "planes":
        n = _planes(x)
        total, along = _vectors(2, x.dtype, n[1])
        kernels.run("sums_planes", x.dtype, n[1], kernels.grain_of(n[0] * n[2]), (total, along, g, x, mean), n)
        return total, along
    rows, channels, step, chunks = _rows(x)
    total, along = _vectors(2, x.dtype, chunks, channels)
    kernels.run("sums_last", x.dtype, chunks, 1, (total, along, g, x, mean), (rows, channels, step))
    if chunks == 1:
        return total[0], along[0]
    return tuple(a.sum(0, dtype=np.float64).astype(kind) for a in (total, along))


def affine(x, mean, scale, shift, g=None, slope=None):
    """(x - mean) * scale + shift, or with g: g * scale + (x - mean) * slope + shift."""
    order = layout(x) if g is None else layout(x, g)
    if order is None:
        return NotImplemented
    kind = kernels.computation(x.dtype)
    vectors = [None if v is None else np.ascontiguousarray(v, kind) for v in (mean, scale, shift, slope)]
    out = empty_image(x, x.shape) if array_is_last(x) else kernels.empty(x.shape, x.dtype)
    arrays = (out, x, *vectors[:3], g, vectors[3])
    if order == "planes":
        batch, channels, size = _planes(x)
        kernels.run("affine_planes", x.dtype, batch * channels, kernels.grain_of(size), arrays, (size, channels))
    else:
        channels = x.shape[1]
        kernels.run("affine_last", x.dtype, x.size // channels, kernels.grain_of(channels), arrays, (channels,))
    return out


def normalised(x, mean, var, weight, bias, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias."""
    if layout(x) is None:
        return NotImplemented
    rstd = inverse_deviation(var, eps)
    scale = rstd if weight is None else rstd * weight
    centre, shift = line(mean, rstd, scale, 0.0 if bias is None else bias)
    return affine(x, centre, scale, shift)


def inverse_deviation(var, eps):
    """1 / sqrt(var + eps) in float64: factors per channel are rounded once, when the kernels take them."""
    return 1 / np.sqrt(var.astype(np.float64) + eps)


def line(mean, rstd, slope, shift):
    """Centre and offset for (x - mean) * slope + shift. x - mean is rounded once more than x, so the mean goes into the
    offset, but where it is beyond one deviation: there the offset would be large and lose more."""
    near = np.where(np.abs(mean) * rstd > 1, 0.0, mean)
    return mean - near, shift - near * slope


def group_norm_last(x, groups, weight, bias, eps):
    """Group norm of images with the channels last: moments per (sample, channel), merged within groups."""
    if not x.size or not array_is_last(x) or x.dtype not in kernels.TYPES:
        return NotImplemented
    n, channels = x.shape[:2]
    size = x.size // (n * channels)
    means, squares = _vectors(2, x.dtype, n, channels)
    kernels.run("moments_last", x.dtype, n, 1, (means, squares, x), (n * size, channels, size))
    grouped = means.reshape(n, groups, -1)
    mean = grouped.mean(2)
    spread = np.square(grouped - mean[..., None]).mean(2)
    var = squares.reshape(grouped.shape).mean(2) / means.dtype.type(size) + spread
    out, each = empty_image(x, x.shape), channels // groups
    middle, rstd = np.repeat(mean, each, 1), np.repeat(inverse_deviation(var, eps), each, 1)
    scale = rstd if weight is None else rstd * weight
    vectors = (*line(middle, rstd, scale, 0.0 if bias is None else bias), scale)
    centre, shift, scale = (np.ascontiguousarray(v, means.dtype) for v in vectors)
    for k in range(n):
        arrays = (out[k], x[k], centre[k], scale[k], shift[k])
        kernels.run("affine_last", x.dtype, size, kernels.grain_of(channels), arrays, (channels,))
    return out, mean, var
