"""Objects of user classes, and classes themselves.

Attribute access follows Python's own protocol (data descriptors, the instance's dictionary, class attributes, `__getattr__`)
on the real object, which is never changed while tracing: stores go to `tx.effects`, reads look there first and guard the rest.
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
import threading
import types
from typing import Any
from collections.abc import Callable

from .. import thread_local_state
from ..breaks import UserRaise, unsupported
from ..guards.class_lookups import IMMUTABLE_TYPE, is_data_descriptor
from ..guards.source import Attr, DictAttr, Pinned, Source
from . import class_mutation
from .base import KnownVariable, LazyVariable, Variable
from .class_mutation import ClassMutations, ClassStore
from .constant import special_method_result, Cached
from .dicts import DictVariable
from .exceptions import ExceptionVariable
from .functions import BoundMethodVariable
from .iterators import IteratorVariable
from .sequences import TupleVariable
from .dunder import DUNDERS, candidates, is_not_implemented

SLOT_TYPES = (types.MemberDescriptorType,)


def lookup(cls: Any, name: str) -> tuple[type, Any] | None:
    """(owner, raw attribute) along the MRO, or None; remembered for the guards of the trace that asks."""
    for base in cls.__mro__:
        if name in base.__dict__:
            found = base, base.__dict__[name]
            break
    else:
        found = None
    if lookups.seen is not None and not cls.__flags__ & IMMUTABLE_TYPE:
        lookups.seen.setdefault(cls, {})[name] = found
    return found if lookups.edits is None or not lookups.edits.tables else lookups.edits.seen(cls, name, found)


def lookup_defined(cls: Any, name: str) -> tuple[type, Any]:
    """`lookup` of a name that the class is known to have, from `object` at the latest."""
    found = lookup(cls, name)
    assert found is not None, f"{cls} has no {name}"
    return found


class Lookups(threading.local):
    """What a trace on this thread found in classes: class -> name -> (owner, raw) or None; and what it stored in them."""

    seen: dict | None = None
    edits: ClassMutations | None = None


lookups = Lookups()
thread_local_state.LOCALS.append(lookups)


class UserObjectVariable(Variable):
    """An object with attributes; `value` is the real one, or None when the traced code made it."""

    content: Any = None  # what a builtin base of its class holds (user_subclass.py)
    base: type | None = None  # that builtin base

    def __init__(self, cls: Any, value: Any = None, source: Source | None = None):
        super().__init__(source)
        self.cls, self.value = cls, value

    def python_type(self) -> type:
        return self.cls

    @property
    def has_index(self) -> Any:
        return python_method(self.cls, "__index__")

    def identity(self) -> UserObjectVariable:
        return self

    def key(self) -> UserObjectVariable:
        if lookup_defined(self.cls, "__eq__")[0] is not object or lookup_defined(self.cls, "__hash__")[0] is not object:
            raise unsupported("operator", f"{self} with its own __eq__ or __hash__ as a dict key")
        return self

    def describe(self) -> str:
        return f"{self.cls.__name__} object"

    # -- reading ---------------------------------------------------------------------------------------------------

    def instance_dict(self) -> Any:
        """The real instance dictionary, or an empty one."""
        return getattr(self.value, "__dict__", {}) if self.value is not None else {}

    def get_attr(self, tx: Any, name: str) -> Variable:
        getter = lookup_defined(self.cls, "__getattribute__")
        if isinstance(getter[1], types.FunctionType):
            return self.through_getattribute(tx, getter, name)
        if getter[0] not in tx.PLAIN_GETATTRIBUTE and self.content is None:
            raise unsupported("attribute", f"{self} has its own __getattribute__")
        if lookup(self.cls, "__getattr__") is None:
            return self.plain_attr(tx, name)
        try:
            return self.plain_attr(tx, name, self.fallback)
        except UserRaise as error:  # a property, or a descriptor, has no value after all
            return self.asked_again(tx, name, error)

    def through_getattribute(self, tx: Any, getter: tuple, name: str) -> Variable:
        """The class's own __getattribute__; __getattr__ has its say behind it."""
        try:
            return tx.call(bind(tx, getter, self, "__getattribute__"), [tx.constant(name)], {})
        except UserRaise as error:
            return self.asked_again(tx, name, error)

    def asked_again(self, tx: Any, name: str, error: UserRaise) -> Any:
        """What __getattr__ says where an attribute was looked up in vain."""
        if not issubclass(error.variable.cls, AttributeError) or lookup(self.cls, "__getattr__") is None:
            raise error
        return self.fallback(tx, name)

    def plain_attr(self, tx: Any, name: str, missing: Any = None) -> Any:
        """object.__getattribute__; `missing` answers for what is neither in the object nor in its class."""
        stored = tx.effects.stored(self, name)
        if stored is not None:
            return stored
        deleted = tx.effects.is_deleted(self, name)
        found = lookup(self.cls, name)
        if found is not None and is_data_descriptor(found[1]):
            return self.descriptor(tx, found, name, deleted)
        if name in self.instance_dict() and not deleted:
            return tx.wrap(self.instance_dict()[name], DictAttr(self.known_source, name))
        return self.from_class(tx, found, name, missing or self.refuse)

    def from_class(self, tx: Any, found: tuple | None, name: str, missing: Callable) -> Variable:
        if self.source is not None and hasattr(self.value, "__dict__") and name not in self.instance_dict():
            tx.guard(self.source, "no_dict_attr", name)
        if found is not None:
            return bind(tx, found, self, name)
        return missing(tx, name)

    def refuse(self, tx: Any, name: str) -> None:
        tx.raise_error(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")

    def refuse_slot(self, tx: Any, ask: Any) -> None:
        """The AttributeError of an empty slot in this Python's words."""
        try:
            ask(object.__new__(self.cls))
        except TypeError as error:
            raise unsupported("attribute", f"an empty slot of {self}") from error
        except AttributeError as error:
            tx.raise_error(AttributeError, str(error))

    def fallback(self, tx: Any, name: str) -> Variable:
        getter = lookup(self.cls, "__getattr__")
        if getter is None:
            self.refuse(tx, name)
        return tx.call(bind(tx, getter, self, "__getattr__"), [tx.constant(name)], {})

    def descriptor(self, tx: Any, found: tuple, name: str, deleted: bool) -> Variable:
        raw = found[1]
        if name == "__class__":
            return tx.wrap_type(self.cls)
        if name == "__dict__":
            return self.dictionary(tx)
        if isinstance(raw, SLOT_TYPES):
            empty = self.value is None or EmptySlotGuard(raw)(self.value)
            if empty and self.source is not None:
                tx.guard(self.source, "predicate", EmptySlotGuard(raw))
            if empty or deleted:
                self.refuse_slot(tx, raw.__get__)
            return tx.wrap(getattr(self.value, name), Attr(self.known_source, name))
        return bind(tx, found, self, name)

    def dictionary(self, tx: Any) -> InstanceDict:
        if self.source is not None:
            tx.guard(self.source, "own_names", tuple(self.instance_dict()))
        return InstanceDict(tx, self)

    def fields(self, tx: Any) -> dict:
        """Name -> Variable of everything in the instance's dictionary now."""
        found = {
            n: LazyVariable(tx, v, DictAttr(self.known_source, n))
            for n, v in self.instance_dict().items()
            if not tx.effects.is_deleted(self, n)
        }
        return found | {n: tx.effects.stored(self, n) for n in tx.effects.attributes.get(self, {}) if n in tx.effects.names(self)}

    # -- writing ---------------------------------------------------------------------------------------------------

    def set_attr(self, tx: Any, name: str, value: Variable) -> None:
        setter = lookup_defined(self.cls, "__setattr__")
        if setter[0] is not object:
            tx.call(bind(tx, setter, self, "__setattr__"), [tx.constant(name), value], {})
        else:
            self.set_plain(tx, name, value)

    @property
    def has_own_setattr(self) -> bool:
        return lookup_defined(self.cls, "__setattr__")[0] is not object

    def set_plain(self, tx: Any, name: str, value: Variable) -> None:
        """object.__setattr__."""
        found = lookup(self.cls, name)
        if found is not None and isinstance(found[1], property):
            if found[1].fset is None:
                tx.raise_error(AttributeError, f"property {name!r} of {self.cls.__name__!r} object has no setter")
            tx.call(tx.wrap_pinned(found[1].fset, name), [self, value], {})
        elif found is not None and is_data_descriptor(found[1]) and not isinstance(found[1], SLOT_TYPES):
            self.store_through(tx, found, name, value)
        else:
            if not self.cls.__dictoffset__ and (found is None or not isinstance(found[1], SLOT_TYPES)):
                owner = object.__new__(self.cls) if self.value is None else self.value
                tx.run_outside(object.__setattr__, owner, name, None)  # raises: there is no place for it
            tx.effects.store_attr(self, name, value)

    def store_through(self, tx: Any, found: tuple, name: str, value: Variable) -> None:
        """A data descriptor written in Python."""
        home, raw = found
        setter = lookup(type(raw), "__set__")
        if setter is None or not isinstance(setter[1], types.FunctionType):
            raise unsupported("attribute", f"storing {name!r} of {self} through a descriptor")
        descriptor = tx.wrap(raw, DictAttr(Pinned(home, home.__qualname__), name))
        tx.call(bind(tx, setter, descriptor, "__set__"), [self, value], {})

    def delete_through(self, tx: Any, found: tuple, name: str) -> None:
        """`__delete__` of a descriptor written in Python."""
        home, raw = found
        deleter = lookup(type(raw), "__delete__")
        if deleter is None or not isinstance(deleter[1], types.FunctionType):
            raise unsupported("attribute", f"deleting {name!r} of {self} through a descriptor")
        descriptor = tx.wrap(raw, DictAttr(Pinned(home, home.__qualname__), name))
        tx.call(bind(tx, deleter, descriptor, "__delete__"), [self], {})

    def del_attr(self, tx: Any, name: str) -> None:
        deleter = lookup_defined(self.cls, "__delattr__")
        if isinstance(deleter[1], types.FunctionType):
            tx.call(bind(tx, deleter, self, "__delattr__"), [tx.constant(name)], {})
            return
        if deleter[0] not in (object, types.SimpleNamespace):
            raise unsupported("attribute", f"deleting {name!r} of {self} through its own __delattr__")
        self.del_plain(tx, name)

    def del_plain(self, tx: Any, name: str) -> None:
        """object.__delattr__."""
        found = lookup(self.cls, name)
        if found is not None and isinstance(found[1], property):
            if found[1].fdel is None:
                tx.raise_error(AttributeError, f"property {name!r} of {self.cls.__name__!r} object has no deleter")
            tx.call(tx.wrap_pinned(found[1].fdel, name), [self], {})
            return
        if found is not None and is_data_descriptor(found[1]) and not isinstance(found[1], SLOT_TYPES):
            self.delete_through(tx, found, name)
            return
        self.require_own(tx, name, found)
        tx.effects.delete_attr(self, name)

    def require_own(self, tx: Any, name: str, found: tuple | None) -> None:
        """AttributeError unless the object itself has the attribute now."""
        if tx.effects.stored(self, name) is not None:
            return
        slot = found[1] if found is not None and isinstance(found[1], SLOT_TYPES) else None
        if not tx.effects.is_deleted(self, name) and (
            slot is not None and self.value is not None or name in self.instance_dict()
        ):
            self.plain_attr(tx, name).realize()  # guards that it is there
            return
        if self.source is not None and slot is None and hasattr(self.value, "__dict__") and name not in self.instance_dict():
            tx.guard(self.source, "no_dict_attr", name)
        if slot is not None and self.source is not None and EmptySlotGuard(slot)(self.value):
            tx.guard(self.source, "predicate", EmptySlotGuard(slot))
        if slot is not None:
            self.refuse_slot(tx, slot.__delete__)
        self.refuse(tx, name)

    # -- operators and protocols -----------------------------------------------------------------------------------

    def special(self, tx: Any, name: str) -> Variable | None:
        """The bound special method of the class, or None."""
        found = lookup(self.cls, name)
        if found is None or found[1] is None or found[0] is object:
            return None
        return bind(tx, found, self, name)

    def call_special(self, tx: Any, name: str, *args: Any) -> Variable:
        method = self.special(tx, name)
        if method is None:
            raise unsupported("operator", f"{self} has no {name}")
        return tx.call(method, list(args), {})

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        method = self.special(tx, "__call__")
        if method is None:
            tx.raise_error(TypeError, f"{self.cls.__name__!r} object is not callable")
        return tx.call(method, args, kwargs)

    def truth(self, tx: Any) -> bool:
        if lookup(self.cls, "__bool__"):
            return tx.truth(special_method_result(tx, bool, self.cls, "__bool__", self.call_special(tx, "__bool__")))
        return tx.truth(UserObjectVariable.length(self, tx)) if lookup(self.cls, "__len__") else True

    def length(self, tx: Any) -> Variable:
        return special_method_result(tx, len, self.cls, "__len__", self.call_special(tx, "__len__"))

    def get_item(self, tx: Any, key: Variable) -> Variable:
        return self.call_special(tx, "__getitem__", key)

    def set_item(self, tx: Any, key: Variable, value: Variable) -> None:
        self.call_special(tx, "__setitem__", key, value)

    def del_item(self, tx: Any, key: Variable) -> None:
        self.call_special(tx, "__delitem__", key)

    def contains(self, tx: Any, member: Variable) -> bool:
        if lookup(self.cls, "__contains__"):
            return tx.truth(self.call_special(tx, "__contains__", member))
        return super().contains(tx, member)

    def iterate(self, tx: Any) -> Variable:
        if lookup(self.cls, "__iter__"):
            found = self.call_special(tx, "__iter__")
            return found if found is self else tx.iterate(found)
        if lookup(self.cls, "__getitem__"):
            return ItemIterator(self)
        raise unsupported("iteration", f"iterating over {self}")

    def next(self, tx: Any) -> Variable | None:
        self.stopped = None
        try:
            return self.call_special(tx, "__next__")
        except UserRaise as error:
            if not issubclass(error.variable.cls, StopIteration):
                raise
            self.stopped = error
            return None

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        name = DUNDERS.get(op)
        if name is None:
            return None
        for candidate in candidates(name, reflected):
            found = lookup(self.cls, candidate)
            if found is not None and isinstance(found[1], types.FunctionType):
                result = tx.call(bind(tx, found, self, candidate), [other], {})
                if not is_not_implemented(result):
                    return result
        return self.default_equality(tx, op, other)

    def default_equality(self, tx: Any, op: Callable, other: Variable) -> Variable | None:
        if op in (operator.eq, operator.ne) and lookup_defined(self.cls, "__eq__")[0] is object:
            return tx.constant((self is other) == (op is operator.eq))
        own = lookup_defined(self.cls, "__eq__")
        if op is operator.ne and isinstance(own[1], types.FunctionType) and lookup_defined(self.cls, "__ne__")[0] is object:
            equal = tx.call(bind(tx, own, self, "__eq__"), [other], {})  # what object.__ne__ does
            return None if is_not_implemented(equal) else tx.constant(not tx.truth(equal))
        return None

    def reconstruct(self, gen: Any) -> None:
        """An object made by the traced code: an empty one now, its attributes with the other side effects."""
        home = next(base for base in self.cls.__mro__ if "__new__" in base.__dict__ and not python_method(base, "__new__"))
        gen.load_call(home.__new__, [gen.constant(self.cls)])


class EmptySlotGuard:
    """Guard: the object has nothing in this slot."""

    def __init__(self, slot: Any):
        self.slot = slot

    def __call__(self, owner: Any) -> bool:
        try:
            self.slot.__get__(owner)
        except AttributeError:
            return True
        return False

    def __str__(self) -> str:
        return f"{self.slot.__name__} is empty"


class InstanceDict(DictVariable):
    """`obj.__dict__`: a window on the attributes of the object, in both directions."""

    def __init__(self, tx: Any, owner: Any):
        self.tx, self.owner = tx, owner
        super().__init__()

    @property
    def entries(self) -> Any:
        return {name: (self.tx.constant(name), value) for name, value in self.owner.fields(self.tx).items()}

    @entries.setter
    def entries(self, value: Any) -> None:
        """The base class sets an empty dictionary at birth; there is nothing to keep."""

    def at(self, stand: str) -> Variable:
        return self.entries[stand][1].realize()

    def set_item(self, tx: Any, key: Variable, value: Variable) -> None:
        tx.effects.store_attr(self.owner, key.plain(), value)

    def del_item(self, tx: Any, key: Variable) -> None:
        if key.key() not in self.entries:
            tx.raise_error(KeyError, key.plain())
        tx.effects.delete_attr(self.owner, key.plain())

    def changed(self, tx: Any) -> None:
        raise unsupported("mutation", "reordering or clearing an object's __dict__")

    def reconstruct(self, gen: Any) -> None:
        gen.load(self.owner)
        gen.emit.load_attr("__dict__")


class ItemIterator(IteratorVariable):
    """An object with `__getitem__` alone: items 0, 1, ... until an IndexError."""

    def __init__(self, owner: Any):
        super().__init__()
        self.owner, self.index = owner, 0

    def next(self, tx: Any) -> Variable | None:
        if self.index is None:
            return None
        try:
            value = self.owner.get_item(tx, tx.constant(self.index))
        except UserRaise as error:
            if not issubclass(error.variable.cls, (IndexError, StopIteration)):
                raise
            self.index = None
            return None
        self.index += 1
        return value


# -- classes ---------------------------------------------------------------------------------------------------------


class ClassVariable(KnownVariable):
    """A class; calling it makes an object."""

    def __init__(self, cls: Any, source: Any = None):
        super().__init__(source)
        self.cls = cls

    def plain(self) -> Any:
        return self.cls

    def describe(self) -> str:
        return f"class {self.cls.__name__}"

    def get_attr(self, tx: Any, name: str) -> Variable:
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return tx.constant(getattr(self.cls, name))
        if name == "__mro__":
            return TupleVariable([tx.wrap_type(base) for base in self.cls.__mro__])
        if name == "__class__":
            return tx.wrap_type(type(self.cls))
        if name in ("__bases__", "__base__"):
            return tx.fresh(getattr(self.cls, name))
        meta, found = lookup(type(self.cls), name), lookup(self.cls, name)
        if meta is not None and isinstance(meta[1], property):
            return bind(tx, meta, self, name)
        if meta is not None and is_data_descriptor(meta[1]):  # __dict__, __abstractmethods__
            raise unsupported("attribute", f"attribute {name!r} of {self}")
        if found is None:
            return self.from_metaclass(tx, name)
        return bind_to_class(tx, found, self, name)

    def from_metaclass(self, tx: Any, name: str) -> Variable:
        found = lookup(type(self.cls), name)
        if found is not None and isinstance(found[1], functools.cached_property):
            raise unsupported("attribute", f"attribute {name!r} of {self}, which its metaclass caches")
        if found is not None and (
            isinstance(found[1], (property, types.FunctionType)) or python_method(type(found[1]), "__get__")
        ):
            return bind(tx, found, self, name)
        if not hasattr(self.cls, name):
            tx.raise_error(AttributeError, f"type object {self.cls.__name__!r} has no attribute {name!r}")
        return tx.fresh(getattr(self.cls, name))

    def set_attr(self, tx: Any, name: str, value: Variable) -> None:
        class_mutation.store(tx, self, name, value, lookup)

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        return tx.construct(self, args, kwargs)

    def of_metaclass(self, tx: Any, name: str, *args: Any) -> Any:
        """A special method that a metaclass written in Python gives the class, called; None without one."""
        if not python_method(type(self.cls), name) or is_enum(self.cls):
            return None
        return tx.call(bind(tx, lookup(type(self.cls), name), self, name), list(args), {})

    def get_item(self, tx: Any, key: Variable) -> Variable:
        found = self.of_metaclass(tx, "__getitem__", key)
        return found or tx.fresh(tx.run_variables(lambda k: self.cls[k], [key], what=f"{self}[...]"))

    def iterate(self, tx: Any) -> Any:
        found = self.of_metaclass(tx, "__iter__")
        return tx.iterate(found) if found else tx.iterator([tx.fresh(v) for v in tx.run(list, self.cls)])

    def length(self, tx: Any) -> Variable:
        said = self.of_metaclass(tx, "__len__")
        return special_method_result(tx, len, type(self.cls), "__len__", said) if said else tx.fresh(tx.run(len, self.cls))

    def contains(self, tx: Any, member: Variable) -> bool:
        found = self.of_metaclass(tx, "__contains__", member)
        return tx.truth(found) if found else tx.run_variables(lambda m: m in self.cls, [member])

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        if op in (operator.eq, operator.ne):
            return tx.constant((isinstance(other, ClassVariable) and self.cls is other.cls) == (op is operator.eq))
        return None


def is_enum(cls: type) -> bool:
    return isinstance(cls, enum.EnumMeta)


def make_object(tx: Any, cls: Any, args: list, kwargs: dict) -> Variable:
    """`cls(*args, **kwargs)` for a class written in Python: an empty object, then `__init__` inlined."""
    if python_method(type(cls), "__call__"):
        return tx.call(bind(tx, lookup(type(cls), "__call__"), tx.wrap_type(cls), "__call__"), args, kwargs)
    if type(cls).__call__ is not type.__call__:
        raise unsupported("call", f"making a {cls.__name__}, whose class has its own __new__ or metaclass call")
    return make_plainly(tx, cls, args, kwargs)


def python_method(cls: Any, name: str) -> bool:
    """Whether the class has this method from a class written in Python."""
    found = lookup(cls, name)
    raw = found[1] if found is not None else None
    return isinstance(raw.__func__ if isinstance(raw, staticmethod) else raw, types.FunctionType)


def make_plainly(tx: Any, cls: Any, args: list, kwargs: dict) -> Variable:
    """type.__call__: `__new__`, then `__init__` of what it made."""
    init = lookup_defined(cls, "__init__")
    if python_method(cls, "__new__") and cls.__new__ not in tx.OPEN_NEW:
        home, raw = lookup_defined(cls, "__new__")
        maker = tx.wrap_pinned(raw.__func__ if isinstance(raw, staticmethod) else raw, "__new__")
        made = tx.call(maker, [tx.wrap_type(cls), *args], kwargs)
        if issubclass(made.python_type(), cls) and init[0] is not object:
            tx.call(bind(tx, init, made, "__init__"), args, kwargs)
        return made
    made = tx.object_variable(cls)
    plain = lookup_defined(cls, "__new__")[0] in (object, types.SimpleNamespace) or cls.__new__ in tx.OPEN_NEW
    if not plain and made.content is None:
        raise unsupported("call", f"making a {cls.__name__}, whose class has its own __new__ or metaclass call")
    if cls.__flags__ & inspect.TPFLAGS_IS_ABSTRACT:
        tx.guard(Pinned(cls, cls.__qualname__), "predicate", inspect.isabstract)
        tx.run_outside(object.__new__, cls)  # raises in this Python's words
    if cls is types.SimpleNamespace and not args:
        for name, value in kwargs.items():
            tx.effects.store_attr(made, name, value)
        return made
    init = lookup_defined(cls, "__init__")
    if init[0] is not object:
        tx.call(bind(tx, init, made, "__init__"), args, kwargs)
    elif args or kwargs:
        tx.raise_error(TypeError, f"{cls.__name__}() takes no arguments")
    return made


def bind(tx: Any, found: Any, owner: Variable, name: str) -> Variable:
    """A raw class attribute seen through an instance."""
    home, raw = found
    if isinstance(raw, ClassStore):
        return raw.variable
    source = DictAttr(Pinned(home, home.__qualname__), name)
    if isinstance(raw, types.FunctionType):
        return BoundMethodVariable(tx.wrap(raw, source), owner, name=name)
    if isinstance(raw, (staticmethod, classmethod)):
        return bind_to_class(tx, found, tx.wrap_type(owner.python_type()), name)
    if isinstance(raw, property):
        tx.guard_identity(source, raw)
        return tx.call(tx.wrap_pinned(raw.fget, name), [owner], {})
    if isinstance(raw, functools.cached_property):
        value = tx.call(tx.wrap_pinned(raw.func, name), [owner], {})
        tx.effects.store_attr(owner, name, value)
        return value
    if isinstance(raw, Cached):
        return BoundMethodVariable(tx.wrap(raw, source), owner, name=name)
    if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType)):
        return SlotMethod(home, raw, owner, name)
    if hasattr(type(raw), "__get__") and not isinstance(raw, (type, types.BuiltinFunctionType)):
        return through_descriptor(tx, raw, source, owner, tx.wrap_type(owner.python_type()))
    return tx.wrap(raw, source)


