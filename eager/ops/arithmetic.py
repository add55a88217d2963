"""Arithmetic on elements: sums, products, quotients, powers, extremes, choices.

Operands broadcast; each may be a number. Gradients come back in the broadcast shape: the engine sums them to the
operand's.
"""

import warnings

import numpy as np

from ...runtime import elementwise, copy_gather
from .. import _call, dtypes
from ..op.gradient import Meta
from ..op.op import OPS, mask, optional, pointwise, scalar, static, zeros
from ..op.promote import ordered, result_type
from .samples import binary, binary_int, unary


@pointwise
def add(s, a, b):
    return a + b


@add.grad("a", "b")
def _(g):
    return g


@pointwise
def sub(s, a, b):
    return a - b


@sub.grad("a")
def _(g):
    return g


@sub.grad("b")
def _(g):
    return neg(g)


@pointwise(public="mul multiply")
def mul(s, a, b):
    return a * b


@mul.grad("a")
def _(g, b):
    return mul(g, b)


@mul.grad("b")
def _(g, a):
    return mul(g, a)


@pointwise(promote="float")
def div(s, a, b):
    return a / b


@div.grad("a")
def _(g, b):
    return div(g, b)


@div.grad("b")
def _(g, a, b):
    """The quotient is made again: it may have been written into since, as in PyTorch."""
    return neg(div(mul(g, div(a, b)), b))


def _divides_integers(a, b):
    """Whether there is a divisor that may be zero and whose type has no infinity to show for it."""
    types = [x.dtype for x in (a, b) if hasattr(x, "dtype")]
    whole = not any(isinstance(x, float) for x in (a, b)) and not any(t.is_floating_point for t in types)
    return whole and (type(b) is not int or b == 0)


@pointwise(promote=ordered("div_floor", bools=False), refuses=_divides_integers, public="floor_divide")
def floor_divide(s, a, b):
    """Division rounded down."""
    return a // b


@pointwise(promote=ordered("div_trunc", bools=False), refuses=_divides_integers)
def trunc_divide(s, a, b):
    """Division rounded toward zero: floor of the magnitudes with the quotient's sign."""
    q = s.abs(a) // s.abs(b)
    return s.where(s.ne(s.lt(a, 0), s.lt(b, 0)), -q, q)


@pointwise(promote=ordered("remainder", bools=False), refuses=_divides_integers, public="remainder")
def remainder(s, a, b):
    """The remainder with the divisor's sign."""
    return a % b


@remainder.grad("a")
def _(g):
    return g


@remainder.grad("b")
def _(g, a, b):
    return neg(mul(g, floor_divide(a, b)))


@pointwise(promote=ordered("fmod", bools=False), refuses=_divides_integers, public="fmod")
def fmod(s, a, b):
    """The remainder with the dividend's sign."""
    r = s.abs(a) % s.abs(b)
    return s.where(s.lt(a, 0), -r, r)


@fmod.grad("a")
def _(g):
    return g


@fmod.grad("b")
def _(g, a, b):
    return neg(mul(g, OPS["trunc"](div(a, b))))


# -- sums of scaled terms: operands meet in one type before they are multiplied, and halves are rounded once


@pointwise
def add_scaled(s, a, b, factor: scalar):
    return a + b * factor


@add_scaled.grad("a")
def _(g):
    return g


@add_scaled.grad("b")
def _(g, factor):
    return mul(g, factor)


@pointwise
def addcmul(s, x, a, b, factor: scalar):
    return x + factor * a * b


@addcmul.grad("x")
def _(g):
    return g


@addcmul.grad("a")
def _(g, b, factor):
    return mul(g, mul(b, factor))


@addcmul.grad("b")
def _(g, a, factor):
    return mul(g, mul(a, factor))


@pointwise(promote="float")
def addcdiv(s, x, a, b, factor: scalar):
    return x + factor * a / b


@addcdiv.grad("x")
def _(g):
    return g


@addcdiv.grad("a")
def _(g, b, factor):
    return mul(g, div(factor, b))


@addcdiv.grad("b")
def _(g, a, b, factor):
    return neg(mul(g, div(mul(a, factor), mul(b, b))))


@pointwise
def lerp(s, x, end, weight):
    """From the nearer end, so that both ends are exact."""
    way = end - x
    return s.where(s.lt(s.abs(weight), 0.5), x + way * weight, end - way * (1 - weight))


