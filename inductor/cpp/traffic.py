"""What a kernel does for the memory's sake: results that go past the caches, rows that are asked for ahead of time.

In: a loop kernel. Out: the buffers whose stores stream, and the loads to prefetch with the pass that does so. The idea:
a kernel that moves more than the caches hold gains by not fetching the lines that it overwrites, and a kernel that walks
over a row several times leaves the memory idle after the first pass, unless it asks for the next row then.
"""

from __future__ import annotations

from ...capture.expr import Expr, ExprLike, is_const, lift, plain
from ..body import Buffer, Value
from ..loops import Axis, LoopKernel, Step, reads, writes
from .reduce import REDUCERS, Reducer
from .text import cpp

STREAM_FROM = 24_000_000  # bytes that a kernel moves: below, the next kernel finds the result in the last cache
AHEAD_FROM = 4_000_000  # below, rows are in cache anyway
MOST_AHEAD = 4  # rows of as many arrays are asked for


def moved(kernel: LoopKernel) -> ExprLike:
    """The bytes that a kernel reads and writes, each array once."""
    total: ExprLike = 0
    for buffer in (*reads(kernel), *writes(kernel)):
        total = total + buffer.numel() * buffer.dtype.itemsize
    return plain(total)


def streamed(kernel: LoopKernel) -> tuple[frozenset[str], str]:
    """Buffers that are written past the caches, and when: "" for always, else a condition on the sizes."""
    total = moved(kernel)
    if not isinstance(total, Expr) and total < STREAM_FROM:
        return frozenset(), ""
    read = {b.name for b in reads(kernel)}
    names = frozenset(b.name for b in writes(kernel) if b.name not in read and all(s.mode == "set" for s in kernel.stores()))
    return names, f"{cpp(total)} >= {STREAM_FROM}" if isinstance(total, Expr) and names else ""


Ahead = tuple[int, int, list[tuple[Buffer, ExprLike]]]


def ahead(kernel: LoopKernel) -> Ahead | None:
    """(step, phase, places of the next row to prefetch there): the second pass over a row asks for the next one."""
    total = moved(kernel)
    if not kernel.outer or not isinstance(total, Expr) and total < AHEAD_FROM:
        return None
    first = kernel.steps[0]
    second = second_pass(kernel.steps)
    if second is None or not first.axes:
        return None
    next_row = {kernel.outer[-1].var: kernel.outer[-1].var + 1}
    found: dict[tuple, tuple] = {}
    for value in first.values():
        if value.op == "load" and walks(value, kernel.outer[-1], first.axes):
            linear = lift(value.attrs.buffer.linear(value.attrs.index)).substitute(next_row)
            found.setdefault((value.attrs.buffer.name, linear), (value.attrs.buffer, linear))
    places = list(found.values())[:MOST_AHEAD]
    return (*second, places) if places else None


def second_pass(steps: tuple[Step, ...]) -> tuple[int, int] | None:
    """Where the row of the first step is walked over for the second time: (step, phase)."""
    if phases(steps[0]) > 1:
        return 0, 1
    return next(((k, 0) for k, step in enumerate(steps) if k and step.axes == steps[0].axes), None)


def phases(step: Step) -> int:
    return max((REDUCERS.get(r.combine, Reducer).phases for r in step.reduces), default=1)


def walks(value: Value, row: Axis, axes: tuple[Axis, ...]) -> bool:
    """Whether a load runs along memory inside a row and moves on with the next row."""
    load = value.attrs
    if value.args or load.buffer.kind == "local":
        return False
    linear = lift(load.buffer.linear(load.index))
    parts = linear.affine([row.var, *(a.var for a in axes)])
    if parts is None:
        return False
    inner, outer = parts[0][axes[-1].var], parts[0][row.var]
    return is_const(inner) and int(inner) == 1 and not (is_const(outer) and int(outer) == 0)
