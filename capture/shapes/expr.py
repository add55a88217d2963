"""Integer index algebra, for sizes and for loop indices.

In: variables and ints combined with + - * // % max min. Out: immutable expressions in one canonical form. The idea: an
expression is a polynomial with int coefficients over atoms (a variable, a floor division, a modulo, a max, a min), so
equal polynomials are the same object, and `==` is a fact about values, never a question. `//` and `%` have Python's
meaning. Helpers take `Expr | int`; a constant expression equals and hashes like its int.
"""

from __future__ import annotations

import re
import threading
import weakref
from functools import reduce
from math import gcd
from typing import Any, Generic, TypeVar, Union
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from ...runtime import locks

ExprLike = Union["Expr", int]
Kind = TypeVar("Kind")
Monomial = tuple  # ((Atom, power), ...) sorted by Atom.key; () is the constant monomial

KINDS = {"size": 2, "unbacked": 0, "index": 0, "int": None}  # kind of variable -> least value, None: any integer
_RANK = {"var": 0, "floordiv": 1, "mod": 2, "max": 3, "min": 4}


class Atom:
    """What a polynomial treats as one unknown: op is var (args: name, kind), floordiv, mod (two Expr), max or min (n
    Expr)."""

    __slots__ = ("op", "args", "key", "_vars", "__weakref__")

    def __init__(self, op: str, args: tuple):
        self.op, self.args = op, args
        self.key = (_RANK[op], _natural(args[0] if op == "var" else ",".join(map(str, args))), str(args[1]))
        self._vars = None

    def __reduce__(self) -> tuple:
        return _atom, (self.op, *self.args)  # equal atoms are one object: its hash is the object's

    @property
    def name(self) -> str:
        return self.args[0]

    def variables(self) -> frozenset:
        if self._vars is None:
            self._vars = frozenset((self,)) if self.op == "var" else frozenset().union(*(a.free_atoms() for a in self.args))
        return self._vars

    def __str__(self) -> str:
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
        self.terms = terms  # ((monomial, coefficient), ...) sorted, no zero coefficient
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
        coeffs: dict[Any, ExprLike] = {v: 0 for v in wanted.values()}
        rest = self
        for atom, v in wanted.items():
            factor = self.coeff(from_atom(atom))
            coeffs[v] = factor
            rest = rest - factor * from_atom(atom)
            if factor.free_atoms() & wanted.keys():
                return None
        return None if rest.free_atoms() & wanted.keys() else (coeffs, rest)

    # -- arithmetic --------------------------------------------------------------------------------------------------
    def __add__(self, other: Any) -> Expr:
        return _sum(self, other) if isinstance(other, (Expr, int)) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Expr:
        return _scale(self, -1)

    def __sub__(self, other: Any) -> Expr:
        return _sum(self, -other) if isinstance(other, (Expr, int)) else NotImplemented

    def __rsub__(self, other: int) -> Expr:
        return _sum(-self, other) if isinstance(other, int) else NotImplemented

    def __mul__(self, other: Any) -> Expr:
        if isinstance(other, int):
            return _scale(self, int(other))
        return _product(self, other) if isinstance(other, Expr) else NotImplemented

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Expr:
        if not isinstance(power, int) or power < 0:
            raise ValueError(f"({self})**{power}: the exponent of an index expression is an int >= 0")
        return reduce(lambda a, _: a * self, range(power), const(1))

    def __floordiv__(self, other: Any) -> Expr:
        return floordiv(self, other) if isinstance(other, (Expr, int)) else NotImplemented

    def __rfloordiv__(self, other: int) -> Expr:
        return floordiv(const(other), self) if isinstance(other, int) else NotImplemented

    def __mod__(self, other: Any) -> Expr:
        return mod(self, other) if isinstance(other, (Expr, int)) else NotImplemented

    def __rmod__(self, other: int) -> Expr:
        return mod(const(other), self) if isinstance(other, int) else NotImplemented

    # -- identity ----------------------------------------------------------------------------------------------------
    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: Any) -> bool:
        if self is other:
            return True
        if isinstance(other, int):
            return self.is_const and self.value == other
        return isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms

    def __index__(self) -> int:
        return self.value

    __int__ = __index__

    def __bool__(self) -> bool:
        if self.is_const:
            return self.value != 0
        raise TypeError(f"the truth of {self} is not known; compare explicitly")

    def __reduce__(self) -> tuple:
        return from_tuple, (self.to_tuple(),)

    # -- use ---------------------------------------------------------------------------------------------------------
    def substitute(self, mapping: Mapping) -> Expr:
        """Replace variables (keys: Expr or name) by expressions or ints."""
        table = {(k.atom if isinstance(k, Expr) else k): v for k, v in mapping.items()}
        return _substitute(self, lambda atom: table.get(atom, table.get(atom.name)))

    def evaluate(self, env: Mapping[str, Any]) -> Any:
        """The value under names -> ints (or numpy int arrays, or anything with these operators)."""
        total: Any = 0
        for m, c in self.terms:
            product = c
            for atom, power in m:
                product = _atom_value(atom, env) ** power * product if power > 1 else _times(product, _atom_value(atom, env))
            total = product if isinstance(total, int) and total == 0 else total + product
        return total

    def to_tuple(self) -> int | tuple:
        """Plain nested tuples, storable and hashable; `from_tuple` reads them back."""
        if self.is_const:
            return self.value
        return tuple(
            (tuple((a.op, a.args if a.op == "var" else tuple(map(to_tuple, a.args)), p) for a, p in m), c) for m, c in self.terms
        )

    def __str__(self) -> str:
        return _render(self, str)

    def cpp(self, bounds: Any = None) -> str:
        """C text over int64 names. A division whose operands `bounds` prove >= 0 is C's own, any other calls
        fb_floordiv/fb_mod (Python's meaning); fb_max and fb_min are two-place."""
        return _render(self, lambda atom: _atom_cpp(atom, bounds))

    def __repr__(self) -> str:
        return str(self)


