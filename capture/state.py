"""What the native module is told about eager, and which code the frame hook may hand to the compiler.

In: eager's Tensor, its thread state, the names of Module's hook tables. Out: `native` (the extension, or None where this
Python has none), `is_compiling`, `disable`, dynamic marks on tensors, and `uncapturable(code)`: why a nested frame is
left to Python. Code of this package, the standard library and installed numeric libraries is never captured by itself;
modules, optimizers and other code written like a user's are.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import types
from typing import Any
from collections.abc import Callable, Iterator

import numpy as np

from ..eager.nn.modules import module as eager_module
from ..eager.state import state as eager_state
from ..eager.tensor import Tensor
from ..runtime.errors import CheckFailed
from ..runtime.identity import WeakIdKeyDictionary
from . import thread_local_state

native: Any  # the extension; None on a Python whose frames it does not know: everything runs eagerly
try:
    from . import _capture
except ImportError:
    native = None
else:
    native = _capture

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# The folders of this package, and those of their parts that are written as a user would write them.
OWN = tuple(os.path.join(ROOT, layer, "") for layer in ("runtime", "eager", "capture", "inductor"))
USER_LIKE = tuple(os.path.join(ROOT, "eager", part, "") for part in ("nn", "optim", "utils"))
INSTALLED = frozenset(
    (
        "numpy",
        "ml_dtypes",
        "scipy",
        "bytecode",
        "hypothesis",
        "pytest",
        "_pytest",
        "pluggy",
        "tqdm",
        "rich",
        "matplotlib",
        "cupy",
        "cupyx",
        "cupy_backends",
        "sympy",
        "mpmath",
        "networkx",
        "pandas",
        "sklearn",
        "joblib",
        "PIL",
        "yaml",
        "jinja2",
        "packaging",
        "regex",
        "requests",
        "urllib3",
        "httpx",
        "fsspec",
        "filelock",
        "huggingface_hub",
        "tokenizers",
        "safetensors",
        "psutil",
        "frozendict",
        "attr",
        "attrs",
        "pydantic",
        "pydantic_core",
        "typing_extensions",
        "setuptools",
        "pkg_resources",
        "dill",
        "cloudpickle",
        "absl",
        "loguru",
        "wandb",
        "protobuf",
        "google",
        "IPython",
        "ipykernel",
    )
)
GENERATOR_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE

if native is not None:
    native.configure(
        tensor=Tensor,
        ndarray=np.ndarray,
        check_failed=CheckFailed,
        state=eager_state,
        hook_names=eager_module._HOOK_DICTS,
        keep=thread_local_state.save_state,
        put_back=thread_local_state.restore_state,
    )


def _library_folders() -> tuple[str, ...]:
    """As sysconfig's "stdlib" and "platstdlib", which it reads a large table for."""
    first = os.path.dirname(os.__file__)
    paths = first, os.path.join(sys.exec_prefix, sys.platlibdir, os.path.basename(first))
    return tuple({os.path.join(as_told, "") for path in paths for as_told in (path, os.path.realpath(path))})


LIBRARY = _library_folders()


@functools.cache
def _file_reason(filename: str) -> str | None:
    if filename.startswith("<"):  # no file: typed at a prompt, or frozen into the interpreter
        return "standard library" if filename.startswith("<frozen") else None
    path = os.path.abspath(filename)
    if path.startswith(OWN):
        return None if path.startswith(USER_LIKE) else "part of flambeau"
    parts = path.split(os.sep)
    if "site-packages" in parts:
        package = parts[len(parts) - parts[::-1].index("site-packages")]
        return "installed library" if package.removesuffix(".py") in INSTALLED else None
    return "standard library" if path.startswith(LIBRARY) else None


@functools.cache
def is_library_file(filename: str) -> bool:
    """Whether nobody would call the file their own: Python's, an installed package's, or this one's."""
    path = os.path.abspath(filename)
    return "site-packages" in path.split(os.sep) or _file_reason(filename) is not None or path.startswith(USER_LIKE)


def uncapturable(code: types.CodeType, globals: dict) -> str | None:
    """Why this code is not captured when the hook meets it, or None."""
    if code.co_flags & GENERATOR_FLAGS:
        return "generator"
    if id(code) in _disabled_codes or code.co_name in ("<module>", "__getattr__", "__getattribute__", "__setattr__", "__del__"):
        return "disabled"
    typed = globals.get("__name__") == "__main__" and "__file__" not in globals  # python -c
    if code.co_filename == "<string>" and not typed:  # methods that namedtuple and dataclass write
        return "generated code"
    return _file_reason(code.co_filename)


