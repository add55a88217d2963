"""Images at the places of a grid: values of (N, C, H, W) or (N, C, D, H, W) at (N, ..., 2 or 3) numbers in [-1, 1].

A place reads, in each dim, one to four taps: an index, a weight and the weight's slope by the grid's number. Taps outside of
the image weigh nothing; NaN lies outside, or at the beginning where positions are moved inside.
"""

import itertools
from typing import Any

from ...runtime import grid_sample as grids
from ..op.op import composite, static, tensor
from ..op.meta import Spec
from ..sizes import numel
from ..state import state
from .arithmetic import mul, where
from .creation import full
from .indexing import gather, scatter_add
from .rearrange import stack
from .resampling import cubic_slopes, cubic_weights


def _place(x, m, align):
    """From [-1, 1] to positions of a dim of size m, and by what these move with x."""
    scale = (m - 1) / 2 if align else m / 2
    return ((x + 1) * scale if align else ((x + 1) * m - 1) / 2), scale


def _bounded(x, m, padding, align):
    """A position outside as the one whose value it takes, and the factor of its gradient (none at the ends themselves)."""
    if padding == "zeros":
        return x, 1
    factor = 1
    if padding == "reflection":
        x, factor = _reflected(x, 0, m - 1) if align else _reflected(x, -0.5, m)
    within = (x > 0) & (x < m - 1)
    end = where(x.detach() >= m - 1, full((), m - 1, x.dtype, x.device), full((), 0, x.dtype, x.device))
    return where(within, x, end), where(within, factor, full((), 0, x.dtype, x.device))


def _reflected(x, low, span):
    if type(span) is int and span == 0:
        return x * 0, 0
    x = x - low
    back, x = x < 0, x.abs()
    rest, odd = x.fmod(span), (x / span).floor().fmod(2) == 1
    one = full((), 1, x.dtype, x.device)
    return where(odd, span - rest, rest) + low, where(odd.logical_xor(back), -one, one)


def _tap(at, weight, slope, m):
    within = (at >= 0) & (at <= m - 1)
    zero = full((), 0, at.dtype, at.device)
    return where(within, at, zero).long(), where(within, weight, weight * 0), where(within, slope, zero), within


def _nearest_taps(x, scale, m, padding, align):
    return [_tap(x.round(), full((), 1, x.dtype, x.device), 0, m)]


def _linear_taps(x, scale, m, padding, align):
    low = x.detach().floor()
    t = x - low
    return [_tap(low, 1 - t, -scale, m), _tap(low + 1, t, scale, m)]


def _cubic_taps(x, scale, m, padding, align):
    low = x.detach().floor()
    t = x - low
    pairs = zip(cubic_weights(t), cubic_slopes(t))
    return [_tap(_bounded(low + (k - 1), m, padding, align)[0], w, s * scale, m) for k, (w, s) in enumerate(pairs)]


_TAPS = {"nearest": _nearest_taps, "bilinear": _linear_taps, "bicubic": _cubic_taps}


def _reads(x, grid, mode, padding, align):
    """The taps of each dim."""
    sizes, found = tuple(x.shape)[2:], []
    for d, m in enumerate(sizes):
        place, scale = _place(grid.select(-1, len(sizes) - 1 - d), m, align)
        if mode != "bicubic":
            place, factor = _bounded(place, m, padding, align)
            scale = factor * scale
        found.append(_TAPS[mode](place, scale, m, padding, align))
    return found


def _index(chosen, x, shape):
    """The flat indices of one tap per dim, for every channel: (N, C, points)."""
    at: Any = None
    for (index, *_), m in zip(chosen, tuple(x.shape)[2:]):
        at = index if at is None else at * m + index
    return at.reshape(x.shape[0], 1, -1).expand(x.shape[0], x.shape[1], numel(shape))


def _product(factors) -> Any:
    out = None
    for f in factors:
        out = f if out is None else out * f
    return out


@composite
def grid_sample(x, grid, mode: static, padding: static, align: static):
    flat, shape, out = x.reshape(*x.shape[:2], -1), grid.shape[1:-1], None
    for chosen in itertools.product(*_reads(x, grid, mode, padding, align)):
        picked = gather(flat, 2, _index(chosen, x, shape)).reshape(*x.shape[:2], *shape)
        part = picked * _product(w for _, w, *_ in chosen).unsqueeze(1)
        out = part if out is None else out + part
    return out


grid_sample.native(grids.sample)


@grid_sample.calls
def _(c, outs, *args):
    return grids.sample_calls(c, outs[0], *args)


@grid_sample.meta
def _(x, grid, mode, padding, align):
    return Spec((*x.shape[:2], *grid.shape[1:-1]), x.dtype)


@grid_sample.grad("*")
def _(g, x, grid, mode, padding, align, needs):
    backward = _gradients if state.grad else grid_sample_backward  # (to be differentiated again: by its operations)
    return dict(zip(("x", "grid"), backward(g, x, grid, mode, padding, align)))


def _gradients(g, x, grid, mode, padding, align):
    flat, shape = x.reshape(*x.shape[:2], -1), grid.shape[1:-1]
    lines = g.reshape(*x.shape[:2], numel(shape))
    to_x, to_grid = full(tuple(flat.shape), 0, x.dtype, x.device), [None] * len(shape)
    for chosen in itertools.product(*_reads(x, grid, mode, padding, align)):
        at = _index(chosen, x, shape)
        weight = _product(w for _, w, *_ in chosen)
        weighed = mul(lines, weight.reshape(x.shape[0], 1, -1))
        inside = _product(within for *_, within in chosen).reshape(x.shape[0], 1, -1)
        to_x = scatter_add(to_x, 2, at, where(inside, weighed, full((), 0, x.dtype, x.device)))  # (infinity by 0 is NaN)
        along = (lines * gather(flat, 2, at)).sum(1).reshape(x.shape[0], *shape)
        for d in range(len(shape)):
            part = along * _product(s if e == d else w for e, (_, w, s, _) in enumerate(chosen))
            to_grid[d] = part if to_grid[d] is None else to_grid[d] + part
    return to_x.reshape(x.shape), stack(tuple(to_grid[::-1]), len(grid.shape) - 1)


@composite(outputs=("to_x", "to_grid"))
def grid_sample_backward(g, x: tensor, grid: tensor, mode: static, padding: static, align: static):
    return _gradients(g, x, grid, mode, padding, align)


grid_sample_backward.native(grids.gradients)


@grid_sample_backward.calls
def _(c, outs, *args):
    return grids.gradient_calls(c, *outs, *args)


@grid_sample_backward.meta
def _(g, x, grid, mode, padding, align):
    return Spec(tuple(x.shape), x.dtype), Spec(tuple(grid.shape), grid.dtype)


def _samples(make):
    two, three = make.fixed(2), make.fixed(3)
    places = [
        (make(2, 3, 4, 5), make.uniform(2, 3, 2, two), mode, padding, align)
        for mode in _TAPS
        for padding, align in (("zeros", False), ("border", True), ("reflection", False))
    ]
    return places + [(make(1, 2, 3, 4, 2), make.uniform(1, 2, 2, 3, three), "bilinear", "zeros", True)]


grid_sample.samples(_samples)
grid_sample_backward.samples(
    lambda make: [(make(*x.shape[:2], *grid.shape[1:-1]), x, grid, *rest) for x, grid, *rest in _samples(make)]
)
