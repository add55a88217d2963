"""Native maps of eager: the formulas of records that are `fast`, written in C++ once for every register type.

    python -m flambeau.inductor.tools.formulas            renews runtime/csrc/formulas.h

In: the op records. Out: the text of that file, which every instruction set compiles: a function per formula, and the rows of
the table of jobs by which `runtime.elementwise.formula` finds it. The formula is recorded as a loop body is, and written as
the C++ of a generated kernel is, so eager, which runs it, and compiled code have one source.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from ...eager import dtypes
from ...eager.op.op import OPS, Op
from ..cpp.prims import COSTS, apply, splat, type_of
from ..loops.body import Body, Value, reachable

PATH = pathlib.Path(__file__).resolve().parents[2] / "runtime" / "csrc" / "formulas.h"
HEAD = """\
// The formulas of op records that have a native map; made by `python -m flambeau.inductor.tools.formulas`, not by hand.
//
// a, b: the operands (b of a map of two); f: the record's parameters.
#ifndef FB_FORMULAS_H
#define FB_FORMULAS_H
"""
CHEAP = 5  # what a formula costs at most that is worth a map in double, too: the C library is as fast for the others


def fast_ops() -> list[Op]:
    return sorted((op for op in OPS.values() if op.fast), key=lambda op: op.name)


def formula_body(op: Op, dtype: dtypes.dtype) -> tuple[Body, Value]:
    """The formula as a body, of scalars `a`, `b` (tensors) and `f[0]`, `f[1]`, ... (parameters)."""
    body = Body()
    tensors = sum(p.is_tensor for p in op.params)
    names = [*"ab"[:tensors], *(f"f[{k}]" for k in range(len(op.params) - tensors))]
    return body, body.cast(op.fn(body, *(body.scalar(name, dtype) for name in names)), dtype)


def lines(op: Op, dtype: dtypes.dtype) -> Iterator[str]:
    """The C++ statements of a formula over registers of one type."""
    _, result = formula_body(op, dtype)
    texts: dict[int, str] = {}
    for value in reachable([result]):
        target = type_of(value.dtype)
        if value.op == "const":
            texts[value.id] = splat(value.attrs, target.kind)
        elif value.op == "scalar":
            texts[value.id] = value.attrs
        else:
            operands = [(texts[a.id], type_of(a.dtype)) for a in value.args]
            constants = [a.attrs if a.op == "const" else None for a in value.args]
            texts[value.id] = f"v{len(texts)}"
            yield f"const {target.register} {texts[value.id]} = {apply(value.op, operands, target, constants)};"
    yield f"return {texts[result.id]};"


def in_double(op: Op) -> bool:
    """Whether doubles have a map of it: one without costly functions."""
    body, _ = formula_body(op, dtypes.float32)
    return all(COSTS.get(value.op, 0) <= CHEAP for value in body.table.values())


def function(op: Op, dtype: dtypes.dtype) -> str:
    register = type_of(dtype).register
    written = "\n".join(f"    {line}" for line in lines(op, dtype))
    return f"FB_INLINE {register} formula_{op.name}({register} a, {register} b, const {register} (&f)[4]) {{\n{written}\n}}"


def text() -> str:
    """The whole file."""
    records = fast_ops()
    parts = [HEAD]
    for op in records:
        parts.append(f"// {op.fn.__module__.rpartition('.')[2]}.py: {op.name}({', '.join(p.name for p in op.params)})")
        parts += [function(op, dtype) for dtype in (dtypes.float32, *((dtypes.float64,) if in_double(op) else ()))]
    kinds = ", ".join(f"FORMULA_{op.name.upper()}" for op in records)
    two = " || ".join(f"kind == FORMULA_{op.name.upper()}" for op in records if op.params[1:] and op.params[1].is_tensor)
    parts += [f"\nenum FormulaOf {{ {kinds} }};", f"FB_INLINE constexpr bool formula_of_two(int kind) {{\n    return {two};\n}}"]
    chosen = "\n".join(
        f"    if constexpr (kind == FORMULA_{op.name.upper()}) return formula_{op.name}(a, b, f);" for op in records
    )
    parts.append(f"template <int kind, class V> FB_INLINE V formula(V a, V b, const V (&f)[4]) {{\n{chosen}\n}}")
    rows = " \\\n".join(
        f'    {{"{op.name}", FB_{"ALL" if in_double(op) else "SINGLE"}_TYPES_OF(map_formula, FORMULA_{op.name.upper()})}},'
        for op in records
    )
    parts.append(f"\n#define FB_FORMULA_JOBS \\\n{rows}\n\n#endif\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