# -- construction ---------------------------------------------------------------------------------------------------


class _Known(Generic[Kind]):
    """The one object for each key, as long as somebody holds it. As weakref.WeakValueDictionary, which calls Python for each
    object that dies (a twentieth of all passes' time); here dead ones are swept when the table has doubled."""

    def __init__(self, kind: Callable[..., Kind]):
        self.kind, self.sweep_at = kind, 4096
        self.table: dict[tuple, Callable[[], Kind | None]] = {}
        self.lock = locks.fresh(threading.RLock)

    def add(self, key: tuple, *parts: Any) -> Kind:
        with self.lock:
            found = self.table.get(key, _nothing)()  # another thread's
            if found is None:
                found = self.kind(*parts)
                self.table[key] = weakref.ref(found)
                if len(self.table) > self.sweep_at:
                    self.sweep()
            return found

    def sweep(self) -> None:
        for key, reference in list(self.table.items()):
            if reference() is None:
                del self.table[key]
        self.sweep_at = 2 * len(self.table) + 4096


_known_exprs, _known_atoms = _Known(Expr), _Known(Atom)
_alive_expr, _alive_atom = _known_exprs.table.get, _known_atoms.table.get


def _nothing() -> None:
    """As a weak reference to what is dead."""


def _make(terms: tuple) -> Expr:
    found = _alive_expr(terms, _nothing)()
    return _known_exprs.add(terms, terms) if found is None else found


def _atom(op: str, *args: Any) -> Atom:
    found = _alive_atom((op, args), _nothing)()
    return _known_atoms.add((op, args), op, args) if found is None else found


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


def int_if_const(e: ExprLike) -> ExprLike:
    """The same value, as an int where it is constant."""
    return e.value if isinstance(e, Expr) and e.is_const else e


def from_atom(atom: Atom) -> Expr:
    return _make(((((atom, 1),), 1),))


def _natural(text: str) -> tuple:
    """A sort key that puts s2 before s10."""
    return tuple((0, int(p)) if p.isdigit() else (1, p) for p in re.split(r"(\d+)", text) if p)


def _term_order(term: tuple) -> tuple:
    monomial = term[0]
    if len(monomial) == 1:
        ((atom, power),) = monomial
        return -power, ((atom.key, power),)
    return -sum([p for _, p in monomial]), tuple([(a.key, p) for a, p in monomial])


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
    more = b.terms if isinstance(b, Expr) else (((), int(b)),) if b else ()
    if not more:
        return a
    if not a.terms:
        return lift(b)
    table = dict(a.terms)
    for m, c in more:
        table[m] = table.get(m, 0) + c
    return _from_table(table)


def _scale(a: Expr, n: int) -> Expr:
    return a if n == 1 else _make(tuple([(m, c * n) for m, c in a.terms])) if n else _make(())


def _product(a: Expr, b: Expr) -> Expr:
    for factor, other in ((b, a), (a, b)):
        if factor.is_const:
            return _scale(other, factor.value)
    return _poly((_multiply_monomials(m, n), c * d) for m, c in a.terms for n, d in b.terms)


def _multiply_monomials(m: Monomial, n: Monomial) -> Monomial:
    if not m or not n:
        return m or n
    if len(m) == len(n) == 1 and m[0][0] is not n[0][0]:
        return (*m, *n) if m[0][0].key <= n[0][0].key else (*n, *m)
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


