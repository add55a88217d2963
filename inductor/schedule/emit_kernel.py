"""From nests to kernels: steps, loop order, merged axes, flat addresses.

In: a fused nest. Out: a `LoopKernel` or `GemmKernel`. The idea: an item runs in the first step after the accumulators and rows
that it reads; axes that every array walks through in one stride become one; every index becomes an element offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...capture.shapes.expr import Expr, ExprLike, int_if_const, product
from ..loops.body import Buffer, Rewriter, Value, reachable, strides_of
from .split_axes import split_into_digits, mergeable, wide_last, unroll_narrow_axis
from ..loops.ir import Axis, GemmKernel, LoopKernel, Step, Store
from ..loops.lower import hint
from .loop_nest import SchedulerContext, Item, LoopNest, non_unit_axes
from .row_scratch import copied_rows, own_rows, share_rows


def finish_loops(context: SchedulerContext, nest: LoopNest) -> LoopKernel:
    """Levels, scratch, loop order, collapsed axes, flat addresses."""
    if nest.flexible:
        nest, axes = split_into_digits(context, nest, map_order(context, nest), list(index_forms(context, nest.items, {})))
        axes = wide_last(context, nest, axes)
        if context.parallel.lanes:
            nest, axes = unroll_narrow_axis(context, nest, axes, list(index_forms(context, nest.items, {})))
        return emit_map(context, nest, axes)
    nest = contiguous_inner(context, copied_rows(context, replace(nest, outer=non_unit_axes(nest.outer))))
    groups: dict[tuple, list[Item]] = {}
    for item, level in sorted(zip(nest.items, levels_of(nest)), key=lambda pair: (pair[1], len(pair[0].axes))):
        groups.setdefault((level, item.axes), []).append(item)
    steps = [(axes, items) for (_, axes), items in groups.items()]
    rows = own_rows(context, nest)
    steps = share_rows(context, steps, rows)
    if is_columns(context, nest):
        return emit(context, replace(nest, outer=unit_last(context, nest)), steps, rows, "outer")
    return emit(context, nest, steps, rows, "inner")


def levels_of(nest: LoopNest) -> list[int]:
    """The pass over the row in which each item can run: after the accumulators and stored rows that it reads."""
    wrote = {item.store.buffer.name: i for i, item in enumerate(nest.items) if item.store is not None}
    owner = {name: i for i, item in enumerate(nest.items) if item.reduce for name in item.reduce.names}
    found: dict[int, int] = {}

    def level(i: int) -> int:
        if i not in found:
            found[i] = max((level(j) + 1 for j in needed(nest.items[i], i)), default=0)
        return found[i]

    def needed(item: Item, i: int) -> Iterator[int]:
        for v in reachable(item.roots()):
            if v.op == "acc":
                yield owner[v.attrs]
            elif v.op == "load" and wrote.get(v.attrs.buffer.name, i) != i:
                yield wrote[v.attrs.buffer.name]

    return [level(i) for i in range(len(nest.items))]


# -- loop order


def stride(linear: ExprLike, axis: Axis) -> int:
    """The stride along an axis as a number; a large one where it is no plain stride."""
    if not isinstance(linear, Expr):
        return 0
    factors, tangled = strides_of(linear)
    return 1 << 40 if axis.name in tangled else abs(hint(factors.get(axis.name, 0)))


def element_offsets(context: SchedulerContext, items: Iterable[Item]) -> Iterator[ExprLike]:
    """The element offsets of all loads and stores."""
    for item in items:
        if item.store is not None:
            yield context.linear(item.store.buffer, item.store.index)
        for v in reachable(item.roots()):
            if v.op == "load":
                yield context.linear(v.attrs.buffer, v.attrs.index)


def map_order(context: SchedulerContext, nest: LoopNest) -> tuple[Axis, ...]:
    """The axes of a map by falling stride of what it writes."""
    store = nest.items[0].written
    written = context.linear(store.buffer, store.index)
    return tuple(sorted(non_unit_axes(nest.outer), key=lambda a: -stride(written, a)))


def contiguous_inner(context: SchedulerContext, nest: LoopNest) -> LoopNest:
    """Inner axes by falling stride, where the order as it stands has no contiguous innermost axis."""
    items = []
    order: dict[tuple, tuple] = {}
    for item in nest.items:
        if len(item.axes) > 1 and item.axes not in order:
            found = list(element_offsets(context, [i for i in nest.items if i.axes == item.axes]))
            weight = {a.name: sum(stride(e, a) for e in found) for a in item.axes}
            units = {a.name: sum(stride(e, a) == 1 for e in found) for a in item.axes}
            best = max(item.axes, key=lambda a: units[a.name])
            if units[item.axes[-1].name] < units[best.name]:
                order[item.axes] = tuple(sorted(item.axes, key=lambda a: -weight[a.name]))
        items.append(replace(item, axes=order.get(item.axes, item.axes)))
    return replace(nest, items=items, loads_cache=None)


def is_columns(context: SchedulerContext, nest: LoopNest) -> bool:
    """Whether the reductions run down columns: of the loads that move with both, most are contiguous along an outer axis, not
    along the inner one. The others are one element in one of the two ways, which costs nothing."""
    across = along = 0
    for item in nest.items:
        if item.axes and nest.outer:
            for e in element_offsets(context, [item]):
                inner, outer = stride(e, item.axes[-1]), [stride(e, a) for a in nest.outer]
                along += inner == 1 and any(s != 0 for s in outer)
                across += inner != 0 and 1 in outer
    return across > along


def unit_last(context: SchedulerContext, nest: LoopNest) -> tuple[Axis, ...]:
    """The outer axes with the one along which most loads are contiguous last."""
    found = list(element_offsets(context, nest.items))
    best = max(nest.outer, key=lambda a: (sum(stride(e, a) == 1 for e in found), nest.outer.index(a)))
    return (*(a for a in nest.outer if a is not best), best)


# -- flat addresses


class IndexFlattener(Rewriter):
    """Renames and merges axes, and turns every index into an element offset."""

    def __init__(self, context: SchedulerContext, mapping: dict, rows: dict):
        super().__init__(context.body, mapping)
        self.context, self.rows = context, rows

    def offset(self, buffer: Buffer, index: tuple) -> ExprLike:
        return self.expr(self.context.linear(*self.local(buffer, index)))

    def local(self, buffer: Buffer, index: tuple) -> tuple[Buffer, tuple]:
        row = self.rows.get(buffer.name)
        return (row[0], tuple(index[k] for k in row[1])) if row else (buffer, index)

    def rebuild_load(self, value: Value, args: tuple) -> Value:
        load = value.attrs
        buffer, index = self.local(load.buffer, load.index)
        offset = self.expr(self.context.linear(buffer, index))
        return self.body.load(buffer.flat, (offset,), args[0] if load.masked else None, load.other)

    def store(self, store: Store) -> Store:
        for v in self.body.indirect_args(store.index):
            self(v)
        buffer, index = self.local(store.buffer, store.index)
        return Store(buffer.flat, (self.expr(self.context.linear(buffer, index)),), self(store.value), store.mode)

    def step(self, axes: tuple, items: list[Item]) -> Step:
        stores = tuple(self.store(i.store) for i in items if i.store is not None)
        reduces = tuple(replace(i.reduce, values=tuple(map(self, i.reduce.values))) for i in items if i.reduce is not None)
        return Step(axes, stores, reduces)


def emit(context: SchedulerContext, nest: LoopNest, steps: list, rows: dict, vector: str) -> LoopKernel:
    """Collapse what is contiguous in every array, name axes i (outer) and j (inner), address memory by element offsets."""
    found = [list(index_forms(context, items, rows)) for _, items in steps]
    outer, mapping = collapse_axes(nest.outer, [e for forms in found for e in forms], "i")
    made = []
    for (axes, items), forms in zip(steps, found):
        inner, more = collapse_axes(axes, forms, "j")
        made.append(IndexFlattener(context, mapping | more, rows).step(inner, items))
    used = {b for step in made for b in local_buffers(step)}
    local = tuple(row.flat for row, _ in rows.values() if row in used)
    return LoopKernel(nest.name, outer, tuple(made), local, vector, unique(nest.origins), tuple(nest.notes))


def emit_map(context: SchedulerContext, nest: LoopNest, axes: tuple[Axis, ...]) -> LoopKernel:
    """A map: what is contiguous everywhere is one axis, and the last axis is the inner loop."""
    merged, mapping = collapse_axes(axes, list(index_forms(context, nest.items, {})), "i")
    inner = tuple(Axis("j0", a.extent) for a in merged[-1:])
    mapping = {name: inner[0].var if isinstance(e, Expr) and e == merged[-1].var else e for name, e in mapping.items()}
    step = IndexFlattener(context, mapping, {}).step(inner, nest.items)
    return LoopKernel(nest.name, merged[:-1], (step,), (), "inner", unique(nest.origins), tuple(nest.notes))


def local_buffers(step: Step) -> Iterator[Buffer]:
    yield from (s.buffer for s in step.stores)
    yield from (v.attrs.buffer for v in step.values() if v.op == "load")


def unique(origins: tuple) -> tuple:
    return tuple(dict.fromkeys(origins))


def index_forms(context: SchedulerContext, items: list[Item], rows: dict) -> Iterator[ExprLike]:
    """Every expression over axes in some items."""
    flatten = IndexFlattener(context, {}, rows)
    for item in items:
        if item.store is not None:
            yield context.linear(*flatten.local(item.store.buffer, item.store.index))
        for v in reachable(item.roots()):
            if v.op == "load":
                yield context.linear(*flatten.local(v.attrs.buffer, v.attrs.index))
            elif v.op == "index":
                yield v.attrs


def collapse_axes(axes: tuple[Axis, ...], forms: list[ExprLike], letter: str) -> tuple[tuple[Axis, ...], dict]:
    """The axes with neighbours merged where every form allows it, and the substitution."""
    groups: list[list[Axis]] = []
    exprs = list({e: None for e in forms if isinstance(e, Expr)})
    for axis in axes:
        if groups and mergeable(groups[-1], axis, exprs):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    made, mapping = [], {}
    for k, group in enumerate(groups):
        new = Axis(f"{letter}{k}", int_if_const(product(a.extent for a in group)))
        made.append(new)
        mapping |= {a.name: 0 for a in group[:-1]} | {group[-1].name: new.var}
    return tuple(made), mapping


def finish_gemm(context: SchedulerContext, nest: LoopNest, kernel: GemmKernel) -> GemmKernel:
    """Batch axes merge into the rows where the second operand does not vary along them and memory continues."""
    *batch, m, n = kernel.epilogue.axes
    a, b = kernel.a.strides, kernel.b.strides
    forms = [e for e in index_forms(context, nest.items, {}) if isinstance(e, Expr)]
    rows = [(m, a[-2])]
    while (
        kernel.call is None
        and batch
        and int_if_const(b[len(batch) - 1]) == 0
        and rows_continue(batch[-1], a[len(batch) - 1], rows, forms)
    ):
        rows = [(batch[-1], a[len(batch) - 1]), *(row for row in rows if not is_one(row[0].extent))]
        batch.pop()
    new_batch = tuple(Axis(f"b{k}", axis.extent) for k, axis in enumerate(batch))
    new_m = Axis("m", int_if_const(product(axis.extent for axis, _ in rows)))
    new_n, new_k = Axis("n", n.extent), Axis("k", kernel.k.extent)
    mapping = {old.name: new.var for old, new in zip(batch, new_batch)} | {axis.name: 0 for axis, _ in rows[:-1]}
    mapping |= {rows[-1][0].name: new_m.var, n.name: new_n.var}
    step = IndexFlattener(context, mapping, {}).step((*new_batch, new_m, new_n), nest.items)
    return replace(
        kernel,
        batch=new_batch,
        m=new_m,
        n=new_n,
        k=new_k,
        epilogue=step,
        a=replace(kernel.a, strides=(*a[: len(batch)], rows[-1][1], a[-1])),
        b=replace(kernel.b, strides=(*b[: len(batch)], *b[-2:])),
        origins=unique(nest.origins),
        notes=tuple(nest.notes),
    )


def rows_continue(axis: Axis, stride_: ExprLike, rows: list, forms: list) -> bool:
    """Whether one more batch axis can be counted by the rows: memory of the first operand and of all arrays continues."""
    first, inner = rows[0]
    return is_one(first.extent) or int_if_const(stride_) == int_if_const(inner * first.extent) and mergeable([axis], first, forms)


def is_one(n: ExprLike) -> bool:
    return isinstance(n, int) and n == 1
