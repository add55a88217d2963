"""Code object -> instructions in the normal form of opcodes.py; jump targets and handlers are references.

    instrs = decode(code)                       # Instr.index is its place in the list: ip = instr.target.index
    successors(instrs, k)                       # indices that may run after k without an exception
    stack_depths(instrs)                        # depth before each instruction (-1: unreachable)
    print(text(instrs))                         # the readable listing

Targets are Instr objects, so lists may be cut, copied (`clone`) and joined freely; `assemble` writes any such list.
"""

from __future__ import annotations

import types
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...runtime.errors import InternalError
from . import opcodes
from .code_units import NOWHERE, Position, read


class Handler(NamedTuple):
    """Where an exception goes: the stack is cut to `depth`; lasti (if so) and exception are pushed; `target` runs."""

    target: Instr
    depth: int
    lasti: bool

    @property
    def entry_depth(self) -> int:
        """Depth of the stack when `target` runs."""
        return self.depth + self.lasti + 1


@dataclass(eq=False, slots=True)
class Instr:
    """One normal instruction. `offset` is the byte offset in the code it was read from, -1 if it was written by us."""

    op: str
    argval: Any = None
    target: Instr | None = None
    position: Position = NOWHERE
    handler: Handler | None = None
    offset: int = -1
    index: int = -1
    is_jump_target: bool = False

    @property
    def line(self) -> int | None:
        return self.position[0]

    def derive(self, op: str, argval: str | None = None, target: Any = None) -> Instr:
        """Another instruction at the same source position and under the same handler."""
        return Instr(op, argval, target, self.position, self.handler)

    def __repr__(self) -> str:
        return f"<{self.index}: {self.op}{_argument(self)}>"


def decode(code: types.CodeType) -> list[Instr]:
    """The instructions of `code` in normal form."""
    units, entries = read(code)
    table, instrs, raising = opcodes.CodeNames(code), [], []
    for unit in units:
        for op, argval in opcodes.lift(table, unit):
            _append(instrs, raising, op, argval, unit)
    _resolve(instrs, raising, entries)
    return reindex(opcodes.normalise_closures(opcodes.normalise_sends(instrs), code))


def _append(instrs: list, raising: list, op: str, argval: Any, unit: Any) -> None:
    """`raising` collects the offset of the unit that may raise: what implies a TO_BOOL raises where that stood."""
    raises_at = unit.offset
    if instrs:
        last = instrs[-1]
        drop, pair = opcodes.merge((last.op, last.argval), op, argval)
        if drop:
            instrs.pop()
            before = raising.pop()
            raises_at = before if last.op == "TO_BOOL" else raises_at
        if pair is None:
            return
        op, argval = pair
    instrs.append(Instr(op, argval, position=unit.position, offset=unit.offset))
    raising.append(raises_at)


def _resolve(instrs: list, raising: list, entries: list) -> None:
    """Offsets of jumps and of the exception table become references."""
    offsets = [instr.offset for instr in instrs]

    def at(offset: int) -> Instr:
        return instrs[bisect_left(offsets, offset)]

    for instr in instrs:
        if opcodes.NORMAL_OPS[instr.op].kind == "jump":
            instr.target, instr.argval = at(instr.argval), None
    for entry in entries:
        handler = Handler(at(entry.target), entry.depth, entry.lasti)
        for index in range(bisect_left(raising, entry.start), bisect_left(raising, entry.end)):
            instrs[index].handler = handler


def reindex(instrs: list) -> Any:
    """Number the instructions and mark what is jumped to."""
    for index, instr in enumerate(instrs):
        instr.index, instr.is_jump_target = index, False
    for instr in instrs:
        for target in (instr.target, instr.handler and instr.handler.target):
            if target:
                target.is_jump_target = True
    return instrs


def clone(instrs: list) -> tuple[list[Instr], dict[Instr, Instr]]:
    """A copy of the instructions that refers to itself, and the map old -> new. References to others are kept."""
    new = {instr: Instr(instr.op, instr.argval, instr.target, instr.position, instr.handler, instr.offset) for instr in instrs}
    handlers = {}
    for copy in new.values():
        copy.target = new.get(copy.target, copy.target)
        if copy.handler:
            old = copy.handler
            if old not in handlers:
                handlers[old] = old._replace(target=new.get(old.target, old.target))
            copy.handler = handlers[old]
    return reindex(list(new.values())), new


def successors(instrs: list, index: int) -> list[int]:
    """Indices of what may run after an instruction that raises nothing: the next one, then the jump target."""
    instr = instrs[index]
    after = [] if instr.op in opcodes.NO_FALLTHROUGH else [index + 1]
    return after + ([instr.target.index] if instr.target else [])


def stack_depths(instrs: list) -> list[int]:
    """Depth of the value stack before each instruction, -1 where it can't be reached from the first one."""
    return flow(instrs)[0]


def flow(instrs: list) -> tuple[list[int], int]:
    """Depths before each instruction when running from the first one, and the largest depth met."""
    depths, work, largest = [-1] * len(instrs), [(0, 0)], 0
    while work:
        index, depth = work.pop()
        if depths[index] >= 0:
            _agree(instrs, index, depths[index], depth)
            continue
        depths[index] = depth
        instr = instrs[index]
        if instr.handler:
            work.append((instr.handler.target.index, instr.handler.entry_depth))
        for after in successors(instrs, index):
            pops, pushes = opcodes.effect(instr.op, instr.argval, instr.target is not None and after == instr.target.index)
            largest = max(largest, depth - pops + pushes)
            work.append((after, depth - pops + pushes))
        largest = max(largest, depth)
    return depths, largest


def _agree(instrs: list, index: int, known: int, depth: int) -> None:
    if known != depth:
        raise InternalError(f"bytecode: stack depth {known} or {depth} at\n{text(instrs, index - 5, index + 3, mark=index)}")


def _argument(instr: Instr) -> str:
    if instr.target:
        return f" -> {instr.target.index}"
    return "" if instr.argval is None and instr.op != "LOAD_CONST" else f" {instr.argval!r:.60}"


def text(instrs: list, start: int = 0, stop: Any = None, mark: Any = None) -> str:
    """A listing: line, index, op, argument, handler."""
    lines, line = [], None
    for instr in instrs[max(start, 0) : stop]:
        shown = f"{instr.line or '--':>5}" if instr.line != line else " " * 5
        arrow = "=>" if instr.index == mark else ">>" if instr.is_jump_target else "  "
        under = instr.handler
        handler = f"   [raises -> {under.target.index}, depth {under.depth}{', lasti' if under.lasti else ''}]" if under else ""
        lines.append(f"{shown} {arrow} {instr.index:4} {instr.op}{_argument(instr)}{handler}")
        line = instr.line
    return "\n".join(lines)
