"""Lists, deques, dictionaries and sets that existed before the call: nothing of them is guarded before it is asked for.

A change is noted as the call that the program made (`steps`), replayed on the live object after the graph, so what only
grows has no guard. A question is answered by what the trace has written, by one member, or by the length, each with a guard
of its own; a length that has changed is symbolic. Any other question opens the container: its length or its keys are guarded,
and its contents are known from then on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from ..guards.growth import ShorterThanGuard, stands
from ..guards.source import ItemPast, Keyed, Length, Pinned, Source, item
from .base import LazyVariable, Variable
from .constant import SymVariable, TextVariable, is_open_text, rely_on
from .container_base import ContainerVariable
from .dicts import DictVariable, by_identity, pinned_key
from .object_id import IDENTITY, kinds
from .sequences import ListVariable, SliceVariable, TupleVariable
from .sets import SetVariable
from .tensor import TensorVariable


class OutsideVariable(ContainerVariable):
    """What they share. `steps`: (name of a method of `cls`, arguments) in the program's order; None where the contents are to
    be written again instead."""

    own_length = False  # whether `__len__` of its class is written in Python
    base: Any  # what came from outside
    known: Any  # the contents once it is open, else None
    steps: list[tuple[str, tuple]] | None

    def begin(self, tx: Any, source: Source | None) -> None:
        ContainerVariable.__init__(self, source)
        self.tx, self.steps, self.stored_at, self.size = tx, [], {}, None

    def open(self) -> None:
        raise NotImplementedError

    def changed(self, tx: Any) -> None:
        self.steps = None
        super().changed(tx)

    def opened(self) -> None:
        """From here on the contents are known, with what was written before."""
        if self.known is None:
            self.open()

    def noted(self, tx: Any, act: Callable, method: str, *args: Any) -> Variable | None:
        """The change that `act` makes here is, on the live object, this call."""
        steps, self.stored_at = self.steps, {}
        result = act()
        return self.take(tx, steps, method, args, result)

    def take(self, tx: Any, steps: list | None, method: str, args: Any, result: Variable | None = None) -> Variable | None:
        tx.effects.mutate(self)
        if steps is not None:
            steps.append((method, args))
        self.steps = steps
        return result

    def noted_store(self, tx: Any, act: Callable, stand: Any, key: Variable, value: Variable) -> None:
        """A store under a key; one that follows another under the same key takes its place."""
        steps, places = self.steps, self.stored_at
        act()
        if steps is not None and stand is not None and stand in places:
            key = steps[places[stand]][1][0]
            steps[places[stand]] = "__setitem__", (key, value)
            self.steps = steps
            return
        self.take(tx, steps, "__setitem__", (key, value))
        if stand is None:
            places.clear()
        elif steps is not None:
            places[stand] = len(steps) - 1

    def base_length(self, tx: Any) -> Any:
        """The length that it came with: a number that is guarded, or a symbol if it was seen to change."""
        if self.size is None:
            now = self.size = len(self.base)
            if self.source is not None and tx.has_changed(place := Length(self.source)):
                self.size = tx.symbolic_int(now, place)
            if type(self.size) is int and self.source is not None:
                tx.guard(self.source, "len", now)
        return self.size

    def base_truth(self, tx: Any) -> bool:
        if self.source is None:
            return bool(self.base)
        tx.guard(self.source, "bool", bool(self.base))
        return bool(self.base)


# -- lists and deques -------------------------------------------------------------------------------------------------


class OutsideList(OutsideVariable, ListVariable):
    """Closed, it is `front`, the members of `base` without `cut_front` and `cut_back` of them, and `back`. `stores`: what was
    stored in the base, by index as the program counted, all from one end; `moving`: under symbolic indices."""

    def __init__(self, tx: Any, real: Iterable, source: Source | None, cls: type = list, maxlen: int | None = None):
        self.begin(tx, source)
        self.base, self.cls, self.maxlen, self.known = tuple(real), cls, maxlen, None
        self.front, self.back, self.stores, self.found, self.moving = [], [], {}, {}, []
        self.cut_front = self.cut_back = 0

    @property
    def items(self) -> Any:
        self.opened()
        return self.known

    @items.setter
    def items(self, items: list) -> None:
        self.known = items

    def open(self) -> None:
        size = len(self.base)
        if self.maxlen is None or size < self.maxlen:
            until = None if self.maxlen is None else ShorterThanGuard(self.maxlen)
            self.tx.watch.relies(self.source, self.known_source.name(), size, grows=True, until=until)
        self.tx.guard(self.source, "len", size)
        middle = [self.stored(i) or self.stored(i - size) or self.member(i, size) for i in range(size)]
        self.known = self.front + middle[self.cut_front : size - self.cut_back] + self.back
        self.trim(first=True)
        for at, value in self.moving:
            self.known[self.tx.index(at)] = value

    def stored(self, index: int) -> Variable | None:
        return self.stores.get(index)

    def member(self, index: int, size: int = 0) -> Variable:
        """One of the base; the one seen from the other end, if that was looked at."""
        at = index - size if index not in self.found and index - size in self.found else index
        if at not in self.found:
            self.found[at] = LazyVariable(self.tx, self.base[at], item(self.known_source, at))
        return self.found[at]

    def closed(self) -> bool:
        return self.known is None and not self.moving

    # -- questions -------------------------------------------------------------------------------------------------

    def place(self, index: int) -> tuple | None:
        """(list or table of stores, key) of an index that does not need the length to be found; None for others."""
        if not self.closed():
            return None
        return self.place_from_end(-index) if index < 0 else self.place_from_start(index)

    def place_from_end(self, count: int) -> tuple | None:
        if count <= len(self.back):
            return self.back, -count
        at = -count + len(self.back) - self.cut_back
        apart = self.cut_front or any(i >= 0 for i in self.stores) or -at > len(self.base)
        return None if apart or self.maxlen is not None and count > self.maxlen else (self.stores, at)

    def place_from_start(self, index: int) -> tuple | None:
        if self.maxlen is not None and self.back:
            return None
        if index < len(self.front):
            return self.front, index
        at = index - len(self.front) + self.cut_front
        apart = self.cut_back or any(i < 0 for i in self.stores) or at >= len(self.base)
        return None if apart else (self.stores, at)

    def peek(self, tx: Any, index: int) -> Variable | None:
        place = self.place(index)
        if place is None:
            return None
        table, at = place
        if table is not self.stores:
            table[at] = table[at].realize()
            return table[at]
        tx.guard(item(self.known_source, at), "there")
        return (self.stored(at) or self.member(at)).realize()

    def get_item(self, tx: Any, key: Variable) -> Variable:
        if isinstance(key, SliceVariable):
            return self.tail(tx, key) or super().get_item(tx, key)
        if isinstance(key, SymVariable):
            rely_on(key)
        index = tx.index(key)
        found = self.peek(tx, index)
        return super().get_item(tx, tx.constant(index)) if found is None else found

    def tail(self, tx: Any, key: Any) -> Any:
        """`[-n:]`: so many members from the end, if there are as many."""
        start, stop, step = (part.plain() if part.is_constant() else 0 for part in key.parts)
        if (
            type(start) is not int
            or start >= 0
            or stop is not None
            or step not in (None, 1)
            or self.cls is not list
            or self.place(start) is None
        ):
            if type(start) is int and start < 0 and self.known is None:
                self.too_short(tx, -start)
            return None
        return ListVariable([self.peek(tx, i) for i in range(start, 0)])

    def too_short(self, tx: Any, count: int) -> None:
        """A slice from the end that reaches before the first member: a list that grows will be long enough."""
        more = len(self.front) + len(self.back) - self.cut_front - self.cut_back
        if self.cls is list and self.maxlen is None and len(self.base) + more < count:
            tx.watch.relies(
                self.source, self.known_source.name(), len(self.base), grows=True, until=ShorterThanGuard(count - more)
            )

    def length(self, tx: Any) -> Variable:
        if self.known is not None or self.own_length:
            return super().length(tx)
        size = self.base_length(tx) + (len(self.front) + len(self.back) - self.cut_front - self.cut_back)
        if self.maxlen is not None and self.back:
            size = min(size, self.maxlen) if type(size) is int else size.sym_min(self.maxlen)
        return tx.fresh(size)

    def truth(self, tx: Any) -> bool:
        if self.known is not None or self.own_length:
            return super().truth(tx)
        if self.front or self.back or self.moving or not (self.cut_front or self.cut_back):
            return bool(self.front or self.back or self.moving) or self.base_truth(tx)
        return tx.truth(self.length(tx))

    # -- changes ---------------------------------------------------------------------------------------------------

    def noted(self, tx: Any, act: Callable, method: str, *args: Any) -> Variable | None:
        state = self.state
        result = super().noted(tx, act, method, *args)
        empty = method == "extend" and not args[0].items
        self.state = state + (method != "__setitem__" and not empty)
        return result

    def set_item(self, tx: Any, key: Variable, value: Variable) -> None:
        if isinstance(key, SliceVariable):
            self.set_slice(tx, key, value)
        elif isinstance(key, SymVariable) and key.python_type() is int and self.within(tx, key):
            self.noted(tx, lambda: self.moving.append((key, value)), "__setitem__", key, value)
        else:
            self.set_at(tx, tx.index(key), value)

    def within(self, tx: Any, key: Variable) -> bool:
        """Whether a symbolic index is one from the start that is there, guarded."""
        if self.known is not None or self.stores or self.front or self.cut_front or self.cut_back or self.maxlen is not None:
            return False
        return tx.truth(tx.binary(operator.ge, key, tx.constant(0))) and tx.truth(tx.binary(operator.lt, key, self.length(tx)))

    def set_at(self, tx: Any, index: int, value: Variable) -> None:
        place, key = self.place(index), tx.constant(index)
        if any((other < 0) != (index < 0) for other in self.stored_at):
            self.stored_at = {}  # (two such indices may be one place)
        if place is None:
            self.opened()
            if not -len(self.items) <= index < len(self.items):
                ListVariable.set_item(self, tx, key, value)
            self.noted_store(tx, lambda: ListVariable.set_item(self, tx, key, value), index, key, value)
            return
        table, at = place
        if table is self.stores:
            tx.guard(item(self.known_source, at), "there")
        self.noted_store(tx, lambda: table.__setitem__(at, value), index, key, value)

    def set_slice(self, tx: Any, key: Any, value: Any) -> Any:
        if not all(part.is_constant() and part.plain() is None for part in key.parts) or self.cls is not list:
            return ListVariable.set_item(self, tx, key, value)
        values = tx.unpack(value)
        return self.noted(tx, lambda: self.become(values), "__setitem__", tx.constant(slice(None)), TupleVariable(values))

    def become(self, items: list) -> None:
        self.known = list(items)

    def settle(self, simple: bool) -> bool:
        """Whether a change may be made while it is closed."""
        if self.known is None and not simple:
            self.open()
        return self.known is None

    def method_append(self, tx: Any, value: Variable) -> Variable:
        self.noted(tx, lambda: self.grow(tx, [value]), "append", value)
        return tx.constant(None)

    def method_extend(self, tx: Any, values: Any) -> Any:
        values = tx.unpack(values)
        self.noted(tx, lambda: self.grow(tx, values), "extend", TupleVariable(values))
        return tx.constant(None)

    def grow(self, tx: Any, values: list) -> None:
        whole = not (self.front or self.cut_front or self.cut_back or self.stores)
        if not self.settle(self.maxlen is None or whole):
            self.known.extend(values)
            self.trim(first=True)
            return
        self.back.extend(values)
        if self.maxlen is not None:
            del self.back[: max(len(self.back) - self.maxlen, 0)]

    def method_appendleft(self, tx: Any, value: Variable) -> Variable:
        def act() -> None:
            if self.settle(self.maxlen is None and not self.moving):
                self.front.insert(0, value)
            else:
                ListVariable.method_appendleft(self, tx, value)

        self.noted(tx, act, "appendleft", value)
        return tx.constant(None)

    def method_insert(self, tx: Any, index: Variable, value: Variable) -> Variable:
        at = tx.index(index)
        if self.settle(at == 0 and self.maxlen is None and not self.moving):
            self.noted(tx, lambda: self.front.insert(0, value), "insert", tx.constant(0), value)
        elif self.maxlen is not None and len(self.items) >= self.maxlen:
            return super().method_insert(tx, index, value)  # raises
        else:
            self.noted(tx, lambda: ListVariable.method_insert(self, tx, tx.constant(at), value), "insert", tx.constant(at), value)
        return tx.constant(None)

    def method_pop(self, tx: Any, index: Variable | None = None) -> Any:
        if self.cls is not list and index is not None:
            return super().method_pop(tx, index)  # raises
        at = -1 if index is None else tx.index(index)
        found = self.peek(tx, at) if at in (0, -1) and (self.maxlen is None or not self.back) else None
        given = () if index is None else (tx.constant(at),)
        if found is not None:
            return self.noted(tx, lambda: self.cut(at, found), "pop", *given)
        if not -len(self.items) <= at < len(self.items):
            return super().method_pop(tx, index)  # raises
        return self.noted(tx, lambda: self.taken(tx, at), "pop", *given)

    def drop(self, tx: Any, at: Any) -> None:
        self.noted(tx, lambda: self.taken(tx, at), "__delitem__", tx.constant(at))

    def cut(self, at: int, found: Variable) -> Variable:
        """Closed, without its first or last member."""
        ours = self.front if at == 0 else self.back
        if ours:
            ours.pop(at)
        elif at == 0:
            self.stores.pop(self.cut_front, None)
            self.cut_front += 1
        else:
            self.stores.pop(-1 - self.cut_back, None)
            self.cut_back += 1
        return found

    def method_popleft(self, tx: Any) -> Any:
        found = self.peek(tx, 0) if self.maxlen is None or not self.back else None
        if found is not None:
            return self.noted(tx, lambda: self.cut(0, found), "popleft")
        if not self.items:
            return super().method_popleft(tx)  # raises
        return self.noted(tx, lambda: self.taken(tx, 0), "popleft")

    def method_clear(self, tx: Any) -> Variable:
        self.noted(tx, lambda: self.become([]), "clear")
        return tx.constant(None)


# -- what has keys ----------------------------------------------------------------------------------------------------


class OutsideKeys(OutsideVariable):
    """Dictionaries and sets. Closed, it is `base` with `recent` changes: (key, value), None where the key is taken out."""

    def begin_keys(self, tx: Any, source: Source | None, base: Any) -> None:
        self.begin(tx, source)
        self.base, self.recent, self.known = base, [], None

    def is_simple(self, key: Variable) -> bool:
        """A key that may be looked for while this is closed."""
        if self.known is not None:
            return False
        if key.is_constant() or is_symbolic(key):
            return True
        if key.source is None:
            return isinstance(key, TensorVariable)
        return by_identity(getattr(key, "outside", None)) and not kinds(key.key()) & IDENTITY

    def lately(self, tx: Any, key: Any) -> tuple:
        """(value,) of the last change under the key: None for one taken out; () where there was none."""
        for other, value in reversed(self.recent):
            if same_key(tx, key, other):
                return (value,)
        return ()

    def in_base(self, tx: Any, key: Variable) -> bool:
        """Whether the key is in what came from outside, guarded."""
        if self.source is None or key.source is None and isinstance(key, TensorVariable):  # the trace made it
            return False
        if isinstance(key, SymVariable) and key.python_type() is int and key.value.hint is not None:
            return tx.guard_membership(self.source, key.value, key.value.hint in self.base)
        key = specialise_key(tx, key)
        real = key.plain() if key.is_constant() else key.outside
        if not key.is_constant():
            tx.guard_identity(key.source, real)
        tx.guard(self.source, "has_item" if real in self.base else "no_item", real)
        return real in self.base

    def has_now(self, tx: Any, key: Variable) -> bool:
        lately = self.lately(tx, key)
        return lately[0] is not None if lately else self.in_base(tx, key)

    def closed_length(self, tx: Any) -> Variable:
        """The base's length and what the changes add to it."""
        more, seen = 0, []
        for key, _ in self.recent:
            if not any(same_key(tx, key, other) for other in seen):
                seen.append(key)
                more += (self.lately(tx, key)[0] is not None) - self.in_base(tx, key)
        return tx.fresh(self.base_length(tx) + more)

    def length(self, tx: Any) -> Variable:
        return super().length(tx) if self.known is not None or self.own_length else self.closed_length(tx)

    def truth(self, tx: Any) -> bool:
        if self.known is not None or self.own_length:
            return super().truth(tx)
        if not self.recent:
            return self.base_truth(tx)
        return self.recent[-1][1] is not None or tx.truth(self.closed_length(tx))


