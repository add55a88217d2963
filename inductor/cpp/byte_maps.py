"""Maps of bytes: truth values and whole numbers of 8 bits in registers that hold four times the lanes of other maps.

In: a map whose values all are bytes that lie next to each other or are one for all lanes. Out: its loop nest over the
registers `vy` of `runtime/csrc/vector.h`. Numbers wrap as in memory; truth values are 0 / 255 in registers.
"""

from __future__ import annotations

from typing import Any

from ...capture.shapes.expr import Expr, is_const, lift
from ..loops.body import Buffer, Value
from ..loops.ir import LoopKernel, Store
from .loop_codegen import StepWriter
from .prims import CPP_PRIMS, type_of
from .cpp_text import Lines

LONG = 64  # elements of a row from which such registers pay
BYTES = frozenset({"bool", "u8", "i8"})
SAME = frozenset({"add", "sub", "mul", "bit_and", "bit_or", "bit_xor", "bit_not", "neg"})  # alike with a sign and without
COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
LOGICAL = frozenset(
    {
        "logical_and",
        "logical_or",
        "logical_not",
        "maximum",
        "minimum",
        "add",
        "mul",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bit_not",
        *COMPARED,
    }
)


def is_byte_map(kernel: LoopKernel) -> bool:
    """Whether a map (one step that only stores) computes with bytes alone, in rows that are long enough."""
    (step,) = kernel.steps
    if not step.axes or step.reduces or step.looks or step.index_values() or kernel.locals:
        return False
    last = step.axes[-1]
    if type(last.extent) is int and last.extent < LONG:
        return False
    return all(
        is_byte(v) and (v.op != "load" or access_direction(v.attrs.buffer, v.attrs.index, last.var)) for v in step.values()
    ) and all(s.mode == "set" and access_direction(s.buffer, s.index, last.var) == 1 for s in step.stores)


def is_byte(value: Value) -> bool:
    kind = type_of(value.dtype).c if value.dtype.itemsize == 1 else ""
    if kind not in BYTES:
        return False
    if value.op == "load":
        return not value.args
    if value.op in ("const", "cast"):
        return True
    if value.op == "where":
        return value.args[0].dtype.name == "bool"
    given = type_of(value.args[0].dtype).c if value.args and value.args[0].dtype.itemsize == 1 else ""
    if given == "bool":
        return value.op in LOGICAL
    return given in BYTES and (value.op in COMPARED or value.op in SAME)


def access_direction(buffer: Buffer, index: tuple, var: Expr) -> int:
    """1 where an access moves on by an element with the axis, -1 where it stays, else 0."""
    parts = lift(buffer.linear(index)).affine([var])
    if parts is None or not is_const(parts[0][var]):
        return 0
    return {1: 1, 0: -1}.get(int(parts[0][var]), 0)


class ByteStepWriter(StepWriter):
    """A nest whose values are registers of bytes."""

    def write_value(self, out: Lines, value: Value) -> str:
        text, stem = self.bytes_of(value)
        if value.op == "const":
            return text
        name = self.kernel.value_name(stem)
        out(f"const vy {name} = {text};")
        return name

    def bytes_of(self, value: Value) -> tuple[str, str]:
        """(C++ expression, stem of a name)."""
        truth = value.dtype.name == "bool"
        if value.op == "const":
            return f"splat_y({255 if truth and value.attrs else int(value.attrs)})", ""
        if value.op == "load":
            place = self.place(self.kernel.linear(value.attrs.buffer, value.attrs.index, False))
            at = self.pointer(value.attrs.buffer, place.at)
            moving = place.kind == "next" and self.level(value) == self.inner
            text = f"ld_y({at}, lanes)" if moving else f"splat_y(*({at}))"
            return f"truth_y({text})" if truth else text, f"{self.kernel.buffer(value.attrs.buffer)}_at"
        texts, given = [self.texts[a.id] for a in value.args], value.args[0].dtype.name
        if value.op == "cast":
            if given == "bool":
                return texts[0] if truth else f"{texts[0]} & 1", "cast"
            return f"truth_y({texts[0]})" if truth else texts[0], "cast"
        if value.op == "where":
            return f"v_where_y({', '.join(texts)})", "where"
        if given != "bool" and value.op in COMPARED:
            sides = texts if given == "uint8" else [f"(vz){text}" for text in texts]
            return f"(vy)({sides[0]} {COMPARED[value.op]} {sides[1]})", value.op
        kind = "b" if given == "bool" else "y"
        return f"(vy)({CPP_PRIMS[value.op](kind, texts)})", value.op

    def write_store(self, out: Lines, store: Store) -> None:
        at = self.pointer(store.buffer, self.place(self.kernel.linear(store.buffer, store.index, False)).at)
        text = self.texts[store.value.id]
        out(f"st_y({at}, {f'{text} & 1' if store.buffer.dtype.name == 'bool' else text}, lanes);")

    def grouped(self, *_: Any) -> dict:
        return {}

    def vector_loop(self, name: str) -> str:
        return f"each_bytes({self.first}, {self.last}, [&](i64 {name}, auto lanes, int slot)"
