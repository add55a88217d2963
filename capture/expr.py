"""Integer index algebra, for sizes and for loop indices.

In: variables and ints combined with + - * // % max min. Out: immutable expressions in one canonical form. The idea: an
expression is a polynomial with int coefficients over atoms (a variable, a floor division, a modulo, a max, a min), so
equal polynomials are the same object, and `==` is a fact about values, never a question. `//` and `%` have Python's
meaning. Helpers take `Expr | int`; a constant expression equals and hashes like its int.
"""

from __future__ import annotations

import re
import weakref
from functools import lru_cache, reduce
from math import gcd
from typing import Union
from collections.abc import Callable, Iterable, Mapping

import numpy as np

ExprLike = Union["Expr", int]
Monomial = tuple        # ((Atom, power), ...) sorted by Atom.key; () is the constant monomial

KINDS = {"size": 2, "unbacked": 0, "index": 0, "int": None}       # kind of variable -> least value, None: any integer
_RANK = {"var": 0, "floordiv": 1, "mod": 2, "max": 3, "min": 4}


class Atom:
    """What a polynomial treats as one unknown: op is var (args: name, kind), floordiv, mod (two Expr), max or min (n
    Expr)."""

    __slots__ = ("op", "args", "key", "_hash", "_vars", "__weakref__")

    def __init__(self, op: str, args: tuple):
        self.op, self.args = op, args
        self.key = (_RANK[op], _natural(args[0] if op == "var" else ",".join(map(str, args))), str(args[1]))
        self._hash = hash((op, args))
        self._vars = None

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        return self is other or (isinstance(other, Atom) and self._hash == other._hash
                                 and self.op == other.op and self.args == other.args)

    @property
    def name(self) -> str:
        return self.args[0]

    def variables(self) -> frozenset:
        if self._vars is None:
            self._vars = (
                frozenset((self,)) if self.op == "var" else frozenset().union(*(a.free_atoms() for a in self.args))
            )
        return self._vars

    def __str__(self):
        if self.op == "var":
            return self.args[0]
        if self.op in ("max", "min"):
            return f"{self.op}({', '.join(map(str, self.args))})"
        sign = "//" if self.op == "floordiv" else "%"
        return f"({_operand(self.args[0])}{sign}{_operand(self.args[1])})"

    __repr__ = __str__


