"""Which frames the hook leaves to Python: those that touch no tensor, and those that are tried in vain again and again.

A nested frame is captured only where a cheap look at its arguments, its cells and the globals that it names shows a tensor, or
something that makes some. One that was captured without a tensor operation is not captured again and again for other values,
and code that breaks without computing anything is given up after a bounded number of tries: per code object, and per program.
All of it decides who runs a frame, never what the frame does.
"""

from __future__ import annotations

import collections
import functools
import sys
import types
from collections.abc import Iterable
from typing import Any

from ..eager.class_homes import real_module
from ..eager.nn.modules.module import Module
from ..eager.optim.optimizer import Optimizer
from ..eager.tensor import Tensor
from ..runtime import counters, log
from ..runtime.identity import WeakIdKeyDictionary
from . import state

MOST_BARREN = 2  # entries without a graph that a nested frame or a resume point gets
MOST_TRIES = 8  # captures of a nested function that break and find no tensor operation
MOST_OF_PROGRAM = 48  # those of a whole program, before only frames with tensors among their arguments are captured
MOST_SECONDS = 8.0  # how long such captures of a whole program may take
LAST_STRAW = 3  # times as many: no nested frame is captured any more

DEPTH, MEMBERS, LOOKS = 3, 24, 400  # how far the look goes: steps, members of a container, objects in all
TENSORS = (Tensor, Module, Optimizer)
PLAIN_VALUES = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
)
CONTAINERS = (list, tuple, set, frozenset, collections.deque)
KNOWN_ITERATORS = tuple(type(iter(kind())) for kind in (list, tuple))
PACKAGE = __name__.split(".")[0]


class CaptureAttempts:
    """What one compiled object has tried in vain."""

    def __init__(self):
        self.in_vain = WeakIdKeyDictionary()  # code -> tries that gave nothing
        self.useful = WeakIdKeyDictionary()  # code with a graph -> True
        self.given_up = WeakIdKeyDictionary()  # code -> True
        self.total, self.seconds = 0, 0.0
        self.told: set[str] = set()  # lines of the program that a break in a library below them was told for

    def refuses(self, door: Any, code: Any, globals: Any, closure: Any, slots: Any) -> str | None:
        """Why this call is left to Python, or None. What it says of a frame, it says of calls that show no tensor."""
        origin = door.__dict__.get("origin", code)
        barren = door.__dict__.get("barren", 0)
        if origin in self.given_up:
            return "breaks again and again"
        if door.kind == "wrapper" or door.__dict__.get("of_root"):
            return None
        if barren >= MOST_BARREN and barren == len(door.entries):
            return "no tensor operation"
        if door.kind != "frame":
            return None
        if self.exhausted() and not (shows_tensor(slots) and self.total < MOST_OF_PROGRAM * LAST_STRAW):
            return "the program breaks again and again"
        return None if touches_tensors(code, globals, closure, slots) else "no tensor"

    def first_under(self, line: str | None, place: str) -> bool:
        """Whether nothing was told yet of what libraries do below this line of the program."""
        if line is None or not state.is_library_file(place.rpartition(":")[0]):
            return True
        if line in self.told:
            return False
        self.told.add(line)
        return True

    def exhausted(self) -> bool:
        return self.total >= MOST_OF_PROGRAM or self.seconds > MOST_SECONDS

    def learn(self, door: Any, code: types.CodeType, record: Any, seconds: float, doors: Iterable) -> None:
        """Told of every conversion."""
        origin = door.__dict__.get("origin", code)
        if record.graphs or record.left:
            self.useful[origin] = True
            return
        door.__dict__["barren"] = door.__dict__.get("barren", 0) + 1
        if door.kind == "wrapper" or door.__dict__.get("of_root") or not record.breaks:
            return
        was, self.total, self.seconds = self.exhausted(), self.total + 1, self.seconds + seconds
        tries = self.in_vain[origin] = self.in_vain.get(origin, 0) + 1
        if tries >= MOST_TRIES and origin not in self.useful:
            self.give_up(origin, doors)
        if self.exhausted() and not was:
            counters.add("fallbacks", "the program breaks again and again")
            log.channel("breaks")(
                f"{self.total} nested frames broke without a tensor operation: from here on, only frames with "
                "tensors among their arguments are captured"
            )

    def give_up(self, origin: Any, doors: Any) -> None:
        self.given_up[origin] = True
        counters.add("fallbacks", "breaks again and again")
        log.channel("breaks")(
            f"{origin.co_qualname} ({origin.co_filename}:{origin.co_firstlineno}) runs plain: it breaks again "
            "and again, without a tensor operation"
        )
        for door in doors:
            if door.__dict__.get("origin", door.code) is origin:
                door.clear()
                door.plain = "breaks again and again"


