"""Long maps in stages: which values a vector loop computes in loops of its own.

A vector that goes through an exponential and then a logarithm is one long chain, and a core whose queues are full of
waiting instructions does not reach the next vector's chain. Loop fission, in blocks that stay in the first-level cache:
a first loop computes the exponentials and keeps them, a second one reads them and goes on. In: the values of a loop,
in order. Out: the stages, and what each of them keeps. Cheap values are computed again where a later stage needs them.
"""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.dataclass import data
from ..loops.body import Value
from .prims import COSTS, type_of

LONG = 12  # cost of a primitive that is a chain of its own
HEAVY = 4  # cost from which a value is kept for a later stage, not computed again
STAGES = 4  # at most
WHOLE = {"acc", "indirect", "philox"}  # what is done once


@data(eq=False)
class Stage:
    """One loop: the values it writes, arguments first, and those of them that later stages read."""

    values: list[Value]
    keeps: list[Value]


def stages_of(values: list[Value], roots: list[Value], inside: Callable[[Value], bool]) -> list[Stage]:
    """The stages of a loop that computes `roots`; none where one loop is best. `inside(value)`: it depends on the lane."""
    own = [v for v in values if inside(v)]
    if any(v.op in WHOLE for v in own):
        return []
    long = {v.id for v in own if COSTS.get(v.op, 1) >= LONG and type_of(v.dtype).kind == "f"}
    depth: dict[int, int] = {}
    for v in own:
        depth[v.id] = max([0, *(depth[a.id] + (a.id in long) for a in v.args if a.id in depth)])
    last = max((depth[i] for i in long), default=0)
    if not 0 < last < STAGES:
        return []
    at = {i: min(d, last) for i, d in depth.items()}
    kept: dict[int, set[int]] = {}  # value -> the later stages that read it
    wanted: list[dict[int, Value]] = [{} for _ in range(last + 1)]
    stack = [(v, last) for v in roots if v.id in at]
    while stack:
        value, stage = stack.pop()
        if value.id in wanted[stage] or stage in kept.get(value.id, ()):
            continue
        if at[value.id] < stage and COSTS.get(value.op, 1) >= HEAVY:
            kept.setdefault(value.id, set()).add(stage)
            stage = at[value.id]
        wanted[stage][value.id] = value
        stack += [(a, stage) for a in value.args if a.id in at]
    if any(type_of(v.dtype).kind != "f" for v in own if v.id in kept):
        return []
    order = [[w[i] for i in sorted(w)] for w in wanted]
    return [Stage(found, [v for v in found if v.id in kept and at[v.id] == k]) for k, found in enumerate(order)]
