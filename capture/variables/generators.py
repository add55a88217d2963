"""Generators of the program: a frame that runs from one yield to the next, inside of the trace.

In: the frame of a generator function, which is interpreted as far as somebody asks for a member. What dropping a half consumed
generator does is decided here as well: Python raises GeneratorExit where it waits. Where all that the handlers around that place
do is to look whether the exception is theirs, and to let it pass, a trace need not run them, and nobody sees at which moment
Python drops the generator.
"""

from __future__ import annotations

import types
from typing import Any

from ..breaks import UserRaise, unsupported
from ..bytecode.opcodes import CLOSE_RETURNS
from .base import Variable
from .exceptions import ExceptionVariable, TracebackVariable
from .iterators import IteratorVariable
from .objects import ClassVariable
from .sequences import TupleVariable

PASSED = ("PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "NOP")
LEAVES = "STOPITERATION_ERROR"  # the handler around a whole generator


class GeneratorVariable(IteratorVariable):
    """A generator: its frame runs from one yield to the next."""

    cls = types.GeneratorType

    def __init__(self, frame: Any):
        super().__init__()
        self.frame, self.started, self.done, self.returned = frame, False, False, None
        self.made_at = frame.tx.frames[0].step - 1
        frame.tx.generators.append(self)

    def get_attr(self, tx: Any, name: str) -> Variable:
        if name in ("__name__", "__qualname__"):
            return tx.constant(self.frame.code.co_name if name == "__name__" else self.frame.code.co_qualname)
        return super().get_attr(tx, name)

    def next(self, tx: Any, sent: Any = None) -> Any:
        if self.done:
            self.returned = None  # told once, to whoever ran it to its end
            return None
        if self.frame in tx.frames:
            raise unsupported("generator", f"a generator of {self.frame.code.co_qualname} is advanced while it runs")
        sent = (sent or tx.constant(None)).realize()
        if self.started:
            self.frame.push(sent)
        elif not (sent.is_constant() and sent.plain() is None):
            tx.raise_error(TypeError, "can't send non-None value to a just-started generator")
        self.started = True
        try:
            value = self.frame.run()
        except BaseException:
            self.done = True
            raise
        if self.frame.result is not None:
            self.done, self.returned = True, self.frame.result
            return None
        return value

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Any:
        if name == "send":
            value = self.next(tx, args[0])
            return value if value is not None else tx.stop_iteration(self)
        if name == "close":
            return self.close(tx)
        if name == "throw":
            return self.throw(tx, args)
        return super().call_method(tx, name, args, kwargs)

    def close(self, tx: Any) -> Variable | None:
        """Run what the generator has in `finally` and `with`."""
        if not self.started:
            self.done = True
        if not self.done:
            error, ignored = UserRaise(ExceptionVariable(GeneratorExit)), False
            try:
                if self.frame.handle(error):
                    ignored = self.frame.run() is not None and self.frame.result is None
                    if ignored:  # it waits at that yield, and goes on when it is asked again
                        tx.raise_error(RuntimeError, "generator ignored GeneratorExit")
                    if CLOSE_RETURNS:
                        return self.frame.result
            except UserRaise as raised:
                if not issubclass(raised.variable.cls, GeneratorExit):
                    raise
            finally:
                self.done = not ignored
        return tx.constant(None)

    def refuse_unfinished(self) -> None:
        """Python would run the rest of a `finally` or `with` when it drops the generator; let Python have it."""
        if self.started and not self.done and not closes_quietly(self.frame.tx, self.frame):
            what = f"a generator of {self.frame.code.co_qualname} is left inside a try or with"
            raise unsupported("generator", what, step=self.made_at)

    def throw(self, tx: Any, args: list) -> Variable:
        raised = args[1] if len(args) > 1 and isinstance(args[1], ExceptionVariable) else args[0]
        if isinstance(raised, ClassVariable) and issubclass(raised.cls, BaseException) and len(args) == 1:
            raised = tx.call(raised, [], {})
        own = args[2].raised if len(args) == 3 and isinstance(args[2], TracebackVariable) else None
        no_trace = len(args) < 3 or own is raised or args[2].is_constant() and args[2].plain() is None
        if not isinstance(raised, ExceptionVariable) or not no_trace:
            raise unsupported("exception", f"throwing {raised} into a generator")
        error = UserRaise(raised)
        waiting = self.started and not self.done
        try:
            if not waiting or not self.frame.handle(error):
                raise error
            value = self.frame.run()
        except UserRaise:
            self.done = True
            raise
        if self.frame.result is not None:
            self.done, self.returned = True, self.frame.result
            tx.stop_iteration(self)
        return value

    def reconstruct(self, gen: Any) -> None:
        raise unsupported("generator", f"a generator of {self.frame.code.co_qualname} lives across the break")


def closes_quietly(tx: Any, frame: Any) -> bool:
    handler = frame.instr.handler
    while handler is not None and handler.target.op != LEAVES:
        at = passed(tx, frame, handler.target.index)
        if at is None:
            return False
        handler = frame.instrs[at].handler
    return True


def passed(tx: Any, frame: Any, at: int) -> int | None:
    """The index of the RERAISE that ends a handler which does nothing with GeneratorExit, or None."""
    asked: list = []
    for _ in frame.instrs:
        instr = frame.instrs[at]
        if instr.op == "RERAISE":
            return at
        at += 1
        if instr.op == "LOAD_GLOBAL":
            asked.append(exception(tx, frame, instr.argval))
        elif instr.op == "BUILD_TUPLE":
            asked[-instr.argval :] = [TupleVariable(asked[-instr.argval :])]
        elif instr.op == "CHECK_EXC_MATCH":
            if len(asked) != 1 or catches(asked.pop()):
                return None
        elif instr.op == "POP_JUMP_IF_FALSE":
            at = instr.target.index
        elif instr.op not in PASSED:
            return None
    return None


def exception(tx: Any, frame: Any, name: str) -> Any:
    try:
        return tx.load_global(frame, name).realize()
    except UserRaise:
        return None


def catches(wanted: Any) -> bool:
    """Whether an except clause is for GeneratorExit, as far as the trace can tell."""
    members = wanted.items if isinstance(wanted, TupleVariable) else [wanted]
    classes = [m.plain() if m is not None and m.is_constant() else None for m in members]
    return not all(isinstance(cls, type) and not issubclass(GeneratorExit, cls) for cls in classes)
