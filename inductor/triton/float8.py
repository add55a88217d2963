"""float8 to and from other floats, element by element: memory holds bytes, whose bits are taken apart and put together.

In: an `ExternCall` of a cast. Out: `TritonKernel`, or None where neither type is a float8 or the other is none of `OTHERS`. The
chips' own instructions saturate where eager gives NaN and infinity, and sm_80 has none for e4m3: bits are the same on every chip.
"""

from __future__ import annotations

from typing import Any

from ...capture.shapes.value_ranges import Bounds
from ...eager.op.op import Kind
from ..loops.ir import Axis, ExternCall, View
from .row_kernels import LoopWriter
from .triton_text import FLOAT8, HALVES
from .tiles import Dim, Tile
from .block_values import TritonKernel

OTHERS = {"float32": "tl.float32", **HALVES}


def write_cast(program: Any, kernel: ExternCall) -> TritonKernel | None:
    if kernel.op.kind is not Kind.MAP or kernel.op.promote != "dtype" or not isinstance(kernel.args[0], View):
        return None
    kinds = kernel.args[0].dtype.name, kernel.outputs[0].dtype.name
    known = kinds[0] in FLOAT8 and kinds[1] in OTHERS or kinds[0] in OTHERS and kinds[1] in FLOAT8
    return CastWriter(program, kernel).write() if known else None


class CastWriter(LoopWriter):
    def axes(self) -> list[Axis]:
        return []

    def write(self) -> TritonKernel:
        x, buffer = self.kernel.args[0], self.kernel.outputs[0]
        axes = [Axis(f"i{d}", n) for d, n in enumerate(x.sizes)]
        self.bounds = Bounds({a.name: (0, a.extent - 1) for a in axes})
        points = tuple(a for a in axes if a.extent != 1)
        dims = (Dim("x", points, "XBLOCK"),) if points else ()
        self.tile = Tile(dims)
        self.start(dims)
        out = View(buffer, buffer.sizes, buffer.strides, buffer.offset)
        mask = ", xmask" if dims else ""
        self.lines(f"value = tl.load({self.spot(x, points)}{mask})")
        source, target = x.dtype.name, buffer.dtype.name
        if source in FLOAT8:
            self.lines(f"value = from_{source}(value)")
        else:
            self.lines(f"value = to_{target}(value.to(tl.float32))")
        self.lines(f"tl.store({self.spot(out, points)}, value{mask})")
        return self.written(dims, {"XBLOCK": 1024} if dims else {})

    def spot(self, view: View, points: tuple[Axis, ...]) -> str:
        named = {a.name for a in points}
        terms = [f"i{d} * ({self.text(s)})" for d, s in enumerate(view.strides) if f"i{d}" in named and s != 0]
        terms += [self.text(view.offset)] if view.offset != 0 else []
        return self.place(view.buffer, " + ".join(terms) or "0")
