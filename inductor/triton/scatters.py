"""Scatters: the target is filled, then every point is written or added where its index says.

In: a `ScatterKernel`. Out: `TritonKernel`, the filling before it. Sums are atomic where the chip adds that type; other types, and
plain writes that may meet, are walked in order by one program, so that the last point wins as in eager.
"""

from __future__ import annotations

from typing import Any

from ...capture.shapes.expr import Expr, is_const, int_if_const, product
from ..loops.ir import Axis, LoopKernel, ScatterKernel, Step, Store, step_bounds
from .row_kernels import LoopWriter, write_loops
from .tiles import Dim, Tile
from .block_values import TritonKernel

ATOMIC = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint32", "uint64")


COMBINED = {
    "add": "there + new",
    "mul": "there * new",
    "max": "tl.where((there != there) | (there > new), there, new)",
    "min": "tl.where((there != there) | (there < new), there, new)",
}
TRUTHS = {"add": "there | new", "max": "there | new", "mul": "there & new", "min": "there & new"}


class ScatterWriter(LoopWriter):
    """The points of a scatter, in parallel or one after the other."""

    def write(self) -> TritonKernel:
        kernel: ScatterKernel = self.kernel
        step = kernel.step
        self.bounds = step_bounds((), step)
        axes = tuple(a for a in kernel.axes if a.extent != 1)
        for axis in kernel.axes:
            if axis not in axes:
                self.lines(f"{axis.name} = 0")
        atomic = step.stores[0].mode == "add" and kernel.target.dtype.name in ATOMIC
        if atomic or not axes or step.stores[0].mode in ("set", "add") and not may_meet(kernel):
            return self.parallel(step, axes)
        return self.in_order(step, axes)

    def parallel(self, step: Step, axes: tuple[Axis, ...]) -> TritonKernel:
        dims = (Dim("x", axes, "XBLOCK"),) if axes else ()
        self.tile = Tile(dims)
        self.start(dims)
        self.emit(step.roots())
        self.put(step.stores[0], axes)
        return self.written(dims, {"XBLOCK": 256} if axes else {})

    def in_order(self, step: Step, axes: tuple[Axis, ...]) -> TritonKernel:
        self.tile = Tile(())
        total = int_if_const(product(a.extent for a in axes))
        single = Dim("x", axes, "1")
        with self.lines.block(f"for {single.index if len(axes) == 1 else 'xindex'} in range(0, {self.text(total)}):"):
            self.tile.decode(self.lines, single, self.bounds)
            self.emit(step.roots())
            self.put(step.stores[0], ())
            self.lines("tl.debug_barrier()")
        return self.written((), {})

    def put(self, store: Store, axes: tuple[Axis, ...]) -> None:
        if store.mode == "set" or store.mode == "add" and store.buffer.dtype.name in ATOMIC and axes:
            return self.store(store, ())
        place = self.place(store.buffer, self.text(store.buffer.linear(store.index)))
        value = self.get(store.value).text
        table = TRUTHS if store.buffer.dtype.name == "bool" else COMBINED
        self.lines(f"there, new = tl.load({place}), {value}")
        self.lines(f"tl.store({place}, {table[store.mode]})")


def may_meet(kernel: ScatterKernel) -> bool:
    """Whether two points may write one place: an index that is read from memory may name it twice."""
    e = kernel.store.buffer.linear(kernel.store.index)
    names = e.free_names() if isinstance(e, Expr) else set()
    plain_axes = {a.name for a in kernel.axes if not (is_const(a.extent) and int(a.extent) == 1)}
    return not plain_axes <= names or any(name not in plain_axes and name.startswith("ind") for name in names)


def write_scatter(program: Any, kernel: ScatterKernel) -> list[TritonKernel]:
    made = ScatterWriter(program, kernel).write()
    filled = fill(kernel)
    return [*([write_loops(program, filled)] if filled else []), made]


def fill(kernel: ScatterKernel) -> LoopKernel | None:
    """A map that copies the initial value, or zeros, to the target."""
    target = kernel.target
    if kernel.init is not None and kernel.init == target:
        return None
    body = kernel.store.value.body
    axes = tuple(Axis(f"f{d}", n) for d, n in enumerate(target.sizes))
    index = tuple(a.var for a in axes)
    value = body.const(0, target.dtype) if kernel.init is None else body.load(kernel.init, index)
    used = tuple(a for a in axes if a.extent != 1)
    index = tuple(a.var if a in used else 0 for a in axes)
    value = body.const(0, target.dtype) if kernel.init is None else body.load(kernel.init, index)
    return LoopKernel(kernel.name + "_start", used, (Step((), (Store(target, index, value),)),), origins=kernel.origins)
