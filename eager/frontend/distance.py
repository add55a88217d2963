"""Distances and products of pairs: pairwise_distance, cdist, pdist, bilinear; local response norm."""

import math

import numpy as np

from .. import dtypes
from ..dispatch import small
from ..ops.arithmetic import still, where
from ..op.op import specialise
from ..ops.distances import pair_distances, row_distance
from ..ops.products import matmul
from ..sizes import numel
from .pooling import avg_pool2d, avg_pool3d
from .padding import pad


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps over the last dim."""
    if p == 2 and not keepdim and side_by_side(x1, x2) and type(x1.shape[-1]) is int and x1.shape[-1] > 1:
        return row_distance(x1, x2, eps)
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


def side_by_side(x1, x2):
    """Tensors of one shape and one type that needs no wider one for sums."""
    return x1.dtype is x2.dtype and x1.dtype in (dtypes.float32, dtypes.float64) and x1.ndim > 0 and x1.shape == x2.shape


pairwise_distance = small("pairwise_distance", pairwise_distance, specialise(row_distance))


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """Distances of all rows: (..., P, M) and (..., R, M) to (..., P, R)."""
    if not x1.is_floating_point() or not x2.is_floating_point():
        raise RuntimeError("cdist only supports floating-point dtypes")
    if x1.ndim < 2 or x2.ndim < 2:
        raise RuntimeError(
            f"cdist only supports at least 2D tensors, X1 got: {x1.ndim}D"
            if x1.ndim < 2
            else f"cdist only supports at least 2D tensors, X2 got: {x2.ndim}D"
        )
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    modes = {"use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": True, "donot_use_mm_for_euclid_dist": False}
    if compute_mode not in modes:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    product = modes[compute_mode]
    if product is None:
        product = x1.shape[-2] > 25 or x2.shape[-2] > 25
    if p == 2 and product:
        return _euclidean(x1, x2)
    return _length(x1.unsqueeze(-2) - x2.unsqueeze(-3), float(p))


cdist = small("cdist", cdist)


def _euclidean(x1, x2):
    """By |a|**2 + |b|**2 - 2 a b; the gradient at distance zero is zero."""
    square = (x1 * x1).sum(-1, keepdim=True) + (x2 * x2).sum(-1, keepdim=True).transpose(-1, -2)
    square = square - matmul(x1, x2.transpose(-1, -2)) * 2
    apart = square > 0
    return where(apart, where(apart, square, 1.0).sqrt(), 0.0)


def pdist(input, p=2.0):
    """Distances of all pairs of rows of (N, M), above the diagonal row by row."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if p == 2:
        return pair_distances(input)
    n = input.shape[0]
    first, second = (input.new_tensor(k, dtype=dtypes.int64) for k in np.triu_indices(n, 1))
    return _length(input.index_select(0, first) - input.index_select(0, second), float(p))


pdist = small("pdist", pdist)


def _length(apart, p):
    """The norm over the last dim. Of equal largest parts each has the whole gradient, as PyTorch's distances have it."""
    if p != math.inf or not apart.shape[-1]:
        return apart.norm(p, -1)
    largest = apart.detach().abs().amax(-1, keepdim=True)
    slope = where(apart.detach().abs() == largest, apart.detach().sign(), 0.0)
    return largest.squeeze(-1) + (still(apart) * slope).sum(-1)


def bilinear(input1, input2, weight, bias=None):
    """out[..., k] = sum over i, j of input1[..., i] * weight[k, i, j] * input2[..., j] + bias[k]."""
    if tuple(input1.shape[:-1]) != tuple(input2.shape[:-1]):
        raise RuntimeError(f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and {list(input2.shape)}")
    for k, x in ((1, input1), (2, input2)):
        if x.shape[-1] != weight.shape[k]:
            raise RuntimeError(
                f"bilinear(): input{k} size does not match weight size: got {x.shape[-1]} but expected {weight.shape[k]}"
            )
    lead, (outputs, n, m) = tuple(input1.shape[:-1]), weight.shape
    rows = numel(lead)
    left = matmul(input1.reshape(rows, n), weight.permute(1, 0, 2).reshape(n, outputs * m)).reshape(rows, outputs, m)
    out = (left * input2.reshape(rows, 1, m)).sum(-1).reshape(*lead, outputs)
    return out if bias is None else out + bias


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha * mean of the squares of `size` neighbouring channels) ** beta."""
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {input.ndim} dimensions)")
    if input.numel() == 0:
        return input
    shape, square = tuple(input.shape), (input * input).unsqueeze(1)
    sides = (size // 2, (size - 1) // 2)
    if input.ndim == 3:
        mean = avg_pool2d(pad(square, (0, 0, *sides)), (size, 1), stride=1).squeeze(1)
    else:
        square = square.reshape(shape[0], 1, shape[1], shape[2], -1)
        mean = avg_pool3d(pad(square, (0, 0, 0, 0, *sides)), (size, 1, 1), stride=1).squeeze(1).reshape(shape)
    return input / (mean * alpha + k).pow(beta)
