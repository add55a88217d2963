"""Dictionaries that the program made or that came from outside, their views and iterators, holding Variables."""

from __future__ import annotations

import collections
import operator
import types
from collections.abc import Callable
from typing import Any

from ...eager import dtypes
from ...eager.device import device
from ...eager.tensor import Tensor
from ..breaks import unsupported
from ..guards.source import DictAttr, Pinned
from .base import Variable
from .container_base import ContainerVariable
from .object_id import stand_in
from .iterators import FixedIterator
from .sequences import TupleVariable
from .sets import SetVariable, iterator_of_changed


class DictVariable(ContainerVariable):
    """A dict, OrderedDict or defaultdict: stand-in key -> (key variable, value variable)."""

    def __init__(self, pairs: Any = (), source: Any = None, cls: Any = dict, factory: Variable | None = None):
        super().__init__(source)
        self.entries: dict = {}
        for key, value in pairs:  # of equal keys (1 and True) the first stays, with the last value
            stand = key.key()
            self.entries[stand] = self.entries[stand][0] if stand in self.entries else key, value
        self.cls, self.factory = cls, factory
        self.original = dict(self.entries)

    def python_type(self) -> Any:
        return self.cls

    def plain(self) -> Any:
        plain = {k.plain(): self.at(stand).plain() for stand, (k, _) in list(self.entries.items())}
        if self.cls is collections.OrderedDict:
            return collections.OrderedDict(plain)
        if self.cls is collections.defaultdict and self.factory is not None:
            return collections.defaultdict(self.factory.plain(), plain)
        return plain

    def at(self, stand: Any) -> Variable:
        key, value = self.entries[stand]
        value = value.realize()
        self.entries[stand] = key, value
        return value

    def stand(self, tx: Any, key: Variable) -> Any:
        return stand_in(tx, key, self.entries)

    def length(self, tx: Any) -> Variable:
        return tx.constant(len(self.entries))

    def keys(self) -> list:
        return [key for key, _ in self.entries.values()]

    def unpack(self, tx: Any) -> list:
        return self.keys()

    def iterate(self, tx: Any, backwards: bool = False) -> DictIterator:
        return DictIterator(self, "keys", backwards)

    def contains(self, tx: Any, member: Variable) -> bool:
        return self.stand(tx, member) in self.entries

    def get_item(self, tx: Any, key: Variable) -> Variable:
        stand = self.stand(tx, key)
        if stand in self.entries:
            return self.at(stand)
        if self.factory is not None and not (self.factory.is_constant() and self.factory.plain() is None):
            self.set_item(tx, key, tx.call(self.factory, [], {}))
            return self.at(stand)
        return tx.raise_error(KeyError, tx.plain_or_text(key))

    def set_item(self, tx: Any, key: Variable, value: Variable) -> None:
        self.changed(tx)
        stand = self.stand(tx, key)
        self.entries[stand] = self.entries[stand][0] if stand in self.entries else key, value

    def del_item(self, tx: Any, key: Variable) -> None:
        if self.stand(tx, key) not in self.entries:
            tx.raise_error(KeyError, tx.plain_or_text(key))
        self.changed(tx)
        del self.entries[self.stand(tx, key)]

    def binary(self, tx: Any, op: Any, other: Any, reflected: Any) -> Any:
        if op is operator.ior and not reflected and issubclass(self.cls, dict):
            self.method_update(tx, other)  # with pairs, too
            return self
        if not isinstance(other, DictVariable):
            return None
        if op is operator.or_:
            first, second = (other, self) if reflected else (self, other)
            kind = second if first.cls is dict else first  # whose `|` Python asks first
            pairs = [*first.entries.values(), *second.entries.values()]
            return DictVariable(pairs, cls=kind.cls, factory=kind.factory) if issubclass(kind.cls, dict) else DictVariable(pairs)
        if op in (operator.eq, operator.ne):
            same = self.entries.keys() == other.entries.keys() and all(
                tx.same_value(self.at(k), other.at(k)) for k in list(self.entries)
            )
            return tx.constant(same == (op is operator.eq))
        return None

    def method_get(self, tx: Any, key: Variable, default: Variable | None = None) -> Variable:
        stand = self.stand(tx, key)
        return self.at(stand) if stand in self.entries else default or tx.constant(None)

    def method_setdefault(self, tx: Any, key: Variable, default: Variable | None = None) -> Variable:
        if self.stand(tx, key) not in self.entries:
            self.set_item(tx, key, default or tx.constant(None))
        return self.at(self.stand(tx, key))

    def method_keys(self, tx: Any) -> DictView:
        return DictView(self, "keys")

    def method_values(self, tx: Any) -> DictView:
        return DictView(self, "values")

    def method_items(self, tx: Any) -> DictView:
        return DictView(self, "items")

    def method_update(self, tx: Any, other: Variable | None = None, /, **kwargs: Variable) -> Variable:
        pairs = tx.pairs(other) if other is not None else []
        for key, value in pairs:
            self.set_item(tx, key, value)
        for name, value in kwargs.items():
            self.set_item(tx, tx.constant(name), value)
        return tx.constant(None)

    def method_pop(self, tx: Any, key: Variable, default: Variable | None = None) -> Variable:
        if self.stand(tx, key) not in self.entries:
            return default if default is not None else tx.raise_error(KeyError, tx.plain_or_text(key))
        value = self.at(self.stand(tx, key))
        self.del_item(tx, key)
        return value

    def method_popitem(self, tx: Any, last: Variable | None = None) -> TupleVariable:
        if last is not None and self.cls is not collections.OrderedDict:
            raise unsupported("builtin", f"{self.cls.__name__}.popitem() with an argument")
        if not self.entries:
            tx.raise_error(KeyError, "popitem(): dictionary is empty")
        stand = next(iter(self.entries)) if last is not None and not tx.truth(last) else next(reversed(self.entries))
        pair = TupleVariable([self.entries[stand][0], self.at(stand)])
        self.del_item(tx, pair.items[0])
        return pair

    def method_clear(self, tx: Any) -> Variable:
        self.changed(tx)
        self.entries.clear()
        return tx.constant(None)

    def method_copy(self, tx: Any) -> DictVariable:
        return DictVariable(self.entries.values(), cls=self.cls, factory=self.factory)

    def get_attr(self, tx: Any, name: str) -> Variable:
        if name == "default_factory" and self.cls is collections.defaultdict:
            return self.factory or tx.constant(None)
        if self.cls is collections.OrderedDict and not hasattr(self.cls, name):
            return self.attribute(tx, name)
        return super().get_attr(tx, name)

    def attribute(self, tx: Any, name: str) -> Variable:
        """What an OrderedDict has in a dictionary of its own."""
        stored = tx.effects.stored(self, name)
        real = getattr(getattr(self, "value", None), "__dict__", {})
        if stored is None and name in real:
            return tx.wrap(real[name], DictAttr(self.known_source, name))
        if stored is None and self.source is not None:
            tx.guard(self.source, "no_attr", name)
        return stored or super().get_attr(tx, name)

    def set_attr(self, tx: Any, name: str, value: Variable) -> None:
        if self.cls is not collections.OrderedDict or hasattr(self.cls, name):
            super().set_attr(tx, name, value)
        tx.effects.store_attr(self, name, value)

    def method_move_to_end(self, tx: Any, key: Variable, last: Variable | None = None) -> Variable:
        self.changed(tx)
        stand = self.stand(tx, key)
        pair = self.entries.pop(stand)
        rest = self.entries
        if last is None or tx.truth(last):
            rest[stand] = pair
        else:
            self.entries = {stand: pair, **rest}
        return tx.constant(None)

    def fill_later(self, gen: Any) -> None:
        for key, value in self.entries.values():
            gen.load(value)
            gen.load(self)
            gen.load(key)
            gen.emit.store_subscr()

    def reconstruct(self, gen: Any) -> None:
        for key, value in self.entries.values():
            gen.load(key)
            gen.load(value)
        gen.emit.build_map(len(self.entries))
        if self.cls is collections.defaultdict:
            gen.wrap_call(self.cls, self.factory)
        elif self.cls is not dict:
            gen.wrap_call(self.cls)


