"""One space for two nests: axes are renamed, split into finer ones, or made inner ones.

In: two nests. Out: the ways to move both into one outer space. The idea: row-major spaces of equal size nest where one's axes
are runs of the other's; the coarse side is written in terms of the fine axes, which keeps every place affine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...capture.shapes.expr import Expr, ExprLike, int_if_const
from ...runtime.dataclass import data
from ..loops.body import Rewriter
from ..loops.ir import Axis
from .loop_nest import SchedulerContext, LoopNest, axis_position, non_unit_axes, rewrite_item


@data
class AxisMapping:
    """What happens to one nest: its new outer axes, the substitution, inner axes replaced by others, outer axes made inner."""

    outer: tuple[Axis, ...]
    mapping: dict
    axes: dict
    demoted: tuple[Axis, ...] = ()


@data
class CommonSpace:
    first: AxisMapping
    second: AxisMapping
    why: str


def map_axes(context: SchedulerContext, nest: LoopNest, move: AxisMapping) -> LoopNest:
    """The nest with its axes renamed, split, or its trailing outer axes made inner ones."""
    if not move.mapping and not move.demoted and move.outer == nest.outer:
        return nest
    rewrite = Rewriter(context.body, move.mapping, tidy=context.tidy) if move.mapping else None
    items = []
    for item in nest.items:
        axes = tuple(x for axis in item.axes for x in move.axes.get(axis.name, (axis,)))
        items.append(rewrite_item(item, (*move.demoted, *axes), rewrite))
    return replace(nest, outer=move.outer, items=items, loads_cache=None)


def refine(a: tuple[Axis, ...], b: tuple[Axis, ...]) -> tuple[dict, dict] | None:
    """Row-major spaces of equal size: for each side, axis name -> the finer axes that make it up; None where they do not nest."""
    left: dict[str, tuple] = {}
    right: dict[str, tuple] = {}
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i].extent == b[j].extent:
            left[a[i].name], right[b[j].name] = (a[i],), (a[i],)
            i, j = i + 1, j + 1
            continue
        run = axes_of_extent(a[i:], b[j].extent)
        if run:
            right[b[j].name] = run
            left.update({x.name: (x,) for x in run})
            i, j = i + len(run), j + 1
            continue
        run = axes_of_extent(b[j:], a[i].extent)
        if not run:
            return None
        left[a[i].name] = run
        right.update({x.name: (x,) for x in run})
        i, j = i + 1, j + len(run)
    return (left, right) if i == len(a) and j == len(b) else None


def refine_distinct(context: SchedulerContext, a: tuple[Axis, ...], b: tuple[Axis, ...]) -> tuple[dict, dict] | None:
    """`refine` with axes that all have different names: one of `b` that splits an axis of `a` may be called like another of
    `a` that stays, and is renamed."""
    parts = refine(a, b)
    if parts is None:
        return None
    left, right = parts
    split = [fine for axis in a if left[axis.name] != (axis,) for fine in left[axis.name]]
    stay = {axis.name for axis in a if left[axis.name] == (axis,)}
    fresh = {x.name: context.axis(x, {y.name for y in (*a, *b)}) for x in split if x.name in stay}
    runs = {name: run if name in stay else tuple(fresh.get(x.name, x) for x in run) for name, run in left.items()}
    return runs, right | {name: (axis,) for name, axis in fresh.items()}


def axes_of_extent(axes: tuple[Axis, ...], extent: ExprLike) -> tuple[Axis, ...]:
    """The leading axes whose sizes multiply to `extent`."""
    total: ExprLike = 1
    for k, axis in enumerate(axes[:6]):
        total = int_if_const(total * axis.extent)
        if total == extent:
            return axes[: k + 1]
    return ()


def row_major_position(axes: tuple[Axis, ...]) -> ExprLike:
    """The row-major position in the space of some axes."""
    total: ExprLike = 0
    for axis in axes:
        total = total * axis.extent + axis.var
    return total


def mapping_of(parts: dict) -> dict:
    """Variable name -> expression, where they differ."""
    return {name: row_major_position(run) for name, run in parts.items() if len(run) != 1 or run[0].name != name}


def epilogue_space(gemm: LoopNest, user: LoopNest, why: str) -> Iterator[CommonSpace]:
    """The template's axes stay; a user with finer axes gets them by division."""
    parts = refine(non_unit_axes(gemm.outer), non_unit_axes(user.outer))
    if parts is None:
        return
    mapping = {}
    for axis in non_unit_axes(gemm.outer):
        run = parts[0][axis.name]
        step: ExprLike = 1
        for k, fine in reversed(list(enumerate(run))):
            if len(run) > 1:
                at = axis.var // step if k == 0 else axis.var // step % fine.extent
                mapping[fine.name] = int_if_const(at)
            step = int_if_const(step * fine.extent)
    coarse = {name: row_major_position(run) for name, run in parts[1].items() if len(run) != 1 or run[0].name != name}
    still = AxisMapping(gemm.outer, {}, {})
    yield CommonSpace(still, AxisMapping(gemm.outer, coarse | mapping, {}), why)