@lerp.grad("x")
def _(g, weight):
    return mul(g, sub(1, weight) if hasattr(weight, "dtype") else 1 - weight)


@lerp.grad("end")
def _(g, weight):
    return mul(g, weight)


@lerp.grad("weight")
def _(g, x, end):
    return mul(g, sub(end, x))


add_scaled.samples(
    lambda make: [
        (make(3, 4), make(4), 0.5),
        (make(2, 3), make(2, 1), 2),
        (make.ints(5, 3), make.ints(4, 3), 2),
        (make(0, 3), make(3), 1.5),
    ]
)
addcmul.samples(
    lambda make: [
        (make(3, 4), make(4), make(3, 1), 0.5),
        (make(2), make(2), make(), 2),
        (make.ints(5, 3), make.ints(4, 3), make.ints(3, 3), 2),
    ]
)
addcdiv.samples(lambda make: [(make(3, 4), make(4), make.positive(3, 1), 0.5), (make(2), make(2), make.positive(2), 2)])
lerp.samples(lambda make: [(make(3, 4), make(4), 0.25), (make(3, 4), make(3, 1), 0.75), (make(2, 3), make(3), make(2, 1))])
for _op in (add, sub, mul):
    _op.samples(binary)
div.samples(lambda make: binary(make, nonzero=True))
for _op in (floor_divide, trunc_divide, remainder, fmod):
    _op.samples(lambda make: binary_int(make, nonzero=True))


@pointwise
def square(s, x):
    return x * x


@square.grad("x")
def _(g, x):
    return mul(g, mul(x, 2))


@pointwise
def cube(s, x):
    return x * x * x


@cube.grad("x")
def _(g, x):
    return mul(g, mul(square(x), 3))


@pointwise(promote="float", public="reciprocal reciprocal_")
def reciprocal(s, x):
    return 1.0 / x


@reciprocal.grad("x")
def _(g, out):
    return neg(mul(g, mul(out, out)))


@pointwise
def neg(s, x):
    return -x


@neg.grad("x")
def _(g):
    return neg(g)


@pointwise(name="abs", promote="real", public="abs absolute abs_")
def absolute(s, x):
    return s.abs(x)


@absolute.grad("x")
def _(g, x):
    return mul(g, OPS["sgn"](x) if x.dtype.is_complex else sign(x))


@pointwise(
    promote=ordered(
        "sign", text="Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
    )
)
def sign(s, x):
    """0 for NaN."""
    return s.where(x == x, s.sign(x), 0)


@sign.grad("x")
def _(g):
    return zeros(g)  # (whatever g is)


@pointwise
def still(s, x):
    """0 that moves as x does: added to a known value, it gives it x's gradient, also where x is infinite."""
    return s.where(x == x, s.minimum(s.maximum(x, 0), 0), 0)


@still.grad("x")
def _(g):
    return g


square.samples(unary)
cube.samples(unary)
still.samples(lambda make: [(make.ints(5, 3),), (make.special(7),)])
neg.samples(unary)
reciprocal.samples(lambda make: unary(make, positive=True))
absolute.samples(lambda make: unary(make, positive=True))
sign.samples(lambda make: unary(make, positive=True))


# -- extremes


@pointwise(promote=ordered("maximum"), public="maximum")
def maximum(s, a, b):
    return s.maximum(a, b)


@pointwise(promote=ordered("minimum"), public="minimum")
def minimum(s, a, b):
    return s.minimum(a, b)


def _share(g, loses, tie):
    """The gradient of an extreme: none of it where this side loses, half of it at a tie; both have it at NaN."""
    return mul(g, where(tie, 0.5, where(loses, 0.0, 1.0)))


@maximum.grad("a")
def _(g, a, b):
    return _share(g, lt(a, b), eq(a, b))


@maximum.grad("b")
def _(g, a, b):
    return _share(g, gt(a, b), eq(a, b))


@minimum.grad("a")
def _(g, a, b):
    return _share(g, gt(a, b), eq(a, b))


@minimum.grad("b")
def _(g, a, b):
    return _share(g, lt(a, b), eq(a, b))


maximum.samples(binary)
minimum.samples(binary)


@pointwise(promote=ordered("clamp", text="clamp is not supported for complex types"))
def clamp(s, x, min: optional = None, max: optional = None):
    """x within [min, max]; either bound may be missing; NaN stays. max wins where min > max."""
    x = x if min is None else s.maximum(x, min)
    return x if max is None else s.minimum(x, max)