def leave_to_python(door: Any, why: str, slots: dict) -> None:
    """The door runs plain; a frame that has shown no tensor yet is asked about again when it does."""
    door.clear()
    door.__dict__.pop("barren", None)
    door.plain = why
    again = door.__dict__["left"] = door.__dict__.get("left", 0) + 1
    door.watches = door.kind == "frame" and not shows_tensor(slots) and again <= MOST_BARREN


# -- the look ----------------------------------------------------------------------------------------------------------


def shows_tensor(slots: dict) -> bool:
    """A tensor among the arguments, or in a tuple of them: what the hook looks for."""
    return any(is_tensor(v) or type(v) is tuple and any(map(is_tensor, v)) for v in slots.values())


def is_tensor(value: Any) -> bool:
    return issubclass(type(value), Tensor)


def touches_tensors(code: types.CodeType, globals: dict, closure: tuple | None, slots: dict) -> bool:
    """Whether the frame might touch one: so far as its arguments, cells and the globals that it names tell."""
    look = TensorSearch()
    named = [globals[name] for name in names_of(code) if name in globals]
    if any(map(makes_tensors, named)):
        return True
    return any(look.finds(value, DEPTH) for value in (*slots.values(), *contents(closure))) or any(
        look.finds(value, DEPTH - 1) for value in named if not isinstance(value, types.FunctionType)
    )


def names_of(code: types.CodeType) -> tuple:
    """The names that a function, and those inside of it, look up in its module."""
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return tuple(dict.fromkeys((*code.co_names, *(name for each in inner for name in names_of(each)))))


def makes_tensors(value: Any) -> bool:
    """The library, its modules, functions and classes, by their names."""
    if isinstance(value, types.ModuleType):
        return vars(value).get("__name__", "").split(".")[0] == PACKAGE
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return isinstance(value, type) and issubclass(value, TENSORS) or real_module(value).split(".")[0] == PACKAGE
    return False


def contents(closure: tuple | None) -> list:
    found = []
    for cell in closure or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # empty
            pass
    return found


class TensorSearch:
    """A bounded walk over values that runs no code of the program; where it ends early, there may be tensors."""

    def __init__(self):
        self.seen: dict[int, int] = {}

    def finds(self, value: Any, depth: int) -> bool:
        kind = type(value)
        if issubclass(kind, TENSORS):
            return True
        if issubclass(kind, PLAIN_VALUES) or self.seen.get(id(value), -1) >= depth:
            return False
        self.seen[id(value)] = depth
        if len(self.seen) > LOOKS:
            return True
        parts = parts_of(value, kind)
        return parts is None or depth > 0 and any(self.finds(part, depth - 1) for part in parts)


def parts_of(value: Any, kind: Any) -> Iterable | None:
    """What hangs below a value; None where that cannot be seen."""
    if issubclass(kind, CONTAINERS) or issubclass(kind, dict):
        inside = tuple(
            first(
                dict.values(value)
                if issubclass(kind, dict)
                else kind.__iter__(value)
                if kind in CONTAINERS
                else base_iter(value, kind)
            )
        )
        return inside if kind in (*CONTAINERS, dict) else (*inside, *own_values(value))
    if kind is types.FunctionType:
        return (*contents(value.__closure__), *(value.__defaults__ or ()))
    if kind is types.MethodType:
        return (value.__self__, value.__func__)
    if issubclass(kind, functools.partial):
        return (value.func, *value.args, *value.keywords.values())
    if kind in KNOWN_ITERATORS:
        return first(value.__reduce__()[1][0])
    if hasattr(kind, "__next__") and not kind.__flags__ & HEAP_TYPE:
        return None  # an iterator of C: over what, it does not tell
    return own_values(value)


HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def base_iter(value: Any, kind: Any) -> Any:
    return next(base for base in CONTAINERS if issubclass(kind, base)).__iter__(value)


def first(values: Any) -> tuple:
    found = []
    for value in values:
        found.append(value)
        if len(found) >= MEMBERS:
            break
    return tuple(found)


def own_values(value: Any) -> tuple:
    try:
        own = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return ()
    return first(own.values()) if type(own) is dict else ()


# -- whose line it is --------------------------------------------------------------------------------------------------


def line_of_program(stack: Any) -> str | None:
    """`file:line` of the innermost frame that the user wrote: of the traced ones, else of those that are running."""
    for place in reversed(stack or ()):
        if not state.is_library_file(place[0]):
            return f"{place[0]}:{place[1]}"
    frame = sys._getframe(1)
    while frame is not None:
        if not state.is_library_file(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None
