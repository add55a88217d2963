"""Guards on what a trace found in classes, or did not find there, along the order of their bases."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

IMMUTABLE_TYPE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


def lookup_guards(seen: dict) -> Iterator[Any]:
    """(class, payload of its `lookups` check): descriptors must stay the same objects, other values only stay where they
    are, because what was read of them has guards of its own."""
    for cls, names in seen.items():
        yield cls, tuple(_expected(name, found) for name, found in names.items())


def _expected(name: str, found: tuple | None) -> tuple:
    if found is None:
        return (name,)
    home, raw = found
    if type(raw) in (staticmethod, classmethod) and "<locals>" in home.__qualname__:  # may die, and has no weak references
        return name, held_weakly(raw.__func__), type(raw)
    fixed = hasattr(type(raw), "__get__") or is_data_descriptor(raw) or home.__flags__ & IMMUTABLE_TYPE
    return (name, held_weakly(raw)) if fixed else (name, held_weakly(raw), held_weakly(home))


def held_weakly(value: Any) -> Any:
    """A weak reference where there may be one: guards keep nothing of the program alive."""
    if isinstance(value, weakref.ReferenceType):
        return value
    try:
        return weakref.ref(value)
    except TypeError:
        return value


def is_data_descriptor(raw: Any) -> bool:
    return hasattr(type(raw), "__set__") or hasattr(type(raw), "__delete__")
