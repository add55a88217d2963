"""Row scratch: what one step of a nest leaves for a later one at the same outer point.

In: the items of a nest, by step. Out: the same, with local buffers for temps that only this nest reads, and for dear values
that a later step would compute again. A scratch holds one row; it never leaves the kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...capture.shapes.expr import Expr, product
from ..loops.body import Buffer, Rewriter, Value, reachable
from ..loops.ir import Store
from ..loops.lower import DEAR_WORK, WORK
from ..loops.lower import hint
from .loop_nest import SchedulerContext, Item, LoopNest, rewrite_item, row_major

MAX_SCRATCH = 1 << 16  # elements of a row scratch
REREAD_LOADS = 3  # loads that a scratch must save


def copied_rows(context: SchedulerContext, nest: LoopNest) -> LoopNest:
    """What the nest stores for others and reads back at another place of the row, it reads from a copy of the row."""
    stores, loads = nest.stores(), nest.loads()
    copies = {
        name: Buffer(f"{name}_copy", b.dtype, b.sizes, b.strides, b.offset, "temp", b.origin)
        for name, item in stores.items()
        if name in loads
        for b in [item.written.buffer]
        if not context.private(nest, name)
    }
    if not copies:
        return nest

    def leaf(value: Value) -> Value | None:
        load = value.attrs
        if value.op != "load" or load.buffer.name not in copies:
            return None
        return context.body.load(copies[load.buffer.name], load.index, value.args[0] if load.masked else None, load.other)

    rewrite = Rewriter(context.body, {}, leaf)
    items = [rewrite_item(item, item.axes, rewrite) for item in nest.items]
    items += [
        Item(i.axes, store=replace(i.store, buffer=copies[i.store.buffer.name]))
        for i in items
        if i.store is not None and i.store.buffer.name in copies
    ]
    return replace(nest, items=items, loads_cache=None)


def own_rows(context: SchedulerContext, nest: LoopNest) -> dict[str, tuple[Buffer, tuple[int, ...]]]:
    """Temps that only this nest reads, and not at the point where they are stored: name -> (row scratch, dimensions kept)."""
    rows = {}
    for item in nest.items:
        if item.store is not None and item.axes:
            name = item.store.buffer.name
            if context.private(nest, name):
                inner = {a.name for a in item.axes}
                kept = tuple(d for d, e in enumerate(item.store.index) if isinstance(e, Expr) and e.free_names() & inner)
                sizes = tuple(item.store.buffer.sizes[d] for d in kept)
                rows[name] = (row_buffer(name, item.store.buffer.dtype, sizes), kept)
    return rows


def row_buffer(name: str, dtype: Any, sizes: tuple) -> Buffer:
    return Buffer("row_" + name, dtype, sizes, row_major(sizes), 0, "local", name)


def share_rows(context: SchedulerContext, steps: list, rows: dict) -> list:
    """Values that a later step would compute again at a high price are kept from the first step that has them."""
    steps = [(axes, list(items)) for axes, items in steps]
    kept: dict[int, Value] = {}
    for late, (axes, items) in enumerate(steps):
        if not axes or hint(product(a.extent for a in axes)) > MAX_SCRATCH:
            continue
        for early_axes, early_items in steps[:late]:
            if set(early_axes) == set(axes):
                stored = {i.store.value.id for i in early_items if i.store is not None}
                for value in recomputed_values(early_items, items, axes, stored):
                    if value.id not in kept:
                        kept[value.id] = store_in_row_scratch(context, value, axes, early_items, rows)
        if kept:
            rewrite = Rewriter(context.body, {})
            made_here = {i.store.value.id for i in items if i.store is not None and i.store.buffer.kind == "local"}
            rewrite.done.update({ident: load for ident, load in kept.items() if ident not in made_here})
            items[:] = [rewrite_item(item, item.axes, rewrite) for item in items]
    return steps


def recomputed_values(early: list[Item], late: list[Item], axes: tuple, stored: set[int]) -> list[Value]:
    """The largest values of both lists that are dear and differ along the row; what is stored anyway is dear sooner."""
    first = {v.id for v in reachable(v for item in early for v in item.roots())}
    last = reachable(v for item in late for v in item.roots())
    roots = {v.id for item in late for v in item.roots()}
    used_alone = {a.id for u in last if u.id not in first for a in u.args} | roots
    inside = {a.name for a in axes}
    return [
        v
        for v in last
        if v.id in first
        and v.id in used_alone
        and v.op not in LEAVES
        and is_expensive(v, inside, REREAD_LOADS - (v.id in stored))
    ]


LEAVES = ("load", "const", "index", "scalar", "acc", "indirect", "cast")


def is_expensive(value: Value, inside: set[str], many: int) -> bool:
    """Whether computing a value again costs more than keeping it; what does not vary along the row costs nothing."""
    work, loads, varies = 0.0, 0, set()
    for v in reachable((value,)):
        exprs = v.attrs.index if v.op == "load" else (v.attrs,) if v.op == "index" else ()
        names = {n for e in exprs if isinstance(e, Expr) for n in e.free_names()}
        if names & inside or any(a.id in varies for a in v.args):
            varies.add(v.id)
            work += WORK.get(v.op, 1)
            loads += v.op == "load"
    return value.id in varies and (work >= DEAR_WORK or loads >= many)


def store_in_row_scratch(context: SchedulerContext, value: Value, axes: tuple, early: list[Item], rows: dict) -> Value:
    """Store a value where it is first computed (unless it is stored there anyway); the load that reads it back."""
    for item in early:
        if item.store is not None and item.store.value is value and item.store.buffer.name not in rows:
            return context.body.load(item.store.buffer, item.store.index)
    buffer = row_buffer(f"{value.op}_{value.id}", value.dtype, tuple(a.extent for a in axes))
    rows[buffer.name] = (buffer, tuple(range(len(axes))))
    index = tuple(a.var for a in axes)
    early.append(Item(axes, store=Store(buffer, index, value)))
    return context.body.load(buffer, index)
