"""Tables by the identity of their keys, which they do not keep alive.

`weakref.WeakKeyDictionary` asks its keys for equality. Code objects with the same text are equal, so two of them share one entry
there, which goes when the first is collected; a class or an object of the program may even run code of its own when it is asked.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

from . import locks


class WeakIdKeyDictionary(MutableMapping):
    """Values by key objects; an entry goes when its very key is collected."""

    def __init__(self):
        self._kept: dict[int, tuple[weakref.ref, Any]] = {}
        self._lock = locks.fresh(threading.RLock)  # a key may die while it is held

    def __getitem__(self, key: Any) -> Any:
        reference, value = self._kept.get(id(key), (None, None))
        if reference is None or reference() is not key:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        number, here = id(key), weakref.ref(self)

        def gone(reference: weakref.ref) -> None:
            table = here()
            if table is not None:
                table._drop(number, reference)

        with self._lock:
            reference, _ = self._kept.get(number, (None, None))
            if reference is None or reference() is not key:
                reference = weakref.ref(key, gone)
            self._kept[number] = reference, value

    def __delitem__(self, key: Any) -> None:
        with self._lock:
            self[key]
            del self._kept[id(key)]

    def _drop(self, number: int, reference: weakref.ref) -> None:
        """The entry of a dead key; not one of a new object that has its number."""
        with self._lock:
            if self._kept.get(number, (None, None))[0] is reference:
                del self._kept[number]

    def __iter__(self) -> Iterator:
        """The keys that are alive."""
        return (key for key in [reference() for reference, _ in list(self._kept.values())] if key is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
