"""`explain(f)(*args)`: run once and tell graphs, breaks with reason, line and what to do, and guards.

In: a function or module, compiled or not. Out: an `Explanation`: numbers, break reasons, guards,
texts. It counts by the difference of the counters around one call through fresh entries.
"""

from __future__ import annotations

import collections
import dataclasses
import linecache
from typing import Any
from collections.abc import Callable

from ...runtime import counters
from ...runtime.dataclass import data
from ..report.format import count
from . import backends, api as compiling
from ..breaks import listeners
from .module import doors_of


@data
class Break:
    """One graph break: counted reason, what happened, where, what to do about it."""

    code: str
    text: str = ""
    line: str = ""
    fix: str = ""

    def __str__(self) -> str:
        place = f" at {self.line}" if self.line else ""
        advice = f"\n      what to do: {self.fix}" if self.fix else ""
        return f"{self.text or self.code}{place}{self.source()}{advice}"

    def source(self) -> str:
        """The line's text, on a line of its own."""
        file, _, number = self.line.rpartition(":")
        found = linecache.getline(file, int(number)).strip() if number.isdigit() else ""
        return f"\n      {found}" if found else ""


@data
class Explanation:
    """What one call compiled."""

    graph_count: int
    graph_break_count: int
    op_count: int
    breaks: list
    graphs: list
    guards: list
    fallbacks: dict
    seconds: float
    result: Any = None
    left: dict = dataclasses.field(default_factory=dict)  # why frames were left to Python -> how many

    def __str__(self) -> str:
        lines = [
            f"{count(self.graph_count, 'graph')}, {count(self.graph_break_count, 'break')}, {count(self.op_count, 'op')}, "
            f"{self.seconds:.2f} s"
        ]
        lines += [
            f"  break {number}{f', {times} times' if times > 1 else ''}: {one}"
            for number, (one, times) in enumerate(self.counted())
        ]
        lines += [f"  ran eagerly: {reason} ({count(times, 'time')})" for reason, times in self.fallbacks.items()]
        lines += [f"  left to Python: {reason} ({count(times, 'frame')})" for reason, times in self.left.items()]
        lines += [f"  graph {number}: {count(len(ops), 'op')}: {', '.join(ops)}" for number, ops in enumerate(self.graphs)]
        from ..report.text import readable  # few explanations are printed

        lines += ["  guards:"] + [f"    {readable(line)}" for line in dict.fromkeys(self.guards)]
        return "\n".join(lines)

    def counted(self) -> list[tuple[Break, int]]:
        """Each break once, with how often it happened; one that an earlier break brings about (it names what that has left on
        the stack) is no news."""
        first = [one for one in self.breaks if "%stack" not in one.text] or self.breaks
        return list(collections.Counter(first).items())


def _counting_backend(backend: backends.Backend, seen: list) -> backends.Backend:
    """A backend that notes the ops of each graph that it gets."""

    def record(graph: Any, example_inputs: list) -> Callable:
        seen.append([_op_name(node) for node in graph.nodes if node.op == "call_function"])
        return backend(graph, example_inputs)

    return backends.Backend(backend.name, record, leaves=backend.leaves)


def _op_name(node: Any) -> str:
    return getattr(node.target, "name", None) or getattr(node.target, "__name__", str(node.target))


def explain(f: Callable, *, backend: str | Callable | None = None, **settings: Any) -> Callable:
    """A callable that runs `f` once, freshly compiled, and returns the Explanation of that."""
    known = doors_of(f)
    if known is not None:
        settings = {**known.settings.arguments(), **settings}
        backend = backend or settings.pop("backend")
        f = getattr(f, "_orig_mod", None) or getattr(f, "__wrapped__", f)
    return lambda *args, **kwargs: _run(f, backend or backends.get_default_backend(), {**settings, "backend": None}, args, kwargs)


def _run(f: Callable, backend: str | Callable, settings: dict, args: tuple, kwargs: dict) -> Explanation:
    graphs: list = []
    breaks: list = []
    settings["backend"] = _counting_backend(backends.find(backend), graphs)
    compiled = compiling.compile(f, **settings)
    before = counters.snapshot()

    def listen(*told: Any) -> None:
        breaks.append(Break(*told))

    listeners.append(listen)
    try:
        result = compiled(*args, **kwargs)
    finally:
        listeners.remove(listen)
    return _explanation(doors_of(compiled), before, counters.snapshot(), graphs, breaks, result)


def _difference(before: dict, after: dict) -> dict:
    return {reason: times - before.get(reason, 0) for reason, times in after.items() if times != before.get(reason, 0)}


def _explanation(owner: Any, before: dict, after: dict, graphs: list, breaks: list, result: Any) -> Explanation:
    counted = _difference(before["breaks"], after["breaks"])
    told = [one.code for one in breaks]
    breaks = breaks + [Break(reason) for reason, times in counted.items() for _ in range(times - told.count(reason))]
    entries = [entry for door in (owner.all_doors() if owner is not None else []) for entry in door.entries]
    return Explanation(
        len(graphs),
        sum(counted.values()),
        sum(map(len, graphs)),
        breaks,
        graphs,
        [line for entry in entries for line in entry.guards.lines()],
        _difference(before["fallbacks"], after["fallbacks"]),
        after["compile_seconds"] - before["compile_seconds"],
        result,
        _difference(before["left"], after["left"]),
    )
