"""The backends by name.

A backend is `backend(graph, example_inputs) -> callable`: a plain function, or a `Backend`, which says more of itself. Inner
layers register theirs; outer ones (the compiler proper) are entered as a path that is imported when it is first asked for, so
that capture never imports upward.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...runtime import locks
from ...runtime.dataclass import data

MODES = {
    "default": "compile fast, run fast",
    "reduce-overhead": "on a GPU, launches whose addresses come again are replayed as one CUDA graph; else as default",
    "max-autotune": "on a GPU, blocks of kernels are measured, the best are kept for later processes, and launches are replayed "
    "as with reduce-overhead; else as default: kernels are chosen by rules",
    "max-autotune-no-cudagraphs": "max-autotune without replay",
}


@data(eq=False)
class Backend:
    """`compile(graph, example_inputs)` gives what is called with the graph's inputs.

    takes_options, takes_mode: it gets `options=` or `mode=` as well; takes_reads: it gets graphs with reads of data whole, not
    the pieces between them; describe(graph, compiled): what a report says of one of its graphs; leaves(graph, example_inputs,
    options): why a whole frame is better left to Python, or None.
    """

    name: str
    compile: Callable
    takes_options: bool = False
    takes_mode: bool = False
    takes_reads: bool = False
    describe: Callable | None = None
    leaves: Callable | None = None

    def __call__(self, graph: Any, example_inputs: Sequence, *args: Any, **named: Any) -> Callable:
        return self.compile(graph, example_inputs, *args, **named)

    def bound(self, options: dict, mode: str | None) -> Backend:
        """The same with what it takes of these, so that it is called with (graph, example_inputs)."""
        given: dict[str, Any] = {"options": options} if self.takes_options else {}
        if mode is not None and self.takes_mode:
            given["mode"] = mode
        compile = functools.partial(self.compile, **given) if given else self.compile
        return Backend(self.name, compile, takes_reads=self.takes_reads, describe=self.describe, leaves=self.leaves)


FIELDS = ("takes_options", "takes_mode", "takes_reads", "describe", "leaves")


def as_backend(name: str, backend: Callable) -> Backend:
    """A Backend, or a user's callable as one: it may have what a Backend says as attributes of the same names."""
    if isinstance(backend, Backend):
        return backend
    return Backend(name, backend, **{field: getattr(backend, field) for field in FIELDS if hasattr(backend, field)})


_backends: dict[str, Callable | str] = {}
_docs: dict[str, str] = {}
_default: list[str | Callable] = ["inductor"]


def register(name: str, backend: Callable | str, doc: str = "") -> None:
    """Enter a backend: a callable, or the path `package.module:function` of one that is imported at its first use."""
    if name in _backends and _backends[name] is not backend:
        raise ValueError(f"a backend named {name!r} is registered already")
    if not callable(backend) and (not isinstance(backend, str) or ":" not in backend):
        raise TypeError(f"backend {name!r} must be a callable or a path 'module:function', not {backend!r}")
    _backends[name], _docs[name] = backend, doc


def register_backend(function: Callable | None = None, name: str | None = None) -> Any:
    """Decorator form of `register`; the name defaults to the function's."""
    if function is None:
        return lambda f: register_backend(f, name)
    register(name or function.__name__, function, (function.__doc__ or "").strip().partition("\n")[0])
    return function


def set_default_backend(backend: str | Callable | None) -> None:
    """What functions are compiled by from now on where no backend is named; None: "inductor" again."""
    if backend is not None:
        exists(backend)
    _default[0] = "inductor" if backend is None else backend


def get_default_backend() -> str | Callable:
    """What `compile` takes where no backend is named."""
    return _default[0]


@contextlib.contextmanager
def replaced(name: str, backend: Callable) -> Iterator[None]:
    """Another backend under a known name, inside a `with` block."""
    kept, _backends[name] = _backends[name], backend
    try:
        yield
    finally:
        _backends[name] = kept


def list_backends() -> list[str]:
    """Names that `compile(backend=...)` takes."""
    return sorted(_backends)


def _load(name: str, path: str) -> Callable:
    module, _, function = path.partition(":")
    with locks.importing:
        found = getattr(importlib.import_module(module, __name__.partition(".")[0]), function)
    _backends[name] = found
    return found


def lookup(backend: str | Callable) -> tuple[str, Callable]:
    """(name, callable) of a backend given by name or as a callable."""
    if not isinstance(backend, str):
        if callable(backend):
            name = backend.name if isinstance(backend, Backend) else getattr(backend, "__name__", type(backend).__name__)
            return name, backend
        raise TypeError(f"backend must be a name or a callable (graph, example_inputs) -> callable, not {type(backend).__name__}")
    if backend not in _backends:
        raise ValueError(f"unknown backend {backend!r}; backends are: {', '.join(list_backends())}")
    found = _backends[backend]
    return backend, _load(backend, found) if isinstance(found, str) else found


def find(backend: str | Callable) -> Backend:
    """A backend given by name or as a callable."""
    return as_backend(*lookup(backend))


def exists(backend: str | Callable) -> None:
    """Raise for a backend that `lookup` would not find, without importing it."""
    if not isinstance(backend, str) or backend not in _backends:
        lookup(backend)


def check_mode(mode: str | None) -> None:
    if mode is not None and mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; modes are: {', '.join(MODES)}")
