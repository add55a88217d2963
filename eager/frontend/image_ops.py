"""Rearrangements and sampling of images: unfold, fold, pixel and channel shuffles, affine_grid, grid_sample."""

import warnings

from ..dispatch import small
from ..ops import grid_sample as grids, pixel_shuffle as shuffles, im2col
from ..ops.rearrange import stack
from ..sizes import is_int, numel
from . import memory_format
from .arguments import size_of
from .creation import linspace


def _pair(value, name, what):
    if is_int(value) or not hasattr(value, "__len__"):
        return (size_of(value),) * 2
    if len(value) == 1:
        return (size_of(value[0]),) * 2
    if len(value) != 2:
        raise NotImplementedError(f"{name}: {what} must be an int or a tuple of two ints, but got {tuple(value)}")
    return tuple(map(size_of, value))


def _window(name, kernel_size, dilation, padding, stride):
    found = [
        _pair(v, name, w)
        for v, w in ((kernel_size, "kernel_size"), (stride, "stride"), (padding, "padding"), (dilation, "dilation"))
    ]
    for values, what in zip(found, ("kernel size", "stride", "padding", "dilation")):
        least = 0 if what == "padding" else 1
        if any(v < least for v in values):
            raise RuntimeError(f"{what} should be {'non-negative' if least == 0 else 'greater than zero'}, but got {values}")
    return found


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """(N, C, H, W) to (N, C * kernel elements, windows)."""
    kernel, stride, padding, dilation = _window("unfold", kernel_size, dilation, padding, stride)
    if input.ndim not in (3, 4):
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(input.shape)}"
        )
    sizes = tuple(input.shape)[-2:]
    counts = im2col.window_counts(sizes, kernel, stride, padding, dilation)
    if any(n < 1 for n in counts):
        raise RuntimeError(
            f"Given input with spatial size {sizes}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, calculated shape of the array of sliding blocks as {counts}, but its "
            "components must be at least one."
        )
    if input.ndim == 3:
        return im2col.unfold_windows(input.unsqueeze(0), kernel, stride, padding, dilation).squeeze(0)
    return im2col.unfold_windows(input, kernel, stride, padding, dilation)


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """(N, C * kernel elements, windows) to (N, C, *output_size): what overlaps adds up."""
    kernel, stride, padding, dilation = _window("fold", kernel_size, dilation, padding, stride)
    sizes = _pair(output_size, "fold", "output_size")
    if input.ndim not in (2, 3):
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
            f"dimensions for input, but got: {list(input.shape)}"
        )
    if input.shape[-2] % numel(kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={input.shape[-2]} and kernel_size={kernel}."
        )
    rows, columns = im2col.window_counts(sizes, kernel, stride, padding, dilation)
    if rows * columns != input.shape[-1]:
        raise RuntimeError(
            f"Given output_size={sizes}, kernel_size={kernel}, dilation={dilation}, padding={padding}, "
            f"stride={stride}, expected size of input's dimension 2 to match the calculated number of "
            f"sliding blocks {rows} * {columns} = {rows * columns}, but got "
            f"input.size(2)={input.shape[-1]}."
        )
    if input.ndim == 2:
        return im2col.fold_windows(input.unsqueeze(0), sizes, kernel, stride, padding, dilation).squeeze(0)
    return im2col.fold_windows(input, sizes, kernel, stride, padding, dilation)


# -- shuffles


def _check_shuffle(input, factor, name, word):
    if input.ndim < 3:
        raise RuntimeError(f"{name} expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)")
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {word}, but got {factor}")


def _arranged(input, parts, order, channels, sizes):
    """Parts of an input with its channels last, with their last five dims in this order, of which the first few become the
    channels and the others the rows and columns of `sizes`: memory of its own, channels last as well."""
    n = parts.ndim - 5
    moved = parts.permute(*range(n), *order[channels:], *order[:channels])
    return memory_format.reshaped_copy(moved, (*sizes[:n], *sizes[-2:], sizes[-3]), input).permute(0, 3, 1, 2)