class Expr:
    """A canonical integer expression. Build with `var`, `const` and operators; `==` compares values structurally."""

    __slots__ = ("terms", "_hash", "_vars", "__weakref__")

    def __init__(self, terms: tuple):
        self.terms = terms                  # ((monomial, coefficient), ...) sorted, no zero coefficient
        self._hash = hash(self.value) if self.is_const else hash(terms)
        self._vars = None

    # -- facts -------------------------------------------------------------------------------------------------------
    @property
    def is_const(self) -> bool:
        return not self.terms or (len(self.terms) == 1 and not self.terms[0][0])

    @property
    def value(self) -> int:
        if not self.is_const:
            raise ValueError(f"{self} is not a constant")
        return self.terms[0][1] if self.terms else 0

    @property
    def is_var(self) -> bool:
        return len(self.terms) == 1 and self.terms[0][1] == 1 and _single(self.terms[0][0], "var")

    @property
    def atom(self) -> Atom:
        """The only atom of an expression that is exactly one atom."""
        ((((atom, _power),), _c),) = self.terms
        return atom

    @property
    def name(self) -> str:
        return self.atom.name

    def free_atoms(self) -> frozenset:
        """The variable atoms it depends on."""
        if self._vars is None:
            self._vars = frozenset().union(*(a.variables() for m, _ in self.terms for a, _p in m))
        return self._vars

    def free_vars(self) -> frozenset:
        """The variables (as Expr) it depends on."""
        return frozenset(from_atom(a) for a in self.free_atoms())

    def free_names(self) -> frozenset:
        return frozenset(a.name for a in self.free_atoms())

    def coeff(self, variable: Expr | Atom | str) -> Expr:
        """The factor of `variable` in its linear terms: e == coeff*variable + rest where rest has no such term."""
        atom = _variable(self, variable)
        return _poly((_divide_monomial(m, ((atom, 1),)), c) for m, c in self.terms if dict(m).get(atom) == 1)

    def degree(self, atom: Atom) -> int:
        return max((dict(m).get(atom, 0) for m, _ in self.terms), default=0)

    def affine(self, variables: Iterable) -> tuple[dict, Expr] | None:
        """({variable: coefficient}, rest) with neither coefficients nor rest naming a variable of the list; None when
        not affine."""
        wanted = {_variable(self, v): v for v in variables}
        coeffs = {v: 0 for v in wanted.values()}
        rest = self
        for atom, v in wanted.items():
            factor = self.coeff(from_atom(atom))
            coeffs[v] = factor
            rest = rest - factor * from_atom(atom)
            if factor.free_atoms() & wanted.keys():
                return None
        return None if rest.free_atoms() & wanted.keys() else (coeffs, rest)

    # -- arithmetic --------------------------------------------------------------------------------------------------
    def __add__(self, other):
        return _sum(self, other) if isinstance(other, (Expr, int)) else NotImplemented

    __radd__ = __add__

    def __neg__(self):
        return _scale(self, -1)

    def __sub__(self, other):
        return _sum(self, -other) if isinstance(other, (Expr, int)) else NotImplemented

    def __rsub__(self, other):
        return _sum(-self, other) if isinstance(other, int) else NotImplemented

    def __mul__(self, other):
        if isinstance(other, int):
            return _scale(self, int(other))
        return _product(self, other) if isinstance(other, Expr) else NotImplemented

    __rmul__ = __mul__

    def __pow__(self, power):
        if not isinstance(power, int) or power < 0:
            raise ValueError(f"({self})**{power}: the exponent of an index expression is an int >= 0")
        return reduce(lambda a, _: a * self, range(power), const(1))

    def __floordiv__(self, other):
        return floordiv(self, other) if isinstance(other, (Expr, int)) else NotImplemented

    def __rfloordiv__(self, other):
        return floordiv(const(other), self) if isinstance(other, int) else NotImplemented

    def __mod__(self, other):
        return mod(self, other) if isinstance(other, (Expr, int)) else NotImplemented

    def __rmod__(self, other):
        return mod(const(other), self) if isinstance(other, int) else NotImplemented

    # -- identity ----------------------------------------------------------------------------------------------------
    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        if self is other:
            return True
        if isinstance(other, int):
            return self.is_const and self.value == other
        return isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms

    def __index__(self):
        return self.value

    __int__ = __index__

    def __bool__(self):
        if self.is_const:
            return self.value != 0
        raise TypeError(f"the truth of {self} is not known; compare explicitly")

    def __reduce__(self):
        return from_tuple, (self.to_tuple(),)

    # -- use ---------------------------------------------------------------------------------------------------------
    def substitute(self, mapping: Mapping) -> Expr:
        """Replace variables (keys: Expr or name) by expressions or ints."""
        table = {(k.atom if isinstance(k, Expr) else k): v for k, v in mapping.items()}
        return _substitute(self, lambda atom: table.get(atom, table.get(atom.name)))

    def evaluate(self, env: Mapping[str, object]):
        """The value under names -> ints (or numpy int arrays, or anything with these operators)."""
        total = 0
        for m, c in self.terms:
            product = c
            for atom, power in m:
                product = (
                    _atom_value(atom, env) ** power * product if power > 1 else _times(product, _atom_value(atom, env))
                )
            total = product if isinstance(total, int) and total == 0 else total + product
        return total

    def to_tuple(self):
        """Plain nested tuples, storable and hashable; `from_tuple` reads them back."""
        if self.is_const:
            return self.value
        return tuple((tuple((a.op, a.args if a.op == "var" else tuple(map(to_tuple, a.args)), p) for a, p in m), c)
                     for m, c in self.terms)

    def __str__(self):
        return _render(self, str)

    def cpp(self, bounds: Bounds | None = None) -> str:
        """C text over int64 names. A division whose operands `bounds` prove >= 0 is C's own, any other calls
        fb_floordiv/fb_mod (Python's meaning); fb_max and fb_min are two-place."""
        return _render(self, lambda atom: _atom_cpp(atom, bounds))

    def __repr__(self):
        return str(self)


