"""Special functions of elements, under the names of torch and torch.special.

Most are formulas over records, so they have gradients of any order and compile; the rest are records of ops/special.py.
"""

import math

import numpy as np

from .. import dtypes, return_types
from ..dispatch import type_name
from ..op.meta import broadcast_shapes
from ..op.promote import result_type, to_float
from ..ops import arithmetic as a, elementary as e, special as r
from ..ops.complex_numbers import complex_of, imag, real
from ..tensor import Tensor
from . import public
from .arguments import fitting, give, takes_out
from .elementwise import binary, refuse_number, unary
from .host_fallback import on_host

lgamma, digamma, erfcx = unary(r.lgamma), unary(r.digamma), unary(r.erfcx)
i0, i0e, i1, i1e = unary(r.i0), unary(r.i0e), unary(r.i1), unary(r.i1e)
_LN2 = math.log(2.0)


def _floating(x):
    return x if x.dtype.category >= 2 else x.to(dtypes.get_default_dtype())


def _operands(x, y):
    """Both as tensors, at least one of them floating."""
    if not isinstance(x, Tensor):
        x = _beside(y, x)
    if not isinstance(y, Tensor):
        y = _beside(x, y)
    return x, y


def _beside(tensor, number):
    """A number as an operand beside a tensor, in the type of the result: a tensor of uint8 does not make -1 255. OverflowError
    for one that no type of whole numbers holds."""
    if isinstance(number, int):
        dtypes.of_number(number)
    return tensor.new_tensor(number, dtype=to_float(tensor.dtype))


@public.both
@public.in_place
def atan2(input, other, *, out=None):
    if result_type((input, other)).is_complex:
        raise NotImplementedError("atan2 is not implemented for complex numbers: they have no order")
    return give(r.atan2(*_operands(input, other)), out)


arctan2 = atan2


@public.function
def polygamma(n, input, *, out=None):
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return give(r.polygamma(input, n) if n else r.digamma(input), out)


@public.method("polygamma")
@public.in_place("polygamma")
def _polygamma(self, n):
    return polygamma(n, self)


@public.both
@public.in_place
def mvlgamma(input, p, *, out=None):
    """The logarithm of the multivariate gamma function of dimension p."""
    dtypes.of_number(p)  # (refuses one that 64 bits do not hold)
    steps = input.new_tensor([-0.5 * k for k in range(p)], dtype=_floating(input).dtype)
    total = a.add(lgamma(a.add(input.unsqueeze(-1), steps)).sum(-1), p * (p - 1) / 4 * math.log(math.pi))
    return give(total, out)


@public.both
@public.in_place
def igamma(input, other, *, out=None):
    return give(r.igamma(*_operands(input, other)), out)


@public.both
@public.in_place
def igammac(input, other, *, out=None):
    return give(r.igammac(*_operands(input, other)), out)


@public.function
def zeta(input, other, *, out=None):
    return give(r.zeta(*_operands(input, other)), out)


# -- hyperbolic inverses


@public.both
@public.in_place
@public.in_place_function
@takes_out
def asinh(input):
    return _turned(e.asin, input) if input.dtype.is_complex else e.asinh(input)


@public.both
@public.in_place
@public.in_place_function
@takes_out
def acosh(input):
    if not input.dtype.is_complex:
        return e.acosh(input)
    half = e.log(a.add(e.sqrt(a.sub(input, 1.0)), e.sqrt(a.sub(input, -1.0))))  # differences keep zeros' signs
    value, x, y = a.sub(a.add(half, half), _LN2), real(input.detach()), imag(input.detach())
    far = a.logical_and(e.isinf(x), e.isinf(y))  # a diagonal, whose direction the roots lose
    return complex_of(real(value), a.where(far, r.atan2(y, x), imag(value)))


@public.both
@public.in_place
@public.in_place_function
@takes_out
def atanh(input):
    return _turned(e.atan, input) if input.dtype.is_complex else e.atanh(input)