def is_symbolic(key: Variable) -> bool:
    """A number or text that may be another one in the next call, or a tuple with such."""
    if isinstance(key, TupleVariable) and key.cls is tuple:
        parts = [part.realize() for part in key.items]
        return any(map(is_symbolic, parts)) and all(is_symbolic(part) or part.is_constant() for part in parts)
    return isinstance(key, (SymVariable, TextVariable)) or is_open_text(key)


def specialise_key(tx: Any, key: Variable) -> Variable:
    """A key that is known: symbolic numbers and texts become what they are now."""
    return tx.constant(key.key()) if is_symbolic(key) else key


def same_key(tx: Any, a: Variable, b: Variable) -> bool:
    if a is b:
        return True
    if isinstance(a, TupleVariable) and isinstance(b, TupleVariable) and (is_symbolic(a) or is_symbolic(b)):
        pairs = zip(a.unpack(tx), b.unpack(tx))
        return len(a.items) == len(b.items) and all(same_key(tx, x, y) for x, y in pairs)
    text, other = (a, b) if isinstance(a, TextVariable) else (b, a)
    if isinstance(text, TextVariable):
        told = text.compared(other)
        if told is not None:
            return told
    if isinstance(a, SymVariable) and isinstance(b, SymVariable) or is_symbolic(a) != is_symbolic(b) and number_beside(a, b):
        return tx.truth(tx.binary(operator.eq, a, b))
    if a.is_constant() and b.is_constant() or is_symbolic(a) or is_symbolic(b):
        return key_category(a) == key_category(b) and a.key() == b.key()
    return tx.identical(a, b)


