"""Running combinations along a dim (cumsum and its kin), by the record's kind and combine.

In: an `ExternCall` of a scan. Out: `Written`, or None where it is no such thing. A program walks some rows in blocks: a scan
within the block, joined to what the blocks before left.
"""

from __future__ import annotations

from typing import Any

from ...capture.bounds import Bounds
from ...capture.expr import plain, product
from ...eager import dtypes
from ...eager.op import Kind
from ...eager.prims import COMBINES
from ..loops import Axis, ExternCall, View
from .prims import literal, rounded
from .rows import LoopWriter, power_of_two
from .text import HALVES, register_type
from .tiles import Dim, Tile
from .values import Written

FUNCTIONS = {"sum": "add", "prod": "multiply"}


def write_scan(program: Any, kernel: ExternCall) -> Written | None:
    op = kernel.op
    if op.kind is not Kind.SCAN or op.combine not in FUNCTIONS or len(kernel.outputs) != 1:
        return None
    return ScanWriter(program, kernel).write()


class ScanWriter(LoopWriter):
    def axes(self) -> list[Axis]:
        return []

    def write(self) -> Written:
        x, dim = self.kernel.args[0], int(self.kernel.args[1])
        out = self.kernel.outputs[0]
        sizes = x.sizes or (1,)
        rank = len(sizes)
        axes = [Axis(f"i{d}", n) for d, n in enumerate(sizes)]
        self.bounds = Bounds({a.name: (0, a.extent - 1) for a in axes})
        outer = tuple(a for d, a in enumerate(axes) if d != dim and a.extent != 1)
        length = axes[dim]
        rows = Dim("x", outer, "XBLOCK") if outer else None
        row = Dim("r", (length,), "RBLOCK")
        self.tile = Tile((*((rows,) if rows else ()), row))
        if rows:
            self.start((rows,))
        names = {a.name: a.name if a in outer or a is length else "0" for a in axes}
        dtype = register_type(out.dtype)
        combine, axis = FUNCTIONS[self.kernel.op.combine], 1 if rows else 0
        identity = literal(COMBINES[self.kernel.op.combine].identity(out.dtype), out.dtype)
        total = f"tl.full({self.tile.shape(self.tile.letters - {'r'})}, {identity}, {dtype})"
        self.lines(f"total = {total}" if rows else f"total = tl.full([1], {identity}, {dtype})")
        with self.lines.block(f"for start in range(0, {self.text(length.extent)}, RBLOCK):"):
            self.lines(f"{length.name} = (start + tl.arange(0, RBLOCK){self.tile.spread(row)}).to(INDEX)")
            self.tile.mask(self.lines, row, self.bounds)
            masks = " & ".join(self.tile.masks(self.tile.letters))
            value = f"tl.load({self.place(x.buffer, self.spot(x, names, rank))}, {masks}, other=0)"
            value = f"{value}.to({dtype})" if x.dtype is not dtypes.bool else f"({value} != 0).to({dtype})"
            self.lines(f"value = tl.where(rmask, {value}, {identity})")
            self.lines(f"running = {combine}(total, tl.associative_scan(value, {axis}, {combine}))")
            shown = rounded("running", out.dtype) if out.dtype.name in HALVES else "running"
            view = View(out, out.sizes, out.strides, out.offset)
            self.lines(f"tl.store({self.place(out, self.spot(view, names, rank))}, {shown}, {masks})")
            tail = "[:, None]" if rows else ""
            self.lines(f"total = {combine}(total, tl.reduce(value, {axis}, {combine}){tail})")
        n = length.extent
        blocks = {"XBLOCK": 4} if rows else {}
        blocks["RBLOCK"] = min(1024, power_of_two(n)) if isinstance(n, int) else 1024
        made = self.written((rows,) if rows else (), blocks)
        made.points.append(plain(product(sizes)))
        return made

    def spot(self, view: View, names: dict[str, str], rank: int) -> str:
        terms = [self.text(view.offset)] if view.offset != 0 else []
        for d, stride in enumerate(view.strides):
            if names[f"i{d}"] != "0" and stride != 0:
                terms.append(f"i{d} * ({self.text(stride)})")
        return " + ".join(terms) or "0"
