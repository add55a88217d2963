"""Column slabs: maps that run in one nest with the reductions down columns whose elements they read or make.

In: a map and a nest of reductions over a middle dimension. Out: whether they share their outermost loops. The idea: apart, each
of them passes over the whole array, which comes from the last cache or from memory every time. Fused, for every outer index and
block of columns the reductions and the maps run one after the other over one slab of the array, which stays in the second-level
cache; what only they hand on becomes scratch of the size of a slab.
"""

from __future__ import annotations

from ...capture.shapes.expr import product
from ..loops.lower import hint
from .emit_kernel import element_offsets, is_columns, stride, unit_last
from .loop_nest import LoopNest, SchedulerContext, axis_position, non_unit_axes

SLAB = 3 << 18  # bytes that a block of columns may touch: most of a second-level cache of a megabyte
BLOCK = 512  # columns of a block
NARROW = 8  # columns from which vectors along them pay


def walks_slabs(context: SchedulerContext, flat: LoopNest, columns: LoopNest) -> bool:
    """Whether a map joins a nest of reductions down columns: one outer index at a time, if its slab fits the cache."""
    outer = non_unit_axes(columns.outer)
    if not context.parallel.lanes or not outer or not columns.inner or not is_columns(context, columns):
        return False
    lane = unit_last(context, columns)[-1]
    last = max((*outer, *columns.inner), key=axis_position)
    if lane != last or not runs_along(context, flat):
        return False
    width, rows = hint(lane.extent), hint(product(a.extent for a in columns.inner))
    others = hint(product(a.extent for a in outer if a is not lane))
    busy = width >= NARROW and others * (width // NARROW) >= context.parallel.points
    return busy and rows * min(width, BLOCK) * element_bytes(flat, columns) <= SLAB


def runs_along(context: SchedulerContext, flat: LoopNest) -> bool:
    """Whether a map moves contiguously along its last axis, or not at all, and writes no bytes (of which a vector has more)."""
    axes = non_unit_axes(flat.outer)
    if not axes or any(item.written.buffer.dtype.itemsize == 1 for item in flat.items):
        return False
    last = max(axes, key=axis_position)
    return all(stride(e, last) in (0, 1) for e in element_offsets(context, flat.items))


def element_bytes(flat: LoopNest, columns: LoopNest) -> int:
    """Bytes of one element in all the arrays that are as large as the space of both."""
    full = hint(product(a.extent for a in (*columns.outer, *columns.inner)))
    buffers = {v.attrs.buffer for nest in (flat, columns) for v in nest.values() if v.op == "load"}
    buffers |= {item.store.buffer for nest in (flat, columns) for item in nest.items if item.store is not None}
    return sum(b.dtype.itemsize for b in buffers if hint(b.numel()) * 2 > full)