def pixel_shuffle(input, upscale_factor):
    """(..., C * r * r, H, W) to (..., C, H * r, W * r)."""
    r = upscale_factor
    _check_shuffle(input, r, "pixel_shuffle", "upscale_factor")
    c = input.shape[-3]
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    if memory_format.channels_last((input,)) is None:
        return shuffles.pixel_shuffle(input, r)
    *lead, c, h, w = input.shape
    n = len(lead)
    parts = input.reshape(*lead, c // (r * r), r, r, h, w)
    return _arranged(input, parts, (n, n + 3, n + 1, n + 4, n + 2), 1, (*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input, downscale_factor):
    """(..., C, H * r, W * r) to (..., C * r * r, H, W)."""
    r = downscale_factor
    _check_shuffle(input, r, "pixel_unshuffle", "downscale_factor")
    h, w = input.shape[-2:]
    for n, word, dim in ((h, "height", -2), (w, "width", -1)):
        if n % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {word} to be divisible by downscale_factor, but "
                f"input.size({dim})={n} is not divisible by {r}"
            )
    if memory_format.channels_last((input,)) is None:
        return shuffles.pixel_unshuffle(input, r)
    *lead, c, h, w = input.shape
    n = len(lead)
    parts = input.reshape(*lead, c, h // r, r, w // r, r)
    return _arranged(input, parts, (n, n + 2, n + 4, n + 1, n + 3), 3, (*lead, c * r * r, h // r, w // r))


def channel_shuffle(input, groups):
    """Channels (groups, each) become (each, groups)."""
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    c = input.shape[1]
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    order = memory_format.channels_last((input,))
    if order is None:
        return shuffles.channel_shuffle(input, groups)
    n, c, *rest = input.shape
    parts = input.permute(order).reshape(n, *rest, groups, c // groups).transpose(-1, -2)
    return memory_format.reshaped_copy(parts, (n, *rest, c), input).permute(memory_format.back(order))


pixel_shuffle = small("pixel_shuffle", pixel_shuffle, shuffles.pixel_shuffle)
pixel_unshuffle = small("pixel_unshuffle", pixel_unshuffle, shuffles.pixel_unshuffle)
native_channel_shuffle = channel_shuffle = small("channel_shuffle", channel_shuffle, shuffles.channel_shuffle)


# -- grids: places as (x, y) or (x, y, z) in [-1, 1]


def _tell_corners(name):
    warnings.warn(f"Default {name} align_corners is False; specify align_corners=True for corner-aligned grids.", stacklevel=3)


def affine_grid(theta, size, align_corners=None):
    """The grid that `theta`, (N, 2, 3) or (N, 3, 4), maps an image of `size` (N, C, ...) to."""
    if align_corners is None:
        _tell_corners("affine_grid")
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {tuple(size)}."
        )
    if theta.ndim != 3 or tuple(theta.shape[-2:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {tuple(size)}. Got {theta.shape}."
        )
    sizes = tuple(map(size_of, size))[2:]
    base = theta.new_ones((*sizes, n + 1))
    columns = [
        _steps(theta, m, bool(align_corners)).reshape([-1 if e == d else 1 for e in range(n)]) for d, m in enumerate(sizes)
    ]
    if base._fl_array is None:  # of graphs, where it is one loop
        base = stack((*[c.expand(sizes) for c in columns[::-1]], base.select(-1, n)), n)
    else:
        for d, column in enumerate(columns):
            base.select(-1, n - 1 - d).copy_(column)
    grid = base.reshape(1, -1, n + 1) @ theta.transpose(1, 2)
    return grid.reshape(theta.shape[0], *sizes, n)


_counted = small("linspace", linspace)


def _steps(like, m, align):
    """Centres of m cells of [-1, 1], or m points with its ends."""
    if type(m) is int and m <= 1:
        return like.new_zeros(m)
    steps = _counted(-1, 1, m, dtype=like.dtype, device=like.device)
    return steps if align else steps * ((m - 1) / m)


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Values of (N, C, H, W) or (N, C, D, H, W) at the places of a grid (N, ..., 2 or 3)."""
    _check_grid(input, grid, mode, padding_mode)
    if align_corners is None:
        _tell_corners("grid_sample")
    return grids.grid_sample(input, grid, mode, padding_mode, bool(align_corners))


grid_sample = small("grid_sample", grid_sample)


def _check_grid(input, grid, mode, padding_mode):
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    if input.ndim not in (4, 5) or input.ndim != grid.ndim:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got "
            f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got grid "
            f"with sizes {list(grid.shape)}"
        )
    if mode == "bicubic" and input.ndim != 4:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
