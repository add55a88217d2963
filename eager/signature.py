"""Parameters of plain Python functions, read from their code objects: `inspect.signature` takes ten times as long, and every
record and every gradient asks while the package is imported.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any
from collections.abc import Callable

REQUIRED = inspect.Parameter.empty


VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def parameters(fn: Callable) -> list[tuple[str, Any, Any]]:
    """(name, default, annotation) of a function's parameters, in order; REQUIRED where there is no default or annotation.
    What is no plain function, or takes *args or **kwargs, is left to inspect."""
    if not _plain(fn):
        return [(p.name, p.default, p.annotation) for p in inspect.signature(fn).parameters.values()]
    names, given, notes = _names(fn), fn.__defaults__ or (), fn.__annotations__
    defaults = dict(zip(names[fn.__code__.co_argcount - len(given) : fn.__code__.co_argcount], given))
    defaults.update(fn.__kwdefaults__ or ())
    return [(name, defaults.get(name, REQUIRED), notes.get(name, REQUIRED)) for name in names]


def annotated(fn: Callable) -> list[tuple[str, Any]]:
    """Names and annotations of a function's parameters, in order; REQUIRED where there is no annotation."""
    if not _plain(fn):
        return [(name, annotation) for name, _, annotation in parameters(fn)]
    notes = fn.__annotations__
    return [(name, notes.get(name, REQUIRED)) for name in _names(fn)]


def _names(fn: Any) -> tuple[str, ...]:
    return fn.__code__.co_varnames[: fn.__code__.co_argcount + fn.__code__.co_kwonlyargcount]


def _plain(fn: Any) -> bool:
    return type(fn) is FunctionType and not hasattr(fn, "__wrapped__") and not fn.__code__.co_flags & VARIADIC
