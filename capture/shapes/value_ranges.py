"""What bounds of variables prove about index expressions, and what they simplify.

In: an expression of expr.py and the ranges of its variables. Out: proofs of signs, intervals, and an equal expression with
fewer divisions, modulos and extremes. Nothing here guesses: what is not proved stays as it is.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from math import gcd
from collections.abc import Callable, Mapping
from typing import Any

from .expr import (
    KINDS,
    Atom,
    Expr,
    ExprLike,
    _APPLY,
    _atom,
    _divide_monomial,
    _extreme,
    _make,
    _poly,
    _sum,
    const,
    exact_divide,
    floordiv,
    from_atom,
    is_const,
    lift,
    mod,
    int_if_const,
    var,
    with_atoms,
)


class Bounds:
    """What is known of variables: name or Var -> (lo, hi), inclusive, Expr | int | None. Others have their kind's
    least value.

    `nonnegative(e)` is a proof or False. The method: replace each bounded variable by the end of its range that makes
    e least, as far as the sign of its factor is itself provable; shift what is left by its least value; all
    coefficients >= 0 is a proof.
    """

    def __init__(self, ranges: Mapping | None = None):
        self.ranges = {(k.name if isinstance(k, Expr) else k): v for k, v in (ranges or {}).items()}
        self._known: dict = {}

    def with_ranges(self, ranges: Mapping) -> Bounds:
        return Bounds({**self.ranges, **Bounds(ranges).ranges})

    def nonnegative(self, e: ExprLike, depth: int = 8) -> bool:
        """Whether e >= 0 is provable."""
        e = lift(e)
        if e.is_const:
            return e.value >= 0
        if depth <= 0:
            return False
        key = (e, depth)
        if key not in self._known:
            self._known[key] = self._prove(e, depth)
        return self._known[key]

    def less(self, a: ExprLike, b: ExprLike) -> bool:
        """Whether a < b is provable."""
        return self.nonnegative(lift(b) - a - 1)

    def _prove(self, e: Expr, depth: int) -> bool:
        if self._least_by_intervals(e) >= 0:
            return True
        return self._all_positive(e) or any(self.nonnegative(weaker, depth - 1) for weaker in self._weaken(e, depth))

    def _all_positive(self, e: Expr) -> bool:
        """Shift every unknown by its least constant value; only non-negative coefficients left is a proof."""
        atoms = {a for m, _ in e.terms for a, _p in m}
        return all(c >= 0 for _, c in self._shift(e, atoms).terms)

    def _shift(self, e: Expr, atoms: set) -> Expr:
        floors = {a: self._least(a) for a in atoms}
        if any(v is None for v in floors.values()):
            return const(-1)
        total = const(0)
        for m, c in e.terms:
            piece = const(c)
            for a, p in m:
                piece = piece * (_shifted(a) + floors[a]) ** p
            total = total + piece
        return total

    def _least(self, atom: Atom) -> int | None:
        low = self.interval_atom(atom)[0]
        return None if low == -INF else low

    def _weaken(self, e: Expr, depth: int) -> list:
        """Expressions <= e that have one unknown less: the first whose factor has a provable sign."""
        for atom in sorted({a for m, _ in e.terms for a, _p in m}, key=self._weaken_order):
            if e.degree(atom) > 1:
                continue
            factor = e.coeff(atom)
            rest = e - factor * from_atom(atom)
            if atom.op == "floordiv":
                divided, divisor = atom.args
                weaker = self._without_division(rest, factor, divided, divisor, depth - 1)
                if weaker is not None:
                    return [weaker]
                continue
            lows, highs = self.ends(atom, depth)
            if lows and self.nonnegative(factor, depth - 1):
                return [rest + factor * low for low in lows]
            if highs and self.nonnegative(-factor, depth - 1):
                return [rest + factor * high for high in highs]
        return []

    def _without_division(self, rest: Expr, factor: Expr, a: Expr, d: Expr, depth: int) -> Expr | None:
        """rest + factor*(a//d) >= 0 follows from the result >= 0: times d, which leaves d - 1 to spare as all is
        integer, d*(a//d) lies in [a - d + 1, a]."""
        if not self.nonnegative(d - 1, depth):
            return None
        if self.nonnegative(-factor, depth):
            return rest * d + factor * a + d - 1
        if self.nonnegative(factor, depth):
            return rest * d + factor * (a - d + 1) + d - 1
        return None

    def _weaken_order(self, atom: Atom) -> tuple:
        """Compound atoms, then variables whose range names other variables, then the others."""
        if atom.op != "var":
            return False, False, atom.key
        return True, all(is_const(end) for end in self.ranges.get(atom.name, ())), atom.key

    def ends(self, atom: Atom, depth: int) -> tuple[list, list]:
        """Lower and upper bounds of an atom that are simpler than the atom."""
        if atom.op == "var":
            low, high = self.ranges.get(atom.name, (None, None))
            return [low] if low is not None else [], [high] if high is not None else []
        if atom.op in ("max", "min"):
            return (list(atom.args), []) if atom.op == "max" else ([], list(atom.args))
        a, d = atom.args
        if atom.op == "floordiv" or not self.nonnegative(d - 1, depth - 1):
            return [], []
        return [0], [d - 1] + ([a] if self.nonnegative(a, depth - 1) else [])

    def _least_by_intervals(self, e: Expr) -> Any:
        return self.interval(e)[0]

    def interval(self, e: ExprLike) -> tuple:
        """(least, greatest) as numbers, infinite where unknown."""
        low = high = 0
        for m, c in lift(e).terms:
            a, b = 1, 1
            for atom, p in m:
                for _ in range(p):
                    a, b = _interval_product((a, b), self.interval_atom(atom))
            a, b = _interval_product((a, b), (c, c))
            low, high = low + a, high + b
        return low, high

    def interval_atom(self, atom: Atom) -> tuple:
        if atom.op == "var":
            return self._interval_var(atom)
        parts = [self.interval(a) for a in atom.args]
        if atom.op in ("max", "min"):
            pick = max if atom.op == "max" else min
            return pick(p[0] for p in parts), pick(p[1] for p in parts)
        (low, high), (dlow, dhigh) = parts
        if dlow < 1:
            return -INF, INF
        if atom.op == "mod":
            return 0, min(dhigh - 1, high) if low >= 0 else dhigh - 1
        ends = [_floor(n, d) for n in (low, high) for d in (dlow, dhigh)]
        return min(ends), max(ends)

    def _interval_var(self, atom: Atom) -> tuple:
        low, high = self.ranges.get(atom.name, (KINDS[atom.args[1]], None))
        low = -INF if low is None else low if isinstance(low, (int, float)) else self.interval(low)[0]
        high = INF if high is None else high if isinstance(high, (int, float)) else self.interval(high)[1]
        return low, high


INF = float("inf")


def _interval_product(a: tuple, b: tuple) -> tuple:
    ends = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(ends), max(ends)


def _floor(n: Any, d: Any) -> Any:
    if n in (INF, -INF):
        return n
    if d == INF:
        return 0 if n >= 0 else -1
    return n // d


@lru_cache(maxsize=4096)
def _shifted(atom: Atom) -> Expr:
    """A name for (atom - its least value)."""
    return var(f"{atom} shifted", "index")


# -- simplification -------------------------------------------------------------------------------------------------


def simplify(e: ExprLike, bounds: Bounds | Mapping | None = None) -> ExprLike:
    """An equal expression under `bounds`: (a*C + b)//C is a and (a*C + b) % C is b where 0 <= b < C is provable, a max
    or min with a provable winner is that, and C*(x//C) + x%C is x. Ints come back as ints."""
    if not isinstance(e, Expr):
        return e
    bounds = bounds if isinstance(bounds, Bounds) else Bounds(bounds)
    return int_if_const(_simplify(e, bounds))


def _simplify(e: Expr, bounds: Bounds) -> Expr:
    if all(a.op == "var" for m, _ in e.terms for a, _p in m):
        return e
    return _join_divisions(with_atoms(e, lambda atom: _simplify_atom(atom, bounds)))


def _simplify_atom(atom: Atom, bounds: Bounds) -> Expr:
    if atom.op == "var":
        return from_atom(atom)
    args = [_simplify(a, bounds) for a in atom.args]
    if atom.op in ("max", "min"):
        return _simplify_extreme(atom.op, args, bounds)
    e = _APPLY[atom.op](*args)
    return _sum_of(e, lambda a: _reduce_division(a, bounds))


def _sum_of(e: Expr, change: Callable[[Atom], Expr]) -> Expr:
    """Rewrite the divisions that stand alone in the terms of e."""
    parts = (
        change(m[0][0]) * c if len(m) == 1 and m[0][1] == 1 and m[0][0].op in ("floordiv", "mod") else _make(((m, c),))
        for m, c in e.terms
    )
    return reduce(_sum, parts, const(0))


def _simplify_extreme(op: str, args: list, bounds: Bounds) -> Expr:
    kept: list[Expr] = []
    for k, a in enumerate(args):
        others = kept + args[k + 1 :]
        if not any(bounds.nonnegative(b - a if op == "max" else a - b) for b in others):
            kept.append(a)
    return _extreme(op, kept)


def _reduce_division(atom: Atom, bounds: Bounds) -> Expr:
    a, d = atom.args
    if bounds.nonnegative(a) and bounds.less(a, d):
        return const(0) if atom.op == "floordiv" else a
    if bounds.less(a, 0) and bounds.nonnegative(a + d):
        return const(-1) if atom.op == "floordiv" else a + d
    for g in _common_factors(a, d):
        high, low = _take_multiples(a, g)
        if low == 0 and atom.op == "floordiv" or high != 0 and bounds.nonnegative(low) and bounds.less(low, g):
            outer = exact_divide(d, g)
            assert outer is not None
            if not bounds.nonnegative(outer - 1):
                continue
            smaller = _sum_of(_APPLY[atom.op](high, outer), lambda x: _reduce_division(x, bounds))
            return smaller if atom.op == "floordiv" else smaller * g + low
    return from_atom(atom)


def _common_factors(a: Expr, d: Expr) -> list:
    """Divisors g of d, 1 excluded, that divide at least one term of a; the largest first."""
    if len(d.terms) != 1:
        return []
    ((dm, dc),) = d.terms
    found = set()
    for m, c in a.terms:
        common = tuple((x, min(p, dict(dm)[x])) for x, p in m if x in dict(dm))
        found.add(_make(((common, gcd(c, dc)),)))
    return sorted((g for g in found if g != 1), key=lambda g: (-sum(p for _, p in g.terms[0][0]), -g.terms[0][1], str(g)))


def _take_multiples(a: Expr, g: Expr) -> tuple[Expr, Expr]:
    """(h, l) with a == h*g + l."""
    ((gm, gc),) = g.terms
    high, low = [], []
    for m, c in a.terms:
        q = _divide_monomial(m, gm)
        whole = c // gc if q is not None and (not m or c % gc == 0) else 0
        if whole:
            high.append((q, whole))
        if c - whole * gc:
            low.append((m, c - whole * gc))
    return _poly(high), _poly(low)


def _join_divisions(e: Expr) -> Expr:
    """f*C*(x//C) + f*(x%C) is f*x, and f*C*((x//C)%D) + f*(x%C) is f*(x%(C*D)), for any factor f."""
    table = dict(e.terms)
    for m, c in e.terms:
        for k, (atom, power) in enumerate(m):
            if atom.op == "mod" and power == 1:
                x, d = atom.args
                factor = _make(((m[:k] + m[k + 1 :], c),))
                pair = from_atom(_atom("floordiv", x, d)) * d * factor
                if all(table.get(n) == q for n, q in pair.terms):
                    return _join_divisions(e - pair - _make(((m, c),)) + x * factor)
                if d.is_const and (upper := _upper_digit(e, x, d, factor)) is not None:
                    more, by = upper
                    return _join_divisions(e - more - _make(((m, c),)) + mod(x, d * by) * factor)
    return e


def _upper_digit(e: Expr, x: Expr, d: Expr, factor: Expr) -> tuple[Expr, Expr] | None:
    """(the term factor*d*((x//d) % by), by) of e."""
    above = floordiv(x, d)
    for monomial, c in e.terms:
        for atom, power in monomial:
            if atom.op == "mod" and power == 1 and atom.args[1].is_const and atom.args[0] == above:
                term = _make(((monomial, c),))
                if term == from_atom(atom) * d * factor:
                    return term, atom.args[1]
    return None
