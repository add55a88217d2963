"""Special functions that no scalar primitive gives: eager kernels on numpy arrays in float64, rounded once.

atan2, the gamma family (lgamma, digamma, polygamma), Bessel functions of imaginary argument, erfcx. Compiled code calls
back into these kernels.
"""

import functools
import math

import numpy as np

from ...runtime import elementwise, special as kernels
from ...runtime.kernel_calls import NumberTable
from .. import _call, dtypes
from ..op import prims
from ..op.meta import broadcast_shapes
from ..op.op import Kind, composite, extern, pointwise, static
from ..op.promote import ordered, promote_types
from .arithmetic import absolute, add, clamp, div, eq, gt, le, logical_and, logical_or, lt, mul, neg, sign, square, sub, where
from .elementary import cos, erf, exp, log, log1p, sin
from .upcast import back, single


def _rounded(function, *arrays):
    """The function of the arrays in float64, in the type in which they promote; integers give the default type."""
    kind = _common(arrays).numpy
    broadcast_shapes(tuple([a.shape for a in arrays]), function.__name__)
    with np.errstate(all="ignore"):
        return np.asarray(function(*[a.astype(np.float64) for a in arrays]), kind)


def _native(record, name, function=None, doubles=True):
    """The runtime's kernel of a function of one operand, for floating types; `function`: what its series is fitted to.
    `doubles`: the kernel is as exact as the formula in float64. A composite's results lie in memory as its formula has them."""

    def general(x):
        if not x.size or not _floats(x) or x.dtype == np.float64 and not doubles:
            return NotImplemented
        if record.kind is Kind.COMPOSITE and not x.flags.c_contiguous:
            return NotImplemented
        return kernels.special(name, x, x.dtype, function)

    series = functools.partial(kernels.series, name, function)
    record.native(_call.special(name, general, series, doubles))
    record.calls(lambda c, outs, x: _calls(c, name, outs[0], x, series, doubles))


def _calls(c, name, out, x, series, doubles):
    """For compiled code: the same kernel, of single and, where it is as exact, of double numbers."""
    if x.dtype is not dtypes.float32 and not (doubles and x.dtype is dtypes.float64) or c.is_empty(x):
        return None
    if out.strides != c.rows(out).strides:  # (a composite's results)
        return None
    coefficients, numbers = series(x.dtype is dtypes.float64)
    return kernels.special_calls(c, name, out, x, NumberTable(tuple(coefficients.tolist()), dtypes.float64), numbers)


def _floats(x) -> bool:
    return dtypes.from_numpy(x.dtype).category == 2


def _common(arrays):
    """The type of a result, as arrays without dims promote less than others."""
    kinds = [(dtypes.from_numpy(a.dtype), a.ndim) for a in arrays]
    floating = [(k, n) for k, n in kinds if k.category >= 2] or [(dtypes.get_default_dtype(), 1)]
    strong = [k for k, n in floating if n] or [k for k, n in floating]
    return functools.reduce(promote_types, strong)


def _pair_shape(a, b):
    return broadcast_shapes((tuple(a.shape), tuple(b.shape)), "broadcast")


@pointwise(promote="float")
def entr(s, x):
    """-x log x; 0 at 0, -inf below."""
    return s.where(s.lt(x, 0), -math.inf, s.where(s.eq(x, 0), 0.0, -x * s.log(x)))


@entr.grad("x")
def _(g, x):
    return mul(g, neg(add(log(x), 1.0)))


entr.samples(lambda make: [(make.positive(3, 4),), (make.positive(),), (make.positive(0),)])


@extern(meta=_pair_shape, promote=ordered("atan2", "float"))
def atan2(a, b):
    """The angle of the point (b, a)."""
    return _rounded(np.arctan2, a, b)


atan2.native(lambda a, b: elementwise.every_pair("atan2", a, b))


@atan2.grad("a")
def _(g, a, b):
    return mul(mul(g, b), _over_squares(a, b))


@atan2.grad("b")
def _(g, a, b):
    return neg(mul(mul(g, a), _over_squares(a, b)))


