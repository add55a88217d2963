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


class History:
    """How a set of constants became what it is: methods and their operands, of which sets are histories too. Two sets of the
    same members iterate in the order in which their tables hold them, and that depends on what was in their way."""

    LONGEST = 100  # steps that are told again

    def __init__(self, before: History | None, name: str, operands: Iterable):
        self.before, self.name, self.operands = before, name, tuple(operands)
        self.length = 1 + sum(h.length for h in (before, *self.operands) if isinstance(h, History))

    def made(self) -> Any:
        """The set, or the frozenset, that has this history."""
        made = None if self.before is None else self.before.made()
        # (a set and itself: `a | a` does nothing, which is not what it does with an equal set)
        operands = [(made if o is self.before else o.made()) if isinstance(o, History) else o for o in self.operands]
        if self.before is None:
            return KINDS[self.name](*operands)
        found = getattr(made, self.name)(*operands)
        return found if self.name in NEW else made


KINDS = {"set": set, "frozenset": frozenset}
# methods that leave the set as it is, and give a new one
NEW = frozenset("__and__ __or__ __sub__ __xor__ union intersection difference symmetric_difference copy".split())


def made_as(kind: type, history: History) -> Any:
    made = history.made()
    return made if type(made) is kind else kind(made)


class SetVariable(ContainerVariable):
    """A set or frozenset. `order`: the members of one from outside, as it iterates over them."""

    history: History | None = None  # of the table, where it is known

    OPERATORS = {operator.and_: "__and__", operator.or_: "__or__", operator.sub: "__sub__", operator.xor: "__xor__"}
    COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
    INPLACE = {
        operator.iand: (operator.and_, "intersection_update"),
        operator.ior: (operator.or_, "update"),
        operator.isub: (operator.sub, "difference_update"),
        operator.ixor: (operator.xor, "symmetric_difference_update"),
    }

    def __init__(self, members: Iterable, source: Source | None = None, cls: type = set, order: Iterable = ()):
        super().__init__(source)
        self.members: dict = {}
        self.table: set = set()  # a real set of the stand-ins: it has the order of iteration
        self.cls = cls
        self.fill(list(members))
        self.order, self.untouched = order, source is not None

    def fill(self, members: list) -> None:
        """Put them in one by one, as set displays are made; of equal ones the first stays."""
        for member in members:
            stand = member.key()
            self.members.setdefault(stand, member)
            self.table.add(stand)
        self.history = History(None, self.cls.__name__, [tuple(member.key() for member in members)])

    def takes_layout(self, real: Any) -> None:
        """Iterates as this set of the same constants does, which nobody changes."""
        if all(member.is_constant() for member in self.members.values()):
            self.table = real if self.cls is frozenset else real.copy()
            self.history = History(None, self.cls.__name__, [frozenset(real)])

    def python_type(self) -> type:
        return self.cls

    def plain(self) -> set:
        if history := self.needed_history():
            return made_as(self.cls, history)
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
            op, method = self.INPLACE[op]
            if self.cls is set:  # (a frozenset gives its name to a new one)
                self.change(tx, method, other)
                return self
        return first.derived(self.OPERATORS[op], [(second, second.members)]) if op in self.OPERATORS else None

    def operand(self, tx: Any, other: Variable) -> tuple[Any, dict]:
        """What the real method gets for an operand, of the same kind as far as sets ask for it, and its members."""
        members = tx.unpack(other)
        named: dict = {}
        for member in members:
            named.setdefault(member.key(), member)
        refuse_mixed(tx, self.members, named)
        if isinstance(other, SetVariable):
            return other, named
        if other.is_constant() and type(value := other.plain()) is frozenset:
            return value, named
        if other.python_type() is dict:
            return dict.fromkeys(named), named
        return tuple(member.key() for member in members), named

    def change(self, tx: Any, name: str, *others: Variable) -> Variable:
        """The method on the real table, and the members that it leaves."""
        operands = [self.operand(tx, other) for other in others]
        self.changed(tx)
        self.apply(name, *(operand for operand, _ in operands))
        self.members = self.named(self.table, self.members, *(named for _, named in operands))
        return tx.constant(None)

    def apply(self, name: str, *operands: Any) -> Any:
        found = getattr(self.table, name)(*(o.table if isinstance(o, SetVariable) else o for o in operands))
        self.history = self.continued(name, operands)
        return found

    def continued(self, name: str, operands: Iterable) -> History | None:
        steps = [o.history if isinstance(o, SetVariable) else o for o in operands]
        if self.history is None or None in steps:
            return None
        history = History(self.history, name, steps)
        return history if history.length <= History.LONGEST else None

    def derived(self, name: str, operands: Iterable) -> SetVariable:
        made, others = SetVariable((), cls=self.cls), [other for other, _ in operands]
        made.table = getattr(self.table, name)(*(o.table if isinstance(o, SetVariable) else o for o in others))
        made.history = self.continued(name, others)
        made.members = self.named(made.table, self.members, *(named for _, named in operands))
        return made

    @classmethod
    def of(cls, tx: Any, kind: type, members: Variable) -> SetVariable:
        """kind(members), whose order of iteration depends on what they are in."""
        made = cls([], cls=kind)
        operand, made.members = made.operand(tx, members)
        given, past = (operand.table, operand.history) if isinstance(operand, SetVariable) else (operand, operand)
        made.table, made.history = set(given), None if past is None else History(None, kind.__name__, [past])
        made.members = made.named(made.table, made.members)
        return made

    @staticmethod
    def named(table: set, *members: dict) -> dict:
        """The Variables of a table's stand-ins: of equal ones (1 and True) the one that the table holds."""
        found: dict = {}
        for named in members:
            for stand, member in named.items():
                if stand in table:
                    found.setdefault(stand, []).append(member)
        for stand in table:
            found[stand] = next((m for m in found[stand] if m.key() is stand), found[stand][0])
        return found

    def method_add(self, tx: Any, value: Variable) -> Variable:
        self.changed(tx)
        stand = self.stand(tx, value)
        self.members.setdefault(stand, value)
        self.apply("add", stand)
        return tx.constant(None)

    def method_discard(self, tx: Any, value: Variable) -> Variable:
        self.changed(tx)
        stand = self.stand(tx, value)
        self.members.pop(stand, None)
        self.apply("discard", stand)
        return tx.constant(None)

    def method_remove(self, tx: Any, value: Variable) -> Variable:
        if self.stand(tx, value) not in self.members:
            tx.raise_error(KeyError, tx.plain_or_text(value))
        return self.method_discard(tx, value)

    def method_clear(self, tx: Any) -> Variable:
        return self.change(tx, "clear")

    def method_copy(self, tx: Any) -> SetVariable:
        return self if self.cls is frozenset else self.derived("copy", ())

    def method_update(self, tx: Any, *others: Variable) -> Variable:
        return self.change(tx, "update", *others)

    def method_union(self, tx: Any, *others: Variable) -> SetVariable:
        return self.derived("union", [self.operand(tx, other) for other in others])

    def method_intersection(self, tx: Any, *others: Variable) -> SetVariable:
        return self.derived("intersection", [self.operand(tx, other) for other in others])

    def method_difference(self, tx: Any, *others: Variable) -> SetVariable:
        return self.derived("difference", [self.operand(tx, other) for other in others])

    def method_symmetric_difference(self, tx: Any, other: Variable) -> SetVariable:
        return self.derived("symmetric_difference", [self.operand(tx, other)])

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
        return self.members.pop(self.apply("pop"))

    def method_difference_update(self, tx: Any, *others: Variable) -> Variable:
        return self.change(tx, "difference_update", *others)

    def method_intersection_update(self, tx: Any, *others: Variable) -> Variable:
        return self.change(tx, "intersection_update", *others)

    def method_symmetric_difference_update(self, tx: Any, other: Variable) -> Variable:
        return self.change(tx, "symmetric_difference_update", other)

    def method_isdisjoint(self, tx: Any, other: Variable) -> Variable:
        return tx.constant(self.members.keys().isdisjoint(SetVariable(tx.unpack(other)).members))

    def reconstruct(self, gen: Any) -> None:
        if history := self.needed_history():
            gen.load_call(made_as, [gen.constant(self.cls), gen.constant(history)])
            return
        gen.load_many(self.members.values())
        gen.emit.build_tuple(len(self.members))
        gen.wrap_call(self.cls)

    def needed_history(self) -> History | None:
        """By which a set of constants has to be made again so that it iterates as here: 5 goes in front of 2 in {2, 5, 9}
        where nothing stood in its place."""
        if len(self.members) < 2 or self.history is None or not all(m.is_constant() for m in self.members.values()):
            return None
        differs = [*self.cls(tuple(self.members))] != [*self.table] == [*made_as(self.cls, self.history)]
        return self.history if differs else None