def through_descriptor(tx: Any, raw: Any, source: Source, owner: Variable, cls: Variable) -> Variable:
    getter = lookup_defined(type(raw), "__get__")
    if not isinstance(getter[1], types.FunctionType):
        raise unsupported("attribute", f"descriptor {type(raw).__name__}")
    return tx.call(bind(tx, getter, tx.wrap(raw, source), "__get__"), [owner, cls], {})


def bind_to_class(tx: Any, found: tuple, cls: Any, name: str) -> Any:
    """A raw class attribute seen through the class."""
    home, raw = found
    if isinstance(raw, ClassStore):
        return raw.variable
    own = (
        home is cls.plain()
        and isinstance(raw, (staticmethod, types.FunctionType, Cached))
        and cls.source is not None
        and cls.source.of_frame
    )
    source = DictAttr(cls.known_source if own else Pinned(home, home.__qualname__), name)
    if isinstance(raw, staticmethod) and own:  # `lookups` guards it
        return tx.wrap(raw.__func__, Attr(cls.known_source, name))
    if isinstance(raw, staticmethod):
        tx.guard_identity(source, raw)
        return tx.wrap_pinned(raw.__func__, name)
    if isinstance(raw, classmethod):
        tx.guard_identity(source, raw)
        return BoundMethodVariable(tx.wrap_pinned(raw.__func__, name), cls, name=name)
    if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType)):
        return SlotMethod(home, raw, None, name)
    if isinstance(raw, types.ClassMethodDescriptorType):
        return tx.fresh(raw.__get__(None, cls.cls))
    if isinstance(raw, types.ClassMethodDescriptorType):
        return tx.wrap_pinned(raw.__get__(None, cls.plain()), name)
    if isinstance(raw, (property, types.MemberDescriptorType, types.GetSetDescriptorType)):
        return tx.constant(raw)
    if hasattr(type(raw), "__get__") and not isinstance(raw, (type, types.FunctionType, types.BuiltinFunctionType, Cached)):
        return through_descriptor(tx, raw, source, tx.constant(None), cls)
    return tx.wrap(raw, source)


