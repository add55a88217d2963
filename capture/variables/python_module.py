"""Python modules as values: `math`, `torch`, a module of the user's own; and their dictionaries.

A name of a module is stored in three spellings: the `global` statement, an attribute of the module, and an item of its dictionary
(`globals()`, `vars(module)`). All three write `tx.effects.globals` and read it first.
"""

from __future__ import annotations

import types
from typing import Any

from ..breaks import unsupported
from ..guards.source import DictAttr, Pinned, Source, item
from .base import DELETED, KnownVariable, LazyVariable, Variable
from .container_base import ContainerVariable
from .dicts import DictVariable


class NamespaceVariable(KnownVariable):
    def __init__(self, value: Any, source: Any = None):
        super().__init__(source)
        self.value = value

    def python_type(self) -> type:
        return types.ModuleType

    def plain(self) -> Any:
        return self.value

    def describe(self) -> str:
        return f"module {self.value.__name__}"

    def get_attr(self, tx: Any, name: str) -> Variable:
        stored = tx.effects.stored_global(self.value.__dict__, name)
        if stored is DELETED:
            return self.missing(tx, name)
        if stored is not None:
            return stored
        if name == "__dict__":
            return namespace_of(tx, self.value.__dict__, Pinned(self.value.__dict__, f"vars({self.value.__name__})"))
        try:
            value = getattr(self.value, name)
        except AttributeError as error:
            return self.missing(tx, name, str(error) if tx.is_trusted(self.value.__name__) else None)
        if tx.is_trusted(self.value.__name__) or name not in self.value.__dict__:
            return tx.wrap_pinned(value, f"{self.value.__name__}.{name}")
        return tx.wrap(value, DictAttr(tx.pinned(self.value, self.value.__name__), name))

    def set_attr(self, tx: Any, name: str, value: Variable) -> None:
        tx.effects.store_global(self.value.__dict__, name, value)

    def del_attr(self, tx: Any, name: str) -> None:
        stored = tx.effects.stored_global(self.value.__dict__, name)
        if stored is DELETED or stored is None and name not in self.value.__dict__:
            self.missing(tx, name, f"{self.python_type().__name__!r} object has no attribute {name!r}")
        self.get_attr(tx, name)
        tx.effects.store_global(self.value.__dict__, name, DELETED)

    def missing(self, tx: Any, name: str, text: str | None = None) -> Any:
        if text is None and "__getattr__" in self.value.__dict__:
            raise unsupported("attribute", f"attribute {name!r} of {self}, which has a __getattr__ of its own")
        if name not in self.value.__dict__ and not tx.is_trusted(self.value.__name__):
            tx.guard(tx.pinned(self.value.__dict__, f"vars({self.value.__name__})"), "no_item", name)
        return tx.raise_error(AttributeError, text or f"module {self.value.__name__!r} has no attribute {name!r}")


def is_namespace(value: Any) -> bool:
    """Whether a dictionary holds the globals of some code: Python puts its builtins there before it runs any."""
    return type(value) is dict and "__builtins__" in value


def namespace_of(tx: Any, value: dict, source: Source) -> NamespaceDict:
    """The one Variable of this dictionary, which is this one for good."""
    known = tx.known(value)
    if known is None:
        tx.guard_identity(source, value)
        known = tx.remember(value, NamespaceDict(tx, value, Pinned(value, source.name())))
    return known


class NamespaceDict(DictVariable):
    """The dictionary of a module, or globals of code that belongs to none: a name that is looked up is guarded alone, other
    questions read all of them."""

    source: Source

    def __init__(self, tx: Any, value: dict, source: Source):
        ContainerVariable.__init__(self, source)
        self.tx, self.value, self.outside_entries = tx, value, None
        self.cls, self.factory = dict, None

    @property
    def entries(self) -> Any:
        """All that is there now, in Python's order."""
        stored = {name: value for (namespace, name), (_, value) in self.tx.effects.globals.items() if namespace == id(self.value)}
        late = {name for name, value in stored.items() if value is DELETED or self.tx.effects.is_late_global(self.value, name)}
        kept = {key: pair for key, pair in self.before().items() if key not in late}
        added = {name: value for name, value in stored.items() if value is not DELETED}
        for name in added:
            key = self.tx.constant(name)
            kept[key.key()] = key, added[name]
        return kept

    @entries.setter
    def entries(self, entries: Any) -> None:
        if entries:
            raise unsupported("mutation", "changing the order of a module's names")

    def before(self) -> dict:
        if self.outside_entries is None:
            if not all(type(name) is str for name in self.value):
                raise unsupported("value", "globals with names that are no strings")
            self.tx.guard(self.source, "dict_keys", tuple(self.value))
            keys = [self.tx.constant(name) for name in self.value]
            self.outside_entries = {key.key(): (key, self.value_of(key.value)) for key in keys}
        return self.outside_entries

    def value_of(self, name: str) -> LazyVariable:
        return LazyVariable(self.tx, self.value[name], item(self.source, name))

    def name_of(self, key: Variable) -> str:
        name = key.plain() if key.is_constant() else None
        if type(name) is not str:
            raise unsupported("mutation", f"{key} is looked up in globals, whose names are known strings")
        return name

    def find(self, tx: Any, key: Variable) -> Variable | None:
        """What a name is bound to now, guarded."""
        name = self.name_of(key)
        stored = tx.effects.stored_global(self.value, name)
        if stored is not None:
            return None if stored is DELETED else stored
        tx.guard(self.source, "has_item" if name in self.value else "no_item", name)
        return self.value_of(name).realize() if name in self.value else None

    def changed(self, tx: Any) -> None:
        """Stores go to `effects.globals`, name by name."""

    def contains(self, tx: Any, member: Variable) -> bool:
        return self.find(tx, member) is not None

    def get_item(self, tx: Any, key: Variable) -> Variable:
        found = self.find(tx, key)
        return found if found is not None else tx.raise_error(KeyError, self.name_of(key))

    def set_item(self, tx: Any, key: Variable, value: Variable) -> None:
        tx.effects.store_global(self.value, self.name_of(key), value)

    def del_item(self, tx: Any, key: Variable) -> None:
        self.get_item(tx, key)
        tx.effects.store_global(self.value, self.name_of(key), DELETED)

    def method_get(self, tx: Any, key: Variable, default: Variable | None = None) -> Variable:
        found = self.find(tx, key)
        return found if found is not None else default or tx.constant(None)

    def method_setdefault(self, tx: Any, key: Variable, default: Variable | None = None) -> Variable | None:
        if self.find(tx, key) is None:
            self.set_item(tx, key, default or tx.constant(None))
        return self.find(tx, key)

    def method_pop(self, tx: Any, key: Variable, default: Variable | None = None) -> Variable:
        found = self.find(tx, key)
        if found is None:
            return default if default is not None else tx.raise_error(KeyError, self.name_of(key))
        self.del_item(tx, key)
        return found

    def method_clear(self, tx: Any) -> Variable:
        for key in self.keys():
            self.del_item(tx, key)
        return tx.constant(None)
