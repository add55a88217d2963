"""Discrete Fourier transforms over several dims: complex to complex, real to half a spectrum, and back.

`scale` multiplies the result; `forward` is the sign of the exponent. Sizes are those of the tensors: padding and
cutting is done before. The transforms are linear, so a gradient is a transform too.
"""

import numpy as np

from .. import _call, dtypes
from ..op.meta import Spec
from ..op.op import extern, scalar, size, static
from .arithmetic import eq, mul, where
from .complex_numbers import real
from .creation import arange
from .rearrange import pad


def _complex_kind(x):
    return np.complex128 if x.dtype in (np.float64, np.complex128) else np.complex64


def _along(x, dims, forward, scale, kind):
    """The native transform along each of `dims`, the last one first; NotImplemented for other types, for a length that it has
    no passes for, and for short rows that are few."""
    if x.dtype != kind or not x.size or any(not _call.transforms(x.shape[d]) for d in dims):
        return NotImplemented
    for d in reversed(dims):
        last = d == x.ndim - 1
        rows = np.ascontiguousarray(x if last else np.moveaxis(x, d, -1))
        x = _call.fourier(rows, not forward, scale)
        x, scale = x if last else np.ascontiguousarray(np.moveaxis(x, -1, d)), 1.0
    return x


@extern(meta=lambda x, dims, forward, scale: x.shape)
def fft_c2c(x, dims: static, forward: static, scale: scalar):
    out = np.fft.fftn(x, axes=dims) if forward else np.fft.ifftn(x, axes=dims, norm="forward")
    return (out * scale).astype(x.dtype, copy=False)


@fft_c2c.native
def _(x, dims, forward, scale):
    return _along(x, dims, forward, scale, np.complex64)


@fft_c2c.grad("x")
def _(g, dims, forward, scale):
    return fft_c2c(g, dims, forward, scale)


def _half(x, dims):
    last = dims[-1]
    return Spec((*x.shape[:last], x.shape[last] // 2 + 1, *x.shape[last + 1 :]), x.dtype.to_complex())


@extern(meta=lambda x, dims, forward, scale: _half(x, dims))
def fft_r2c(x, dims: static, forward: static, scale: scalar):
    """The first half (and the middle) of the last dim's spectrum: the rest mirrors it."""
    out = np.fft.rfftn(x, axes=dims)
    return ((out if forward else out.conj()) * scale).astype(_complex_kind(x), copy=False)


@fft_r2c.native
def _(x, dims, forward, scale):
    found = _along(x, dims[-1:], forward, scale, np.float32)
    if found is NotImplemented or len(dims) == 1:
        return found
    return _along(found, dims[:-1], forward, 1.0, np.complex64)


@fft_r2c.grad("x")
def _(g, x, dims, forward, scale):
    last = dims[-1]
    room = tuple((0, x.shape[d] - g.shape[d]) if d == last else (0, 0) for d in range(len(x.shape)))
    return real(fft_c2c(pad(g, room, 0), dims, forward, scale))


@extern(
    meta=lambda x, dims, forward, scale, length: Spec((*x.shape[: dims[-1]], length, *x.shape[dims[-1] + 1 :]), x.dtype.to_real())
)
def fft_c2r(x, dims: static, forward: static, scale: scalar, length: size):
    """From half a spectrum to `length` real values along the last of dims."""
    source = x.conj() if forward else x
    shape = [x.shape[d] for d in dims[:-1]] + [length]
    out = np.fft.irfftn(source, s=shape, axes=dims, norm="forward")
    return (out * scale).astype(x.real.dtype, copy=False)


@fft_c2r.grad("x")
def _(g, x, dims, forward, scale, length):
    """The opposite transform, with the inner frequencies twice: each stands for two."""
    last = dims[-1]
    half = fft_r2c(g, dims, not forward, scale)
    n = half.shape[last]
    k = arange(0, 1, n, dtypes.int64, g.device)
    weight = where(eq(k, 0), 1.0, 2.0)
    if length % 2 == 0:
        weight = where(eq(k, length // 2), 1.0, weight)
    return mul(half, weight.reshape([-1 if d == last else 1 for d in range(len(half.shape))]).to(g.dtype))


fft_r2c.samples(lambda make: [(make(6), (0,), True, 1.0), (make(3, 5), (0, 1), True, 0.5), (make(4, 3), (0,), False, 1.0)])
