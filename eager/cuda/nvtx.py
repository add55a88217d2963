"""torch.cuda.nvtx: marks for NVIDIA's profilers. Without a GPU nothing is recorded."""

import contextlib

from . import find_cupy


def _marks():
    return find_cupy.cupy().cuda.nvtx if find_cupy.found()[0] is not None else None


def range_push(msg) -> int:
    marks = _marks()
    if marks is None:
        return -1
    marks.RangePush(str(msg))
    return 0


def range_pop() -> int:
    marks = _marks()
    if marks is None:
        return -1
    marks.RangePop()
    return 0


def mark(msg) -> None:
    marks = _marks()
    if marks is not None:
        marks.Mark(str(msg))


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
