"""Functions of elements under PyTorch's names and arguments."""

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes
from ..device import runtimes
from ..dispatch import number_of, store_map, type_name
from ..op.promote import result_type
from ..sizes import SymFloat, is_number
from ..op.op import OPS, specialise
from ..ops import activations, arithmetic as a, complex_numbers as c, elementary as e
from ..ops.creation import full
from ..tensor import Tensor
from . import expanded_writes, public
from .arguments import check_holds, dim_of, fitting, from_old_form, give, settings


def unary(record, name=None):
    """f(input, *, out=None)"""
    call = specialise(record)

    def function(input, *, out=None):
        return call(input) if out is None else store_map(call, out, input)

    function.__name__ = function.__qualname__ = name or record.name
    function.__doc__ = record.doc or None
    return function


def binary(record, name=None):
    """f(input, other, *, out=None)"""
    call = specialise(record)

    def function(input, other, *, out=None):
        return call(input, other) if out is None else store_map(call, out, input, other)

    function.__name__ = function.__qualname__ = name or record.name
    function.__doc__ = record.doc or None
    return function


def binary_of_tensors(record, name):
    """f(input, other, *, out=None); a number is no `other`."""
    call = specialise(record)

    def function(input, other, *, out=None):
        if not isinstance(other, Tensor):
            refuse_number(name, other)
        return call(input, other) if out is None else store_map(call, out, input, other)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = record.doc or None
    return function


def refuse_number(name, other):
    raise TypeError(f"{name}(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}")


def _declared(arity):
    """Public name -> record, of the records of so many operands that are functions as they stand."""
    records = [record for record in OPS.values() if record.public and len(record.params) == arity]
    return {name: record for record in records for name in record.public.split() if not name.endswith("_") and "." not in name}


UNARY, BINARY = _declared(1), _declared(2)
FUNCTIONS: dict[str, Callable] = {name: unary(record, name) for name, record in UNARY.items()}
FUNCTIONS.update((name, binary(record, name)) for name, record in BINARY.items())
FUNCTIONS.update(
    (name, binary_of_tensors(BINARY[name], name)) for name in ("maximum", "minimum", "logical_and", "logical_or", "logical_xor")
)
globals().update(FUNCTIONS)
public.each(
    FUNCTIONS,
    both=" ".join(FUNCTIONS),
    in_place_function=" ".join(name[:-1] for record in OPS.values() for name in record.public.split() if name.endswith("_")),
)
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


_add, _sub, _div, _mul = map(specialise, (a.add, a.sub, a.div, a.mul))


@public.both
def add(input, other, *old, alpha=1, out=None):
    if old:
        return from_old_form(add, (input, other, *old), 2, "alpha")
    if not (type(alpha) is int and alpha == 1):
        return give(_plus_scaled(a.add, input, other, alpha), out)
    return _add(input, other) if out is None else store_map(_add, out, input, other)


def _plus_scaled(record, input, other, alpha):
    """`record` (a sum or a difference) of input and alpha * other. Its operands meet in one type before they are scaled."""
    number = is_number(alpha) and type(alpha) not in (builtins.bool, builtins.complex)
    kind = result_type((input, other))
    if number and kind.is_floating_point:
        alpha = fitting(alpha, kind)
        return (a.add_scaled if record is record.pure else a.add_scaled.inplace)(
            input, other, alpha if record.pure is a.add else -alpha
        )
    return record(input, _times(input, other, alpha))


def _is_bool(x):
    return x.dtype is dtypes.bool if isinstance(x, Tensor) else isinstance(x, builtins.bool)


def _no_bools(input, other):
    if _is_bool(input) or _is_bool(other):
        both = "two bool tensors" if _is_bool(input) and _is_bool(other) else "a bool tensor"
        raise RuntimeError(
            f"Subtraction, the `-` operator, with {both} is not supported. Use the `^` or "
            "`logical_xor()` operator, or `~` or `logical_not()` to invert a mask."
        )


