"""Sorted rows: one program sorts some rows in registers, by exchanging pairs at powers of two (bitonic).

In: an `ExternCall` of sort or topk over rows of a known, moderate length. Out: `TritonKernel`, or None where it is no such thing.
Values become whole numbers of one order, NaN the largest; positions go along and decide between equals: the order is stable.
What is stored is loaded once more by position: every bit of a value stays.
"""

from __future__ import annotations

from typing import Any

from ...capture.shapes.value_ranges import Bounds
from ...eager import dtypes
from ..loops.ir import Axis, ExternCall, View
from .row_kernels import LoopWriter, power_of_two
from .triton_text import register_type
from .tiles import Dim, Tile
from .block_values import TritonKernel

LONGEST, LONGEST_WIDE = 256, 128  # longer rows compile for seconds (ten at 1024), and a library sorts them well
ELEMENTS = 2048  # of the rows of one program
WIDE = ("int64", "uint64", "float64")  # keys of 64 bits: positions go beside them, not in them


def write_order(program: Any, kernel: ExternCall) -> list[TritonKernel] | None:
    if kernel.op.template != "order" or not kernel.args[0].sizes or kernel.args[0].dtype.name == "uint64":
        return None
    x, given = kernel.args[0], dict(zip(kernel.op.names, kernel.args))
    dim = given["dim"]
    if any(n == 0 for n in (*x.sizes, *kernel.outputs[0].sizes)):
        return []
    length = x.sizes[int(dim)]
    known = isinstance(length, int) and 0 < length <= (LONGEST_WIDE if x.dtype.name in WIDE else LONGEST)
    if not known or not isinstance(given.get("k", length), int):
        return None
    return [OrderWriter(program, kernel, int(dim)).write()]


class OrderWriter(LoopWriter):
    def __init__(self, program: Any, kernel: ExternCall, dim: int):
        super().__init__(program, kernel)
        self.names.used |= {"key", "at"}
        self.dim = dim
        given = dict(zip(kernel.op.names, kernel.args))
        self.falling = bool(given["descending"] if "descending" in given else given["largest"])
        self.kept = given.get("k", given["x"].sizes[dim])

    def axes(self) -> list[Axis]:
        return []

    def write(self) -> TritonKernel:
        x, out = self.kernel.args[0], self.lines
        length = x.sizes[self.dim]
        axes = [Axis(f"i{d}", n) for d, n in enumerate(x.sizes)]
        self.bounds = Bounds({a.name: (0, a.extent - 1) for a in axes})
        outer = tuple(a for d, a in enumerate(axes) if d != self.dim and a.extent != 1)
        rows = Dim("x", outer or (Axis("one", 1),), "XBLOCK", bool(outer))
        block = power_of_two(max(2, length))
        row = Dim("r", (axes[self.dim],), "RBLOCK", length != block)
        self.tile = Tile((rows, row))
        self.start((rows,))
        self.tile.number(out, row, "", self.bounds)
        names = {a.name: a.name if a in outer or a is axes[self.dim] else "0" for a in axes}
        place = lambda view, at: self.place(view.buffer, self.spot(view, {**names, axes[self.dim].name: at}))
        here = axes[self.dim].name
        masks = " & ".join(self.tile.masks(self.tile.letters))
        out(f"value = tl.load({place(x, here)}{f', {masks}, other=0' if masks else ''}){self.widened(x.dtype)}")
        out(f"at = tl.broadcast_to({here}, (XBLOCK, RBLOCK)).to(tl.int32)")
        self.keys(x.dtype, row)
        self.sorted(x.dtype, block)
        stored = "xmask" if outer else ""
        if self.kept != block:
            stored = f"{stored + ' & ' if stored else ''}({here} < {self.text(self.kept)})"
        mask, other = (f", {stored}" if stored else ""), (f", {stored}, other=0" if stored else "")
        values, positions = (View(b, b.sizes, b.strides, b.offset) for b in self.kernel.outputs)
        out(f"tl.store({place(values, here)}, tl.load({place(x, 'at')}{other}){mask})")
        out(f"tl.store({place(positions, here)}, at.to(tl.int64){mask})")
        blocks = {"XBLOCK": max(1, ELEMENTS // block) if outer else 1, "RBLOCK": block}
        return self.written((rows,), blocks)

    def widened(self, dtype: Any) -> str:
        return ".to(tl.float32)" if register_type(dtype) == "tl.float32" else ""

    def keys(self, dtype: Any, row: Dim) -> None:
        """`key`: a whole number of each value, in the order asked for."""
        bits = 64 if dtype.name in WIDE else 32
        if dtype.is_floating_point:
            self.lines(f"key = float_key(value, {bits})")
        elif dtype is dtypes.uint32:
            self.lines("key = (value.to(tl.int64) - 2147483648).to(tl.int32)")
        else:
            self.lines(f"key = value.to(tl.int{bits})")
        if self.falling:
            self.lines("key = -1 - key")
        if row.masked:
            self.lines(f"key = tl.where(rmask, key, {2 ** (bits - 1) - 1})")

    def sorted(self, dtype: Any, block: int) -> None:
        log = block.bit_length() - 1
        if dtype.name in WIDE:
            self.lines(f"at = sorted_pairs(key, at, XBLOCK, RBLOCK, {log})")
        else:
            self.lines("key = (key.to(tl.int64) << 32) | at.to(tl.int64)")
            self.lines(f"at = (sorted_keys(key, XBLOCK, RBLOCK, {log}) & 0xFFFFFFFF).to(tl.int32)")

    def spot(self, view: View, names: dict[str, str]) -> str:
        terms = [self.text(view.offset)] if view.offset != 0 else []
        for d, stride in enumerate(view.strides):
            if names[f"i{d}"] != "0" and stride != 0:
                terms.append(f"{names[f'i{d}']} * ({self.text(stride)})")
        return " + ".join(terms) or "0"
