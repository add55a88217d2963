"""Images at the places of a grid, and the gradients of both, by the native kernels; NotImplemented for other operands."""

from __future__ import annotations

import math

import numpy as np

from .kernel_calls import TYPES, RuntimeCall, product
from .kernels import WHOLE, empty, grain_of, run

_MODES, _PADDINGS, _RUN = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), 256


def _numbers(x, points, mode, padding, align):
    """What the kernels ask of an image and of how it is read, but for its number of elements."""
    sizes = tuple(x.shape[2:])
    padded = (*sizes, *(1,) * (3 - len(sizes)))
    return x.shape[1], len(sizes), *padded, points, _MODES.index(mode), _PADDINGS.index(padding), int(align)


def _problem(x, grid, mode, padding, align):
    """(x and grid as rows, the kernel's numbers, points of an image), or None."""
    if x.dtype not in WHOLE or grid.dtype != x.dtype or not x.size or not grid.size:
        return None
    sizes, points = x.shape[2:], math.prod(grid.shape[1:-1])
    numbers = (*_numbers(x, points, mode, padding, align), math.prod(sizes))
    return np.ascontiguousarray(x), np.ascontiguousarray(grid), numbers, points


def _region_problem(c, x, grid, mode, padding, align):
    """The same of regions, row-major, for compiled code."""
    if x.dtype.name not in ("float32", "float64") or grid.dtype is not x.dtype or c.is_empty(x) or c.is_empty(grid):
        return None
    sizes, points = tuple(x.shape[2:]), product(grid.shape[1:-1])
    numbers = (*_numbers(x, points, mode, padding, align), product(sizes))
    return c.rows(x), c.rows(grid), numbers, points


def sample_calls(c, out, x, grid, mode, padding, align):
    found = _region_problem(c, x, grid, mode, padding, align)
    if found is None:
        return None
    x, grid, numbers, points = found
    units, work = x.shape[0] * ((points + _RUN - 1) // _RUN), _RUN * x.shape[1] * 4
    return (RuntimeCall("grid_sample", TYPES[x.dtype.name], units, work, (out, x, grid), numbers),)


def gradient_calls(c, to_x, to_grid, g, x, grid, mode, padding, align):
    found = _region_problem(c, x, grid, mode, padding, align)
    if found is None or g.dtype is not x.dtype:
        return None
    x, grid, numbers, points = found
    return (
        RuntimeCall(
            "grid_sample_back",
            TYPES[x.dtype.name],
            x.shape[0],
            points * x.shape[1] * 4,
            (to_x, to_grid, c.rows(g), x, grid),
            numbers,
        ),
    )


def sample(x, grid, mode, padding, align):
    """(N, C, *sizes of the grid)"""
    found = _problem(x, grid, mode, padding, align)
    if found is None:
        return NotImplemented
    x, grid, numbers, points = found
    out = empty((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    run("grid_sample", x.dtype, x.shape[0] * -(-points // _RUN), grain_of(_RUN * x.shape[1] * 4), (out, x, grid), numbers)
    return out


def gradients(g, x, grid, mode, padding, align):
    """The gradients of x and of the grid."""
    found = _problem(x, grid, mode, padding, align)
    if found is None or g.dtype != x.dtype:
        return NotImplemented
    x, grid, numbers, points = found
    to_x, to_grid = empty(x.shape, x.dtype), empty(grid.shape, x.dtype)
    run(
        "grid_sample_back",
        x.dtype,
        x.shape[0],
        grain_of(points * x.shape[1] * 4),
        (to_x, to_grid, np.ascontiguousarray(g), x, grid),
        numbers,
    )
    return to_x, to_grid
