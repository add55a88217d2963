"""nn.Module objects: forward is inlined, parameters and buffers are graph inputs.

The three tables of a module are read where `__getattr__` would look, with one guard per name that was read; a module
without hooks is called by its forward directly under one `no_hooks` guard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


from ...eager.nn.modules import module as library
from ..guards.source import MODULE_TABLES, DictAttr, Pinned, module_entry
from .base import Variable
from .objects import UserObjectVariable, lookup_defined, lookup

Module = library.Module
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
GLOBAL_HOOKS = ("_global_hooks",)


class ModuleVariable(UserObjectVariable):
    """A module that existed before the call."""

    def describe(self) -> str:
        return f"module {self.cls.__name__}"

    def fallback(self, tx: Any, name: str) -> Variable:
        getter = lookup(self.cls, "__getattr__")
        if getter is None or getter[0] is not Module:
            return super().fallback(tx, name)
        for table in MODULE_TABLES:
            found = self.member(tx, table, name)
            if found is not None:
                return found
        for table in MODULE_TABLES:
            if table in self.instance_dict() and self.table(tx, table) is None:
                tx.guard(DictAttr(self.known_source, table), "no_item", name)
        if self.source is not None and name not in self.instance_dict():
            tx.guard(self.source, "no_dict_attr", name)
        return tx.raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def table(self, tx: Any, table: str) -> Variable | None:
        """A table that the trace made, or looked at as a whole and may have changed."""
        return tx.effects.stored(self, table) or tx.known(self.instance_dict().get(table))

    def member(self, tx: Any, table: str, name: str) -> Variable | None:
        """What a table has under a name, or None."""
        whole, real = self.table(tx, table), self.instance_dict().get(table)
        if whole is not None:
            return whole.get_item(tx, tx.constant(name)) if whole.contains(tx, tx.constant(name)) else None
        return tx.wrap(real[name], module_entry(self.known_source, table, name)) if real is not None and name in real else None

    def from_class(self, tx: Any, found: tuple | None, name: str, missing: Callable) -> Variable:
        if found is None and missing == self.fallback and lookup_defined(self.cls, "__getattr__")[0] is Module:
            return self.fallback(tx, name)  # which looks at the tables before it guards that the name is in none
        return super().from_class(tx, found, name, missing)

    # -- calls -----------------------------------------------------------------------------------------------------

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        if lookup_defined(self.cls, "__call__")[0] is Module and self.without_hooks(tx):
            return tx.call(self.get_attr(tx, "forward"), args, kwargs)
        return super().call(tx, args, kwargs)

    def without_hooks(self, tx: Any) -> bool:
        fields = self.instance_dict()
        if (
            any(fields.get(name) for name in HOOKS)
            or any(getattr(library, name) for name in GLOBAL_HOOKS)
            or tx.effects.names(self) & set(HOOKS)
        ):
            return False
        tx.guard(self.source, "no_hooks", HOOKS)
        for name in GLOBAL_HOOKS:
            tx.guard(Pinned(getattr(library, name), name), "len", 0)
        return True

    # -- stores ----------------------------------------------------------------------------------------------------

    @property
    def has_own_setattr(self) -> bool:
        return lookup_defined(self.cls, "__setattr__")[0] is not Module

    def set_attr(self, tx: Any, name: str, value: Variable) -> None:
        """A plain attribute is stored as it is; what the tables have a say in goes through Module.__setattr__."""
        registered = issubclass(value.python_type(), (Module, library.Parameter, library.Buffer)) or any(
            self.member(tx, table, name) is not None or name in self.instance_dict().get(table, ()) for table in MODULE_TABLES
        )
        if registered or lookup_defined(self.cls, "__setattr__")[0] is not Module:
            super().set_attr(tx, name, value)
        else:
            self.set_plain(tx, name, value)

    # -- how it is made again --------------------------------------------------------------------------------------

    def reconstruct(self, gen: Any) -> None:
        """A module that the trace made: an empty one with a dictionary of its own."""
        gen.load_call(Module.__new__, [gen.constant(self.cls)])
