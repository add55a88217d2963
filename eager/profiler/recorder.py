"""The mode that times ops, and named regions.

Every op of the thread that goes through dispatch becomes an event; the time of ops within a composite counts as theirs.
"""

from __future__ import annotations

import functools
import threading
import time

from .. import dispatch
from ..state import Mode
from ..tensor import Tensor
from .events import EventList, FunctionEvent, this_thread


def now() -> float:
    return time.perf_counter_ns() / 1000


class Recorder(Mode):
    """Collects events while it is entered."""

    def __init__(self, shapes: bool = False):
        self.shapes = shapes
        self.events = EventList()
        self.open: list = []

    def begin(self, name: str, args=()) -> FunctionEvent:
        shapes = [tuple(a.shape) for a in args if isinstance(a, Tensor)] if self.shapes else []
        event = FunctionEvent(name, now(), input_shapes=shapes, thread=this_thread())
        self.events.append(event)
        self.open.append(event)
        return event

    def end(self, event: FunctionEvent) -> None:
        event.end = now()
        if event in self.open:
            del self.open[self.open.index(event):]
        if self.open:
            self.open[-1].inner += event.end - event.start

    def dispatch(self, op, args: tuple):
        event = self.begin(f"aten::{op.name}", args)
        try:
            return dispatch.execute(op, args)
        finally:
            self.end(event)

    def __enter__(self):
        super().__enter__()
        _active.stack = (*_active.stack, self)
        return self

    def __exit__(self, *exc):
        _active.stack = _active.stack[:-1]
        super().__exit__(*exc)


class _Active(threading.local):
    stack: tuple = ()


_active = _Active()


class record_function:
    """`with record_function("name"):` (or as a decorator): the block is one event of the profile that is on, if any."""

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args
        self.opened: list = []

    def __enter__(self):
        self.opened = [(r, r.begin(self.name)) for r in _active.stack]
        return self

    def __exit__(self, *_):
        for recorder, event in self.opened:
            recorder.end(event)

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return inside