# -- construction ---------------------------------------------------------------------------------------------------

_EXPRS: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
_ATOMS: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def _make(terms: tuple) -> Expr:
    found = _EXPRS.get(terms)
    if found is None:
        found = _EXPRS[terms] = Expr(terms)
    return found


def _atom(op: str, *args) -> Atom:
    found = _ATOMS.get((op, args))
    if found is None:
        found = _ATOMS[op, args] = Atom(op, args)
    return found


def var(name: str, kind: str = "size") -> Expr:
    """A variable. kind: "size" (>= 2), "unbacked" (>= 0), "index" (>= 0) or "int" (any)."""
    if kind not in KINDS:
        raise ValueError(f"kind of variable {name!r} is {kind!r}, not one of {', '.join(KINDS)}")
    return from_atom(_atom("var", name, kind))


def const(n: int) -> Expr:
    n = int(n)
    return _make((((), n),)) if n else _make(())


def lift(e: ExprLike) -> Expr:
    """The same value as an Expr."""
    return e if isinstance(e, Expr) else const(e)


def plain(e: ExprLike) -> ExprLike:
    """The same value, as an int where it is constant."""
    return e.value if isinstance(e, Expr) and e.is_const else e


def from_atom(atom: Atom) -> Expr:
    return _make(((((atom, 1),), 1),))


def _natural(text: str) -> tuple:
    """A sort key that puts s2 before s10."""
    return tuple((0, int(p)) if p.isdigit() else (1, p) for p in re.split(r"(\d+)", text) if p)


def _term_order(term):
    monomial = term[0]
    return (-sum(p for _, p in monomial), tuple((a.key, p) for a, p in monomial))


def _poly(rows: Iterable) -> Expr:
    table: dict = {}
    for m, c in rows:
        table[m] = table.get(m, 0) + c
    return _from_table(table)


def _from_table(table: dict) -> Expr:
    terms = [t for t in table.items() if t[1]]
    if len(terms) > 1:
        terms.sort(key=_term_order)
    return _make(tuple(terms))


def _sum(a: Expr, b: ExprLike) -> Expr:
    table = dict(a.terms)
    for m, c in (b.terms if isinstance(b, Expr) else (((), int(b)),)):
        table[m] = table.get(m, 0) + c
    return _from_table(table)


def _scale(a: Expr, n: int) -> Expr:
    return _make(tuple((m, c * n) for m, c in a.terms)) if n else const(0)


def _product(a: Expr, b: Expr) -> Expr:
    return _poly((_multiply_monomials(m, n), c * d) for m, c in a.terms for n, d in b.terms)


def _multiply_monomials(m: Monomial, n: Monomial) -> Monomial:
    if not m or not n:
        return m or n
    powers = dict(m)
    for atom, p in n:
        powers[atom] = powers.get(atom, 0) + p
    return tuple(sorted(powers.items(), key=lambda item: item[0].key))


def _divide_monomial(m: Monomial, n: Monomial) -> Monomial | None:
    """m / n, None when n does not divide m."""
    powers = dict(m)
    for atom, p in n:
        left = powers.get(atom, 0) - p
        if left < 0:
            return None
        powers[atom] = left
    return tuple((a, p) for a, p in powers.items() if p)


def _single(monomial: Monomial, op: str) -> bool:
    return len(monomial) == 1 and monomial[0][1] == 1 and monomial[0][0].op == op


