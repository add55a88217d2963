"""Locks that are open in a forked child: the thread that held one at the fork does not exist there.

`importing` is held around imports that happen late: Python's own lock of a module that another thread is importing stays
shut in a child for ever, so a fork waits until no such import is under way. Python collects no garbage meanwhile.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from .gc_pause import uncollected


class Importing:
    """A lock that may be taken again by its thread; held by `with`, Python collects no garbage."""

    def __init__(self):
        self.lock: Any = threading.RLock()
        self.acquire, self.release = self.lock.acquire, self.lock.release

    def __enter__(self) -> None:
        self.lock.acquire()
        uncollected.enter(stays=True)

    def __exit__(self, *error: Any) -> None:
        uncollected.__exit__()
        self.lock.release()

    def held(self) -> bool:
        """By this thread."""
        return self.lock._is_owned()

    def let_go(self) -> None:
        """Open it, however often this thread has taken it."""
        while self.lock._is_owned():
            self.lock.release()


importing = Importing()
_known: weakref.WeakSet = weakref.WeakSet()


def fresh(kind: Callable[[], Any] = threading.Lock) -> Any:
    """A new Lock (or RLock) for state that is whole whenever a thread may be interrupted."""
    made = kind()
    _known.add(made)
    return made


T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """functools' own, open in a forked child: CPython 3.11 has one lock for a property of all instances, and holds it while
    the value is computed (later ones have none)."""

    def __init__(self, func: Callable[[Any], T]):
        super().__init__(func)
        lock = vars(self).get("lock")
        if lock is not None:
            _known.add(lock)


def _reopen() -> None:
    for lock in list(_known):
        lock._at_fork_reinit()  # as logging, threading and queue do for theirs


os.register_at_fork(after_in_child=_reopen)
os.register_at_fork(before=importing.acquire, after_in_parent=importing.release, after_in_child=importing.release)
