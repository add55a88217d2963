"""Digits of an axis: where an index takes the innermost axis of a map apart by division, its parts become axes.

In: a map's nest and its axes in loop order. Out: the same with finer axes. The idea: with `j = 26 * a + b` an index that reads
`j // 26` and `j % 26` is affine in `a` and `b`, so rows are read in vectors and no lane divides; and an axis of two to four
elements is no vector, so that a longer one, along which memory is read in order, takes the innermost place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...capture.shapes.expr import Atom, Expr, ExprLike, from_atom, is_const, lift, int_if_const
from ..loops.body import COMPARISONS, Buffer, Rewriter, Value, reachable, strides_of
from ..loops.ir import Axis
from .loop_nest import SchedulerContext, LoopNest, rewrite_item

NARROW, WIDE = 4, 16  # an innermost axis of up to NARROW elements gives way to one of at least WIDE
MOST = 300  # values of a body whose innermost axis is written out


def split_into_digits(
    context: SchedulerContext, nest: LoopNest, axes: tuple[Axis, ...], forms: list[ExprLike]
) -> tuple[LoopNest, tuple[Axis, ...]]:
    """The nest with its innermost axis as digits, if that is how all its indices see it."""
    if not axes:
        return nest, axes
    last = axes[-1]
    found = divisors(last, forms)
    if not found:
        return nest, axes
    parts, position, step = [], 0, 1
    for at, above in zip((1, *found), (*found, last.extent)):
        part = context.axis(Axis(f"{last.name}_{len(found) - len(parts)}", above // at), set(context.bounds.ranges))
        parts.insert(0, part)
        position, step = position + part.var * step, above
    rewrite = Rewriter(context.body, {last.name: position}, tidy=context.tidy)
    items = [rewrite_item(item, item.axes, rewrite) for item in nest.items]
    outer = tuple(x for axis in nest.outer for x in (parts if axis == last else [axis]))
    return replace(nest, outer=outer, items=items, loads_cache=None), (*axes[:-1], *parts)


def divisors(axis: Axis, forms: list[ExprLike]) -> tuple[int, ...]:
    """By what the axis is divided, if each number divides the next one and the extent; else nothing."""
    found = {d for e in forms if isinstance(e, Expr) for atom in divisions(e) for d in divisors_of_atom(atom, axis)}
    if not isinstance(axis.extent, int):
        return ()
    chain = (*sorted(found), axis.extent)
    whole = 0 not in found and all(b % a == 0 and b > a for a, b in zip(chain, chain[1:]))
    return chain[:-1] if whole else ()


def divisions(e: Expr) -> Iterator[Atom]:
    """The quotients and remainders in an expression, inner ones too."""
    for monomial, _ in e.terms:
        for atom, _ in monomial:
            if atom.op != "var":
                if atom.op in ("floordiv", "mod"):
                    yield atom
                for a in atom.args:
                    yield from divisions(lift(a))


def divisors_of_atom(atom: Atom, axis: Axis) -> tuple[int, ...]:
    """The divisors of `axis // d`, `axis % d` and `axis // m % d`; (0,) where the axis is divided in another way."""
    a, d = map(lift, atom.args)
    if axis.name not in a.free_names() | d.free_names():
        return ()
    if not is_const(d):
        return (0,)
    if a == axis.var:
        return (int(d),)
    inner = next((x for m, _ in a.terms for x, _ in m if x.op == "floordiv"), None)
    if inner is None or from_atom(inner) != a or inner.args[0] != axis.var or not is_const(inner.args[1]):
        return (0,)
    return int(inner.args[1]), int(inner.args[1]) * int(d)


def wide_last(context: SchedulerContext, nest: LoopNest, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The order of the axes with a wide axis innermost instead of a narrow one, if every load runs along it."""
    if len(axes) < 2 or type(axes[-1].extent) is not int or axes[-1].extent > NARROW:
        return axes
    read = [
        context.linear(v.attrs.buffer, v.attrs.index) for item in nest.items for v in reachable(item.roots()) if v.op == "load"
    ]
    for axis in reversed(axes[:-1]):
        if type(axis.extent) is int and axis.extent >= WIDE and read and all(is_unit_or_zero_stride(e, axis) for e in read):
            return (*(a for a in axes if a is not axis), axis)
    return axes