def _inside(x, min, max):
    if min is None or max is None:
        return le(x, max) if min is None else ge(x, min)
    return logical_and(ge(x, min), le(x, max))


clamp.native(elementwise.clamp)


@clamp.grad("x")
def _(g, x, min, max):
    return where(_inside(x, min, max), g, 0.0)


@clamp.grad("min")
def _(g, x, min, max):
    low = lt(x, min)
    return where(low if max is None else logical_and(low, lt(min, max)), g, 0.0)


@clamp.grad("max")
def _(g, x, min, max):
    high = gt(x, max)
    return where(high if min is None else logical_or(high, gt(min, max)), g, 0.0)


@clamp.samples
def _(make):
    return [
        (make(3, 4), -0.5, 0.5),
        (make(2, 3), None, 0.25),
        (make(4), 0.0, None),
        (make(3, 4), make(4), None),
        (make.ints(9, 5), 2, 6),
        (make(0, 2), -1.0, 1.0),
    ]


# -- choices


@pointwise
def where(s, condition: mask, a, b):
    return s.where(condition, a, b)


@where.grad("a")
def _(g, condition):
    return where(condition, g, 0)


@where.grad("b")
def _(g, condition):
    return where(condition, 0, g)


@where.samples
def _(make):
    return [
        (make.bools(3, 4), make(3, 4), make(4)),
        (make.bools(4), make(3, 1), 0.0),
        (make.bools(2, 1), 1.0, make(2, 3)),
        (make.bools(0, 3), make(0, 3), make(3)),
        (make.bools(2), make.ints(5, 2), make(2)),
    ]


@pointwise(promote="first")
def masked_fill(s, x, mask: mask, value):
    return s.where(mask, value, x)


@masked_fill.grad("x")
def _(g, mask):
    return masked_fill(g, mask, 0)


@masked_fill.grad("value")
def _(g, mask):
    return where(mask, g, 0)


@masked_fill.samples
def _(make):
    return [
        (make(3, 4), make.bools(4), 0.5),
        (make(2, 3), make.bools(2, 1), float("-inf")),
        (make(3), make.bools(3), make()),
        (make(0, 3), make.bools(3), 1.0),
        (make.ints(5, 3), make.bools(3), 7),
    ]


# -- comparisons: no gradient


def _comparison(name, public):
    def compare(s, a, b):
        return getattr(s, name)(a, b)

    compare.__name__ = name
    record = pointwise(compare, promote="bool" if name in ("eq", "ne") else ordered(name, "bool"), public=public)
    record.samples(lambda make: binary(make) + [(make.ints(3, 4), 1), (make.ints(3, 4), make.ints(3, 4)), (make(3), make(3) > 0)])
    return record


lt, le = _comparison("lt", "lt less"), _comparison("le", "le less_equal")
gt, ge = _comparison("gt", "gt greater"), _comparison("ge", "ge greater_equal")
eq, ne = _comparison("eq", "eq"), _comparison("ne", "ne not_equal")


@pointwise(promote="bool", public="logical_and")
def logical_and(s, a, b):
    return s.logical_and(a, b)


@pointwise(promote="bool", public="logical_or")
def logical_or(s, a, b):
    return s.logical_or(a, b)


@pointwise(promote="bool", public="logical_xor")
def logical_xor(s, a, b):
    return s.ne(s.logical_not(a), s.logical_not(b))


@pointwise(promote="bool", public="logical_not")
def logical_not(s, x):
    return s.logical_not(x)


for _op in (logical_and, logical_or, logical_xor):
    _op.samples(lambda make: [(make.bools(3, 4), make.bools(4)), (make.ints(2, 5), make(5)), (make.bools(2), True)])
logical_not.samples(lambda make: [(make.bools(3, 4),), (make.ints(2, 5),), (make(),)])


def whole(name, least=0):
    """The promotion of what only bool and integers can do; `least` 1: only integers."""

    def rule(*operands):
        common = result_type(operands)
        if not least <= common.category < 2:
            raise NotImplementedError(f"{name}: not implemented for {common}, only for {'' if least else 'bool and '}integers")
        return common, common

    return rule


@pointwise(promote=whole("bitwise_and"), public="bitwise_and")
def bitwise_and(s, a, b):
    return a & b