def _over_squares(a, b):
    """1 / (a*a + b*b); the angle of the origin does not change."""
    square_sum = add(square(a), square(b))
    return where(eq(square_sum, 0), 0.0, div(1.0, square_sum))


atan2.samples(lambda make: [(make(3, 4), make(3, 4)), (make.positive(3, 1), make.positive(4)), (make(0), make(0))])


# -- the gamma family

_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def _shifted(x, low):
    """(y, product of what was passed, sum of its reciprocals): y = x + k >= low for positive x."""
    y, product, harmonic = x.copy(), np.ones_like(x), np.zeros_like(x)
    for _ in range(low):
        small = y < low
        product = np.where(small, product * y, product)
        harmonic = np.where(small, harmonic + 1 / y, harmonic)
        y = np.where(small, y + 1, y)
    return y, product, harmonic


def log_gamma(x):
    """log |gamma(x)|: recurrence up to 10, Stirling's series; reflection for negative x."""
    x = np.asarray(x, np.float64)
    mirrored = x < 0.5
    y, product, _ = _shifted(np.where(mirrored, 1 - x, x), 10)
    series = sum(c / y ** (2 * k + 1) for k, c in enumerate(_STIRLING))
    out = (y - 0.5) * np.log(y) - y + 0.5 * math.log(2 * math.pi) + series - np.log(product)
    out = np.where(np.isinf(y), np.inf, out)
    wave = np.abs(np.sin(math.pi * (x - np.round(x))))
    return np.where(mirrored, np.where(np.isinf(x), np.inf, math.log(math.pi) - np.log(wave) - out), out)


_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def psi(x):
    """The derivative of log gamma; at 0 the signed infinity, at negative integers NaN."""
    mirrored = x < 0.5
    y, _, harmonic = _shifted(np.where(mirrored, 1 - x, x), 10)
    out = np.log(y) - 0.5 / y - sum(c / y ** (2 * k + 2) for k, c in enumerate(_DIGAMMA)) - harmonic
    out = np.where(np.isinf(y), np.inf, out)
    pole = x == np.floor(x)
    turned = out - math.pi / np.tan(math.pi * (x - np.round(x)))
    out = np.where(mirrored, np.where(pole, np.nan, turned), out)
    return np.where(x == 0, np.copysign(np.inf, -x), out)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


_FAR = 1e5  # below its negative no terms are counted


def trigamma(x):
    """The derivative of digamma, below 1/2 by reflection."""
    mirrored = x < 0.5
    r = x - np.rint(x)
    tail = hurwitz_zeta(2, np.where(mirrored, 1 - x, x))
    return np.where(mirrored, (math.pi / np.sin(math.pi * r)) ** 2 - tail, tail)


def hurwitz_zeta(s, q):
    """sum over k >= 0 of (q + k) ** -s, by Euler and Maclaurin after 10 terms."""
    s, q = np.broadcast_arrays(np.asarray(s, np.float64), np.asarray(q, np.float64))
    below = np.where((q < 0) & (q > -_FAR), np.ceil(-q), 0.0)  # terms ahead of the first positive one
    passed = sum((np.where(k < below, q + k, np.inf) ** -s for k in range(int(below.max(initial=0)))), np.zeros(()))
    start = q + below
    first = total = passed + sum((start + k) ** -s for k in range(10))
    y = start + 10
    total = total + y ** (1 - s) / (s - 1) + 0.5 * y**-s
    rising, power, factorial = s, y ** (-s - 1), 2.0
    for k, b in enumerate(_BERNOULLI):
        total = total + b / factorial * rising * power
        rising = rising * (s + 2 * k + 1) * (s + 2 * k + 2)
        power, factorial = power / (y * y), factorial * (2 * k + 3) * (2 * k + 4)
    total = np.where(s > 1e4, first, total)
    poles = (q <= 0) & (q == np.floor(q))
    total = np.where(poles, np.inf, np.where((q <= 0) & (s != np.floor(s)), np.nan, total))
    return np.where(s == 1, np.inf, np.where(s < 1, np.nan, total))


@extern(meta=lambda x: x.shape, promote="float")
def lgamma(x):
    return _rounded(log_gamma, x)


