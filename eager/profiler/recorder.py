"""The mode that times ops, what compiled calls tell of their kernels, and named regions.

Every op of the thread that goes through dispatch becomes an event, every call of a compiled graph one with its kernels
inside, and every compilation. Nothing is compiled anew for it: generated code asks the time where it is told to.
"""

from __future__ import annotations

import functools
import threading
import time

from ...runtime import locks, native, compile_log
from .. import dispatch
from ..state import Mode
from ..tensor import Tensor
from .events import EventList, FunctionEvent, nest_events, this_thread

MOST_PLACES = 3  # source lines in the name of a kernel


def now() -> float:
    return time.perf_counter_ns() / 1000


class Recorder(Mode):
    """Collects events while it is entered."""

    passive = True

    def __init__(self, shapes: bool = False):
        self.shapes = shapes
        self.events: list[FunctionEvent] = []

    def begin(self, name: str, args=(), category: str = "user_annotation") -> FunctionEvent:
        shapes = [tuple(a.shape) for a in args if isinstance(a, Tensor)] if self.shapes else []
        event = FunctionEvent(name, now(), input_shapes=shapes, thread=this_thread(), category=category)
        self.events.append(event)
        return event

    @staticmethod
    def end(event: FunctionEvent) -> None:
        event.end = now()

    def dispatch(self, op, args: tuple):
        if compile_log.compiling():
            return dispatch.execute(op, args)  # a pass of the compiler tries something
        event = self.begin(f"aten::{op.name}", args, "cpu_op")
        try:
            return dispatch.execute(op, args)
        finally:
            self.end(event)

    def finished(self) -> EventList:
        """What has ended, in the order of beginnings."""
        return nest_events(event for event in self.events if event.end)

    def __enter__(self):
        super().__enter__()
        _active.stack = (*_active.stack, self)
        _watchers.enter()
        return self

    def __exit__(self, *exc):
        _watchers.leave()
        _active.stack = _active.stack[:-1]
        super().__exit__(*exc)


class _Active(threading.local):
    stack: tuple = ()


_active = _Active()


# -- what compiled code tells


class Watchers:
    """Launches and compilations are told while a recorder is on, of whichever thread."""

    def __init__(self):
        self.count, self.lock = 0, locks.fresh()

    def enter(self) -> None:
        with self.lock:
            self.count += 1
            if self.count == 1:
                native.watch_launches(launched)
                compile_log.watchers.append(compiled)

    def leave(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                native.watch_launches(None)
                compile_log.watchers.remove(compiled)


_watchers = Watchers()


def compiled(name: str, start: float, end: float) -> None:
    """A compilation of this thread has ended; in seconds."""
    for recorder in _active.stack:
        recorder.events.append(FunctionEvent(f"compile {name}", start * 1e6, end * 1e6, thread=this_thread(), category="compile"))


def launched(owner, start: int, end: int, ticks: list, eager: list) -> None:
    """A compiled graph was run on this thread; in nanoseconds. `owner` names its kernels; `ticks`: when each began and
    ended; `eager`: (number, start, end) of ops that it called."""
    if not _active.stack:
        return
    thread, spans = this_thread(), list(zip(ticks[::2], ticks[1::2]))
    made = [FunctionEvent(owner.title or "compiled graph", start / 1e3, end / 1e3, thread=thread, category="compiled")]
    made += [
        FunctionEvent(name, a / 1e3, b / 1e3, thread=thread, category="user_annotation")
        for name, a, b in regions(owner.regions, spans)
    ]
    for name, lines, (a, b) in zip(owner.kernels, owner.lines, spans):
        made.append(
            FunctionEvent(
                kernel_name(name, lines),
                a / 1e3,
                b / 1e3,
                thread=thread,
                category="kernel",
                details={"kernel": name, "lines": list(lines)},
            )
        )
    made += [
        FunctionEvent(f"eager call of {owner.calls[number].op.name}", a / 1e3, b / 1e3, thread=thread, category="cpu_op")
        for number, a, b in eager
    ]
    for recorder in _active.stack:
        recorder.events.extend(made if recorder is _active.stack[-1] else [event.copy() for event in made])


def kernel_name(name: str, lines: tuple) -> str:
    """The kernel's name with the places in the program that it came from."""
    places = list(dict.fromkeys(line.split("  ")[0] for line in lines))
    more = ", ..." if len(places) > MOST_PLACES else ""
    return f"{name} ({', '.join(places[:MOST_PLACES])}{more})" if places else name


def regions(paths, spans: list):
    """(name, start, end) of the `record_function` blocks that consecutive kernels share, outer ones first."""
    open_now: list[tuple[str, int]] = []  # (name, number of its first kernel)
    found: list[tuple] = []  # (first, number past the last, depth, name)
    for k, path in enumerate([*list(paths)[: len(spans)], ()]):
        same = 0
        while same < min(len(path), len(open_now)) and path[same] == open_now[same][0]:
            same += 1
        while len(open_now) > same:
            name, first = open_now.pop()
            found.append((first, k, len(open_now), name))
        open_now += [(name, k) for name in path[same:]]
    ordered = sorted(found, key=lambda each: (each[0], -each[1], each[2]))
    return [(name, spans[first][0], spans[past - 1][1]) for first, past, _, name in ordered]


class record_function:
    """`with record_function("name"):` (or as a decorator): the block is one event of the profile that is on, if any. In
    compiled code it is drawn around the kernels that were made of the ops inside."""

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args
        self.opened: list = []

    @classmethod
    def entered(cls, name: str, args: str | None = None) -> record_function:
        """One that is open already: where compiled code was cut inside of a block."""
        return cls(name, args).open()

    def open(self):
        self.opened = [(r, r.begin(self.name)) for r in _active.stack]
        return self

    def __enter__(self):
        return self.open()

    def __exit__(self, *_):
        self.close()

    def close(self):
        for recorder, event in self.opened:
            recorder.end(event)

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return inside
