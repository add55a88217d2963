"""Reports of a program that has ended: what it compiled is kept alive, and told as pages.

In: a block, or the whole process (FLAMBEAU_REPORT). Out: everything that was compiled in it stays alive with its tensors and
optimizers, so that a report can be made when the functions that held them have returned.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import re
import sys
from typing import Any

from ..eager.optim.optimizer import Optimizer
from . import compile as compiling
from .report import last_reports


class Held:
    """A listener to conversions that lets nothing go."""

    def __init__(self):
        self.objects: list[Any] = []

    def __call__(self, compiled: Any, record: Any) -> None:
        self.objects.append((compiled, compiled.wrapper(), [ref() for ref in record.inputs if ref is not None]))
        self.objects.append([o for o in gc.get_objects() if isinstance(o, Optimizer)])


@contextlib.contextmanager
def keeping():
    """What is compiled in this block stays alive until its end."""
    held = Held()
    compiling.listeners.append(held)
    try:
        yield held
    finally:
        compiling.listeners.remove(held)


def write(reports: list, path: str) -> list[str]:
    """One page a compiled function; the first has this path, the others are numbered. Gives all paths."""
    stem, suffix = os.path.splitext(path)
    return [one.html(path if number == 0 else f"{stem}_{number}_{readable(one.title)}{suffix}")
            for number, one in enumerate(reports)]


def readable(title: str) -> str:
    return re.sub(r"\W+", "_", title).strip("_")


def at_exit(folder: str) -> None:
    """When this process ends, its pages and their data go to this folder."""
    compiling.listeners.append(Held())
    atexit.register(leave, folder, os.getpid())


def leave(folder: str, process: int) -> None:
    """Not what a forked child inherits; a program that compiled nothing leaves nothing."""
    reports = last_reports() if os.getpid() == process else []
    for number, one in enumerate(reports):
        os.makedirs(folder, exist_ok=True)
        script = os.path.splitext(os.path.basename(sys.argv[0]))[0] or "python"
        stem = os.path.join(folder, f"{script}_{process}_{number}_{readable(one.title)}")
        with open(f"{stem}.json", "w", encoding="utf-8") as file:
            file.write(one.to_json())
        one.html(f"{stem}.html")
