"""`eval(text)` of a constant text: the expression, interpreted where it stands.

The text becomes a function of the calling frame's locals that it names, which is inlined like any other. An expression with a
scope of its own (a lambda, a comprehension), or one that binds a name, is left to Python: what such a scope sees of the locals is
not what a function would see.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from ..breaks import unsupported
from .base import NULL, Variable
from .builtins import handles
from .functions import CellVariable

BINDS = ("STORE_NAME", "STORE_GLOBAL", "DELETE_NAME")


@functools.lru_cache(maxsize=256)
def names_of(text: str) -> tuple[str, ...] | None:
    """The names that an expression reads; None where it is not one, or does more than read."""
    import dis

    try:
        code = compile(text.lstrip(" \t"), "<string>", "eval")
    except (SyntaxError, ValueError):
        return None
    instrs = list(dis.get_instructions(code))
    scopes = any(isinstance(each, types.CodeType) for each in code.co_consts)
    if scopes or any(i.opname in BINDS or i.opname.startswith(("STORE_FAST", "LOAD_FAST_AND_CLEAR")) for i in instrs):
        return None
    return tuple(dict.fromkeys(i.argval for i in instrs if i.opname == "LOAD_NAME"))


@functools.lru_cache(maxsize=256)
def code_of(text: str, names: tuple[str, ...]) -> types.CodeType:
    made = compile(f"def evaluated({', '.join(names)}): return (\n{text.strip()}\n)", "<string>", "exec")
    return next(each for each in made.co_consts if isinstance(each, types.CodeType))


@handles(eval)
def _eval(tx: Any, source: Any, /, *tables: Variable, **named: Variable) -> Variable:
    text = source.plain() if not tables and not named and source.is_constant() else None
    if type(text) is not str:
        raise unsupported("builtin", "eval() of what is no constant text, or with tables of names")
    names = names_of(text)
    if names is None:
        raise unsupported("builtin", f"eval({text[:60]!r}), which has a scope of its own, binds a name or is no expression")
    frame = tx.frame
    found = {name: local(tx, frame, name) for name in names}
    bound = {name: value for name, value in found.items() if value is not None}
    function = types.FunctionType(code_of(text, tuple(bound)), frame.globals, "evaluated")
    return tx.call(tx.wrap_pinned(function, "eval()"), list(bound.values()), {})


def local(tx: Any, frame: Any, name: str) -> Variable | None:
    """What the frame's local of this name holds; None where it has none now."""
    value = frame.slots.get(name)
    if isinstance(value, CellVariable) and name in (*frame.code.co_cellvars, *frame.code.co_freevars):
        value = value.get(tx)
    return None if value is NULL else value
