"""Cut a function at an instruction: what ran so far stays with the caller, the rest becomes a *resume function*.

    point = split(code, k, depth, nulls, unbound)
        runs from instruction k on. k: index in decode(code); depth: of the stack there; nulls: slots, counted from the
        bottom, that are NULL; unbound: names without value (an unbound local must be named: loading it is a crash)
    exit_sequence(emitter, point, load_door)
        with the stack of `depth` slots, the locals and the cells in place: return door(*arguments, *cells)
    emit_break(emitter, instrs, k, depth, nulls, unbound, leave)
        with the stack before k in place: run k in Python, then leave(emitter, index, depth, nulls, unbound) for each
        way on: next instruction, jump target, exception handler

A resume function takes `point.arguments` (live locals first, then stack values), has the cells as free variables
(`point.cells`), pushes the stack again, NULLs too, and jumps to its instruction; jumping into a for, with, try or
handler range is legal, so nothing is entered twice. An exception that is being handled crosses by itself: the thread
keeps it, and the entry to go back to is a stack value. A resume function can be traced and cut again.

How a break is written (prefix = code with the same arguments as the frame):
    e = Emitter(position); e.prologue(instrs)
    ...call the graph, replay side effects, store live locals and cells, push the stack slot by slot
    def leave(e, index, depth, nulls, unbound):
        point = split(code, index, depth, nulls, unbound, instrs=instrs, live=live)
        exit_sequence(e, point, lambda e: e.load_const(door_for(point)))
    emit_break(e, instrs, k, depth, nulls, unbound, leave, before=lambda e: ...)
    new_code = e.assemble(code)
When the break under a handler raises, the original handler runs in its own resume function with the stack (values
below, lasti if so, exception): the prefix's stack must therefore be exactly the original's. Not cut: generators,
coroutines, class and module bodies, the prologue before RESUME.
"""

from __future__ import annotations

import inspect
import types
from types import CodeType
from typing import Any, NamedTuple
from collections.abc import Callable

from ...runtime.dataclass import data
from ...runtime.errors import InternalError, Unsupported
from . import opcodes
from .assemble import assemble
from .emitter import Emitter
from .instructions import clone, decode, successors
from .liveness import READS_FRAME, SYNTHETIC, Liveness, again_cells, cells_used, implicit_self, is_local, maybe_empty_cells
from ..state import native

_RESUME = "<resume "
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_NEED_CONTENT = frozenset({"LOAD_DEREF", "DELETE_DEREF"})
_RAISES_AGAIN = ["COPY", "POP_EXCEPT", "RERAISE"]  # the end of a finally, with or except block that is left
_STARRED = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class Argument(NamedTuple):
    """One argument of a resume function: a "local" or a cell's "content" by name, or a "stack" slot from the bottom."""

    kind: str
    key: str | int


@data
class ResumePoint:
    """A resume function's code, the instruction of the original code it starts at, and what to call it with."""

    code: CodeType
    index: int
    depth: int
    nulls: frozenset[int]
    arguments: tuple[Argument, ...]
    kept: tuple[int | None, ...]  # for each instruction of its body, the original's index (None: written by us)

    @property
    def cells(self) -> tuple[str, ...]:
        """Names of the cells to pass after the arguments, in the order of the code's free variables."""
        return self.code.co_freevars


def check_splittable(code: types.CodeType, instrs: list) -> None:
    """Raise Unsupported for code that can't be cut anywhere."""
    if code.co_flags & _SUSPENDS:
        raise Unsupported(
            "generator frame", f"{code.co_qualname} is a generator or coroutine: it can't be resumed in another frame"
        )
    if not code.co_flags & inspect.CO_OPTIMIZED:
        raise Unsupported("namespace frame", f"{code.co_qualname} is a class or module body: its names live in a namespace")
    again = again_cells(instrs)
    cleared = [instr.argval for instr in instrs if instr.op == "LOAD_FAST_AND_CLEAR" and instr.argval in again]
    if len(cleared) > len(again) or not {*code.co_cellvars}.isdisjoint(code.co_freevars):
        raise Unsupported("opcode", f"in {code.co_qualname} comprehensions use the slot of a cell for different things")


