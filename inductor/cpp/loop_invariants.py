"""Loop invariants of a block of columns: values that are computed once a column, not once an element.

A loop over the rows of a block finds its invariants (a reciprocal of a sum, a logarithm of one) in registers' lanes: they differ
from column to column, so that they cannot be hoisted out of the loop as numbers. They are held in an array over the vectors of
the block, as accumulators are. In: the values of a loop, in order. Out: those that are worth holding, and what is left.
"""

from __future__ import annotations

from collections.abc import Callable

from ...capture.shapes.expr import Expr
from ..loops.body import Value, reachable
from .prims import COSTS

HELD = 4  # cost of a value from which it is held for all rows
FREE = {"acc", "const", "load", "scalar"}  # what costs no more than reading it back
NEVER = {"indirect", "philox"}  # what binds names for the loop that it is in


def held_values(
    values: list[Value], roots: list[Value], rows: set[str], written: set[str], inside: Callable[[Value], bool]
) -> list[Value]:
    """The largest values that no loop over `rows` moves. `written`: arrays that the loops store into; `inside(value)`: it
    differs from column to column."""
    work: dict[int, int] = {}  # of values that are the same in all rows, their arguments' work not counted
    for value in values:
        if all(a.id in work for a in value.args) and not moves(value, rows, written):
            work[value.id] = COSTS.get(value.op, 1) if value.op not in FREE and inside(value) else 0
    users = [a for v in values if v.id not in work for a in v.args] + roots
    largest = {v.id: v for v in users if v.id in work and inside(v)}
    return [v for v in largest.values() if sum(work[a.id] for a in reachable([v])) >= HELD]


def moves(value: Value, rows: set[str], written: set[str]) -> bool:
    """Whether a value may differ from row to row though its arguments do not."""
    if value.op in NEVER:
        return True
    if value.op not in ("load", "index"):
        return False
    places = value.attrs.index if value.op == "load" else (value.attrs,)
    if value.op == "load" and value.attrs.buffer.name in written or value.body.indirect_args(places):
        return True
    return any(isinstance(e, Expr) and e.free_names() & rows for e in places)


def without(held: list[Value], values: list[Value], roots: list[Value]) -> list[Value]:
    """The values that are still computed for every element."""
    kept, left, stack = {v.id for v in held}, set(), list(roots)
    while stack:
        value = stack.pop()
        if value.id not in left and value.id not in kept:
            left.add(value.id)
            stack += value.args
    return [v for v in values if v.id in left]
