"""Relations between sizes: what answers are guarded by, and the stack code with which native guards check them.

In: a relation of index expressions. Out: its truth for values, its negation, its normal form as a fact; stack code over int64 for
the native evaluator, whose meaning in Python is `run_guard`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...runtime.dataclass import data
from . import expr as E
from .expr import Expr

_NEGATED = {"==": "!=", "!=": "==", "<": "<=", "<=": "<"}  # not (a < b) is b <= a: the sides change for these
COMPARE = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le}


@data
class Relation:
    """lhs op rhs, with op one of == != < <=."""

    op: str
    lhs: Expr
    rhs: Expr

    def negated(self) -> Relation:
        if self.op in ("==", "!="):
            return Relation(_NEGATED[self.op], self.lhs, self.rhs)
        return Relation(_NEGATED[self.op], self.rhs, self.lhs)

    def evaluate(self, values: Mapping[str, Any]) -> bool:
        return COMPARE[self.op](self.lhs.evaluate(values), self.rhs.evaluate(values))

    def substitute(self, mapping: Mapping) -> Relation:
        return Relation(self.op, self.lhs.substitute(mapping), self.rhs.substitute(mapping))

    def free_names(self) -> frozenset:
        return self.lhs.free_names() | self.rhs.free_names()

    def fact(self) -> tuple[str, Expr]:
        """The same as one of: e == 0, e != 0 (leading coefficient positive), e >= 0."""
        if self.op in ("==", "!="):
            e = self.lhs - self.rhs
            return self.op, -e if e.terms and e.terms[0][1] < 0 else e
        return ">=", self.rhs - self.lhs - (1 if self.op == "<" else 0)

    def __str__(self) -> str:
        return f"{self.lhs} {self.op} {self.rhs}"


@data
class ShapeGuard:
    """A relation that the compiled code relies on, the user's stack where it was asked, and why in words."""

    relation: Relation
    stack: tuple = ()
    reason: str = ""

    def __str__(self) -> str:
        where = f"  # {self.reason}" if self.reason else ""
        return f"{self.relation}{where}"


# -- guards for the native evaluator --------------------------------------------------------------------------------

PUSH_CONST, PUSH_SYM, ADD, MUL, FLOORDIV, MOD, MAX, MIN, EQ, NE, LT, LE = range(12)
_ATOM_CODE = {"floordiv": FLOORDIV, "mod": MOD, "max": MAX, "min": MIN}
BINARY: dict[int, Callable[[int, int], int]] = {
    ADD: operator.add,
    MUL: operator.mul,
    FLOORDIV: operator.floordiv,
    MOD: operator.mod,
    MAX: max,
    MIN: min,
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
}
_RELATION_CODE = {"==": EQ, "!=": NE, "<": LT, "<=": LE}


def compile_guard(relation: Relation, symbols: Sequence[str]) -> list[int]:
    """Stack code over int64: symbols are pushed by their position in `symbols`; one truth value is left."""
    order = {name: k for k, name in enumerate(symbols)}
    return [*_code(relation.lhs, order), *_code(relation.rhs, order), _RELATION_CODE[relation.op]]


def compile_number(e: Expr, symbols: Sequence[str]) -> list[int]:
    """Stack code that leaves the number."""
    return _code(e, {name: k for k, name in enumerate(symbols)})


def _code(e: Expr, order: Mapping[str, int]) -> list[int]:
    code: list[int] = []
    for k, (m, c) in enumerate(e.terms):
        code += [PUSH_CONST, c]
        for atom, power in m:
            code += (_atom_code(atom, order) + [MUL]) * power
        code += [ADD] if k else []
    return code or [PUSH_CONST, 0]


def _atom_code(atom: E.Atom, order: Any) -> list[int]:
    if atom.op == "var":
        if atom.name not in order:
            raise KeyError(f"symbol {atom.name} is not among those the guard can read: {', '.join(order)}")
        return [PUSH_SYM, order[atom.name]]
    first, *others = [_code(a, order) for a in atom.args]
    return first + [x for other in others for x in (*other, _ATOM_CODE[atom.op])]


def fits(relation: Relation, values: Mapping[str, Any]) -> bool:
    """Whether the stack code of the relation stays within int64 for these values."""
    names = sorted(relation.free_names())
    return all(-(2**63) <= n < 2**63 for n in _steps(compile_guard(relation, names), [values[n] for n in names]))


def _steps(code: Sequence[int], values: Sequence[int]) -> Iterator[Any]:
    """Everything that lies on the stack while the code runs."""
    stack: list[int] = []
    items = iter(code)
    for opcode in items:
        stack.append(
            next(items)
            if opcode == PUSH_CONST
            else values[next(items)]
            if opcode == PUSH_SYM
            else BINARY[opcode](*reversed((stack.pop(), stack.pop())))
        )
        yield stack[-1]


def run_guard(code: Sequence[int], values: Sequence[int]) -> bool:
    """The meaning of the stack code (the native evaluator also refuses int64 overflow)."""
    return bool(list(_steps(code, values))[-1])
