"""Files of Python code as programs: run as `__main__` with their arguments, or loaded for their functions.

In: a path. Out: the module's names. While a script runs, `sys.argv`, `sys.path[0]` and `sys.modules["__main__"]` are what
`python FILE` would make them; they are put back. The options of commands that run a program, and where these write, stand
here as well.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.machinery
import io
import os
import runpy
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator
from typing import Any

from .result import INTERRUPTED, ScriptFailed, Wrong

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def load(path: str, name: str = "") -> dict[str, Any]:
    """The names that a file defines, loaded under the name of the file: `if __name__ == "__main__"` is not run."""
    return _run(path, name or os.path.splitext(os.path.basename(path))[0], [])


def run(path: str, arguments: list[str]) -> dict[str, Any]:
    """Run a file as `python FILE ARGUMENTS` does. Raises ScriptFailed, with the traceback on stderr, where it fails."""
    return _run(path, "__main__", arguments)


def run_module(name: str, arguments: list[str]) -> None:
    """Run a module as `python -m NAME ARGUMENTS` does. Raises ScriptFailed, with the traceback on stderr, where it fails, and
    Wrong where there is none of this name."""
    with _surroundings(name, os.getcwd(), arguments), ending(name):
        found: Any = runpy  # two of its private names: what `python -m` itself finds a module by
        try:
            _, spec, _ = found._get_module_details(name)  # (imports the packages above it, as `python -m` does)
        except (ImportError, found._Error) as error:
            raise Wrong(str(error)) from None
        sys.argv[0] = spec.origin
        runpy.run_module(name, run_name="__main__", alter_sys=True)


def run_text(text: str, arguments: list[str]) -> None:
    """Run statements as `python -c TEXT ARGUMENTS` does."""
    module = types.ModuleType("__main__")
    try:
        code = compile(text, "<string>", "exec")
    except (SyntaxError, ValueError) as error:
        raise Wrong(f"no Python program: {error}") from None
    with _surroundings("-c", "", arguments, module), ending("the program"):
        exec(code, module.__dict__)


def _run(path: str, name: str, arguments: list[str]) -> dict[str, Any]:
    code = compiled(path)
    module = types.ModuleType(name)
    module.__file__ = os.path.abspath(path)
    with _surroundings(path, os.path.dirname(os.path.abspath(path)), arguments, module), ending(path):
        exec(code, module.__dict__)
    return module.__dict__


@contextlib.contextmanager
def ending(what: str) -> Iterator[None]:
    """How a program ends: an error of its own is printed, and ScriptFailed tells what became of it."""
    try:
        yield
    except SystemExit as ended:
        if status := _status(ended.code):
            raise ScriptFailed(f"{what} ended with status {status}", status) from None
    except Wrong:
        raise
    except (Exception, KeyboardInterrupt) as error:
        print_error(error)
        if isinstance(error, KeyboardInterrupt):
            raise ScriptFailed(f"{what} was interrupted", INTERRUPTED) from error
        raise ScriptFailed(f"{what} raised {type(error).__name__}") from error


def _status(code: Any) -> int:
    """The exit status that Python makes of what `sys.exit` was given; a text is printed."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


def compiled(path: str) -> types.CodeType:
    try:
        with io.open_code(os.path.abspath(path)) as file:
            return compile(file.read(), os.path.abspath(path), "exec")
    except OSError as error:
        raise Wrong(f"{path}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise Wrong(f"{path} is no Python program: {error}") from None


def print_error(error: BaseException) -> None:
    """The traceback on stderr, from the program's first frame on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        trace = trace.tb_next
    traceback.print_exception(error.with_traceback(trace))


@contextlib.contextmanager
def _surroundings(first: str, folder: str, arguments: list[str], module: types.ModuleType | None = None) -> Iterator[None]:
    """`sys.argv`, `sys.path[0]` and the module (if one is given) under its name, for as long as a program runs."""
    name = module.__name__ if module else "__main__"
    before = sys.argv, sys.path[:], sys.modules.get(name)
    sys.argv = [first, *arguments]
    sys.path[0:0] = [folder]
    if module:
        sys.modules[name] = module
    asked = TorchWhenAsked()
    sys.meta_path.append(asked)
    try:
        yield
    finally:
        sys.meta_path.remove(asked)
        sys.argv, sys.path[:] = before[0], before[1]
        if before[2] is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before[2]


class TorchWhenAsked:
    """The last of the finders: where no PyTorch is installed, a program that imports torch gets flambeau."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch" or name in sys.modules:
            return None
        alias(True)
        self.module = sys.modules.pop(name)  # import asks again for a module that a finder has left there
        # a loader by its methods: that is what import asks for
        return importlib.machinery.ModuleSpec(name, self, origin=PACKAGE, is_package=True)  # pyright: ignore[reportArgumentType]

    def create_module(self, spec: Any) -> Any:
        return self.module

    def exec_module(self, module: Any) -> None:
        """The alias is complete."""


def alias(wanted: bool) -> None:
    """`--torch`: the program's `import torch` gives flambeau, also where PyTorch is installed."""
    if wanted:
        import flambeau

        flambeau.alias_torch()


def add_program(parser: Any, out: str) -> None:
    """The options of a command that runs a program and writes a file."""
    parser.add_argument("--out", metavar="FILE", help=out)
    add_torch(parser)
    add_script(parser)


def add_script(parser: Any, needed: bool = True) -> None:
    parser.add_argument("script", metavar="SCRIPT", nargs=None if needed else "?")
    own = parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS", help="the script's own")
    own.required = False


def target(options: Any, ending: str) -> str:
    """Where a command writes: --out, or a file here named after the script. Raises Wrong where no file can be made, before
    the program has run for an hour."""
    path = options.out or os.path.splitext(os.path.basename(options.script))[0] + ending
    folder = os.path.dirname(os.path.abspath(path))
    try:
        if not os.path.isdir(folder):
            os.makedirs(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Wrong(f"{path} cannot be written: {error.strerror}") from None
    if os.path.isdir(path):
        raise Wrong(f"{path} is a folder: name a file")
    return path


def add_torch(parser: Any) -> None:
    parser.add_argument(
        "--torch", action="store_true", help="let the program's `import torch` give flambeau also where PyTorch is installed"
    )
