"""Loop kernels: maps over blocks of points, and rows with their reductions.

In: a `LoopKernel`. Out: `TritonKernel`. Strategy: a map is tiled in one dimension, or in two where an access runs along another
axis than the last. In a kernel of steps the outer points are one dimension of the tile and a step's axes the other: a
short row is one block and stays in registers from step to step, a long one is walked in blocks, once a step.
"""

from __future__ import annotations

from collections import ChainMap
from typing import Any

from ...capture.shapes.expr import Expr, ExprLike, int_if_const, product
from ..loops.body import Buffer, Value, reachable, strides_of
from ..loops.ir import Axis, LoopKernel, Reduce, Step, Store, step_bounds
from . import configs
from .reductions import BlockReduction
from .triton_text import expression
from .tiles import Dim, BlockValue, Tile
from .block_values import NOTHING, Argument, KernelWriter, TritonKernel

PERSISTENT, PERSISTENT_COLUMNS = 4096, 128  # longest rows that are one block
XBLOCK, SQUARE = 1024, 32
LANES = 256  # elements of a block for each warp, about


def write_loops(program: Any, kernel: LoopKernel) -> TritonKernel:
    step = kernel.steps[0]
    if len(kernel.steps) > 1 or step.reduces or kernel.locals:
        return RowWriter(program, kernel).write()
    return MapWriter(program, kernel).write()


def power_of_two(n: int) -> int:
    """The least power of two from `n` on."""
    return 1 << max(0, n - 1).bit_length()


