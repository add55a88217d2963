"""Functions of one element: exponentials, logarithms, roots, powers, trigonometry, rounding, tests.

Integers compute in the default floating type; the result of a rounding keeps the type.
"""

import math

import numpy as np

from ...runtime import elementwise, copy_gather
from .. import dtypes
from ..op import prims
from ..op.op import extern, OPS, pointwise, scalar, static, zeros
from ..op.promote import ordered
from .arithmetic import add, cast, div, eq, ge, logical_and, mul, neg, square, sub, where
from .samples import unary


def _halves(name, x):
    """A map of the runtime of halves, which are widened, computed and narrowed in registers."""
    return elementwise.every(name, x) if x.dtype.itemsize == 2 else NotImplemented


@pointwise(promote="float", public="exp exp_")
def exp(s, x):
    return s.exp(x)


exp.native(lambda x: _halves("exp", x))


@exp.grad("x")
def _(g, out):
    return mul(g, out)


@pointwise(promote="float", public="exp2 exp2_")
def exp2(s, x):
    return s.pow(2.0, x)


@exp2.native
def _(x):
    return elementwise.every("exp2", x) if x.dtype.itemsize < 8 else NotImplemented


@exp2.grad("x")
def _(g, out):
    return mul(g, mul(out, math.log(2.0)))


@pointwise(promote="float", public="expm1 expm1_")
def expm1(s, x):
    return s.expm1(x)


@expm1.grad("x")
def _(g, out):
    return mul(g, add(out, 1.0))


@pointwise(promote="float", public="log log_")
def log(s, x):
    return s.log(x)


@log.grad("x")
def _(g, x):
    return div(g, x)


@pointwise(promote="float", public="log2 log2_")
def log2(s, x):
    return s.log2(x)


@log2.grad("x")
def _(g, x):
    return div(g, mul(x, math.log(2.0)))


@pointwise(promote="float", public="log10 log10_")
def log10(s, x):
    return s.log(x) * (1.0 / math.log(10.0))


@log10.grad("x")
def _(g, x):
    return div(g, mul(x, math.log(10.0)))


@pointwise(promote="float", public="log1p log1p_")
def log1p(s, x):
    return s.log1p(x)


@log1p.grad("x")
def _(g, x):
    return div(g, add(x, 1.0))


@pointwise(promote="float", public="sqrt sqrt_")
def sqrt(s, x):
    return s.sqrt(x)


sqrt.native(lambda x: _halves("sqrt", x))


@sqrt.grad("x")
def _(g, out):
    return div(g, mul(out, 2.0))


@pointwise(promote="float", public="rsqrt rsqrt_")
def rsqrt(s, x):
    return s.rsqrt(x)


rsqrt.native(lambda x: _halves("rsqrt", x))


@rsqrt.grad("x")
def _(g, out):
    return mul(g, mul(mul(square(out), out), -0.5))


@pointwise(promote="float", public="sin sin_")
def sin(s, x):
    return s.sin(x)


sin.native(lambda x: _halves("sin", x))  # of floats numpy's own has vectors


@sin.grad("x")
def _(g, x):
    return mul(g, cos(x))


@pointwise(promote="float", public="cos cos_")
def cos(s, x):
    return s.cos(x)


cos.native(lambda x: _halves("cos", x))  # of floats numpy's own has vectors


@cos.grad("x")
def _(g, x):
    return neg(mul(g, sin(x)))


@pointwise(promote="float", public="tan tan_")
def tan(s, x):
    return s.tan(x)


@tan.grad("x")
def _(g, out):
    return mul(g, add(square(out), 1.0))


@pointwise(promote="float", public="tanh tanh_")
def tanh(s, x):
    return s.tanh(x)


@tanh.grad("x")
def _(g, out):
    return mul(g, sub(1.0, square(out)))


@pointwise(promote="float", public="sinh sinh_")
def sinh(s, x):
    return (s.expm1(x) - s.expm1(-x)) * 0.5


