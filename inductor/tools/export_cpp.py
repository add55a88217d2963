"""Generated kernels as a C++ file of their own, for programs without Python.

In: a function or module and example inputs. Out: a folder with `kernels.cpp` (all that the graph needs, the shared headers
included; it defines `fb_plan` and `fb_run` of runtime/csrc/abi.h) and `flambeau_standalone.h` (a runtime of one thread for it).
The graph must be one piece, without gradients, of loops and products of float32.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from collections.abc import Callable
from typing import Any

from ...capture.frontend.api import compile
from ...eager.autograd.modes import no_grad
from ...runtime import plugin_abi
from ...runtime.config import config
from ..cpp.cpp_text import prelude

_BUFFER = re.compile(r"^ +void\* const (\w+) = buffers\[(\d+)\];   // (input|output) \w+: (.*)$", re.MULTILINE)
_CALLED = re.compile(r"rt->(conv|jobs?|extern_call)\b")
STANDALONE = os.path.join(os.path.dirname(plugin_abi.HEADER), "flambeau_standalone.h")


@dataclass(frozen=True)
class Exported:
    """`path`: the C++ file. `buffers`: (name, "input" or "output", type, sizes and strides), in the order of fb_run's first
    argument. `symbols`: sizes that are not fixed, in the order of its second."""

    path: str
    buffers: tuple[tuple[str, str, str], ...]
    symbols: tuple[str, ...]


def export(f: Callable, *args: Any, folder: str | os.PathLike, dynamic: bool | None = None) -> Exported:
    """Compiles `f` for these inputs and writes its kernels to a folder. Raises ValueError where there is more than one graph,
    or where the graph calls what only flambeau's own runtime has (convolutions, sorting, eager ops)."""
    texts = _texts(f, args, dynamic)
    if len(texts) != 1:
        raise ValueError(f"export takes what compiles to one graph, this gave {len(texts)}: compiler.explain tells the breaks")
    (text,) = texts
    called = _CALLED.search(text)
    if called:
        raise ValueError(f"the graph calls the runtime's {called[1]} kernels, which an exported file does not have")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "kernels.cpp")
    with open(path, "w") as file:
        file.write(prelude() + "\n" + text)
    shutil.copy(STANDALONE, folder)
    buffers = sorted(((int(n), name, kind, what) for name, n, kind, what in _BUFFER.findall(text)))
    symbols = dict(re.findall(r"^ +const i64 (s\d+) = sym\[(\d+)\];", text.split("fb_run(")[1], re.MULTILINE))
    return Exported(path, tuple(b[1:] for b in buffers), tuple(sorted(symbols, key=lambda s: int(symbols[s]))))


def _texts(f: Callable, args: tuple, dynamic: bool | None) -> list[str]:
    with tempfile.TemporaryDirectory() as dump, config.patch(dump=dump), no_grad():
        compile(f, dynamic=dynamic)(*args)
        paths = [os.path.join(dump, name, "kernels.cpp") for name in sorted(os.listdir(dump))]
        found = []
        for path in filter(os.path.exists, paths):
            with open(path) as file:
                found.append(file.read())
    return found
