"""The table of scalar primitives in Triton: for every name of `eager.op.prims.PRIMS`, how it is written over blocks.

In: texts and element types of the operands. Out: one expression. Halves are computed in float32 and rounded after each
primitive of half type, as `text.TYPES` says of registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...eager import dtypes
from .triton_text import HALVES, factor, register_type, stored_type


def literal(number: Any, dtype: Any) -> str:
    """A number beside a block of its type."""
    if dtype is dtypes.bool:
        return str(bool(number))
    if not dtype.is_floating_point:
        return str(int(number))
    x = float(number)
    if math.isfinite(x) and register_type(dtype) == "tl.float32":
        x = float(dtypes.float32.numpy.type(x))
        text = str(dtypes.float32.numpy.type(x))
        return text if math.isfinite(x) else literal(x, dtype)
    return repr(x) if math.isfinite(x) else f'float("{x}")'


def typed(number: Any, dtype: Any) -> str:
    """A number that carries its type."""
    return f"tl.full([], {literal(number, dtype)}, {register_type(dtype)})"


# -- conversions


def convert(text: str, source: Any, target: Any) -> str:
    """`cast`: truth for bool, truncation toward zero for integers, rounding for halves."""
    if source is target:
        return text
    if target is dtypes.bool:
        return f"{factor(text)} != 0"
    moved, name = factor(text), register_type(target)
    if source.is_floating_point and not target.is_floating_point and name not in ("tl.int64", "tl.int32"):
        moved = f"{moved}.to(tl.int64)"  # out of a narrow or unsigned type's range it wraps around
    if register_type(source) != name:
        moved = f"{moved}.to({name})"
    return rounded(moved, target) if target.name in HALVES else moved


def rounded(text: str, dtype: Any) -> str:
    """A float32 as a half holds it."""
    return f"{factor(text)}.to({HALVES[dtype.name]}).to(tl.float32)"


# -- primitives. A cell is a function (element type of the operands, operand texts) -> expression.

Cell = Callable[[Any, list[str]], str]


def operator(sign: str, booleans: str | None = None) -> Cell:
    def cell(dtype: Any, a: list[str]) -> str:
        if dtype is dtypes.bool and booleans is not None:
            return booleans.format(*map(factor, a))
        return f"{factor(a[0])} {sign} {factor(a[1])}"

    return cell


def compare(sign: str, booleans: str) -> Cell:
    return operator(sign, booleans)


def function(name: str, doubles: str | None = None, ints: str | None = None) -> Cell:
    """A function of one type; others for float64 and for whole numbers."""

    def cell(dtype: Any, a: list[str]) -> str:
        if ints is not None and not dtype.is_floating_point:
            return ints.format(*a)
        chosen = doubles if doubles and dtype is dtypes.float64 else name
        return f"{chosen}({', '.join(a)})"

    return cell


def extreme(name: str, booleans: str) -> Cell:
    def cell(dtype: Any, a: list[str]) -> str:
        if dtype is dtypes.bool:
            return f"{factor(a[0])} {booleans} {factor(a[1])}"
        return f"{name if dtype.is_floating_point else 'whole_' + name}({', '.join(a)})"

    return cell


def division(dtype: Any, a: list[str]) -> str:
    return f"{factor(a[0])} / {factor(a[1])}" if dtype is dtypes.float64 else f"tl.div_rn({', '.join(a)})"


def remainder(name: str) -> Cell:
    def cell(dtype: Any, a: list[str]) -> str:
        if not dtype.is_floating_point:
            sign = "//" if name == "floordiv" else "%"
            return f"{name}({', '.join(a)})" if dtype.is_signed else f"{factor(a[0])} {sign} {factor(a[1])}"
        kind = "double" if name == "floordiv" and dtype is dtypes.float64 else "float"
        return f"{kind}_{name}({', '.join(a)})"

    return cell


def shift(name: str) -> Cell:
    return lambda dtype, a: f"shift_{name}({', '.join(a)}, {8 * dtype.itemsize})"


def power(dtype: Any, a: list[str]) -> str:
    return f"{'libdevice.pow' if dtype.is_floating_point else 'whole_pow'}({', '.join(a)})"


def truth(text: str) -> Cell:
    """A question that whole numbers answer with no."""
    return lambda dtype, a: text.format(factor(a[0])) if dtype.is_floating_point else f"{factor(a[0])} != {factor(a[0])}"


TRITON_PRIMS: dict[str, Cell] = {
    "add": operator("+", "{} | {}"),
    "sub": operator("-", "{} ^ {}"),
    "mul": operator("*", "{} & {}"),
    "truediv": division,
    "floordiv": remainder("floordiv"),
    "mod": remainder("mod"),
    "neg": lambda dtype, a: f"-{factor(a[0])}" if dtype.is_floating_point else f"0 - {factor(a[0])}",
    "abs": lambda dtype, a: a[0] if dtype is dtypes.bool else f"tl.abs({a[0]})",
    "sign": lambda dtype, a: f"{'float_sign' if dtype.is_floating_point else 'sign'}({a[0]})",
    "pow": power,
    **{name: function(f"tl.{name}") for name in ("exp", "log", "log2", "sin", "cos", "erf", "rsqrt")},
    "sqrt": function("tl.sqrt_rn", "tl.sqrt"),
    **{name: function(f"libdevice.{name}") for name in ("log1p", "expm1", "tan", "tanh")},
    **{
        name: function(text, ints="{0}")
        for name, text in (("floor", "tl.floor"), ("ceil", "tl.ceil"), ("round", "libdevice.rint"), ("trunc", "libdevice.trunc"))
    },
    "maximum": extreme("maximum", "|"),
    "minimum": extreme("minimum", "&"),
    "lt": compare("<", "({} == 0) & {}"),
    "le": compare("<=", "({} == 0) | {}"),
    "gt": compare(">", "{} & ({} == 0)"),
    "ge": compare(">=", "{} | ({} == 0)"),
    "eq": compare("==", "({} ^ {}) == 0"),
    "ne": compare("!=", "{} ^ {}"),
    "logical_and": operator("&"),
    "logical_or": operator("|"),
    "logical_not": lambda dtype, a: f"{factor(a[0])} == 0",
    "bit_and": operator("&"),
    "bit_or": operator("|"),
    "bit_xor": operator("^"),
    "bit_not": lambda dtype, a: f"~{factor(a[0])}" if dtype is not dtypes.bool else f"{factor(a[0])} == 0",
    "shl": shift("left"),
    "shr": shift("right"),
    "isnan": truth("{0} != {0}"),
    "isinf": truth('tl.abs({0}) == float("inf")'),
    "where": lambda dtype, a: f"tl.where({', '.join(a)})",
    "philox": lambda dtype, a: f"philox({', '.join(a)})",
    "cast": lambda dtype, a: a[0],  # written by `convert`, which knows both types
}
PLAIN = {"add", "sub", "mul", "lt", "le", "gt", "ge", "eq", "ne", "bit_and", "bit_or", "bit_xor"}  # operators: literals do
EXACT = {"maximum", "minimum", "floor", "ceil", "round", "trunc", "neg", "abs", "where"}  # give a value that a half holds


def apply(name: str, texts: list[str], operands: list[Any], target: Any, constants: list[Any]) -> str:
    """The expression of a primitive; `operands`: their types, `constants`: numbers of constant operands, None for others."""
    if name == "cast":
        return convert(texts[0], operands[0], target)
    dtype = operands[-1] if name == "where" else operands[0]
    text = cheaper(name, dtype, texts, constants) or TRITON_PRIMS[name](dtype, texts)
    return rounded(text, target) if target.name in HALVES and name not in EXACT else text


def cheaper(name: str, dtype: Any, texts: list[str], constants: list[Any]) -> str | None:
    """Spellings for constant operands that give the same values."""
    if name == "pow" and dtype.is_floating_point and constants[1] in (1.0, 2.0, 3.0):
        return " * ".join([factor(texts[0])] * int(constants[1]))
    if name in ("shl", "shr") and constants[1] is not None and 0 <= constants[1] < 8 * dtype.itemsize:
        return f"{factor(texts[0])} {'<<' if name == 'shl' else '>>'} {constants[1]}"
    return None


__all__ = ["TRITON_PRIMS", "apply", "convert", "literal", "rounded", "stored_type", "typed"]
