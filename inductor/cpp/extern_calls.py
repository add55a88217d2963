"""Calls of the runtime's kernels as lines of the entry point: one filled struct of abi.h and one call each.

In: an `ExternCall` with `calls`. Out: lines, and an estimate of the work.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ...capture.shapes.expr import ExprLike, product
from ...capture.shapes.symbolic_shapes import SymFloat
from ...runtime.kernel_calls import NUMBERS, TYPES, ConvCall, RuntimeCall, NumberTable
from ...runtime.errors import Unsupported
from ..loops.ir import View
from .cpp_text import cpp, factor

Pointer = Callable[[View], str]
Scalar = Callable[[str], str]  # name of a float input -> its text


def call_lines(call: Any, pointer: Pointer, scalar: Scalar) -> list[str]:
    return job_lines(call, pointer, scalar) if isinstance(call, RuntimeCall) else conv_lines(call, pointer)


def rounds(calls: tuple) -> list[tuple]:
    """Calls in order; neighbours of one kernel that do not touch each other's results are one run."""
    apart = lambda call: (
        (call.name, 0 if call.same and not call.alone else id(call)) if isinstance(call, RuntimeCall) else id(call)
    )
    return [tuple(group) for _, group in itertools.groupby(calls, apart)]


def call_work(call: Any) -> str:
    """In units of four simple operations."""
    return WORK[type(call)](call)


# -- convolutions


def conv_lines(call: ConvCall, pointer: Pointer) -> list[str]:
    kernel = call.weight.sizes[2:]
    return [
        "FbConv c = {};",
        f"c.x = {pointer(call.x)};",
        f"c.w = {pointer(call.weight)};",
        f"c.bias = {pointer(call.bias) if call.bias is not None else 'nullptr'};",
        f"c.out = {pointer(call.out)};",
        *geometry_lines(call),
        *three("kernel", kernel),
        "rt->conv(&c);",
    ]


def geometry_lines(call: ConvCall) -> list[str]:
    """Everything but pointers and the kernel's sizes."""
    x, out = call.x, call.out
    return [
        f"c.type = {TYPES[x.dtype.name]}, c.form = {call.form};",
        f"c.batch = {cpp(x.sizes[0])}, c.groups = {call.groups}, c.channels = {cpp(x.sizes[1])}, c.made = {cpp(out.sizes[1])};",
        f"c.x_n = {cpp(x.strides[0])}, c.x_c = {cpp(x.strides[1])};",
        f"c.out_n = {cpp(out.strides[0])}, c.out_c = {cpp(out.strides[1])};",
        *three("in", x.sizes[2:]),
        *three("x_s", x.strides[2:], 0),
        *three("windows", out.sizes[2:]),
        *three("out_s", out.strides[2:], 0),
        *three("step", call.stride),
        *three("before", call.padding, 0),
        *three("spread", call.dilation),
    ]


def three(name: str, values: tuple, missing: int = 1) -> list[str]:
    """Numbers per dim; dims that are not there come first."""
    values = (missing,) * (3 - len(values)) + tuple(values)
    return [", ".join(f"c.{name}[{d}] = {cpp(v)}" for d, v in enumerate(values)) + ";"]


def conv_work(call: ConvCall) -> str:
    each = product(call.weight.sizes[1:])
    return f"{factor(product(call.out.sizes))} * {factor(each)} / 8 + 1"


# -- jobs


def job_lines(call: RuntimeCall, pointer: Pointer, scalar: Scalar) -> list[str]:
    tables = [a for a in call.arrays if isinstance(a, NumberTable)]
    named = {id(a): f"(void*)table{k}" for k, a in enumerate(tables)}
    arrays = [named.get(id(a)) or (pointer(a) if a is not None else "nullptr") for a in call.arrays]
    return [
        *(table_line(a, k) for k, a in enumerate(tables)),
        f"void* const arrays[] = {{{', '.join(arrays)}}};",
        f"const i64 numbers[] = {{{', '.join([*map(number, call.numbers), '0'])}}};",
        f"const double reals[] = {{{', '.join([*(real(x, scalar) for x in call.reals), '0'])}}};",
        f"FbJobCall c = {{{NUMBERS[call.name]} /* {call.name} */, {cpp(call.units)}, {cpp(call.work)}, {call.type}, "
        f"{len(arrays)}, {len(call.numbers)}, {len(call.reals)}, arrays, numbers, reals}};",
        "rt->job(&c);",
    ]


def table_line(table: NumberTable, number: int) -> str:
    type_ = "i64" if table.dtype is None else "double" if table.dtype.name == "float64" else "float"
    return f"static const {type_} table{number}[] = {{{', '.join([*map(repr, table.numbers), '0'])}}};"