def number_beside(a: Variable, b: Variable) -> bool:
    """Whether one is a symbolic number and the other a number."""
    return all(isinstance(v, SymVariable) or v.is_constant() and isinstance(v.plain(), (int, float)) for v in (a, b))


def key_category(key: Variable) -> str:
    """Keys of two of these kinds are never equal; the value of one that is symbolic is not asked for this."""
    kind = key.python_type()
    return (
        "text"
        if kind is str
        else "tuple"
        if issubclass(kind, tuple)
        else "number"
        if issubclass(kind, (int, float, complex))
        else "other"
    )


# -- dictionaries -----------------------------------------------------------------------------------------------------


class OutsideDict(OutsideKeys, DictVariable):
    """A dict, OrderedDict or defaultdict."""

    def __init__(self, tx: Any, value: Any, source: Any, key_variable: Any, factory: Variable | None = None):
        self.begin_keys(tx, source, value)
        self.value, self.key_variable = value, key_variable
        self.cls, self.factory = type(value), factory
        self.found: dict = {}  # key -> Lazy, of single look-ups

    @property
    def entries(self) -> Any:
        self.opened()
        return self.known

    @entries.setter
    def entries(self, entries: Any) -> None:
        self.known = entries

    def open(self) -> Any:
        if self.source is not None:
            self.tx.watch.relies(self.source, self.source.name(), stands(self.base))
            self.tx.guard(self.source, "dict_keys", tuple(self.base))
        keys = [(self.key_variable(self.tx, k), k) for k in self.base]
        entries = {variable.key(): (variable, self.value_at(k)) for variable, k in keys}
        for key, value in self.recent:
            self.write(entries, key.key(), key, value)
        self.known = entries

    @staticmethod
    def write(entries: dict, stand: Any, key: Variable, value: Variable | None) -> None:
        if value is None:
            entries.pop(stand, None)
        else:
            entries[stand] = entries[stand][0] if stand in entries else key, value

    def value_at(self, key: Any, source: Source | None = None) -> Variable:
        stand = id(key) if by_identity(key) else key
        if stand not in self.found:
            self.found[stand] = LazyVariable(self.tx, self.base[key], source or self.item(key))
        return self.found[stand]

    past: type | None = None  # the builtin base whose items are read, where the class of the dict has a method of its own

    def item(self, key: Any) -> Source:
        if self.past is not None:
            return ItemPast(self.known_source, key, self.past)
        return Keyed(self.known_source, key, pinned_key(key)) if by_identity(key) else item(self.known_source, key)

    # -- questions -------------------------------------------------------------------------------------------------

    def contains(self, tx: Any, member: Variable) -> bool:
        return self.has_now(tx, member) if self.is_simple(member) else super().contains(tx, member)

    def get_item(self, tx: Any, key: Variable) -> Variable:
        if not self.is_simple(key) or self.missing_opens(key):
            return super().get_item(tx, key)
        lately = self.lately(tx, key)
        if lately and lately[0] is not None:
            return lately[0].realize()
        if not lately and self.in_base(tx, key):
            return self.value_of(specialise_key(tx, key))
        if self.factory is not None and not (self.factory.is_constant() and self.factory.plain() is None):
            made = tx.call(self.factory, [], {})
            self.set_item(tx, key, made)
            return made
        return tx.raise_error(KeyError, tx.plain_or_text(key))

    def missing_opens(self, key: Variable) -> bool:
        """Tables of objects (an optimizer's state, when it is filled) are compared as a whole, not pair by pair."""
        return (
            self.factory is not None
            and not key.is_constant()
            and not is_symbolic(key)
            and key.source is not None
            and key.outside not in self.base
        )

    def value_of(self, key: Any) -> Variable:
        if key.is_constant():
            return self.value_at(key.plain()).realize()
        return self.value_at(key.outside, Keyed(self.known_source, key.outside, key.source)).realize()

    def method_get(self, tx: Any, key: Variable, default: Variable | None = None) -> Variable:
        if not self.is_simple(key):
            return super().method_get(tx, key, default)
        return self.get_item(tx, key) if self.has_now(tx, key) else default or tx.constant(None)

    def method_setdefault(self, tx: Any, key: Variable, default: Variable | None = None) -> Variable:
        if not self.is_simple(key):
            return super().method_setdefault(tx, key, default)
        if not self.has_now(tx, key):
            self.set_item(tx, key, default or tx.constant(None))
        elif is_symbolic(key) and not self.lately(tx, key):
            return EntryVariable(tx, self, key)
        return self.get_item(tx, key)

    def method_pop(self, tx: Any, key: Variable, default: Variable | None = None) -> Variable:
        if not self.is_simple(key):
            return super().method_pop(tx, key, default)
        if not self.has_now(tx, key):
            return default if default is not None else tx.raise_error(KeyError, tx.plain_or_text(key))
        value = self.get_item(tx, key)
        self.del_item(tx, key)
        return value

    def written_pairs(self) -> list | None:
        """The pairs of one that the program has just written down, whatever its keys are; None of others."""
        fresh = self.source is None and self.known is None and all(value is not None for _, value in self.recent)
        return list(self.recent) if fresh else None

    def reconstruct(self, gen: Any) -> None:
        pairs = self.written_pairs()
        if pairs is None:
            super().reconstruct(gen)
            return
        gen.load_many(part for pair in pairs for part in pair)
        gen.emit.build_map(len(pairs))

    # -- changes ---------------------------------------------------------------------------------------------------

    def set_item(self, tx: Any, key: Variable, value: Variable) -> None:
        if not self.is_simple(key):
            self.opened()
            self.noted_store(tx, lambda: DictVariable.set_item(self, tx, key, value), self.stand(tx, key), key, value)
        else:
            stand = key.plain() if key.is_constant() and not is_open_text(key) else None
            self.noted_store(tx, lambda: self.recent.append((key, value)), stand, key, value)

    def del_item(self, tx: Any, key: Variable) -> None:
        if self.is_simple(key):
            if not self.has_now(tx, key):
                tx.raise_error(KeyError, tx.plain_or_text(key))
            self.noted(tx, lambda: self.recent.append((key, None)), "__delitem__", key)
        elif self.stand(tx, key) not in self.entries:
            tx.raise_error(KeyError, tx.plain_or_text(key))
        else:
            self.noted(tx, lambda: DictVariable.del_item(self, tx, key), "__delitem__", key)

    def method_clear(self, tx: Any) -> Variable:
        def act() -> None:
            self.known = {}

        self.noted(tx, act, "clear")
        return tx.constant(None)

    def method_move_to_end(self, tx: Any, key: Variable, last: Variable | None = None) -> Variable:
        def act() -> None:
            if last is None and self.is_simple(key) and self.has_now(tx, key):
                self.recent += [(key, None), (key, self.get_item(tx, key))]
            else:
                DictVariable.method_move_to_end(self, tx, key, last)

        self.noted(tx, act, "move_to_end", key, *([] if last is None else [last]))
        return tx.constant(None)


