"""torch.ops.torchvision: the operators behind torchvision.ops, made of this package's records.

torchvision's wheel brings them in a library for PyTorch's C++; `torch.ops.load_library` of that file imports this module instead.
Arguments and results are those of torchvision 0.28's schemas. Not there: its quantized operators, rotated boxes, and images
(`torchvision.io`), which stand in another library.
"""

import functools
import inspect

from ..amp.autocast_mode import is_autocast_enabled
from ..autograd import enable_grad, grad as gradients
from ..ops import roi_ops
from ..ops.creation import arange
from .. import dtypes
from . import missing

FUNCTIONS = {}  # by the operator's name


def _operator(fn):
    fn.name, fn.default = f"torchvision::{fn.__name__}", fn  # (the one overload)
    FUNCTIONS[fn.name] = fn
    return fn


def _in_floats(*names):
    """Under autocast these arguments are taken as float32, and a floating result has the first one's type, as in torchvision."""

    def decorate(fn):
        signature = inspect.signature(fn)

        @functools.wraps(fn)
        def call(*args, **kwargs):
            if not is_autocast_enabled("cpu"):
                return fn(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            first = bound.arguments[names[0]].dtype
            for name in names:
                value = bound.arguments[name]
                if value.dtype.is_floating_point and value.dtype is not dtypes.float64:
                    bound.arguments[name] = value.float()
            out = fn(*bound.args, **bound.kwargs)
            return out.to(first) if out.dtype.is_floating_point else out

        return call

    return decorate


def _check(name, input, rois):
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise RuntimeError("rois must have shape as Tensor[K, 5]")
    if input.ndim != 4:
        raise RuntimeError(f"{name}(): expected an input of 4 dims (N, C, H, W), got one of shape {tuple(input.shape)}")
    if input.dtype is not rois.dtype:
        raise RuntimeError(
            "Expected tensor for input to have the same type as tensor for rois; "
            f"but type {input.dtype} does not equal {rois.dtype}"
        )


def _check_sensitive(name, input, rois, bins):
    _check(name, input, rois)
    if input.shape[1] % (bins[0] * bins[1]):
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")


def _channels_read(out):
    """Which channel each bin of position-sensitive pooling (K, C, H, W) reads, as int32."""
    bins = (out.shape[1], out.shape[2], out.shape[3])
    count = bins[0] * bins[1] * bins[2]
    return arange(0, 1, count, dtypes.int32, out.device).reshape(1, *bins).expand(out.shape[0], *bins).contiguous()


@_operator
@_in_floats("dets", "scores")
def nms(dets, scores, iou_threshold):
    if dets.ndim != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {dets.ndim}D")
    if dets.shape[1] != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {dets.shape[1]}")
    if scores.ndim != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.ndim}D")
    if dets.shape[0] != scores.shape[0]:
        raise RuntimeError(
            f"boxes and scores should have same number of elements in dimension 0, got {dets.shape[0]} and {scores.shape[0]}"
        )
    if dets.dtype is not scores.dtype:
        raise RuntimeError("dets should have the same type as scores")
    order = scores.detach().argsort(stable=True, descending=True)
    return order[roi_ops.unsuppressed(dets.detach()[order], float(iou_threshold))]


@_operator
@_in_floats("input", "rois")
def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    _check("roi_align", input, rois)
    bins = (pooled_height, pooled_width)
    return roi_ops.roi_align(input, rois, float(spatial_scale), bins, max(sampling_ratio, 0), bool(aligned), False)


@_operator
def roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    _check("roi_pool", input, rois)
    return roi_ops.roi_pool(input, rois, float(spatial_scale), (pooled_height, pooled_width))


@_operator
def ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    bins = (pooled_height, pooled_width)
    _check_sensitive("ps_roi_align", input, rois, bins)
    out = roi_ops.roi_align(input, rois, float(spatial_scale), bins, max(sampling_ratio, 0), True, True)
    return out, _channels_read(out)


@_operator
def ps_roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    bins = (pooled_height, pooled_width)
    _check_sensitive("ps_roi_pool", input, rois, bins)
    out = roi_ops.ps_roi_pool(input, rois, float(spatial_scale), bins)
    return out, _channels_read(out)