def _variable(e: Expr, v) -> Atom:
    if isinstance(v, Atom):
        return v
    if isinstance(v, Expr):
        return v.atom
    return next((a for a in e.free_atoms() if a.name == v), None) or _atom("var", v, "size")


# -- floor division and modulo --------------------------------------------------------------------------------------

def floordiv(a: ExprLike, d: ExprLike) -> Expr:
    """floor(a / d). Exact parts leave the division: (4*i*n + j)//n is 4*i + j//n."""
    a, d = lift(a), lift(d)
    quotient, rest, d = _split(a, d)
    if rest == 0:
        return quotient
    if d.is_const:
        divided = _floordiv_const(rest, d.value)
    else:
        divided = from_atom(_atom("floordiv", rest, d))
    return quotient + divided


def mod(a: ExprLike, d: ExprLike) -> Expr:
    """a - d*floor(a / d), with the sign of d."""
    a, d = lift(a), lift(d)
    if d.is_const and d.value < 0:
        return -mod(-a, -d)
    _, rest, d = _split(a, d)
    if rest == 0 or (rest.is_const and d.is_const):
        return rest
    if not d.is_const:
        return from_atom(_atom("mod", rest, d))
    return _mod_const(rest, d.value)


def _split(a: Expr, d: Expr) -> tuple[Expr, Expr, Expr]:
    """(q, r, d') with a//d == q + r//d' and, for d > 0 constant or symbolic, a % d == r % d'."""
    if d == 0:
        raise ZeroDivisionError(f"({a}) divided by 0")
    if d.is_const and d.value < 0:
        a, d = -a, -d
    if len(d.terms) > 1:
        exact = exact_divide(a, d)
        return (exact, const(0), d) if exact is not None else (const(0), a, d)
    ((monomial, n),) = d.terms
    taken: dict = {}
    left: dict = {}
    for m, c in a.terms:
        q = _divide_monomial(m, monomial)
        whole = 0 if q is None else _whole(m, c, n)
        if whole:
            taken[q] = taken.get(q, 0) + whole
        if c - whole * n:
            left[m] = c - whole * n
    return _from_table(taken), _from_table(left), d


def _whole(monomial: Monomial, c: int, n: int) -> int:
    """How often n leaves a term c*monomial: the constant keeps a rest in [0, n), a term keeps the sign of c."""
    if not monomial:
        return c // n
    return c // n if (c >= 0) == (n > 0) else -(-c // n)


