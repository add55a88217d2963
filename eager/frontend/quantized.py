"""Products of small types with scales, and numbers as a quantized tensor would hold them.

In: float8 or int8 matrices, or floating tensors. Out: tensors of ordinary types; there are no quantized tensors here.
"""

from .. import dtypes
from ..ops import arithmetic as a
from ..ops.elementary import round
from ..tensor import Tensor
from . import public
from .arguments import dim_of, give

_FLOAT8 = (dtypes.float8_e4m3fn, dtypes.float8_e5m2)
_LARGEST = {dtypes.float8_e4m3fn: 448.0, dtypes.float8_e5m2: 57344.0}


def _check_matrices(x, y):
    for t, name in ((x, "mat1"), (y, "mat2")):
        if t.dim() != 2:
            raise RuntimeError(f"{name} must be a matrix")
    if x.shape[1] != y.shape[0]:
        raise RuntimeError(
            f"mat_a and mat_b shapes cannot be multiplied ({x.shape[0]}x{x.shape[1]} and {y.shape[0]}x{y.shape[1]})"
        )


def _check_scales(x, y, scale_a, scale_b):
    tensorwise = scale_a.numel() == scale_b.numel() == 1
    rowwise = (tuple(scale_a.shape), tuple(scale_b.shape)) == ((x.shape[0], 1), (1, y.shape[1]))
    types = x.dtype in _FLOAT8 and y.dtype in _FLOAT8 and scale_a.dtype is scale_b.dtype is dtypes.float32
    if not types or not (tensorwise or rowwise):
        raise ValueError(
            f"Invalid scaling configuration. a and b should be float8, scales float32: singletons, or of shapes "
            f"({x.shape[0]}, 1) and (1, {y.shape[1]}). Got {x.dtype}, {y.dtype}, {scale_a.dtype} "
            f"{tuple(scale_a.shape)}, {scale_b.dtype} {tuple(scale_b.shape)}"
        )


def _scaled_mm(input, mat2, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False, *, out=None):
    """(input * scale_a) @ (mat2 * scale_b) + bias of float8 matrices, computed in float32; a float8 result is divided by
    `scale_result` and held within its range. `use_fast_accum` is about hardware's sums: the result has all digits anyway."""
    _check_matrices(input, mat2)
    _check_scales(input, mat2, scale_a, scale_b)
    out_dtype = input.dtype if out_dtype is None else out_dtype
    scale_a, scale_b = (s.reshape(()) if s.numel() == 1 else s for s in (scale_a, scale_b))
    r = (input.to(dtypes.float32) @ mat2.to(dtypes.float32)) * scale_a * scale_b
    if bias is not None:
        r = r + bias.to(dtypes.float32)
    if out_dtype in _LARGEST:
        r = r if scale_result is None else r / scale_result
        r = r.clamp(-_LARGEST[out_dtype], _LARGEST[out_dtype])
    return give(r.to(out_dtype), out)


def _int_mm(input, mat2, *, out=None):
    """The product of two int8 (or uint8) matrices, in int32."""
    if input.dtype not in (dtypes.int8, dtypes.uint8):
        raise RuntimeError(f"_int_mm: Expected self dtype to be int8 or uint8 but got {input.dtype}")
    if mat2.dtype is not dtypes.int8:
        raise RuntimeError(f"_int_mm: Expected mat2 dtype to be int8 but got {mat2.dtype}")
    for t, name in ((input, "self"), (mat2, "mat2")):
        if t.dim() != 2:
            raise RuntimeError(f"_int_mm: Expected {name} to be of dimension 2 but got {t.dim()}")
    if input.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"_int_mm: self.size(1) needs to match mat2.size(0) but got {input.shape[1]} and {mat2.shape[0]}")
    return give(input.to(dtypes.int32) @ mat2.to(dtypes.int32), out)


def _check_range(input, quant_min, quant_max):
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"fake quantization is not implemented for {input.dtype}")
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")


def _fake_quantize(x, scale, zero_point, low, high):
    """(q - zero_point) * scale, q = round(x / scale) + zero_point held within [low, high], NaN the lowest; the gradient is
    that of x where q was within."""
    q = a.add(round(a.mul(x.detach(), 1.0 / scale)), zero_point)
    held = a.where(a.ge(q, low), a.minimum(q, high), low)
    passed = a.where(a.eq(q, held), x, 0.0)
    rounded = a.mul(a.sub(held, zero_point), scale).to(x.dtype)
    return a.add(rounded, a.sub(passed, passed.detach()))


@public.function
def fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max):
    """What is left of `input` when it is quantized with one scale and zero point, and back; gradients pass."""
    _check_range(input, quant_min, quant_max)
    if not isinstance(zero_point, Tensor) and not quant_min <= zero_point <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    return _fake_quantize(input, scale, zero_point, quant_min, quant_max)


@public.function
def fake_quantize_per_channel_affine(input, scale, zero_point, axis, quant_min, quant_max):
    """The same with a scale and a zero point for each index of dim `axis`."""
    _check_range(input, quant_min, quant_max)
    if zero_point.dtype not in (dtypes.int32, dtypes.float32, dtypes.float16):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {zero_point.dtype}")
    axis = dim_of(input, axis)
    if scale.dim() != 1 or scale.shape != zero_point.shape:
        raise RuntimeError("scale and zero-point need to be 1-D and of the same dimensions")
    if scale.shape[0] != input.shape[axis]:
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    sizes = [1] * input.dim()
    sizes[axis] = -1
    return _fake_quantize(input, scale.reshape(sizes), zero_point.reshape(sizes), quant_min, quant_max)


@public.both
def dequantize(input):
    """Tensors here are not quantized: the tensor in float32."""
    return input.to(dtypes.float32)


PRIVATE = {"_scaled_mm": _scaled_mm, "_int_mm": _int_mm}
