"""What a kernel does for the memory's sake: results that go past the caches, rows that are asked for ahead of time.

In: a loop kernel. Out: the buffers whose stores stream, and the loads to prefetch with the pass that does so. The idea:
a kernel that moves more than the caches hold gains by not fetching the lines that it overwrites, and a kernel that walks
over a row several times leaves the memory idle after the first pass, unless it asks for the next row then.
"""

from __future__ import annotations

from dataclasses import field

from ...capture.shapes.expr import Expr, ExprLike, is_const, lift, int_if_const, product
from ...runtime.dataclass import data
from ..loops.body import Buffer, Value
from ..loops.ir import Axis, LoopKernel, Step, buffers_read, buffers_written
from .reductions import REDUCERS, Reducer
from .cpp_text import cpp

STREAM_FROM = 24_000_000  # bytes that a kernel moves: below, the next kernel finds the result in the last cache
MUCH = 4  # results of one in so many bytes that a reduction moves are worth streaming
LINE = 64  # bytes
COPY_TO = 64_000_000  # bytes up to which copies are left to the C library: its stores stay in the caches
AHEAD_FROM = 4_000_000  # below, rows are in cache anyway
MOST_AHEAD = 4  # rows of as many arrays are asked for
CACHED = 1 << 17  # elements of a block of columns that stay in the second-level cache
FEW_ROWS = 4  # that are taken together for each vector of a block of columns
ROWS_AHEAD = 16  # rows that a block of columns asks for ahead, into the second-level cache


def bytes_moved(kernel: LoopKernel) -> ExprLike:
    """The bytes that a kernel reads and writes, each array once."""
    total: ExprLike = 0
    for buffer in (*buffers_read(kernel), *buffers_written(kernel)):
        total = total + buffer.numel() * buffer.dtype.itemsize
    return int_if_const(total)


def writes_much(kernel: LoopKernel) -> bool:
    """Whether results are a good part of what a kernel moves, so that their lines are worth not fetching."""
    total, written = bytes_moved(kernel), int_if_const(sum(b.numel() * b.dtype.itemsize for b in buffers_written(kernel)))
    return isinstance(total, int) and isinstance(written, int) and written * MUCH >= total


def exceeds_caches(kernel: LoopKernel) -> bool:
    """Whether a kernel moves more than the caches hold, or an unknown number of bytes."""
    total = bytes_moved(kernel)
    return isinstance(total, Expr) or total > COPY_TO


def streaming_stores(kernel: LoopKernel) -> tuple[frozenset[str], str]:
    """Buffers that are written past the caches, and when: "" for always, else a condition on the sizes."""
    total = bytes_moved(kernel)
    if not isinstance(total, Expr) and total < STREAM_FROM:
        return frozenset(), ""
    read = {b.name for b in buffers_read(kernel)}
    summed = {s.buffer.name for _, s in kernel.sums()}
    rows = {b.name: row_bytes(kernel, b) for b in buffers_written(kernel) if b.name not in read and b.name not in summed}
    names = frozenset(name for name, row in rows.items() if isinstance(row, Expr) or row % LINE == 0)
    unknown = sorted({f"{cpp(rows[name])} % {LINE} == 0" for name in names if isinstance(rows[name], Expr)})
    if isinstance(total, Expr):
        unknown.insert(0, f"{cpp(total)} >= {STREAM_FROM}")
    return names, " && ".join(unknown) if names else ""


def row_bytes(kernel: LoopKernel, buffer: Buffer) -> ExprLike:
    """Bytes between the rows that a kernel writes; 0 where it walks over all in one. Rows that do not begin on a line have lines
    that are half streamed, which costs twice the time of lines that are not."""
    axes = next((step.axes for step in kernel.steps if any(s.buffer.name == buffer.name for s in step.stores)), ())
    along, others = (axes, kernel.outer) if kernel.vector == "inner" else (kernel.outer, axes)
    if not along or not (*along[:-1], *others):
        return 0
    return int_if_const(along[-1].extent * buffer.dtype.itemsize)


@data
class Prefetch:
    """Places (element offsets) that some phases of a step ask for, and into which cache (3: the first level); `stores`: those
    that it will write."""

    phases: tuple[int, ...]
    places: list[tuple[Buffer, ExprLike]]
    level: int
    stores: list[tuple[Buffer, ExprLike]] = field(default_factory=list)


def rows_ahead(kernel: LoopKernel) -> dict[int, Prefetch]:
    """By step: the second pass over a row asks for the next one."""
    first = kernel.steps[0]
    second = second_pass(kernel.steps)
    if not kernel.outer or second is None or not first.axes or is_small(kernel):
        return {}
    places = prefetched_loads(first, kernel.outer[-1], first.axes[-1], 1)
    return {second[0]: Prefetch((second[1],), places, 3)} if places else {}


