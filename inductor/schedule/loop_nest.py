"""Nests: what the scheduler fuses, and the names, places and buffers that its parts share.

In: kernels of an unscheduled program. Out: `LoopNest`s. The idea: a kernel is a space of outer points and a list of items (one
store or one reduction, each over its own inner axes), so fusing two kernels is joining two lists over one space.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any

from ...capture.shapes.value_ranges import Bounds, simplify
from ...capture.shapes.expr import Expr, ExprLike, int_if_const, product
from ...runtime.dataclass import data
from ...runtime.errors import InternalError
from ..loops.body import Body, Buffer, Rewriter, Value, reachable
from ..loops.ir import (
    Axis,
    GemmKernel,
    Kernel,
    LoopKernel,
    Origin,
    Program,
    Reduce,
    Store,
    outer_axes,
    row_major,
    step_bounds,
    steps,
)
from ..loops.lower import hint


@data(eq=False)
class Item:
    """One store or one reduction over inner axes, at every outer point."""

    axes: tuple[Axis, ...]
    store: Store | None = None
    reduce: Reduce | None = None

    @property
    def written(self) -> Store:
        """The store, of an item that is none but this."""
        if self.store is None:
            raise InternalError(f"a reduction over ({extents_text(self.axes)}) was taken for a store")
        return self.store

    @property
    def reduction(self) -> Reduce:
        if self.reduce is None:
            raise InternalError(f"a store over ({extents_text(self.axes)}) was taken for a reduction")
        return self.reduce

    def roots(self) -> tuple[Value, ...]:
        if self.reduce is not None:
            return self.reduce.values
        store = self.written
        return (store.value, *store.value.body.indirect_args(store.index))


@data(eq=False)
class LoopNest:
    """A kernel while it is being fused. `head`: the template whose epilogue the items are, or a kernel that stays as it is.

    `flexible`: all items are stores at the outer points alone (a map), so that trailing outer axes may become inner ones.
    `ids`: the original kernels inside, as bits; `before`: all kernels that must run earlier.
    """

    outer: tuple[Axis, ...]
    items: list[Item]
    ids: int
    head: Kernel | None = None
    name: str = ""
    before: int = 0
    origins: tuple[Origin, ...] = ()
    notes: list[str] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)
    loads_cache: dict | None = None

    @property
    def flexible(self) -> bool:
        return not any(item.axes or item.reduce for item in self.items)

    @property
    def open(self) -> bool:
        return self.head is None or isinstance(self.head, GemmKernel)

    @property
    def inner(self) -> tuple[Axis, ...]:
        """The axes of the largest inner space."""
        return max((item.axes for item in self.items), key=len, default=())

    def values(self) -> list[Value]:
        return reachable(v for item in self.items for v in item.roots())

    def loads(self) -> dict[str, list[Value]]:
        """Load values by buffer name."""
        if self.loads_cache is None:
            self.loads_cache = {}
            for v in self.values():
                if v.op == "load":
                    self.loads_cache.setdefault(v.attrs.buffer.name, []).append(v)
        return self.loads_cache

    def stores(self) -> dict[str, Item]:
        return {item.store.buffer.name: item for item in self.items if item.store is not None}


def nest_of(kernel: Kernel, bit: int) -> LoopNest:
    outer: tuple[Axis, ...] = ()
    items: list[Item] = []
    head: Kernel | None = kernel
    if isinstance(kernel, LoopKernel) and not any(step.looks for step in kernel.steps):
        outer, head = kernel.outer, None
        items += [Item(step.axes, reduce=r) for step in kernel.steps for r in step.reduces]
        items += [Item(step.axes, store=s) for step in kernel.steps for s in step.stores]
    elif isinstance(kernel, GemmKernel):
        outer = kernel.epilogue.axes
        items += [Item((), store=s) for s in kernel.epilogue.stores]
    return LoopNest(outer, items, bit, head, kernel.name, origins=kernel.origins, notes=list(kernel.notes))


@data
class Parallelism:
    """`points`: outer points that make a split unnecessary; `elements`: of a point, from which a reduction is split; `parts`: the
    most that a single axis is cut into; `columns`: neighbouring points that are one unit of work where columns are reduced;
    `beside`: whether one thread may walk over some rows in order, so that sums down the columns are made on the way;
    `lanes`: whether vectors are the lanes of one core, which are better off some elements apart than along an axis of two to four
    elements, and which compare what needs no look."""

    points: int = 64
    elements: int = 1 << 15
    parts: int = 64
    columns: int = 1
    beside: bool = False
    lanes: bool = False


PROCESSOR = Parallelism(beside=True, lanes=True)


class SchedulerContext:
    """What all parts of the scheduler share: the program's body, what keeps the target busy, what is known of axes, simplified
    places, new buffers, the nests, and who reads and writes what."""

    def __init__(self, program: Program, parallel: Parallelism = PROCESSOR):
        self.program, self.parallel = program, parallel
        self.nests: list[LoopNest] = []
        self.new_buffers: list[Buffer] = []
        self.outputs = {b.name for b in program.outputs if isinstance(b, Buffer)}
        self.readers: dict[str, list[LoopNest]] = {}
        self.writer: dict[str, LoopNest] = {}
        self.body = next((v.body for k in program.kernels for s in steps(k) for v in s.roots()), None) or Body()
        self.bounds = Bounds({})
        self.tidied: dict[Expr, ExprLike] = {}
        self.linears: dict[tuple, ExprLike] = {}
        for kernel in program.kernels:
            for step in steps(kernel):
                self.bounds.ranges.update(step_bounds(outer_axes(kernel), step).ranges)

    def tidy(self, e: ExprLike) -> ExprLike:
        if not isinstance(e, Expr):
            return e
        found = self.tidied.get(e)
        if found is None:
            found = self.tidied[e] = simplify(e, self.bounds)
        return found

    def linear(self, buffer: Buffer, index: tuple) -> ExprLike:
        """The element offset of a place, simplified."""
        key = (buffer.name, index)
        found = self.linears.get(key)
        if found is None:
            found = self.linears[key] = self.tidy(int_if_const(buffer.linear(index)))
        return found

    def axis(self, like: Axis, taken: set[str]) -> Axis:
        """An axis of the same extent with a name that is not taken."""
        name, k = like.name, 1
        while name in taken:
            name, k = f"{like.name}_{k}", k + 1
        return self.named(Axis(name, like.extent))

    def named(self, axis: Axis) -> Axis:
        self.bounds.ranges.setdefault(axis.name, (0, axis.extent - 1))
        return axis

    def temp(self, name: str, dtype: Any, sizes: tuple) -> Buffer:
        taken = {b.name for b in (*self.program.buffers, *self.new_buffers)}
        while name in taken:
            name += "_"
        made = Buffer(name, dtype, tuple(sizes), row_major(sizes), 0, "temp", name)
        self.new_buffers.append(made)
        return made

    def private(self, nest: LoopNest, name: str) -> bool:
        """Whether nothing outside of the nest needs this buffer."""
        return name not in self.outputs and all(r.ids & nest.ids for r in self.readers.get(name, ()))


# -- questions


def extents_text(axes: Iterable[Axis]) -> str:
    return ", ".join(str(a.extent) for a in axes)


def rewrite_item(item: Item, axes: tuple, rewrite: Rewriter | None) -> Item:
    if rewrite is None:
        return replace(item, axes=axes)
    if item.reduce is not None:
        return Item(axes, reduce=replace(item.reduce, values=tuple(map(rewrite, item.reduce.values))))
    store = item.written
    for v in store.value.body.indirect_args(store.index):
        rewrite(v)
    value = rewrite(store.value)
    return Item(axes, store=replace(store, index=tuple(rewrite.expr(e) for e in store.index), value=value))


def covers(item: Item, index: tuple, outer: set[str]) -> bool:
    """Whether the place that `index` reads was written earlier at the same outer point: dimensions that the store indexes by
    outer axes are read at the same index, the others are written whole by its inner axes."""
    inner: dict[ExprLike, Axis] = {a.var: a for a in item.axes}
    for stored, read, size in zip(item.written.index, index, item.written.buffer.sizes):
        axis = inner.get(stored) if isinstance(stored, Expr) else None
        if axis is not None:
            if int_if_const(axis.extent) != int_if_const(size):
                return False
            inner.pop(stored)
        elif stored != read or isinstance(stored, Expr) and not stored.free_names() <= outer:
            return False
    return bool(item.axes) and not inner


def non_unit_axes(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    return tuple(a for a in axes if not (isinstance(a.extent, int) and a.extent == 1))


def is_rows(nest: LoopNest) -> bool:
    """Whether the inner space follows the outer one in the order of the axes' places (rows, not columns)."""
    return [axis_position(x) for x in (*nest.outer, *nest.inner)] == sorted(axis_position(x) for x in (*nest.outer, *nest.inner))


def axis_position(axis: Axis) -> int:
    return int(axis.name[1:].split("_", 1)[0])


def is_full_reduction(nest: LoopNest) -> bool:
    """A reduction of everything: a map after it would run on one core."""
    return not non_unit_axes(nest.outer) and hint(product(a.extent for a in nest.inner)) >= 4096
