"""Typed records of one compilation: what each stage wrote, how long it took, what was decided.

Stages call `current().text("graph.py", text)` and `with current().stage("lower"):`. With FLAMBEAU_DUMP the texts are
also files under `<dump>/<id>/`, written atomically. Rendering belongs elsewhere (`report/`); this module knows no graphs.
A record lives as long as the compiled object that it tells of; what is dear to make is made when a report is asked for.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import threading
import time
import warnings
from dataclasses import field
from typing import Any

from .config import config
from .dataclass import data
from .atomic_files import write_atomically

_ids = itertools.count()
_local = threading.local()
watchers: list = []  # told of each compilation that ends: f(name, start, end), seconds of time.perf_counter
_unusable: set[str] = set()  # dump folders that could not be written to, told once


@data
class Span:
    """One stage: from `start` to `end` (seconds of `time.perf_counter`), inside of `depth` others."""

    name: str
    start: float
    end: float
    depth: int


@data
class Break:
    """One graph break: counted reason, what happened, the user's line, what to do; `plain`: the whole frame runs in Python."""

    code: str
    text: str
    file: str
    line: int
    fix: str
    plain: bool


@data(eq=False)
class CompileRecord:
    """One compilation. `ident` is `<number>_<function>`; texts by file name; seconds by stage; `function`: the frame's
    code; failed: guards of the entries that a call failed, in words, which made this one; graphs: (graph, backend, what
    the backend made), which a report asks the backend to describe; left: why the backend left the frame to Python.
    """

    ident: str
    name: str
    texts: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    graphs: list[tuple] = field(default_factory=list)
    left: str = ""
    function: Any = None
    door: str = ""
    inputs: tuple = ()
    cached: bool = False
    depth: int = 0

    @property
    def title(self) -> str:
        """The function's qualified name, where it is known."""
        return getattr(self.function, "co_qualname", self.name)

    def text(self, filename: str, text: str) -> None:
        """Keep a stage's text, and write it to the dump folder when there is one."""
        self.texts[filename] = text
        if config.dump and config.dump not in _unusable:
            try:
                write_atomically(os.path.join(config.dump, self.ident, filename), text.encode())
            except OSError as error:
                _unusable.add(config.dump)
                told = f"nothing is dumped to {config.dump} (FLAMBEAU_DUMP): {error.strerror}"
                warnings.warn(told, RuntimeWarning, stacklevel=2)

    def note(self, text: str) -> None:
        self.notes.append(text)

    @contextlib.contextmanager
    def stage(self, name: str):
        start, depth = time.perf_counter(), self.depth
        self.depth = depth + 1
        try:
            yield
        finally:
            end, self.depth = time.perf_counter(), depth
            self.seconds[name] = self.seconds.get(name, 0.0) + end - start
            self.spans.append(Span(name, start, end, depth))


def wanted() -> bool:
    """Whether somebody can read the stages' texts: a dump folder, a log channel or the checks between stages are on, or a
    report is being made on this thread."""
    return bool(config.dump or config.verify or config.logs) or getattr(_local, "reading", False)


@contextlib.contextmanager
def reading():
    """Stages write their texts in this block."""
    before, _local.reading = getattr(_local, "reading", False), True
    try:
        yield
    finally:
        _local.reading = before


def begin(name: str) -> CompileRecord:
    """A new record with an id of its own, not yet current."""
    readable = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "graph"
    return CompileRecord(f"{next(_ids):03d}_{readable}", name)


def current() -> CompileRecord:
    """The record of the compilation that runs on this thread (a nameless one outside of any)."""
    stack = getattr(_local, "stack", None)
    return stack[-1] if stack else CompileRecord("none", "none")


def compiling() -> bool:
    """Whether this thread is in a compilation."""
    return bool(getattr(_local, "stack", None))


class active:
    """Make a record current for a `with` block. No generator: one that is cut off would end when somebody drops it."""

    def __init__(self, record: CompileRecord):
        self.record = record

    def __enter__(self) -> CompileRecord:
        stack = _local.__dict__.setdefault("stack", [])
        self.depth, self.start = len(stack), time.perf_counter()
        stack.append(self.record)
        return self.record

    def __exit__(self, *error: Any) -> None:
        del _local.__dict__["stack"][self.depth :]
        for watcher in watchers:
            watcher(self.record.title, self.start, time.perf_counter())