@extern(meta=lambda x: x.shape, promote="float")
def digamma(x):
    return _rounded(psi, x)


@extern(meta=lambda x, n: x.shape, promote="float", roles={"n": "static"})
def polygamma(x, n):
    """The n-th derivative of digamma, n >= 1."""
    if n == 1:
        return _rounded(trigamma, x)
    return _rounded(lambda v: _leading(n) * hurwitz_zeta(n + 1, v), x)


@polygamma.native
def _(x, n):
    """Of the first orders, as whose power the kernel computes the terms."""
    if not x.size or not _floats(x) or n > 10:
        return NotImplemented
    return kernels.special("polygamma", x, x.dtype, s=n + 1, factor=_leading(n))


@polygamma.calls
def _(c, outs, x, n):
    if n > 10 or x.dtype not in (dtypes.float32, dtypes.float64) or c.is_empty(x):
        return None
    return kernels.special_calls(c, "polygamma", outs[0], x, None, (n + 1,), _leading(n))


def _leading(n):
    """What zeta(n + 1) is times in the n-th derivative of digamma."""
    return (1.0 if n % 2 else -1.0) * math.factorial(n)


_native(lgamma, "lgamma")
_native(digamma, "digamma")


@lgamma.grad("x")
def _(g, x):
    return mul(g, digamma(x))


@digamma.grad("x")
def _(g, x):
    return mul(g, polygamma(x, 1))


@polygamma.grad("x")
def _(g, x, n):
    return mul(g, polygamma(x, n + 1))


for _op in (lgamma, digamma):
    _op.samples(lambda make: [(make.positive(3, 4),), (make.positive(),), (make.positive(0),), (make.ints(5, 3) + 1,)])
polygamma.samples(lambda make: [(make.positive(3, 4), 1), (make.positive(5), 3), (make.positive(0), 2)])


@extern(meta=_pair_shape, promote="float")
def zeta(x, q):
    """Hurwitz's zeta function; no gradient."""
    return _rounded(hurwitz_zeta, x, q)


@zeta.native
def _(x, q):
    found = _call.zeta(x, q)
    return elementwise.zeta(x, q) if found is NotImplemented else found


def _incomplete(a, x, upper):
    """The regularised incomplete gamma function: a series for x < a + 1, else a continued fraction."""
    a, x = np.broadcast_arrays(a, x)
    scale = np.exp(a * np.log(x) - x - log_gamma(a))
    term = total = 1 / a
    for n in range(1, 400):
        term = term * x / (a + n)
        total = total + term
    lower = total * scale
    b, c, d = x + 1 - a, np.full_like(x, 1e300), 1 / (x + 1 - a)
    h = d
    for n in range(1, 200):
        an = -n * (n - a)
        b = b + 2
        d = 1 / np.where(an * d + b == 0, 1e-300, an * d + b)
        c = np.where(b + an / c == 0, 1e-300, b + an / c)
        h = h * d * c
    out = np.where(x < a + 1, 1 - lower if upper else lower, scale * h if upper else 1 - scale * h)
    out = np.where((a > 1000) & np.isfinite(a), _incomplete_of_large(a, x, upper), out)
    none, whole = (1.0, 0.0) if upper else (0.0, 1.0)
    out = np.where(np.isinf(x), whole, np.where(np.isinf(a), none, out))
    out = np.where(x == 0, none, np.where(a < 1e-300, whole, out))
    undefined = (a < 0) | (x < 0) | (a == 0) & ~(x > 0) | np.isinf(a) & np.isinf(x)
    decided = np.where(np.isnan(a), (x == 0) | np.isinf(x), np.isinf(a) | ~np.isnan(x))  # by one of them alone
    return np.where(undefined | ~decided, np.nan, out)


