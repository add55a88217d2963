"""What a function may look at: whether a call of it could see changes that the trace has not made yet.

A bounded walk from the function over the globals that it and the functions it names use, its cells, defaults, classes and what
hangs below them. It runs no code of the program. Where it ends early, or where names are looked up that no code shows, the
function may see anything.
"""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable
from typing import Any

from ...eager.class_homes import real_module
from ..skipfiles import contents, names_of
from .constant import Cached

MOST = 3000
SEE_NOTHING = (type(None), bool, int, float, complex, str, bytes, types.CodeType)
ANYTHING = {"eval", "exec", "globals", "locals", "vars", "__import__", "getattr", "gc", "inspect", "sys", "import_module"}
LIBRARIES = (
    "math",
    "itertools",
    "functools",
    "typing",
    "collections",
    "re",
    "string",
    "operator",
    "enum",
    "abc",
    "numpy",
    "warnings",
    "builtins",
    "types",
    "keyword",
    "dataclasses",
    __name__.split(".")[0],
)


def may_see(fn: Any, args: tuple, effects: Any) -> bool:
    """Whether the function, called with these, could come to something that is still to be changed."""
    changed = changed_objects(effects)
    return changed is None or Walk(changed, {key: None for key in effects.globals}).finds([fn, *args])


def changed_objects(effects: Any) -> set | None:
    """The ids of the objects that are to be changed; None where one is not known."""
    found = set()
    for kind, key in effects.order:
        if not effects.is_visible(kind, key) or kind in ("globals", "locks", "calls", "managers"):
            continue  # (what managers set is set for real while tracing)
        real = next((r for r in (getattr(key, name, None) for name in ("real", "value", "outside")) if r is not None), None)
        if real is None:
            return None
        found |= {id(real), id(getattr(real, "__dict__", real))}
    return found


class Walk:
    def __init__(self, changed: set, names: dict):
        self.changed, self.names, self.seen = changed, names, {}

    def finds(self, values: list) -> bool:
        while values:
            value = values.pop()
            if id(value) in self.changed:
                return True
            if id(value) in self.seen or type(value) in SEE_NOTHING:
                continue
            self.seen[id(value)] = value
            below = self.below(value)
            if below is None or len(self.seen) > MOST:
                return True
            values += below
        return False

    def below(self, value: Any) -> list | None:
        """What hangs below a value; None: anything."""
        if isinstance(value, types.FunctionType):
            return self.of_function(value)
        if isinstance(value, Cached):
            return [value.__wrapped__]
        if isinstance(value, (staticmethod, classmethod)):
            return [value.__func__]
        if isinstance(value, property):
            return [value.fget, value.fset]
        if isinstance(value, type):
            home = real_module(value).split(".")[0]
            return [] if home in LIBRARIES or not value.__flags__ & HEAP_TYPE else [*value.__mro__, *vars(value).values()]
        if isinstance(value, types.ModuleType):
            return [] if value.__name__.split(".")[0] in LIBRARIES else None
        if isinstance(value, types.BuiltinFunctionType):
            return [] if isinstance(value.__self__, types.ModuleType) else [value.__self__]
        if isinstance(value, weakref.ReferenceType):
            return [value()]
        return [type(value), *gc.get_referents(value)]

    def of_function(self, fn: Callable) -> list | None:
        if (fn.__module__ or "").split(".")[0] in LIBRARIES:
            return []
        names, home = names_of(fn.__code__), fn.__globals__
        if ANYTHING.intersection(names) or any((id(home), name) in self.names for name in names):
            return None
        found = [home[name] for name in names if name in home]
        return [
            *self.through_modules(found, names),
            *contents(fn.__closure__),
            *(fn.__defaults__ or ()),
            *(fn.__kwdefaults__ or {}).values(),
            *vars(fn).values(),
        ]

    def through_modules(self, found: list, names: tuple) -> list:
        """The values among these, and what the names lead to in the modules among them."""
        values, done, modules = [], set(), [v for v in found if isinstance(v, types.ModuleType)]
        while modules:
            module = modules.pop()
            if id(module) in done or module.__name__.split(".")[0] in LIBRARIES:
                continue
            done.add(id(module))
            inside = [vars(module)[n] for n in names if n in vars(module)]
            modules += [v for v in inside if isinstance(v, types.ModuleType)]
            values += [v for v in inside if not isinstance(v, types.ModuleType)]
        return [*values, *(v for v in found if not isinstance(v, types.ModuleType))]


HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