def _turned(function, x):
    """-i function(i x), without products: they would lose zeros' signs and infinities."""
    value = function(complex_of(a.neg(imag(x)), real(x)))
    return complex_of(imag(value), a.neg(real(value)))


arcsinh, arccosh, arctanh = asinh, acosh, atanh


# -- signs and neighbours


@public.both
@takes_out
@on_host
def signbit(input):
    x = input._values("signbit()")
    x = x.astype(np.float32) if x.dtype.kind == "V" else x
    if x.dtype.kind == "f":  # the sign of the same bits as a whole number
        x = x.view(f"i{x.itemsize}")
    told = np.zeros(x.shape, bool) if x.dtype.kind in "bu" else np.signbit(x) if x.dtype.kind == "c" else x < 0
    return Tensor._fl_from_array(np.asarray(told), dtypes.bool)  # (of one number numpy gives no array)


@public.small
@public.both
@public.in_place
@takes_out
def copysign(input, other):
    """|input| with the sign of other (of zeros as well)."""
    x, y = _operands(input, other)
    x = _floating(x).to(to_float(result_type((x, y))))
    negative = a.lt(a.where(a.eq(y, 0), a.reciprocal(_floating(y)), y), 0)
    size = a.absolute(x)
    return a.where(negative, a.neg(size), size)


@public.small
@public.both
@public.in_place
@takes_out
@on_host
def nextafter(input, other):
    broadcast_shapes((tuple(input.shape), tuple(other.shape)), "nextafter")
    kind = result_type((input, other))
    x, y = input.to(kind)._values("nextafter()"), other.to(kind)._values("nextafter()")
    return Tensor._fl_from_array(np.asarray(np.nextafter(x, y), x.dtype), kind)


@public.both
@public.in_place
@takes_out
def heaviside(input, values):
    if input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return r.heaviside(input, values)


def _is_end(input, end, name):
    if input.dtype.is_complex:
        raise RuntimeError(f"{name} does not support complex inputs.")
    return a.eq(input, end) if input.dtype.category > 1 else a.ne(input, input)


@public.both
def isposinf(input, *, out=None):
    return give(_is_end(input, math.inf, "isposinf"), out)


@public.both
def isneginf(input, *, out=None):
    return give(_is_end(input, -math.inf, "isneginf"), out)


@public.both
@takes_out
def fmax(input, other):
    """The larger; what is not NaN beats NaN."""
    if not isinstance(other, Tensor):
        refuse_number("fmax", other)
    return a.where(a.logical_or(a.ge(input, other), e.isnan(other)), input, other)


@public.both
@takes_out
def fmin(input, other):
    if not isinstance(other, Tensor):
        refuse_number("fmin", other)
    return a.where(a.logical_or(a.le(input, other), e.isnan(other)), input, other)


# -- integers


@on_host
def _whole_pair(name, function, input, other):
    kind = result_type((input, other))
    if kind.category != 1:
        raise RuntimeError(f'"{name}_cpu" not implemented for {type_name(kind)!r}')
    broadcast_shapes((tuple(input.shape), tuple(other.shape)), name)
    x, y = input.to(kind)._values(name), other.to(kind)._values(name)
    found = function(x, y)
    return Tensor._fl_from_array(np.asarray(found), dtypes.from_numpy(found.dtype))


@public.small
@public.both
@public.in_place
@public.in_place_function
@takes_out
def gcd(input, other):
    return _whole_pair("gcd", np.gcd, input, other)


@public.both
@public.in_place
@public.in_place_function
@takes_out
def lcm(input, other):
    return _whole_pair("lcm", np.lcm, input, other)


# -- products, logarithms and exponentials in special forms


