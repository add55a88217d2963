"""Slices, tuples (named ones too) and lists, holding Variables."""

from __future__ import annotations

import collections
import operator
import types
from typing import Any
from collections.abc import Callable, Iterable

from ..breaks import unsupported
from ..guards.source import Source
from .base import Variable
from .constant import special_method_result, PlainMethod
from .container_base import ContainerVariable
from .iterators import DequeIterator, ListIterator
from .dunder import is_not_implemented, special_names


class SliceVariable(ContainerVariable):
    def __init__(self, parts: list, source: Any = None):
        super().__init__(source)
        self.parts = list(parts)

    def python_type(self) -> type:
        return slice

    def plain(self) -> slice:
        return slice(*(part.plain() for part in self.parts))

    def get_attr(self, tx: Any, name: str) -> Variable:
        if name in ("start", "stop", "step"):
            return self.parts[("start", "stop", "step").index(name)]
        return super().get_attr(tx, name)

    def method_indices(self, tx: Any, length: Variable) -> Variable:
        return tx.fresh(tx.run_variables(self.plain().indices, [length]))

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(slice, self.parts)


class SequenceVariable(ContainerVariable):
    """What tuples and lists share."""

    cls: Any = tuple

    def __init__(self, items: Iterable, source: Source | None = None, cls: type | None = None):
        super().__init__(source)
        self.items = list(items)
        self.cls = cls or self.cls

    def python_type(self) -> type:
        return self.cls

    def at(self, index: int) -> Variable:
        self.items[index] = self.items[index].realize()
        return self.items[index]

    def unpack(self, tx: Any) -> list:
        return [self.at(i) for i in range(len(self.items))]

    def length(self, tx: Any) -> Variable:
        return tx.constant(len(self.items))

    def iterate(self, tx: Any) -> ListIterator:
        return ListIterator(self)

    def get_item(self, tx: Any, key: Variable) -> Variable:
        if isinstance(key, SliceVariable):
            self.takes_slices(tx)
            return self.rebuilt(self.unpack(tx)[tx.run(lambda: self.indices(key))])
        index = tx.index(key)
        if not -len(self.items) <= index < len(self.items):
            tx.raise_error(IndexError, f"{self.cls.__name__} index out of range")
        return self.at(index)

    def takes_slices(self, tx: Any) -> None:
        """A deque has none, and raises its error."""
        if self.cls is collections.deque:
            deque: Any = collections.deque()
            tx.run(lambda: deque[:])

    @staticmethod
    def indices(key: Any) -> slice:
        return slice(*(None if p.plain() is None else operator.index(p.plain()) for p in key.parts))

    def rebuilt(self, items: Any) -> SequenceVariable:
        return type(self)(items)

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        if (
            op in (operator.add, operator.iadd)
            and isinstance(other, SequenceVariable)
            and issubclass(other.cls, type(self).cls)
            and self.comparable(other)
        ):
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

    def ordered(self, tx: Any, op: Callable, other: Any, reflected: bool) -> Variable:
        first, second = (other, self) if reflected else (self, other)
        for a, b in zip(first.unpack(tx), second.unpack(tx)):
            if not tx.same_value(a, b):
                return tx.binary(op, a, b)
        return tx.constant(op(len(first.items), len(second.items)))

    def comparable(self, other: Any) -> bool:
        """Of one kind: tuple, list or deque."""
        kinds = (tuple, list, collections.deque)
        return [issubclass(self.cls, kind) for kind in kinds] == [issubclass(other.cls, kind) for kind in kinds]

    def equals(self, tx: Any, other: Any) -> bool:
        return len(self.items) == len(other.items) and all(tx.same_value(a, b) for a, b in zip(self.unpack(tx), other.unpack(tx)))

    def method_index(self, tx: Any, value: Variable, *bounds: Variable) -> Variable:
        span = (
            range(len(self.items))[slice(*(tx.index(b) for b in bounds), *(() if len(bounds) > 1 else (None,)))]
            if bounds
            else range(len(self.items))
        )
        for i in span:
            if tx.same_value(self.at(i), value):
                return tx.constant(i)
        shown = tx.text(value, repr)
        text = f"{shown} is not in {'list' if self.cls is list else 'deque'}"
        return tx.raise_error(ValueError, "tuple.index(x): x not in tuple" if issubclass(self.cls, tuple) else text)

    def method_count(self, tx: Any, value: Variable) -> Variable:
        return tx.constant(sum(tx.same_value(member, value) for member in self.unpack(tx)))

    def method_add(self, tx: Any, other: Variable) -> Variable:
        return tx.binary(operator.add, self, other)


