"""Running combinations along a dim (cumsum and its kin, and y[t] = b[t] + a[t] y[t - 1]), by the record's kind and combine.

In: an `ExternCall` of a scan. Out: `TritonKernel`, or None where it is no such thing. A program walks some rows in blocks: a scan
within the block, joined to what the blocks before left. Some carry two arrays: extremes their positions, the recurrence factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...capture.shapes.value_ranges import Bounds
from ...capture.shapes.expr import int_if_const, product
from ...eager import dtypes
from ...eager.op.op import Kind
from ...eager.op.prims import COMBINES
from ..loops.ir import Axis, ExternCall, View
from .prims import literal, rounded
from .row_kernels import LoopWriter, power_of_two
from .triton_text import HALVES, register_type
from .tiles import Dim, Tile
from .block_values import TritonKernel


@dataclass(frozen=True)
class ScanCombine:
    """A combine: its function over parts, and which of them are stored."""

    function: str
    parts: tuple[str, ...] = ("value",)
    stored: tuple[str, ...] = ("value",)


FUNCTIONS = {
    "sum": ScanCombine("add"),
    "prod": ScanCombine("multiply"),
    "logsumexp": ScanCombine("add_logarithms"),
    "argmax": ScanCombine("later_larger", ("value", "at"), ("value", "at")),
    "argmin": ScanCombine("later_smaller", ("value", "at"), ("value", "at")),
}
RECURRENCE = ScanCombine("follow", ("factor", "value"))


def write_scan(program: Any, kernel: ExternCall) -> TritonKernel | None:
    op = kernel.op
    running = RECURRENCE if op.template == "recurrence" else FUNCTIONS.get(op.combine) if op.kind is Kind.SCAN else None
    if running is None or len(kernel.outputs) != len(running.stored) or kernel.args[0].dtype.is_complex:
        return None
    return ScanWriter(program, kernel, running).write()


class ScanWriter(LoopWriter):
    def __init__(self, program: Any, kernel: ExternCall, running: ScanCombine):
        super().__init__(program, kernel)
        self.names.used |= {"at", "factor", "end", *(f"last_{part}" for part in running.parts)}
        self.running = running
        self.arrays = kernel.args[:2] if running is RECURRENCE else kernel.args[:1]
        self.dim = int(kernel.args[len(self.arrays)])
        self.backwards = running is RECURRENCE and bool(kernel.args[3])
        self.out = kernel.outputs[0]
        self.register = register_type(self.out.dtype)

    def axes(self) -> list[Axis]:
        return []

    def write(self) -> TritonKernel:
        sizes = self.arrays[0].sizes or (1,)
        axes = [Axis(f"i{d}", n) for d, n in enumerate(sizes)]
        self.bounds = Bounds({a.name: (0, a.extent - 1) for a in axes})
        outer = tuple(a for d, a in enumerate(axes) if d != self.dim and a.extent != 1)
        length = axes[self.dim]
        self.rows = Dim("x", outer, "XBLOCK") if outer else None
        row = Dim("r", (length,), "RBLOCK")
        self.tile = Tile((*((self.rows,) if self.rows else ()), row))
        if self.rows:
            self.start((self.rows,))
        self.places = {a.name: a.name if a in outer or a is length else "0" for a in axes}
        if self.backwards:
            self.places[length.name] = f"({self.text(length.extent - 1)} - {length.name})"
        for part in self.running.parts:
            self.lines(f"last_{part} = tl.full({self.shape(False)}, {self.identity(part)}, {self.register_of(part)})")
        with self.lines.block(f"for start in range(0, {self.text(length.extent)}, RBLOCK):"):
            self.lines(f"{length.name} = (start + tl.arange(0, RBLOCK){self.tile.spread(row)}).to(INDEX)")
            self.tile.mask(self.lines, row, self.bounds)
            self.step(length.name)
        n = length.extent
        blocks = {"XBLOCK": 4} if self.rows else {}
        blocks["RBLOCK"] = min(1024, power_of_two(n)) if isinstance(n, int) else 1024
        made = self.written((self.rows,) if self.rows else (), blocks)
        made.points.append(int_if_const(product(sizes)))
        return made

    def step(self, position: str) -> None:
        """One block: load, scan, join to what came before, store, and what the next one begins with."""
        out, function, parts = self.lines, self.running.function, self.running.parts
        masks = " & ".join(self.tile.masks(self.tile.letters))
        loaded = {"value": self.arrays[-1], "factor": self.arrays[0]}
        for part in parts:
            if part == "at":
                out(f"at = tl.broadcast_to({position}, {self.shape(True)}).to(tl.int64)")
                continue
            x = loaded[part]
            value = f"tl.load({self.place(x.buffer, self.spot(x))}, {masks}, other=0)"
            value = f"{value}.to({self.register})" if x.dtype is not dtypes.bool else f"({value} != 0).to({self.register})"
            out(f"{part} = tl.where(rmask, {value}, {self.identity(part)})")
        names = ", ".join(parts)
        given, axis = names if len(parts) == 1 else f"({names})", 1 if self.rows else 0
        out(f"{names} = tl.associative_scan({given}, {axis}, {function})")
        out(f"{names} = {function}({', '.join([f'last_{p}' for p in parts])}, {names})")
        for part, buffer in zip(self.running.stored, self.kernel.outputs):
            shown = rounded(part, buffer.dtype) if buffer.dtype.name in HALVES else part
            place = self.place(buffer, self.spot(View(buffer, buffer.sizes, buffer.strides, buffer.offset)))
            out(f"tl.store({place}, {shown}, {masks})")
        tail = "[:, None]" if self.rows else ""
        out(f"end = {position} == start + RBLOCK - 1")
        for part in parts:
            out(f"last_{part} = tl.reduce(tl.where(end, {part}, 0), {axis}, add){tail}")

    def shape(self, whole: bool) -> str:
        if not self.rows:
            return "[RBLOCK]" if whole else "[]"
        return self.tile.shape(self.tile.letters if whole else self.tile.letters - {"r"})

    def register_of(self, part: str) -> str:
        return "tl.int64" if part == "at" else self.register

    def identity(self, part: str) -> str:
        """What changes nothing: of the recurrence, y -> 1 y + 0."""
        if part == "at":
            return "0"
        if self.running is RECURRENCE:
            return literal(1 if part == "factor" else 0, self.out.dtype)
        if self.kernel.op.combine == "logsumexp":
            return 'float("-inf")'
        found = COMBINES[self.kernel.op.combine].identity(self.out.dtype)
        return literal(found[0] if isinstance(found, tuple) else found, self.out.dtype)

    def spot(self, view: View) -> str:
        terms = [self.text(view.offset)] if view.offset != 0 else []
        for d, stride in enumerate(view.strides):
            if self.places[f"i{d}"] != "0" and stride != 0:
                terms.append(f"{self.places[f'i{d}']} * ({self.text(stride)})")
        return " + ".join(terms) or "0"
