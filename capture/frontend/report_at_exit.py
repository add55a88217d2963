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
from collections.abc import Iterator

from ...eager.optim.optimizer import Optimizer
from . import api as compiling
from .report import ReportBuilder


class ReportCollector:
    """A listener to conversions that lets nothing go."""

    def __init__(self):
        self.objects: list[Any] = []
        self.owners: dict[Any, None] = {}

    def __call__(self, compiled: Any, record: Any) -> None:
        self.owners[compiled] = None
        self.objects.append((compiled.wrapper(), [ref() for ref in record.inputs if ref is not None]))
        self.objects.append([o for o in gc.get_objects() if isinstance(o, Optimizer)])

    def reports(self) -> list:
        """One for each compiled object, in the order of their first conversions."""
        return [ReportBuilder(owner).report() for owner in self.owners if owner.records]


@contextlib.contextmanager
def keep_compiled() -> Iterator[Any]:
    """What is compiled in this block stays alive until its end."""
    held = ReportCollector()
    compiling.listeners.append(held)
    try:
        yield held
    finally:
        compiling.listeners.remove(held)


def write(reports: list, path: str) -> list[str]:
    """One page a compiled function; the first has this path, the others are numbered. Gives all paths."""
    stem, suffix = os.path.splitext(path)
    return [
        one.html(path if number == 0 else f"{stem}_{number}_{readable(one.title)}{suffix}") for number, one in enumerate(reports)
    ]


def readable(title: str) -> str:
    return re.sub(r"\W+", "_", title).strip("_")


def at_exit(folder: str) -> None:
    """When this process ends, its pages and their data go to this folder."""
    held = ReportCollector()
    compiling.listeners.append(held)
    atexit.register(write_at_exit, held, folder, os.getpid())


def write_at_exit(held: ReportCollector, folder: str, process: int) -> None:
    """Not what a forked child inherits; a program that compiled nothing leaves nothing."""
    reports = held.reports() if os.getpid() == process else []
    for number, one in enumerate(reports):
        os.makedirs(folder, exist_ok=True)
        script = os.path.splitext(os.path.basename(sys.argv[0]))[0] or "python"
        stem = os.path.join(folder, f"{script}_{process}_{number}_{readable(one.title)}")
        with open(f"{stem}.json", "w", encoding="utf-8") as file:
            file.write(one.to_json())
        one.html(f"{stem}.html")