@public.both
@public.in_place_function
def neg(input, *, out=None):
    if input.dtype is dtypes.bool:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert "
            "a mask, use the `~` or `logical_not()` operator instead."
        )
    return give(a.neg(input), out)


@public.method
def neg_(self):
    return neg(self) if self.dtype is dtypes.bool else a.neg.inplace(self)


negative, negative_ = neg, neg_


def _times(input, other, alpha):
    """alpha * other as `input + alpha * other` needs it: in the type of the sum."""
    kind = result_type((input, other))
    if type(alpha) is builtins.bool and kind is not dtypes.bool:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if type(alpha) is float and kind.category < 2:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if kind is dtypes.bool:
        alpha = builtins.bool(fitting(alpha, dtypes.int64) if type(alpha) is int else alpha)
    else:
        alpha = fitting(alpha, kind)
    if isinstance(other, Tensor):
        return _mul(other.to(kind), alpha)
    return other and alpha if kind is dtypes.bool else other * alpha


@public.both
@public.in_place_function
def square(input, *, out=None):
    return give(a.square(input.long() if input.dtype is dtypes.bool else input), out)


@public.method
def square_(self):
    if self.dtype is dtypes.bool:
        raise RuntimeError("result type Long can't be cast to the desired output type Bool")
    return a.square.inplace(self)


@public.both
def sign(input, *, out=None):
    return give(input.clone() if input.dtype is dtypes.bool else a.sign(input), out)


@public.both
def sub(input, other, *old, alpha=1, out=None):
    if old:
        return from_old_form(sub, (input, other, *old), 2, "alpha")
    _no_bools(input, other)
    if not (type(alpha) is int and alpha == 1):
        return give(_plus_scaled(a.sub, input, other, alpha), out)
    return _sub(input, other) if out is None else store_map(_sub, out, input, other)


subtract = sub


@public.function
def rsub(input, other, *, alpha=1):
    return sub(other, input, alpha=alpha)


@public.method
def sign_(self):
    return a.bitwise_or.inplace(self, self) if self.dtype is dtypes.bool else a.sign.inplace(self)


def _quotient(rounding_mode):
    if rounding_mode not in (None, "floor", "trunc"):
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")
    return {None: a.div, "floor": a.floor_divide, "trunc": a.trunc_divide}[rounding_mode]


@public.both
def div(input, other, *, rounding_mode=None, out=None):
    if rounding_mode == "trunc" and result_type((input, other)).category > 1:
        return give(e.whole_quotient(input, other), out)
    return give(_quotient(rounding_mode)(input, other), out)


divide = div


@public.both
@public.in_place
def true_divide(input, other, *, out=None):
    return give(_div(input, other), out)


_POWERS = {
    2: lambda x: a.square(x),
    3: lambda x: a.cube(x),
    0.5: lambda x: e.sqrt(x),
    -0.5: lambda x: e.rsqrt(x),
    -1: lambda x: a.reciprocal(x),
    -2: lambda x: a.square(a.reciprocal(x)),
}


@public.both
def pow(input, exponent, *, out=None):
    """Small constant exponents are products and roots."""
    return give(_pow(input, exponent), out)


def _pow(input, exponent):
    if type(exponent) in (int, float) and isinstance(input, Tensor):
        if input.dtype.is_floating_point and exponent in _POWERS:
            return _POWERS[exponent](input)
        if input.dtype.category < 2 and type(exponent) is int:
            if exponent < 0:
                raise RuntimeError("Integers to negative integer powers are not allowed.")
            if exponent == 2 and input.dtype is not dtypes.bool:
                return a.square(input)
            exponent = fitting(exponent, result_type((input, exponent)))
        elif input.dtype.category == 2 and input.dtype.itemsize < 4:
            (exponent,) = settings(input, exponent)
    if isinstance(exponent, Tensor) and exponent.dtype.category == 1 and result_type((input, exponent)).category < 2:
        return _whole_power(input, exponent)
    return e.power(input, exponent)