def warps(elements: int) -> int:
    return max(1, min(8, power_of_two(elements // LANES)))


class LoopWriter(KernelWriter):
    """What maps and rows share."""

    def written(self, dims: tuple[Dim, ...], blocks: dict[str, int]) -> TritonKernel:
        points = [d.extent for d in dims]
        for e in points:
            self.sizes(e)
        grid = ", ".join(f"cdiv({expression(d.extent, host=True)}, b['{d.block}'])" for d in reversed(dims))
        tile = 1
        for size in blocks.values():
            tile *= size
        return TritonKernel(
            self.kernel,
            self.kernel.name,
            self.lines.lines,
            self.arguments,
            f"({grid or '1'},)",
            {**blocks, "num_warps": warps(tile)},
            points,
            self.fallible,
        )

    def roots(self, step: Step) -> list[Value]:
        """What a step must have printed."""
        return [self.stored(s) for s in step.stores] + [v for r in step.reduces for v in r.values] + step.index_values()

    def start(self, dims: tuple[Dim, ...]) -> None:
        """Number the points of the block's dimensions that programs share out."""
        for axis, dim in enumerate(reversed(dims)):
            self.sizes(dim.extent)
            self.tile.number(self.lines, dim, f"tl.program_id({axis}).to(INDEX) * {dim.block}", self.bounds)


class MapWriter(LoopWriter):
    """One value a point."""

    def write(self) -> TritonKernel:
        step = self.kernel.steps[0]
        axes = tuple(a for a in (*self.kernel.outer, *step.axes))
        self.bounds = step_bounds(self.kernel.outer, step)
        dims = tuple(self.dimensions(step, axes))
        self.tile = Tile(dims)
        self.start(dims)
        self.emit(self.roots(step))
        for store in step.stores:
            self.store(store, axes)
        made = self.written(dims, self.blocks(dims))
        made.choices = configs.maps(made.blocks)
        return made

    def dimensions(self, step: Step, axes: tuple[Axis, ...]) -> list[Dim]:
        if not axes:
            return []
        row = crossing(step, axes)
        if row is None:
            return [Dim("x", axes, "XBLOCK")]
        others = tuple(a for a in axes[:-1] if a is not row)
        return [*([Dim("z", others, "ZBLOCK")] if others else []), Dim("y", (row,), "YBLOCK"), Dim("x", axes[-1:], "XBLOCK")]

    def blocks(self, dims: tuple[Dim, ...]) -> dict[str, int]:
        if len(dims) == 1:
            n = dims[0].extent
            return {"XBLOCK": max(32, min(XBLOCK, power_of_two(n // 128))) if isinstance(n, int) else XBLOCK}
        return {d.block: 1 if d.letter == "z" else SQUARE for d in dims}


def crossing(step: Step, axes: tuple[Axis, ...]) -> Axis | None:
    """The axis along which some access is contiguous where the last axis is not it: blocks are squares over both."""
    last, found = axes[-1], None
    if isinstance(last.extent, int) and last.extent < 16:
        return None
    places = [v.attrs.buffer.linear(v.attrs.index) for v in step.values() if v.op == "load"]
    for e in [*places, *(s.buffer.linear(s.index) for s in step.stores)]:
        if isinstance(e, Expr):
            factors, tangled = strides_of(e)
            if not tangled and factors.get(last.name, 0) not in (0, 1):
                found = found or next((a for a in axes[:-1] if factors.get(a.name) == 1 and a.extent != 1), None)
    return found if found is None or not isinstance(found.extent, int) or found.extent >= 16 else None


class RowWriter(LoopWriter):
    """Steps with reductions, or with rows that one step leaves for the next."""

    def write(self) -> TritonKernel:
        kernel = self.kernel
        self.outer = Dim("x", kernel.outer, "XBLOCK") if kernel.outer else None
        dims = (self.outer,) if self.outer else ()
        self.common: dict[int, BlockValue] = {}  # values that do not depend on a step's axes
        self.rows: dict[tuple, dict[int, BlockValue]] = {}  # values over a row that is one block, by the step's axes
        self.kept: dict[tuple, BlockValue] = {}  # what was stored, by (buffer, place, axes)
        self.dirty: set[str] = set()  # buffers written since the last barrier
        self.elements: dict[str, ExprLike] = {}  # of local rows that lie in memory
        self.blocks: dict[str, int] = {}
        self.plan()
        self.number = 0  # of the step at hand
        self.numbered: tuple = ()  # the axes whose positions the lines so far have last numbered
        self.tile = self.tile_of(None)
        self.made = ChainMap(self.common)
        self.bounds = step_bounds(kernel.outer, Step(()))
        self.start(dims)
        for number, step in enumerate(kernel.steps):
            self.number = number
            self.step(step)
        if self.outer:
            self.blocks = {"XBLOCK": self.outer_block(), **self.blocks}
        made = self.written(dims, self.blocks)
        made.rows = self.elements
        walked = [name for name, axes in self.named.items() if axes not in self.whole]
        made.choices = configs.rows(made.blocks, walked)
        return made

    def tile_of(self, inner: Dim | None) -> Tile:
        """Rows stand along the first dimension, whether or not a step has a second."""
        outer = (self.outer,) if self.outer else ()
        return Tile((*outer, inner or Dim("r", (), "1", False)), self.tile.where)

    # -- choices

    def plan(self) -> None:
        """Which rows are one block, and which local rows need memory."""
        limit = PERSISTENT_COLUMNS if self.kernel.vector == "outer" else PERSISTENT
        self.whole = {step.axes for step in self.kernel.steps if self.is_short(step.axes, limit)}
        self.memory = {b for b in self.kernel.locals if not self.stays(b)}

    def is_short(self, axes: tuple[Axis, ...], limit: int) -> bool:
        n = int_if_const(product(a.extent for a in axes))
        return isinstance(n, int) and n <= limit

    def stays(self, buffer: Buffer) -> bool:
        """Whether a local row can be kept in registers: one block, read where it was stored."""
        places = {(s.index, step.axes) for step in self.kernel.steps for s in step.stores if s.buffer == buffer}
        read = {
            (v.attrs.index, step.axes, v.attrs.masked)
            for step in self.kernel.steps
            for v in step.values()
            if v.op == "load" and v.attrs.buffer == buffer
        }
        whole = all(axes in self.whole for _, axes in places)
        return whole and len(places) == 1 and read <= {(*place, False) for place in places}

    def outer_block(self) -> int:
        widest = max(self.blocks.values(), default=1)
        if self.kernel.vector == "outer":
            return 32
        return 1 if widest >= 1024 else max(1, min(1024 // widest, 8)) if len(self.kernel.steps) > 1 or self.blocks else 128

    # -- steps

    def step(self, step: Step) -> None:
        self.bounds = step_bounds(self.kernel.outer, step)
        self.barrier(step)
        if not step.axes:
            return self.single(step)
        inner = Dim("r", step.axes, self.block(step.axes))
        self.sizes(inner.extent)
        self.tile = self.tile_of(inner)
        if step.axes in self.whole:
            self.at_once(step, inner)
        else:
            self.looped(step, inner)

    def block(self, axes: tuple[Axis, ...]) -> str:
        """The name of the block size of these axes."""
        n = int_if_const(product(a.extent for a in axes))
        size = power_of_two(int(n)) if axes in self.whole else 1024 if self.kernel.vector == "inner" else 32
        count = 1
        while (name := f"RBLOCK{count}" if count > 1 else "RBLOCK") in self.blocks and self.named.get(name) != axes:
            count += 1
        self.named[name] = axes
        self.blocks[name] = size
        return name

    @property
    def named(self) -> dict:
        return self.__dict__.setdefault("_named", {})

    def barrier(self, step: Step) -> None:
        """What an earlier step wrote to memory must be there for all threads."""
        read = {v.attrs.buffer.name for v in step.values() if v.op == "load"}
        if read & self.dirty:
            self.lines("tl.debug_barrier()")
            self.dirty.clear()

    def single(self, step: Step) -> None:
        """A step without axes: one value a row."""
        self.tile = self.tile_of(None)
        self.made = ChainMap(self.common)
        self.emit(self.roots(step))
        for reduce in step.reduces:
            self.alone(reduce)
        self.stores(step)

    def alone(self, reduce: Reduce) -> None:
        """A reduction of one element."""
        given = [self.get(v) for v in reduce.values]
        if reduce.combine == "welford":
            given += [BlockValue("0.0", NOTHING), BlockValue("1.0", NOTHING)]
        self.accs |= dict(zip(reduce.names, given))

    def at_once(self, step: Step, inner: Dim) -> None:
        n = int(inner.extent)
        inner.masked = n != power_of_two(n)
        if self.numbered != step.axes:
            self.tile.number(self.lines, inner, "", self.bounds)
            self.numbered = step.axes
        self.made = ChainMap(self.common)
        self.emit(self.roots(step), only=self.outer_letters())
        self.made = ChainMap(self.rows.setdefault(step.axes, {}), self.common)
        self.emit(self.roots(step))
        for reduce in step.reduces:
            self.finish(reduce, self.folding(reduce).at_once(self.values_of(reduce), inner.mask if inner.masked else ""))
        self.stores(step)

    def looped(self, step: Step, inner: Dim) -> None:
        self.made = ChainMap(self.common)
        self.emit(self.roots(step), only=self.outer_letters())
        foldings = [(reduce, self.folding(reduce)) for reduce in step.reduces]
        accs = [folding.begin() for _, folding in foldings]
        self.made = ChainMap({}, self.common)
        self.numbered = ()
        with self.lines.block(f"for start in range(0, {self.text(inner.extent)}, {inner.block}):"):
            self.lines(f"{inner.index} = (start + tl.arange(0, {inner.block}){self.tile.spread(inner)}).to(INDEX)")
            self.tile.mask(self.lines, inner, self.bounds)
            self.tile.decode(self.lines, inner, self.bounds)
            self.emit(self.roots(step))
            for (reduce, folding), names in zip(foldings, accs):
                self.lines.extend(folding.step(names, self.values_of(reduce), inner.mask))
            self.stores(step)
        self.made = ChainMap(self.common)
        for (reduce, folding), names in zip(foldings, accs):
            self.finish(reduce, folding.end(names))

    def outer_letters(self) -> frozenset:
        return frozenset("x") if self.outer else NOTHING

    # -- reductions

    def folding(self, reduce: Reduce) -> BlockReduction:
        tail = "[:, None]" if self.outer else ""
        bind = lambda stem, text: self.bind(stem, text, NOTHING).text
        return BlockReduction(reduce.combine, reduce.dtypes[0], 1 if self.outer else 0, tail, self.tile.shape(), bind)

    def values_of(self, reduce: Reduce) -> list[str]:
        return [self.whole_block(v) for v in reduce.values]

    def whole_block(self, value: Value) -> str:
        return self.whole_text(self.get(value))

    def whole_text(self, made: BlockValue) -> str:
        return self.broadcast(made.text, made.dims, self.tile.letters)

    def finish(self, reduce: Reduce, names: list[str]) -> None:
        self.accs |= {name: BlockValue(text, self.outer_letters()) for name, text in zip(reduce.names, names)}

    # -- memory

    def stored(self, store: Store) -> Value:
        return store.value if self.reads_back(store.buffer) else super().stored(store)

    def stores(self, step: Step) -> None:
        axes = (*self.kernel.outer, *step.axes)
        values = [(store, self.get(self.stored(store))) for store in step.stores]
        for store, _ in values:
            local = store.buffer in self.kernel.locals
            if not local or store.buffer in self.memory:
                self.store(store, axes)
                self.dirty.add(store.buffer.name)
        for store, made in values:
            self.forget(store.buffer)
            if not step.axes or step.axes in self.whole:
                self.kept[store.buffer.name, store.index, step.axes] = made

    def forget(self, buffer: Buffer) -> None:
        """What has been loaded from a buffer is old now."""
        for key in [key for key in self.kept if key[0] == buffer.name]:
            del self.kept[key]
        stale = (
            {
                v.id
                for step in self.kernel.steps
                for v in step.values()
                if any(w.op == "load" and w.attrs.buffer == buffer for w in reachable((v,)))
            }
            if self.reads_back(buffer)
            else ()
        )
        for scope in (self.common, *self.rows.values()):
            for ident in [i for i in scope if i in stale]:
                del scope[ident]

    def reads_back(self, buffer: Buffer) -> bool:
        return any(v.op == "load" and v.attrs.buffer == buffer for step in self.kernel.steps for v in step.values())

    def load(self, value: Value) -> BlockValue:
        load = value.attrs
        step_axes = next((axes for axes, scope in self.rows.items() if self.made.maps[0] is scope), ())
        kept = None if load.masked else self.kept.get((load.buffer.name, load.index, step_axes))
        return kept if kept is not None else super().load(value)

    def pointer(self, buffer: Buffer) -> str:
        if buffer not in self.kernel.locals:
            return super().pointer(buffer)
        name = self.names(buffer.name, buffer.name)
        if name not in self.arguments:
            self.arguments[name] = Argument("scratch", buffer)
            points = product(a.extent for a in self.kernel.outer)
            self.elements[name] = int_if_const(points * buffer.extent())
        return name

    def policy(self, value: Value, dims: frozenset) -> str:
        """A walked row is kept for the step that walks it again, and let go by the last; what all rows read is kept."""
        step, buffer = self.kernel.steps[self.number], value.attrs.buffer
        if "r" not in dims or step.axes in self.whole or any(a.op == "indirect" for a in value.args):
            return ""
        again = any(
            v.op == "load" and v.attrs.buffer == buffer for later in self.kernel.steps[self.number + 1 :] for v in later.values()
        )
        return "evict_last" if again or self.outer and "x" not in dims else "evict_first"

    def always(self, buffer: Buffer) -> frozenset:
        return self.outer_letters() if buffer in self.kernel.locals else NOTHING

    def place(self, buffer: Buffer, offset: str) -> str:
        if buffer not in self.kernel.locals:
            return super().place(buffer, offset)
        row = self.outer.index if self.outer else "0"
        return f"{self.pointer(buffer)} + ({row} * {self.text(buffer.extent())} + {offset})"

    def store(self, store: Store, axes: tuple[Axis, ...]) -> None:
        """A local row is one a point."""
        if store.buffer in self.kernel.locals:
            return self.store_row(store, axes)
        super().store(store, axes)

    def store_row(self, store: Store, axes: tuple[Axis, ...]) -> None:
        whole, letters = self.tile.letters, self.dims_of(store.index[0])
        offset = self.broadcast(self.text(store.index[0]), letters, letters)
        masks = self.tile.masks(whole)
        mask = f", {' & '.join(masks)}" if masks else ""
        self.lines(f"tl.store({self.place(store.buffer, offset)}, {self.whole_text(self.get(store.value))}{mask})")
