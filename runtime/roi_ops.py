"""Regions of interest of images, suppression of boxes, columns of moved taps: the native kernels on arrays of one type.

Types that compute in float32 are converted on the way in and out. Regions are (K, 5): image, x1, y1, x2, y2.
"""

from __future__ import annotations

import numpy as np

from .kernels import computation, empty, grain_of, run

MOST_PIXELS = 1 << 24  # a box larger than this has no bins whose pixels anybody counts


def _checked(name: str, x, rois, scale: float) -> None:
    """Kernels read where boxes say: those have to name an image, and lie somewhere."""
    if not rois.size:
        return
    images, corners = rois[:, 0], rois[:, 1:].astype(np.float64) * scale
    if not (np.abs(corners) < MOST_PIXELS).all():  # (NaN is not)
        raise RuntimeError(f"{name}(): a box is not finite, or lies {MOST_PIXELS} pixels away from the image")
    if not ((images >= 0) & (images < x[0])).all():
        wrong = images[~((images >= 0) & (images < x[0]))][0]
        raise RuntimeError(f"{name}(): a box is of image {wrong:g}, and the input has {x[0]} images")


def _floats(*arrays) -> tuple[np.dtype, list]:
    """The type in which kernels compute, and the arrays in it, row-major."""
    dtype = computation(arrays[0].dtype)
    return dtype, [np.ascontiguousarray(a, dtype) for a in arrays]


def _numbers(sizes, bins, samples=0, aligned=False, sensitive=False, regions=0) -> tuple:
    return (*sizes[1:], *bins, samples, int(aligned), int(sensitive), regions)


def _channels(sizes, bins, sensitive):
    return sizes[1] // (bins[0] * bins[1]) if sensitive else sizes[1]


def _pooled(job, sizes, x, rois, scale, numbers, bins, sensitive):
    """(K, channels, *bins) by a kernel whose unit is a region."""
    dtype, (x, boxes) = _floats(x, rois)
    channels = _channels(sizes, bins, sensitive)
    out = empty((len(rois), channels, *bins), dtype)
    if out.size:
        run(job, dtype, len(rois), grain_of(channels * bins[0] * bins[1] * 16), (out, x, boxes), numbers, (scale,))
    return out


def _check_gradient(name: str, g, rois, sizes, bins, sensitive: bool) -> None:
    """Kernels read what the sizes say."""
    wanted = (len(rois), _channels(sizes, bins, sensitive), *bins)
    if g.shape != wanted:
        raise RuntimeError(f"{name}(): the gradient of {len(rois)} boxes over {tuple(sizes)} is {wanted}, got {g.shape}")


def _spread(job, sizes, arrays, scale, numbers):
    """The gradient of x by a kernel whose unit is a channel of an image."""
    dtype, arrays = arrays
    out = empty(sizes, dtype)
    if out.size:
        work = sizes[2] * sizes[3] + numbers[-1] * numbers[3] * numbers[4] * 16
        run(job, dtype, sizes[0] * sizes[1], grain_of(work), (out, *arrays), numbers, (scale,))
    return out


def roi_align(x, rois, scale, bins, samples, aligned, sensitive):
    """Means of bilinear samples in each bin."""
    name = "ps_roi_align" if sensitive else "roi_align"
    _checked(name, x.shape, rois, scale)
    numbers = _numbers(x.shape, bins, samples, aligned, sensitive)
    return _pooled("roi_align", x.shape, x, rois, scale, numbers, bins, sensitive).astype(x.dtype, copy=False)


def roi_align_backward(g, rois, sizes, scale, bins, samples, aligned, sensitive):
    _checked("roi_align_backward", sizes, rois, scale)
    _check_gradient("roi_align_backward", g, rois, sizes, bins, sensitive)
    numbers = _numbers(sizes, bins, samples, aligned, sensitive, len(rois))
    return _spread("roi_align_back", sizes, _floats(g, rois), scale, numbers).astype(g.dtype, copy=False)


def roi_pool(x, rois, scale, bins):
    """(maxima of each bin's pixels, their places in an image as int32, -1 where there is no pixel)"""
    _checked("roi_pool", x.shape, rois, scale)
    dtype, (values, boxes) = _floats(x, rois)
    out = empty((len(rois), x.shape[1], *bins), dtype)
    places = empty(out.shape, np.dtype(np.int32))
    if out.size:
        grain = grain_of(x.shape[1] * bins[0] * bins[1] * 16)
        run("roi_pool", dtype, len(rois), grain, (out, places, values, boxes), _numbers(x.shape, bins), (scale,))
    return out.astype(x.dtype, copy=False), places


