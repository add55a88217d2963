"""Objects of classes derived from dict, OrderedDict or list: attributes like any object's, and the content of a container.

What the class writes in Python is inlined; what it leaves to its builtin base is asked of `content`, a container variable. An
object that the traced code makes is built again empty and filled past the class's own methods, whose work the trace has done.
"""

from __future__ import annotations

import collections
import collections.abc
import operator
from collections.abc import Callable
from typing import Any

from ..breaks import unsupported
from ..guards.source import Source
from .base import Variable
from .builtins import handles
from .dicts import DictVariable
from .objects import UserObjectVariable, lookup_defined, python_method
from .outer_containers import OutsideDict, OutsideList
from .sequences import ListVariable

BASES = (collections.OrderedDict, dict, list)


def base_of(cls: Any) -> type | None:
    """The builtin container that a class is derived from and whose instances it makes, perhaps in a `__new__` of its own."""
    base = next((b for b in cls.__mro__ if b in BASES), None)
    if base is None or cls is base or not cls.__flags__ & HEAP_TYPE:
        return None
    return base if lookup_defined(cls, "__new__")[0] in (base, dict, *OPEN) or python_method(cls, "__new__") else None


HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
OPEN = (collections.abc.MutableMapping, collections.abc.Sequence)


class DerivedVariable(UserObjectVariable):
    """`content` is what the builtin base holds."""

    def __init__(self, cls: type, content: Variable, value: Any = None, source: Any = None):
        super().__init__(cls, value, source)
        self.content, self.base = content, base_of(cls)

    # -- the protocol: the class's own method, or the base's -------------------------------------------------------

    def written(self, name: str) -> bool:
        return python_method(self.cls, name)

    def length(self, tx: Any) -> Variable:
        return super().length(tx) if self.written("__len__") else self.content.length(tx)

    def truth(self, tx: Any) -> bool:
        return super().truth(tx) if self.written("__bool__") or self.written("__len__") else self.content.truth(tx)

    def get_item(self, tx: Any, key: Variable) -> Variable:
        return super().get_item(tx, key) if self.written("__getitem__") else self.found(tx, key)

    def found(self, tx: Any, key: Variable) -> Variable:
        """dict.__getitem__ asks the class what to give for a missing key."""
        if self.written("__missing__") and not self.content.contains(tx, key):
            return self.call_special(tx, "__missing__", key)
        return self.content.get_item(tx, key)

    def set_item(self, tx: Any, key: Variable, value: Variable) -> None:
        (super() if self.written("__setitem__") else self.content).set_item(tx, key, value)

    def del_item(self, tx: Any, key: Variable) -> None:
        (super() if self.written("__delitem__") else self.content).del_item(tx, key)

    def contains(self, tx: Any, member: Variable) -> bool:
        return (super() if self.written("__contains__") else self.content).contains(tx, member)

    def iterate(self, tx: Any) -> Variable:
        return (super() if self.written("__iter__") else self.content).iterate(tx)

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        made = super().binary(tx, op, other, reflected)
        if made is not None:
            return made
        made = self.content.binary(tx, op, getattr(other, "content", other), reflected)
        return self if made is self.content else made

    def key(self) -> Any:
        if lookup_defined(self.cls, "__hash__")[1] is None:
            raise unsupported("operator", f"{self}, which has no hash, as a dict key")
        return super().key()

    def plain(self) -> Any:
        """A list for library functions, which only look at its members."""
        if self.base is not list or any(map(self.written, ("__iter__", "__getitem__", "__len__"))):
            return super().plain()
        return self.content.plain()

    def of_base(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        """A method of the builtin base."""
        if name == "__init__":
            fill = self.content.method_extend if self.base is list else self.content.method_update
            if self.base is list and self.content.items:
                self.content.method_clear(tx)
            return fill(tx, *args, **kwargs) if args or kwargs else tx.constant(None)
        if name == "__getitem__":
            return self.found(tx, *args)
        if name in ("__eq__", "__ne__"):
            made = self.content.binary(tx, getattr(operator, name.strip("_")), getattr(args[0], "content", args[0]), False)
            return tx.constant(NotImplemented) if made is None else made
        if name == "update" and self.base is collections.OrderedDict and self.written("__setitem__"):
            return self.updated(tx, *args, **kwargs)
        return self.content.call_method(tx, name, args, kwargs)

    def updated(self, tx: Any, other: Variable | None = None, /, **kwargs: Any) -> Any:
        """OrderedDict.update stores by the class's own method."""
        for key, value in [*(tx.pairs(other) if other is not None else ()), *((tx.constant(k), v) for k, v in kwargs.items())]:
            self.set_item(tx, key, value)
        return tx.constant(None)

    # -- how it is made again --------------------------------------------------------------------------------------

    def reconstruct(self, gen: Any) -> None:
        held = ListVariable(self.content.items) if self.base is list else DictVariable(self.content.entries.values())
        gen.load_call(filled, [gen.constant(self.cls), gen.constant(self.base), held])


def filled(cls: Any, base: Any, content: Any) -> Any:
    """An object of the class with this content, without a call of its methods."""
    made = base.__new__(cls)
    if base is list:
        list.extend(made, content)
    else:
        for key, value in content.items():
            base.__setitem__(made, key, value)
    return made


def derived_object(cls: Any) -> DerivedVariable | None:
    """An empty object of the class, made by the traced code."""
    base = base_of(cls)
    if base is None:
        return None
    return DerivedVariable(cls, ListVariable([]) if base is list else DictVariable(cls=base))


@handles(*{dict.__new__, collections.OrderedDict.__new__, list.__new__})
def _new(tx: Any, cls: Variable, /, *args: Variable, **kwargs: Variable) -> Variable:
    """What a `__new__` written in Python asks of its builtin base: an empty object, whatever else is given."""
    wanted = cls.plain() if cls.is_constant() else None
    if isinstance(wanted, type) and wanted in BASES:
        return tx.call(cls, [], {})
    made = derived_object(wanted) if isinstance(wanted, type) else None
    if made is None:
        raise unsupported("call", "__new__() of a builtin container, for a class that is not derived from it")
    return made


def wrap_derived(tx: Any, value: Any, source: Source, key_variable: Callable) -> DerivedVariable | None:
    """One from outside. Where its class reads items by a method of its own, generated code reads past it."""
    cls, base = type(value), base_of(type(value))
    past = python_method(cls, "__getitem__")
    if base is None or past and base is list:
        return None
    tx.guard(source, "type_is", cls)
    if base is list:
        content = OutsideList(tx, list.__iter__(value), source)
    else:
        real = {key: dict.__getitem__(value, key) for key in base.__iter__(value)}
        content = OutsideDict(tx, real, source, key_variable)
        content.cls = base
        content.past = base if past else None
    content.own_length = any(python_method(cls, name) for name in ("__len__", "__bool__"))
    return tx.remember(value, DerivedVariable(cls, content, value, source))
