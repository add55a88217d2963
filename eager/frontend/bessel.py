"""Bessel functions of orders 0 and 1 and Airy's function, under torch.special's names. Their results carry no gradient.

Numbers are computed in float64 and rounded once. Sources (DLMF: NIST's Digital Library of Mathematical Functions): integrals
of Bessel (10.9.1, 10.32.9) by the trapezoid rule, which converges exponentially for them; series (10.8, 10.31.1); asymptotic
expansions (10.17.3, 10.40.2, 9.7.5, 9.7.9) where their least term is below 1e-16; Taylor series from points of a table for Ai.
"""

import functools
import math
from decimal import Decimal, localcontext

import numpy as np

from .. import dtypes
from ..dispatch import type_name
from ..ops import arithmetic as a, elementary as e, special as r
from ..tensor import Tensor
from .arguments import takes_out
from .host_fallback import on_host

_EULER = 0.57721566490153286061
_BLOCK = 1 << 13


def _function(name, kernel):
    """A public function of one tensor; the kernel is given blocks of float64."""

    @takes_out
    @on_host
    def function(input):
        if not isinstance(input, Tensor):
            raise TypeError(f"special_{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        kind = input.dtype if input.dtype.category > 1 else dtypes.get_default_dtype()
        if kind not in (dtypes.float32, dtypes.float64):
            raise NotImplementedError(f'"{name}_cpu" not implemented for {type_name(kind)!r}')
        x = input._values(f"{name}()")
        flat, out = x.reshape(-1).astype(np.float64), np.empty(x.size)
        with np.errstate(all="ignore"):
            for k in range(0, x.size, _BLOCK):
                out[k : k + _BLOCK] = kernel(flat[k : k + _BLOCK])
            return Tensor._from_array(out.reshape(x.shape).astype(kind.numpy), kind)

    function.__name__ = function.__qualname__ = name
    return function


def _powers(x, coefficients):
    """A polynomial: coefficients from the constant one on."""
    total = np.zeros_like(x)
    for c in reversed(coefficients):
        total = total * x + c
    return total


# -- J and Y

_HALF_TURN = (np.arange(80) + 0.5) * (math.pi / 80)
_SINES = np.sin(_HALF_TURN)
_ORDERS = np.arange(1, 37)
_J1_SERIES = [(-1) ** k / (math.factorial(k) * math.factorial(k + 1)) for k in range(16)]
# what the sums of Y multiply the integrand by: terms (-1)^k / k of J_2k, and their like of J_2k+1
_Y0_WEIGHTS = np.cos(2 * _HALF_TURN[:, None] * _ORDERS) @ ((-1.0) ** _ORDERS / _ORDERS) / 80
_Y1_WEIGHTS = (
    np.sin(_HALF_TURN[:, None] * (2 * _ORDERS + 1)) @ ((-1.0) ** _ORDERS * (2 * _ORDERS + 1) / (_ORDERS * (_ORDERS + 1))) / 80
)
_FAR = 25.0


def _near(order, x):
    """J and the sum of Y for x below 25."""
    waves = np.multiply.outer(x, _SINES)
    waves = np.sin(waves) if order else np.cos(waves)
    j = waves @ (_SINES if order else np.ones(80)) / 80
    if order:
        j = np.where(np.abs(x) < 2, x / 2 * _powers(x * x / 4, _J1_SERIES), j)
    return j, waves @ (_Y1_WEIGHTS if order else _Y0_WEIGHTS)


@functools.cache
def _hankel(order):
    """a_k(order) of DLMF 10.17.1"""
    terms, mu = [1.0], 4 * order * order
    for k in range(1, 30):
        terms.append(terms[-1] * (mu - (2 * k - 1) ** 2) / (8 * k))
    return terms


def _far(order, x):
    """(J, Y) for large x."""
    terms, y = _hankel(order), 1 / np.maximum(x, _FAR)
    p = _powers(y * y, [(-1) ** (k // 2) * t for k, t in enumerate(terms) if k % 2 == 0])
    q = y * _powers(y * y, [(-1) ** (k // 2) * t for k, t in enumerate(terms) if k % 2])
    sine, cosine = np.sin(x), np.cos(x)
    if order:  # of the angle x - 3 pi / 4, times the root of 2
        cosine, sine = sine - cosine, -sine - cosine
    else:
        cosine, sine = cosine + sine, sine - cosine
    size = np.sqrt(y / math.pi)
    return size * (p * cosine - q * sine), size * (p * sine + q * cosine)


def _j(order):
    def kernel(x):
        size = np.abs(x)
        near = _near(order, np.where(size < _FAR, size, 0.0))[0]
        out = np.where(size < _FAR, near, _far(order, size)[0])
        return np.copysign(1.0, x) * out if order else out

    return kernel


def _y(order):
    def kernel(x):
        small = np.where((x > 0) & (x < _FAR), x, 1.0)
        j, rest = _near(order, small)
        near = 2 / math.pi * (np.log(small / 2) + _EULER - order) * j - (2 if order else 4) / math.pi * rest
        near = near - 2 / math.pi / small * _near(0, small)[0] if order else near
        out = np.where(x < _FAR, near, _far(order, x)[1])
        return np.where(x > 0, out, np.where(x == 0, -np.inf, np.nan))

    return kernel


bessel_j0, bessel_j1 = _function("bessel_j0", _j(0)), _function("bessel_j1", _j(1))
bessel_y0, bessel_y1 = _function("bessel_y0", _y(0)), _function("bessel_y1", _y(1))


# -- I and K


@takes_out
def modified_bessel_i0(input):
    return r.i0(input)


@takes_out
def modified_bessel_i1(input):
    return r.i1(input)


_STEPS = np.arange(0, 4.5, 1 / 16)


def _k_series(order, x):
    """For x up to 1.5."""
    q, harmonic, i, rest = x * x / 4, 0.0, [], []
    for k in range(16):
        scale = 1 / (math.factorial(k) * math.factorial(k + order))
        i.append(scale)
        rest.append(scale * (2 * harmonic + 1 / (k + 1) if order else harmonic))
        harmonic += 1 / (k + 1)
    log, rest = np.log(x / 2) + _EULER, _powers(q, rest)
    if order:
        return 1 / x + x / 2 * (log * _powers(q, i) - rest / 2)
    return rest - log * _powers(q, i)


def _k(order, scaled):
    def kernel(x):
        small, middle = np.clip(x, 5e-324, 1.5), np.clip(x, 1.5, 20.0)
        far = np.where(x > 20, x, 20.0)
        weights = np.where(_STEPS == 0, 0.5, 1.0) * np.cosh(order * _STEPS) / 16
        integral = np.exp(-np.multiply.outer(middle, np.cosh(_STEPS) - 1)) @ weights
        tail = np.sqrt(math.pi / 2 / far) * _powers(1 / far, _hankel(order))
        out = np.where(x > 20, tail, integral)
        near = _k_series(order, small)
        out = np.where(x > 1.5, out if scaled else out * np.exp(-x), near * np.exp(small) if scaled else near)
        return np.where(x > 0, out, np.where(x == 0, np.inf, np.nan))

    return kernel


modified_bessel_k0, modified_bessel_k1 = (_function(f"modified_bessel_k{n}", _k(n, False)) for n in (0, 1))
scaled_modified_bessel_k0, scaled_modified_bessel_k1 = (_function(f"scaled_modified_bessel_k{n}", _k(n, True)) for n in (0, 1))


@takes_out
def spherical_bessel_j0(input):
    """sin(x) / x"""
    x = input if input.dtype.category > 1 else input.to(dtypes.get_default_dtype())
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f'"spherical_bessel_j0_cpu" not implemented for {type_name(x.dtype)!r}')
    zero, far = a.eq(x, 0), e.isinf(x)
    value = a.div(e.sin(a.where(far, 0.0, x)), a.where(zero, 1.0, x))
    return a.where(zero, 1.0, value)


# -- Ai

_AI = Decimal("0.355028053887817239260063186004183176397979174199177240583327")
_SLOPE = Decimal("-0.258819403792806798405183560189203963479091138354934582210002")
_REACH, _TERMS = 9, 32


def _around(c, value, slope, count):
    """Taylor coefficients at c of the solution of y'' = x y."""
    terms = [value, slope, c * value / 2]
    for n in range(3, count):
        terms.append((c * terms[n - 2] + terms[n - 3]) / (n * (n - 1)))
    return terms


@functools.cache
def _table():
    """Coefficients at the whole numbers from -9 to 9, from those at 0 in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        start = _around(Decimal(0), _AI, _SLOPE, 220)
        rows = []
        for c in map(Decimal, range(-_REACH, _REACH + 1)):
            value = slope = Decimal(0)
            for t in reversed(start):
                value, slope = value * c + t, slope * c + value
            rows.append([float(t) for t in _around(c, value, slope, _TERMS)])
    return np.array(rows)


def _expansion():
    """u_k of DLMF 9.7.2"""
    terms = [1.0]
    for k in range(1, 26):
        terms.append(terms[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    return terms


def _airy(x):
    inside = np.clip(np.where(np.isnan(x), 0.0, x), -_REACH, _REACH)
    centre = np.rint(inside)
    rows, step, near = _table()[(centre + _REACH).astype(np.int64)], inside - centre, 0.0
    for n in reversed(range(_TERMS)):
        near = near * step + rows[..., n]
    size = np.maximum(np.abs(x), _REACH)
    root = np.sqrt(size)
    zeta, terms = 2 / 3 * size * root, _expansion()
    falling = np.exp(-zeta) / (2 * math.sqrt(math.pi) * np.sqrt(root)) * _powers(-1 / zeta, terms)
    even = _powers(-1 / zeta**2, terms[::2])
    odd = _powers(-1 / zeta**2, terms[1::2]) / zeta
    sine, cosine = np.sin(zeta), np.cos(zeta)  # of zeta - pi / 4, times the root of 2
    waves = ((cosine + sine) * even + (sine - cosine) * odd) / np.sqrt(2 * math.pi * root)
    out = np.where(np.abs(x) <= _REACH, near, np.where(x > 0, falling, waves))
    return np.where(np.isnan(x), np.nan, out)


airy_ai = _function("airy_ai", _airy)
