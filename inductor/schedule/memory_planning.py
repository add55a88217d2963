"""The memory plan: where every temporary lies in the one arena of a call.

In: a scheduled program. Out: the same with `arena` (name -> byte offset) and `arena_size`. The idea: a temp lives from the
kernel that writes it to the last that reads it; one that dies where another of its size is born at the same places hands over
its memory; known sizes are packed largest first, symbolic ones take slots that are reused. Offsets are multiples of 64 bytes.
Donated inputs (nobody else looks at them) are more places, free once their last reader has run: temps lie in them, and
an output of fitting size takes one over as a whole. The bytes behind a donated input are another's: what lies in it ends
where it ends, not at the next multiple of 64.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field, replace
from typing import Any

from ...capture.shapes.value_ranges import Bounds
from ...capture.shapes.expr import Expr, ExprLike, int_if_const
from ...runtime.kernel_calls import RuntimeCall
from ...runtime.dataclass import data
from ...runtime.locks import cached_property
from ..loops.body import Buffer
from ..loops.ir import (
    ExternCall,
    Kernel,
    LoopKernel,
    Program,
    ScatterKernel,
    View,
    loads,
    outer_axes,
    buffers_read,
    steps,
    buffers_written,
)

ALIGN = 64
SMALL = 4096  # donated inputs below are not worth a second thought


@data
class Block:
    """Temps that share one place: alive from kernel `start` to kernel `end` (both included). Each of them has `bytes`."""

    names: list[str]
    bytes: ExprLike
    start: int
    end: int

    @cached_property
    def size(self) -> ExprLike:
        """The bytes up to where another block may begin."""
        return aligned(self.bytes)

    def meets(self, other: Block) -> bool:
        return self.start <= other.end and other.start <= self.end


@data
class MemoryRegion:
    """The bytes of a donated input, none of them behind its end (or, without a name, the arena, which is as large as what is
    placed in it), and what lies where in them."""

    name: str
    bytes: ExprLike
    placed: list[tuple[Block, ExprLike]] = field(default_factory=list)


def plan(program: Program, donated: Collection[int] = ()) -> Program:
    """Give every temp an offset in the arena, or in one of the inputs with the numbers `donated`."""
    given = donated_blocks(program, donated)
    blocks = share_in_place(program, given | lifetimes(program))
    regions = [MemoryRegion(b.names[0], b.bytes, [(b, 0)]) for b in blocks if b.names[0] in given]
    taken = take_over(program, regions)
    blocks = [b for b in blocks if b.names[0] not in given]
    size = pack_known([b for b in blocks if isinstance(b.size, int)], regions)
    size = pack_symbolic([b for b in blocks if not isinstance(b.size, int)], regions, size)
    spots = [(name, r.name, at) for r in regions for b, at in r.placed for name in b.names]
    spots = [spot for spot in spots if spot[0] not in given and spot[0] not in taken]
    homes = taken | {name: home for name, home, _ in spots if home}
    return replace(program, arena={name: at for name, _, at in spots}, arena_size=size, homes=homes)


def aligned(n: ExprLike) -> ExprLike:
    """`n` rounded up to the alignment."""
    return int_if_const((n + ALIGN - 1) // ALIGN * ALIGN)


def bytes_of(buffer: Buffer) -> ExprLike:
    return int_if_const(buffer.extent() * buffer.dtype.itemsize)


def lifetimes(program: Program) -> dict[str, Block]:
    found: dict[str, Block] = {}
    temps = {b.name: b for b in program.buffers if b.kind == "temp"}
    for at, kernel in enumerate(program.kernels):
        for buffer in (*buffers_written(kernel), *buffers_read(kernel)):
            if buffer.name in temps:
                block = found.setdefault(buffer.name, Block([buffer.name], bytes_of(temps[buffer.name]), at, at))
                block.end = at
    return found


# -- donated inputs


def overwritten(program: Program) -> frozenset[int]:
    """Numbers of the inputs whose bytes a run of the planned program uses for something else, or gives away."""
    homes = set(program.homes.values())
    return frozenset(k for k, b in enumerate(program.inputs) if isinstance(b, Buffer) and b.name in homes)


def donated_blocks(program: Program, donated: Collection[int]) -> dict[str, Block]:
    """Those that may be overwritten: not written in place, not returned, and large enough to be worth it."""
    names = {b.name for k in donated if isinstance(b := program.inputs[k], Buffer)}
    names -= {b.name for b in program.outputs if isinstance(b, Buffer)}
    names -= {b.name for kernel in program.kernels for b in buffers_written(kernel)}
    found = {
        b.name: Block([b.name], bytes_of(b), -1, -1)
        for b in program.inputs
        if isinstance(b, Buffer) and b.name in names and b.offset == 0 and worth_it(b)
    }
    for at, kernel in enumerate(program.kernels):
        for buffer in buffers_read(kernel):
            if buffer.name in found:
                found[buffer.name].end = at
    return found


def worth_it(buffer: Buffer) -> bool:
    size = bytes_of(buffer)
    return not isinstance(size, int) or size >= SMALL


def take_over(program: Program, regions: list[MemoryRegion]) -> dict[str, str]:
    """Outputs that are born after a region's input has died, and fill at least three quarters of it: they become the
    owners of its block. Output -> input."""
    last, taken = len(program.kernels), {}
    born = {b.name: at for at, kernel in reversed([*enumerate(program.kernels)]) for b in buffers_written(kernel)}
    outputs = [b for b in program.buffers if b.kind == "output" and b.name in born]
    free = sorted(regions, key=lambda r: known_size(r.bytes))
    for buffer in sorted(outputs, key=lambda b: -known_size(bytes_of(b))):
        size, start = bytes_of(buffer), born[buffer.name]
        region = next((r for r in free if fills(size, r.bytes) and all(b.end < start for b, _ in r.placed)), None)
        if region is not None:
            free.remove(region)
            region.placed.append((Block([buffer.name], region.bytes, start, last), 0))
            taken[buffer.name] = region.name
    return taken


def known_size(size: ExprLike) -> int:
    """A size as a number; 0 where it is none."""
    return size if isinstance(size, int) else 0


def fills(size: ExprLike, room: ExprLike) -> bool:
    if isinstance(size, int) and isinstance(room, int):
        return size <= room <= size + size // 3
    return size == room


# -- one temp after another in the same place


def share_in_place(program: Program, blocks: dict[str, Block]) -> list[Block]:
    """A temp that is born in the kernel where another dies takes over its memory, unless a point could disturb another."""
    for at, kernel in enumerate(program.kernels):
        dying = [b for b in buffers_read(kernel) if b.name in blocks and blocks[b.name].end == at and blocks[b.name].start < at]
        for new in buffers_written(kernel):
            if new.name not in blocks or blocks[new.name].start != at:
                continue
            old = next(
                (b for b in dying if blocks[b.name].bytes == blocks[new.name].bytes and can_reuse_memory(kernel, b, new)), None
            )
            if old is not None:
                dying.remove(old)
                join_lifetimes(blocks, old.name, new.name)
    return list({id(b): b for b in blocks.values()}.values())


def join_lifetimes(blocks: dict[str, Block], old: str, new: str) -> None:
    block = blocks[old]
    block.names += blocks[new].names
    block.end = max(block.end, blocks[new].end)
    for name in blocks[new].names:
        blocks[name] = block


def can_reuse_memory(kernel: Kernel, old: Buffer, new: Buffer) -> bool:
    """Whether `new` may overwrite `old` while the kernel runs."""
    if old.dtype.itemsize != new.dtype.itemsize:
        return False
    if isinstance(kernel, ScatterKernel):
        init = kernel.init
        same = init is not None and init == old and init.strides == kernel.target.strides
        return same and not any(v.attrs.buffer == old for v in loads(kernel))
    if isinstance(kernel, ExternCall):
        return kernel.calls is not None and len(kernel.calls) == 1 and call_can_reuse_memory(kernel.calls, old, new)
    return isinstance(kernel, LoopKernel) and same_places(kernel, old, new)  # a template may keep partial sums in its result


def same_places(kernel: Kernel, old: Buffer, new: Buffer) -> bool:
    """All reads of `old` are at the place where `new` is written at the same point, and none comes after the write."""
    outer = {a.name for a in outer_axes(kernel)}
    written = [(k, s, step) for k, step in enumerate(steps(kernel)) for s in step.stores if s.buffer == new]
    if len(written) != 1 or written[0][1].mode != "set":
        return False
    at, store, home = written[0]
    place = int_if_const(store.buffer.linear(store.index))
    for k, step in enumerate(steps(kernel)):
        for value in step.values():
            if value.op == "load" and value.attrs.buffer == old:
                names = place.free_names() if isinstance(place, Expr) else frozenset()
                inner = [a for a in step.axes if a.name in names - outer]
                if (
                    k > at
                    or int_if_const(value.attrs.buffer.linear(value.attrs.index)) != place
                    or inner != [a for a in home.axes if a.name in names - outer]
                ):
                    return False
                if k < at and len(step.axes) != len(inner):
                    return False
    return visits_once(place, (*outer_axes(kernel), *home.axes))


def call_can_reuse_memory(calls: tuple, old: Buffer, new: Buffer) -> bool:
    """Whether only one call touches `new`, reads `old` at the same places if at all, and none after it does."""
    touched = [{buffer_of(v).name for v in _regions(vars(call))} for call in calls]
    writing = [k for k, found in enumerate(touched) if new.name in found]
    if len(writing) != 1 or any(old.name in found for found in touched[writing[0] + 1 :]):
        return False
    call = calls[writing[0]]
    if old.name not in touched[writing[0]]:
        return True
    if not isinstance(call, RuntimeCall):
        return False
    at, out = (
        [k for k, v in enumerate(call.arrays) if isinstance(v, (View, Buffer)) and buffer_of(v).name == b.name]
        for b in (old, new)
    )
    return len(at) == len(out) == 1 and (out[0], at[0]) in call.same and covers_buffer(call.arrays[at[0]])


def buffer_of(region: View | Buffer) -> Buffer:
    return region.buffer if isinstance(region, View) else region


def covers_buffer(region: View | Buffer) -> bool:
    """Whether the region is its buffer as it lies."""
    buffer = buffer_of(region)
    return (region.sizes, region.strides, region.offset) == (buffer.sizes, buffer.strides, buffer.offset)


def _regions(value: Any) -> list:
    if isinstance(value, (View, Buffer)):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    return [r for v in value for r in _regions(v)] if isinstance(value, (tuple, list)) else []


def visits_once(place: ExprLike, axes: tuple) -> bool:
    """Every axis moves the place, so no two points share one."""
    names = place.free_names() if isinstance(place, Expr) else frozenset()
    return all(a.name in names for a in axes if a.extent != 1)


# -- packing


def pack_known(blocks: list[Block], regions: list[MemoryRegion]) -> int:
    """Largest first, each in the smallest region with room, at the lowest offset where no block alive at the same time
    lies; what fits nowhere goes to the arena, a new region at the end of `regions`. The arena's size."""
    rooms = sorted((r for r in regions if isinstance(r.bytes, int)), key=lambda r: known_size(r.bytes))
    arena = MemoryRegion("", 0)
    for block in sorted(blocks, key=lambda b: (-known_size(b.size), b.start)):
        gaps = ((r, lowest_gap(block, r.placed)) for r in rooms)
        region, offset = next(((r, at) for r, at in gaps if at + known_size(block.bytes) <= known_size(r.bytes)), (arena, None))
        region.placed.append((block, lowest_gap(block, arena.placed) if offset is None else offset))
    regions.append(arena)
    return max((known_size(offset) + known_size(b.size) for b, offset in arena.placed), default=0)


