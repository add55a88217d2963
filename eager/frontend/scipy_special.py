"""Functions of torch.special that scipy computes: Bessel's of orders 0 and 1, Airy's, orthogonal polynomials.

In: tensors. Out: tensors without a gradient, as PyTorch's. Numbers are computed in float64 and rounded once.
"""

import math

import numpy as np

from .. import dtypes
from ..dispatch import type_name
from ..optional_imports import extra
from ..op.promote import result_type, to_float
from ..ops import arithmetic as a, elementary as e, special as r
from ..tensor import Tensor
from .arguments import takes_out
from .host_fallback import on_host


def _computed(name, formula, *operands):
    """`formula` takes scipy.special and arrays of float64."""
    kind = to_float(result_type(operands))
    if kind not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f'"{name}_cpu" not implemented for {type_name(kind)!r}')
    arrays = [np.asarray(v._values(f"{name}()") if isinstance(v, Tensor) else v, np.float64) for v in operands]
    special = extra("scipy.special", f"torch.special.{name}", "special")
    with np.errstate(all="ignore"):
        return Tensor._fl_from_array(np.asarray(formula(special, *arrays)).astype(kind.numpy), kind)


# -- Bessel's and Airy's functions


def _airy(special, x):
    """Ai; far out, where scipy gives none, the first term of its expansion (DLMF 9.7.5, 9.7.9)."""
    far = np.isfinite(x) & (np.abs(x) > 1e6)
    root = np.sqrt(np.where(far, np.abs(x), 1.0))
    wave = np.sin(2 / 3 * root**3 + math.pi / 4) / np.sqrt(math.pi * root)
    return np.where(far, np.where(x > 0, 0.0, wave), special.airy(x)[0])


_OF_A_NUMBER = {
    "airy_ai": _airy,
    "bessel_j0": lambda special, x: special.j0(x),
    "bessel_j1": lambda special, x: special.j1(x),
    "bessel_y0": lambda special, x: special.y0(x),
    "bessel_y1": lambda special, x: special.y1(x),
    "modified_bessel_k0": lambda special, x: special.k0(x),
    "modified_bessel_k1": lambda special, x: special.k1(x),
    "scaled_modified_bessel_k0": lambda special, x: special.k0e(x),
    "scaled_modified_bessel_k1": lambda special, x: special.k1e(x),
}


def _of_a_number(name, formula):
    @takes_out
    @on_host
    def function(input):
        if not isinstance(input, Tensor):
            raise TypeError(f"special_{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        return _computed(name, formula, input)

    function.__name__ = function.__qualname__ = name
    return function


# -- orthogonal polynomials

_FAMILIES = {
    "chebyshev_polynomial_t": lambda special, n, x: special.eval_chebyt(n, x),
    "chebyshev_polynomial_u": lambda special, n, x: special.eval_chebyu(n, x),
    "chebyshev_polynomial_v": lambda special, n, x: special.eval_chebyu(n, x) - special.eval_chebyu(n - 1, x),
    "chebyshev_polynomial_w": lambda special, n, x: special.eval_chebyu(n, x) + special.eval_chebyu(n - 1, x),
    "hermite_polynomial_h": lambda special, n, x: special.eval_hermite(n, x),
    "hermite_polynomial_he": lambda special, n, x: special.eval_hermitenorm(n, x),
    "laguerre_polynomial_l": lambda special, n, x: special.eval_laguerre(n, x),
    "legendre_polynomial_p": lambda special, n, x: special.eval_legendre(n, x),
}


def _polynomial(name, family, shifted=False):
    def formula(special, x, n):
        x, n = 2 * x - 1 if shifted else x, n.astype(np.int64)
        value = family(special, np.maximum(n, 0), x)
        lost = np.isnan(value) & (n < 3)  # scipy's first degrees of infinities
        value = np.where(lost, x**n, value) if lost.any() else value
        return np.where(n < 0, 0.0, value)

    @takes_out
    @on_host
    def function(input, n):
        if not isinstance(input, Tensor) and not isinstance(n, Tensor):
            raise TypeError(
                f"special_{name}() received an invalid combination of arguments - got "
                f"({type(input).__name__}, {type(n).__name__}), but expected a Tensor for x or for n"
            )
        return _computed(name, formula, input, n)

    function.__name__ = function.__qualname__ = name
    return function


FUNCTIONS = {name: _of_a_number(name, formula) for name, formula in _OF_A_NUMBER.items()}
FUNCTIONS |= {name: _polynomial(name, family) for name, family in _FAMILIES.items()}
FUNCTIONS |= {f"shifted_{name}": _polynomial(f"shifted_{name}", f, True) for name, f in _FAMILIES.items() if "chebyshev" in name}


# -- what needs no scipy: a formula, and records under another name


@takes_out
def modified_bessel_i0(input):
    return r.i0(input)


@takes_out
def modified_bessel_i1(input):
    return r.i1(input)


@takes_out
def spherical_bessel_j0(input):
    """sin(x) / x"""
    x = input if input.dtype.category > 1 else input.to(dtypes.get_default_dtype())
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f'"spherical_bessel_j0_cpu" not implemented for {type_name(x.dtype)!r}')
    zero, far = a.eq(x, 0), e.isinf(x)
    value = a.div(e.sin(a.where(far, 0.0, x)), a.where(zero, 1.0, x))
    return a.where(zero, 1.0, value)