def _in_one_type(x, y):
    """Both as tensors of the floating type in which they meet (a negative number is none of unsigned integers)."""
    if isinstance(x, Tensor) and isinstance(y, Tensor) and x.dtype is y.dtype and x.dtype.category == 2:
        return x, y
    kind = to_float(result_type((x, y)))
    like = x if isinstance(x, Tensor) else y
    return [v.to(kind) if isinstance(v, Tensor) else like.new_tensor(v, dtype=kind) for v in (x, y)]


@public.both
@public.in_place
@public.in_place_function
@takes_out
def xlogy(input, other):
    """x * log(y), and 0 where x is 0 (but NaN where y is)."""
    x, y = _in_one_type(input, other)
    return r.xlogy(x, y)


@public.function
@takes_out
def xlog1py(input, other):
    return r.xlog1py(*_in_one_type(input, other))


@public.function
@takes_out
def entr(input):
    return r.entr(_floating(input))


@public.both
@public.in_place
@public.in_place_function
@takes_out
def logit(input, eps=None):
    x = _floating(input)
    return r.logit(x) if eps is None else r.logit_within(x, fitting(eps, x.dtype))


sinc = unary(r.sinc)


@public.both
@public.in_place
@public.in_place_function
@takes_out
def deg2rad(input):
    return a.mul(input, math.pi / 180)


@public.both
@public.in_place
@public.in_place_function
@takes_out
def rad2deg(input):
    return a.mul(input, 180 / math.pi)


@public.both
@public.in_place
@public.in_place_function
@takes_out
def ldexp(input, other):
    """input * 2 ** other. With whole numbers it is C's ldexp: of the type of input, and no power overflows on the way."""
    numbers = isinstance(other, Tensor) and other.dtype.category == 1
    if not (numbers and isinstance(input, Tensor) and input.dtype.is_floating_point):
        return a.mul(input, _power_of_two(other))
    whole = a.clamp(a.cast(other, dtypes.int64), -2200, 2200)
    third = a.trunc_divide(whole, 3)
    rest = e.exp2(a.cast(a.sub(whole, a.mul(third, 2)), dtypes.float64))
    once = e.exp2(a.cast(third, dtypes.float64))
    return a.cast(a.mul(a.mul(a.mul(a.cast(input, dtypes.float64), once), once), rest), input.dtype)


def _power_of_two(x):
    return e.exp2(x) if isinstance(x, Tensor) else 2.0**x


@public.both
@on_host
def frexp(input, *, out=None):
    """(mantissa in [0.5, 1), exponent): input = mantissa * 2 ** exponent."""
    if not input.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    x = input._values("frexp()")
    mantissa, exponent = np.frexp(x)
    pair = (
        Tensor._fl_from_array(np.asarray(mantissa, x.dtype), input.dtype),
        Tensor._fl_from_array(np.asarray(exponent, np.int32), dtypes.int32),
    )
    return give(return_types.frexp(*pair), out)


logaddexp2 = binary(e.logaddexp2)


# -- the normal distribution


@public.function
@takes_out
def ndtr(input):
    """The normal distribution function."""
    return r.ndtr(_floating(input))


ndtri = unary(r.ndtri)


@public.function
@takes_out
def log_ndtr(input):
    return r.log_ndtr(_floating(input))


# -- activations that torch has at top level


@public.both
@takes_out
def hardshrink(input, lambd=0.5):
    return a.where(a.logical_and(a.ge(input, -lambd), a.le(input, lambd)), 0.0, input)


@public.both
def positive(input):
    if input.dtype is dtypes.bool:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


SPECIAL = dict(gammaln=lgamma, psi=digamma, gammainc=igamma, gammaincc=igammac, multigammaln=mvlgamma)


public.each(
    globals(),
    both="arccosh arcsinh arctan2 arctanh digamma i0 lgamma logaddexp2 sinc",
    function="erfcx i0e i1 i1e ndtri",
    in_place="arccosh arcsinh arctan2 arctanh digamma i0 lgamma sinc",
    in_place_function="arccosh arcsinh arctanh i0 sinc",
)
