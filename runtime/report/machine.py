"""What this machine reaches: the two lines of the roofline, measured once in a process.

In: nothing. Out: `Machine`. Arithmetic is a float32 product that fits the caches, memory a copy that does not.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np

from .. import moves, native
from .data import Machine

SIDE, COPIED, ROUNDS = 768, 1 << 25, 4


def measured() -> Machine:
    """With the threads that are set now."""
    return _measured(native.get_num_threads(), native.isa())


@functools.cache
def _measured(threads: int, isa: str) -> Machine:
    a = np.full((SIDE, SIDE), 0.5, np.float32)
    x = np.zeros(COPIED // 4, np.float32)
    out, product = np.empty_like(x), np.empty_like(a)
    flops = 2 * SIDE ** 3 / best(lambda: native.matmul(a, a, product))
    bandwidth = 2 * COPIED / best(lambda: moves.copy_into(out, x))
    return Machine(threads, native.chosen_instructions(), flops, bandwidth)


def best(run: Callable) -> float:
    """Seconds of the fastest of a few runs."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
