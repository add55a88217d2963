"""Segments of an innermost axis: runs of its elements in which every index is a plain stride.

In: a map's step and its innermost axis. Out: (begin, the step there) for each run, or nothing. The idea: `roll`, mirrored edges
and concatenations read memory in order but for a few places, at which a remainder starts again, a minimum changes sides or a
comparison turns; between two such places all of them are decided, so lanes neither divide nor gather nor choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...capture.shapes.value_ranges import Bounds, simplify
from ...capture.shapes.expr import Atom, Expr, ExprLike, is_const, lift
from ..loops.body import COMPARISONS, Body, Rewriter, Value
from ..loops.ir import Axis, Step, Store, step_bounds
from .loop_codegen import lane_step

MOST, VALUES = 8, 600  # segments of one axis; values of all of them together
LONG = 64  # elements from which a comparison alone, which vectors take in masks, is worth a cut


def segments(outer: tuple[Axis, ...], step: Step, axis: Axis) -> list[tuple[int, Step]]:
    """(begin, step over the segment's own elements), in order; nothing where one loop serves."""
    if step.looks or type(axis.extent) is not int:
        return []
    if not cuts_memory(step, axis) and (axis.extent < LONG or not has_turning_comparison(step, axis)):
        return []
    found: list[tuple[int, Step]] = []
    waiting = cut(0, axis.extent, breakpoints(step, axis))  # (each piece is made once, if nothing turns within it)
    while waiting:
        if len(found) + len(waiting) > MOST:
            return []
        begin, end = waiting.pop()
        part = step_within(outer, step, axis, begin, end)
        pieces = cut(begin, end, (begin + at for at in breakpoints(part, part.axes[-1])))
        if len(pieces) == 1:
            found.append((begin, part))
        else:
            waiting += pieces
    return found if 1 < len(found) and len(found) * len(step.values()) <= VALUES else []


def cut(begin: int, end: int, places: Iterable[int]) -> list[tuple[int, int]]:
    """What places within [begin, end) make of it, the first piece last."""
    ends = [*sorted(set(places)), end]
    return list(zip([begin, *ends], ends))[::-1]


def step_within(outer: tuple[Axis, ...], step: Step, axis: Axis, begin: int, end: int) -> Step:
    """The step over [begin, end) of its last axis, counted from `begin`, with all that this decides."""
    return substitute_axis(outer, step, axis, axis.var + begin, (*step.axes[:-1], Axis(axis.name, end - begin)))


def step_at(outer: tuple[Axis, ...], step: Step, axis: Axis, point: int) -> Step:
    """The step at one point of an axis."""
    return substitute_axis(outer, step, axis, lift(point), ())


def substitute_axis(outer: tuple[Axis, ...], step: Step, axis: Axis, place: Expr, axes: tuple[Axis, ...]) -> Step:
    bounds = Bounds({**step_bounds(outer, replace(step, axes=axes)).ranges})
    body = step.stores[0].value.body
    rewrite = Rewriter(body, {axis.name: place}, tidy=lambda e: simplify(e, bounds))
    before, body.bounds = body.bounds, bounds
    try:
        stores = tuple([rewrite_store(rewrite, body, s) for s in step.stores])
    finally:
        body.bounds = before
    return Step(axes, stores)


def rewrite_store(rewrite: Rewriter, body: Body, store: Store) -> Store:
    for v in body.indirect_args(store.index):
        rewrite(v)
    return replace(store, index=tuple([rewrite.expr(lift(e)) for e in store.index]), value=rewrite(store.value))


# -- where something changes


def cuts_memory(step: Step, axis: Axis) -> bool:
    """Whether a place in memory is what changes, so that lanes would be gathered one by one."""
    lane = axis.var.atom
    return any(lane_step(e, lane) is None and any(True for _ in breakpoints_of(e, axis)) for e in addresses(step))


def has_turning_comparison(step: Step, axis: Axis) -> bool:
    return any(True for value in step.values() for _ in comparison_breakpoints(value, axis))


def addresses(step: Step) -> Iterator[ExprLike]:
    for store in step.stores:
        yield from store.index
    for value in step.values():
        if value.op == "load":
            yield from value.attrs.index


def breakpoints(step: Step, axis: Axis) -> Iterator[int]:
    """Elements of the axis, not the first, from which on an index or comparison is another."""
    for e in addresses(step):
        yield from breakpoints_of(e, axis)
    for value in step.values():
        if value.op == "index":
            yield from breakpoints_of(value.attrs, axis)
        else:
            yield from comparison_breakpoints(value, axis)


def comparison_breakpoints(value: Value, axis: Axis) -> Iterator[int]:
    if value.op in COMPARISONS and value.args[0].dtype.category == 1 and all(a.op in ("index", "const") for a in value.args):
        difference = lift(value.args[0].attrs) - value.args[1].attrs
        yield from sign_breakpoints(difference - (value.op in ("gt", "le")), axis)


def breakpoints_of(e: ExprLike, axis: Axis) -> Iterator[int]:
    for atom in compound_atoms(lift(e)):
        if atom.op in ("max", "min"):
            first = lift(atom.args[0])
            for other in atom.args[1:]:
                yield from sign_breakpoints(first - other, axis)
        else:
            yield from quotient_breakpoints(atom, axis)


def compound_atoms(e: Expr) -> Iterator[Atom]:
    """The quotients, remainders, maxima and minima in an expression, inner ones first."""
    for monomial, _ in e.terms:
        for atom, _ in monomial:
            if atom.op != "var":
                for a in atom.args:
                    yield from compound_atoms(lift(a))
                yield atom


def affine_in_axis(e: ExprLike, axis: Axis) -> tuple[int, int] | None:
    """(c, k) where e is c * axis + k with numbers."""
    parts = lift(e).affine([axis.var])
    if parts is None or not is_const(parts[1]) or not is_const(parts[0][axis.var]) or int(parts[0][axis.var]) == 0:
        return None
    return int(parts[0][axis.var]), int(parts[1])


def sign_breakpoints(difference: ExprLike, axis: Axis) -> Iterator[int]:
    """Where `difference >= 0` becomes true or false."""
    found = affine_in_axis(difference, axis)
    if found is not None:
        c, k = found
        at = -(k // c) if c > 0 else k // -c + 1
        if is_inside(at, axis):
            yield at


def is_inside(at: int, axis: Axis) -> bool:
    """Whether a place lies behind the first of an axis of known extent."""
    return isinstance(axis.extent, int) and 0 < at < axis.extent


def quotient_breakpoints(atom: Atom, axis: Axis) -> Iterator[int]:
    """Where a // d grows or shrinks for the first time, if that happens a few times only."""
    found = affine_in_axis(atom.args[0], axis)
    if found is None or not is_const(atom.args[1]) or int(lift(atom.args[1]).value) <= 0:
        return
    (c, k), d = found, int(lift(atom.args[1]).value)
    if isinstance(axis.extent, int) and abs(c) * axis.extent <= d * (MOST - 1):
        at = -(((k // d) * d + d - k) // -c) if c > 0 else (k % d) // -c + 1
        if is_inside(at, axis):
            yield at