def roi_pool_backward(g, rois, places, sizes, scale, bins):
    _check_gradient("roi_pool_backward", g, rois, sizes, bins, False)
    if places.shape != g.shape:
        raise RuntimeError(f"roi_pool_backward(): {places.shape} places for gradients of {g.shape}")
    dtype, (grads, boxes) = _floats(g, rois)
    arrays = dtype, (grads, np.ascontiguousarray(places, np.int32), boxes)
    return _spread("roi_pool_back", sizes, arrays, scale, _numbers(sizes, bins, regions=len(rois))).astype(g.dtype, copy=False)


def ps_roi_pool(x, rois, scale, bins):
    """Means of each bin's pixels, of a channel of its own."""
    _checked("ps_roi_pool", x.shape, rois, scale)
    numbers = _numbers(x.shape, bins, sensitive=True)
    return _pooled("ps_roi_pool", x.shape, x, rois, scale, numbers, bins, True).astype(x.dtype, copy=False)


def ps_roi_pool_backward(g, rois, sizes, scale, bins):
    _checked("ps_roi_pool_backward", sizes, rois, scale)
    _check_gradient("ps_roi_pool_backward", g, rois, sizes, bins, True)
    numbers = _numbers(sizes, bins, sensitive=True, regions=len(rois))
    return _spread("ps_roi_pool_back", sizes, _floats(g, rois), scale, numbers).astype(g.dtype, copy=False)


def suppress(boxes, threshold):
    """Which of the boxes (N, 4), best first, overlap no better one that stays by more than `threshold`: (N,) bool."""
    dtype, (boxes,) = _floats(boxes)
    x1, y1, x2, y2 = boxes.T
    rows = np.stack([x1, y1, x2, y2, (x2 - x1) * (y2 - y1)])
    gone = empty((len(boxes),), np.dtype(np.int32 if dtype.itemsize == 4 else np.int64))
    if len(boxes):
        run("suppress_boxes", dtype, 1, 1, (gone, rows), (len(boxes),), (threshold,))
    return gone == 0


def _moved(x, offsets, kernel, stride, padding, dilation):
    """(numbers of the kernels, groups, (taps, points))"""
    groups = offsets.shape[1] // (2 * kernel[0] * kernel[1])
    points = offsets.shape[2:]
    return (*x.shape[1:], *kernel, *stride, *padding, *dilation, *points, groups), groups, points[0] * points[1]


def moved_columns(x, offsets, kernel, stride, padding, dilation):
    """(N, channels * taps, points)"""
    numbers, groups, points = _moved(x, offsets, kernel, stride, padding, dilation)
    dtype, arrays = _floats(x, offsets)
    taps = kernel[0] * kernel[1]
    out = empty((x.shape[0], x.shape[1] * taps, points), dtype)
    if out.size:
        work = points * (x.shape[1] // groups) * 8
        run("moved_columns", dtype, x.shape[0] * groups * taps, grain_of(work), (out, *arrays), numbers)
    return out.astype(x.dtype, copy=False)


def moved_columns_backward(g, x, offsets, kernel, stride, padding, dilation):
    """The gradients of x and of the offsets."""
    numbers, groups, points = _moved(x, offsets, kernel, stride, padding, dilation)
    dtype, (grads, values, places) = _floats(g, x, offsets)
    taps = kernel[0] * kernel[1]
    to_x, to_offsets = empty(x.shape, dtype), empty(offsets.shape, dtype)
    if to_x.size:
        grain = grain_of(taps * points * 8)
        run("moved_columns_back", dtype, x.shape[0] * x.shape[1], grain, (to_x, grads, places), numbers)
    if to_offsets.size:
        grain = grain_of(points * (x.shape[1] // groups) * 16)
        arrays = (to_offsets, grads, values, places)
        run("moved_columns_back_places", dtype, x.shape[0] * groups * taps, grain, arrays, numbers)
    return to_x.astype(x.dtype, copy=False), to_offsets.astype(x.dtype, copy=False)
