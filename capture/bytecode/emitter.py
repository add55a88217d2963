"""Writes new bytecode without knowing the version: one method per thing to write, named like the normal op.

    e = Emitter(position=instr.position)
    e.prologue(decode(code))            # COPY_FREE_VARS, MAKE_CELLs, RESUME of the frame being replaced
    e.load_const(compiled); e.as_callable(); e.load_fast("x"); e.call(1)
    done = e.label(); e.pop_jump_if_none(done); ...; e.place(done)
    e.return_value()
    new_code = e.assemble(code)         # arguments, flags, cells as in `code`

A call is: push the callable, `as_callable()`, push the arguments, `call(n, kwnames)`; load_method leaves a pair on the
stack and needs no `as_callable()`. To rebuild a stack slot by slot use `push_null()` where a slot is
NULL: slots are in real order (opcodes.py).
`position` and `handler` are given to every instruction written; change them with `at(...)`.
"""

from __future__ import annotations

import types
from contextlib import contextmanager
from collections.abc import Callable, Iterator
from typing import Any

from . import opcodes
from .assemble import assemble
from .instructions import NOWHERE, Instr
from .liveness import SYNTHETIC

_SIMPLE_LOADS = frozenset({"LOAD_CONST", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_GLOBAL", "LOAD_DEREF"})


def _writes(op: str) -> Callable[..., None]:
    """A method that writes this op, with what it is given as the argument."""

    def write(self: Emitter, argval: Any = None) -> None:
        self.emit(op, argval)

    return write


def _jumps(op: str) -> Callable[..., None]:
    """A method that writes this op with a label to jump to."""

    def write(self: Emitter, label: Instr) -> None:
        self.emit(op, None, label)

    return write


class Emitter:
    def __init__(self, position: tuple = NOWHERE, handler: Any = None):
        self.instrs: list[Instr] = []
        self.position, self.handler = position, handler
        self._made: set[str] = set()

    def emit(self, op: str, argval: Any = None, target: Instr | None = None) -> Instr:
        instr = Instr(op, argval, target, self.position, self.handler)
        self.instrs.append(instr)
        return instr

    def forget_temps(self) -> None:
        """Temporaries have no value from here on: of what was written, which may not jump, the last load of each takes it."""
        loaded, kept = set(), []
        for instr in reversed(self.instrs):
            name = instr.argval if instr.op in ("LOAD_FAST_CHECK", "STORE_FAST") else None
            if name in self._made and name not in loaded:
                if instr.op == "LOAD_FAST_CHECK":
                    loaded.add(name)
                    kept.append(instr.derive("DELETE_FAST", name))
                else:
                    instr.op, instr.argval = "POP_TOP", None
            kept.append(instr)
        self.instrs = kept[::-1]

    @contextmanager
    def at(self, position: tuple | None = None, handler: Any = None) -> Iterator[None]:
        """Write at another source position and/or under another handler. `handler` None means none."""
        before = self.position, self.handler
        self.position, self.handler = position or self.position, handler
        yield
        self.position, self.handler = before

    def assemble(self, like: types.CodeType, **kwargs: Any) -> types.CodeType:
        return assemble(self.instrs, like, **kwargs)

    def temp(self, hint: str = "t") -> str:
        """A local name that no Python program has."""
        name = f"{SYNTHETIC}{hint}_{len(self._made) + 1}"
        self._made.add(name)
        return name

    def prologue(self, instrs: list) -> None:
        """The instructions that a frame of that code starts with, up to RESUME."""
        for instr in instrs:
            with self.at(instr.position):
                self.emit(instr.op, instr.argval)
            if instr.op == "RESUME":
                return

    def extend(self, instrs: list) -> None:
        """Take over instructions as they are (their targets and handlers included)."""
        self.instrs += instrs

    # stack
    load_const = _writes("LOAD_CONST")
    pop = _writes("POP_TOP")
    push_null = _writes("PUSH_NULL")

    def copy(self, n: int = 1) -> None:
        self.emit("COPY", n)

    def swap(self, n: int = 2) -> None:
        self.emit("SWAP", n)

    def rotate(self, n: Any) -> None:
        """The top goes below the n-1 entries under it."""
        for depth in range(n, 1, -1):
            self.swap(depth)

    # names; a load of a local always checks that there is a value
    load_fast = _writes("LOAD_FAST_CHECK")
    take_fast = _writes("LOAD_FAST_AND_CLEAR")
    store_fast = _writes("STORE_FAST")
    delete_fast = _writes("DELETE_FAST")
    load_global = _writes("LOAD_GLOBAL")
    store_global = _writes("STORE_GLOBAL")
    load_closure = _writes("LOAD_CLOSURE")
    load_deref = _writes("LOAD_DEREF")
    store_deref = _writes("STORE_DEREF")

    def move_fast(self, name: Any) -> None:
        """Push the value of a local, which has none from then on; it must have one."""
        self.load_fast(name)
        self.delete_fast(name)

    # attributes and items; operands as on the stack: (value, obj) for store_attr, (value, obj, key) for store_subscr
    load_attr = _writes("LOAD_ATTR")
    load_method = _writes("LOAD_METHOD")
    store_attr = _writes("STORE_ATTR")
    delete_attr = _writes("DELETE_ATTR")
    binary_subscr = _writes("BINARY_SUBSCR")
    store_subscr = _writes("STORE_SUBSCR")

    # operators
    binary_op = _writes("BINARY_OP")
    compare_op = _writes("COMPARE_OP")

    def is_op(self, invert: int = 0) -> None:
        self.emit("IS_OP", int(invert))

    # containers
    build_tuple = _writes("BUILD_TUPLE")
    build_list = _writes("BUILD_LIST")
    build_map = _writes("BUILD_MAP")
    list_append = _writes("LIST_APPEND")
    set_update = _writes("SET_UPDATE")
    unpack_sequence = _writes("UNPACK_SEQUENCE")
    get_iter = _writes("GET_ITER")

    # calls
    def as_callable(self) -> None:
        """The top of the stack becomes the call pair of a call that binds no self."""
        last = self.instrs[-1] if self.instrs else None
        if not opcodes.NULL_FIRST:
            self.push_null()
        elif last is not None and last.op in _SIMPLE_LOADS:
            self.instrs.insert(-1, last.derive("PUSH_NULL"))
        else:
            self.push_null()
            self.swap(2)

    def call(self, count: int, kwnames: tuple = ()) -> None:
        self.emit("CALL", opcodes.CallShape(count, tuple(kwnames)))

    def run(self, function: Any) -> None:
        """A call without arguments, whose result nobody wants."""
        self.load_const(function)
        self.as_callable()
        self.call(0)
        self.pop()

    def call_function_ex(self, kwargs: Any = False) -> Any:
        self.emit("CALL_FUNCTION_EX", int(kwargs))

    def make_function(self, code: types.CodeType, closure: Any = ()) -> None:
        """Push a function; `closure`: names of the cells of this frame that it closes over."""
        for name in closure:
            self.load_closure(name)
        if closure:
            self.build_tuple(len(closure))
        self.load_const(code)
        self.emit("MAKE_FUNCTION", 8 if closure else 0)

    # control
    def label(self) -> Instr:
        """A place to jump to; `place` says where it is."""
        return Instr("NOP", None, None, self.position)

    def place(self, label: Any) -> Any:
        label.position, label.handler = self.position, self.handler
        self.instrs.append(label)

    jump = _jumps("JUMP")
    pop_jump_if_true = _jumps("POP_JUMP_IF_TRUE")
    pop_jump_if_none = _jumps("POP_JUMP_IF_NONE")
    for_iter = _jumps("FOR_ITER")
    return_value = _writes("RETURN_VALUE")
