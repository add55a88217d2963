"""interpolate and upsample: sizes from sizes or factors, one resampling per dim."""

import math
import warnings

from .. import dtypes
from ..dispatch import small, type_name
from ..ops import resampling as records
from ..sizes import SymInt, is_int
from .arguments import size_of
from .pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

_KINDS = {"linear": (3, "linear"), "bilinear": (4, "linear"), "trilinear": (5, "linear"), "bicubic": (4, "cubic")}
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
_POOLS = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}


def interpolate(
    input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False
):
    """Resizes the spatial dims of (N, C, ...) to `size`, or by `scale_factor`."""
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
            )
    align = bool(align_corners)
    sizes, factors = _target(input, size, scale_factor, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode == "lanczos" and not antialias:
        raise ValueError("lanczos interpolation is only supported with antialias=True")
    _check_mode(input, mode)
    _check_sizes(input, sizes)
    if mode == "area":
        return _POOLS[input.ndim](input, sizes)
    if mode in ("nearest", "nearest-exact"):
        return _nearest(input, sizes, factors, mode == "nearest-exact")
    return _smooth(input, sizes, factors, "lanczos" if mode == "lanczos" else _KINDS[mode][1], align, antialias)


def _target(input, size, scale_factor, recompute):
    """(sizes, factors or Nones): a factor counts in the formulas only if it was given and is not to be recomputed."""
    spatial = tuple(input.shape)[2:]
    n = len(spatial)
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return _sizes(size, spatial), (None,) * n
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if isinstance(scale_factor, (list, tuple)):
        if len(scale_factor) != n:
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got input with "
                f"spatial dimensions of {list(spatial)} and scale_factor of shape {tuple(scale_factor)}. "
                "Please provide input tensor in (N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, "
                "...,sK) format."
            )
        factors = tuple(map(float, scale_factor))
    else:
        factors = (float(scale_factor),) * n
    sizes = tuple(_scaled(m, f) for m, f in zip(spatial, factors))
    return sizes, (None,) * n if recompute else factors


def _scaled(n, factor):
    """floor(n * factor); whole factors keep symbolic sizes."""
    if isinstance(n, SymInt) and factor.is_integer():
        return n * int(factor)
    if isinstance(n, SymInt) and factor > 0 and (1 / factor).is_integer():
        return n // int(1 / factor)
    return math.floor(float(n) * factor)


def _sizes(size, spatial):
    if not isinstance(size, (list, tuple)):
        return (_whole(size),) * len(spatial)
    if len(size) != len(spatial):
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {list(spatial)} and output size of {size}. Please provide input tensor in (N, "
            "C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format."
        )
    return tuple(map(_whole, size))


def _whole(n):
    if not is_int(n) and isinstance(n, float):
        raise TypeError(f"interpolate(): sizes must be ints, but got {n}")
    return size_of(n)


def _check_mode(input, mode):
    ranks = {"nearest": (3, 4, 5), "nearest-exact": (3, 4, 5), "area": (3, 4, 5), "lanczos": (4,)}.get(mode)
    if mode in ("linear", "bilinear", "trilinear") and input.ndim in (3, 4, 5):
        wanted = _KINDS[mode][0]
        if input.ndim != wanted:
            raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {wanted}D input")
        return
    if mode == "bicubic":
        ranks = (4,)
    if ranks is None or input.ndim not in ranks:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: {_MODES} (got {mode})"
        )


def _check_sizes(input, sizes):
    spatial = tuple(input.shape)[2:]
    if any(type(m) is int and m <= 0 for m in spatial + sizes):
        names = "DHW"[-len(sizes) :]
        shown = [", ".join(f"{c}: {m}" for c, m in zip(names, group)) for group in (spatial, sizes)]
        raise RuntimeError(f"Input and output sizes should be greater than 0, but got input ({shown[0]}) output ({shown[1]})")
    if type(input.shape[1]) is int and input.shape[1] == 0:
        raise RuntimeError(f"Non-empty {input.ndim}D data tensor expected but got a tensor with sizes {list(input.shape)}")
    if not input.dtype.is_floating_point and input.dtype is not dtypes.uint8:
        raise NotImplementedError(f'"upsample" not implemented for {type_name(input.dtype)!r}')


def _same(n, size):
    return n is size or (type(n) is int and type(size) is int and n == size)


def _nearest(input, sizes, factors, exact):
    out = input
    for d, (size, factor) in enumerate(zip(sizes, factors), 2):
        scale = None if factor is None else 1.0 / factor
        if not _same(out.shape[d], size) or (scale is not None and scale != 1.0):
            out = records.nearest(out, d, size, scale, exact)
    return out.clone() if out is input else out


def _smooth(input, sizes, factors, kind, align, antialias):
    if not input.dtype.is_floating_point:
        found = _smooth(input.float(), sizes, factors, kind, align, antialias)
        return (found + 0.5).floor().clamp(0, 255).to(input.dtype)
    out = input if input.dtype.compute is input.dtype else input.to(input.dtype.compute)
    for d, (size, factor) in enumerate(zip(sizes, factors), 2):
        scale = None if factor is None or align else 1.0 / factor
        if _same(out.shape[d], size) and (scale is None or scale == 1.0):
            continue
        if antialias and scale is None and out.shape[d] == size:  # one tap each
            continue
        if antialias:
            out = records.resample_filtered(out, d, size, kind, scale, align)
        else:
            out = records.resample(out, d, size, kind, scale, align)
    return out.clone() if out is input else out.to(input.dtype)


interpolate = small("interpolate", interpolate)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    warnings.warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    warnings.warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, "trilinear" if input.ndim == 5 else "bilinear", True)
