"""Parameters of plain Python functions, read from their code objects: `inspect.signature` takes ten times as long, and every
record and every gradient asks while the package is imported.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any, NamedTuple
from collections.abc import Callable

REQUIRED = inspect.Parameter.empty


class Parameter(NamedTuple):
    """A parameter that has a name of its own; default and annotation are REQUIRED where there is none."""

    name: str
    default: Any
    annotation: Any


VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def parameters(fn: Callable) -> list[Parameter]:
    """Of a function, in order; what is no plain function, or takes *args or **kwargs, is left to inspect."""
    if not _plain(fn):
        return [Parameter(p.name, p.default, p.annotation) for p in inspect.signature(fn).parameters.values()]
    code, given = fn.__code__, fn.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = {**dict(zip(names[code.co_argcount - len(given) : code.co_argcount], given)), **(fn.__kwdefaults__ or {})}
    return [Parameter(name, defaults.get(name, REQUIRED), fn.__annotations__.get(name, REQUIRED)) for name in names]


def annotations(fn: Callable) -> list[tuple[str, Any]]:
    """Names and annotations of a function's parameters, in order; REQUIRED where there is no annotation."""
    if not _plain(fn):
        return [(p.name, p.annotation) for p in parameters(fn)]
    code, given = fn.__code__, fn.__annotations__
    return [(name, given.get(name, REQUIRED)) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]


def _plain(fn: Callable) -> bool:
    return type(fn) is FunctionType and not hasattr(fn, "__wrapped__") and not fn.__code__.co_flags & VARIADIC