@sinh.grad("x")
def _(g, x):
    return mul(g, cosh(x))


@pointwise(promote="float", public="cosh cosh_")
def cosh(s, x):
    return (s.exp(x) + s.exp(-x)) * 0.5


@cosh.grad("x")
def _(g, x):
    return mul(g, sinh(x))


@pointwise(promote="float", public="erf erf_")
def erf(s, x):
    return s.erf(x)


erf.native(lambda x: elementwise.every("erf", x))


@erf.grad("x")
def _(g, x):
    return mul(g, mul(exp(neg(square(x))), 2.0 / math.sqrt(math.pi)))


@pointwise(promote="float", public="sigmoid sigmoid_", fast=True)
def sigmoid(s, x):
    return 1.0 / (1.0 + s.exp(-x))


@sigmoid.grad("x")
def _(g, out):
    return mul(g, mul(out, sub(1.0, out)))


@pointwise(name="pow")
def power(s, a, b):
    return s.pow(a, b)


@power.grad("a")
def _(g, a, b):
    if not hasattr(b, "shape"):  # (a number stays exact)
        return mul(g, mul(b, power(a, b - 1))) if b != 0 else zeros(a)
    return mul(g, where(eq(b, 0), 0.0, mul(b, power(a, sub(b, 1)))))


@power.grad("b")
def _(g, a, b, out):
    a = cast(a, out.dtype) if hasattr(a, "shape") and a.dtype.category < 2 else a
    base = log(a) if hasattr(a, "shape") else float(np.log(a)) if a > 0 else float("-inf") if a == 0 else float("nan")
    slope = mul(out, base)
    if b.dtype.is_complex:
        b = OPS["real"](b)
    at_zero = logical_and(eq(a, 0), ge(b, 0))
    return mul(g, where(at_zero, 0.0, slope))


@power.samples
def _(make):
    return [
        (make.positive(3, 4), make(4)),
        (make.positive(2, 3), 2.5),
        (2.0, make(3)),
        (make.positive(), make.positive(2)),
        (make.positive(0, 3), 1.5),
        (make.ints(5, 3, 2), 3),
    ]


for _op in (exp, exp2, expm1, sin, cos, tanh, sinh, cosh, erf, sigmoid):
    _op.samples(lambda make: unary(make) + [(make.ints(4, 3),)])
for _op in (log, log2, log10, log1p, sqrt, rsqrt, tan):
    _op.samples(lambda make: unary(make, positive=True))


# -- functions for which compiled code calls back into eager's kernel


def _same_shape(x):
    return x.shape


def _floating(x, function):
    """numpy's function in the type in which x computes; integers compute in the default type."""
    kind = x.dtype if x.dtype.kind not in "biu" else dtypes.get_default_dtype().numpy
    inner = np.dtype(np.float32) if kind.itemsize < 4 else kind
    return _in_type(np.asarray(function(_in_type(x, inner))), kind)


def _in_type(x, kind):
    """numpy converts halves one by one."""
    found = copy_gather.converted(x, kind)
    return x.astype(kind, copy=False) if found is NotImplemented else found


@pointwise(promote="float")
def asinh(s, x):
    """By log1p; by log alone where the square would overflow."""
    size = s.abs(x)
    far = s.gt(size, 1e9)
    near = s.where(far, 1.0, size)
    small = s.log1p(near + near * near / (1.0 + s.sqrt(near * near + 1.0)))
    value = s.where(far, s.log(s.where(far, size, 1.0)) + math.log(2.0), small)
    return s.where(s.eq(x, 0), x, s.where(s.lt(x, 0), -value, value))


@asinh.grad("x")
def _(g, x):
    return mul(g, rsqrt(add(square(x), 1.0)))


@pointwise(promote="float")
def acosh(s, x):
    far = s.gt(x, 1e9)
    near = s.where(far, 2.0, s.maximum(x, 0.0)) - 1.0  # (NaN of all below 1)
    return s.where(far, s.log(s.where(far, x, 1.0)) + math.log(2.0), s.log1p(near + s.sqrt(near * (near + 2.0))))