def columns_ahead(kernel: LoopKernel, rows: int, columns: int) -> dict[int, Prefetch]:
    """By step: the first pass down a block of columns asks for so many rows further down, which no hardware guesses; so do later
    ones where the block has left the cache by then."""
    if is_small(kernel) or not kernel.outer:
        return {}
    steps = [(k, step) for k, step in enumerate(kernel.steps) if step.axes]
    steps = [(k, step) for k, step in steps if not at_most(step.axes[-1].extent, max(rows, FEW_ROWS))]
    found = {k: prefetched_loads(step, step.axes[-1], kernel.outer[-1], rows) for k, step in steps}
    if len(steps) > 1 and all(at_most(product(a.extent for a in step.axes), CACHED // columns) for _, step in steps):
        return slab_ahead(kernel, steps, found, columns)
    return {k: Prefetch((0, 1), places, 2) for k, places in found.items() if places}


def slab_ahead(kernel: LoopKernel, steps: list[tuple[int, Step]], found: dict, columns: int) -> dict[int, Prefetch]:
    """What passes over a block of columns that stays in cache ask for: rows further down where they are read for the first time;
    where results are written, their lines, and in the last pass the next slab, if that is not in the last cache."""
    total, seen = bytes_moved(kernel), set()
    far = not isinstance(total, Expr) and total >= STREAM_FROM
    made = {}
    for k, step in steps:
        places = [(b, e) for b, e in found[k] if b.name not in seen]
        seen |= {b.name for b, _ in places}
        stores = stores_ahead(step, kernel.outer[-1])
        if far and stores and step is steps[-1][1] and at_most(kernel.outer[-1].extent, columns):
            places += next_slab(kernel.outer, steps[0][1], step)
        if places or stores:
            made[k] = Prefetch((0, 1), places, 2, stores)
    return made


def next_slab(outer: tuple[Axis, ...], first: Step, last: Step) -> list[tuple[Buffer, ExprLike]]:
    """Where the first pass over the slab of the next outer index reads what the last one over this slab has reached."""
    if len(outer) < 2 or not len(first.axes) == len(last.axes) == 1:
        return []
    same = {first.axes[0].var: last.axes[0].var}
    return [(b, lift(e).substitute(same)) for b, e in prefetched_loads(first, outer[-2], outer[-1], 1)]


def stores_ahead(step: Step, lane: Axis) -> list[tuple[Buffer, ExprLike]]:
    """Where a step that only stores will write some rows later."""
    if step.reduces or step.index_values():
        return []
    row, found = step.axes[-1], []
    for store in step.stores:
        linear = lift(store.buffer.linear(store.index))
        if store.mode == "set" and store.buffer.kind != "local" and runs_by_rows(linear, row, lane):
            found.append((store.buffer, linear.substitute({row.var: row.var + FEW_ROWS})))
    return found[:MOST_AHEAD]


def at_most(extent: ExprLike, most: int) -> bool:
    """Whether an extent is known, and no larger than that."""
    return isinstance(extent, int) and extent <= most


def is_small(kernel: LoopKernel) -> bool:
    total = bytes_moved(kernel)
    return not isinstance(total, Expr) and total < AHEAD_FROM


def from_memory(kernel: LoopKernel) -> bool:
    """Whether a kernel is known to move more than the second-level cache holds."""
    return not isinstance(bytes_moved(kernel), Expr) and not is_small(kernel)


def prefetched_loads(step: Step, row: Axis, lane: Axis, rows: int) -> list[tuple[Buffer, ExprLike]]:
    """Where the step's loads that run along the lane will be some rows later."""
    found: dict[tuple, tuple] = {}
    for value in step.values():
        if value.op == "load" and advances_by_rows(value, row, lane):
            linear = lift(value.attrs.buffer.linear(value.attrs.index)).substitute({row.var: row.var + rows})
            found.setdefault((value.attrs.buffer.name, linear), (value.attrs.buffer, linear))
    return list(found.values())[:MOST_AHEAD]


def second_pass(steps: tuple[Step, ...]) -> tuple[int, int] | None:
    """Where the row of the first step is walked over for the second time: (step, phase)."""
    if phases(steps[0]) > 1:
        return 0, 1
    return next(((k, 0) for k, step in enumerate(steps) if k and step.axes == steps[0].axes), None)


def phases(step: Step) -> int:
    return max((REDUCERS.get(r.combine, Reducer).phases for r in step.reduces), default=1)


def advances_by_rows(value: Value, row: Axis, lane: Axis) -> bool:
    """Whether a load runs along memory with the lane and moves on with the next row."""
    load = value.attrs
    if value.args or load.buffer.kind == "local":
        return False
    return runs_by_rows(lift(load.buffer.linear(load.index)), row, lane)


def runs_by_rows(linear: Expr, row: Axis, lane: Axis) -> bool:
    """Whether a place runs along memory with the lane and moves on with the next row."""
    parts = linear.affine([row.var, lane.var])
    if parts is None:
        return False
    inner, outer = parts[0][lane.var], parts[0][row.var]
    return is_const(inner) and int(inner) == 1 and not (is_const(outer) and int(outer) == 0)
