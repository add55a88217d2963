"""Why a trace could not go on: graph breaks, exceptions of the traced program, and assumptions that did not hold.

`unsupported(code, ...)` makes the GraphBreak of a counted reason; CODES lists them all with what to do about it. Layers below and
above raise plain Unsupported, which becomes a GraphBreak in the frame that it passes through (`GraphBreak.of`).
`UserRaise` carries an exception that the *traced program* raises; its own handlers may catch it. `RestartTrace` starts the trace
again under other `Assumptions`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..runtime import counters, log
from ..runtime.errors import FlambeauError, Unsupported

CODES = {
    "print": "move the print out of the compiled function, or print after the call",
    "item": "keep the value as a tensor, or compute it outside of the compiled function",
    "data-dependent": "use where() instead of reading tensor values in Python",
    "branch-on-data": "write the choice with where(), or take the branch outside of the compiled function",
    "call": "write it with tensor operations, or leave it outside of the compiled function",
    "builtin": "write it with tensor operations or plain Python containers",
    "growth": "keep what grows out of the compiled function, or read its length or single members only",
    "generator": "a generator that is half consumed cannot cross a graph break: build a list",
    "attribute": "store a plain value, or move the attribute access out of the compiled function",
    "iterator": "pass a list or a tuple: an iterator's position cannot be guarded",
    "iteration": "iterate over a list, tuple, dict or range",
    "operator": "use operators that are defined for tensors, numbers and plain containers",
    "opcode": "this Python construct is not traced: leave it outside of the compiled function",
    "mutation": "mutate objects that the compiled function made itself, or outside of it",
    "metadata": "change requires_grad, data or geometry of a tensor outside of the compiled function",
    "grad-mode": "leave the no_grad block at the level where it was entered",
    "backward": "register hooks outside, and compute the loss in the function that calls backward()",
    "exception": "the program raises this without the compiler, too: mend it at this line, or let eager run it",
    "context-manager": "leave this context manager outside of the compiled function",
    "value": "pass tensors, numbers, strings, plain containers, modules or plain objects",
    "recursion": "the calls nest too deeply to be inlined",
    "long loop": "leave it outside of the compiled function: it runs as it is",
    "debugger": "remove the call of the debugger or tracer; until then the function that calls it runs plain",
    "disabled": "this function asked not to be compiled",
    "resume": "the frame's state at this point cannot be rebuilt",
    "code-kind": "generators and coroutines run plain at the top; call them from a compiled function instead",
    "in-place view": "use the form without underscore, or make a new tensor",
    "data-dependent size": "give the size as a number, or ask for it outside of the compiled function",
    "late guard": "ask for this size earlier, or outside of the compiled function",
    "generator frame": "compile the function that the generator calls",
    "namespace frame": "compile functions: the body of a class or module runs plain",
    "hidden alias": "return a copy: the operation has no rule for memory that it shares with its input",
    "aliased inputs": "pass tensors that do not overlap where one of them is written",
    "write through a view": "write into the base tensor",
    "boolean arithmetic": "cast to an integer type first",
    "dtype without C++ kernels": "compute in a type that the C++ backend has",
}


class GraphBreak(Unsupported):
    """A graph break, and where it is.

    `stack`: the user's frames (filename, line number, source line, function), innermost last; empty until a frame was left.
    `step`: the instruction of the root frame to break at, counted as they run, if it is an earlier one than that which failed.
    `whole_frame`: no part of the frame may be compiled. `guard`: what the entry in front of the break is guarded by (source,
    kind, payload), if the break comes only while that holds."""

    def __init__(self, code: str, text: str = "", fix: str = ""):
        super().__init__(code, text, fix)
        self.stack: tuple = ()
        self.step: int | None = None
        self.whole_frame: bool = False
        self.guard: tuple | None = None

    @classmethod
    def of(cls, error: Unsupported) -> GraphBreak:
        """The error itself, or the graph break that it means where the library raised it."""
        if isinstance(error, cls):
            return error
        made = cls(error.code, error.text, error.fix)
        made.__cause__ = error
        return made


def unsupported(
    code: str, text: str, fix: str = "", *, step: int | None = None, whole_frame: bool = False, guard: tuple | None = None
) -> GraphBreak:
    """The error of a graph break; the advice defaults to that of its code."""
    made = GraphBreak(code, text, fix or CODES[code])
    made.step, made.whole_frame, made.guard = step, whole_frame, guard
    return made


class UserRaise(Exception):
    """The traced program raises `variable` (an ExceptionVariable); `text` describes it for reports, `stack` is where it was
    raised, as in GraphBreak."""

    def __init__(self, variable: Any, text: str = ""):
        super().__init__(text)
        self.variable, self.text = variable, text
        self.stack: tuple = ()


class Assumptions(NamedTuple):
    """What a trace takes for granted of its frame until it finds otherwise."""

    aliases_unseen: bool = True  # nobody sees that the graph has a copy where eager's result shares memory
    leaves_unseen: bool = True  # leaves that the frame makes are not seen outside of it
    composites_closed: bool = True  # no backward in the frame goes through a composite that has to be opened for it

    def without(self, name: str, reason: GraphBreak | None = None) -> FlambeauError:
        """The error where one of them does not hold: trace again without it; where that was done already, break the graph."""
        return RestartTrace(self._replace(**{name: False})) if getattr(self, name) or reason is None else reason


class RestartTrace(FlambeauError):
    """Trace the frame again, from the start and under these assumptions."""

    def __init__(self, assumptions: Assumptions):
        super().__init__(f"trace again under {assumptions}")
        self.assumptions = assumptions


class SkipFrame(Exception):
    """The frame is left to Python because of `reason`."""

    def __init__(self, reason: GraphBreak):
        super().__init__(str(reason))
        self.reason = reason


listeners: list = []  # functions (code, text, line, fix): an explanation that is being made


def tell_break(reason: GraphBreak, line: str, below: str | None = None, silent: bool = False) -> None:
    """Count a break and tell it to whoever listens. `below`: the program's own line, where the break is in a library that it
    calls; of such a line the log tells once (`silent`: it has)."""
    counters.add("breaks", reason.code)
    if not silent:
        where = line if below in (None, line) else f"{below}: a library that this line calls breaks (told once), at {line}"
        log.channel("breaks")(f"{where}: {reason.text}", code=reason.code, fix=reason.fix)
    for listen in listeners:
        listen(reason.code, reason.text, line, reason.fix)
