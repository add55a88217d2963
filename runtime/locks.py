"""Locks that are open in a forked child: the thread that held one at the fork does not exist there.

`importing` is held around imports that happen late: Python's own lock of a module that another thread is importing stays
shut in a child for ever, so a fork waits until no such import is under way. What an import makes stays, and a full
collection in the middle of it took a quarter of a first small compilation: there is none meanwhile.
"""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any


class Importing:
    """A lock that may be taken again by its thread; held by `with`, Python collects no garbage."""

    def __init__(self):
        self.lock, self.depth, self.collects = threading.RLock(), 0, False
        self.acquire, self.release = self.lock.acquire, self.lock.release

    def __enter__(self) -> None:
        self.lock.acquire()
        if self.depth == 0:
            self.collects = gc.isenabled()
            gc.disable()
        self.depth += 1

    def __exit__(self, *error: Any) -> None:
        self.depth -= 1
        if self.depth == 0 and self.collects:
            gc.enable()
        self.lock.release()


importing = Importing()
_known: weakref.WeakSet = weakref.WeakSet()


def fresh(kind: Callable[[], Any] = threading.Lock) -> Any:
    """A new Lock (or RLock) for state that is whole whenever a thread may be interrupted."""
    made = kind()
    _known.add(made)
    return made


def _reopen() -> None:
    for lock in list(_known):
        lock._at_fork_reinit()                      # as logging, threading and queue do for theirs


os.register_at_fork(after_in_child=_reopen)
os.register_at_fork(before=importing.acquire, after_in_parent=importing.release, after_in_child=importing.release)
