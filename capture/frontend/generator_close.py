"""What dropping a half consumed generator does: GeneratorExit is raised where it waits.

In: the frame of a generator that waits inside a `try`. Out: whether all that its handlers do is to look whether the exception is
theirs, and to let it pass. Then a trace need not run them, and nobody sees at which moment Python drops the generator.
"""

from __future__ import annotations

from typing import Any

from ..breaks import UserRaise
from ..variables.sequences import TupleVariable

PASSED = ("PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "NOP")
LEAVES = "STOPITERATION_ERROR"  # the handler around a whole generator


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
