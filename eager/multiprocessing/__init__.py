"""torch.multiprocessing: Python's multiprocessing, with tensors sent through shared memory.

In: the names of `multiprocessing`. Out: the same, after `reductions` has told its pickler how tensors travel: a
tensor's storage moves to shared memory once and its descriptor is sent, so that both ends see later writes.
"""

import multiprocessing
from multiprocessing import *  # noqa: F403

from . import reductions
from .spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

reductions.init_reductions()

_STRATEGIES = {"file_descriptor"}


def set_sharing_strategy(new_strategy: str) -> None:
    """Only descriptors exist here; names in a file system would need a cleaner."""
    if new_strategy not in _STRATEGIES | {"file_system"}:
        raise AssertionError(f"unknown sharing strategy {new_strategy!r}")


def get_sharing_strategy() -> str:
    return "file_descriptor"


def get_all_sharing_strategies() -> set:
    return set(_STRATEGIES)


__all__ = [
    *multiprocessing.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
