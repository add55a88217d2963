"""Streams and events: orders of work on a GPU, and marks in them.

In: devices and cupy's streams. Out: objects with PyTorch's names around cupy's. Ops run in the current stream of the
thread (`with stream(s):`); the default one is stream 0.
"""

from __future__ import annotations

import contextlib

from .. import device as devices
from . import find_cupy
from .allocator import on
from .gpus import index_of
from .runtime import start


class Stream:
    """A stream of its own. `inner` is cupy's; `cuda_stream` is the driver's handle."""

    def __init__(self, device=None, priority: int = 0, *, inner=None, stream_ptr: int | None = None):
        index = index_of(device)
        with on(index):
            if inner is None:
                inner = (
                    _cupy().Stream(non_blocking=True, priority=priority)
                    if stream_ptr is None
                    else _cupy().ExternalStream(stream_ptr, index)
                )
        self.inner, self.device, self.priority = inner, devices.device("cuda", index), priority

    @property
    def cuda_stream(self) -> int:
        return self.inner.ptr

    _as_parameter_ = cuda_stream

    @property
    def device_index(self) -> int:
        return self.device.index

    def synchronize(self) -> None:
        self.inner.synchronize()

    def query(self) -> bool:
        """Whether all work is done."""
        return self.inner.done

    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event) -> None:
        """Work added from here on begins after an event."""
        if event.inner is not None:
            self.inner.wait_event(event.inner)

    def wait_stream(self, stream) -> None:
        self.wait_event(stream.record_event())

    def __enter__(self):
        _entered.append(stream(self))
        return _entered[-1].__enter__() or self

    def __exit__(self, *error):
        return _entered.pop().__exit__(*error)

    def __eq__(self, other):
        return isinstance(other, Stream) and (self.cuda_stream, self.device) == (other.cuda_stream, other.device)

    def __hash__(self):
        return hash((self.cuda_stream, self.device))

    def __repr__(self):
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


_entered: list = []


class ExternalStream(Stream):
    """A stream that somebody else made, by the driver's handle."""

    def __init__(self, stream_ptr: int, device=None):
        super().__init__(device, stream_ptr=stream_ptr)


class Event:
    """A mark in a stream; with `enable_timing` the time between two can be asked for."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False):
        if interprocess:
            raise RuntimeError("Event(interprocess=True) is not supported: events belong to one process")
        start()
        self.timing, self.blocking, self.inner, self.device = enable_timing, blocking, None, None

    @property
    def cuda_event(self) -> int:
        return 0 if self.inner is None else self.inner.ptr

    def record(self, stream=None) -> None:
        stream = current_stream() if stream is None else stream
        with on(stream.device.index):
            if self.inner is None:
                self.inner = _cupy().Event(block=self.blocking, disable_timing=not self.timing)
            self.inner.record(stream.inner)
        self.device = stream.device

    def wait(self, stream=None) -> None:
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        return self.inner is None or self.inner.done

    def synchronize(self) -> None:
        if self.inner is not None:
            self.inner.synchronize()

    def elapsed_time(self, end_event) -> float:
        """Milliseconds from this mark to another."""
        if not (self.timing and end_event.timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.inner is None or end_event.inner is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return _cupy().get_elapsed_time(self.inner, end_event.inner)

    def __repr__(self):
        return "<torch.cuda.Event uninitialized>" if self.inner is None else f"<torch.cuda.Event {self.cuda_event:#x}>"


def _cupy():
    return find_cupy.cupy().cuda


def current_stream(device=None) -> Stream:
    """The stream in which this thread's ops run."""
    index = index_of(device)
    with on(index):
        return Stream(index, inner=_cupy().get_current_stream())


def default_stream(device=None) -> Stream:
    return Stream(index_of(device), inner=_cupy().Stream.null)


def set_stream(stream) -> None:
    if stream is not None:
        with on(stream.device.index):
            stream.inner.use()


class StreamContext(contextlib.AbstractContextManager):
    """`with stream(s):` work goes to `s`; None changes nothing."""

    def __init__(self, stream):
        self.stream, self.before = stream, None

    def __enter__(self):
        if self.stream is not None:
            self.before = current_stream(self.stream.device)
            set_stream(self.stream)

    def __exit__(self, *error):
        if self.before is not None:
            set_stream(self.before)
        return False


def stream(stream) -> StreamContext:
    return StreamContext(stream)


def is_current_stream_capturing() -> bool:
    from .gpus import is_initialized

    return is_initialized() and current_stream().inner.is_capturing()
