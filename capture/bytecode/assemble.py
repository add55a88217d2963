"""Normal instructions -> code object of the running version.

    assemble(instrs, like)                                # same arguments, flags, cells and free variables as `like`
    assemble(instrs, like, name=..., args=("a", "b"), cellvars=(), freevars=("c",), flags=...)

Each Instr brings its source position and its Handler (target, depth, lasti), so line and exception tables are written
from the instructions. Slots: arguments first, then like's other locals, then new names. Kept as preconditions of an
in-place swap: argument count and order, flags, free variables and cells. The stack is at least as large as like's.
COPY_FREE_VARS, MAKE_CELL and RESUME are ordinary instructions: keep them, or let Emitter.prologue write them.
"""

from __future__ import annotations

import types
from typing import Any

from ...runtime.errors import InternalError
from . import opcodes
from .instructions import flow, reindex
from .code_units import runs, write


def assemble(
    instrs: Any,
    like: Any,
    *,
    name: Any = None,
    qualname: Any = None,
    args: Any = None,
    locals: Any = (),
    names: Any = (),
    cellvars: Any = None,
    freevars: Any = None,
    flags: Any = None,
) -> Any:
    """Code object that runs `instrs`, in all else like the code object `like`.

    `args`: names of plain positional arguments instead of like's.
    `locals`: names that are plain locals even if they are also free variables.
    `names`: what co_names must contain, used or not.
    """
    cellvars = like.co_cellvars if cellvars is None else tuple(cellvars)
    freevars = like.co_freevars if freevars is None else tuple(freevars)
    varnames = dict.fromkeys((*(like.co_varnames if args is None else args), *locals))
    table = Tables(like, instrs, list(varnames), cellvars, freevars)
    for used in names:
        table.name(used)
    reindex(instrs)
    lows, start = opcodes.lower(instrs, table)
    layout = write(lows, start)
    counts = {} if args is None else dict(co_argcount=len(args), co_posonlyargcount=0, co_kwonlyargcount=0)
    return like.replace(
        **counts,
        co_name=name or like.co_name,
        co_qualname=qualname or name or like.co_qualname,
        co_flags=like.co_flags if flags is None else flags,
        co_nlocals=len(table.varnames),
        co_varnames=tuple(table.varnames),
        co_cellvars=cellvars,
        co_freevars=freevars,
        co_consts=tuple(table.consts),
        co_names=tuple(table.names),
        co_stacksize=max(like.co_stacksize, flow(instrs)[1] + 1),  # + 1: a CALL_KW pushes its names
        co_code=layout.code,
        co_linetable=_line_table([low.instr.position for low in lows], layout.places, like.co_firstlineno),
        co_exceptiontable=layout.exceptiontable,
    )


class Tables:
    """Numbers constants, names and slots while instructions are lowered."""

    def __init__(self, like: types.CodeType, instrs: list, varnames: list, cellvars: Any, freevars: tuple):
        self.consts = list(like.co_consts[:1])  # the first one is the docstring
        self.names, self.varnames, self.nfree = [], varnames, len(freevars)
        self._const_at = {_const_key(value): index for index, value in enumerate(self.consts)}
        self._name_at = {}
        known = {*varnames, *cellvars, *freevars}
        self.varnames += dict.fromkeys(
            instr.argval for instr in instrs if opcodes.NORMAL_OPS[instr.op].kind == "fast" and instr.argval not in known
        )
        slots = opcodes.slot_names(self.varnames, cellvars, freevars)
        self._fast = {
            name: index for index, name in reversed(list(enumerate(slots)))
        }  # a local before a free variable of its name
        self._deref = {name: index for index, name in enumerate(slots) if name in cellvars or index >= len(slots) - self.nfree}

    def const(self, value: Any) -> int:
        at = self._const_at.setdefault(_const_key(value), len(self.consts))
        if at == len(self.consts):
            self.consts.append(value)
        return at

    def name(self, name: str) -> int:
        at = self._name_at.setdefault(name, len(self.names))
        if at == len(self.names):
            self.names.append(name)
        return at

    def fast(self, name: str) -> int:
        return self._fast[name]

    def deref(self, name: str) -> int:
        if name not in self._deref:
            raise InternalError(f"bytecode: {name!r} is neither a cell nor a free variable of the new code")
        return self._deref[name]


def _const_key(value: Any) -> tuple | int:
    """Equal keys may share a slot: 1, True and 1.0 don't, nor 0.0 and -0.0; other objects go by identity."""
    if type(value) in (int, str, bytes, bool, type(None), type(...)):
        return type(value), value
    return (type(value), repr(value)) if type(value) in (float, complex) else id(value)


def _varint(value: int) -> bytes:
    """Six bits a byte, low ones first; bit 6 says that more follow."""
    out = []
    while value > 63:
        out.append(64 | value & 63)
        value >>= 6
    return bytes((*out, value))


def _signed_varint(value: int) -> bytes:
    return _varint(-value << 1 | 1 if value < 0 else value << 1)


def _line_table(positions: list, places: list, line: int) -> bytes:
    """The location table (Objects/locations.md): entries of up to 8 units, lines relative to the entry before.

    Not the package's, which (0.19.1) writes columns of 128 and more as bytes that readers of lines take for entries.
    """
    out = bytearray()
    for position, first, end in runs(positions, places):
        for at in range(first, end, 8):
            out += _location(position, line, min(8, end - at))
            line = line if position[0] is None else position[0]
    return bytes(out)


def _location(position: tuple, before: int, units: int) -> bytes:
    line, end_line, column, end_column = position

    def entry(code: Any, rest: Any) -> Any:
        return bytes((128 | code << 3 | units - 1,)) + rest

    if line is None:
        return entry(15, b"")
    step = line - before
    if column is None or end_column is None:
        return entry(13, _signed_varint(step))
    if line == end_line and step == 0 and column < 80 and 0 <= end_column - column < 16:
        return entry(column >> 3, bytes(((column & 7) << 4 | end_column - column,)))
    if line == end_line and 0 <= step < 3 and column < 128 and end_column < 128:
        return entry(10 + step, bytes((column, end_column)))
    end_line = line if end_line is None else end_line
    return entry(14, _signed_varint(step) + _varint(end_line - line) + _varint(column + 1) + _varint(end_column + 1))