@acosh.grad("x")
def _(g, x):
    return mul(g, rsqrt(sub(square(x), 1.0)))


@pointwise(promote="float")
def atanh(s, x):
    return (s.log1p(x) - s.log1p(-x)) * 0.5


@atanh.grad("x")
def _(g, x):
    """g / (1 - x^2), whose factors are exact near 1."""
    return div(g, mul(sub(1.0, x), add(x, 1.0)))


asinh.samples(unary)
atanh.samples(lambda make: [(make.probabilities(3, 4),), (sub(make.probabilities(), 0.5),), (make.probabilities(0),)])
acosh.samples(lambda make: [(add(make.positive(3, 4), 1.5),), (add(make.positive(), 1.5),), (make.positive(0),)])


@extern(meta=_same_shape, promote="float", public="atan atan_ arctan arctan_")
def atan(x):
    return _floating(x, np.arctan)


atan.native(lambda x: elementwise.every("atan", x))


@atan.calls
def _(c, outs, x):
    return elementwise.map_calls(c, "atan", outs[0], x)


@atan.grad("x")
def _(g, x):
    return div(g, add(square(x), 1.0))


@extern(meta=_same_shape, promote="float", public="asin asin_ arcsin arcsin_")
def asin(x):
    return _floating(x, np.arcsin)


asin.native(lambda x: elementwise.every("asin", x))


@asin.calls
def _(c, outs, x):
    return elementwise.map_calls(c, "asin", outs[0], x)


@asin.grad("x")
def _(g, x):
    return mul(g, rsqrt(sub(1.0, square(x))))


@extern(meta=_same_shape, promote="float", public="acos acos_ arccos arccos_")
def acos(x):
    return _floating(x, np.arccos)


acos.native(lambda x: elementwise.every("acos", x))


@acos.calls
def _(c, outs, x):
    return elementwise.map_calls(c, "acos", outs[0], x)


@acos.grad("x")
def _(g, x):
    return neg(mul(g, rsqrt(sub(1.0, square(x)))))


@extern(meta=_same_shape, promote="float", public="erfinv")
def erfinv(x):
    """By Winitzki's approximation and three Newton steps on erf, in float64 (the native kernel has one of its own)."""
    return _floating(x, _inverse_erf)


def _inverse_erf(x):
    v = np.asarray(x, np.float64)
    tail = np.log1p(-v * v)
    t = 2 / (math.pi * 0.147) + tail / 2
    y = np.copysign(np.sqrt(np.sqrt(t * t - tail / 0.147) - t), v)
    for _ in range(3):
        y = y - (prims.erf(y) - v) / (2 / math.sqrt(math.pi) * np.exp(-y * y))
    return np.where(np.abs(v) == 1, np.copysign(np.inf, v), y)


erfinv.native(lambda x: elementwise.every("erfinv", x))


@erfinv.calls
def _(c, outs, x):
    return elementwise.map_calls(c, "erfinv", outs[0], x)


@erfinv.grad("x")
def _(g, out):
    return mul(g, mul(exp(square(out)), math.sqrt(math.pi) / 2))


atan.samples(unary)
for _op in (asin, acos, erfinv):
    _op.samples(lambda make: [(make.uniform(3, 4),), (make.uniform(),), (make.uniform(0, 2),)])


@pointwise(promote=ordered("hypot", "float"))
def hypot(s, a, b):
    """sqrt(a*a + b*b) without overflow of the squares."""
    a, b = s.abs(a), s.abs(b)
    large, small = s.maximum(a, b), s.minimum(a, b)
    infinite = s.logical_or(s.isinf(a), s.isinf(b))
    ratio = small / s.where(large == 0, 1.0, large)
    return s.where(infinite, math.inf, large * s.sqrt(1.0 + ratio * ratio))


