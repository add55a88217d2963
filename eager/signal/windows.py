"""torch.signal.windows: weights of M samples that fall off to both sides, symmetric or (`sym=False`) for a periodic signal.

In: a number of samples and the shape's parameters. Out: a tensor; numbers are made in float64 and rounded once.
"""

import math

import numpy as np

from .. import dtypes, overrides
from ..memory_formats import strided
from ..frontend.arguments import device_of, dtype_of, size_of
from ..tensor import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _made(name, M, sym, formula, dtype=None, layout=strided, device=None, requires_grad=False):
    """`formula(k, n)`: of the sample numbers and of how many samples a symmetric window would have."""
    kind = dtype_of(dtype, dtypes.get_default_dtype())
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if kind not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    count = size_of(M)
    k = np.arange(int(count), dtype=np.float64)
    values = np.ones(1) if len(k) == 1 else formula(k, len(k) + (not sym))
    out = Tensor._fl_from_array(np.asarray(values, kind.numpy), kind).to(device_of(device))
    return out.requires_grad_() if requires_grad else out


def general_cosine(M, *, a, sym=True, **options):
    """A sum of cosines with alternating signs."""
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _cosines("general_cosine", M, a, sym, options)


def _cosines(name, M, a, sym, options):
    return _made(
        name, M, sym, lambda k, n: sum((-1) ** i * c * np.cos(2 * math.pi * i * k / (n - 1)) for i, c in enumerate(a)), **options
    )


def general_hamming(M, *, alpha=0.54, sym=True, **options):
    return _cosines("general_cosine", M, (alpha, 1 - alpha), sym, options)


def hamming(M, *, sym=True, **options):
    return general_hamming(M, sym=sym, **options)


def hann(M, *, sym=True, **options):
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M, *, sym=True, **options):
    return _cosines("blackman", M, (0.42, 0.5, 0.08), sym, options)


def nuttall(M, *, sym=True, **options):
    """Nuttall's minimum with four terms."""
    return _cosines("general_cosine", M, (0.3635819, 0.4891775, 0.1365995, 0.0106411), sym, options)


def bartlett(M, *, sym=True, **options):
    """A triangle with zeros at its ends."""
    return _made("bartlett", M, sym, lambda k, n: 1 - np.abs(2 * k / (n - 1) - 1), **options)


def cosine(M, *, sym=True, **options):
    """Half a wave."""
    return _made("cosine", M, sym, lambda k, n: np.sin(math.pi * (k + 0.5) / n), **options)


def exponential(M, *, center=None, tau=1.0, sym=True, **options):
    """Falling from the middle, or (`sym=False`) from `center`."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    return _made(
        "exponential", M, sym, lambda k, n: np.exp(-np.abs(k - ((n - 1) / 2 if center is None else center)) / tau), **options
    )


def gaussian(M, *, std=1.0, sym=True, **options):
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _made("gaussian", M, sym, lambda k, n: np.exp(-(((k - (n - 1) / 2) / std) ** 2) / 2), **options)


def kaiser(M, *, beta=12.0, sym=True, **options):
    """By a Bessel function; near the window whose energy is most in one band."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _made("kaiser", M, sym, lambda k, n: np.i0(beta * np.sqrt(1 - (2 * k / (n - 1) - 1) ** 2)) / np.i0(beta), **options)


overrides.publish(globals(), __all__)
