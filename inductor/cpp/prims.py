"""The table of scalar primitives in C++: for every name of `eager.op.prims.PRIMS`, how it is written over vector
registers.

In: the operands' texts and element types. Out: one C++ expression over the registers of `runtime/csrc/vector.h`.
Every element type lives in one of five register kinds: f (vf: float and the halves), d (vd), l (vl: int64, uint32),
i (vi: the other integers) and b (vi with 0 / -1: bool). Halves compute in float and are rounded after each
primitive of half type.
"""

from __future__ import annotations

import math
from typing import Any
from collections.abc import Callable

import numpy as np

from ...runtime.dataclass import data
from ...runtime.errors import Unsupported


@data
class Type:
    """An element type in C++: the type in memory, the register kind, and what to do after arithmetic that may
    overflow.
    """

    c: str
    kind: str
    after: str = ""

    @property
    def register(self) -> str:
        return REGISTERS[self.kind]


REGISTERS = {"f": "vf", "d": "vd", "l": "vl", "i": "vi", "b": "vi"}
SCALARS = {"f": "float", "d": "double", "l": "i64", "i": "int", "b": "int"}
TYPES = {
    "float32": Type("float", "f"),
    "float64": Type("double", "d"),
    "bfloat16": Type("bf16", "f", "round_bf16"),
    "float16": Type("f16", "f", "round_f16"),
    "int64": Type("i64", "l"),
    "uint32": Type("u32", "l", "wrap_u32"),
    "int32": Type("int", "i"),
    "int16": Type("short", "i", "wrap_i16"),
    "uint16": Type("u16", "i", "wrap_u16"),
    "int8": Type("i8", "i", "wrap_i8"),
    "uint8": Type("u8", "i", "wrap_u8"),
    "bool": Type("bool", "b"),
}


def type_of(dtype: Any) -> Type:
    found = TYPES.get(dtype.name)
    if found is None:
        raise Unsupported(
            "dtype without C++ kernels",
            f"the C++ backend has no registers for {dtype.name}",
            f"compute in one of: {', '.join(TYPES)}",
        )
    return found


def splat(number: Any, kind: str) -> str:
    """A number in all lanes."""
    if kind == "b":
        return f"splat_b({'true' if number else 'false'})"
    if kind in "il":
        return f"splat_{kind}({int_literal(int(number))})"
    return f"splat_{kind}({float_literal(float(number), kind)})"


def int_literal(n: int) -> str:
    if n == -(2**63):
        return "(-0x7fffffffffffffffl - 1)"
    return f"{n}l" if abs(n) >= 2**31 else str(n)


def float_literal(x: float, kind: str) -> str:
    """The shortest text that gives the same number; float constants are rounded as numpy rounds them."""
    suffix = "f" if kind == "f" else ""
    if math.isnan(x):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(x):
        return f"{'-' if x < 0 else ''}__builtin_inf{suffix}()"
    if kind == "f":
        with np.errstate(over="ignore"):
            rounded = np.float32(x)
        if np.isinf(rounded):
            return float_literal(float(rounded), kind)
        text = str(rounded)
        return text + ("f" if "." in text or "e" in text else ".0f")
    return repr(x)


# -- conversions


NUMBERS = {"f": "float", "d": "double", "l": "i64"}


def convert(text: str, source: Type, target: Type, uniform: bool = False) -> str:
    """`cast`: truth for bool, truncation toward zero for integers, rounding for halves. `uniform`: all lanes hold the same."""
    if source is target:
        return text
    if target.kind == "b":
        return text if source.kind == "b" else f"to_b({text})"
    if source.kind == "b":
        return f"truth_{target.kind}({text})"
    moved = text if source.kind == target.kind else f"to_{target.kind}({text})"
    kinds = {source.kind, target.kind}
    if uniform and len(kinds) == 2 and "l" in kinds and kinds <= NUMBERS.keys():
        moved = f"splat_{target.kind}(({NUMBERS[target.kind]})lane({text}, 0))"  # 64-bit lanes are converted one by one
    if target.after == "" or widens(source, target):
        return moved
    if target.kind == "i" and source.kind in "fd":
        moved = f"to_i({text})"
    return f"{target.after}({moved})"


def widens(source: Type, target: Type) -> bool:
    """True when no value of `source` needs rounding or wrapping in `target`."""
    return (
        source.c == "u8"
        and target.c in ("short", "u16", "u32")
        or source.c == "i8"
        and target.c == "short"
        or source.c == "u16"
        and target.c == "u32"
    )


# -- primitives. A cell is a function (register kind of the operands, operand texts) -> expression.

Cell = Callable[[str, list[str]], str]


def operator(sign: str, ints: str = "", booleans: str | None = None) -> Cell:
    def cell(kind: str, a: list[str]) -> str:
        if kind == "b":
            if booleans is None:
                raise Unsupported(
                    "boolean arithmetic", f"{sign} has no meaning for bool operands", "cast to an integer type first"
                )
            return booleans.format(*a)
        if kind == "i" and ints:
            return f"{ints}({a[0]}, {a[1]})"
        return f"{a[0]} {sign} {a[1]}"

    return cell


