"""Tuples, lists, dictionaries, sets and slices, holding Variables.

Structure is plain Python (a list of variables, a dict from hashable stand-ins to pairs), so a program's own `append` or
slice is one Python operation here. Containers that came from outside and were changed are told to `tx.effects`, which
replays their final contents after the graph.
"""

from __future__ import annotations

import collections
import operator
import types

from ...eager import dtypes
from ...eager.device import device
from ...eager.tensor import Tensor
from ..breaks import unsupported
from ..source import DictAttr, Keyed, Pinned, item
from .base import Lazy, Variable
from .constant import PlainMethod
from .iterators import FixedIterator, ListIterator
from .specials import is_not_implemented, special_names


class ContainerVariable(Variable):
    """Methods are Python methods named `method_<name>`; anything else is a graph break."""

    def __init__(self, source=None):
        super().__init__(source)

    def get_attr(self, tx, name):
        if name == "__class__":
            return tx.wrap_type(self.python_type())
        if not hasattr(self.python_type(), name):
            tx.raise_error(AttributeError, f"{self.python_type().__name__!r} object has no attribute {name!r}")
        return PlainMethod(self, name)

    def call_method(self, tx, name, args, kwargs):
        method = getattr(self, "method_" + name.strip("_"), None)
        if method is None:
            raise unsupported("builtin", f"method {self.python_type().__name__}.{name}")
        try:
            return method(tx, *args, **kwargs)
        except TypeError as error:
            if error.__traceback__.tb_next is None:          # Python is to say what is wrong with the arguments
                text = f"{self.python_type().__name__}.{name}() with arguments of other kinds or number"
                raise unsupported("builtin", text) from error
            raise

    def changed(self, tx):
        tx.effects.mutate(self)

    def truth(self, tx):
        return self.length(tx).plain() != 0

    def method_len(self, tx):
        return self.length(tx)

    def method_iter(self, tx):
        return self.iterate(tx)

    def method_getitem(self, tx, key):
        return self.get_item(tx, key)

    def method_setitem(self, tx, key, value):
        self.set_item(tx, key, value)
        return tx.constant(None)

    def method_delitem(self, tx, key):
        self.del_item(tx, key)
        return tx.constant(None)

    def method_contains(self, tx, member):
        return tx.constant(self.contains(tx, member))


class SliceVariable(ContainerVariable):
    def __init__(self, parts, source=None):
        super().__init__(source)
        self.parts = list(parts)

    def python_type(self):
        return slice

    def plain(self):
        return slice(*(part.plain() for part in self.parts))

    def get_attr(self, tx, name):
        if name in ("start", "stop", "step"):
            return self.parts[("start", "stop", "step").index(name)]
        return super().get_attr(tx, name)

    def method_indices(self, tx, length):
        return tx.fresh(tx.run_variables(self.plain().indices, [length]))

    def reconstruct(self, gen):
        gen.load_call(slice, self.parts)


