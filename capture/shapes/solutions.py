"""Which sizes meet the relations of a program: the solution set of one symbol, and how people say it.

In: relations of one integer symbol with numbers, over + - * // % with numeric divisors. Out: `Solutions`, or None where they
are too large. The idea: with n = L*k + r, L a period of all divisions, each relation is a polynomial in k for every remainder r;
its truth changes beside real roots only, so a remainder's solutions are a few intervals. sympy finds roots from degree 2 on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...runtime.dataclass import data
from . import expr as E
from .expr import KINDS, Atom, Expr
from .proofs import Fact, meets, period_of, polynomial
from .value_ranges import INF, Bounds, simplify

MOST_PERIOD, MOST_NAMED = 128, 6
Interval = tuple  # (first, last), last may be infinite


@data
class Solutions:
    """n = period*k + r with k in one of the intervals of r; remainders without any are left out."""

    period: int
    intervals: dict

    @property
    def ends(self) -> Interval:
        """The least and the greatest solution."""
        return (
            min(self.period * parts[0][0] + r for r, parts in self.intervals.items()),
            max(self.period * parts[-1][1] + r for r, parts in self.intervals.items()),
        )

    def values(self, most: int = MOST_NAMED) -> list[int] | None:
        """All of them in order; None where there are more than `most`."""
        count = sum(last - first + 1 for parts in self.intervals.values() for first, last in parts)
        if count > most:
            return None
        every = (
            (self.period, k, r) for r, parts in self.intervals.items() for first, last in parts for k in range(first, last + 1)
        )
        return sorted(step * k + r for step, k, r in every)

    def text(self, name: str) -> str:
        """`name >= 8`, `name is 4`, `name is a multiple of 8, up to 64`; nothing where it is no single series."""
        values = self.values()
        if values is not None:
            return f"{name} is " + (" or ".join(map(str, values)) if values else "no number at all")
        low, high = self.ends
        step = next((d for d in range(1, self.period + 1) if self.period % d == 0 and self.is_series(low, high, d)), None)
        if step is None:
            return ""
        if step == 1:
            return f"{name} >= {low}" if high == INF else f"{low} <= {name} <= {high}"
        series = f"a multiple of {step}" if low % step == 0 else f"{step}*k + {low % step}"
        first = "" if low <= max(step, 2) else f" from {low} on" if high == INF else f" from {low}"
        return f"{name} is {series}" + first + ("" if high == INF else f", up to {high}")

    def is_series(self, low: int, high: float, step: int) -> bool:
        """Whether they are low, low + step, ... up to high."""
        expected = {}
        for r in range(low % step, self.period, step):
            first, last = -((r - low) // self.period), high if high == INF else (high - r) // self.period
            if first <= last:
                expected[r] = [(first, last)]
        return self.intervals == expected


def accepted_values(env: Any, name: str) -> Solutions | None:
    """The values of a symbol that the guards of a capture let through, as far as they concern it and numbers."""
    relations = [guard.relation for guard in guards_on(env, name)]
    facts = [relation.substitute(specialised_symbols(env, relation.free_names() - {name})).fact() for relation in relations]
    variable = E.var(name, env.symbols[name].kind).atom
    return solutions(variable, [(op, e) for op, e in facts if e.free_atoms() == {variable}])


def guards_on(env: Any, name: str) -> list:
    """Guards that, of all symbols that are still open, only name this one."""
    names = {guard: guard.relation.free_names() for guard in env.guards}
    return [g for g in env.guards if name in names[g] and len(specialised_symbols(env, names[g] - {name})) == len(names[g]) - 1]


def specialised_symbols(env: Any, names: Iterable[str]) -> dict[str, int]:
    """Those that became a number."""
    found = {name: env.canonical(E.var(name, env.symbols[name].kind)) for name in names}
    return {name: e.value for name, e in found.items() if e.is_const}


def solutions(variable: Atom, facts: Iterable[Fact]) -> Solutions | None:
    """What meets all facts (`e >= 0`, `e == 0`, `e != 0` in this variable alone) and the variable's kind."""
    facts, least = list(facts), KINDS[variable.args[1]]
    period = math.lcm(*(period_of(e, variable) for _, e in facts))
    if least is None or period > MOST_PERIOD:
        return None
    found = {}
    for r in range(period):
        start = -((r - least) // period)
        k = E.var(f"{variable.name} by {period}", "int")
        bounds = Bounds({k.name: (start, None)})
        try:
            case = [(op, E.lift(simplify(e.substitute({variable.name: k * period + r}), bounds))) for op, e in facts]
        except ZeroDivisionError:
            continue  # no call has this remainder
        if not all(polynomial(e) for _, e in case):
            return None
        if parts := intervals(case, k, start):
            found[r] = parts
    return Solutions(period, found)


def intervals(facts: Sequence[Fact], k: Expr, start: int) -> list[Interval]:
    """Where all hold from `start` on: between the integers beside roots nothing changes."""
    beside = {below + d for _, e in facts for below in floors_of_roots(e) for d in (0, 1)}
    points = sorted({start} | {p for p in beside if p > start})
    holds: Callable = lambda x: all(meets(op, e.evaluate({k.name: x})) for op, e in facts)
    found: list[Interval] = []
    for point, following in zip(points, [*points[1:], INF]):
        for first, last in ((point, point), (point + 1, following - 1)):
            if first <= last and holds(first):
                found[-1:] = [(found[-1][0], last)] if found and found[-1][1] == first - 1 else [*found[-1:], (first, last)]
    return found


def floors_of_roots(e: Expr) -> Iterable[int]:
    """floor(x) for each real root of a polynomial of one variable."""
    if e.is_const:
        return ()
    (atom,) = e.free_atoms()
    if e.degree(atom) == 1:
        factor = e.coeff(atom).value
        return (-(e - factor * E.from_atom(atom)).value // factor,)
    from . import sympy_bridge

    return sympy_bridge.floors_of_roots(e)