@pointwise(promote=whole("bitwise_or"), public="bitwise_or")
def bitwise_or(s, a, b):
    return a | b


@pointwise(promote=whole("bitwise_xor"), public="bitwise_xor")
def bitwise_xor(s, a, b):
    return a ^ b


@pointwise(promote=whole("bitwise_not"), public="bitwise_not")
def bitwise_not(s, x):
    return ~x


@pointwise(promote=whole("left_shift", 1), public="bitwise_left_shift")
def left_shift(s, a, b):
    return s.shl(a, b)


@pointwise(promote=whole("right_shift", 1), public="bitwise_right_shift")
def right_shift(s, a, b):
    return s.shr(a, b)


for _op in (bitwise_and, bitwise_or, bitwise_xor):
    _op.samples(lambda make: [(make.bools(3, 4), make.bools(4)), (make.ints(9, 5), make.ints(9, 3, 5)), (make.ints(9, 2), 3)])
bitwise_not.samples(lambda make: [(make.bools(3, 4),), (make.ints(9, 5),)])
for _op in (left_shift, right_shift):
    _op.samples(lambda make: [(make.ints(9, 5), make.ints(4, 3, 5)), (make.ints(9, 2), 3)])


# -- types


@pointwise(promote="dtype")
def cast(s, x, dtype: static):
    """The same numbers in another type: truth for bool, truncation for integers. Also a copy where the type is the
    same."""
    return x


@cast.native
def _(x, dtype):
    if not isinstance(x, np.ndarray):
        return NotImplemented
    found = copy_gather.converted(x, dtype.numpy)
    return found if found is not NotImplemented else _by_floats(x, dtype)


_HALVES = (dtypes.float16, dtypes.bfloat16)
_COUNTED = (dtypes.bool, dtypes.int64, dtypes.int32)


def _by_floats(x, dtype):
    """Whole numbers to halves and back, which numpy converts one by one."""
    own = dtypes.from_numpy(x.dtype)
    if not (dtype in _HALVES and own in _COUNTED or own in _HALVES and dtype in _COUNTED):
        return NotImplemented
    found = _call.converted(x, dtypes.ALL.index(own), dtypes.ALL.index(dtype))
    return NotImplemented if found is None else found


@cast.numpy
def _(x, dtype):
    if x.dtype.kind == "c" and dtype is dtypes.bool:
        return x != 0
    if x.dtype.kind == "c" and not dtype.is_complex:
        warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=6)
        x = x.real
    return x.astype(dtype.numpy, order="K")


@cast.grad("x")
def _(g):
    return g


@cast.samples
def _(make):
    return [
        (make(3, 4), dtypes.float64),
        (make(2, 3), dtypes.bfloat16),
        (make(2, 3), dtypes.int64),
        (make.ints(5, 3), dtypes.float32),
        (make.bools(4), dtypes.float32),
        (make(3), dtypes.bool),
        (make(0, 2), dtypes.float32),
    ]


@pointwise
def clone(s, x):
    return x


@clone.native
def _(x):
    return copy_gather.contiguous_copy(x) if isinstance(x, np.ndarray) and x.flags.c_contiguous else NotImplemented


@clone.numpy
def _(x):
    return x.copy(order="K")


@clone.grad("x")
def _(g):
    return g


clone.samples(unary)


@pointwise(promote="first")
def copy(s, x, source):
    """The source's values in x's type, broadcast to x's shape; `copy_` is its in-place form."""
    return source


copy.inplace.cache["small"] = "copy_"  # the native path for small tensors (csrc/writes.cpp)


@copy.inplace.numpy
def _(x, source):
    if type(source) is int and x.dtype.kind in "iu":
        source = np.asarray(source).astype(x.dtype)  # wraps around, as in C
    same = isinstance(source, np.ndarray) and source.ndim and source.dtype == x.dtype and not np.may_share_memory(x, source)
    if not (same and copy_gather.copy_into(x, np.broadcast_to(source, x.shape))):
        with np.errstate(over="ignore", invalid="ignore"):  # what the type does not hold is infinite or whatever C gives
            np.copyto(x, source, casting="unsafe")


@copy.grad("x")
def _(g, x: Meta):
    return zeros(x)


@copy.grad("source")
def _(g):
    return g


@copy.samples
def _(make):
    return [(make(3, 4), make(3, 4)), (make(3, 4), make(4)), (make(2), 1.5), (make.ints(5, 3), make.ints(5, 3))]
