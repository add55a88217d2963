"""Which locals may still be read: what a resume function must be given, and what a break may forget.

    live = Liveness(instrs, code)
    live.before(k)                      # frozenset of the plain locals that may be read from instruction k on
    cells_used(instrs, code)            # names of the cells and free variables that the instructions touch

Backward data flow over the normal instructions, one int as bit set per instruction; an exception goes from every
instruction under a handler to that handler. Cells are not locals: they are live when any remaining instruction names
them. Code that can look at its frame (locals(), eval ...) keeps every local alive, super() the first argument.
"""

from __future__ import annotations

import types
from typing import Any

from . import opcodes
from .instructions import decode, successors

SYNTHETIC = "%"  # first character of local names that we invent
READERS = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"})
READER_ATTRIBUTES = frozenset({"_getframe", "currentframe"})  # model.eval() is not eval()
READS_FRAME = "%reads frame"  # in co_names of a resume function: what it was cut from reads its frame
_READS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "DELETE_FAST", "MAKE_CELL"})
_KILLS = frozenset({"STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR"})


def is_local(code: types.CodeType, name: str) -> bool:
    """Whether fast ops on this name mean a plain local, not the slot of a cell."""
    return name not in code.co_cellvars and (name in code.co_varnames or name not in code.co_freevars)


def reads_frame(instrs: list, code: Any) -> bool:
    """Whether the code may look at its own locals by name."""
    found = (
        i.argval in READERS if i.op in ("LOAD_GLOBAL", "LOAD_NAME") else i.argval in READER_ATTRIBUTES
        for i in instrs
        if i.op in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD")
    )
    return READS_FRAME in code.co_names or any(found)


def maybe_empty_cells(instrs: list, code: Any) -> list[frozenset[str]]:
    """Before each instruction, the function's own cells that may have no content then."""
    own = frozenset(code.co_cellvars)
    if not own:
        return [own] * len(instrs)
    emptied = own & _emptied_inside(code)
    arguments = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    empty: list = [None] * len(instrs)
    work = [(0, own.difference(code.co_varnames[:arguments]) | emptied)]
    while work:
        at, found = work.pop()
        if empty[at] is not None and found <= empty[at]:
            continue
        instr = instrs[at]
        now = empty[at] = found | (empty[at] or frozenset())
        if instr.handler:
            work.append((instr.handler.target.index, now | {instr.argval} if instr.op == "DELETE_DEREF" else now))
        if instr.op == "DELETE_DEREF":
            now |= own & {instr.argval}
        elif instr.op in ("STORE_DEREF", "LOAD_DEREF"):
            now = now - {instr.argval} | emptied
        work += [(after, now) for after in successors(instrs, at)]
    return [found or frozenset() for found in empty]


def _emptied_inside(code: types.CodeType) -> frozenset[str]:
    """Names that functions inside this one delete."""
    inner = [const for const in code.co_consts if isinstance(const, type(code))]
    nothing: frozenset[str] = frozenset()
    return nothing.union(
        *([unit.argval for unit in decode(const) if unit.op == "DELETE_DEREF"] for const in inner), *map(_emptied_inside, inner)
    )


def again_cells(instrs: list) -> list[str]:
    """Names of the cells that an inlined comprehension makes again, once for each."""
    start = next((k for k, instr in enumerate(instrs) if instr.op == "RESUME"), 0)
    return [instr.argval for instr in instrs[start:] if instr.op == "MAKE_CELL"]


def implicit_self(code: types.CodeType) -> str | None:
    """super() without arguments reads the first argument of the frame (LOAD_SUPER_ATTR too): its name, or None."""
    return code.co_varnames[0] if code.co_argcount and "__class__" in code.co_freevars and "super" in code.co_names else None


class Liveness:
    """Live locals before each instruction; unreachable code counts too, which is safe."""

    def __init__(self, instrs: list, code: Any):
        names = dict.fromkeys((*code.co_varnames, *(i.argval for i in instrs if opcodes.NORMAL_OPS[i.op].kind == "fast")))
        self.names = [name for name in names if is_local(code, name)]
        self.all = reads_frame(instrs, code)
        self._always = frozenset(set(self.names) & {implicit_self(code)})
        bits = {name: 1 << index for index, name in enumerate(self.names)}
        self._live = self._solve(instrs, bits)

    def before(self, index: int) -> frozenset[str]:
        live = self._live[index]
        return self._always.union(
            name for bit, name in enumerate(self.names) if live >> bit & 1 or self.all and name[0] != SYNTHETIC
        )

    @staticmethod
    def _solve(instrs: list, bits: dict) -> list:
        def mask(instr: Any, ops: frozenset) -> int:
            return bits.get(instr.argval, 0) if instr.op in ops else 0

        steps = [
            (
                instr.index,
                mask(instr, _READS),
                ~mask(instr, _KILLS),
                instr.op not in opcodes.NO_FALLTHROUGH,
                instr.target and instr.target.index,
                instr.handler and instr.handler.target.index,
            )
            for instr in reversed(instrs)
        ]
        live, changed = [0] * (len(instrs) + 1), True
        while changed:
            changed = False
            for index, reads, keeps, falls, target, handler in steps:
                after = (live[index + 1] if falls else 0) | (live[target] if target is not None else 0)
                new = reads | after & keeps | (live[handler] if handler is not None else 0)
                if new != live[index]:
                    live[index], changed = new, True
        return live


def cells_used(instrs: list, code: types.CodeType) -> frozenset[str]:
    """Cells and free variables that the instructions name (a local and a free variable may share a name)."""
    used = {i.argval for i in instrs if opcodes.NORMAL_OPS[i.op].kind == "deref"}
    return frozenset(
        used | {i.argval for i in instrs if opcodes.NORMAL_OPS[i.op].kind == "fast" and not is_local(code, i.argval)}
    )