OF_OBJECTS = ("__getattribute__", "__setattr__", "__delattr__")


class SlotMethod(Variable):
    """A method of a builtin class (object.__setattr__, dict.update, ...), bound to `owner` or not."""

    through: Variable | None = None  # the super() that it was looked up in

    def __init__(self, home: Any, raw: Callable, owner: Any, name: str):
        super().__init__()
        self.home, self.raw, self.owner, self.name = home, raw, owner, name

    def python_type(self) -> type:
        return type(self.raw)

    def identity(self) -> Any:
        return self.raw

    def describe(self) -> str:
        return f"{self.home.__name__}.{self.name}"

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        owner, args = (args[0], args[1:]) if self.owner is None else (self.owner, args)
        if isinstance(owner, UserObjectVariable):
            return self.on_object(tx, owner, args, kwargs)
        if isinstance(owner, ClassVariable) and self.home is type and self.name == "__call__":
            return make_plainly(tx, owner.cls, args, kwargs)
        if isinstance(owner, ExceptionVariable) and self.name == "__init__":
            owner.arguments = list(args)
            return tx.constant(None)
        return owner.call_method(tx, self.name, args, kwargs)

    def on_object(self, tx: Any, owner: Any, args: list, kwargs: dict) -> Variable:
        name = self.raw.__name__
        if owner.content is not None and self.home is not object and name not in OF_OBJECTS:
            return owner.of_base(tx, name, args, kwargs)
        if self.name == "__init__":
            return tx.constant(None)
        if self.name == "__setattr__":
            owner.set_plain(tx, args[0].plain(), args[1])
            return tx.constant(None)
        if self.name == "__getattribute__":
            return owner.plain_attr(tx, args[0].plain())
        if self.name in ("__eq__", "__ne__"):
            return owner.default_equality(tx, getattr(operator, self.name.strip("_")), args[0])
        if self.name == "__delattr__":
            owner.del_plain(tx, args[0].plain())
            return tx.constant(None)
        raise unsupported("call", f"{self.describe()} on {owner}")

    def reconstruct(self, gen: Any) -> None:
        if self.owner is None:
            gen.emit.load_const(self.raw)
        else:
            gen.load(self.through or self.owner)
            gen.emit.load_attr(self.name)


class SuperVariable(Variable):
    """super(cls, owner): attributes are looked up behind `cls` in the MRO."""

    def __init__(self, cls: Any, owner: Any):
        super().__init__()
        self.cls, self.owner = cls, owner

    def python_type(self) -> type:
        return super

    def get_attr(self, tx: Any, name: Any) -> Any:
        start = self.owner.cls if isinstance(self.owner, (ClassVariable, UserObjectVariable)) else self.owner.python_type()
        mro = start.__mro__
        if self.cls not in mro:  # a method of a metaclass: the owner is one of its classes
            mro = type(start).__mro__
        for base in mro[mro.index(self.cls) + 1 :]:
            found = tx.class_edits.held(base, name)
            if found is not None:
                via_class = isinstance(self.owner, ClassVariable) and mro is start.__mro__
                made = bind_to_class(tx, found, self.owner, name) if via_class else bind(tx, found, self.owner, name)
                if isinstance(made, (BoundMethodVariable, SlotMethod)):
                    made.through = self
                return made
        return tx.raise_error(AttributeError, f"'super' object has no attribute {name!r}")

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(super, [gen.constant(self.cls), self.owner])