def _whole_power(base, exponent):
    """Of integers: one over a power is 0 but for powers of 1 and -1."""
    if exponent.dtype is dtypes.uint8:
        return e.power(base, exponent)
    kind = result_type((base, exponent))
    base = base.to(kind) if isinstance(base, Tensor) else full((), base, kind, exponent.device)
    inverse = a.where(a.eq(a.bitwise_and(exponent, 1), 0), _mul(base, base), base)
    small = a.logical_or(a.eq(base, 0), a.eq(a.absolute(base), 1))
    return a.where(a.lt(exponent, 0), a.where(small, inverse, 0), e.power(base, a.clamp(exponent, 0, None)))


@public.both
def float_power(input, exponent, *, out=None):
    operands = [x for x in (input, exponent) if isinstance(x, Tensor)]
    inexact = any([x.dtype.is_complex if isinstance(x, Tensor) else isinstance(x, complex) for x in (input, exponent)])
    kind = dtypes.complex128 if inexact else dtypes.float64
    for x in (input, exponent):
        if type(x) is int:
            dtypes.of_number(x)  # (refuses one that 64 bits do not hold)
    input, exponent = [x.to(kind) if isinstance(x, Tensor) else complex(x) if inexact else float(x) for x in (input, exponent)]
    return give(_pow(input, exponent), out) if operands else _pow(input, exponent)


@public.small(specialise(a.clamp))
@public.both
@public.in_place_function
def clamp(input, min=None, max=None, *, out=None):
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    return give(a.clamp(input, *_bounds(input, min, max)), out)


_REAL = (float, SymFloat)


def _bounds(x, low, high):
    """Two bounds; where one is a real number, a whole one is compared as a real number too, not as an element of x."""
    if isinstance(low, _REAL) or isinstance(high, _REAL):
        low, high = [float(n) if isinstance(n, int) and -(2**63) <= n < 2**64 else n for n in (low, high)]
    return _bound(x, low), _bound(x, high)


def _bound(x, number):
    """A number is refused that the type does not hold in which x and it are compared."""
    if number is None:
        return None
    return fitting(number, _meeting(x, number)) if isinstance(number, (int, float)) else number


def _meeting(x, number):
    """`result_type` of a tensor and a number, without a look at tables where the tensor's type is it."""
    kind = x.dtype.category
    plain = kind == 2 if type(number) is float else kind in (1, 2) and type(number) is int and -(2**63) <= number < 2**63
    return x.dtype if plain else result_type((x, number))


clip = clamp


@public.both
@public.in_place_function
def clamp_min(input, min, *, out=None):
    return clamp(input, min, None, out=out)


@public.both
@public.in_place_function
def clamp_max(input, max, *, out=None):
    return clamp(input, None, max, out=out)


@public.both
@public.in_place_function
def round(input, *, decimals=0, out=None):
    if decimals == 0:
        return give(e.round(input), out)
    return give(e.round_decimals(input, 10.0 ** builtins.abs(decimals), decimals < 0), out)


@public.function
def where(condition, input=None, other=None, *, out=None):
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if input is None or other is None:
        raise TypeError("where() takes a condition alone, or with both input and other")
    if condition.dtype is not dtypes.bool:
        if condition.dtype is not dtypes.uint8:
            raise RuntimeError(
                f"where expected condition to be a boolean tensor, but got a tensor with dtype {type_name(condition.dtype)}"
            )
        condition = condition.bool()
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        if isinstance(input, Tensor):
            other = fitting(other, _meeting(input, other), dtypes.float64)
        elif isinstance(other, Tensor):
            input = fitting(input, _meeting(other, input), dtypes.float64)
        else:
            kind = result_type((input, other))
            input, other = fitting(input, kind, dtypes.float64), fitting(other, kind, dtypes.float64)
    return give(a.where(condition, input, other), out)


