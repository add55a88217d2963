"""What libraries tell while they work: `warnings` here, `logging` in loggers.py.

What they tell is told behind the graph, in its turn among the other side effects: by a small function that stands where the
program's own line stands, so that the file, the line, the name of the function and the registry of the module are those that
Python would find. Where a warning would raise, the call is a graph break.
"""

from __future__ import annotations

import types
import warnings
from typing import Any

from ..breaks import unsupported
from .base import Variable
from .arguments import call_error
from .builtins import handles
from .sequences import TupleVariable


@handles(warnings.warn)
def _warn(
    tx: Any,
    message: Variable,
    category: Variable | None = None,
    stacklevel: Variable | None = None,
    source: Variable | None = None,
    *,
    skip_file_prefixes: Variable | None = None,
) -> Variable:
    if (
        not message.is_constant()
        or category is not None
        and not category.is_constant()
        or source is not None
        or skip_file_prefixes is not None
    ):
        raise unsupported("call", "warnings.warn() of what is no constant")
    kind = category.plain() if category is not None and category.plain() is not None else UserWarning
    levels = stacklevel.plain() if stacklevel is not None else 1
    if not isinstance(kind, type) or not isinstance(levels, int):
        raise call_error(warnings.warn)
    guarded = WarningFilterGuard(kind)
    if (
        not isinstance(message.plain(), str)
        or not guarded(warnings)
        or tx.known(warnings.filters) in tx.effects.containers
        or tx.effects.stored_global(vars(warnings), "filters")
        or tx.effects.stored_global(vars(warnings), "showwarning")
    ):
        raise unsupported("call", f"a warning that may raise, or that the program looks at: {kind.__name__}")
    tx.guard(tx.pinned(warnings, "warnings"), "predicate", guarded)
    call_after_graph(tx, warnings.warn, [message, tx.constant(kind)], {}, levels)
    return tx.constant(None)


class WarningFilterGuard:
    """Guard: a warning of this kind raises nothing, and nobody but Python shows it."""

    def __init__(self, kind: Any):
        self.kind, self.shows = kind, warnings.showwarning

    def __call__(self, module: Any) -> Any:
        raises = any(action == "error" and issubclass(self.kind, kind) for action, _, kind, *_ in module.filters)
        return not raises and module.showwarning is self.shows

    def __str__(self) -> str:
        return f"{self.kind.__name__} is shown, not raised"


def refuse_values(args: Any, kwargs: dict) -> None:
    """What is told later must be what it is now."""
    for value in (*args, *kwargs.values()):
        value = value.realize()
        if isinstance(value, TupleVariable):
            refuse_values(value.items, {})
        elif not value.is_constant():
            raise unsupported("call", f"a message with {value} in it")


def call_after_graph(tx: Any, function: Any, args: Any, kwargs: dict, levels: int | None = None) -> None:
    """Call it behind the graph, with `stacklevel` as if from here."""
    frames = tx.frames[1:]  # of the outermost, the generated code itself stands there
    call = function if not frames else chain(function, frames)
    tx.effects.call(call, args, kwargs if levels is None else kwargs | {"stacklevel": tx.constant(levels)})


def chain(function: Any, frames: Any) -> Any:
    """The function behind frames that look like these, outermost first."""
    for frame in reversed(frames):
        function = standing_in(function, frame)
    return function


def standing_in(function: Any, frame: Any) -> Any:
    """A function that only calls another, in the file, at the line and under the name of a frame."""
    line = frame.line or frame.code.co_firstlineno
    code = _call.__code__.replace(
        co_filename=frame.code.co_filename,
        co_name=frame.code.co_name,
        co_firstlineno=line,
        co_qualname=frame.code.co_qualname,
        co_linetable=one_line(_call.__code__),
    )
    made = types.FunctionType(code, frame.globals, frame.code.co_name, None, (types.CellType(function),))
    return made


def _outer(function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


_call = _outer(None)


def one_line(code: types.CodeType) -> bytes:
    """A table of lines that says of all instructions: the first line."""
    units, table = len(code.co_code) // 2, bytearray()
    while units > 0:
        length = min(units, 8)
        table += bytes([0x80 | 13 << 3 | length - 1, 0])  # no columns, the line before and 0 more
        units -= length
    return bytes(table)