@_operator
def deform_conv2d(
    input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, use_mask
):
    stride, padding, dilation = (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w)
    points = _deformed_sizes(input, weight, offset, mask, stride, padding, dilation, groups, offset_groups, use_mask)
    images, channels, (made, share, *kernel) = input.shape[0], input.shape[1], weight.shape
    taps, count = kernel[0] * kernel[1], points[0] * points[1]
    columns = roi_ops.moved_columns(input, offset, tuple(kernel), stride, padding, dilation)
    if use_mask:
        parts = columns.reshape(images, offset_groups, channels // offset_groups, taps, count)
        columns = parts * mask.reshape(images, offset_groups, 1, taps, count)
    columns = columns.reshape(images, groups, share * taps, count)
    out = weight.reshape(groups, made // groups, share * taps) @ columns
    return out.reshape(images, made, *points) + bias.reshape(1, made, 1, 1)


def _deformed_sizes(input, weight, offset, mask, stride, padding, dilation, groups, offset_groups, use_mask):
    """Height and width of the result; errors as torchvision's."""
    for name, each, n in (("input", input, 4), ("offset", offset, 4), ("weight", weight, 4), *[("mask", mask, 4)] * use_mask):
        if each.ndim != n:
            raise RuntimeError(f"deform_conv2d(): expected {name} of {n} dims, got shape {tuple(each.shape)}")
    kernel = weight.shape[2:]
    for name, pair, least in (("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)):
        if min(pair) < least:
            raise RuntimeError(f"{name}: {pair[0]}, {pair[1]}")
    if weight.shape[1] * groups != input.shape[1]:
        raise RuntimeError(f"weight of shape {tuple(weight.shape)} in {groups} groups does not fit {input.shape[1]} channels")
    if weight.shape[0] % groups or input.shape[1] % offset_groups:
        raise RuntimeError(
            f"{weight.shape[0]} filters in {groups} groups, {input.shape[1]} channels in {offset_groups} of offsets"
        )
    taps = kernel[0] * kernel[1]
    if offset.shape[1] != offset_groups * 2 * taps:
        raise RuntimeError("offset.shape[1] is not valid: got: " + f"{offset.shape[1]} expected: {offset_groups * 2 * taps}")
    if use_mask and mask.shape[1] != offset_groups * taps:
        raise RuntimeError(f"mask.shape[1] is not valid: got: {mask.shape[1]} expected: {offset_groups * taps}")
    if offset.shape[0] != input.shape[0]:
        raise RuntimeError("invalid batch size of offset")
    points = tuple(
        (n + 2 * p - (d * (k - 1) + 1)) // s + 1 for n, p, d, k, s in zip(input.shape[2:], padding, dilation, kernel, stride)
    )
    if tuple(offset.shape[2:]) != points:
        raise RuntimeError(f"offset output dims: ({offset.shape[2]}, {offset.shape[3]}) - computed output dims: {points}")
    if use_mask and (mask.shape[0], *mask.shape[2:]) != (input.shape[0], *points):
        raise RuntimeError(f"mask output dims: ({mask.shape[2]}, {mask.shape[3]}) - computed output dims: {points}")
    if min(points) <= 0:
        raise RuntimeError(f"Calculated output size too small - out_h: {points[0]} out_w: {points[1]}")
    return points


# -- the gradients by themselves


@_operator
def _roi_align_backward(
    grad, rois, spatial_scale, pooled_height, pooled_width, batch_size, channels, height, width, sampling_ratio, aligned
):
    sizes, bins = (batch_size, channels, height, width), (pooled_height, pooled_width)
    return roi_ops.roi_align_backward(grad, rois, sizes, float(spatial_scale), bins, max(sampling_ratio, 0), bool(aligned), False)


@_operator
def _roi_pool_backward(grad, rois, argmax, spatial_scale, pooled_height, pooled_width, batch_size, channels, height, width):
    sizes, bins = (batch_size, channels, height, width), (pooled_height, pooled_width)
    return roi_ops.roi_pool_backward(grad, rois, argmax, sizes, float(spatial_scale), bins)


@_operator
def _ps_roi_align_backward(
    grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, sampling_ratio, batch_size, channels, height, width
):
    sizes, bins = (batch_size, channels, height, width), (pooled_height, pooled_width)
    return roi_ops.roi_align_backward(grad, rois, sizes, float(spatial_scale), bins, max(sampling_ratio, 0), True, True)


@_operator
def _ps_roi_pool_backward(
    grad, rois, channel_mapping, spatial_scale, pooled_height, pooled_width, batch_size, channels, height, width
):
    sizes, bins = (batch_size, channels, height, width), (pooled_height, pooled_width)
    return roi_ops.ps_roi_pool_backward(grad, rois, sizes, float(spatial_scale), bins)


@_operator
def _deform_conv2d_backward(grad, input, weight, offset, mask, bias, *numbers):
    with enable_grad():
        leaves = [t.detach().requires_grad_() for t in (input, weight, offset, mask, bias)]
        out = deform_conv2d(*leaves, *numbers)
    found = gradients(out, leaves, grad, allow_unused=True)
    return tuple(t.new_zeros(t.shape) if g is None else g for g, t in zip(found, leaves))


@_operator
def _cuda_version():
    return -1


for _name in ("qnms", "qroi_align", "box_iou_rotated"):
    _operator(missing.function(f"torch.ops.torchvision.{_name}", "torchvision's kernel for it is C++ that is built for PyTorch"))