@public.both
def masked_fill(input, mask, value):
    return a.masked_fill(input, *_mask_and_value(input, mask, value))


def _mask_and_value(input, mask, value):
    if mask.dtype is not dtypes.bool:
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype " + repr(mask.dtype))
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
            )
        check_holds(input.dtype, value)
        if input.dtype.category == 1 and value._fl_array is not None:
            value = value.item()
    elif isinstance(value, np.generic):
        value = value.item()
    return mask, value != 0 if input.dtype is dtypes.bool and isinstance(value, float) else fitting(value, input.dtype)


@public.method
def masked_fill_(self, mask, value):
    return expanded_writes.fill_masked(self, *_mask_and_value(self, mask, value))


@public.both
@public.in_place
@public.in_place_function
def erfc(input, *, out=None):
    return give(_sub(1.0, e.erf(input)), out)


def _whole(value, x):
    """A factor in the type of the sum: integers take its whole part."""
    return int(value) if type(value) is float and x.dtype.category < 2 else value


def _value(value, *operands):
    """A factor in the type of the sum: integers take its whole part. None if the factor is no number or the sum is complex:
    then products and sums are separate."""
    kind = result_type(operands)
    if type(value) not in (int, float, builtins.bool) or kind.is_complex:
        return None
    value = fitting(value, kind, dtypes.float32)
    return int(value) if type(value) is float and kind.category < 2 else value


def _product(input, tensor1, tensor2):
    """Of two factors, in the type of the sum with input."""
    kind = result_type((input, tensor1, tensor2))
    return _mul(*[x.to(kind) if isinstance(x, Tensor) and x.dtype.category < kind.category else x for x in (tensor1, tensor2)])


def _plus_product(input, tensor1, tensor2, value, add, fused):
    factor = _value(value, input, tensor1, tensor2)
    if factor is None:
        return add(input, _mul(_product(input, tensor1, tensor2), value))
    return fused(input, tensor1, tensor2, factor)


@public.small(specialise(a.addcmul))
@public.both
def addcmul(input, tensor1, tensor2, *old, value=1, out=None):
    if old:
        return from_old_form(addcmul, (input, tensor1, tensor2, *old), 3, "value")
    return give(_plus_product(input, tensor1, tensor2, value, _add, a.addcmul), out)


@public.method
def addcmul_(self, tensor1, tensor2, *old, value=1):
    if old:
        return from_old_form(addcmul_, (self, tensor1, tensor2, *old), 3, "value")
    return _plus_product(self, tensor1, tensor2, value, a.add.inplace, a.addcmul.inplace)


def _plus_quotient(input, tensor1, tensor2, value, add, fused):
    if tensor1.dtype.category < 2 and tensor2.dtype.category < 2:
        raise RuntimeError(
            "Integer division with addcdiv is not supported: use input + value * tensor1 / tensor2, or "
            "torch.trunc(tensor1 / tensor2) for whole numbers."
        )
    factor = _value(value, input, tensor1, tensor2)
    if factor is None:
        return add(input, _mul(_div(tensor1, tensor2), value))
    return fused(input, tensor1, tensor2, factor)


@public.small(specialise(a.addcdiv))
@public.both
def addcdiv(input, tensor1, tensor2, *old, value=1, out=None):
    if old:
        return from_old_form(addcdiv, (input, tensor1, tensor2, *old), 3, "value")
    return give(_plus_quotient(input, tensor1, tensor2, value, _add, a.addcdiv), out)


@public.method
def addcdiv_(self, tensor1, tensor2, *old, value=1):
    if old:
        return from_old_form(addcdiv_, (self, tensor1, tensor2, *old), 3, "value")
    return _plus_quotient(self, tensor1, tensor2, value, a.add.inplace, a.addcdiv.inplace)


