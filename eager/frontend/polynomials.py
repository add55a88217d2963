"""Orthogonal polynomials of degree n under torch.special's names, by their recurrences of three terms (DLMF 18.9.1) in float64;
Chebyshev's of high degree inside of [-1, 1] by angles (18.5). Their results carry no gradient."""

import numpy as np

from .. import dtypes
from ..dispatch import type_name
from ..op.promote import result_type, to_float
from ..tensor import Tensor
from .arguments import takes_out
from .host_fallback import on_host

_MANY = 64  # degrees from which on angles are used


def _doubling(k, x, q, p):
    return 2 * x * q - p


def _angles(first, second):
    """For x = cos t: first(n, t) / second(t)."""

    def by_angle(n, x):
        t = np.arccos(x)
        return first(n, t) / second(t)

    return by_angle


# name -> (p of degree 1, p of degree k by (k, x, p of k-1, p of k-2), by angle)
_FAMILIES = {
    "chebyshev_polynomial_t": (lambda x: x, _doubling, _angles(lambda n, t: np.cos(n * t), lambda t: 1.0)),
    "chebyshev_polynomial_u": (lambda x: 2 * x, _doubling, _angles(lambda n, t: np.sin((n + 1) * t), np.sin)),
    "chebyshev_polynomial_v": (
        lambda x: 2 * x - 1,
        _doubling,
        _angles(lambda n, t: np.cos((n + 0.5) * t), lambda t: np.cos(t / 2)),
    ),
    "chebyshev_polynomial_w": (
        lambda x: 2 * x + 1,
        _doubling,
        _angles(lambda n, t: np.sin((n + 0.5) * t), lambda t: np.sin(t / 2)),
    ),
    "hermite_polynomial_h": (lambda x: 2 * x, lambda k, x, q, p: 2 * x * q - 2 * (k - 1) * p, None),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, q, p: x * q - (k - 1) * p, None),
    "laguerre_polynomial_l": (lambda x: 1 - x, lambda k, x, q, p: ((2 * k - 1 - x) * q - (k - 1) * p) / k, None),
    "legendre_polynomial_p": (lambda x: x, lambda k, x, q, p: ((2 * k - 1) * x * q - (k - 1) * p) / k, None),
}


def _values(family, x, n):
    """Of arrays of one shape; 0 for negative degrees."""
    first, step, by_angle = family
    x, n = x.reshape(-1), n.reshape(-1)
    out = np.where(n == 0, 1.0, np.where(n < 0, 0.0, first(x)))
    if by_angle is not None:
        turned = (n > _MANY) & (np.abs(x) < 1)
        out[turned] = by_angle(n[turned], x[turned])
        rest = np.flatnonzero((n > 1) & ~turned)
    else:
        rest = np.flatnonzero(n > 1)
    x, n = x[rest], n[rest]
    found, p, q = np.empty(len(rest)), np.ones(len(rest)), first(x)
    for k in range(2, int(n.max(initial=1)) + 1):
        p, q = q, step(k, x, q, p)
        found[n == k] = q[n == k]
    out[rest] = found
    return out


def _polynomial(name, family, shifted):
    @takes_out
    @on_host
    def function(input, n):
        if not isinstance(input, Tensor) and not isinstance(n, Tensor):
            raise TypeError(
                f"special_{name}() received an invalid combination of arguments - got "
                f"({type(input).__name__}, {type(n).__name__}), but expected a Tensor for x or for n"
            )
        kind = to_float(result_type((input, n)))
        if kind not in (dtypes.float32, dtypes.float64):
            raise NotImplementedError(f'"{name}_cpu" not implemented for {type_name(kind)!r}')
        x, degree = (v._values(f"{name}()").astype(np.float64) if isinstance(v, Tensor) else np.float64(v) for v in (input, n))
        x, degree = np.broadcast_arrays(x, np.trunc(degree))
        with np.errstate(all="ignore"):
            found = _values(family, 2 * x - 1 if shifted else x, degree)
            return Tensor._from_array(found.reshape(x.shape).astype(kind.numpy), kind)

    function.__name__ = function.__qualname__ = name
    return function


FUNCTIONS = {name: _polynomial(name, family, False) for name, family in _FAMILIES.items()}
FUNCTIONS.update(
    (f"shifted_{name}", _polynomial(f"shifted_{name}", family, True))
    for name, family in _FAMILIES.items()
    if name.startswith("chebyshev")
)
