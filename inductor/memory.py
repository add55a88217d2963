"""The memory plan: where every temporary lies in the one arena of a call.

In: a scheduled program. Out: the same with `arena` (name -> byte offset) and `arena_size`. The idea: a temp lives from the
kernel that writes it to the last that reads it; one that dies where another of its size is born at the same places hands over
its memory; known sizes are packed largest first, symbolic ones take slots that are reused. Offsets are multiples of 64 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..capture.expr import Bounds, Expr, ExprLike, plain
from .body import Buffer
from .loops import Kernel, LoopKernel, Program, ScatterKernel, loads, outer_axes, reads, steps, writes

ALIGN = 64


@dataclass
class Block:
    """Temps that share one place: alive from kernel `start` to kernel `end` (both included)."""

    names: list[str]
    size: ExprLike
    start: int
    end: int

    def meets(self, other: Block) -> bool:
        return self.start <= other.end and other.start <= self.end


def plan(program: Program) -> Program:
    """Give every temp an offset in the arena."""
    blocks = share_in_place(program, lifetimes(program))
    offsets, size = pack_known([b for b in blocks if isinstance(b.size, int)])
    more, size = pack_symbolic([b for b in blocks if not isinstance(b.size, int)], size)
    arena = {name: offset for block, offset in offsets + more for name in block.names}
    return replace(program, arena=arena, arena_size=size)


def aligned(n: ExprLike) -> ExprLike:
    """`n` rounded up to the alignment."""
    return plain((n + ALIGN - 1) // ALIGN * ALIGN)


def bytes_of(buffer: Buffer) -> ExprLike:
    return aligned(buffer.extent() * buffer.dtype.itemsize)


def lifetimes(program: Program) -> dict[str, Block]:
    found: dict[str, Block] = {}
    temps = {b.name: b for b in program.buffers if b.kind == "temp"}
    for at, kernel in enumerate(program.kernels):
        for buffer in (*writes(kernel), *reads(kernel)):
            if buffer.name in temps:
                block = found.setdefault(buffer.name, Block([buffer.name], bytes_of(temps[buffer.name]), at, at))
                block.end = at
    return found


# -- one temp after another in the same place

def share_in_place(program: Program, blocks: dict[str, Block]) -> list[Block]:
    """A temp that is born in the kernel where another dies takes over its memory, unless a point could disturb another."""
    for at, kernel in enumerate(program.kernels):
        dying = [b for b in reads(kernel) if b.name in blocks and blocks[b.name].end == at and blocks[b.name].start < at]
        for new in writes(kernel):
            if new.name not in blocks or blocks[new.name].start != at:
                continue
            old = next((b for b in dying if blocks[b.name].size == blocks[new.name].size and in_place(kernel, b, new)), None)
            if old is not None:
                dying.remove(old)
                join(blocks, old.name, new.name)
    return list({id(b): b for b in blocks.values()}.values())


def join(blocks: dict[str, Block], old: str, new: str) -> None:
    block = blocks[old]
    block.names += blocks[new].names
    block.end = max(block.end, blocks[new].end)
    for name in blocks[new].names:
        blocks[name] = block


def in_place(kernel: Kernel, old: Buffer, new: Buffer) -> bool:
    """Whether `new` may overwrite `old` while the kernel runs."""
    if old.dtype.itemsize != new.dtype.itemsize:
        return False
    if isinstance(kernel, ScatterKernel):
        same = kernel.init == old and kernel.init.strides == kernel.target.strides
        return same and not any(v.attrs.buffer == old for v in loads(kernel))
    return isinstance(kernel, LoopKernel) and same_places(kernel, old, new)     # a template may keep partial sums in its result


def same_places(kernel: Kernel, old: Buffer, new: Buffer) -> bool:
    """All reads of `old` are at the place where `new` is written at the same point, and none comes after the write."""
    outer = {a.name for a in outer_axes(kernel)}
    written = [(k, s, step) for k, step in enumerate(steps(kernel)) for s in step.stores if s.buffer == new]
    if len(written) != 1 or written[0][1].mode != "set":
        return False
    at, store, home = written[0]
    place = plain(store.buffer.linear(store.index))
    for k, step in enumerate(steps(kernel)):
        for value in step.values():
            if value.op == "load" and value.attrs.buffer == old:
                names = place.free_names() if isinstance(place, Expr) else frozenset()
                inner = [a for a in step.axes if a.name in names - outer]
                if k > at or plain(value.attrs.buffer.linear(value.attrs.index)) != place or \
                        inner != [a for a in home.axes if a.name in names - outer]:
                    return False
                if k < at and len(step.axes) != len(inner):
                    return False
    return visits_once(place, (*outer_axes(kernel), *home.axes))


def visits_once(place: ExprLike, axes: tuple) -> bool:
    """Every axis moves the place, so no two points share one."""
    names = place.free_names() if isinstance(place, Expr) else frozenset()
    return all(a.name in names for a in axes if a.extent != 1)


# -- packing

def pack_known(blocks: list[Block]) -> tuple[list[tuple[Block, int]], int]:
    """Largest first, each at the lowest offset where no block alive at the same time lies."""
    placed: list[tuple[Block, int]] = []
    for block in sorted(blocks, key=lambda b: (-b.size, b.start)):
        placed.append((block, lowest_gap(block, placed)))
    return placed, max((offset + b.size for b, offset in placed), default=0)


def lowest_gap(block: Block, placed: list[tuple[Block, int]]) -> int:
    offset = 0
    for other, start in sorted(((o, s) for o, s in placed if o.meets(block)), key=lambda pair: pair[1]):
        if offset + block.size <= start:
            break
        offset = max(offset, start + other.size)
    return offset


def pack_symbolic(blocks: list[Block], start: ExprLike) -> tuple[list[tuple[Block, ExprLike]], ExprLike]:
    """Slots after the known part: a block takes a free slot that is provably large enough, else a new one."""
    slots: list[tuple[ExprLike, ExprLike, int]] = []        # size, offset, last kernel that uses it
    placed, end = [], start
    bounds = Bounds({})
    for block in sorted(blocks, key=lambda b: b.start):
        k = next((k for k, slot in enumerate(slots) if slot[2] < block.start and roomy(bounds, slot[0], block.size)), None)
        if k is None:
            k = len(slots)
            slots.append((block.size, end, -1))
            end = plain(end + block.size)
        size, offset, _ = slots[k]
        slots[k] = (size, offset, block.end)
        placed.append((block, offset))
    return placed, end


def roomy(bounds: Bounds, slot: ExprLike, size: ExprLike) -> bool:
    return slot == size or bounds.nonnegative(slot - size)