class SequenceVariable(ContainerVariable):
    """What tuples and lists share."""

    cls = tuple

    def __init__(self, items, source=None, cls=None):
        super().__init__(source)
        self.items = list(items)
        self.cls = cls or self.cls

    def python_type(self):
        return self.cls

    def at(self, index):
        self.items[index] = self.items[index].realize()
        return self.items[index]

    def unpack(self, tx):
        return [self.at(i) for i in range(len(self.items))]

    def length(self, tx):
        return tx.constant(len(self.items))

    def iterate(self, tx):
        return ListIterator(self)

    def get_item(self, tx, key):
        if isinstance(key, SliceVariable):
            return self.rebuilt(self.unpack(tx)[tx.run(lambda: self.indices(key))])
        index = tx.index(key)
        if not -len(self.items) <= index < len(self.items):
            tx.raise_error(IndexError, f"{self.cls.__name__} index out of range")
        return self.at(index)

    @staticmethod
    def indices(key):
        return slice(*(None if p.plain() is None else operator.index(p.plain()) for p in key.parts))

    def rebuilt(self, items):
        return type(self)(items)

    def binary(self, tx, op, other, reflected):
        if op in (operator.add, operator.iadd) and isinstance(other, SequenceVariable) and \
                issubclass(other.cls, type(self).cls):
            first, second = (other, self) if reflected else (self, other)
            return self.rebuilt(first.items + second.items)
        if op in (operator.mul, operator.imul) and other.python_type() is int:
            return self.rebuilt(self.unpack(tx) * tx.index(other))
        if op in (operator.eq, operator.ne) and isinstance(other, SequenceVariable):
            same = self.comparable(other) and self.equals(tx, other)
            return tx.constant(same == (op is operator.eq))
        if op in (operator.lt, operator.le, operator.gt, operator.ge) and isinstance(other, SequenceVariable):
            if not self.comparable(other):
                raise unsupported("operator", f"comparing a {self.cls.__name__} with a {other.cls.__name__}")
            return self.ordered(tx, op, other, reflected)
        return None

    def ordered(self, tx, op, other, reflected):
        first, second = (other, self) if reflected else (self, other)
        for a, b in zip(first.unpack(tx), second.unpack(tx)):
            if not tx.same_value(a, b):
                return tx.binary(op, a, b)
        return tx.constant(op(len(first.items), len(second.items)))

    def comparable(self, other):
        """Of one kind: tuple, list or deque."""
        kinds = (tuple, list, collections.deque)
        return [issubclass(self.cls, kind) for kind in kinds] == [issubclass(other.cls, kind) for kind in kinds]

    def equals(self, tx, other):
        return len(self.items) == len(other.items) and all(
            tx.same_value(a, b) for a, b in zip(self.unpack(tx), other.unpack(tx)))

    def method_index(self, tx, value, *bounds):
        span = range(len(self.items))[slice(*(tx.index(b) for b in bounds), *(() if len(bounds) > 1 else (None,)))] \
            if bounds else range(len(self.items))
        for i in span:
            if tx.same_value(self.at(i), value):
                return tx.constant(i)
        shown = tx.text(value, repr)
        text = f"{shown} is not in {'list' if self.cls is list else 'deque'}"
        return tx.raise_error(ValueError, "tuple.index(x): x not in tuple" if issubclass(self.cls, tuple) else text)

    def method_count(self, tx, value):
        return tx.constant(sum(tx.same_value(member, value) for member in self.unpack(tx)))

    def method_add(self, tx, other):
        return tx.binary(operator.add, self, other)


