"""torch.__config__: what this build is, as texts."""

import platform

import numpy as np

from ...runtime import native


def show():
    """What computes: numpy's version, and the instruction set of the runtime's kernels."""
    return (
        f"flambeau on Python {platform.python_version()}, {platform.machine()}\n"
        f"  - numpy {np.__version__}\n  - CPU capability usage: {native.chosen_instructions()}\n"
    )


def parallel_info():
    return f"flambeau's pool: {native.get_num_threads()} threads (set_num_threads, OMP_NUM_THREADS)\n"
