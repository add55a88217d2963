"""Attributes that the traced code stores in classes: counters, and flags that something was said once.

In: `cls.name = value` of a plain value. Like every change it is a side effect, written after the graph; until then whoever looks
a name up along the bases of a class finds it here first. What would change how objects of the class behave is Python's.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from ...eager.class_homes import real_module
from ...eager.tensor import Tensor
from ..breaks import unsupported
from ..guards.class_lookups import IMMUTABLE_TYPE
from ..guards.source import Pinned
from .base import Variable
from .constant import ConstantVariable, SymVariable
from .dicts import DictVariable
from .sequences import ListVariable, TupleVariable
from .sets import SetVariable
from .tensor import TensorVariable

VALUES = (ConstantVariable, SymVariable, TensorVariable, ListVariable, DictVariable, SetVariable, TupleVariable)
BUILTIN_LAYOUTS = (tuple, list, dict, set, frozenset, str, bytes, int, float, complex, BaseException, type, enum.Enum, Tensor)


class ClassStore:
    """What a class holds under a name since the trace stored it there; stands where the class's raw attribute would."""

    def __init__(self, variable: Variable):
        self.variable = variable


class ClassMutations:
    """The stores of one trace: class -> name -> Written, and the one variable per class that they are told of."""

    def __init__(self):
        self.tables: dict[type, dict[str, ClassStore]] = {}
        self.owners: dict[type, Variable] = {}

    def held(self, base: type, name: str) -> tuple | None:
        """(class, raw attribute) of what this very class has under a name, or None."""
        table = self.tables.get(base, {})
        return (base, table[name]) if name in table else (base, base.__dict__[name]) if name in base.__dict__ else None

    def seen(self, cls: type, name: str, found: tuple | None) -> Any:
        """What a look-up along the bases finds, where the classes themselves have `found`, (owner, raw) or None."""
        for base in cls.__mro__:
            if name in self.tables.get(base, ()):
                return base, self.tables[base][name]
            if found is not None and base is found[0]:
                break
        return found


def store(tx: Any, variable: Any, name: str, value: Variable, lookup: Any) -> None:
    """`cls.name = value`."""
    cls, value = variable.cls, value.realize()
    found = lookup(cls, name)
    if not (may_change(tx, cls, lookup) and is_plain(name, value) and (found is None or not is_descriptor(found[1]))):
        raise unsupported("mutation", f"storing attribute {name!r} of {variable}")
    owner = tx.class_edits.owners.setdefault(cls, type(variable)(cls, Pinned(cls, cls.__qualname__)))
    tx.class_edits.tables.setdefault(cls, {})[name] = ClassStore(value)
    tx.effects.store_attr(owner, name, value)


def may_change(tx: Any, cls: type, lookup: Callable) -> bool:
    """A class of the program's own, whose attributes are where `type` keeps them."""
    return not (
        cls.__flags__ & IMMUTABLE_TYPE
        or issubclass(cls, BUILTIN_LAYOUTS)
        or tx.is_trusted(real_module(cls))
        or lookup(type(cls), "__setattr__")[0] is not type
    )


def is_plain(name: str, value: Variable) -> bool:
    special = name.startswith("__") and name.endswith("__")
    return not special and isinstance(value, VALUES) and not (value.is_constant() and is_descriptor(value.plain()))


def is_descriptor(raw: Any) -> bool:
    return any(hasattr(type(raw), name) for name in ("__get__", "__set__", "__delete__"))
