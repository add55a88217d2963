"""torch.fft: discrete Fourier transforms over chosen dims, and helpers for frequencies.

Sizes `n` and `s` cut or pad with zeros first; `norm` says where the factor 1/n goes ("backward": inverse only).
"""

import math

import numpy as np

from . import dtypes, overrides
from .dispatch import small
from .ops import fourier as f
from .ops.rearrange import pad
from .frontend import creation, shapes
from .frontend.arguments import device_of, dim_of, dtype_of, takes_out
from .tensor import Tensor

_NORMS = ("backward", "ortho", "forward")


def _scale(norm, forward, total):
    if norm not in (None, *_NORMS):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    norm = norm or "backward"
    if norm == "ortho":
        return 1.0 / total**0.5  # (math.sqrt would ask a symbolic size for its value)
    return 1.0 / total if (norm == "forward") == forward else 1.0


def _complex(x):
    return x if x.dtype.is_complex else _real(x).to(x.dtype.to_complex() if x.dtype.category > 1 else dtypes.default_complex())


def _real(x):
    if x.dtype in (dtypes.float16, dtypes.bfloat16):
        raise RuntimeError(f"Unsupported dtype {x.dtype.name.capitalize()}")
    return x if x.dtype.category > 1 else x.to(dtypes.get_default_dtype())


def _resized(x, dims, sizes):
    """x cut or padded with zeros at the end, to `sizes` along `dims` (None: as it is)."""
    for d, n in zip(dims, sizes):
        if n is None or n == -1:
            continue
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
        if n < x.shape[d]:
            x = x.narrow(d, 0, n)
        elif n > x.shape[d]:
            x = pad(x, tuple((0, n - x.shape[d]) if k == d else (0, 0) for k in range(x.ndim)), 0)
    return x


def _plan(x, s, dim):
    """(dims, sizes) of a transform over several dims."""
    if dim is None:
        dims = tuple(range(x.ndim)) if s is None else tuple(range(x.ndim - len(s), x.ndim))
    else:
        dims = tuple(dim_of(x, d) for d in ((dim,) if isinstance(dim, int) else dim))
    sizes = (None,) * len(dims) if s is None else tuple((s,) if isinstance(s, int) else s)
    if len(sizes) != len(dims):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    if len(set(dims)) != len(dims):
        raise RuntimeError("FFT dims must be unique")
    return dims, sizes


def _to_complex(x, s, dim, norm, forward):
    dims, sizes = _plan(x, s, dim)
    x = _resized(_complex(x), dims, sizes)
    return f.fft_c2c(x, dims, forward, _scale(norm, forward, math.prod(x.shape[d] for d in dims)))


def _from_real(x, s, dim, norm, forward):
    if x.dtype.is_complex:
        raise RuntimeError(f"rfft expects a floating point input tensor, but got {x.dtype}")
    dims, sizes = _plan(x, s, dim)
    x = _resized(_real(x), dims, sizes)
    return f.fft_r2c(x, dims, forward, _scale(norm, forward, math.prod(x.shape[d] for d in dims)))


def _to_real(x, s, dim, norm, forward):
    dims, sizes = _plan(x, s, dim)
    x = _complex(x)
    length = sizes[-1] if sizes[-1] not in (None, -1) else 2 * (x.shape[dims[-1]] - 1)
    if length < 1:
        raise RuntimeError(f"Invalid number of data points ({length}) specified")
    x = _resized(x, dims, (*sizes[:-1], length // 2 + 1))
    total = math.prod([x.shape[d] for d in dims[:-1]]) * length
    return f.fft_c2r(x, dims, forward, _scale(norm, forward, total), length)


def _one(transform, forward):
    @takes_out
    def function(input, n=None, dim=-1, norm=None):
        return transform(input, None if n is None else (n,), (dim,), norm, forward)

    return function


def _two(transform, forward):
    @takes_out
    def function(input, s=None, dim=(-2, -1), norm=None):
        return transform(input, s, dim, norm, forward)

    return function


def _many(transform, forward):
    @takes_out
    def function(input, s=None, dim=None, norm=None):
        return transform(input, s, dim, norm, forward)

    return function


def _named(name, function):
    function.__name__ = function.__qualname__ = name
    return function


fft, ifft = _named("fft", _one(_to_complex, True)), _named("ifft", _one(_to_complex, False))
fft2, ifft2 = _named("fft2", _two(_to_complex, True)), _named("ifft2", _two(_to_complex, False))
fftn, ifftn = _named("fftn", _many(_to_complex, True)), _named("ifftn", _many(_to_complex, False))
rfft, irfft = _named("rfft", _one(_from_real, True)), _named("irfft", _one(_to_real, False))
rfft2, irfft2 = _named("rfft2", _two(_from_real, True)), _named("irfft2", _two(_to_real, False))
rfftn, irfftn = _named("rfftn", _many(_from_real, True)), _named("irfftn", _many(_to_real, False))
hfft, ihfft = _named("hfft", _one(_to_real, True)), _named("ihfft", _one(_from_real, False))
hfftn, ihfftn = _named("hfftn", _many(_to_real, True)), _named("ihfftn", _many(_from_real, False))
hfft2, ihfft2 = _named("hfft2", _two(_to_real, True)), _named("ihfft2", _two(_from_real, False))


for _name in ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "rfft", "rfft2", "rfftn"):
    globals()[_name] = small(_name, globals()[_name])


def _frequencies(name):
    """numpy's function of that name (numpy.fft is imported with the first call)."""

    def function(n, d=1.0, *, out=None, dtype=None, device=None, requires_grad=False, layout=None):
        kind = dtype_of(dtype, dtypes.get_default_dtype())
        t = Tensor._fl_from_array(getattr(np.fft, name)(n, d).astype(kind.numpy), kind).to(device_of(device))
        return creation.finished(t, requires_grad, out, layout=layout)

    return function


fftfreq, rfftfreq = (_named(name, _frequencies(name)) for name in ("fftfreq", "rfftfreq"))


def _rolled(input, dim, half):
    dims = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    return shapes.roll(input, tuple(half(input.shape[d]) for d in dims), dims)


def fftshift(input, dim=None):
    """Frequency 0 to the middle."""
    return _rolled(input, dim, lambda n: n // 2)


def ifftshift(input, dim=None):
    return _rolled(input, dim, lambda n: (n + 1) // 2)


overrides.publish(
    globals(), [name for name, f in globals().items() if not name.startswith("_") and "fft" in name and callable(f)]
)