# -- sets -------------------------------------------------------------------------------------------------------------


class OutsideSet(OutsideKeys, SetVariable):
    """A set or frozenset."""

    def __init__(self, tx: Any, real: set, source: Any, key_variable: Any):
        self.begin_keys(tx, source, real)
        self.cls, self.key_variable, self.order, self.untouched = type(real), key_variable, list(real), True

    @property
    def members(self) -> Any:
        self.opened()
        return self.known

    @members.setter
    def members(self, members: Variable) -> None:
        self.known = members

    @property
    def table(self) -> Any:
        self.opened()
        return self.stands

    @table.setter
    def table(self, table: Any) -> None:
        self.stands = table

    def open(self) -> Any:
        if self.source is not None and not (isinstance(self.source, Pinned) and self.cls is frozenset):
            self.tx.watch.relies(self.source, self.source.name(), stands(self.base))
            self.tx.guard(self.source, "predicate", SetEqualsGuard(self.cls, frozenset(self.base)))
        variables = [self.key_variable(self.tx, member) for member in self.base]
        self.known = {variable.key(): variable for variable in variables}
        self.stands = set()
        for stand in self.known:
            self.stands.add(stand)
        if all(variable.is_constant() for variable in variables):  # iterates, and goes on, as nearly as a copy can
            self.takes_layout(self.base)
        for member, value in self.recent:
            self.write(member, value)

    def write(self, member: Variable, value: Variable) -> None:
        if self.untouched:
            self.guard_order(self.tx)
            self.untouched = False
        stand = member.key()
        if value is None:
            self.known.pop(stand, None)
        else:
            self.known.setdefault(stand, member)
        self.apply("discard" if value is None else "add", stand)

    def plain(self) -> Any:
        self.opened()
        if not self.untouched:
            return super().plain()
        if self.source is not None:
            self.guard_order(self.tx)
        return self.base.copy()

    def unpack(self, tx: Any) -> list:
        self.opened()
        return super().unpack(tx)

    def contains(self, tx: Any, member: Variable) -> bool:
        return self.has_now(tx, member) if self.is_simple(member) else super().contains(tx, member)

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        if op is operator.ior and not reflected and self.known is None and isinstance(other, SetVariable) and self.cls is set:
            self.method_update(tx, other)
            return self
        return super().binary(tx, op, other, reflected)

    def method_add(self, tx: Any, value: Variable) -> Variable:
        act = (
            (lambda: self.recent.append((value, value)))
            if self.is_simple(value)
            else lambda: SetVariable.method_add(self, tx, value)
        )
        self.noted(tx, act, "add", value)
        return tx.constant(None)

    def method_update(self, tx: Any, *others: Variable) -> Variable:
        for other in others:
            written = other.written_members() if isinstance(other, OutsideSet) and self.known is None else None
            if written is not None and all(map(self.is_simple, written)):
                self.noted(tx, lambda written=written: self.recent.extend((m, m) for m in written), "update", other)
            else:
                for member in tx.unpack(other):
                    self.method_add(tx, member)
        return tx.constant(None)

    def written_members(self) -> list | None:
        """The members of one that the program has just written down; None of others."""
        fresh = self.source is None and self.known is None and all(value is not None for _, value in self.recent)
        return [member for member, _ in self.recent] if fresh else None

    def reconstruct(self, gen: Any) -> None:
        written = self.written_members()
        if written is None:
            super().reconstruct(gen)
            return
        gen.load_many(written)
        gen.emit.build_tuple(len(written))
        gen.wrap_call(self.cls)

    def method_discard(self, tx: Any, value: Variable) -> Variable:
        act = (
            (lambda: self.recent.append((value, None)))
            if self.is_simple(value)
            else lambda: SetVariable.method_discard(self, tx, value)
        )
        self.noted(tx, act, "discard", value)
        return tx.constant(None)

    def method_remove(self, tx: Any, value: Variable) -> Variable:
        if not self.is_simple(value):
            return super().method_remove(tx, value)
        if not self.has_now(tx, value):
            tx.raise_error(KeyError, tx.plain_or_text(value))
        return self.method_discard(tx, value)

    def method_clear(self, tx: Any) -> Variable:
        def act() -> None:
            self.known, self.stands, self.untouched = {}, set(), False

        self.noted(tx, act, "clear")
        return tx.constant(None)