class TupleVariable(SequenceVariable):
    """A tuple, a Size, or a named tuple, whose class may have methods in the place of tuple's."""

    # -- what the program's own class says ---------------------------------------------------------------------------

    def own_method(self, tx: Any, name: str) -> Variable | None:
        """A special method that the program wrote for its named tuple, bound; None where tuple's or namedtuple's own is meant."""
        if self.cls is tuple or not hasattr(self.cls, "_fields"):
            return None
        found = tx.class_attribute(self.cls, name)
        written = (
            found is not None
            and isinstance(found[1], types.FunctionType)
            and found[1].__globals__.get("__name__") != collections.__name__
        )
        return tx.bind(found, self, name) if written else None

    def get_item(self, tx: Any, key: Variable) -> Variable:
        own = self.own_method(tx, "__getitem__")
        return tx.call(own, [key], {}) if own else super().get_item(tx, key)

    def iterate(self, tx: Any) -> Variable:
        own = self.own_method(tx, "__iter__")
        return tx.iterate(tx.call(own, [], {})) if own else super().iterate(tx)

    def unpack(self, tx: Any) -> list:
        own = self.own_method(tx, "__iter__")
        return Variable.unpack(self, tx) if own else super().unpack(tx)

    def length(self, tx: Any) -> Variable:
        own = self.own_method(tx, "__len__")
        return special_method_result(tx, len, self.cls, "__len__", tx.call(own, [], {})) if own else super().length(tx)

    def truth(self, tx: Any) -> bool:
        own = self.own_method(tx, "__bool__")
        return tx.truth(special_method_result(tx, bool, self.cls, "__bool__", tx.call(own, [], {}))) if own else super().truth(tx)

    def contains(self, tx: Any, member: Variable) -> bool:
        own = self.own_method(tx, "__contains__")
        return tx.truth(tx.call(own, [member], {})) if own else super().contains(tx, member)

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        own = self.own_method(tx, "__call__")
        return tx.call(own, args, kwargs) if own else super().call(tx, args, kwargs)

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        for name in special_names(op, reflected) if self.cls is not tuple else ():
            own = self.own_method(tx, name)
            made = None if own is None else tx.call(own, [other], {})
            if made is not None and not is_not_implemented(made):
                return made
        return super().binary(tx, op, other, reflected)

    # -- what tuples do ----------------------------------------------------------------------------------------------

    def plain(self) -> Any:
        values = [self.at(i).plain() for i in range(len(self.items))]
        return tuple.__new__(self.cls, values) if hasattr(self.cls, "_fields") else self.cls(values)

    def is_constant(self) -> bool:
        return all(self.at(i).is_constant() for i in range(len(self.items)))

    def key(self) -> Any:
        return tuple(self.at(i).key() for i in range(len(self.items)))

    def rebuilt(self, items: list) -> TupleVariable:
        from_size = self.cls if not hasattr(self.cls, "_fields") else tuple
        return TupleVariable(items, cls=from_size)

    def get_attr(self, tx: Any, name: str) -> Variable:
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

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        if getattr(self, "method_" + name.strip("_"), None) is None:
            return self.other_method(tx, name, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def other_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Any:
        if hasattr(self.cls, "_fields"):
            return tx.call(self.get_attr(tx, name), args, kwargs)
        return tx.fresh(tx.run_variables(getattr(self.plain(), name), args, kwargs, what=f"{self.cls.__name__}.{name}"))

    def method_replace(self, tx: Any, /, **changes: Variable) -> TupleVariable:
        items = [changes.get(name, item) for name, item in zip(self.cls._fields, self.items)]
        return TupleVariable(items, cls=self.cls)

    def method_asdict(self, tx: Any) -> Variable:
        return tx.dictionary([(tx.constant(name), item) for name, item in zip(self.cls._fields, self.unpack(tx))])

    def reconstruct(self, gen: Any) -> None:
        if self.cls is tuple:
            gen.load_many(self.items)
            gen.emit.build_tuple(len(self.items))
        elif own_maker(self.cls):
            gen.load_call(tuple.__new__, [gen.constant(self.cls), TupleVariable(self.items)])
        elif hasattr(self.cls, "_fields"):
            gen.load_call(self.cls, self.items)
        else:
            gen.load_call(self.cls, [TupleVariable(self.items)])


def own_maker(cls: type) -> bool:
    """Whether the program wrote a `__new__` or `__init__` for its named tuple."""
    if not hasattr(cls, "_fields"):
        return False
    maker = cls.__new__
    return isinstance(cls.__init__, types.FunctionType) or not maker.__globals__.get("__name__", "").startswith("namedtuple_")


class ListVariable(SequenceVariable):
    """A list or a deque, which may have a greatest length."""

    cls = list
    maxlen: int | None = None
    state = 0  # how many times members have moved

    def changed(self, tx: Any) -> None:
        self.state += 1
        super().changed(tx)

    def iterate(self, tx: Any) -> Any:
        return DequeIterator(self) if self.cls is collections.deque else ListIterator(self)

    def plain(self) -> Any:
        return self.cls([self.at(i).plain() for i in range(len(self.items))])

    def rebuilt(self, items: list) -> ListVariable:
        made = ListVariable(items, cls=self.cls)
        made.maxlen = self.maxlen
        made.trim(first=True)
        return made

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        if op is operator.iadd and not reflected:
            self.method_extend(tx, other)
            return self
        if op is operator.imul and not reflected:
            times = tx.index(other)
            (self.replaces if times == 1 else self.changed)(tx)
            self.items = self.unpack(tx) * times
            return self
        return super().binary(tx, op, other, reflected)

    def assign(self, tx: Any, items: Any) -> None:
        self.changed(tx)
        self.items = list(items)

    def set_item(self, tx: Any, key: Variable, value: Variable) -> None:
        if isinstance(key, SliceVariable):
            self.takes_slices(tx)
        self.replaces(tx)
        if isinstance(key, SliceVariable):
            items = tx.unpack(value)
            try:
                self.items[self.indices(key)] = items
            except ValueError as error:
                tx.raise_error(ValueError, str(error))
            return
        index = tx.index(key)
        if not -len(self.items) <= index < len(self.items):
            self.no_index(tx)
        self.items[index] = value

    def replaces(self, tx: Any) -> None:
        """A change that leaves as many members as there were, which a deque's iterators outlive."""
        state = self.state
        self.changed(tx)
        self.state = state

    def del_item(self, tx: Any, key: Variable) -> None:
        if isinstance(key, SliceVariable):
            self.takes_slices(tx)
        index = self.indices(key) if isinstance(key, SliceVariable) else tx.index(key)
        if type(index) is int and not -len(self.items) <= index < len(self.items):
            self.no_index(tx)
        self.changed(tx)
        del self.items[index]

    def no_index(self, tx: Any) -> None:
        word = "" if self.cls is collections.deque else "assignment "
        tx.raise_error(IndexError, f"{self.cls.__name__} {word}index out of range")

    def get_attr(self, tx: Any, name: str) -> Variable:
        if name == "maxlen" and self.cls is collections.deque:
            return tx.constant(self.maxlen)
        return super().get_attr(tx, name)

    def trim(self, first: bool) -> None:
        """A full deque drops members at the other end."""
        if self.maxlen is not None and len(self.items) > self.maxlen:
            extra = len(self.items) - self.maxlen
            self.items = self.items[extra:] if first else self.items[: self.maxlen]

    def method_append(self, tx: Any, value: Variable) -> Variable:
        self.changed(tx)
        self.items.append(value)
        self.trim(first=True)
        return tx.constant(None)

    def method_appendleft(self, tx: Any, value: Variable) -> Variable:
        self.changed(tx)
        self.items.insert(0, value)
        self.trim(first=False)
        return tx.constant(None)

    def method_extend(self, tx: Any, values: Any) -> Any:
        values = tx.unpack(values)
        (self.changed if values else self.replaces)(tx)
        self.items.extend(values)
        self.trim(first=True)
        return tx.constant(None)

    def method_extendleft(self, tx: Any, values: Variable) -> Variable:
        for value in tx.unpack(values):
            self.method_appendleft(tx, value)
        return tx.constant(None)

    def method_rotate(self, tx: Any, n: Variable | None = None) -> Variable:
        turned = collections.deque(self.items)
        turned.rotate(1 if n is None else tx.index(n))
        (self.changed if len(turned) > 1 else self.replaces)(tx)
        self.items = list(turned)
        return tx.constant(None)

    def method_insert(self, tx: Any, index: Variable, value: Variable) -> Variable:
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            tx.raise_error(IndexError, "deque already at its maximum size")
        self.changed(tx)
        self.items.insert(tx.index(index), value)
        return tx.constant(None)

    def method_pop(self, tx: Any, index: Variable | None = None) -> Variable:
        if self.cls is collections.deque and index is not None:
            deque: Any = collections.deque()
            tx.run(lambda: deque.pop(0))  # raises
        return self.taken(tx, -1 if index is None else tx.index(index))

    def taken(self, tx: Any, at: int) -> Variable:
        """The member there, which is one no longer."""
        if not -len(self.items) <= at < len(self.items):
            empty = "pop from empty list" if self.cls is list else "pop from an empty deque"
            tx.raise_error(IndexError, empty if not self.items else "pop index out of range")
        self.changed(tx)
        return self.items.pop(at).realize()

    def drop(self, tx: Any, at: Any) -> None:
        self.taken(tx, at)

    def method_popleft(self, tx: Any) -> Variable:
        return self.taken(tx, 0)

    def method_remove(self, tx: Any, value: Variable) -> Variable:
        found = next((i for i in range(len(self.items)) if tx.same_value(self.at(i), value)), None)
        if found is None:
            text = "list.remove(x): x not in list" if self.cls is list else f"{tx.text(value, repr)} is not in deque"
            tx.raise_error(ValueError, text)
        self.drop(tx, found)
        return tx.constant(None)

    def method_clear(self, tx: Any) -> Variable:
        (self.changed if self.items else self.replaces)(tx)
        self.items = []
        return tx.constant(None)

    def method_reverse(self, tx: Any) -> Variable:
        self.replaces(tx)
        self.items = self.items[::-1]
        return tx.constant(None)

    def method_copy(self, tx: Any) -> ListVariable:
        made = ListVariable(self.items, cls=self.cls)
        made.maxlen = self.maxlen
        return made

    def method_sort(self, tx: Any, *, key: Variable | None = None, reverse: Variable | None = None) -> Variable:
        self.assign(tx, tx.sorted(self.unpack(tx), key, reverse is not None and tx.truth(reverse)))
        return tx.constant(None)

    def fill_later(self, gen: Any) -> None:
        gen.call_method(self, "extend", [TupleVariable(self.items)])

    def reconstruct(self, gen: Any) -> None:
        if self.maxlen is not None:
            gen.load_call(self.cls, [ListVariable(self.items), gen.constant(self.maxlen)])
            return
        gen.load_many(self.items)
        gen.emit.build_list(len(self.items))
        if self.cls is not list:
            gen.wrap_call(self.cls)
