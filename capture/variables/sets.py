"""Sets and frozensets, holding Variables, and iterators that notice that their owner has changed its size."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from ..breaks import unsupported
from ..guards.source import Source
from .base import Variable
from .container_base import ContainerVariable
from .object_id import IDENTITY, kinds_of, refuse_mixed, stand_in
from .iterators import FixedIterator


class SetOrderGuard:
    """Guard: a set iterates over its members in this order."""

    def __init__(self, members: Any):
        self.members = members

    def __call__(self, value: set) -> bool:
        return list(value) == self.members


class SetIterator(FixedIterator):
    """Over a set, which must keep its size."""

    def __init__(self, owner: Any, tx: Any):
        super().__init__(owner.unpack(tx))
        self.owner, self.changed = owner, False

    def next(self, tx: Any) -> Any:
        self.changed = not self.ended and (self.changed or len(self.owner.members) != len(self.members))
        if self.changed:
            tx.raise_error(RuntimeError, "Set changed size during iteration")
        return super().next(tx)

    def reconstruct(self, gen: Any) -> None:
        if self.ended or not self.changed and len(self.owner.members) == len(self.members):
            super().reconstruct(gen)
        else:
            gen.load_call(iterator_of_changed, [gen.constant(set)])


def iterator_of_changed(kind: type) -> Any:
    """An iterator over a dict or set that has changed its size meanwhile: asking it for a member raises."""
    changed = kind()
    iterator = iter(changed)
    changed |= {0: 0} if kind is dict else {0}
    return iterator


class SetVariable(ContainerVariable):
    """A set or frozenset. `order`: the members of one from outside, as it iterates over them."""

    OPERATORS = (operator.and_, operator.or_, operator.sub, operator.xor)
    COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
    INPLACE = {operator.iand: operator.and_, operator.ior: operator.or_, operator.isub: operator.sub, operator.ixor: operator.xor}

    def __init__(self, members: Iterable, source: Source | None = None, cls: type = set, order: Iterable = ()):
        super().__init__(source)
        self.members = {member.key(): member for member in members}
        self.table = set()  # a real set of the stand-ins: it has the order of iteration
        for stand in self.members:  # one by one, as set displays are made
            self.table.add(stand)
        self.cls, self.order, self.untouched = cls, order, source is not None

    def python_type(self) -> type:
        return self.cls

    def plain(self) -> set:
        return self.cls(member.plain() for member in self.members.values())

    def key(self) -> Any:
        if self.cls is not frozenset:
            raise unsupported("operator", "a set is used as a dict key")
        return frozenset(self.members)

    def is_constant(self) -> bool:
        return self.cls is frozenset and all(member.is_constant() for member in self.members.values())

    def unpack(self, tx: Any) -> list:
        if self.untouched:
            self.guard_order(tx)
            return list(self.members.values())
        if len(self.table) > 1 and kinds_of(self.table) & IDENTITY:
            raise unsupported("builtin", "the order of a set of identities of objects")
        return [self.members[stand] for stand in self.table]

    def guard_order(self, tx: Any) -> None:
        """Equal sets may have other orders: this one is guarded where it matters."""
        if len(self.members) > 1:
            tx.guard(self.source, "predicate", SetOrderGuard(self.order))

    def changed(self, tx: Any) -> None:
        if self.untouched:
            self.guard_order(tx)
        self.untouched = False
        super().changed(tx)

    def length(self, tx: Any) -> Variable:
        return tx.constant(len(self.members))

    def iterate(self, tx: Any) -> SetIterator:
        return SetIterator(self, tx)

    def stand(self, tx: Any, key: Variable) -> Any:
        return stand_in(tx, key, self.members)

    def contains(self, tx: Any, member: Variable) -> bool:
        return self.stand(tx, member) in self.members

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        if not isinstance(other, SetVariable):
            return None
        refuse_mixed(tx, self.members, other.members)
        first, second = (other, self) if reflected else (self, other)
        if op in self.COMPARISONS:
            return tx.constant(op(first.members.keys(), second.members.keys()))
        if op in self.INPLACE and not reflected:
            self.assign(tx, self.combine(self.INPLACE[op], other))
            return self
        return first.combined(op, second) if op in self.OPERATORS else None

    def combine(self, op: Callable, other: Any) -> list:
        """Members of `op` over two sets, in the order that the real operation gives."""
        both = {**other.members, **self.members}
        return [both[stand] for stand in op(self.table, other.table)]

    def combined(self, op: Callable, other: Any) -> Any:
        made = SetVariable(self.combine(op, other), cls=self.cls)
        made.table = op(self.table, other.table)
        return made

    def assign(self, tx: Any, members: Any) -> Variable:
        self.changed(tx)
        self.members = {member.key(): member for member in members}
        self.table.intersection_update(self.members)
        self.table.update(self.members)
        return tx.constant(None)

    def method_add(self, tx: Any, value: Variable) -> Variable:
        self.changed(tx)
        stand = self.stand(tx, value)
        self.members.setdefault(stand, value)
        self.table.add(stand)
        return tx.constant(None)

    def method_discard(self, tx: Any, value: Variable) -> Variable:
        self.changed(tx)
        stand = self.stand(tx, value)
        self.members.pop(stand, None)
        self.table.discard(stand)
        return tx.constant(None)

    def method_remove(self, tx: Any, value: Variable) -> Variable:
        if self.stand(tx, value) not in self.members:
            tx.raise_error(KeyError, tx.plain_or_text(value))
        return self.method_discard(tx, value)

    def method_clear(self, tx: Any) -> Variable:
        return self.assign(tx, [])

    def method_copy(self, tx: Any) -> SetVariable:
        made = SetVariable(self.members.values(), cls=self.cls)
        made.table = self.table.copy()
        return made

    def method_update(self, tx: Any, *others: Variable) -> Variable:
        return self.assign(tx, [*self.members.values(), *(m for other in others for m in tx.unpack(other))])

    def joined(self, tx: Any, op: Callable, others: Any) -> SetVariable:
        result = self
        for other in others:
            result = SetVariable(result.combine(op, SetVariable(tx.unpack(other))), cls=self.cls)
        return result

    def method_union(self, tx: Any, *others: Variable) -> SetVariable:
        return self.joined(tx, operator.or_, others)

    def method_intersection(self, tx: Any, *others: Variable) -> SetVariable:
        return self.joined(tx, operator.and_, others)

    def method_difference(self, tx: Any, *others: Variable) -> SetVariable:
        return self.joined(tx, operator.sub, others)

    def method_symmetric_difference(self, tx: Any, other: Variable) -> SetVariable:
        return self.joined(tx, operator.xor, [other])

    def method_issubset(self, tx: Any, other: Variable) -> Variable:
        return tx.constant(self.members.keys() <= SetVariable(tx.unpack(other)).members.keys())

    def method_issuperset(self, tx: Any, other: Variable) -> Variable:
        return tx.constant(self.members.keys() >= SetVariable(tx.unpack(other)).members.keys())

    def method_pop(self, tx: Any) -> Variable:
        """Which member goes is the set's own business: the first of those that hash as they do here."""
        if not self.members:
            tx.raise_error(KeyError, "pop from an empty set")
        self.unpack(tx)
        self.changed(tx)
        return self.members.pop(self.table.pop())

    def method_difference_update(self, tx: Any, *others: Variable) -> Variable:
        return self.assign(tx, self.joined(tx, operator.sub, others).members.values())

    def method_intersection_update(self, tx: Any, *others: Variable) -> Variable:
        return self.assign(tx, self.joined(tx, operator.and_, others).members.values())

    def method_symmetric_difference_update(self, tx: Any, other: Variable) -> Variable:
        return self.assign(tx, self.joined(tx, operator.xor, [other]).members.values())

    def method_isdisjoint(self, tx: Any, other: Variable) -> Variable:
        return tx.constant(self.members.keys().isdisjoint(SetVariable(tx.unpack(other)).members))

    def reconstruct(self, gen: Any) -> None:
        gen.load_many(self.members.values())
        gen.emit.build_tuple(len(self.members))
        gen.wrap_call(self.cls)