class SetEqualsGuard:
    """Guard: a set with these members."""

    def __init__(self, cls: type, members: frozenset):
        self.cls, self.members = cls, members

    def __call__(self, value: set) -> bool:
        return type(value) is self.cls and value == self.members


# -- what the program writes down ---------------------------------------------------------------------------------------


def new_dict(tx: Any, pairs: Any) -> DictVariable:
    """A dictionary display; one with a symbolic key is not looked at before somebody asks."""
    pairs = list(pairs)
    if not any(is_symbolic(key) for key, _ in pairs):
        return DictVariable(pairs)
    made = OutsideDict(tx, {}, None, None)
    made.recent = pairs if all(map(made.is_simple, (key for key, _ in pairs))) else made.recent
    return made if made.recent else DictVariable(pairs)


def new_set(tx: Any, members: Any) -> SetVariable:
    if not any(map(is_symbolic, members)):
        return SetVariable(members)
    made = OutsideSet(tx, set(), None, None)
    made.untouched = False
    made.recent = [(member, member) for member in members] if all(map(made.is_simple, members)) else []
    return made if made.recent else SetVariable(members)


class EntryVariable(LazyVariable):
    """What an outside dict has under a number that changes: which entry it is is asked where it is looked at, and most
    that `setdefault` gives is not."""

    def __init__(self, tx: Any, table: OutsideDict, key: Variable):
        Variable.__init__(self)
        self.tx, self.table, self.key_of_entry, self._real = tx, table, key, None

    def realize(self) -> Any:
        if self._real is None:
            self._real = self.table.value_of(specialise_key(self.tx, self.key_of_entry))
        return self._real

    def reconstruct(self, gen: Any) -> None:
        gen.load(self.realize())
