"""What is known of a code object, kept from one trace to the next: its instructions and what follows from them.

In: a code object. Out: its Listing. Each part is computed when it is first asked for. A listing goes with its code object, and
the one that was not asked for longest goes when more than MOST instructions are kept. The instructions are shared: nobody changes
them (`decode` gives a list of one's own).
"""

from __future__ import annotations

import threading
import weakref
import types
from typing import Any

from ...runtime import locks
from ...runtime.locks import cached_property
from . import opcodes
from .instructions import Instr, decode
from .liveness import SYNTHETIC, Liveness, again_cells, maybe_empty_cells, reads_frame

MOST = 40_000  # instructions; some 10 MB
OWN = f"{SYNTHETIC}own_"  # how the slot of a comprehension's variable is named that shares its name with a cell


def with_own_slots(instrs: list, code: types.CodeType) -> Any:
    """The variable of an inlined comprehension, where it has the name of a cell, as a local of its own: no slot holds now a cell
    and now a value, which a resume function could not be given. Where a comprehension makes a cell of it too, the slot stays."""
    own = {i.argval for i in instrs if i.op == "LOAD_FAST_AND_CLEAR"}.difference(again_cells(instrs))
    shared = own.intersection(code.co_varnames, {*code.co_cellvars, *code.co_freevars})
    renamed = {name: f"{OWN}{name}" for name in shared}
    for instr in instrs if renamed else ():
        if opcodes.NORMAL_OPS[instr.op].kind == "fast":
            instr.argval = renamed.get(instr.argval, instr.argval)
    return instrs


class CodeAnalysis:
    def __init__(self, code: Any):
        self._code = weakref.ref(code)
        self.instrs: list[Instr] = with_own_slots(decode(code), code)

    @cached_property
    def live(self) -> Liveness:
        return Liveness(self.instrs, self._code())

    @cached_property
    def empty_cells(self) -> list[frozenset[str]]:
        """Before each instruction, the function's own cells that may have no content then."""
        return maybe_empty_cells(self.instrs, self._code())

    @cached_property
    def reads_frame(self) -> bool:
        return reads_frame(self.instrs, self._code())


class CodeCache:
    """Listings by the identity of their code: equal code objects may differ in their line tables."""

    def __init__(self, most: Any = MOST):
        self.kept: dict[int, tuple[weakref.ref, CodeAnalysis]] = {}  # the one asked for last at the end
        self.size, self.most = 0, most
        self.lock = locks.fresh(threading.RLock)  # a code object may die while it is held

    def __call__(self, code: types.CodeType) -> CodeAnalysis:
        with self.lock:
            known = self.kept.get(id(code))
            if known is not None and known[0]() is code:
                self.kept[id(code)] = self.kept.pop(id(code))
                return known[1]
        return self.keep(code, CodeAnalysis(code))

    def keep(self, code: types.CodeType, found: CodeAnalysis) -> CodeAnalysis:
        key = id(code)
        with self.lock:
            self.drop(key)
            self.kept[key] = weakref.ref(code, lambda reference: self.drop(key, reference)), found
            self.size += len(found.instrs)
            while self.size > self.most and len(self.kept) > 1:
                self.drop(next(iter(self.kept)))
        return found

    def drop(self, key: int, reference: Any = None) -> None:
        with self.lock:
            kept, found = self.kept.get(key, (None, None))
            if found is not None and reference in (None, kept):
                del self.kept[key]
                self.size -= len(found.instrs)


listing = CodeCache()
