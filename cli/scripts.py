"""Files of Python code as programs: run as `__main__` with their arguments, or loaded for their functions.

In: a path. Out: the module's names. While a script runs, `sys.argv`, `sys.path[0]` and `sys.modules["__main__"]` are what
`python FILE` would make them; they are put back.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
import types
from typing import Any

from .answer import ScriptFailed, Wrong


def load(path: str, name: str = "") -> dict[str, Any]:
    """The names that a file defines, loaded under the name of the file: `if __name__ == "__main__"` is not run."""
    return _run(path, name or os.path.splitext(os.path.basename(path))[0], [])


def run(path: str, arguments: list[str]) -> dict[str, Any]:
    """Run a file as `python FILE ARGUMENTS` does. Raises ScriptFailed, with the traceback on stderr, where it fails."""
    return _run(path, "__main__", arguments)


def _run(path: str, name: str, arguments: list[str]) -> dict[str, Any]:
    code = compiled(path)
    module = types.ModuleType(name)
    module.__file__ = os.path.abspath(path)
    with _as_program(module, path, arguments):
        try:
            exec(code, module.__dict__)
        except SystemExit as ended:
            if ended.code not in (None, 0):
                raise ScriptFailed(f"{path} ended with status {ended.code}") from None
        except Exception as error:
            error.__traceback__ = _from_file(error.__traceback__)
            traceback.print_exception(error)
            raise ScriptFailed(f"{path} raised {type(error).__name__}") from error
    return module.__dict__


def compiled(path: str) -> types.CodeType:
    try:
        with io.open_code(os.path.abspath(path)) as file:
            return compile(file.read(), os.path.abspath(path), "exec")
    except OSError as error:
        raise Wrong(f"{path}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise Wrong(f"{path} is no Python program: {error}") from None


def _from_file(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback without the frames of this module."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


@contextlib.contextmanager
def _as_program(module: types.ModuleType, path: str, arguments: list[str]):
    before = sys.argv, sys.path[:], sys.modules.get(module.__name__)
    sys.argv = [path, *arguments]
    sys.path[0:0] = [os.path.dirname(os.path.abspath(path))]
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before[0], before[1]
        if before[2] is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = before[2]


def alias(wanted: bool) -> None:
    """`--torch`: the program's `import torch` gives flambeau."""
    if wanted:
        import flambeau
        flambeau.alias_torch()


def add_torch(parser: Any) -> None:
    parser.add_argument("--torch", action="store_true", help="let the program's `import torch` give flambeau (alias_torch)")
