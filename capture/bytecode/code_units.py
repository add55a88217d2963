"""Code objects as code units, read and written by the `bytecode` package, which this module alone imports.

    units, entries = read(code)         # Units in order; the Entries of the exception table
    layout = write(lows, start)         # co_code, co_exceptiontable, and the place of each Low

The package knows which units are CACHE and EXTENDED_ARG, where positions and exceptions stand, and how long an instruction with
its argument is. Its `ConcreteBytecode` is used and not its `Bytecode`: slots and names keep our numbers, handler depths are
taken over as they are, and constants are told apart by us. It is imported by the first frame that is read or written.
"""

from __future__ import annotations

import opcode
import types
from itertools import accumulate
from typing import Any, NamedTuple

Position = tuple[int | None, int | None, int | None, int | None]  # line, end line, column, end column
NOWHERE: Position = (None, None, None, None)


class Unit(NamedTuple):
    """One instruction as the running version has it, with its CACHEs and EXTENDED_ARGs. `after`: the next offset."""

    offset: int
    name: str
    arg: int
    after: int
    position: Position


class Entry(NamedTuple):
    """One row of the exception table: offsets of the first unit, of the end, and of what runs then; see Handler."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


class LoweredUnit:
    """One code unit to be written: name and arg of the running version; a jump's arg is settled by the layout."""

    __slots__ = ("name", "arg", "instr", "target")

    def __init__(self, name: str, arg: int, instr: Any, target: Any = None):
        self.name, self.arg, self.instr, self.target = name, arg, instr, target


class Layout(NamedTuple):
    """What `write` made. `places`: the code unit at which each Low starts, and at last where all end."""

    code: bytes
    exceptiontable: bytes
    places: list[int]


def read(code: types.CodeType) -> tuple[list[Unit], list[Entry]]:
    """The instructions of a code object, and its exception table in offsets."""
    from bytecode import ConcreteBytecode

    concrete = ConcreteBytecode.from_code(code, extended_arg=True)  # it refuses EXTENDED_ARG before an op without argument
    instrs, units = list(concrete), []
    start = at = high = 0
    location, position = None, NOWHERE
    while at < len(instrs):
        instr = instrs[at]
        name, arg = instr.name, instr.arg | high if instr.require_arg() else 0
        at += 1 + instr.use_cache_opcodes()
        if name == "EXTENDED_ARG":
            high = arg << 8
            continue
        if instr.location is not location:
            location = instr.location  # None where the line table is cut short
            position = NOWHERE if location is None else _position(location)
        units.append(Unit(2 * start, name, arg, 2 * at, position))
        start, high = at, 0
    entries = [
        Entry(2 * entry.start_offset, 2 * entry.stop_offset + 2, 2 * entry.target, entry.stack_depth, entry.push_lasti)
        for entry in concrete.exception_table
    ]
    return units, entries


def _position(location: Any) -> Position:
    return location.lineno, location.end_lineno, location.col_offset, location.end_col_offset


def write(lows: list, start: dict) -> Layout:
    """The Lows as code and exception table. `start`: Instr -> the Low that a jump or an exception to it arrives at."""
    index = {low: k for k, low in enumerate(lows)}
    instrs = _instructions(lows)
    places = _unit_offsets(instrs, [(k, index[start[low.target]]) for k, low in enumerate(lows) if low.target is not None])
    code = b"".join(instr.assemble() + bytes(2 * instr.use_cache_opcodes()) for instr in instrs)
    handlers = runs([low.instr.handler for low in lows], places)
    rows = [(first, end - 1, places[index[start[to.target]]], to.depth, to.lasti) for to, first, end in handlers if to]
    return Layout(code, _exception_table(rows) if rows else b"", places)


def _instructions(lows: list) -> list:
    """The Lows as the package's instructions: a jump has one of its own, equal others share one."""
    from bytecode import ConcreteInstr
    from bytecode.instr import opcode_has_argument

    made, instrs = {}, []
    for low in lows:
        key = (low.name, low.arg) if low.target is None else low
        if key not in made:
            arg = (low.arg,) if opcode_has_argument(opcode.opmap[low.name]) else ()
            made[key] = ConcreteInstr(low.name, *arg)
        instrs.append(made[key])
    return instrs


def _unit_offsets(instrs: list, jumps: list) -> list[int]:
    """The unit at which each instruction starts, and the end, once jumps ((from, to) by number) have found their length."""
    caches = [instr.use_cache_opcodes() for instr in instrs]
    grown = True
    while grown:
        places = [0, *accumulate(instr.size // 2 + more for instr, more in zip(instrs, caches))]
        grown = False
        for k, target in jumps:
            size = instrs[k].size
            instrs[k].arg = abs(places[target] - places[k + 1])
            grown |= instrs[k].size != size
    return places


def _exception_table(rows: list) -> bytes:
    """The table of (first unit, last unit, target, depth, lasti). The package writes it into a code object: that of a NOP."""
    from bytecode import ConcreteBytecode, ConcreteInstr
    from bytecode.concrete import ExceptionTableEntry

    carrier = ConcreteBytecode([ConcreteInstr("NOP")], exception_table=[ExceptionTableEntry(*row) for row in rows])
    return carrier.to_code(stacksize=0, compute_exception_stack_depths=False).co_exceptiontable


def runs(values: list, places: list) -> list:
    """(value, first unit, end unit) for neighbours with the same value."""
    found = []
    for value, first, end in zip(values, places, places[1:]):
        if found and found[-1][0] == value:
            found[-1][2] = end
        else:
            found.append([value, first, end])
    return found
