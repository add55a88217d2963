"""Names of special methods: which ones Python asks for an operator, in which order.

In: a function of `operator`, and on which side the operand stands. Out: the names to look up in the operand's class.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from .base import Variable

_SYMBOLS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
    "iadd",
    "isub",
    "imul",
    "itruediv",
    "ifloordiv",
    "imod",
    "ipow",
    "imatmul",
    "iand",
    "ior",
    "ixor",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
)
DUNDERS = {getattr(operator, name): f"__{name.strip('_')}__" for name in _SYMBOLS}
IN_PLACE = {f"__{name}__" for name in _SYMBOLS if name[0] == "i"}
REFLECTED = {
    "__eq__": "__eq__",
    "__ne__": "__ne__",
    "__lt__": "__gt__",
    "__gt__": "__lt__",
    "__le__": "__ge__",
    "__ge__": "__le__",
}


def special_names(op: Callable, reflected: bool) -> list[str]:
    """The special methods that an operand may have for an operator."""
    name = DUNDERS.get(op)
    return [] if name is None else candidates(name, reflected)


def candidates(name: str, reflected: bool) -> list[str]:
    """The special methods to try: those in place have a plain form behind them."""
    if reflected:
        plain = "__" + name[3:] if name in IN_PLACE else name
        return [REFLECTED.get(plain, "__r" + plain[2:])]
    return [name, "__" + name[3:]] if name in IN_PLACE else [name]


def is_not_implemented(variable: Variable) -> bool:
    return variable.is_constant() and variable.plain() is NotImplemented
