"""Seconds of each kernel of a compiled graph, measured on made-up inputs.

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

from ...capture.graph.graph import Graph, evaluate_number
from ...eager.tensor import Tensor
from ..runtime.runtime_wrapper import OutputAssembler
from ..cpp.launch import CppExecutable, launcher

MOST_BYTES = 2 << 30  # of made-up inputs
ROUNDS, ENOUGH = 5, 0.5  # calls, and seconds after which there are no more


class KernelTimer:
    """Runs the programs of one compiled graph: the forward on made-up inputs, the backward on what the forward kept, since
    saved indices must be indices."""

    def __init__(self, compiled: Any):
        self.compiled, self.kept = compiled, None

    def measured(self, run: CppExecutable, graph: Graph, hints: dict[str, Any]) -> tuple[float | None, dict[str, float], str]:
        """(seconds of the fastest call, the fastest of each kernel, why there is nothing)."""
        problem = self.problem(run, graph, hints)
        if problem:
            return None, {}, f"{graph.name} {problem}, so its kernels were not timed."
        launch = run.launch
        timed = launcher(replace(launch, timed=True), ctypes.CDLL(run.path), True)
        given = [*(self.kept or ()), *(made_up(n.value, hints) for n in graph.inputs[len(self.kept or ()) :])]
        spoiled = [k for k, each in enumerate(launch.inputs) if each is not None and each[3] or k in launch.overwrites]
        try:
            calls, times, results = rounds(timed, given, spoiled)
        except Exception as error:  # whatever a kernel says to numbers that no program gave it
            return None, {}, f"{graph.name} refuses made-up inputs ({error}), so its kernels were not timed."
        if graph.name == "forward" and self.compiled.training is not None:
            self.kept = self.saved(given, results)
        best = {name: min(each) / 1e9 for name, *each in zip(launch.kernels, *times)}
        return min(calls), best, ""

    def problem(self, run: CppExecutable, graph: Graph, hints: dict[str, Any]) -> str:
        if run.launch.externs:
            return "calls eager"
        if sum(size_of(n.value, hints) for n in graph.inputs) > MOST_BYTES:
            return f"takes more than {MOST_BYTES >> 30} GiB"
        counted = any(isinstance(n.value, Tensor) and not n.value.dtype.is_floating_point for n in graph.inputs)
        return "needs what the forward keeps" if graph.name != "forward" and self.kept is None and counted else ""

    def saved(self, given: list, results: list) -> list:
        """The first inputs of the backward: inputs of the forward, and its results behind those of the caller."""
        forward, first = self.compiled.forward, self.compiled.training.first
        if isinstance(forward, OutputAssembler):
            results = [results[k] if made else given[k] for made, k in forward.places]
        hidden = iter(results[self.compiled.inner :])
        return [given[first.saved_inputs[name]] if name in first.saved_inputs else next(hidden) for name in first.saved]


def rounds(timed: Any, given: list, spoiled: list[int]) -> tuple[list[float], list[list[int]], list]:
    """Seconds of each call, nanoseconds by kernel, and results. `spoiled`: inputs that a call writes, or uses the bytes of:
    what was an index must be one in the next call."""
    kept = [(given[k]._fl_array, given[k]._fl_array.copy()) for k in spoiled]
    results = timed(given, 0, 0)
    calls, times, before = [], [], timed.statistics()["kernel_ns"]
    while len(calls) < ROUNDS and sum(calls) < ENOUGH:
        for array, before_it in kept:
            array[...] = before_it
        start = time.perf_counter()
        timed(given, 0, 0)
        calls.append(time.perf_counter() - start)
        now = timed.statistics()["kernel_ns"]
        times.append([b - a for a, b in zip(before, now)])
        before = now
    return calls, times, results


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
    return Tensor._fl_from_array(array, value.dtype)