class TupleVariable(SequenceVariable):
    """A tuple, a Size, or a named tuple, whose class may have methods in the place of tuple's."""

    cls = tuple

    # -- what the program's own class says ---------------------------------------------------------------------------

    def own_method(self, tx, name):
        """A special method that the program wrote for its named tuple, bound; None where tuple's or namedtuple's own is meant."""
        if self.cls is tuple or not hasattr(self.cls, "_fields"):
            return None
        found = tx.class_attribute(self.cls, name)
        written = found is not None and isinstance(found[1], types.FunctionType) \
            and found[1].__globals__.get("__name__") != collections.__name__
        return tx.bind(found, self, name) if written else None

    def get_item(self, tx, key):
        own = self.own_method(tx, "__getitem__")
        return tx.call(own, [key], {}) if own else super().get_item(tx, key)

    def iterate(self, tx):
        own = self.own_method(tx, "__iter__")
        return tx.iterate(tx.call(own, [], {})) if own else super().iterate(tx)

    def unpack(self, tx):
        own = self.own_method(tx, "__iter__")
        return Variable.unpack(self, tx) if own else super().unpack(tx)

    def length(self, tx):
        own = self.own_method(tx, "__len__")
        return tx.call(own, [], {}) if own else super().length(tx)

    def truth(self, tx):
        own = self.own_method(tx, "__bool__")
        return tx.truth(tx.call(own, [], {})) if own else super().truth(tx)

    def contains(self, tx, member):
        own = self.own_method(tx, "__contains__")
        return tx.truth(tx.call(own, [member], {})) if own else super().contains(tx, member)

    def call(self, tx, args, kwargs):
        own = self.own_method(tx, "__call__")
        return tx.call(own, args, kwargs) if own else super().call(tx, args, kwargs)

    def binary(self, tx, op, other, reflected):
        for name in special_names(op, reflected) if self.cls is not tuple else ():
            own = self.own_method(tx, name)
            made = None if own is None else tx.call(own, [other], {})
            if made is not None and not is_not_implemented(made):
                return made
        return super().binary(tx, op, other, reflected)

    # -- what tuples do ----------------------------------------------------------------------------------------------

    def plain(self):
        values = [self.at(i).plain() for i in range(len(self.items))]
        return tuple.__new__(self.cls, values) if hasattr(self.cls, "_fields") else self.cls(values)

    def is_constant(self):
        return all(self.at(i).is_constant() for i in range(len(self.items)))

    def key(self):
        return tuple(self.at(i).key() for i in range(len(self.items)))

    def rebuilt(self, items):
        from_size = self.cls if not hasattr(self.cls, "_fields") else tuple
        return TupleVariable(items, cls=from_size)

    def get_attr(self, tx, name):
        fields = getattr(self.cls, "_fields", ())
        if name == "__class__":
            return tx.wrap_type(self.cls)
        if name in fields:
            return self.at(fields.index(name))
        if name == "_fields" and hasattr(self.cls, name):
            return tx.fresh(fields)
        if fields and name == "_make":
            return PlainMethod(self, name)
        if fields and name in ("_replace", "_asdict"):
            return PlainMethod(self, name)
        found = tx.class_attribute(self.cls, name) if fields and name != "_fields" else None
        if found is not None:
            return tx.bind(found, self, name)
        return super().get_attr(tx, name)

    def call_method(self, tx, name, args, kwargs):
        if getattr(self, "method_" + name.strip("_"), None) is None:
            return self.other_method(tx, name, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def other_method(self, tx, name, args, kwargs):
        if hasattr(self.cls, "_fields"):
            return tx.call(self.get_attr(tx, name), args, kwargs)
        return tx.fresh(tx.run_variables(getattr(self.plain(), name), args, kwargs, what=f"{self.cls.__name__}.{name}"))

    def method_replace(self, tx, /, **changes):
        items = [changes.get(name, item) for name, item in zip(self.cls._fields, self.items)]
        return TupleVariable(items, cls=self.cls)

    def method_asdict(self, tx):
        return tx.dictionary([(tx.constant(name), item) for name, item in zip(self.cls._fields, self.unpack(tx))])

    def reconstruct(self, gen):
        if self.cls is tuple:
            gen.load_many(self.items)
            gen.emit.build_tuple(len(self.items))
        elif own_maker(self.cls):
            gen.load_call(tuple.__new__, [gen.constant(self.cls), TupleVariable(self.items)])
        elif hasattr(self.cls, "_fields"):
            gen.load_call(self.cls, self.items)
        else:
            gen.load_call(self.cls, [TupleVariable(self.items)])


def own_maker(cls) -> bool:
    """Whether the program wrote a `__new__` or `__init__` for its named tuple."""
    if not hasattr(cls, "_fields"):
        return False
    maker = cls.__new__
    return isinstance(cls.__init__, types.FunctionType) or not maker.__globals__.get("__name__", "").startswith("namedtuple_")


class ListVariable(SequenceVariable):
    """A list or a deque, which may have a greatest length."""

    cls = list
    maxlen = None

    def plain(self):
        return self.cls([self.at(i).plain() for i in range(len(self.items))])

    def binary(self, tx, op, other, reflected):
        if op is operator.iadd and not reflected:
            self.method_extend(tx, other)
            return self
        if op is operator.imul and not reflected:
            self.assign(tx, self.unpack(tx) * tx.index(other))
            return self
        return super().binary(tx, op, other, reflected)

    def assign(self, tx, items):
        self.changed(tx)
        self.items = list(items)

    def set_item(self, tx, key, value):
        self.changed(tx)
        if isinstance(key, SliceVariable):
            items = tx.unpack(value)
            try:
                self.items[self.indices(key)] = items
            except ValueError as error:
                tx.raise_error(ValueError, str(error))
            return
        index = tx.index(key)
        if not -len(self.items) <= index < len(self.items):
            tx.raise_error(IndexError, f"{self.cls.__name__} assignment index out of range")
        self.items[index] = value

    def del_item(self, tx, key):
        self.changed(tx)
        index = self.indices(key) if isinstance(key, SliceVariable) else tx.index(key)
        if type(index) is int and not -len(self.items) <= index < len(self.items):
            tx.raise_error(IndexError, f"{self.cls.__name__} assignment index out of range")
        del self.items[index]

    def get_attr(self, tx, name):
        if name == "maxlen" and self.cls is collections.deque:
            return tx.constant(self.maxlen)
        return super().get_attr(tx, name)

    def trim(self, first: bool) -> None:
        """A full deque drops members at the other end."""
        if self.maxlen is not None and len(self.items) > self.maxlen:
            extra = len(self.items) - self.maxlen
            self.items = self.items[extra:] if first else self.items[:self.maxlen]

    def method_append(self, tx, value):
        self.changed(tx)
        self.items.append(value)
        self.trim(first=True)
        return tx.constant(None)

    def method_appendleft(self, tx, value):
        self.changed(tx)
        self.items.insert(0, value)
        self.trim(first=False)
        return tx.constant(None)

    def method_extend(self, tx, values):
        values = tx.unpack(values)
        self.changed(tx)
        self.items.extend(values)
        self.trim(first=True)
        return tx.constant(None)

    def method_extendleft(self, tx, values):
        for value in tx.unpack(values):
            self.method_appendleft(tx, value)
        return tx.constant(None)

    def method_rotate(self, tx, n=None):
        turned = collections.deque(self.items)
        turned.rotate(1 if n is None else tx.index(n))
        self.assign(tx, turned)
        return tx.constant(None)

    def method_insert(self, tx, index, value):
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            tx.raise_error(IndexError, "deque already at its maximum size")
        self.changed(tx)
        self.items.insert(tx.index(index), value)
        return tx.constant(None)

    def method_pop(self, tx, index=None):
        at = -1 if index is None else tx.index(index)
        if not -len(self.items) <= at < len(self.items):
            empty = "pop from empty list" if self.cls is list else "pop from an empty deque"
            tx.raise_error(IndexError, empty if not self.items else "pop index out of range")
        self.changed(tx)
        return self.items.pop(at).realize()

    def method_popleft(self, tx):
        return self.method_pop(tx, tx.constant(0))

    def method_remove(self, tx, value):
        found = next((i for i in range(len(self.items)) if tx.same_value(self.at(i), value)), None)
        if found is None:
            text = "list.remove(x): x not in list" if self.cls is list else f"{tx.text(value, repr)} is not in deque"
            tx.raise_error(ValueError, text)
        self.method_pop(tx, tx.constant(found))
        return tx.constant(None)

    def method_clear(self, tx):
        self.assign(tx, [])
        return tx.constant(None)

    def method_reverse(self, tx):
        self.assign(tx, self.items[::-1])
        return tx.constant(None)

    def method_copy(self, tx):
        made = ListVariable(self.items, cls=self.cls)
        made.maxlen = self.maxlen
        return made

    def method_sort(self, tx, *, key=None, reverse=None):
        self.assign(tx, tx.sorted(self.unpack(tx), key, reverse is not None and tx.truth(reverse)))
        return tx.constant(None)

    def fill_later(self, gen):
        gen.call_method(self, "extend", [TupleVariable(self.items)])

    def reconstruct(self, gen):
        if self.maxlen is not None:
            gen.load_call(self.cls, [ListVariable(self.items), gen.constant(self.maxlen)])
            return
        gen.load_many(self.items)
        gen.emit.build_list(len(self.items))
        if self.cls is not list:
            gen.wrap_call(self.cls)


class DictVariable(ContainerVariable):
    """A dict, OrderedDict or defaultdict: stand-in key -> (key variable, value variable)."""

    def __init__(self, pairs=(), source=None, cls=dict, factory=None):
        super().__init__(source)
        self.entries = {key.key(): (key, value) for key, value in pairs}
        self.cls, self.factory = cls, factory
        self.original = dict(self.entries)

    def python_type(self):
        return self.cls

    def plain(self):
        return {k.plain(): self.at(stand).plain() for stand, (k, _) in list(self.entries.items())}

    def at(self, stand):
        key, value = self.entries[stand]
        value = value.realize()
        self.entries[stand] = key, value
        return value

    def length(self, tx):
        return tx.constant(len(self.entries))

    def keys(self):
        return [key for key, _ in self.entries.values()]

    def unpack(self, tx):
        return self.keys()

    def iterate(self, tx):
        return DictIterator(self, self.keys)

    def contains(self, tx, member):
        return member.key() in self.entries

    def get_item(self, tx, key):
        stand = key.key()
        if stand in self.entries:
            return self.at(stand)
        if self.factory is not None and not (self.factory.is_constant() and self.factory.plain() is None):
            self.set_item(tx, key, tx.call(self.factory, [], {}))
            return self.at(stand)
        return tx.raise_error(KeyError, tx.plain_or_text(key))

    def set_item(self, tx, key, value):
        self.changed(tx)
        stand = key.key()
        self.entries[stand] = self.entries[stand][0] if stand in self.entries else key, value

    def del_item(self, tx, key):
        if key.key() not in self.entries:
            tx.raise_error(KeyError, tx.plain_or_text(key))
        self.changed(tx)
        del self.entries[key.key()]

    def binary(self, tx, op, other, reflected):
        if not isinstance(other, DictVariable):
            return None
        if op is operator.or_:
            first, second = (other, self) if reflected else (self, other)
            return DictVariable([*first.entries.values(), *second.entries.values()])
        if op is operator.ior and not reflected:
            self.method_update(tx, other)
            return self
        if op in (operator.eq, operator.ne):
            same = self.entries.keys() == other.entries.keys() and all(
                tx.same_value(self.at(k), other.at(k)) for k in list(self.entries))
            return tx.constant(same == (op is operator.eq))
        return None

    def method_get(self, tx, key, default=None):
        return self.at(key.key()) if key.key() in self.entries else default or tx.constant(None)

    def method_setdefault(self, tx, key, default=None):
        if key.key() not in self.entries:
            self.set_item(tx, key, default or tx.constant(None))
        return self.at(key.key())

    def method_keys(self, tx):
        return DictView(self, "keys")

    def method_values(self, tx):
        return DictView(self, "values")

    def method_items(self, tx):
        return DictView(self, "items")

    def method_update(self, tx, other=None, /, **kwargs):
        pairs = tx.pairs(other) if other is not None else []
        for key, value in pairs:
            self.set_item(tx, key, value)
        for name, value in kwargs.items():
            self.set_item(tx, tx.constant(name), value)
        return tx.constant(None)

    def method_pop(self, tx, key, default=None):
        if key.key() not in self.entries:
            return default if default is not None else tx.raise_error(KeyError, tx.plain_or_text(key))
        value = self.at(key.key())
        self.del_item(tx, key)
        return value

    def method_popitem(self, tx, last=None):
        if not self.entries:
            tx.raise_error(KeyError, "popitem(): dictionary is empty")
        stand = next(iter(self.entries)) if last is not None and not tx.truth(last) else next(reversed(self.entries))
        self.changed(tx)
        pair = TupleVariable([self.entries[stand][0], self.at(stand)])
        self.del_item(tx, pair.items[0])
        return pair

    def method_clear(self, tx):
        self.changed(tx)
        self.entries.clear()
        return tx.constant(None)

    def method_copy(self, tx):
        return DictVariable(self.entries.values(), cls=self.cls, factory=self.factory)

    def get_attr(self, tx, name):
        if name == "default_factory" and self.cls is collections.defaultdict:
            return self.factory or tx.constant(None)
        if self.cls is collections.OrderedDict and not hasattr(self.cls, name):
            return self.attribute(tx, name)
        return super().get_attr(tx, name)

    def attribute(self, tx, name):
        """What an OrderedDict has in a dictionary of its own."""
        stored = tx.effects.stored(self, name)
        real = getattr(getattr(self, "value", None), "__dict__", {})
        if stored is None and name in real:
            return tx.wrap(real[name], DictAttr(self.source, name))
        if stored is None and self.source is not None:
            tx.guard(self.source, "no_attr", name)
        return stored or super().get_attr(tx, name)

    def set_attr(self, tx, name, value):
        if self.cls is not collections.OrderedDict or hasattr(self.cls, name):
            super().set_attr(tx, name, value)
        tx.effects.store_attr(self, name, value)

    def method_move_to_end(self, tx, key, last=None):
        self.changed(tx)
        pair = self.entries.pop(key.key())
        rest = self.entries
        if last is None or tx.truth(last):
            rest[key.key()] = pair
        else:
            self.entries = {key.key(): pair, **rest}
        return tx.constant(None)

    def fill_later(self, gen):
        for key, value in self.entries.values():
            gen.load(value)
            gen.load(self)
            gen.load(key)
            gen.emit.store_subscr()

    def reconstruct(self, gen):
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

    def __init__(self, owner, members):
        super().__init__(members())
        self.owner = owner

    def next(self, tx):
        if len(self.owner.entries) != len(self.members):
            tx.raise_error(RuntimeError, "dictionary changed size during iteration")
        return super().next(tx)

    def reconstruct(self, gen):
        if len(self.owner.entries) == len(self.members):
            super().reconstruct(gen)
        else:
            gen.load_call(iterator_of_changed, [gen.constant(dict)])


class OutsideDict(DictVariable):
    """A dict that existed before the call: a constant key that is looked up is guarded alone, every other question reads
    all entries and guards all keys."""

    def __init__(self, tx, value, source, key_variable, factory=None):
        ContainerVariable.__init__(self, source)
        self.tx, self.value, self.key_variable = tx, value, key_variable
        self.cls, self.factory = type(value), factory
        self.found: dict = {}           # key -> Lazy, of single look-ups
        self.all = None

    @property
    def entries(self):
        if self.all is None:
            self.tx.guard(self.source, "dict_keys", tuple(self.value))
            keys = [(self.key_variable(self.tx, k), k) for k in self.value]
            self.all = {variable.key(): (variable, self.value_at(k)) for variable, k in keys}
            self.original = dict(self.all)
        return self.all

    @entries.setter
    def entries(self, entries):
        self.all = entries

    def value_at(self, key, source=None):
        stand = id(key) if by_identity(key) else key
        if stand not in self.found:
            self.found[stand] = Lazy(self.tx, self.value[key], source or self.item(key))
        return self.found[stand]

    def item(self, key):
        return Keyed(self.source, key, pinned_key(key)) if by_identity(key) else item(self.source, key)

    def alone(self, key) -> tuple | None:
        """(the real key,) where one guard on this key is enough: a constant, or an object from outside that is compared by
        identity."""
        if self.all is not None:
            return None
        if key.is_constant():
            return key.plain(),
        return (key.outside,) if key.source is not None and by_identity(getattr(key, "outside", None)) else None

    def found_alone(self, tx, key, real) -> bool:
        """Whether the key is there, guarded."""
        if not key.is_constant():
            tx.guard_identity(key.source, real)
        tx.guard(self.source, "has_item" if real in self.value else "no_item", real)
        return real in self.value

    def at_alone(self, key, real):
        return self.value_at(real, None if key.is_constant() else Keyed(self.source, real, key.source)).realize()

    def contains(self, tx, member):
        alone = self.alone(member)
        return super().contains(tx, member) if alone is None else self.found_alone(tx, member, *alone)

    def get_item(self, tx, key):
        alone = self.alone(key)
        if alone is None or self.factory is not None and alone[0] not in self.value:
            return super().get_item(tx, key)
        if self.found_alone(tx, key, *alone):
            return self.at_alone(key, *alone)
        return tx.raise_error(KeyError, tx.plain_or_text(key))

    def method_get(self, tx, key, default=None):
        alone = self.alone(key)
        if alone is None:
            return super().method_get(tx, key, default)
        return self.at_alone(key, *alone) if self.found_alone(tx, key, *alone) else default or tx.constant(None)


def by_identity(value) -> bool:
    """Is this an object that dictionaries know by its identity?"""
    cls = type(value)
    if isinstance(value, CONSTANTS):
        return False
    return issubclass(cls, Tensor) or cls.__hash__ is object.__hash__ and cls.__eq__ is object.__eq__


CONSTANTS = (type, type(None), type(Ellipsis), type(NotImplemented), dtypes.dtype, device, types.CodeType)


def pinned_key(key):
    return Pinned(key, f"<{type(key).__name__} {id(key):#x}>")


class DictView(ContainerVariable):
    """keys(), values() or items() of a dictionary: it follows the dictionary's changes."""

    def __init__(self, owner, kind):
        super().__init__()
        self.owner, self.kind = owner, kind

    def python_type(self):
        return type(getattr({}, self.kind)())

    def unpack(self, tx):
        if self.kind == "keys":
            return self.owner.keys()
        values = [self.owner.at(stand) for stand in list(self.owner.entries)]
        return values if self.kind == "values" else [
            TupleVariable([key, value]) for key, value in zip(self.owner.keys(), values)]

    def plain(self):
        return {"keys": dict.keys, "values": dict.values, "items": dict.items}[self.kind](self.owner.plain())

    def length(self, tx):
        return self.owner.length(tx)

    def iterate(self, tx):
        return DictIterator(self.owner, lambda: self.unpack(tx))

    def contains(self, tx, member):
        return self.owner.contains(tx, member) if self.kind == "keys" else super().contains(tx, member)

    def method_isdisjoint(self, tx, other):
        if self.kind == "values":
            tx.raise_error(AttributeError, "'dict_values' object has no attribute 'isdisjoint'")
        return SetVariable(self.unpack(tx)).method_isdisjoint(tx, other)

    def binary(self, tx, op, other, reflected):
        if self.kind == "keys" and op in SetVariable.OPERATORS:
            return SetVariable(self.unpack(tx)).binary(tx, op, SetVariable(tx.unpack(other)), reflected)
        return None

    def reconstruct(self, gen):
        gen.load(self.owner)
        gen.emit.load_attr(self.kind)
        gen.emit.as_callable()
        gen.emit.call(0)


class OrderOf:
    """Guard: a set iterates over its members in this order."""

    def __init__(self, members):
        self.members = members

    def __call__(self, value):
        return list(value) == self.members


class SetIterator(FixedIterator):
    """Over a set, which must keep its size."""

    def __init__(self, owner, tx):
        super().__init__(owner.unpack(tx))
        self.owner = owner

    def next(self, tx):
        if len(self.owner.members) != len(self.members):
            tx.raise_error(RuntimeError, "Set changed size during iteration")
        return super().next(tx)

    def reconstruct(self, gen):
        if len(self.owner.members) == len(self.members):
            super().reconstruct(gen)
        else:
            gen.load_call(iterator_of_changed, [gen.constant(set)])


def iterator_of_changed(kind: type):
    """An iterator over a dict or set that has changed its size meanwhile: asking it for a member raises."""
    changed = kind()
    iterator = iter(changed)
    changed |= {0: 0} if kind is dict else {0}
    return iterator


class SetVariable(ContainerVariable):
    """A set or frozenset."""

    OPERATORS = (operator.and_, operator.or_, operator.sub, operator.xor)
    COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
    INPLACE = {operator.iand: operator.and_, operator.ior: operator.or_, operator.isub: operator.sub,
               operator.ixor: operator.xor}

    def __init__(self, members, source=None, cls=set):
        super().__init__(source)
        self.members = {member.key(): member for member in members}
        self.table = set()                           # a real set of the stand-ins: it has the order of iteration
        for stand in self.members:                   # one by one, as set displays are made
            self.table.add(stand)
        self.cls, self.untouched = cls, source is not None

    def python_type(self):
        return self.cls

    def plain(self):
        return self.cls(member.plain() for member in self.members.values())

    def key(self):
        if self.cls is not frozenset:
            raise unsupported("operator", "a set is used as a dict key")
        return frozenset(self.members)

    def is_constant(self):
        return self.cls is frozenset and all(member.is_constant() for member in self.members.values())

    def unpack(self, tx):
        if self.untouched:
            self.guard_order(tx)
            return list(self.members.values())
        return [self.members[stand] for stand in self.table]

    def guard_order(self, tx):
        """Equal sets may have other orders: this one is guarded where it matters."""
        if len(self.members) > 1:
            tx.guard(self.source, "predicate", OrderOf(list(self.members)))

    def changed(self, tx):
        if self.untouched:
            self.guard_order(tx)
        self.untouched = False
        super().changed(tx)

    def length(self, tx):
        return tx.constant(len(self.members))

    def iterate(self, tx):
        return SetIterator(self, tx)

    def contains(self, tx, member):
        return member.key() in self.members

    def binary(self, tx, op, other, reflected):
        if not isinstance(other, SetVariable):
            return None
        first, second = (other, self) if reflected else (self, other)
        if op in self.COMPARISONS:
            return tx.constant(op(first.members.keys(), second.members.keys()))
        if op in self.INPLACE and not reflected:
            self.assign(tx, self.combine(self.INPLACE[op], other))
            return self
        return first.combined(op, second) if op in self.OPERATORS else None

    def combine(self, op, other):
        """Members of `op` over two sets, in the order that the real operation gives."""
        both = {**other.members, **self.members}
        return [both[stand] for stand in op(self.table, other.table)]

    def combined(self, op, other):
        made = SetVariable(self.combine(op, other), cls=self.cls)
        made.table = op(self.table, other.table)
        return made

    def assign(self, tx, members):
        self.changed(tx)
        self.members = {member.key(): member for member in members}
        self.table.intersection_update(self.members)
        self.table.update(self.members)
        return tx.constant(None)

    def method_add(self, tx, value):
        self.changed(tx)
        self.members.setdefault(value.key(), value)
        self.table.add(value.key())
        return tx.constant(None)

    def method_discard(self, tx, value):
        self.changed(tx)
        self.members.pop(value.key(), None)
        self.table.discard(value.key())
        return tx.constant(None)

    def method_remove(self, tx, value):
        if value.key() not in self.members:
            tx.raise_error(KeyError, tx.plain_or_text(value))
        return self.method_discard(tx, value)

    def method_clear(self, tx):
        return self.assign(tx, [])

    def method_copy(self, tx):
        made = SetVariable(self.members.values(), cls=self.cls)
        made.table = self.table.copy()
        return made

    def method_update(self, tx, *others):
        return self.assign(tx, [*self.members.values(), *(m for other in others for m in tx.unpack(other))])

    def joined(self, tx, op, others):
        result = self
        for other in others:
            result = SetVariable(result.combine(op, SetVariable(tx.unpack(other))), cls=self.cls)
        return result

    def method_union(self, tx, *others):
        return self.joined(tx, operator.or_, others)

    def method_intersection(self, tx, *others):
        return self.joined(tx, operator.and_, others)

    def method_difference(self, tx, *others):
        return self.joined(tx, operator.sub, others)

    def method_symmetric_difference(self, tx, other):
        return self.joined(tx, operator.xor, [other])

    def method_issubset(self, tx, other):
        return tx.constant(self.members.keys() <= SetVariable(tx.unpack(other)).members.keys())

    def method_issuperset(self, tx, other):
        return tx.constant(self.members.keys() >= SetVariable(tx.unpack(other)).members.keys())

    def method_pop(self, tx):
        """Which member goes is the set's own business: the first of those that hash as they do here."""
        if not self.members:
            tx.raise_error(KeyError, "pop from an empty set")
        self.unpack(tx)
        self.changed(tx)
        return self.members.pop(self.table.pop())

    def method_difference_update(self, tx, *others):
        return self.assign(tx, self.joined(tx, operator.sub, others).members.values())

    def method_intersection_update(self, tx, *others):
        return self.assign(tx, self.joined(tx, operator.and_, others).members.values())

    def method_symmetric_difference_update(self, tx, other):
        return self.assign(tx, self.joined(tx, operator.xor, [other]).members.values())

    def method_isdisjoint(self, tx, other):
        return tx.constant(self.members.keys().isdisjoint(SetVariable(tx.unpack(other)).members))

    def reconstruct(self, gen):
        gen.load_many(self.members.values())
        gen.emit.build_tuple(len(self.members))
        gen.wrap_call(self.cls)
