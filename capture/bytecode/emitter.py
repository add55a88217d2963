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
from collections.abc import Iterator
from typing import Any

from . import opcodes
from .assemble import assemble
from .instructions import NOWHERE, Instr
from .liveness import SYNTHETIC

_SIMPLE_LOADS = frozenset({"LOAD_CONST", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_GLOBAL", "LOAD_DEREF"})


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
    def load_const(self, value: Any) -> None:
        self.emit("LOAD_CONST", value)

    def pop(self) -> None:
        self.emit("POP_TOP")

    def copy(self, n: int = 1) -> None:
        self.emit("COPY", n)

    def swap(self, n: int = 2) -> None:
        self.emit("SWAP", n)

    def push_null(self) -> None:
        self.emit("PUSH_NULL")

    def rotate(self, n: Any) -> None:
        """The top goes below the n-1 entries under it."""
        for depth in range(n, 1, -1):
            self.swap(depth)

    # names; a load of a local always checks that there is a value
    def load_fast(self, name: str) -> None:
        self.emit("LOAD_FAST_CHECK", name)

    def take_fast(self, name: str) -> None:
        self.emit("LOAD_FAST_AND_CLEAR", name)

    def move_fast(self, name: Any) -> None:
        """Push the value of a local, which has none from then on; it must have one."""
        self.load_fast(name)
        self.delete_fast(name)

    def store_fast(self, name: str) -> None:
        self.emit("STORE_FAST", name)

    def delete_fast(self, name: str) -> None:
        self.emit("DELETE_FAST", name)

    def load_global(self, name: str) -> None:
        self.emit("LOAD_GLOBAL", name)

    def store_global(self, name: str) -> None:
        self.emit("STORE_GLOBAL", name)

    def delete_global(self, name: str) -> None:
        self.emit("DELETE_GLOBAL", name)

    def load_closure(self, name: str) -> None:
        self.emit("LOAD_CLOSURE", name)

    def load_deref(self, name: Any) -> None:
        self.emit("LOAD_DEREF", name)

    def store_deref(self, name: str) -> None:
        self.emit("STORE_DEREF", name)

    def delete_deref(self, name: str) -> None:
        self.emit("DELETE_DEREF", name)

    # attributes and items; operands as on the stack: (value, obj) for store_attr, (value, obj, key) for store_subscr
    def load_attr(self, name: str) -> None:
        self.emit("LOAD_ATTR", name)

    def load_method(self, name: str) -> None:
        self.emit("LOAD_METHOD", name)

    def store_attr(self, name: str) -> None:
        self.emit("STORE_ATTR", name)

    def delete_attr(self, name: str) -> None:
        self.emit("DELETE_ATTR", name)

    def binary_subscr(self) -> None:
        self.emit("BINARY_SUBSCR")

    def store_subscr(self) -> None:
        self.emit("STORE_SUBSCR")

    def delete_subscr(self) -> None:
        self.emit("DELETE_SUBSCR")

    # operators
    def binary_op(self, symbol: Any) -> None:
        self.emit("BINARY_OP", symbol)

    def compare_op(self, symbol: Any) -> None:
        self.emit("COMPARE_OP", symbol)

    def is_op(self, invert: int = 0) -> None:
        self.emit("IS_OP", int(invert))

    def contains_op(self, invert: int = 0) -> None:
        self.emit("CONTAINS_OP", int(invert))

    def unary_not(self) -> None:
        self.emit("UNARY_NOT")

    # containers
    def build_tuple(self, n: int) -> None:
        self.emit("BUILD_TUPLE", n)

    def build_list(self, n: int) -> None:
        self.emit("BUILD_LIST", n)

    def build_set(self, n: Any) -> None:
        self.emit("BUILD_SET", n)

    def build_map(self, n: int) -> None:
        self.emit("BUILD_MAP", n)

    def build_string(self, n: Any) -> None:
        self.emit("BUILD_STRING", n)

    def build_slice(self, n: Any) -> None:
        self.emit("BUILD_SLICE", n)

    def list_append(self, n: Any) -> None:
        self.emit("LIST_APPEND", n)

    def list_extend(self, n: Any) -> None:
        self.emit("LIST_EXTEND", n)

    def set_update(self, n: Any) -> None:
        self.emit("SET_UPDATE", n)

    def dict_update(self, n: Any) -> None:
        self.emit("DICT_UPDATE", n)

    def list_to_tuple(self) -> None:
        self.emit("LIST_TO_TUPLE")

    def unpack_sequence(self, n: Any) -> None:
        self.emit("UNPACK_SEQUENCE", n)

    def get_iter(self) -> None:
        self.emit("GET_ITER")

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

    def jump(self, label: Any) -> None:
        self.emit("JUMP", None, label)

    def pop_jump_if_true(self, label: Any) -> None:
        self.emit("POP_JUMP_IF_TRUE", None, label)

    def pop_jump_if_false(self, label: Any) -> None:
        self.emit("POP_JUMP_IF_FALSE", None, label)

    def pop_jump_if_none(self, label: Any) -> None:
        self.emit("POP_JUMP_IF_NONE", None, label)

    def pop_jump_if_not_none(self, label: Any) -> None:
        self.emit("POP_JUMP_IF_NOT_NONE", None, label)

    def for_iter(self, end: Any) -> None:
        self.emit("FOR_ITER", None, end)

    def raise_varargs(self, n: Any) -> None:
        self.emit("RAISE_VARARGS", n)

    def return_value(self) -> None:
        self.emit("RETURN_VALUE")