def _incomplete_of_large(a, x, upper):
    """By the error function of the distance of x from a, with the first two terms of Temme's expansion."""
    safe = np.where(a > 1000, a, 1000.0)
    mu = np.maximum((np.minimum(x, np.finfo(float).max) - safe) / safe, -1.0)
    distance = np.where(np.abs(mu) < 1e-4, mu * mu / 2 - mu**3 / 3, mu - np.log1p(mu))
    eta = np.copysign(np.sqrt(2 * np.maximum(distance, 0.0)), mu)
    near = np.abs(mu) < 1e-2
    first = np.where(near, -1 / 3 + eta / 12 - 2 * eta**2 / 135, 1 / np.where(near, 1.0, mu) - 1 / np.where(near, 1.0, eta))
    rest = np.exp(-safe * distance) / np.sqrt(2 * math.pi * safe) * (first - 1 / (540 * safe))
    side = eta * np.sqrt(safe / 2)
    tail = 0.5 * _complement(side if upper else -side)
    return np.clip(tail + rest if upper else tail - rest, 0.0, 1.0)


def _complement(x):
    """1 - erf(x)"""
    far = np.clip(x, 0.0, 40.0)
    return np.where(x > 0, _erfcx(far) * np.exp(-far * far), 1 - prims.erf(np.minimum(x, 0.0)))


@extern(meta=_pair_shape, promote="float")
def igamma(a, x):
    """The lower regularised incomplete gamma function P(a, x)."""
    return _rounded(lambda u, v: _incomplete(u, v, False), a, x)


@extern(meta=_pair_shape, promote="float")
def igammac(a, x):
    """The upper one, Q = 1 - P."""
    return _rounded(lambda u, v: _incomplete(u, v, True), a, x)


def _density(g, a, x):
    """dP/dx = x ** (a - 1) exp(-x) / gamma(a)"""
    return mul(g, exp(sub(sub(mul(sub(a, 1.0), log(x)), x), lgamma(a))))


igamma.grad("x")(_density)
igammac.grad("x")(lambda g, a, x: neg(_density(g, a, x)))


for _op in (igamma, igammac):
    _op.samples(lambda make: [(make.ints(4, 3) + 1, make.positive(2, 3)), (make.ints(4, 0) + 1, make(0))])


# -- Bessel functions of imaginary argument, scaled by exp(-|x|)


def _bessel_scaled(order, x):
    """exp(-|x|) I_n(x): the trapezoid rule for the integral over a half turn, which converges exponentially."""
    size = np.abs(x)
    angles = (np.arange(300) + 0.5) * (math.pi / 300)
    waves = np.cos(angles)
    near = np.exp(np.minimum(size, 2000.0)[..., None] * (waves - 1)) @ np.cos(order * angles) / 300
    mu, far, term = 4 * order * order, 1.0, 1.0
    for k in range(1, 12):
        term = term * -(mu - (2 * k - 1) ** 2) / (k * 8 * np.maximum(size, 1.0))
        far = far + term
    out = np.where(size > 500, far / np.sqrt(2 * math.pi * np.maximum(size, 1.0)), near)
    if not order:
        return out
    first = np.minimum(size, 1.0)  # the integral of small numbers cancels
    series = sum((first / 2) ** (2 * k + 1) / (math.factorial(k) * math.factorial(k + 1)) for k in range(9))
    return np.where(size < 1, series * np.exp(-first), out) * np.sign(x)


def _bessel(name, order, scaled):
    def kernel(x):
        return _rounded(lambda v: _bessel_scaled(order, v) * (1 if scaled else np.exp(np.abs(v))), x)

    kernel.__name__ = name
    record = extern(kernel, meta=lambda x: x.shape, promote="float")
    record.samples(lambda make: [(make(3, 4),), (make(0, 2),)])
    _native(record, name, functools.partial(_bessel_scaled, order), doubles=False)
    return record


def _over(y, x):
    """I_1(x) / x, which is 1/2 near 0 (where the quotient of numbers with few digits is any)."""
    zero = lt(absolute(x), 1e-7)
    return where(zero, 0.5, div(y, where(zero, 1.0, x)))


i0, i0e = _bessel("i0", 0, False), _bessel("i0e", 0, True)
i1, i1e = _bessel("i1", 1, False), _bessel("i1e", 1, True)


@i0.grad("x")
def _(g, x):
    return mul(g, i1(x))


@i0e.grad("x")
def _(g, x, out):
    return mul(g, sub(i1e(x), mul(sign(x), out)))


@i1.grad("x")
def _(g, x, out):
    return mul(g, sub(i0(x), _over(out, x)))


