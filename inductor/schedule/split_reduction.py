"""Large reductions with few points become two nests, so that they run in parallel.

In: a nest, and what a target needs to be busy (`Parallelism`). Out: the same, or a nest of partial results over leading inner
axes (a single axis is cut into chunks) and one that combines them. The order of a floating sum is fixed by the sizes alone, never
by the number of threads.
"""

from __future__ import annotations

from dataclasses import replace

from ...capture.shapes.expr import ExprLike, int_if_const, product
from ...eager.op.prims import COMBINES
from ..loops.body import Body, Rewriter, Value, reachable
from .emit_kernel import is_columns
from ..loops.ir import Axis, Reduce, Store
from ..loops.lower import hint
from .loop_nest import SchedulerContext, Item, LoopNest, Parallelism as Parallelism, extents_text, rewrite_item

SPLITTABLE = ("sum", "prod", "max", "min", "any", "all")


def split_reductions(context: SchedulerContext, nest: LoopNest) -> list[LoopNest]:
    """Two nests for a reduction with too few points to run in parallel: partial results, then the rest."""
    reduces = [item for item in nest.items if item.reduce is not None]
    inner = nest.inner
    wanted = context.parallel
    if not reduces or hint(product(a.extent for a in inner)) < wanted.elements or units(context, nest) >= wanted.points:
        return [nest]
    wide = [item for item in nest.items if item.axes]
    plain_kinds = all(item.axes == inner and not waits(item) for item in wide) and all(
        item.axes == inner and item.reduction.combine in SPLITTABLE for item in reduces
    )
    if not plain_kinds or len(nest.loads().keys() & nest.stores().keys()):
        return [nest]
    return two_stages(context, nest, inner)


def units(context: SchedulerContext, nest: LoopNest) -> int:
    """Pieces of work that run in parallel anyway."""
    points, together = hint(product(a.extent for a in nest.outer)), context.parallel.columns
    return points // together if together > 1 and is_columns(context, nest) else points


def waits(item: Item) -> bool:
    return any(v.op == "acc" for v in reachable(item.roots()))


def two_stages(context: SchedulerContext, nest: LoopNest, inner: tuple[Axis, ...]) -> list[LoopNest]:
    """Leading inner axes become outer ones; a single axis is cut into chunks."""
    nest, inner = chunked(context, nest, inner)
    lead, rest = leading(inner)
    body = context.body
    first, second, done = [], [], {}
    for item in nest.items:
        if item.axes == inner and item.reduce is None:
            first.append(replace(item, axes=rest))
        elif item.reduce is not None:
            name, dtype = item.reduce.names[0], item.reduce.dtypes[0]
            partial = context.temp(f"{name}_partial", dtype, tuple(a.extent for a in (*nest.outer, *lead)))
            index = tuple(a.var for a in (*nest.outer, *lead))
            part = f"{name}_part"
            first.append(Item(rest, reduce=replace(item.reduce, names=(part,))))
            first.append(Item((), store=Store(partial, index, body.acc(part, dtype))))
            second.append(Item(lead, reduce=replace(item.reduce, values=(body.load(partial, index),))))
            done[partial.name] = partial
        else:
            second.append(item)
    note = f"split: {extents_text(inner)} reduced by {extents_text(lead)} parallel parts"
    parts = LoopNest(
        (*nest.outer, *lead), first, nest.ids, name=nest.name + "_parts", origins=nest.origins, notes=[*nest.notes, note]
    )
    final = LoopNest(nest.outer, second, nest.ids, name=nest.name, origins=nest.origins, notes=[note])
    return [parts, final]


def leading(inner: tuple[Axis, ...]) -> tuple[tuple, tuple]:
    """The fewest leading axes that give enough parallel parts (never all)."""
    points = 1
    for k, axis in enumerate(inner[:-1], 1):
        points *= hint(axis.extent)
        if points >= 16:
            return inner[:k], inner[k:]
    return inner[:-1], inner[-1:]


def chunked(context: SchedulerContext, nest: LoopNest, inner: tuple[Axis, ...]) -> tuple[LoopNest, tuple[Axis, ...]]:
    """A single long axis as (chunks, elements): elements past the end of the last chunk are masked to the identity."""
    lead, long = inner[:-1], inner[-1]
    if lead and hint(product(a.extent for a in lead)) >= 16:
        return nest, inner
    count = divisor(long.extent, context.parallel.parts)
    size = int_if_const((long.extent + count - 1) // count)
    taken = {a.name for a in (*nest.outer, *inner)}
    chunk = context.axis(Axis(f"{long.name}_chunk", count), taken)
    part = context.axis(Axis(f"{long.name}_part", size), taken)
    position = chunk.var * size + part.var
    whole = isinstance(long.extent, int) and long.extent == count * size
    rewrite = masking(context, {long.name: position}, None if whole else (position, long.extent))
    new = (*lead, chunk, part)
    items = []
    for item in nest.items:
        if item.axes == inner:
            if not whole and item.reduce is None:
                return nest, inner  # a masked store does not exist
            item = rewrite_item(item, new, rewrite)
            if not whole:
                item = replace(item, reduce=only_inside(context.body, item.reduction, position, long.extent))
        items.append(item)
    return replace(nest, items=items, loads_cache=None), new


def divisor(n: ExprLike, most: int) -> int:
    """How many chunks: a divisor of a known size where there is one."""
    if isinstance(n, int):
        return next((d for d in range(most, most // 4 - 1, -1) if n % d == 0), most // 2)
    return most // 2


def masking(context: SchedulerContext, mapping: dict, limit: tuple | None) -> Rewriter:
    body = context.body
    if limit is None:
        return Rewriter(body, mapping, tidy=context.tidy)
    inside = body.prim("lt", body.index(limit[0]), body.index(limit[1]))

    def leaf(value: Value) -> Value | None:
        if value.op != "load":
            return None
        load = value.attrs
        mask = body.prim("logical_and", value.args[0], inside) if load.masked else inside
        return body.load(load.buffer, load.index, mask, load.other)

    return Rewriter(body, mapping, leaf, context.tidy)


def only_inside(body: Body, reduce: Reduce, position: ExprLike, extent: ExprLike) -> Reduce:
    inside = body.prim("lt", body.index(position), body.index(extent))
    identity = body.const(COMBINES[reduce.combine].identity(reduce.dtypes[0]), reduce.dtypes[0])
    return replace(reduce, values=(body.where(inside, reduce.values[0], identity),))
