"""Windows of images as columns (`unfold_windows`) and columns added up to images (`fold_windows`); each is the other's
adjoint. Columns are ordered as (channel, row in the window, column in the window), windows row by row."""

import numpy as np

from ...runtime import kernel_calls, kernels, copy_gather
from .. import _call
from ..op.gradient import Meta
from ..op.op import indexed, reduction, size, static
from .image_layout import pooled_size, taps


def window_counts(sizes, kernel, stride, padding, dilation):
    return tuple(pooled_size(*a, False) for a in zip(sizes, kernel, stride, padding, dilation))


def _columns(x, kernel, stride, padding, dilation):
    rows, columns = window_counts(tuple(x.shape[2:]), kernel, stride, padding, dilation)
    return x.shape[0], x.shape[1] * (kernel[0] * kernel[1]), rows * columns


@indexed(meta=_columns)
def unfold_windows(s, i, x, kernel_size: static, stride: static, padding: static, dilation: static):
    """(N, C, H, W) to (N, C * kernel elements, windows); padding reads as zero."""
    n, column, window = i
    width = window_counts(tuple(x.shape[2:]), kernel_size, stride, padding, dilation)[1]
    area = kernel_size[0] * kernel_size[1]
    place = (column // kernel_size[1] % kernel_size[0], column % kernel_size[1])
    index, inside = [], None
    for d, o in enumerate((window // width, window % width)):
        at = o * stride[d] + place[d] * dilation[d] - padding[d]
        index.append(at)
        fits = s.logical_and(s.ge(s.index(at), 0), s.lt(s.index(at), s.index(x.shape[2 + d])))
        inside = fits if inside is None else s.logical_and(inside, fits)
    return x(n, column // area, *index, mask=inside, other=0)


unfold_windows.native(_call.unfold_windows)


@unfold_windows.numpy
def _(x, kernel_size, stride, padding, dilation):
    n, channels = x.shape[:2]
    counts = window_counts(x.shape[2:], kernel_size, stride, padding, dilation)
    out = copy_gather.zeros((n, channels, kernel_size[0] * kernel_size[1], *counts), x.dtype)
    for number, o, i in taps(x.shape[2:], counts, kernel_size, stride, padding, dilation):
        out[:, :, number][o] = x[i]
    return out.reshape(n, channels * kernel_size[0] * kernel_size[1], counts[0] * counts[1])


@unfold_windows.grad("x")
def _(g, x: Meta, kernel_size, stride, padding, dilation):
    return fold_windows(g, tuple(x.shape[2:]), kernel_size, stride, padding, dilation)


def _fold_load(s, i, r, x, sizes, kernel_size, stride, padding, dilation):
    """What the window holds whose position r lies on pixel i, if there is one."""
    n, channel, *pixel = i
    counts = window_counts(sizes, kernel_size, stride, padding, dilation)
    window, inside = 0, None
    for d in range(2):
        reach = pixel[d] + padding[d] - r[d] * dilation[d]
        at = reach // stride[d]
        fits = s.logical_and(s.ge(s.index(reach), 0), s.lt(s.index(at), s.index(counts[d])))
        if stride[d] != 1:
            fits = s.logical_and(fits, s.eq(s.index(reach - at * stride[d]), 0))
        inside = fits if inside is None else s.logical_and(inside, fits)
        window = window * counts[d] + at
    column = (channel * kernel_size[0] + r[0]) * kernel_size[1] + r[1]
    return x(n, column, window, mask=inside, other=0)


def _fold_sizes(x, sizes, kernel_size, stride, padding, dilation):
    """Sizes of the result; what has another number of windows than `sizes` have would be read outside of its memory."""
    counts = window_counts(sizes, kernel_size, stride, padding, dilation)
    if counts[0] * counts[1] != x.shape[2]:
        raise RuntimeError(
            f"fold: {x.shape[2]} windows of {tuple(kernel_size)} given, {tuple(sizes)} has {counts[0]} x {counts[1]}"
        )
    return x.shape[0], x.shape[1] // (kernel_size[0] * kernel_size[1]), *sizes


@reduction(combine="sum", loop=_fold_load, ranges=lambda x, sizes, kernel_size, *rest: kernel_size, meta=_fold_sizes)
def fold_windows(s, x, sizes: size, kernel_size: static, stride: static, padding: static, dilation: static):
    return x


def _fold_numbers(sizes, kernel_size, stride, padding, dilation):
    counts = window_counts(sizes, kernel_size, stride, padding, dilation)
    return *sizes, *counts, *kernel_size, *stride, *padding, *dilation


@fold_windows.calls
def _(c, outs, x, sizes, *window):
    out = outs[0]
    if out.dtype.name not in ("float32", "float64") or c.is_empty(out) or c.is_empty(x):
        return None
    numbers = _fold_numbers(sizes, *window)
    work = numbers[2] * numbers[3] * window[0][0] * window[0][1]
    return (
        kernel_calls.RuntimeCall(
            "fold_windows", kernel_calls.TYPES[out.dtype.name], out.shape[0] * out.shape[1], work, (out, c.rows(x)), numbers
        ),
    )


@fold_windows.native
def _(x, sizes, *window):
    """The same kernel, without Python's part of a job where there is little to do."""
    small = _call.fold_windows(x, sizes, *window)
    if small is not NotImplemented:
        return small
    if not isinstance(x, np.ndarray) or x.dtype not in kernels.WHOLE or not x.size or 0 in sizes:
        return NotImplemented
    kernel_size = window[0]
    x = np.ascontiguousarray(x)
    out = kernels.empty((x.shape[0], x.shape[1] // (kernel_size[0] * kernel_size[1]), *sizes), x.dtype)
    planes = out.shape[0] * out.shape[1]
    kernels.run("fold_windows", x.dtype, planes, kernels.grain_of(x.size // planes), (out, x), _fold_numbers(sizes, *window))
    return out


@fold_windows.numpy
def _(x, sizes, kernel_size, stride, padding, dilation):
    area = kernel_size[0] * kernel_size[1]
    counts = window_counts(sizes, kernel_size, stride, padding, dilation)
    parts = x.reshape(x.shape[0], x.shape[1] // area, area, *counts)
    out = copy_gather.zeros((x.shape[0], x.shape[1] // area, *sizes), x.dtype)
    for number, o, i in taps(sizes, counts, kernel_size, stride, padding, dilation):
        out[i] += parts[:, :, number][o]
    return out


@fold_windows.grad("x")
def _(g, kernel_size, stride, padding, dilation):
    return unfold_windows(g, kernel_size, stride, padding, dilation)


unfold_windows.samples(
    lambda make: [(make(2, 3, 4, 5), (2, 2), (1, 1), (0, 0), (1, 1)), (make(1, 2, 5, 6), (3, 2), (2, 1), (1, 1), (1, 2))]
)
fold_windows.samples(
    lambda make: [
        (make(2, 12, 12), (4, 5), (2, 2), (1, 1), (0, 0), (1, 1)),
        (make(1, 12, 18), (5, 6), (3, 2), (2, 1), (1, 1), (1, 2)),
    ]
)
