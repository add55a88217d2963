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


def parameters(fn: Callable) -> list[Parameter]:
    """Of a function, in order; what is no plain function, or takes *args or **kwargs, is left to inspect."""
    plain = type(fn) is FunctionType and not hasattr(fn, "__wrapped__")
    if not plain or fn.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return [Parameter(p.name, p.default, p.annotation) for p in inspect.signature(fn).parameters.values()]
    code, given = fn.__code__, fn.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = {**dict(zip(names[code.co_argcount - len(given) : code.co_argcount], given)), **(fn.__kwdefaults__ or {})}
    return [Parameter(name, defaults.get(name, REQUIRED), fn.__annotations__.get(name, REQUIRED)) for name in names]
