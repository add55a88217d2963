"""Proofs of relations that bounds alone do not decide: remainder by remainder, then by roots and factors that sympy finds.

In: `e >= 0`, `e == 0` or `e != 0` over integer variables, their bounds, and facts. Out: True, False, or None for what depends
on the sizes, or is too large to ask. The idea: a relation that a few drawn sizes answer differently has no proof, which settles
nearly all that programs ask in microseconds; where divisors are numbers, each remainder of a variable is a case without
divisions; what is left then are polynomials, and only these make somebody import sympy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from . import expr as E
from .expr import Atom, Expr
from .value_ranges import Bounds, simplify

Fact = tuple  # (op, e): e >= 0, e == 0 or e != 0, as Relation.fact()

MOST_TERMS, MOST_VARIABLES, MOST_CASES = 12, 3, 24
DRAWN = (0, 1, 2, 3, 5, 8, 17, 64, 97, 100, 1000, 12345)  # above the least value
AWAY = (*DRAWN, *(-n for n in DRAWN))  # from the end of a range, or from 0


def is_worth_proving(e: Expr) -> bool:
    """Whether bounds may have missed a proof, and it is small enough to look for. Linear relations they decide."""
    if len(e.terms) > MOST_TERMS or len(e.free_atoms()) > MOST_VARIABLES:
        return False
    return any(len(m) > 1 or any(power > 1 or atom.op != "var" for atom, power in m) for m, _ in e.terms)


def proved(op: str, e: Expr, bounds: Bounds, facts: Sequence[Fact] = (), seen: Mapping | None = None) -> bool | None:
    """Whether `e op 0` (>=, ==, !=) holds for all integers within the bounds that meet the facts; `seen`: values that do."""
    facts = [(o, f) for o, f in facts if f.free_atoms() <= e.free_atoms()]
    answer = sampled_answer(op, e, bounds, facts, seen)
    if answer is None:
        return None
    if op == ">=":
        return answer if _holds([e if answer else -e - 1], bounds, facts) else None
    if answer == (op == "=="):  # it is 0
        return answer if _holds([e], bounds, facts) and _holds([-e], bounds, facts) else None
    return answer if _holds([e - 1, -e - 1], bounds, facts) else None


# -- refutation by example


def sampled_answer(op: str, e: Expr, bounds: Bounds, facts: Sequence[Fact], seen: Mapping | None = None) -> bool | None:
    """The answer for all drawn values; None where two of them differ, or none meets the facts."""
    found = None
    first = [seen] if seen and e.free_names() <= seen.keys() else []
    for values in itertools.chain(first, _samples(sorted(e.free_atoms(), key=lambda a: a.key), bounds)):
        try:
            if not all(meets(o, f.evaluate(values)) for o, f in facts):
                continue
            answer = meets(op, e.evaluate(values))
        except ZeroDivisionError:
            continue
        if found is not None and answer != found:
            return None
        found = answer
    return found


def meets(op: str, value: int) -> bool:
    """Whether `value op 0`."""
    return value >= 0 if op == ">=" else (value == 0) == (op == "==")


def _samples(atoms: Sequence[Atom], bounds: Bounds) -> Iterator[dict[str, int]]:
    """Small ones, large ones and mixtures, each variable within its range."""
    choices = [_values(atom, bounds) for atom in atoms]
    for k in range(24):
        yield {a.name: c[(k * (1 + j) + j * (k // 3)) % len(c)] for j, (a, c) in enumerate(zip(atoms, choices))}


def _values(atom: Atom, bounds: Bounds) -> list[int]:
    low, high = bounds.interval_atom(atom)
    if math.isinf(low) and math.isinf(high):
        return list(AWAY)
    if math.isinf(low):
        return [int(high) - n for n in DRAWN]
    found = [int(low) + n for n in DRAWN if low + n <= high]
    return found if math.isinf(high) or int(high) in found else [*found, int(high)]


# -- cases without divisions


def _holds(sides: Sequence[Expr], bounds: Bounds, facts: Sequence[Fact]) -> bool:
    """Whether in every case that meets the facts one of them is >= 0 for all values."""
    found = cases(sides[0], bounds)
    try:
        return found is not None and all(_case_holds(sides, bounds, mapping, facts) for mapping, bounds in found)
    except ZeroDivisionError:  # a remainder for which there is no value, and no fact that excludes it
        return False


def _case_holds(sides: Sequence[Expr], bounds: Bounds, mapping: Mapping[str, Expr], facts: Sequence[Fact]) -> bool:
    known = [(op, E.lift(simplify(fact.substitute(mapping), bounds))) for op, fact in facts]
    if any(fact.is_const and not meets(op, fact.value) for op, fact in known):
        return True  # no call is in this case
    return any(_nonnegative(E.lift(simplify(e.substitute(mapping), bounds)), bounds, known) for e in sides)


def _nonnegative(e: Expr, bounds: Bounds, facts: Sequence[Fact]) -> bool:
    """By bounds, by a fact and bounds, or by sympy."""
    if bounds.nonnegative(e) or any(op == ">=" and bounds.nonnegative(e - fact) for op, fact in facts):
        return True
    if not polynomial(e) or sampled_answer(">=", e, bounds, ()) is not True:
        return False
    from . import sympy_bridge

    return sympy_bridge.nonnegative(e, bounds)


def polynomial(e: Expr) -> bool:
    """Whether there are no divisions or extremes in it."""
    return all(atom.op == "var" for m, _ in e.terms for atom, _power in m)


def cases(e: Expr, bounds: Bounds) -> list[tuple[dict[str, Expr], Bounds]] | None:
    """(what variables are in this case, the bounds of what they are made of); with v = L*k + r all divisions by numbers leave
    e. None where there are too many."""
    periods = {atom: period for atom in e.free_atoms() if (period := period_of(e, atom)) > 1}
    if math.prod(periods.values()) > MOST_CASES:
        return None
    made = []
    for rests in itertools.product(*(range(period) for period in periods.values())):
        mapping, ranges = {}, {}
        for (atom, period), rest in zip(periods.items(), rests):
            low, high = bounds.interval_atom(atom)
            name = f"{atom.name} by {period}"
            ranges[name] = (
                None if math.isinf(low) else -((rest - int(low)) // period),
                None if math.isinf(high) else (int(high) - rest) // period,
            )
            mapping[atom.name] = E.var(name, "int") * period + rest
        if all(low is None or high is None or low <= high for low, high in ranges.values()):
            made.append((mapping, bounds.with_ranges(ranges)))
    return made


def period_of(e: Expr, variable: Atom) -> int:
    """The least number that all divisions of something with this variable divide."""
    found = 1
    for m, _ in e.terms:
        for atom, _power in m:
            if atom.op == "var" or variable not in atom.variables():
                continue
            inner = math.lcm(*(period_of(a, variable) for a in atom.args))
            divisor = atom.args[1] if atom.op in ("floordiv", "mod") else None
            if divisor is not None and divisor.is_const:
                inner *= abs(divisor.value)
            found = math.lcm(found, inner)
    return found
