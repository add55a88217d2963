"""Events and what is computed from them: averages by name, a table, a Chrome trace. Times are in microseconds."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field, replace
from collections.abc import Iterable


@dataclass
class FunctionEvent:
    """One call: `start` and `end` on the process's clock, the time in calls within, the shapes of its tensors. `category`:
    cpu_op, user_annotation (a named region), compiled (a call of a compiled graph), kernel (one of its kernels), compile;
    `details`: for a kernel its name and the source lines that it came from."""

    name: str
    start: float
    end: float = 0.0
    inner: float = 0.0
    input_shapes: list = field(default_factory=list)
    thread: int = 0
    category: str = "cpu_op"
    details: dict = field(default_factory=dict)

    key = property(lambda self: self.name)
    count = property(lambda self: 1)
    cpu_time_total = cpu_time = property(lambda self: self.end - self.start)
    self_cpu_time_total = property(lambda self: self.end - self.start - self.inner)

    def copy(self) -> FunctionEvent:
        return replace(self)


def nest_events(events: Iterable[FunctionEvent]) -> EventList:
    """Events in the order of their beginnings, outer ones first; what lies in an event is its `inner` time."""
    ordered = EventList(sorted(events, key=lambda e: (e.start, -e.end)))
    around: dict[int, list[FunctionEvent]] = {}
    for event in ordered:
        event.inner, stack = 0.0, around.setdefault(event.thread, [])
        while stack and stack[-1].end < event.end:
            stack.pop()
        if stack:
            stack[-1].inner += event.end - event.start
        stack.append(event)
    return ordered


class FunctionEventAvg:
    """The calls of one name."""

    def __init__(self, key: str, input_shapes=()):
        self.key, self.input_shapes = key, input_shapes
        self.count, self.cpu_time_total, self.self_cpu_time_total = 0, 0.0, 0.0

    def add(self, event) -> FunctionEventAvg:
        self.count += event.count
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        return self

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self):
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={time_text(self.self_cpu_time_total)} "
            f"cpu_time={time_text(self.cpu_time)} count={self.count}>"
        )


class EventList(list):
    """Events, or averages of events."""

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        return sum(e.self_cpu_time_total for e in self)

    def key_averages(self, group_by_input_shapes: bool = False) -> EventList:
        groups: dict = {}
        for e in self:
            key = (e.key, str(e.input_shapes) if group_by_input_shapes else "")
            groups.setdefault(key, FunctionEventAvg(e.key, e.input_shapes if group_by_input_shapes else ())).add(e)
        return EventList(groups.values())

    def total_average(self) -> FunctionEventAvg:
        total = FunctionEventAvg("Total")
        for e in self:
            total.add(e)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_name_column_width: int = 55,
        top_level_events_only: bool = False,
        header: str | None = None,
    ) -> str:
        """Rows of the averages, by default in the order of events; `sort_by`: a time (such as "self_cpu_time_total") or
        "count"."""
        if top_level_events_only:
            raise RuntimeError("table: top_level_events_only=True is not supported: averages do not keep what called them")
        rows = self
        if sort_by is not None:
            sort_by = sort_by.replace("device", "cpu").replace("cuda", "cpu")
            if not all(hasattr(e, sort_by) for e in rows):
                raise AttributeError(f"table: events have no {sort_by!r} to sort by")
            rows = sorted(rows, key=lambda e: getattr(e, sort_by), reverse=True)
        total = self.self_cpu_time_total
        cells = [("Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls")]
        for e in list(rows)[: row_limit if row_limit >= 0 else None]:
            cells.append(
                (
                    shortened(e.key, max_name_column_width),
                    share(e.self_cpu_time_total, total),
                    time_text(e.self_cpu_time_total),
                    share(e.cpu_time_total, total),
                    time_text(e.cpu_time_total),
                    time_text(e.cpu_time),
                    str(e.count),
                )
            )
        return laid_out(cells, header) + f"Self CPU time total: {time_text(total)}\n"

    def export_chrome_trace(self, path) -> None:
        """A JSON file for chrome://tracing and Perfetto; a path that ends in .gz is compressed."""
        import gzip
        import json

        process = os.getpid()
        events = [{"ph": "M", "name": "process_name", "pid": process, "args": {"name": "flambeau"}}]
        for e in self:
            shapes = {"Input Dims": [list(s) for s in e.input_shapes]} if e.category == "cpu_op" else {}
            events.append(
                {
                    "ph": "X",
                    "cat": e.category,
                    "name": e.name,
                    "ts": e.start,
                    "dur": e.cpu_time_total,
                    "pid": process,
                    "tid": e.thread,
                    "args": {**shapes, **e.details},
                }
            )
        with (gzip.open if str(path).endswith(".gz") else open)(path, "wt") as file:
            json.dump({"schemaVersion": 1, "traceEvents": events}, file)


def time_text(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def share(part: float, total: float) -> str:
    return f"{100 * part / total:.2f}%" if total else "NaN"


def shortened(name: str, width: int | None) -> str:
    return name if width is None or len(name) <= width else name[: width - 3] + "..."


def laid_out(cells, header: str | None) -> str:
    widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
    rule = "  ".join("-" * w for w in widths) + "\n"
    lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths)) + "\n" for row in cells]
    return (header + "\n" if header else "") + rule + lines[0] + rule + "".join(lines[1:]) + rule


def this_thread() -> int:
    return threading.get_native_id()
