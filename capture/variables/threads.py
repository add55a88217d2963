"""What threads share and what each has of its own: locks, and `threading.local` objects.

A lock that is free when the frame begins is taken and given back by the generated code, around the changes that the program makes
under it; where it makes none, there is nothing to protect from others, and what it read was read at one moment, when the guards
were. A lock that somebody holds is Python's to wait for.
"""

from __future__ import annotations

import threading
import types
from typing import Any

from ..breaks import unsupported
from ..guards.source import Attr
from .base import Variable
from .ctx_manager import ManagerMethod
from ..guards.class_lookups import is_data_descriptor
from .objects import UserObjectVariable, bind, lookup

LOCKS = (type(threading.Lock()), type(threading.RLock()))
METHODS = {"__enter__": "acquire", "acquire": "acquire", "__exit__": "release", "release": "release"}


def is_free(lock: Any) -> bool:
    """Guard: this thread would not wait for it."""
    if not lock.acquire(False):
        return False
    lock.release()
    return True


def is_held(lock: Any) -> bool:
    """Guard: giving it back is no error."""
    own: Any = lock
    return own._is_owned() if isinstance(lock, LOCKS[1]) else lock.locked()


class LockVariable(Variable):
    """A Lock or RLock from outside."""

    def __init__(self, value: Any, source: Any):
        super().__init__(source)
        self.value, self.taken = value, 0

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return type(self.value).__name__

    def get_attr(self, tx: Any, name: str) -> ManagerMethod:
        if name in METHODS:
            return ManagerMethod(self, name)
        raise unsupported("call", f"{name} of {self}")

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        if name not in METHODS or kwargs or METHODS[name] == "acquire" and args and not waits(args):
            raise unsupported("call", f"{self.describe()}.{name} on {self}")
        if METHODS[name] == "acquire":
            return self.acquire(tx)
        return self.release(tx)

    def acquire(self, tx: Any) -> Any:
        if not is_free(self.value) or self.taken and isinstance(self.value, LOCKS[0]):
            raise unsupported("call", f"{self.describe()}.acquire on {self}, which is held")
        tx.guard(self.source, "predicate", is_free)
        tx.effects.lock(self, "acquire")
        self.taken += 1
        return tx.constant(True)

    def release(self, tx: Any) -> Any:
        if not self.taken:
            if not is_held(self.value):
                raise unsupported("call", f"{self.describe()}.release on {self}, which is not held")
            tx.guard(self.source, "predicate", is_held)
        self.taken = max(self.taken - 1, 0)
        tx.effects.lock(self, "release")
        return tx.constant(None)


def waits(args: Any) -> bool:
    return len(args) == 1 and args[0].is_constant() and args[0].plain() is True


class LocalVariable(UserObjectVariable):
    """A `threading.local`: its attributes are those of the thread that runs."""

    @property
    def has_own_setattr(self) -> bool:
        return False

    def get_attr(self, tx: Any, name: str) -> Variable:
        stored = tx.effects.stored(self, name)
        if stored is not None:
            return stored
        found = lookup(self.cls, name)
        if name == "__dict__" or found is not None and is_data_descriptor(found[1]) and name != "__class__":
            raise unsupported("attribute", f"{name!r} of {self}, which each thread has of its own")
        if name in self.instance_dict() and not tx.effects.is_deleted(self, name):
            return tx.wrap(self.instance_dict()[name], Attr(self.known_source, name))
        if name not in self.instance_dict():
            tx.guard(self.source, "predicate", Lacks(name))
        if found is not None:
            return tx.wrap_type(self.cls) if name == "__class__" else bind(tx, found, self, name)
        if lookup(self.cls, "__getattr__") is not None:
            return self.fallback(tx, name)
        shown = "_thread._local" if self.cls is threading.local else self.cls.__name__
        return tx.raise_error(AttributeError, f"{shown!r} object has no attribute {name!r}")

    def set_attr(self, tx: Any, name: str, value: Variable) -> None:
        found = lookup(self.cls, name)
        if name == "__dict__" or found is not None and is_data_descriptor(found[1]):
            raise unsupported("attribute", f"storing {name!r} of {self}")
        tx.effects.store_attr(self, name, value)

    def del_attr(self, tx: Any, name: str) -> None:
        if tx.effects.stored(self, name) is None:
            self.get_attr(tx, name)  # raises, or guards that it is there
        tx.effects.delete_attr(self, name)

    def dictionary(self, tx: Any) -> Any:
        raise unsupported("attribute", f"the attributes of {self}, which each thread has of its own")


class Lacks:
    """Guard: this thread has no such attribute there."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, local: Any) -> bool:
        return self.name not in local.__dict__

    def __str__(self) -> str:
        return f"has no {self.name}"


def is_local(cls: Any) -> bool:
    """A class of thread locals that runs nothing of its own when a thread comes to it, or when an attribute is read or stored."""
    return issubclass(cls, threading.local) and not any(
        isinstance(getattr(cls, name, None), types.FunctionType)
        for name in ("__init__", "__new__", "__getattribute__", "__setattr__", "__delattr__")
    )