@i1e.grad("x")
def _(g, x, out):
    return mul(g, sub(i0e(x), add(mul(out, sign(x)), _over(out, x))))


def _erfcx(x):
    """exp(x^2) erfc(x): the definition where it does not cancel, else the trapezoid rule for its integral, which far away is its
    first term."""
    nodes = np.arange(-28, 29) * 0.25
    at = np.clip(x, 2.0, 1e9)
    far = (np.exp(-(nodes**2)) * (at[..., None] / (at[..., None] ** 2 + nodes**2))).sum(-1) * 0.25 / math.pi
    far = np.where(x > 1e9, math.sqrt(1 / math.pi) / np.maximum(x, 1.0), far)
    return np.where(x > 2, far, np.exp(np.minimum(x, 2.0) ** 2) * (1 - prims.erf(np.minimum(x, 2.0))))


@extern(meta=lambda x: x.shape, promote="float")
def erfcx(x):
    return _rounded(_erfcx, x)


_native(erfcx, "erfcx", _erfcx)


@erfcx.grad("x")
def _(g, x, out):
    return mul(g, sub(mul(mul(x, out), 2.0), 2.0 / math.sqrt(math.pi)))


erfcx.samples(lambda make: [(make(3, 4),), (make(0),)])


def _inverse_normal(p):
    """Newton's method on the logarithm of the tail, from a rational approximation."""
    tail = np.minimum(p, 1 - p)
    wanted = np.log(tail)
    t = np.sqrt(-2 * wanted)
    x = t - (2.30753 + 0.27061 * t) / (1 + 0.99229 * t + 0.04481 * t * t)
    for _ in range(5):
        scaled = _erfcx(x * math.sqrt(0.5))
        x = x + (np.log(scaled / 2) - x * x / 2 - wanted) * scaled * math.sqrt(math.pi / 2)
    x = np.where(tail == 0, np.inf, np.where(p == 0.5, 0.0, x))
    return np.where(p < 0.5, -x, x)


@extern(meta=lambda x: x.shape, promote="float")
def ndtri(x):
    """The inverse of the normal distribution function."""
    return _rounded(_inverse_normal, x)


_native(ndtri, "ndtri", _erfcx)


@ndtri.grad("x")
def _(g, out):
    return mul(g, mul(exp(mul(square(out), 0.5)), math.sqrt(2 * math.pi)))


ndtri.samples(lambda make: [(make.probabilities(3, 4),), (make.probabilities(0, 2),)])


def erfc_of(x):
    """1 - erf(x), by erfcx where that would cancel."""
    far = gt(x, 1.0)
    safe = clamp(where(far, x, 1.0), None, 1e4)
    return where(far, mul(erfcx(safe), exp(neg(square(safe)))), sub(1.0, erf(x)))


@composite
def ndtr(x):
    """The normal distribution function."""
    return mul(erfc_of(mul(x, -math.sqrt(0.5))), 0.5)


@ndtr.grad("x")
def _(g, x):
    return mul(g, mul(exp(mul(square(x), -0.5)), 1 / math.sqrt(2 * math.pi)))


@composite
def log_ndtr(x):
    """Its logarithm."""
    low = lt(x, -1.0)
    t = mul(x, math.sqrt(0.5))
    tail = sub(log(div(erfcx(where(low, neg(t), 1.0)), 2.0)), square(where(low, t, 0.0)))
    return where(low, tail, log1p(div(neg(erfc_of(where(low, 0.0, t))), 2.0)))


@log_ndtr.grad("x")
def _(g, x):
    """The density over the distribution function, without the factor that both have."""
    return div(mul(g, math.sqrt(2 / math.pi)), erfcx(mul(x, -math.sqrt(0.5))))


for _op in (ndtr, log_ndtr):
    _native(_op, _op.name, _erfcx, doubles=False)
    _op.samples(lambda make: [(make(3, 4),), (make(0, 2),)])


@pointwise
def heaviside(s, x, values):
    """0 of numbers below zero, 1 of those above, `values` at zero; 0 of NaN."""
    return s.where(s.gt(x, 0), 1, s.where(s.eq(x, 0), values, 0))


