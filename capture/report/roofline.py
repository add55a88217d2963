"""What this machine reaches: the two lines of the roofline, measured once in a process.

In: nothing. Out: `Machine`. Arithmetic is a float32 product that fits the caches, memory a copy that does not.
"""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from collections.abc import Callable

import numpy as np

from ...runtime import copy_gather, native
from .data import Kernel, Machine

SIDE, COPIED, ROUNDS = 512, 1 << 25, 8
LONG = 2e-5  # seconds of a kernel whose speed is told from noise


def measured() -> Machine:
    """With the threads that are set now."""
    return _measured(native.get_num_threads(), native.isa())


@functools.cache
def _measured(threads: int, isa: str) -> Machine:
    a = np.full((SIDE, SIDE), 0.5, np.float32)
    x = np.zeros(COPIED // 4, np.float32)
    out, product = np.empty_like(x), np.empty_like(a)
    flops = 2 * SIDE**3 / best(lambda: native.matmul(a, a, product))
    bandwidth = 2 * COPIED / best(lambda: copy_gather.copy_into(out, x))
    return Machine(threads, native.chosen_instructions(), flops, bandwidth)


def roofline(kernels: list[Kernel]) -> Machine:
    """The machine, and for every kernel the least time that it needs there. What a kernel reaches is possible, so it may
    raise the roof; a measurement on a busy machine is too low."""
    found = measured()
    rates = [kernel.flops / seconds for kernel in kernels if kernel.flops and (seconds := kernel.seconds or 0) > LONG]
    found = replace(found, flops=max([found.flops, *rates]))
    for kernel in kernels:
        if kernel.flops is not None or kernel.kind == "runtime":  # what is not counted there is not much beside the bytes
            kernel.bound = max(kernel.bytes / found.bandwidth, (kernel.flops or 0) / found.flops)
    return found


def best(run: Callable) -> float:
    """Seconds of the fastest of a few runs."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