def _check_lerp(input, end, weight):
    for name, x in (("end", end), ("weight", weight)):
        if isinstance(x, Tensor) and x.dtype is not input.dtype and (x.ndim or name == "end"):
            raise RuntimeError(f"expected dtype {input.dtype.name} for `{name}` but got dtype {x.dtype.name}")


@public.small
@public.both
def lerp(input, end, weight, *, out=None):
    _check_lerp(input, end, weight)
    return give(_between(input, end, weight, _add, a.lerp), out)


@public.method
def lerp_(self, end, weight):
    _check_lerp(self, end, weight)
    return _between(self, end, weight, a.add.inplace, a.lerp.inplace)


def _between(input, end, weight, add, fused):
    if input.dtype.is_complex:
        return add(input, _mul(_sub(end, input), weight))
    if type(weight) is int:
        dtypes.of_number(weight)  # (refuses one that 64 bits do not hold)
    return fused(input, end, fitting(weight, input.dtype, dtypes.float32))


@public.both
def logaddexp(input, other, *, out=None):
    kind = result_type((input, other))
    return give(_complex_logaddexp(input, other) if kind.is_complex else e.logaddexp(input, other), out)


def _complex_logaddexp(x, y):
    """The larger by its real part stands outside of the logarithm, as the magnitudes of exponentials do."""
    x, y = [_add(v, 0j) for v in (x, y)]
    less = a.lt(c.real(x), c.real(y))
    low, high = a.where(less, x, y), a.where(less, y, x)
    ends = a.logical_and(a.eq(c.real(x), c.real(y)), e.isinf(c.real(x)))
    near = _add(high, e.log1p(e.exp(_sub(low, high))))
    return a.where(ends, a.where(a.lt(c.real(x), 0), low, e.log(_add(e.exp(low), e.exp(high)))), near)


@public.both
@public.in_place
def hypot(input, other, *, out=None):
    if not isinstance(other, Tensor):
        refuse_number("hypot", other)
    return give(e.hypot(input, other), out)


@public.small
@public.both
@public.in_place
@public.in_place_function
def nan_to_num(input, nan=0.0, posinf=None, neginf=None, *, out=None):
    if input.dtype.category < 2:
        return give(input.clone(), out)
    info = dtypes.finfo(input.dtype)
    x = a.where(e.isnan(input), 0.0 if nan is None else nan, input)
    x = a.where(a.eq(x, float("inf")), info.max if posinf is None else posinf, x)
    return give(a.where(a.eq(x, float("-inf")), info.min if neginf is None else neginf, x), out)


@public.small(activations.softmax)
@public.both
def softmax(input, dim, dtype=None):
    """exp(input) scaled to the sum 1 along `dim`; `dtype`: what the input is cast to before."""
    return _along(activations.softmax, input, dim, dtype)


@public.small(activations.log_softmax)
@public.both
def log_softmax(input, dim, dtype=None):
    """The logarithm of softmax along `dim`; `dtype`: what the input is cast to before."""
    return _along(activations.log_softmax, input, dim, dtype)


def _along(record, input, dim, dtype):
    x = input if dtype is None else input.to(dtype)
    d = dim_of(x, dim)
    if not x.dtype.is_floating_point:
        raise RuntimeError(f'"softmax_lastdim_kernel_impl" not implemented for {type_name(x.dtype)!r}: softmax of {x.dtype}')
    return record(x, d) if x.ndim else record(x.reshape(1), 0).reshape(())


@public.both
def isclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{type_name(input.dtype)} did not match {type_name(other.dtype)}")
    same = a.eq(input, other)
    if equal_nan:
        same = a.logical_or(same, a.logical_and(a.ne(input, input), a.ne(other, other)))
    x, y = (t if t.dtype.category >= 2 else t.double() for t in (input, other))
    gap = a.absolute(_sub(x, y))
    near = a.le(gap, _add(_mul(a.absolute(y), rtol), atol))
    return a.logical_or(same, a.logical_and(near, e.isfinite(gap)))