def list_lines(calls: tuple[RuntimeCall, ...], pointer: Pointer, scalar: Scalar) -> list[str]:
    """Several jobs in one run. Equal numbers stand there once; the arrays of many jobs, a table of positions in `buffers`
    where they are inputs and outputs, compile quickly."""
    numbers, reals, rows, pointers = Shared(), Shared(), [], []
    tables = {a: None for call in calls for a in call.arrays if isinstance(a, NumberTable)}
    named = {id(a): f"(void*)table{k}" for k, a in enumerate(tables)}
    for call in calls:
        whole = numbers.place([number(n) for n in call.numbers])
        parts = reals.place([real(x, scalar) for x in call.reals])
        rows.append(
            (
                NUMBERS[call.name],
                cpp(call.units),
                cpp(call.work),
                call.type,
                len(call.arrays),
                len(pointers),
                whole,
                len(call.numbers),
                parts,
                len(call.reals),
            )
        )
        pointers += [named.get(id(a)) or (pointer(a) if a is not None else "nullptr") for a in call.arrays]
    constant = "static " if all(str(x).isdigit() for row in rows for x in row) else ""
    return [
        *(table_line(a, k) for k, a in enumerate(tables)),
        *array_lines(pointers, [len(call.arrays) for call in calls]),
        f"const i64 numbers[] = {{{', '.join([*numbers.items, '0'])}}};",
        f"const double reals[] = {{{', '.join([*reals.items, '0'])}}};",
        f"{constant}const i64 rows[][10] = {{   // {calls[0].name}",
        *("    {" + ", ".join(map(str, row)) + "}," for row in rows),
        "};",
        f"FbJobCall calls[{len(calls)}];",
        f"for (int k = 0; k < {len(calls)}; k++) {{",
        "    const i64* r = rows[k];",
        "    calls[k] = {r[0], r[1], r[2], (int)r[3], (int)r[4], (int)r[7], (int)r[9],",
        "                arrays + r[5], numbers + r[6], reals + r[8]};",
        "}",
        f"rt->jobs(calls, {len(calls)});",
    ]


def array_lines(pointers: list[str], widths: list[int]) -> list[str]:
    at = [text.number if isinstance(text, PointerText) else -1 for text in pointers]
    rows, begin = [], 0
    for width in widths:
        rows.append("    " + ", ".join(map(str, at[begin : begin + width])) + ",")
        begin += width
    others = [
        f"arrays[{k}] = {text};" for k, text in enumerate(pointers) if not isinstance(text, PointerText) and text != "nullptr"
    ]
    return [
        "static const int at[] = {   // positions in `buffers`; -1: none, or told below",
        *rows,
        "};",
        f"void* arrays[{len(pointers)}];",
        f"for (int k = 0; k < {len(pointers)}; k++) arrays[k] = at[k] < 0 ? nullptr : buffers[at[k]];",
        *others,
    ]


class PointerText(str):
    """A pointer's text, and its number among the inputs and outputs."""

    number = -1

    @classmethod
    def of(cls, text: str, number: int) -> PointerText:
        made = cls(text)
        made.number = number
        return made


class Shared:
    """Numbers in a row; equal runs are one."""

    def __init__(self):
        self.items: list[str] = []
        self.known: dict[tuple, int] = {}

    def place(self, run: list[str]) -> int:
        if tuple(run) not in self.known:
            self.known[tuple(run)] = len(self.items)
            self.items += run
        return self.known[tuple(run)]


def number(n: ExprLike) -> str:
    return cpp(int(n)) if isinstance(n, bool) else cpp(n)


def real(x: float | SymFloat, scalar: Scalar) -> str:
    if isinstance(x, SymFloat):
        return tree_text(x.tree, scalar)
    if x != x:
        return '__builtin_nan("")'
    return f"{'-' if x < 0 else ''}__builtin_inf()" if x in (float("inf"), float("-inf")) else repr(float(x))


def tree_text(tree: tuple, scalar: Scalar) -> str:
    """A symbolic float, computed in double."""
    kind, *parts = tree
    if kind == "var":
        return scalar(*parts)
    if kind == "int":
        return f"(double)({cpp(*parts)})"
    if kind == "const":
        return real(parts[0], scalar)
    parts = [tree_text(part, scalar) for part in parts]
    if kind in INFIX:
        return f"({parts[0]} {INFIX[kind]} {parts[1]})"
    if kind in FUNCTIONS:
        return f"{FUNCTIONS[kind]}({', '.join(parts)})"
    raise Unsupported(
        "dtype without C++ kernels",
        f"{kind} of a symbolic number as an argument of a runtime kernel",
        "compute it outside of the compiled function",
    )


INFIX = {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}
FUNCTIONS = {
    "neg": "-",
    "pow": "__builtin_pow",
    "abs": "__builtin_fabs",
    "sqrt": "__builtin_sqrt",
    "exp": "__builtin_exp",
    "log": "__builtin_log",
    "sin": "__builtin_sin",
    "cos": "__builtin_cos",
    "tanh": "__builtin_tanh",
}


def job_work(call: RuntimeCall) -> str:
    if isinstance(call.units, int) and isinstance(call.work, int):
        return str(call.units * call.work // 4 + 1)
    return f"{factor(call.units)} * {factor(call.work)} / 4 + 1"


WORK = {ConvCall: conv_work, RuntimeCall: job_work}