@heaviside.grad("values")
def _(g, x):
    return where(eq(x, 0), g, 0.0)


heaviside.samples(lambda make: [(make(3, 4), make(3, 4)), (make(2, 3), make(3)), (make.ints(5, 3), make.ints(5, 3))])


@pointwise(promote="float")
def logit(s, x):
    """log(x / (1 - x))"""
    return s.log(x / (1.0 - x))


@logit.grad("x")
def _(g, x):
    return logit_backward(g, x)


@pointwise
def logit_backward(s, g, x):
    """Outside of the domain NaN; at the ends infinite, at a zero of either sign with the sign of g."""
    return s.where(s.logical_or(s.lt(x, 0.0), s.gt(x, 1.0)), math.nan, g / (s.abs(x) * (1.0 - x)))


@logit_backward.grad("g")
def _(g_out, x):
    return logit_backward(g_out, x)


@logit_backward.grad("x")
def _(g_out, g, x):
    rest = sub(1.0, x)
    return mul(logit_backward(mul(g_out, g), x), div(sub(x, rest), mul(x, rest)))


logit.samples(lambda make: [(make.probabilities(3, 4),), (make.probabilities(0, 2),)])
logit_backward.samples(lambda make: [(make(3, 4), make.probabilities(3, 4)), (make(0, 2), make.probabilities(0, 2))])


@composite
def logit_within(x, eps: static):
    """The same of x kept in [eps, 1 - eps]."""
    y = clamp(single(x), eps, 1 - eps)
    return back(log(div(y, sub(1.0, y))), x)


@logit_within.grad("x")
def _(g, x, eps):
    """Beyond eps nothing."""
    y = single(x)
    outside = logical_or(lt(y, eps), gt(y, 1.0 - eps))
    return back(where(outside, 0.0, div(single(g), mul(absolute(y), sub(1.0, y)))), g)


logit_within.samples(lambda make: [(make.probabilities(5), 0.1), (make.probabilities(0, 2), 0.2)])


@pointwise(promote="float")
def sinc(s, x):
    """sin(pi x) / (pi x), and 1 at 0."""
    y = x * math.pi
    zero = s.eq(y, 0)
    return s.where(zero, 1.0, s.sin(y) / s.where(zero, 1.0, y))


@sinc.grad("x")
def _(g, x):
    y = mul(single(x), math.pi)
    zero = eq(y, 0)
    safe = where(zero, 1.0, y)
    slope = div(sub(cos(safe), div(sin(safe), safe)), div(safe, math.pi))
    return back(mul(single(g), where(zero, 0.0, slope)), g)


sinc.samples(lambda make: [(make(3, 4),), (make(),), (make(0, 2),)])


def _vanishing(x, y, bound):
    """Where a product x * log(...) is 0 by definition: at x = 0 up to the bound of y."""
    return logical_and(eq(x, 0), le(y, bound))


def _product_with_log(name, logarithm, bound):
    """x * log(y), or log1p; 0 where x is 0 but NaN where y is. Where x is 0 and the logarithm is none it stays 0 as x moves; the
    slope for y is x / y there, too: 0 / 0 is NaN, as PyTorch's."""

    def fn(s, x, y):
        zero = s.logical_and(s.eq(x, 0), s.logical_or(s.le(y, bound), s.eq(y, math.inf)))
        return s.where(zero, 0.0, x * getattr(s, logarithm.name)(s.where(zero, 1.0, y)))

    fn.__name__ = name
    record = pointwise(fn, promote="float")

    @record.grad("x")
    def _(g, x, y):
        zero = _vanishing(x, y, bound)
        return mul(g, where(zero, 0.0, logarithm(where(zero, 1.0, y))))

    @record.grad("y")
    def _(g, x, y):
        return div(mul(g, x), sub(y, bound) if bound else y)

    record.samples(lambda make: [(make(3, 4), make.positive(3, 4)), (make(3), make.positive(2, 3)), (make(0), make(0))])
    return record


xlogy, xlog1py = _product_with_log("xlogy", log, 0), _product_with_log("xlog1py", log1p, -1)