@public.both
def allclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@public.both
def equal(input, other):
    """Equal sizes and elements, as one bool."""
    if input.shape != other.shape:
        return False
    return bool(a.eq(input, other).all())


# -- in-place methods beyond `name_` of the regular ones


@public.method
def add_(self, other, *old, alpha=1):
    if old:
        return from_old_form(add_, (self, other, *old), 2, "alpha")
    return a.add.inplace(self, other) if type(alpha) is int and alpha == 1 else _plus_scaled(a.add.inplace, self, other, alpha)


@public.method
def sub_(self, other, *old, alpha=1):
    if old:
        return from_old_form(sub_, (self, other, *old), 2, "alpha")
    _no_bools(self, other)
    return a.sub.inplace(self, other) if type(alpha) is int and alpha == 1 else _plus_scaled(a.sub.inplace, self, other, alpha)


@public.method
def div_(self, other, *, rounding_mode=None):
    if rounding_mode == "trunc" and self.dtype.category > 1:
        return a.copy.inplace(self, e.whole_quotient(self.clone(), other))
    return _quotient(rounding_mode).inplace(self, other)


@public.method
def pow_(self, exponent):
    if isinstance(exponent, Tensor) and exponent.dtype.category == 1 and self.dtype.category == 1:
        return a.copy.inplace(self, _pow(self, exponent))
    return e.power.inplace(self, exponent)


@public.method
def float_power_(self, exponent):
    result = float_power(a.clone(self), exponent)
    if result.dtype is not self.dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {type_name(self.dtype)} but the operation's result "
            f"requires dtype {type_name(result.dtype)}"
        )
    return a.copy.inplace(self, result)


@public.method
def clamp_(self, min=None, max=None):
    if min is None and max is None:
        raise RuntimeError("torch.clamp_: At least one of 'min' or 'max' must not be None")
    return a.clamp.inplace(self, *_bounds(self, min, max))


@public.method
def clamp_min_(self, min):
    return a.clamp.inplace(self, _bound(self, min), None)


@public.method
def clamp_max_(self, max):
    return a.clamp.inplace(self, None, _bound(self, max))


@public.method
def round_(self, *, decimals=0):
    return e.round.inplace(self) if decimals == 0 else copy_(self, round(self, decimals=decimals))


@public.small
@public.method
def copy_(self, src, non_blocking=False):
    if not isinstance(src, (Tensor, int, float, bool)):
        from .creation import as_tensor

        src = as_tensor(src)
    if runtimes and isinstance(src, Tensor) and src._fl_device is not self._fl_device:
        src = OPS["transfer"](src, self._fl_device)
    return a.copy.inplace(self, src)


@public.small
@public.method
def fill_(self, value):
    value = fill_value("fill_", self, value)
    return a.copy.inplace(self, value) if isinstance(value, Tensor) else expanded_writes.fill(self, value)


def fill_value(name, x, value):
    """One number: Python's, or a tensor without dims."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
        return value
    value = number_of(value)
    if not is_number(value):
        raise TypeError(f"{name}(): argument 'value' must be Number or Tensor, not {type(value).__name__}")
    return fitting(value, x.dtype)


@public.small
@public.method
@public.in_place_function("zero")
def zero_(self):
    return expanded_writes.fill(self, 0)


@public.method("where")
def _where_method(self, condition=None, other=None):
    """Elements of this tensor where the condition holds, of `other` elsewhere."""
    if condition is None or other is None:
        given = "" if condition is None else type(condition).__name__
        raise TypeError(
            f"where() received an invalid combination of arguments - got ({given}), but expected one of: (Tensor "
            "condition, Tensor other), (Tensor condition, Number other)"
        )
    return where(condition, self, other)


public.each(globals(), both="clip divide negative subtract", in_place_function="clip negative")
public.SMALL.update(clip=specialise(a.clamp))
public.methods(subtract_=sub_, divide_=div_, negative_=neg_, clip_=clamp_)
