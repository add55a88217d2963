"""Python modules as values: `math`, `torch`, a module of the user's own."""

from __future__ import annotations

import types

from ..source import DictAttr
from .base import Variable


class NamespaceVariable(Variable):
    shared = False

    def __init__(self, value, source=None):
        super().__init__(source)
        self.value = value

    def python_type(self):
        return types.ModuleType

    def plain(self):
        return self.value

    def identity(self):
        return self.value

    def key(self):
        return self.value

    def is_constant(self):
        return True

    def describe(self):
        return f"module {self.value.__name__}"

    def __str__(self):
        return self.describe()

    def get_attr(self, tx, name):
        stored = tx.effects.stored_global(self.value.__dict__, name)
        if stored is not None:
            return stored
        try:
            value = getattr(self.value, name)
        except AttributeError:
            return tx.raise_error(AttributeError, f"module {self.value.__name__!r} has no attribute {name!r}")
        if tx.is_trusted(self.value.__name__) or name not in self.value.__dict__:
            return tx.wrap_pinned(value, f"{self.value.__name__}.{name}")
        return tx.wrap(value, DictAttr(tx.pinned(self.value, self.value.__name__), name))

    def set_attr(self, tx, name, value):
        tx.effects.store_global(self.value.__dict__, name, value)

    def reconstruct(self, gen):
        gen.emit.load_const(self.value)