def _variable(e: Expr, v: Any) -> Atom:
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
    if len(d.terms) != 1:
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
        if by.is_const:  # floor(floor(x / b) / n) is floor(x / (b*n)) for n > 0
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

    def inner(atom: Atom) -> Expr | None:
        if atom.op == "mod" and atom.args[1].is_const and atom.args[1].value % n == 0:
            return atom.args[0]
        return None

    if not any(_single(m, "mod") and inner(m[0][0]) is not None for m, _ in rest.terms):
        return rest
    parts = (inner(m[0][0]) * c if _single(m, "mod") and inner(m[0][0]) is not None else _make(((m, c),)) for m, c in rest.terms)
    return reduce(_sum, parts, const(0))


def exact_divide(a: ExprLike, d: ExprLike) -> Expr | None:
    """a/d when d divides a as a polynomial, else None."""
    rest, d = lift(a), lift(d)
    if d == 0:
        return None
    lead, n = d.terms[0]
    quotient = const(0)
    for _ in range(8 * (len(rest.terms) + 1)):
        if not rest.terms:
            return quotient
        m, c = rest.terms[0]
        q = _divide_monomial(m, lead)
        if q is None or c % n:
            return None
        step = _make(((q, c // n),))
        quotient, rest = quotient + step, rest - step * d
    return None


# -- max and min ----------------------------------------------------------------------------------------------------


def maximum(*args: ExprLike) -> Expr:
    return _extreme("max", args)


def minimum(*args: ExprLike) -> Expr:
    return _extreme("min", args)


def _extreme(op: str, args: Any) -> Expr:
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
            return kept[:k] + [a if a_wins else b] + kept[k + 1 :]
    return kept + [a]


# -- helpers that take ints as well ---------------------------------------------------------------------------------


def is_const(e: ExprLike) -> bool:
    return not isinstance(e, Expr) or e.is_const


def free_vars(e: ExprLike) -> frozenset:
    return e.free_vars() if isinstance(e, Expr) else frozenset()


def substitute(e: ExprLike, mapping: Mapping) -> ExprLike:
    return e.substitute(mapping) if isinstance(e, Expr) else e


def evaluate(e: ExprLike, env: Mapping[str, object]) -> Any:
    return e.evaluate(env) if isinstance(e, Expr) else e


def cpp(e: ExprLike, bounds: Any = None) -> str:
    return lift(e).cpp(bounds)


def to_tuple(e: ExprLike) -> int | tuple:
    return e.to_tuple() if isinstance(e, Expr) else e


def product(items: Iterable[ExprLike]) -> ExprLike:
    return reduce(lambda a, b: a * b, items, 1)


def from_tuple(stored: Any) -> Expr:
    if isinstance(stored, int):
        return const(stored)
    return _poly((tuple((_stored_atom(op, args), p) for op, args, p in m), c) for m, c in stored)


def _stored_atom(op: str, args: tuple) -> Atom:
    return _atom(op, *(args if op == "var" else map(from_tuple, args)))


def _substitute(e: Expr, find: Callable) -> Expr:
    """Rebuild with find(variable atom) -> replacement or None."""
    if not any(find(a) is not None for a in e.free_atoms()):
        return e
    return with_atoms(e, lambda atom: rebuild(atom, find))


def with_atoms(e: Expr, change: Callable[[Atom], Expr]) -> Expr:
    """The sum of e's terms with each atom replaced by change(atom)."""
    total = const(0)
    for m, c in e.terms:
        piece = const(c)
        for atom, power in m:
            piece = piece * change(atom) ** power
        total = total + piece
    return total


def rebuild(atom: Atom, find: Callable) -> Expr:
    if atom.op == "var":
        found = find(atom)
        return from_atom(atom) if found is None else lift(found)
    return _APPLY[atom.op](*(_substitute(a, find) for a in atom.args))


_APPLY = {"floordiv": floordiv, "mod": mod, "max": maximum, "min": minimum}


def _times(a: int, b: Any) -> Any:
    return b if isinstance(a, int) and a == 1 else b * a


def _atom_value(atom: Atom, env: Any) -> Any:
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


def _value_max(a: Any, b: int) -> Any:
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else _ask(a, b, "max")


def _value_min(a: int, b: int) -> int:
    return np.minimum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else _ask(a, b, "min")


def _ask(a: int, b: int, op: str) -> int:
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


def _atom_cpp(atom: Atom, bounds: Any) -> str:
    if atom.op == "var":
        return atom.name
    args = [a.cpp(bounds) for a in atom.args]
    if atom.op in ("max", "min"):
        return reduce(lambda a, b: f"fb_{atom.op}({a}, {b})", args)
    a, d = atom.args
    if bounds is not None and bounds.nonnegative(a) and bounds.nonnegative(d - 1):
        return f"(({args[0]}) {'/' if atom.op == 'floordiv' else '%'} ({args[1]}))"
    return f"fb_{atom.op}({args[0]}, {args[1]})"
