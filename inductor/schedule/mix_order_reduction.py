"""Column sums beside row reductions: an array that is read along its rows anyway is not read a second time for them.

In: fused nests, some along the rows of a large array and some down its columns. Out: the same, where sums down the columns
are begun by the rows' nest: its rows are dealt out in runs, each run adds its rows to a row of partial sums (which stays in
the first-level cache), and the columns' nest adds up the runs. What waits for these sums stays where it was.
"""

from __future__ import annotations

from dataclasses import replace

from ...capture.shapes.expr import int_if_const, product
from ..loops.body import Rewriter, Value, reachable
from ..loops.ir import Axis, Store
from .loop_nest import SchedulerContext, Item, LoopNest, is_rows, extents_text
from .iteration_space import AxisMapping, map_axes

SHORT, RUNS = 16, 64  # fewest rows of a run; runs that are enough
NARROW, WIDE = 64, 4096  # fewest columns, and most: a row of sums and a row of the array share the first-level cache


def sums_beside_rows(scheduler: SchedulerContext, large: int) -> None:
    """Offer the sums of every nest down columns to nests along rows of the same arrays, of at least `large` elements."""
    for columns in scheduler.nests:
        if columns.head is None and columns.outer and not columns.flexible:
            for rows in scheduler.nests:
                if can_join(scheduler, rows, columns, large):
                    move_column_sums(scheduler, rows, columns)


def can_join(scheduler: SchedulerContext, rows: LoopNest, columns: LoopNest, large: int) -> bool:
    """Whether the rows' nest walks over the points of the columns' nest, row by row, and does not wait for it."""
    if rows is columns or rows.head is not None or rows.flexible or not rows.outer or not rows.reads & columns.reads:
        return False
    if (
        rows.before & columns.ids
        or extents(rows.outer) != extents(columns.inner)
        or extents(rows.inner) != extents(columns.outer)
    ):
        return False
    count, width = product(extents(rows.outer)), product(extents(rows.inner))
    return (
        isinstance(count, int)
        and isinstance(width, int)
        and NARROW <= width <= WIDE
        and count * width >= large
        and 1 < run_of(rows.outer) < count
        and is_rows(rows)
        and not any(i.store is not None and i.store.mode == "add" for i in rows.items)
    )


def extents(axes: tuple[Axis, ...]) -> tuple:
    return tuple(a.extent for a in axes)


def variables(axes: tuple[Axis, ...]) -> tuple:
    return tuple(0 if a.extent == 1 else a.var for a in axes)


def run_of(axes: tuple[Axis, ...]) -> int:
    """Rows of a run: a divisor of the last axis that leaves about RUNS of them, or 1."""
    last, wanted = int(axes[-1].extent), max(SHORT, int(product(extents(axes))) // RUNS)
    return next((n for n in range(min(wanted, last), SHORT - 1, -1) if last % n == 0), 1)


def move_column_sums(scheduler: SchedulerContext, rows: LoopNest, columns: LoopNest) -> None:
    """Move the sums that wait for nothing and read only what the rows' nest reads; both nests change where they are."""
    mapping = {a.name: b.var for a, b in zip((*columns.inner, *columns.outer), (*rows.outer, *rows.inner))}
    renamed = Rewriter(scheduler.body, mapping, tidy=scheduler.tidy)
    mine = {v.id for v in rows.values() if v.op == "load"}
    begun = [
        i for i in columns.items if is_movable_sum(i, columns) and reads_same_elements(renamed(i.reduction.values[0]), mine, rows)
    ]
    if not begun:
        return
    split, lead, run = split_into_runs(scheduler, rows)
    columns.notes.append(
        f"{len(begun)} sums down ({extents_text(columns.inner)}) are begun by {rows.name}, which reads the same memory"
    )
    over = tuple(scheduler.axis(a, {x.name for x in (*columns.outer, *columns.inner)}) for a in lead)
    at_runs = Rewriter(scheduler.body, run.mapping, tidy=scheduler.tidy)
    for item in begun:
        reduce = item.reduction
        name, dtype = reduce.names[0], reduce.dtypes[0]
        partial = scheduler.temp(f"{name}_runs", dtype, extents((*lead, *columns.outer)))
        value = scheduler.body.cast(at_runs(renamed(reduce.values[0])), dtype)
        split.append(Item(rows.inner, store=Store(partial, variables((*lead, *rows.inner)), value, "add")))
        load = scheduler.body.load(partial, variables((*over, *columns.outer)))
        columns.items[columns.items.index(item)] = Item(over, reduce=replace(reduce, values=(load,)))
        scheduler.writer[partial.name], scheduler.readers[partial.name] = rows, [columns]
    rows.outer, rows.items, rows.loads_cache, columns.loads_cache = run.outer, split, None, None
    update_dependencies(scheduler, rows, columns)


def is_movable_sum(item: Item, nest: LoopNest) -> bool:
    """A sum over all rows that waits for no other result of its nest."""
    return (
        item.reduce is not None
        and item.reduce.combine == "sum"
        and item.axes == nest.inner
        and not any(v.op == "acc" for v in reachable(item.roots()))
    )


def reads_same_elements(value: Value, mine: set[int], rows: LoopNest) -> bool:
    """Whether it reads only what the rows' nest reads at the same point, and does not write."""
    found = [v for v in reachable((value,)) if v.op == "load"]
    return bool(found) and all(v.id in mine for v in found) and not {v.attrs.buffer.name for v in found} & rows.stores().keys()


def split_into_runs(context: SchedulerContext, rows: LoopNest) -> tuple[list[Item], tuple[Axis, ...], AxisMapping]:
    """The items with the last outer axis as (runs, rows of a run); the axes that number the runs; the move."""
    *others, last = rows.outer
    count, size = int_if_const(last.extent // run_of(rows.outer)), run_of(rows.outer)
    if count == 1:
        return rows.items, tuple(others), AxisMapping(rows.outer, {}, {})
    taken = {a.name for a in (*rows.outer, *rows.inner)}
    runs = context.axis(Axis(f"{last.name}_runs", count), taken)
    row = context.axis(Axis(f"{last.name}_run", size), taken)
    move = AxisMapping((*others, runs, row), {last.name: runs.var * size + row.var}, {})
    return map_axes(context, rows, move).items, (*others, runs), move


def update_dependencies(scheduler: SchedulerContext, rows: LoopNest, columns: LoopNest) -> None:
    """The tables: the columns' nest, and who waits for it, come after the rows' nest."""
    rows.reads, columns.reads = set(rows.loads()), set(columns.loads())
    for name, readers in scheduler.readers.items():
        if name not in columns.reads:
            scheduler.readers[name] = [n for n in readers if n is not columns]
    for nest in scheduler.nests:
        if nest is columns or nest.before & columns.ids:
            nest.before |= rows.ids | rows.before