def is_resume(code: types.CodeType) -> bool:
    return code.co_qualname.startswith(_RESUME)


def first_own(code: types.CodeType, instrs: list) -> int:
    """Index of the first instruction that is the program's: after the prologue, and after the stack is there again."""
    start = next(i.index for i in instrs if i.op == "RESUME") + 1
    if is_resume(code):
        start = next(i.index for i in instrs[start:] if i.op == "JUMP") + 1
    return start


def split(
    code: types.CodeType,
    index: int,
    depth: int,
    nulls: Any = (),
    unbound: Any = (),
    *,
    instrs: list | None = None,
    live: Liveness | None = None,
    empty: list | None = None,
    dead: frozenset = frozenset(),
) -> ResumePoint:
    """The resume function that runs `code` from instruction `index` on. `instrs`, `live`, `empty`: its Listing's. `dead`: locals
    that are not read again and are passed for their lifetime."""
    instrs = instrs or decode(code)
    check_splittable(code, instrs)
    if index < first_own(code, instrs):
        raise InternalError(f"bytecode: instruction {index} of {code.co_qualname} is in its prologue")
    live = live or Liveness(instrs, code)
    rest = [instrs[at] for at in _reachable(instrs, index)]
    cells = _cells(code, rest, unbound, live.all)
    arguments = _arguments(code, live.before(index) | dead, frozenset(unbound), depth, frozenset(nulls))
    _, new = clone(rest)
    empty = maybe_empty_cells(instrs, code) if empty is None else empty
    own = set(cells).intersection(code.co_cellvars)
    body, kept = [], []
    for old in rest:
        parts = [new[old]]
        if old.op == "RERAISE" and not old.argval:  # else the frame goes back to the line that raised
            parts = _before(new[old], write_end)
        elif old.op in _NEED_CONTENT and old.argval in own & empty[old.index]:
            parts = _before(new[old], write_check)
        body += parts
        kept += [old.index, *[None] * (len(parts) - 1)]
    parameters = _parameters(arguments)
    start = Emitter(instrs[index].position)
    _enter(start, dict(zip(arguments, parameters)), cells, depth)
    start.jump(new[instrs[index]])
    made = assemble(
        start.instrs + body,
        code,
        name=code.co_name,
        qualname=_qualname(code, instrs[index]),
        args=parameters,
        locals=_locals(code, rest),
        freevars=cells,
        names=[READS_FRAME] * live.all + ["super"] * ("super" in code.co_names),  # the next cut must know
        cellvars=[name for name in code.co_cellvars if name in unbound and name not in cells],
        flags=code.co_flags & ~_STARRED,
    )
    return ResumePoint(made, index, depth, frozenset(nulls), arguments, tuple(kept))


def _before(instr: Any, write: Callable) -> list:
    """The instruction behind what `write(e, instr)` writes, which runs under the same handler."""
    e = Emitter(instr.position)
    with e.at(instr.position, instr.handler):
        write(e, instr)
        e.emit(instr.op, instr.argval)
    instr.op, instr.argval = e.instrs[0].op, e.instrs[0].argval  # whoever jumps to it comes by
    return [instr, *e.instrs[1:]]


def write_check(e: Emitter, instr: Any) -> None:
    """What names an own cell, now a free variable: if it is empty the error must stay that of a local."""
    e.load_const(native.full_cell)
    e.as_callable()
    e.load_closure(instr.argval)
    e.load_const(instr.argval)
    e.call(2)
    e.pop()


def write_end(e: Emitter, instr: Any) -> None:
    """The exception on top leaves this frame: the frame that raised it, the same call to the program, ends at this line, too."""
    if instr.position[0] is not None:
        e.load_const(native.ended_at)
        e.as_callable()
        e.copy(3)
        e.load_const(instr.position[0])
        e.call(2)
        e.pop()