@hypot.grad("a")
def _(g, a, out):
    return mul(g, div(a, out))


@hypot.grad("b")
def _(g, b, out):
    return mul(g, div(b, out))


hypot.samples(lambda make: [(make(3, 4), make(3, 4)), (make(3, 1), make(4)), (make(4), 1.5), (make(0), make(0))])


# -- logarithms of sums of exponentials, by the larger: it stays outside

_LN2 = math.log(2.0)


@pointwise(promote="float")
def logaddexp(s, a, b):
    top = s.maximum(a, b)
    return s.where(s.isinf(top), top, top + s.log1p(s.exp(-s.abs(a - b))))


@pointwise(promote="float")
def logaddexp2(s, a, b):
    top = s.maximum(a, b)
    return s.where(s.isinf(top), top, top + s.log1p(s.exp(s.abs(a - b) * -_LN2)) * (1.0 / _LN2))


@logaddexp.grad("a")
def _(g, a, b):
    return mul(g, sigmoid(sub(a, b)))


@logaddexp.grad("b")
def _(g, a, b):
    return mul(g, sigmoid(sub(b, a)))


@logaddexp2.grad("a")
def _(g, a, b):
    return mul(g, sigmoid(mul(sub(a, b), _LN2)))


@logaddexp2.grad("b")
def _(g, a, b):
    return mul(g, sigmoid(mul(sub(b, a), _LN2)))


for _op in (logaddexp, logaddexp2):
    _op.samples(lambda make: [(make(3, 4), make(3, 4)), (make(3, 1), make(4)), (make(4), 1.5), (make(0), make(0))])


# -- rounding: gradients are zero


def _rounding(name, public):
    def fn(s, x):
        return getattr(s, name)(x)

    fn.__name__ = name
    record = pointwise(fn, promote=ordered(name, text="{} is not supported for complex inputs"), public=public)
    record.native(lambda x: _halves(name, x))
    record.grad("x")(lambda g: zeros(g))
    record.samples(lambda make: unary(make, positive=True) + [(make.ints(4, 3),)])
    return record


floor, ceil = _rounding("floor", "floor floor_"), _rounding("ceil", "ceil ceil_")
trunc, round = _rounding("trunc", "trunc trunc_ fix fix_"), _rounding("round", "")


@pointwise(promote=ordered("div_trunc", "float"))
def whole_quotient(s, a, b):
    """Of floating numbers, rounded towards zero."""
    return s.trunc(a / b)


whole_quotient.grad("a", "b")(lambda g: zeros(g))
whole_quotient.samples(lambda make: [(make(3, 4), make.positive(4)), (make(3), 0.7), (make(0), make(0))])


@pointwise(promote=ordered("round"))
def round_decimals(s, x, scale: scalar, whole: static):
    """To parts of 1 / scale, or (`whole`) to multiples of it."""
    return s.round(x / scale) * scale if whole else s.round(x * scale) / scale


round_decimals.grad("x")(lambda g: zeros(g))
round_decimals.samples(lambda make: [(make(3, 4), 10.0, False), (make(5), 10.0, True), (make(0, 2), 100.0, False)])


@pointwise(promote=ordered("frac"), public="frac frac_")
def frac(s, x):
    return x - s.trunc(x)


@frac.grad("x")
def _(g):
    return g


frac.samples(lambda make: unary(make, positive=True))


# -- tests


@pointwise(promote="bool", public="isnan")
def isnan(s, x):
    return s.isnan(x)


@pointwise(promote="bool", public="isinf")
def isinf(s, x):
    return s.isinf(x)


@pointwise(promote="bool", public="isfinite")
def isfinite(s, x):
    return s.logical_not(s.logical_or(s.isnan(x), s.isinf(x)))


for _op in (isnan, isinf, isfinite):
    _op.samples(lambda make: [(make(3, 4),), (make.special(7),), (make.special(7).to(dtypes.float64),), (make(0, 2),)])