class DictIterator(FixedIterator):
    """Over a dictionary or one of its views, which must keep its size."""

    def __init__(self, owner: Any, kind: str, backwards: bool):
        super().__init__(list(owner.entries)[:: -1 if backwards else 1])
        self.owner, self.kind, self.backwards, self.changed = owner, kind, backwards, False
        self.cls = type((reversed if backwards else iter)(getattr({}, kind)()))

    def next(self, tx: Any) -> Any:
        if self.ended:
            return None
        entries, ordered = self.owner.entries, self.owner.cls is collections.OrderedDict
        self.changed = self.changed or len(entries) != len(self.members)
        if self.changed or ordered and list(entries)[:: -1 if self.backwards else 1] != self.members:
            told = "OrderedDict mutated" if ordered else "dictionary changed size"
            tx.raise_error(RuntimeError, f"{told} during iteration")
        if self.index == len(self.members):
            self.ended = True
            return None
        self.index += 1
        return self.at(self.members[self.index - 1])

    def at(self, stand: Any) -> Variable:
        """The key, value or both as they are now."""
        if stand not in self.owner.entries:
            raise unsupported("iterator", "a dictionary that lost a key and got another while it is iterated over")
        if self.kind == "keys":
            return self.owner.entries[stand][0].realize()
        value = self.owner.at(stand)
        return value if self.kind == "values" else TupleVariable([self.owner.entries[stand][0], value])

    def reconstruct(self, gen: Any) -> None:
        if self.ended or not self.changed and len(self.owner.entries) == len(self.members):
            rest = [] if self.ended else [self.at(stand) for stand in self.members[self.index :]]
            FixedIterator(rest).reconstruct(gen)
        else:
            gen.load_call(iterator_of_changed, [gen.constant(dict)])


