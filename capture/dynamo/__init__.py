"""torch._dynamo and torch._inductor: the few names that people use, on this compiler."""

from __future__ import annotations

from typing import Any

from ...runtime.counters import snapshot
from . import config, eval_frame, testing, utils
from ..frontend import backends
from ..frontend.api import compile, reset
from ..frontend.explain import explain
from ..frontend.module import CompiledModule as OptimizedModule
from ..state import allow_in_graph, disable, is_compiling, mark_dynamic, mark_static

maybe_mark_dynamic = mark_dynamic
optimize = compile


@disable
def graph_break(msg: str = "") -> None:
    """Ends the graph here: the code before and after is captured apart."""


def assume_constant_result(fn: Any) -> Any:
    """Returns the function: what it reads is guarded, so its result holds as long as that."""
    return fn


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Nothing to mark: addresses are never part of a graph."""


def is_dynamo_supported() -> bool:
    return True


def counters() -> dict:
    return snapshot()


_TAGS = {"eager": ("debug",), "loops": ("debug",), "fx": ("debug",)}


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list:
    """Names of backends without those of these tags (None: all of them)."""
    left_out = set(exclude_tags or ())
    return [name for name in backends.list_backends() if left_out.isdisjoint(_TAGS.get(name, ()))]


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Any = ()) -> Any:
    """Decorator: `compiler_fn(graph, example_inputs)` is a backend under its name, or this one."""
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    backends.register_backend(compiler_fn, name)
    _TAGS[name or compiler_fn.__name__] = tuple(tags)
    return compiler_fn


def lookup_backend(compiler_fn: Any) -> Any:
    """The backend of this name; a callable is one already."""
    return backends.lookup(compiler_fn)[1]


__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "counters",
    "disable",
    "eval_frame",
    "explain",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "optimize",
    "register_backend",
    "reset",
]