def lowest_gap(block: Block, placed: list[tuple[Block, ExprLike]]) -> int:
    """Of blocks of known sizes at known places."""
    offset = 0
    for other, start in sorted(((o, known_size(s)) for o, s in placed if o.meets(block)), key=lambda pair: pair[1]):
        if offset + known_size(block.size) <= start:
            break
        offset = max(offset, start + known_size(other.size))
    return offset


@data
class PoolSlot:
    """A part of a region, of `room` bytes, that one block after another uses."""

    region: MemoryRegion
    room: ExprLike
    offset: ExprLike
    used: list[Block]


def pack_symbolic(blocks: list[Block], regions: list[MemoryRegion], start: ExprLike) -> ExprLike:
    """Slots: donated regions of unknown size, then new ones after the known part of the arena. A block takes a free slot
    that is provably large enough. The arena's size."""
    arena, end, bounds = regions[-1], start, Bounds({})
    slots = [PoolSlot(r, r.bytes, 0, [b for b, _ in r.placed]) for r in regions[:-1] if not isinstance(r.bytes, int)]
    for block in sorted(blocks, key=lambda b: b.start):
        free = (s for s in slots if not any(b.meets(block) for b in s.used) and has_room(bounds, s.room, block))
        slot = next(free, None)
        if slot is None:
            slot = PoolSlot(arena, block.size, end, [])
            slots.append(slot)
            end = int_if_const(end + block.size)
        slot.used.append(block)
        slot.region.placed.append((block, slot.offset))
    return end


def has_room(bounds: Bounds, room: ExprLike, block: Block) -> bool:
    """Whether the block's bytes, or those up to the next multiple of 64, are provably no more."""
    return any(room == size or bounds.nonnegative(room - size) for size in (block.bytes, block.size))