def by_identity(value: Any) -> bool:
    """Is this an object that dictionaries know by its identity?"""
    cls = type(value)
    if isinstance(value, CONSTANTS):
        return False
    return issubclass(cls, Tensor) or cls.__hash__ is object.__hash__ and cls.__eq__ is object.__eq__


CONSTANTS = (type, type(None), type(Ellipsis), type(NotImplemented), dtypes.dtype, device, types.CodeType)


def pinned_key(key: Any) -> Pinned:
    return Pinned(key, f"<{type(key).__name__} {id(key):#x}>")


class DictView(ContainerVariable):
    """keys(), values() or items() of a dictionary: it follows the dictionary's changes."""

    def __init__(self, owner: Any, kind: Any):
        super().__init__()
        self.owner, self.kind = owner, kind

    def python_type(self) -> type:
        return type(getattr({}, self.kind)())

    def unpack(self, tx: Any) -> list:
        if self.kind == "keys":
            return self.owner.keys()
        values = [self.owner.at(stand) for stand in list(self.owner.entries)]
        return values if self.kind == "values" else [TupleVariable([key, value]) for key, value in zip(self.owner.keys(), values)]

    def plain(self) -> Any:
        return {"keys": dict.keys, "values": dict.values, "items": dict.items}[self.kind](self.owner.plain())

    def length(self, tx: Any) -> Variable:
        return self.owner.length(tx)

    def iterate(self, tx: Any, backwards: bool = False) -> DictIterator:
        return DictIterator(self.owner, self.kind, backwards)

    def contains(self, tx: Any, member: Variable) -> bool:
        return self.owner.contains(tx, member) if self.kind == "keys" else super().contains(tx, member)

    def method_isdisjoint(self, tx: Any, other: Variable) -> Variable:
        if self.kind == "values":
            tx.raise_error(AttributeError, "'dict_values' object has no attribute 'isdisjoint'")
        return SetVariable(self.unpack(tx)).method_isdisjoint(tx, other)

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        if self.kind == "keys" and op in SetVariable.OPERATORS:
            return SetVariable(self.unpack(tx)).binary(tx, op, SetVariable(tx.unpack(other)), reflected)
        return None

    def reconstruct(self, gen: Any) -> None:
        gen.load(self.owner)
        gen.emit.load_attr(self.kind)
        gen.emit.as_callable()
        gen.emit.call(0)