def _reachable(instrs: list, index: int) -> list:
    """Indices of what can run from `index` on, in order."""
    seen, work = set(), [index]
    while work:
        at = work.pop()
        if at not in seen:
            seen.add(at)
            work += successors(instrs, at)
            if instrs[at].handler:
                work.append(instrs[at].handler.target.index)
    return sorted(seen)


def _cells(code: types.CodeType, rest: list, unbound: Any, every: bool) -> tuple:
    """Cells that cross: all free variables (super() looks for __class__), and the own cells that the rest names."""
    used = cells_used(rest, code)
    own = [name for name in code.co_cellvars if (name in used or name == implicit_self(code) or every) and name not in unbound]
    return (*own, *(name for name in code.co_freevars if name not in unbound))


def _arguments(code: types.CodeType, live: frozenset, unbound: frozenset, depth: int, nulls: frozenset) -> tuple:
    names = dict.fromkeys((*code.co_varnames, *sorted(live)))  # a comprehension's own slots have names of ours
    arguments = [Argument("local", name) for name in names if name in live and name not in unbound]
    self_name = implicit_self(code)
    if self_name is not None and self_name in code.co_cellvars and self_name not in unbound:
        arguments.insert(0, Argument("content", self_name))
    return (*arguments, *(Argument("stack", slot) for slot in range(depth) if slot not in nulls))


def _locals(code: types.CodeType, rest: list) -> list:
    """Plain locals that the rest names."""
    named = (instr.argval for instr in rest if opcodes.NORMAL_OPS[instr.op].kind == "fast")
    return [name for name in dict.fromkeys(named) if is_local(code, name)]


def _parameters(arguments: tuple) -> list:
    """Names for the arguments; a resume function that is cut may have locals of such names already."""
    taken = {argument.key for argument in arguments if argument.kind == "local"}

    def name(argument: Argument) -> str:
        free = f"{SYNTHETIC}{argument.kind}_{argument.key}"
        while free in taken:
            free += "_"
        return free

    return [argument.key if argument.kind == "local" else name(argument) for argument in arguments]


def _enter(e: Emitter, parameters: dict, cells: tuple, depth: int) -> None:
    """Cells into their slots, and the stack as it was. `parameters`: Argument -> name."""
    if cells:
        e.emit("COPY_FREE_VARS", len(cells))
    e.emit("RESUME", 0)
    write_taken(e)
    for slot in range(depth):
        name = parameters.get(Argument("stack", slot))
        e.take_fast(name) if name else e.push_null()


def write_taken(e: Emitter) -> None:
    """From here on the frame alone holds its arguments, as in a plain call."""
    e.run(native.taken)


def _qualname(code: types.CodeType, instr: Any) -> str:
    """<resume NAME at LINE>; the plain name stays the function's, so that tracebacks read as without compilation."""
    return f"{_RESUME}{code.co_name} at {instr.line or code.co_firstlineno}>"


def exit_sequence(e: Any, point: Any, load_door: Any) -> Any:
    """Write `return door(*arguments, *cells)`; the stack of point.depth slots lies there, locals and cells too. This frame, which
    a traceback may keep, has none of them then."""
    slots = [e.temp("slot") for _ in range(point.depth)]
    for slot in reversed(slots):
        e.store_fast(slot)  # also takes a NULL
    load_door(e)
    e.as_callable()
    for kind, key in point.arguments:
        if kind == "stack":
            e.move_fast(slots[key])
        elif kind == "local":
            e.move_fast(key)
        else:
            e.load_deref(key)
    for name in point.cells:
        e.load_closure(name)
    e.call(len(point.arguments) + len(point.cells))
    e.return_value()


class _State(NamedTuple):
    """What the frame looks like: stack depth, NULL slots, names without value."""

    depth: int
    nulls: frozenset[int]
    unbound: frozenset[str]


