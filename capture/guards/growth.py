"""What the program's own writes change from call to call, where a trace relies on it: left to Python the third time.

In: what traces rely on (`relies`: the name of a place, its state), what they write (`note_writes`). Out: the graph break
`growth` at an instruction that would rely on yet another state. A door keeps the states that it has code for, a compiled
object what its frames write and which instructions break: a function that is captured by itself behind such a break breaks
there at once.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ...runtime.dataclass import data
from ...runtime.identity import WeakIdKeyDictionary
from ..breaks import unsupported
from .source import Attr, Contents, Local, Pinned, item

MOST = 2  # entries that rely on states of one place, of a door; the next one breaks


class Growth:
    """What all doors of one compiled object know."""

    def __init__(self):
        self.written: set[str] = set()  # names of places that traced code writes
        self.points = WeakIdKeyDictionary()  # code -> indices of instructions that break

    def note(self, code: types.CodeType, index: int) -> None:
        self.points.setdefault(code, set()).add(index)

    def knows(self, code: types.CodeType, index: int) -> bool:
        return index in self.points.get(code, ())


class History:
    """What one door has relied on. `own`: of a resume function, its stack values that come of such a break."""

    def __init__(self):
        self.conversions, self.states, self.own = 0, {}, set()

    def changes(self, name: str, state: Any, grows: bool) -> bool:
        """Whether code was made for another state of this place; for smaller ones only, where it grows. (A place that held a
        text may hold a tuple now, whose state is its length.)"""
        seen = self.states.setdefault(name, [])
        earlier = [other for other in seen if other != state]
        if len(earlier) == len(seen) < MOST:
            seen.append(state)
        return bool(earlier) and not (grows and any(type(other) is type(state) and other > state for other in earlier))


@data
class Watch:
    """The part of one trace."""

    growth: Growth
    history: History
    where: Callable  # () -> (code, index) of the instruction that is interpreted
    parameters: frozenset  # of the original function: what callers give, not what it makes
    active: bool = True  # under fullgraph nothing is left to Python

    def relies(self, source: Any, name: str, state: Any, grows: bool = False, until: Callable | None = None) -> None:
        """The code would hold for this state of a place only. `grows`: it is a length. `until`: a guard of code with the
        break, for growth that ends: other code will be made then, so that the break comes one call earlier."""
        if not self.active or isinstance(source, Pinned):
            return
        code, index = self.where()
        if code is None:
            return
        known = name in self.history.own or self.growth.knows(code, index)
        enough = self.history.conversions > (MOST if until is None else MOST - 1)
        if known or self.history.changes(name, state, grows) and enough and (source is None or self.is_written(source, name)):
            self.growth.note(code, index)
            guard = None if until is None else (source, "predicate", until)
            raise unsupported("growth", f"{name} is another one in every call", guard=guard)

    def is_written(self, source: Any, name: str) -> bool:
        own = isinstance(source, Local) and name not in self.parameters
        return own or name in self.growth.written or source.root.name() in self.history.own

    def note_writes(self, effects: Any) -> None:
        """What this trace leaves changed."""
        names = [container.source.name() for container in effects.containers]
        names += [
            Attr(variable.source, name).name()
            for variable, fields in effects.attributes.items()
            if variable.source is not None
            for name in fields
        ]
        names += [Contents(cell.source).name() for cell in effects.cells if cell.source is not None]
        for (_, name), (namespace, _) in effects.globals.items():
            names += [name, item(Pinned(namespace, namespace.get("__name__", "globals")), name).name()]
        self.growth.written.update(names)


def stands(keys: Any) -> int:
    """A number for keys in this order, which keeps none of them."""
    return hash(tuple(key if isinstance(key, (str, int, float)) else id(key) for key in keys))


class ShorterThanGuard:
    """Guard: fewer members than this."""

    def __init__(self, size: int):
        self.size = size

    def __call__(self, value: Any) -> bool:
        return len(value) < self.size

    def __str__(self) -> str:
        return f"is shorter than {self.size}"