def permuted_space(gemm: LoopNest, user: LoopNest, why: str) -> Iterator[CommonSpace]:
    """A user whose axes are the template's in another order: read off from the index at which it reads the result."""
    for name, item in gemm.stores().items():
        for load in user.loads().get(name, ()):
            places = zip(load.attrs.index, item.written.index, item.written.buffer.sizes)
            plain_dims = [(e.name, at, size) for e, at, size in places if isinstance(e, Expr) and e.is_var]
            mapping, sizes = {n: at for n, at, _ in plain_dims}, {n: size for n, _, size in plain_dims}
            axes = non_unit_axes(user.outer)
            if mapping.keys() == {a.name for a in axes} and all(sizes[a.name] == a.extent for a in axes):
                yield CommonSpace(AxisMapping(gemm.outer, {}, {}), AxisMapping(gemm.outer, mapping, {}), why)
                return


def unify_spaces(
    context: SchedulerContext, a: tuple, b: tuple, a_inner: tuple, b_inner: tuple, why: str
) -> Iterator[CommonSpace]:
    """One outer space for both; inner spaces of equal size get the same axes."""
    parts = refine_distinct(context, non_unit_axes(a), non_unit_axes(b))
    if parts is None:
        return
    outer = tuple(x for axis in non_unit_axes(a) for x in parts[0][axis.name])
    taken = {x.name for x in outer}
    first, a_axes = rename_taken_axes(context, parts[0], a_inner, taken)
    target = tuple(x for axis in a_inner for x in a_axes.get(axis.name, (axis,)))
    inner = refine(target, b_inner) if target and b_inner else None
    if inner is not None and not mapping_of(inner[0]):
        second = mapping_of(parts[1]) | mapping_of(inner[1])
        b_axes = {name: run for name, run in inner[1].items()}
    else:
        second, b_axes = rename_taken_axes(context, parts[1], b_inner, taken)
    yield CommonSpace(AxisMapping(outer, first, a_axes), AxisMapping(outer, second, b_axes), why)


def rename_taken_axes(context: SchedulerContext, parts: dict, inner: tuple, taken: set[str]) -> tuple[dict, dict]:
    """The substitution of the outer axes, with inner axes renamed where their names are taken."""
    mapping, axes = mapping_of(parts), {}
    for axis in inner:
        if axis.name in taken:
            fresh = context.axis(axis, taken | {x.name for x in inner})
            mapping[axis.name] = fresh.var
            axes[axis.name] = (fresh,)
    return mapping, axes


def split_space(context: SchedulerContext, flat: LoopNest, rows: LoopNest, flat_first: bool, why: str) -> Iterator[CommonSpace]:
    """A map over the elements of the rows, or columns: its space is the reduction's outer and inner space together."""
    whole = tuple(sorted((*non_unit_axes(rows.outer), *rows.inner), key=axis_position))
    parts = refine_distinct(context, non_unit_axes(flat.outer), whole)
    if parts is None:
        return
    left, right = parts
    outer = tuple(x for axis in non_unit_axes(rows.outer) for x in right[axis.name])
    inner = tuple(x for axis in rows.inner for x in right[axis.name])
    mine = AxisMapping(outer, mapping_of(left), {}, demoted=inner)
    theirs = AxisMapping(outer, mapping_of(right), {axis.name: right[axis.name] for axis in rows.inner})
    yield CommonSpace(mine, theirs, why) if flat_first else CommonSpace(theirs, mine, why)