def function(name: str, ints: str | None = None) -> Cell:
    """A function of the prelude; `ints` is the text for integers and booleans where it is something else."""

    def cell(kind: str, a: list[str]) -> str:
        if ints is not None and kind in "ilb":
            return ints.format(*a)
        return f"v_{name}({', '.join(a)})"

    return cell


def extreme(name: str, booleans: str) -> Cell:
    return lambda kind, a: f"{a[0]} {booleans} {a[1]}" if kind == "b" else f"v_{name}({a[0]}, {a[1]})"


def negative(kind: str, a: list[str]) -> str:
    return f"sub_i(splat_i(0), {a[0]})" if kind == "i" else f"-{a[0]}"


def magnitude(kind: str, a: list[str]) -> str:
    return a[0] if kind == "b" else f"v_abs({a[0]})"


def bits(sign: str) -> Cell:
    return lambda kind, a: f"{a[0]} {sign} {a[1]}"


def inverted(_kind: str, a: list[str]) -> str:
    return f"~{a[0]}"


def chosen(_kind: str, a: list[str]) -> str:
    return f"v_where({', '.join(a)})"


CPP_PRIMS: dict[str, Cell] = {
    "add": operator("+", "add_i", "{} | {}"),
    "sub": operator("-", "sub_i"),
    "mul": operator("*", "mul_i", "{} & {}"),
    "truediv": operator("/"),
    "floordiv": function("floordiv"),
    "mod": function("mod"),
    "neg": negative,
    "abs": magnitude,
    "sign": function("sign"),
    "pow": function("pow"),
    **{
        name: function(name)
        for name in ("exp", "log", "log2", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "erf")
    },
    **{name: function(name, "{0}") for name in ("floor", "ceil", "round", "trunc")},
    "maximum": extreme("maximum", "|"),
    "minimum": extreme("minimum", "&"),
    "lt": operator("<", "", "~{} & {}"),
    "le": operator("<=", "", "~{} | {}"),
    "gt": operator(">", "", "{} & ~{}"),
    "ge": operator(">=", "", "{} | ~{}"),
    "eq": operator("==", "", "~({} ^ {})"),
    "ne": operator("!=", "", "{} ^ {}"),
    "logical_and": bits("&"),
    "logical_or": bits("|"),
    "logical_not": inverted,
    "bit_and": bits("&"),
    "bit_or": bits("|"),
    "bit_xor": bits("^"),
    "bit_not": inverted,
    "shl": function("shl"),
    "shr": function("shr"),
    "isnan": function("isnan", "splat_b(false)"),
    "isinf": function("isinf", "splat_b(false)"),
    "where": chosen,
    "philox": lambda kind, a: a[0],  # written by the nest: four words at once
    "cast": lambda kind, a: a[0],  # written by `convert`, which knows both types
}

# what one element costs, in simple operations: decides how many accumulators a loop gets and when threads pay
COSTS = {
    "exp": 12,
    "log": 14,
    "log2": 14,
    "log1p": 18,
    "expm1": 14,
    "tanh": 18,
    "erf": 26,
    "sin": 20,
    "cos": 20,
    "tan": 26,
    "pow": 60,
    "truediv": 4,
    "sqrt": 5,
    "rsqrt": 8,
    "floordiv": 40,
    "mod": 40,
    "philox": 50,
}


def apply(name: str, operands: list[tuple[str, Type]], target: Type, constants: list[Any]) -> str:
    """The expression of a primitive; `constants`: the numbers of constant operands, None for others."""
    texts = [text for text, _ in operands]
    if name == "cast":
        return convert(texts[0], operands[0][1], target)
    if name == "where":
        return chosen("", texts)
    kind = operands[0][1].kind
    text = special(name, kind, texts, constants) or CPP_PRIMS[name](kind, texts)
    if target.after and target.kind == kind and name not in EXACT:
        return f"{target.after}({text})"
    return text


EXACT = {"maximum", "minimum", "bit_and", "bit_or", "bit_xor", "shr", "floor", "ceil", "round", "trunc", "philox"}


def special(name: str, kind: str, texts: list[str], constants: list[Any]) -> str | None:
    """Cheaper spellings for constant operands that give the same values."""
    if name in ("shl", "shr") and constants[1] is not None and 0 <= constants[1] < (64 if kind == "l" else 32):
        return f"{name}_by({texts[0]}, {constants[1]})"
    if name == "pow" and kind in "fd" and constants[1] in (1.0, 2.0, 3.0):
        return " * ".join([texts[0]] * int(constants[1]))
    if name == "pow" and kind == "f" and constants[0] == 2.0:
        return f"v_pow_of_2({texts[1]})"
    if name == "pow" and kind in "fd" and constants[1] == -1.0:
        return f"{splat(1.0, kind)} / {texts[0]}"
    return None
