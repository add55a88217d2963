"""Seconds of each kernel of a compiled graph, measured with made-up inputs.

In: the loaded code, the graph it was made of, values for its symbols. Out: seconds of a call and of each kernel. The idea:
the timers are in the code anyway and read nothing unless a launcher has room for their numbers, so a second launcher over
the same library measures, and calls are not slowed down.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import replace
from typing import Any

import numpy as np

from ..capture.graph import Graph, evaluate_number
from ..eager.tensor import Tensor
from .cpp.launch import Compiled, launcher

MOST_BYTES = 2 << 30        # of made-up inputs
ROUNDS, ENOUGH = 5, 0.5     # calls, and seconds after which there are no more


def measured(run: Compiled, graph: Graph, hints: dict[str, Any]) -> tuple[float | None, dict[str, float], str]:
    """(seconds of the fastest call, the fastest of each kernel, why there is nothing)."""
    launch = run.launch
    if launch.externs:
        return None, {}, f"{graph.name} calls eager, so its kernels were not timed."
    if sum(size_of(n.value, hints) for n in graph.inputs) > MOST_BYTES:
        return None, {}, f"{graph.name} takes more than {MOST_BYTES >> 30} GiB, so its kernels were not timed."
    timed = launcher(replace(launch, timed=True), ctypes.CDLL(run.path), True)
    try:
        given = [made_up(n.value, hints) for n in graph.inputs]
        calls, times = rounds(timed, given)
    except Exception as error:                      # whatever a kernel says to numbers that no program gave it
        return None, {}, f"{graph.name} refuses made-up inputs ({error}), so its kernels were not timed."
    best: dict[str, float] = {}
    for name, *each in zip(launch.kernels, *times):
        best[name] = min(each) / 1e9
    return min(calls), best, ""


def rounds(timed: Any, given: list) -> tuple[list[float], list[list[int]]]:
    """Seconds of each call, and nanoseconds by kernel."""
    timed(given, 0, 0)
    calls, times, before = [], [], timed.statistics()["kernel_ns"]
    while len(calls) < ROUNDS and sum(calls) < ENOUGH:
        start = time.perf_counter()
        timed(given, 0, 0)
        calls.append(time.perf_counter() - start)
        now = timed.statistics()["kernel_ns"]
        times.append([b - a for a, b in zip(before, now)])
        before = now
    return calls, times


def size_of(value: Any, hints: dict[str, Any]) -> int:
    if not isinstance(value, Tensor):
        return 0
    return span(*geometry(value, hints)) * value.dtype.itemsize


def geometry(value: Tensor, hints: dict[str, Any]) -> tuple[tuple, tuple]:
    return tuple(evaluate_number(n, hints) for n in value.shape), tuple(evaluate_number(n, hints) for n in value.stride())


def span(sizes: tuple, strides: tuple) -> int:
    """Elements from the first to the last."""
    return 0 if 0 in sizes else 1 + sum((n - 1) * s for n, s in zip(sizes, strides))


def made_up(value: Any, hints: dict[str, Any]) -> Any:
    """A number, or a tensor of this geometry: floats between a half and one and a half, integers (they may be indices) zero."""
    if not isinstance(value, Tensor):
        return evaluate_number(value, hints)
    sizes, strides = geometry(value, hints)
    block = np.zeros(max(1, span(sizes, strides)), value.dtype.numpy)
    if value.dtype.is_floating_point or value.dtype.is_complex:
        block[...] = np.random.default_rng(0).random(block.size, np.float32) + 0.5
    array = np.lib.stride_tricks.as_strided(block, sizes, tuple(s * block.itemsize for s in strides))
    return Tensor._from_array(array, value.dtype)