def is_compiling() -> bool:
    """True while the compiler traces on this thread."""
    return native is not None and native.mode() == "capturing"


def preserve_thread_state(function: Callable, *args: Any) -> Any:
    """Call what compiles apart from any door: whatever ends it, this thread's state is as it was before."""
    return function(*args) if native is None else native.whole(function, *args)


# -- disable

_disabled_codes: dict = {}  # by identity: equal code objects may be different functions


class Disabled:
    """A callable that always runs plain; nothing inside of it is captured."""

    def __init__(self, function: Callable, reason: str | None = None):
        functools.update_wrapper(self, function)
        self.function, self.reason = function, reason

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs) if native is None else _run_off(self.function, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Callable:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<disabled {self.function!r}>"


def _run_off(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Under `capturing` it stays that way: the function only runs plain there."""
    return function(*args, **kwargs) if is_compiling() else native.call("off", None, function, args, kwargs)


def disable(function: Callable | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Run a function (or, as `disable()`, the decorated one) plain: itself and, if `recursive`, all that it calls."""
    if function is None:
        return lambda f: disable(f, recursive, reason=reason)
    if not callable(function):
        raise TypeError(f"disable() takes a callable, not {type(function).__name__}")
    if recursive:
        return Disabled(function, reason)
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        raise TypeError(f"disable(recursive=False) takes a Python function, not {type(function).__name__}")
    _disabled_codes[id(code)] = code
    return function


# -- functions that are called while tracing

_in_graph = WeakIdKeyDictionary()


def allow_in_graph(fn: Callable | list | tuple) -> Any:
    """Call this Python function (or each of a list) on symbolic tensors while a graph is captured, instead of capturing its code.

    What it calls of the library becomes nodes of the graph; everything else it does happens once per capture and is neither
    guarded nor repeated by compiled calls, so its results may depend on its arguments alone. A call with arguments that are
    no tensors, numbers or plain containers of these is captured like any other. Returns what it was given.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.compiler.allow_in_graph.html
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    if not callable(fn):
        raise TypeError(f"allow_in_graph() takes a callable or a list of them, not {type(fn).__name__}")
    if isinstance(fn, types.FunctionType):
        _in_graph[fn] = True
    return fn


def is_allowed_in_graph(fn: Any) -> bool:
    return fn in _in_graph


# -- marks of dynamic sizes

MARKS = "_flambeau_dynamic"
MAYBE = "maybe"


def mark_dynamic(tensor: Tensor, index: int | list | tuple, *, min: int | None = None, max: int | None = None) -> None:
    """Capture dimension(s) `index` of this tensor as symbolic from the first call on. A program that needs the size to be
    one number raises ConstraintViolation; so does a size outside of [`min`, `max`], which the program may rely on."""
    _mark(tensor, index, True if min is None and max is None else (min, max))


def maybe_mark_dynamic(tensor: Tensor, index: int | list | tuple) -> None:
    """Like `mark_dynamic`, and a program that needs the size to be one number gets it."""
    _mark(tensor, index, MAYBE)


def mark_static(tensor: Tensor, index: int | list | tuple | None = None) -> None:
    """Never make dimension(s) `index` of this tensor (all, by default) symbolic."""
    _mark(tensor, tuple(range(tensor.dim())) if index is None else index, False)


def _mark(tensor: Tensor, index: Any, value: Any) -> None:
    rank = tensor.dim()
    for dim in index if isinstance(index, (list, tuple)) else (index,):
        if not -rank <= dim < rank:
            raise IndexError(f"mark_dynamic: dimension {dim} is out of range for a tensor of {rank} dimensions")
        tensor.__dict__.setdefault(MARKS, {})[dim % rank] = value


def dynamic_marks(tensor: Tensor) -> dict:
    """Dimension -> True, (min, max), MAYBE or False (static), as marked."""
    return tensor.__dict__.get(MARKS, {})


@contextlib.contextmanager
def without_native() -> Iterator[None]:
    """As if the extension were not there; for tests of the plain path."""
    global native
    kept, native = native, None
    try:
        yield
    finally:
        native = kept
