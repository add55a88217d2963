"""The face of the native extension: pool, allocator and kernels set up from the settings, and headers for generated
code.

In: `config.threads`, `config.isa`. Out: functions on numpy arrays. This module knows no Tensor and no graph.
"""

from __future__ import annotations

import functools
import os

import ml_dtypes
import numpy as np

from . import _native
from .config import config

CSRC = os.path.join(os.path.dirname(__file__), "csrc")

empty = _native.empty
matmul = _native.matmul
philox = _native.philox
convolution = _native.convolution
convolution_weight = _native.convolution_weight
memory = _native.memory
empty_cache = _native.empty_cache
reset_peak = _native.reset_peak
native_seconds = _native.native_seconds
watch_launches = _native.watch_launches
bind_tensor = _native.bind_tensor
Launcher = _native.Launcher
api = _native.api  # the capsule through which other extensions call this one
get_num_threads = _native.get_num_threads
get_blas_threads = _native.get_blas_threads
isas = _native.isas
isa = _native.get_isa
instructions = _native.instructions  # isas, and those that add products of bfloat16
chosen_instructions = _native.get_instructions


def set_num_threads(count: int) -> None:
    """Threads of parallel loops, the caller included, and of numpy's OpenBLAS, which spin where they are more than the cores.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.set_num_threads.html
    """
    _native.set_num_threads(count)
    _native.set_blas_threads(count)


def default_threads() -> int:
    """Cores this process may use: its affinity mask, cut to the control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return max(1, min(cores, quota) if quota else cores)


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _quota() -> int | None:
    """Whole CPUs that the control group grants (v2, then v1), or None."""
    try:
        text = _read("/sys/fs/cgroup/cpu.max").split()
        if text[0] == "max":
            return None
        return max(1, round(int(text[0]) / int(text[1])))
    except (OSError, ValueError, IndexError):
        return _quota_v1()


def _quota_v1() -> int | None:
    try:
        quota = int(_read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"))
        period = int(_read("/sys/fs/cgroup/cpu/cpu.cfs_period_us"))
    except (OSError, ValueError):
        return None
    return max(1, round(quota / period)) if quota > 0 and period > 0 else None


@functools.cache
def header(name: str) -> str:
    """The text of a shared header, for embedding into generated code: without its includes."""
    return "\n".join(line for line in _read(os.path.join(CSRC, name)).splitlines() if not line.startswith("#include"))


def _set_up() -> None:
    _native.set_bfloat16(np.dtype(ml_dtypes.bfloat16))
    _native.set_isa(config.isa)
    count = config.threads or default_threads()
    _native.set_num_threads(count)
    if config.threads or "OPENBLAS_NUM_THREADS" not in os.environ and count < get_blas_threads():
        _native.set_blas_threads(count)


_set_up()
