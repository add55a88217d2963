"""`id(x)`: a number that only the running program knows, so it stands for "the identity of x" when it is compared or is a key.

Beside plain numbers that may be identities too (a table that was filled before the call) it becomes the number it is now,
guarded by x being that object again. Keys are compared through stand-ins (`Variable.key`); `stand_in` is asked wherever a key
is looked up.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..breaks import unsupported
from .base import Variable

LEAST = 1 << 16  # no object lies below
IDENTITY, NUMBER = 1, 2


class Identity:
    """The stand-in of `id(owner)`."""

    __slots__ = ("variable", "of")

    def __init__(self, variable: Any):
        self.variable, self.of = variable, variable.owner.identity()

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Identity) and other.of is self.of

    def __hash__(self) -> int:
        return hash((Identity, id(self.of)))


class IdentityVariable(Variable):
    shared = False

    def __init__(self, tx: Any, owner: Any):
        super().__init__()
        self.tx, self.owner = tx, owner
        tx.identities = True

    def python_type(self) -> type:
        return int

    def key(self) -> Identity:
        return Identity(self)

    def specialise(self) -> Variable:
        """The number it is now."""
        owner = self.owner.realize()
        real = next((value for value, variable, _ in self.tx.memory.values() if variable is owner), owner.outside)
        if real is None or owner.source is None:
            raise unsupported("builtin", f"id() of {owner}, which the function made, beside numbers")
        self.tx.guard_identity(owner.source, real)
        return self.tx.constant(id(real))

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        if op in (operator.eq, operator.ne) and isinstance(other, IdentityVariable):
            return tx.constant(tx.identical(self.owner, other.owner) == (op is operator.eq))
        if not issubclass(other.python_type(), (int, float)):
            return None
        pair = self.specialise(), other.specialise() if isinstance(other, IdentityVariable) else other
        return tx.binary(op, *(reversed(pair) if reflected else pair))

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(id, [self.owner])


def kinds(stand: Any) -> int:
    """Whether identities, and numbers that may be some, are in a stand-in."""
    if type(stand) is int:
        return NUMBER if stand >= LEAST else 0
    if type(stand) in (tuple, frozenset):
        return kinds_of(stand)
    return IDENTITY if type(stand) is Identity else 0


def kinds_of(stands: Any) -> int:
    found = 0
    for stand in stands:
        found |= kinds(stand)
    return found


def stand_in(tx: Any, key: Variable, others: dict) -> Any:
    """The stand-in of a key that is looked up among others."""
    stand = key.key()
    own = kinds(stand) if tx.identities else 0
    if not own or own | (beside := kinds_of(others)) != IDENTITY | NUMBER:
        return stand
    if beside == IDENTITY:
        raise unsupported("builtin", "a number looked up among identities of objects")
    return _specialise_stand_in(stand)


def refuse_mixed(tx: Any, *tables: Any) -> None:
    if tx.identities and kinds_of(stand for table in tables for stand in table) == IDENTITY | NUMBER:
        raise unsupported("builtin", "a set of numbers and one of identities of objects")


def _specialise_stand_in(stand: Any) -> Any:
    if type(stand) in (tuple, frozenset):
        return type(stand)(map(_specialise_stand_in, stand))
    return stand.variable.specialise().plain() if type(stand) is Identity else stand