def unroll_narrow_axis(
    context: SchedulerContext, nest: LoopNest, axes: tuple[Axis, ...], forms: list[ExprLike]
) -> tuple[LoopNest, tuple[Axis, ...]]:
    """The nest with a store for each element of a narrow innermost axis, if the axis before is wide and its elements lie as far
    apart in what is written as the narrow axis is long, and the two are not one axis anyway. Elements of 64 bits, which lanes
    gather one by one, pay for it only where places or comparisons move with the axis."""
    if len(axes) < 2:
        return nest, axes
    width = axes[-1].extent
    if (
        not isinstance(width, int)
        or width > NARROW
        or not is_wide(axes[-2])
        or mergeable([axes[-2]], axes[-1], [e for e in forms if isinstance(e, Expr)])
    ):
        return nest, axes
    last, values = axes[-1], reachable(v for item in nest.items for v in item.roots())
    written = [context.linear(item.written.buffer, item.written.index) for item in nest.items]
    if width * len(values) > MOST or not all(has_stride(e, last, 1) and has_stride(e, axes[-2], width) for e in written):
        return nest, axes
    if any(b.dtype.itemsize > 4 for b in buffers(nest, values)) and not any(decides(context, v, last) for v in values):
        return nest, axes
    items = []
    for k in range(width):
        rewrite = Rewriter(context.body, {last.name: k}, tidy=context.tidy)
        items += [rewrite_item(item, item.axes, rewrite) for item in nest.items]
    outer = tuple(axis for axis in nest.outer if axis != last)
    return replace(nest, outer=outer, items=items, loads_cache=None), axes[:-1]


def buffers(nest: LoopNest, values: list[Value]) -> Iterator[Buffer]:
    yield from (item.written.buffer for item in nest.items)
    yield from (v.attrs.buffer for v in values if v.op == "load")


def decides(context: SchedulerContext, value: Value, axis: Axis) -> bool:
    """Whether the axis settles a comparison, or a load does not run along it."""
    if value.op == "load":
        return not is_unit_or_zero_stride(context.linear(value.attrs.buffer, value.attrs.index), axis)
    return value.op in COMPARISONS and any(a.op == "index" and axis.name in lift(a.attrs).free_names() for a in value.args)


def is_wide(axis: Axis) -> bool:
    return type(axis.extent) is not int or axis.extent >= WIDE


def has_stride(linear: ExprLike, axis: Axis, step: int) -> bool:
    """Whether an offset grows by `step` along the axis."""
    parts = lift(linear).affine([axis.var])
    return parts is not None and is_const(parts[0][axis.var]) and int(parts[0][axis.var]) == step


def mergeable(group: list[Axis], axis: Axis, forms: list[Expr]) -> bool:
    """Whether one counter can stand for the group's last axis and the next: strides continue in every form."""
    last = group[-1]
    for e in forms:
        factors, tangled = strides_of(e)
        if last.name in tangled or axis.name in tangled:
            return False
        outer, inner = factors.get(last.name, 0), factors.get(axis.name, 0)
        if (outer is not inner or outer != 0) and int_if_const(inner * axis.extent) != outer:
            return False
    return True


def is_unit_or_zero_stride(linear: ExprLike, axis: Axis) -> bool:
    """Whether an offset grows by one along the axis, or stays."""
    parts = lift(linear).affine([axis.var])
    return parts is not None and is_const(parts[0][axis.var]) and int(parts[0][axis.var]) in (0, 1)
