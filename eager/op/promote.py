"""Type promotion: which type operands meet in, in which type a formula computes, and which type comes out.

PyTorch's three classes: tensors with dimensions decide; a 0-dim tensor or a Python number matters only if it is of a
higher kind (bool < integer < floating < complex). Operands are anything with `dtype` and `shape`, or Python/symbolic
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functools import lru_cache

from .. import dtypes
from ..sizes import SymFloat, SymInt

_UNSIGNED = (dtypes.uint16, dtypes.uint32, dtypes.uint64)


@lru_cache(None)
def promote_types(a, b):
    """The smallest type that holds both, by PyTorch's table."""
    if a is b:
        return a
    if a.category != b.category:
        low, high = sorted((a, b), key=lambda d: d.category)
        if high.is_complex:
            return dtypes.complex128 if low is dtypes.float64 else high
        return high
    if a.category == 1:
        return _promote_integers(a, b)
    if a.rank == b.rank:
        return dtypes.float32  # float16 with bfloat16, the float8 types
    return a if a.rank > b.rank else b


def _promote_integers(a, b):
    if a in _UNSIGNED or b in _UNSIGNED:
        raise RuntimeError(f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {a} and {b}")
    if a.rank == b.rank:
        return dtypes.int16  # uint8 with int8
    return a if a.rank > b.rank else b


def combine(high, low):
    """A class of operands that decides (`high`, may be None) with one that matters only by its kind."""
    if high is None or low is None:
        return low if high is None else high
    if high.category >= 2:
        return high.to_complex() if low.is_complex and not high.is_complex else high
    if high is dtypes.bool or low.category >= 2:
        return promote_types(high, low)
    return high


def number_type(x):
    """The default type of a Python or symbolic number."""
    if isinstance(x, SymInt):
        return dtypes.int64
    return dtypes.get_default_dtype() if isinstance(x, SymFloat) else dtypes.of_number(x)


def result_type(operands) -> dtypes.dtype | Any:
    """PyTorch's torch.result_type over any number of operands; None for no operand."""
    dims = zero = number = None
    for x in operands:
        d = getattr(x, "dtype", None)
        if type(d) is not dtypes.dtype:
            d = number_type(x)
            number = d if number is None else promote_types(number, d)
        elif len(x.shape):
            dims = d if dims is None else promote_types(dims, d)
        else:
            zero = d if zero is None else promote_types(zero, d)
    return combine(dims, combine(zero, number))


def to_float(d):
    return d if d.category >= 2 else dtypes.get_default_dtype()


def to_long(d):
    return dtypes.int64 if d.category <= 1 else d


# promotion class -> (common type of the operands) -> (type in which operands meet, result type)
CLASSES = {
    "same": lambda d: (d, d),
    "float": lambda d: (to_float(d), to_float(d)),
    "bool": lambda d: (d, dtypes.bool),
    "long": lambda d: (d, dtypes.int64),
    "int_to_long": lambda d: (to_long(d), to_long(d)),
    "real": lambda d: (d, d.to_real()),
}


def ordered(name, rule="same", text='"{}_cpu" not implemented for {!r}', bools=True):
    """The promotion `rule` for what needs an order of numbers; without `bools` for what truth values have not, either."""

    def promote(*operands):
        common = result_type(operands)
        if common is dtypes.bool and not bools:
            raise NotImplementedError(text.format(name, "Bool"))
        if common is not None and common.is_complex:
            raise NotImplementedError(text.format(name, common.scalar_type))
        return CLASSES[rule](common)

    return promote


def types(rule: str | Callable[..., tuple], operands, first=None, dtype=None) -> tuple[Any, Any]:
    """(compute, result) for a promotion class. `compute` is None where operands stay as they are.

    Classes besides the table: "first" (operands meet, the result has the first operand's type), "keep" (operands stay,
    result as the first), "dtype" (operands stay, the result has the record's `dtype` argument, or the first's type);
    a function takes the operands and returns the pair.
    """
    if rule == "dtype":
        return None, dtype or result_type(operands) or first or dtypes.get_default_dtype()
    if rule == "keep":
        return None, first
    common = result_type(operands)
    if rule == "first":
        return common.compute, first
    if callable(rule):
        meet, result = rule(*operands)
    else:
        meet, result = CLASSES[rule](common)
    return meet.compute if meet is not None else None, result
