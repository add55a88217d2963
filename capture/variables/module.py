"""nn.Module objects: forward is inlined, parameters and buffers are graph inputs.

The three tables of a module are read where `__getattr__` would look, with one guard per name that was read; a module
without hooks is called by its forward directly under one `no_hooks` guard.
"""

from __future__ import annotations


from ...eager.nn.modules import module as library
from ..breaks import unsupported
from ..source import MODULE_TABLES, DictAttr, Pinned, module_entry
from .objects import UserObjectVariable, lookup

Module = library.Module
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
GLOBAL_HOOKS = ("_global_hooks",)


class ModuleVariable(UserObjectVariable):
    """A module that existed before the call."""

    def describe(self):
        return f"module {self.cls.__name__}"

    def fallback(self, tx, name):
        getter = lookup(self.cls, "__getattr__")
        for table in MODULE_TABLES:
            members = self.own().get(table)
            if members is not None and name in members and getter[0] is Module:
                return self.member(tx, table, name, members[name])
        if getter[0] is not Module:
            return super().fallback(tx, name)
        for table in MODULE_TABLES:
            made = tx.effects.stored(self, table)          # by its __init__, which is being traced
            if made is not None and made.contains(tx, tx.constant(name)):
                return made.get_item(tx, tx.constant(name))
            if made is None and table in self.own():
                tx.guard(DictAttr(self.source, table), "no_item", name)
        return tx.raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def member(self, tx, table, name, value):
        entries = tx.known(self.own()[table])
        if entries is not None and name in entries.entries:
            return entries.at(name)
        return tx.wrap(value, module_entry(self.source, table, name))

    def from_class(self, tx, found, name):
        if found is None and lookup(self.cls, "__getattr__")[0] is Module:
            return self.fallback(tx, name)
        return super().from_class(tx, found, name)

    # -- calls -----------------------------------------------------------------------------------------------------

    def call(self, tx, args, kwargs):
        if lookup(self.cls, "__call__")[0] is Module and self.without_hooks(tx):
            return tx.call(self.get_attr(tx, "forward"), args, kwargs)
        return super().call(tx, args, kwargs)

    def without_hooks(self, tx):
        fields = self.own()
        if any(fields.get(name) for name in HOOKS) or any(getattr(library, name) for name in GLOBAL_HOOKS) \
                or tx.effects.names(self) & set(HOOKS):
            return False
        tx.guard(self.source, "no_hooks", HOOKS)
        for name in GLOBAL_HOOKS:
            tx.guard(Pinned(getattr(library, name), name), "len", 0)
        return True

    # -- stores ----------------------------------------------------------------------------------------------------

    @property
    def has_own_setattr(self):
        return lookup(self.cls, "__setattr__")[0] is not Module

    def set_attr(self, tx, name, value):
        if lookup(self.cls, "__setattr__")[0] is not Module:
            super().set_attr(tx, name, value)
        elif issubclass(value.python_type(), (Module, library.Parameter, library.Buffer)):
            raise unsupported("mutation", f"registering {value} as {name!r} of {self}")
        elif name in self.own().get("_buffers", ()):
            self.get_attr(tx, "_buffers").set_item(tx, tx.constant(name), value)
        elif any(name in self.own().get(table, ()) for table in MODULE_TABLES):
            raise unsupported("mutation", f"replacing the registered {name!r} of {self}")
        else:
            self.set_plain(tx, name, value)


