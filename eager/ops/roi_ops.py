"""Detectors' ops, as torchvision.ops has them (https://pytorch.org/vision/stable/ops.html).

Bins of regions of interest, boxes that overlap better ones, and convolutions whose taps are moved.

Regions are (K, 5) numbers: the image, x1, y1, x2, y2, in pixels times `1 / scale`. Their gradients are not defined.
"""

from __future__ import annotations

from ...runtime import roi_ops
from .. import dtypes
from ..op.meta import Spec
from ..op.op import extern, mask, Out, scalar, static, tensor
from .rearrange import cat


@extern(refuses=True)
def roi_align(x, rois: mask, scale: static, bins: static, samples: static, aligned: static, sensitive: static):
    """The mean of bilinear samples of x (N, C, H, W) in each bin: (K, C, *bins), or with bins of channels of their own (K,
    C / (bins), *bins)."""
    return roi_ops.roi_align(x, rois, scale, bins, samples, aligned, sensitive)


@roi_align.meta
def _(x, rois, scale, bins, samples, aligned, sensitive):
    channels = x.shape[1] // (bins[0] * bins[1]) if sensitive else x.shape[1]
    return Spec((rois.shape[0], channels, *bins), x.dtype)


@roi_align.grad("x")
def _(g, x, rois, scale, bins, samples, aligned, sensitive):
    return roi_align_backward(g, rois, tuple(x.shape), scale, bins, samples, aligned, sensitive)


@extern
def roi_align_backward(
    g, rois: mask, sizes: static, scale: static, bins: static, samples: static, aligned: static, sensitive: static
):
    return roi_ops.roi_align_backward(g, rois, sizes, scale, bins, samples, aligned, sensitive)


@extern(outputs=("out", Out("places", differentiable=False)), refuses=True)
def roi_pool(x, rois: mask, scale: static, bins: static):
    """(the maximum of each bin's pixels (K, C, *bins), its place in the image as int32)"""
    return roi_ops.roi_pool(x, rois, scale, bins)


@roi_pool.meta
def _(x, rois, scale, bins):
    sizes = (rois.shape[0], x.shape[1], *bins)
    return Spec(sizes, x.dtype), Spec(sizes, dtypes.int32)


@roi_pool.grad("x")
def _(g, x, rois, places, scale, bins):
    return roi_pool_backward(g, rois, places, tuple(x.shape), scale, bins)


@extern
def roi_pool_backward(g, rois: mask, places: mask, sizes: static, scale: static, bins: static):
    return roi_ops.roi_pool_backward(g, rois, places, sizes, scale, bins)


@extern(refuses=True)
def ps_roi_pool(x, rois: mask, scale: static, bins: static):
    """The mean of each bin's pixels, of a channel of its own: (K, C / (bins), *bins)."""
    return roi_ops.ps_roi_pool(x, rois, scale, bins)


@ps_roi_pool.meta
def _(x, rois, scale, bins):
    return Spec((rois.shape[0], x.shape[1] // (bins[0] * bins[1]), *bins), x.dtype)


@ps_roi_pool.grad("x")
def _(g, x, rois, scale, bins):
    return ps_roi_pool_backward(g, rois, tuple(x.shape), scale, bins)


@extern
def ps_roi_pool_backward(g, rois: mask, sizes: static, scale: static, bins: static):
    return roi_ops.ps_roi_pool_backward(g, rois, sizes, scale, bins)


for _op in (roi_align_backward, roi_pool_backward, ps_roi_pool_backward):
    _op.meta(lambda g, *args, at=_op.names["sizes"] - 1: Spec(args[at], g.dtype))


@extern(meta=lambda boxes, threshold: Spec(tuple(boxes.shape[:1]), dtypes.bool))
def unsuppressed(boxes, threshold: scalar):
    """Which of the boxes (N, 4), best first, overlap no better one that stays by more than `threshold` of both: (N,) bool."""
    return roi_ops.suppress(boxes, threshold)


@extern
def moved_columns(x, offsets, kernel: static, stride: static, padding: static, dilation: static):
    """The taps of a convolution over x (N, C, H, W), each moved by its offset (N, 2 * groups * taps, *points; down, across):
    (N, C * taps, points)."""
    return roi_ops.moved_columns(x, offsets, kernel, stride, padding, dilation)


@moved_columns.meta
def _(x, offsets, kernel, stride, padding, dilation):
    return Spec((x.shape[0], x.shape[1] * kernel[0] * kernel[1], offsets.shape[2] * offsets.shape[3]), x.dtype)


@moved_columns.grad("*")
def _(g, x, offsets, kernel, stride, padding, dilation):
    return dict(zip(("x", "offsets"), moved_columns_backward(g, x, offsets, kernel, stride, padding, dilation)))


@extern(outputs=("to_x", "to_offsets"))
def moved_columns_backward(g, x: tensor, offsets: tensor, kernel: static, stride: static, padding: static, dilation: static):
    return roi_ops.moved_columns_backward(g, x, offsets, kernel, stride, padding, dilation)


@moved_columns_backward.meta
def _(g, x, offsets, kernel, stride, padding, dilation):
    return Spec(tuple(x.shape), x.dtype), Spec(tuple(offsets.shape), offsets.dtype)


def _boxes(make, count, most):
    """Regions of two images, some of which reach beyond them."""
    near, far = make.uniform(count, make.fixed(2)) * most, make.uniform(count, make.fixed(2)) * most + most
    return cat((make.ints(2, count, make.fixed(1)).to(near.dtype), near, far), 1)


def _align_samples(make):
    return [
        (make(2, 3, 6, 7), _boxes(make, 4, 6), 0.5, (2, 3), 2, False, False),
        (make(2, 3, 6, 7), _boxes(make, 4, 4), 1.0, (2, 2), 0, True, False),
        (make(2, 8, 6, 7), _boxes(make, 3, 6), 0.5, (2, 2), 2, True, True),
    ]


roi_align.samples(_align_samples)
roi_pool.samples(lambda make: [(make(2, 3, 6, 7), _boxes(make, 4, 6), 0.5, (2, 3))])
ps_roi_pool.samples(lambda make: [(make(2, 12, 6, 7), _boxes(make, 4, 6), 0.5, (2, 3))])
unsuppressed.samples(lambda make: [(_boxes(make, 7, 3)[:, 1:].contiguous(), 0.3)])
moved_columns.samples(
    lambda make: [
        (make(2, 4, 5, 6), make(2, 2 * 2 * 6, 3, 5), (2, 3), (1, 1), (0, 1), (2, 1)),
        (make(1, 2, 6, 6), make(1, 2 * 4, 3, 3), (2, 2), (2, 2), (0, 0), (1, 1)),
    ]
)


def _backward_samples(op, *outputs):
    """Of a gradient's record, from its operation's samples: a gradient of the result's sizes, then what it reads."""

    def made(make):
        found = []
        for x, rois, *rest in op.sample_rule(make):
            result = op(x, rois, *rest)
            first = result[0] if outputs else result
            read = [result[1]] if outputs else []
            found.append((make(*first.shape), rois, *read, tuple(x.shape), *rest))
        return found

    return made


roi_align_backward.samples(_backward_samples(roi_align))
roi_pool_backward.samples(_backward_samples(roi_pool, "places"))
ps_roi_pool_backward.samples(_backward_samples(ps_roi_pool))
moved_columns_backward.samples(
    lambda make: [(make(*moved_columns(*sample).shape), *sample) for sample in moved_columns.sample_rule(make)]
)