def _floordiv_const(rest: Expr, n: int) -> Expr:
    g = reduce(gcd, (c for m, c in rest.terms if m), n)
    if g > 1:
        return floordiv(_poly((m, c // g) for m, c in rest.terms), n // g)
    if len(rest.terms) == 1 and rest.terms[0][1] == 1 and _single(rest.terms[0][0], "floordiv"):
        inner, by = rest.atom.args
        if by.is_const:                                  # floor(floor(x / b) / n) is floor(x / (b*n)) for n > 0
            return floordiv(inner, by * n)
    return from_atom(_atom("floordiv", rest, const(n)))


def _mod_const(rest: Expr, n: int) -> Expr:
    g = reduce(gcd, (c for m, c in rest.terms if m), n)
    if g > 1:
        constant = dict(rest.terms).get((), 0)
        return mod(_poly((m, c // g) for m, c in rest.terms), n // g) * g + constant % g
    opened = _open_mods(rest, n)
    if opened is not rest:
        return mod(opened, n)
    return from_atom(_atom("mod", rest, const(n)))


def _open_mods(rest: Expr, n: int) -> Expr:
    """(x % (k*n)) inside a modulo by n is x."""
    def inner(atom):
        if atom.op == "mod" and atom.args[1].is_const and atom.args[1].value % n == 0:
            return atom.args[0]
        return None
    if not any(_single(m, "mod") and inner(m[0][0]) is not None for m, _ in rest.terms):
        return rest
    parts = (
        inner(m[0][0]) * c if _single(m, "mod") and inner(m[0][0]) is not None else _make(((m, c),))
        for m, c in rest.terms
    )
    return reduce(_sum, parts, const(0))


def exact_divide(a: ExprLike, d: ExprLike) -> Expr | None:
    """a/d when d divides a as a polynomial, else None."""
    a, d = lift(a), lift(d)
    if d == 0:
        return None
    lead, n = d.terms[0]
    quotient = const(0)
    for _ in range(8 * (len(a.terms) + 1)):
        if not a.terms:
            return quotient
        m, c = a.terms[0]
        q = _divide_monomial(m, lead)
        if q is None or c % n:
            return None
        step = _make(((q, c // n),))
        quotient, a = quotient + step, a - step * d
    return None


# -- max and min ----------------------------------------------------------------------------------------------------

def maximum(*args: ExprLike) -> Expr:
    return _extreme("max", args)


def minimum(*args: ExprLike) -> Expr:
    return _extreme("min", args)


def _extreme(op: str, args) -> Expr:
    flat: list[Expr] = []
    for a in map(lift, args):
        same = len(a.terms) == 1 and a.terms[0][1] == 1 and _single(a.terms[0][0], op)
        flat.extend(a.atom.args if same else (a,))
    kept: list[Expr] = []
    for a in flat:
        kept = _insert_extreme(op, kept, a)
    if len(kept) == 1:
        return kept[0]
    return from_atom(_atom(op, *sorted(kept, key=lambda e: tuple(map(_term_order, e.terms)))))


def _insert_extreme(op: str, kept: list, a: Expr) -> list:
    for k, b in enumerate(kept):
        difference = a - b
        if difference.is_const:
            a_wins = (difference.value > 0) == (op == "max")
            return kept[:k] + [a if a_wins else b] + kept[k + 1:]
    return kept + [a]


# -- helpers that take ints as well ---------------------------------------------------------------------------------

def is_const(e: ExprLike) -> bool:
    return not isinstance(e, Expr) or e.is_const


def free_vars(e: ExprLike) -> frozenset:
    return e.free_vars() if isinstance(e, Expr) else frozenset()


def substitute(e: ExprLike, mapping: Mapping) -> ExprLike:
    return e.substitute(mapping) if isinstance(e, Expr) else e


def evaluate(e: ExprLike, env: Mapping[str, object]):
    return e.evaluate(env) if isinstance(e, Expr) else e


def cpp(e: ExprLike, bounds: Bounds | None = None) -> str:
    return lift(e).cpp(bounds)


def to_tuple(e: ExprLike):
    return e.to_tuple() if isinstance(e, Expr) else e


def product(items: Iterable[ExprLike]) -> ExprLike:
    return reduce(lambda a, b: a * b, items, 1)


def from_tuple(stored) -> Expr:
    if isinstance(stored, int):
        return const(stored)
    return _poly((tuple((_stored_atom(op, args), p) for op, args, p in m), c) for m, c in stored)


def _stored_atom(op: str, args: tuple) -> Atom:
    return _atom(op, *(args if op == "var" else map(from_tuple, args)))


def _substitute(e: Expr, find: Callable) -> Expr:
    """Rebuild with find(variable atom) -> replacement or None."""
    if not any(find(a) is not None for a in e.free_atoms()):
        return e
    total = const(0)
    for m, c in e.terms:
        piece = const(c)
        for atom, power in m:
            piece = piece * rebuild(atom, find) ** power
        total = total + piece
    return total


def rebuild(atom: Atom, find: Callable) -> Expr:
    if atom.op == "var":
        found = find(atom)
        return from_atom(atom) if found is None else lift(found)
    return _APPLY[atom.op](*(_substitute(a, find) for a in atom.args))


_APPLY = {"floordiv": floordiv, "mod": mod, "max": maximum, "min": minimum}


def _times(a, b):
    return b if isinstance(a, int) and a == 1 else b * a


def _atom_value(atom: Atom, env):
    if atom.op == "var":
        if atom.name not in env:
            raise KeyError(f"no value for {atom.name} among {', '.join(map(str, env)) or 'nothing'}")
        return env[atom.name]
    values = [a.evaluate(env) for a in atom.args]
    if atom.op == "floordiv":
        return values[0] // values[1]
    if atom.op == "mod":
        return values[0] % values[1]
    return reduce(_VALUE_EXTREME[atom.op], values)


def _value_max(a, b):
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else _ask(a, b, "max")


def _value_min(a, b):
    return np.minimum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else _ask(a, b, "min")


def _ask(a, b, op: str):
    """Symbolic sizes know their own max and min; plain ints take the builtin."""
    for x, y in ((a, b), (b, a)):
        method = getattr(x, f"sym_{op}", None)
        if method is not None:
            return method(y)
    return max(a, b) if op == "max" else min(a, b)


_VALUE_EXTREME = {"max": _value_max, "min": _value_min}


# -- text -----------------------------------------------------------------------------------------------------------

def _operand(e: Expr) -> str:
    text = str(e)
    return text if e.is_var or (e.is_const and e.value >= 0) else f"({text})"


def _render(e: Expr, atom_text: Callable[[Atom], str]) -> str:
    if not e.terms:
        return "0"
    text = ""
    for k, (m, c) in enumerate(e.terms):
        sign = ("-" if c < 0 else "") if k == 0 else (" - " if c < 0 else " + ")
        factors = [atom_text(a) for a, p in m for _ in range(p)]
        if abs(c) != 1 or not m:
            factors.insert(0, _literal(abs(c), atom_text is str))
        text += sign + "*".join(factors)
    return text


def _literal(n: int, python: bool) -> str:
    return str(n) if python or n < 2**31 else f"{n}LL"


def _atom_cpp(atom: Atom, bounds) -> str:
    if atom.op == "var":
        return atom.name
    args = [a.cpp(bounds) for a in atom.args]
    if atom.op in ("max", "min"):
        return reduce(lambda a, b: f"fb_{atom.op}({a}, {b})", args)
    a, d = atom.args
    if bounds is not None and bounds.nonnegative(a) and bounds.nonnegative(d - 1):
        return f"(({args[0]}) {'/' if atom.op == 'floordiv' else '%'} ({args[1]}))"
    return f"fb_{atom.op}({args[0]}, {args[1]})"


# -- proofs from bounds ---------------------------------------------------------------------------------------------

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

    def _shift(self, e: Expr, atoms) -> Expr:
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
                weaker = self._without_division(rest, factor, *atom.args, depth - 1)
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

    def _least_by_intervals(self, e: Expr):
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


def _interval_product(a, b) -> tuple:
    ends = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(ends), max(ends)


def _floor(n, d):
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
    return plain(_simplify(e, bounds))


def _simplify(e: Expr, bounds: Bounds) -> Expr:
    if all(a.op == "var" for m, _ in e.terms for a, _p in m):
        return e
    total = const(0)
    for m, c in e.terms:
        piece = const(c)
        for atom, power in m:
            piece = piece * _simplify_atom(atom, bounds) ** power
        total = total + piece
    return _join_divisions(total)


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
        others = kept + args[k + 1:]
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
    return sorted(
        (g for g in found if g != 1), key=lambda g: (-sum(p for _, p in g.terms[0][0]), -g.terms[0][1], str(g))
    )


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
    """f*C*(x//C) + f*(x%C) is f*x, for any factor f."""
    table = dict(e.terms)
    for m, c in e.terms:
        for k, (atom, power) in enumerate(m):
            if atom.op == "mod" and power == 1:
                x, d = atom.args
                factor = _make(((m[:k] + m[k + 1:], c),))
                pair = from_atom(_atom("floordiv", x, d)) * d * factor
                if all(table.get(n) == q for n, q in pair.terms):
                    return _join_divisions(e - pair - _make(((m, c),)) + x * factor)
    return e