def emit_break(
    e: Emitter,
    instrs: list,
    index: int,
    depth: int,
    nulls: frozenset,
    unbound: frozenset,
    leave: Callable,
    before: Callable | None = None,
) -> None:
    """Write instruction `index` so that Python runs it, then `leave(e, index, depth, nulls, unbound)` for each way on.

    The stack before the instruction lies there, exactly as in the original.
    `before(e)` may write what comes just before the instruction; it leaves the stack as it is.
    """
    instr, state = instrs[index], _State(depth, frozenset(nulls), frozenset(unbound))
    caught, jumped = e.label(), e.label()
    with e.at(instr.position):
        if before:
            before(e)
        with e.at(handler=instr.handler and instr.handler._replace(target=caught)):
            _run(e, instr, jumped)
        if instr.op not in opcodes.NO_FALLTHROUGH:
            leave(e, index + 1, *_after(instr, state, jump=False))
        if instr.target:
            e.place(jumped)
            leave(e, instr.target.index, *_after(instr, state, jump=True))
        if instr.handler:
            e.place(caught)
            _enter_handler(e, instrs, instr.handler, state, leave)


def _run(e: Emitter, instr: Any, jumped: Any) -> None:
    """The instruction itself; what pushes a pair pushes one whose NULL we know the place of."""
    plain = {"LOAD_METHOD": "LOAD_ATTR", "LOAD_SUPER_METHOD": "LOAD_SUPER_ATTR"}.get(instr.op)
    if instr.op == "RERAISE" and not instr.argval:
        write_end(e, instr)
    e.emit(plain or instr.op, instr.argval, jumped if instr.target else None)
    if plain:
        e.as_callable()


def _enter_handler(e: Emitter, instrs: list, handler: Any, state: _State, leave: Callable) -> None:
    """The stack was cut; lasti, if so, and the exception are on it. Another frame can't use this lasti: it gets 0."""
    last = instrs[handler.target.index :][: len(_RAISES_AGAIN)]
    if handler.lasti and [i.op for i in last] == _RAISES_AGAIN and not any(i.handler for i in last):
        for instr in last:  # this frame's end, which leaves its line as that of what raised
            with e.at(instr.position):
                e.emit(instr.op, instr.argval)
        return
    if handler.lasti:
        e.swap(2)
        e.pop()
        e.load_const(0)
        e.swap(2)
    nulls = frozenset(slot for slot in state.nulls if slot < handler.depth)
    leave(e, handler.target.index, handler.entry_depth, nulls, state.unbound)


def _after(instr: Any, state: _State, jump: bool) -> _State:
    """The frame after an instruction that raised nothing."""
    pops, pushes = opcodes.effect(instr.op, instr.argval, jump)
    depth = state.depth - pops + pushes
    slots = [slot in state.nulls for slot in range(state.depth)]
    unbound = state.unbound
    top = bool(slots) and slots[-1]
    stack = slots[: state.depth - pops] + [False] * pushes
    if instr.op in ("LOAD_METHOD", "LOAD_SUPER_METHOD"):
        stack[-2:] = opcodes.call_pair(False, True)
    elif instr.op == "PUSH_NULL":
        stack[-1] = True
    elif instr.op == "COPY":
        stack[-1] = slots[-instr.argval]
    elif instr.op == "SWAP":
        stack[-1], stack[-instr.argval] = stack[-instr.argval], stack[-1]
    elif instr.op == "LOAD_FAST_AND_CLEAR":
        stack[-1], unbound = instr.argval in unbound, unbound | {instr.argval}
    elif instr.op == "STORE_FAST":
        unbound = unbound | {instr.argval} if top else unbound - {instr.argval}
    elif instr.op == "DELETE_FAST":
        unbound = unbound | {instr.argval}
    elif instr.op == "MAKE_CELL":
        unbound = unbound - {instr.argval}
    return _State(depth, frozenset(slot for slot, null in enumerate(stack) if null), unbound)
