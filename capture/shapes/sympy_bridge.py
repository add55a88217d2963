"""Index expressions as sympy expressions and back: the one module that imports sympy, and is itself imported when needed.

In: an expression of expr.py, a relation, or the tree of a symbolic float. Out: the same as sympy writes it, over integer symbols
with the assumptions of their kinds, and polynomials' signs as sympy decides them. The idea: passes compute with expr.py, whose
canonical form answers at once; people, solvers and lambdify get sympy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import sympy

from . import expr as E
from .expr import Atom, Expr, ExprLike
from .value_ranges import INF, Bounds

ASSUMED = {"size": {"positive": True}, "unbacked": {"nonnegative": True}, "index": {"nonnegative": True}, "int": {}}


class _Division(sympy.Function):
    """Of two integers; written as Python writes it, and Python's operator is what lambdify calls. `as_floor`: what it
    means in sympy's own functions; `by_one`: of a divisor of 1."""

    nargs = 2
    is_integer = True
    sign = ""
    as_floor: Callable  # (a, d) -> the same by `floor`
    by_one: Callable  # (a) -> of a by 1

    @classmethod
    def eval(cls, a: Any, d: Any) -> Any:
        if d.is_zero:
            raise ZeroDivisionError(f"({a}) {cls.sign} 0")
        if a.is_number and d.is_number:
            return cls.as_floor(a, d)
        return sympy.S.Zero if a.is_zero else cls.by_one(a) if d == 1 else None

    def _eval_rewrite_as_floor(self, a: Any, d: Any, **_: Any) -> Any:
        return self.as_floor(a, d)

    def _eval_is_nonnegative(self) -> bool | None:
        a, d = self.args
        return True if d.is_positive and (a.is_nonnegative or self.sign == "%") else None

    def _sympystr(self, printer: Any) -> str:
        sides = (text if a.is_Atom else f"({text})" for a in self.args for text in [printer.doprint(a)])
        return f"({self.sign.join(sides)})"

    def _code(self, printer: Any) -> str:
        """In brackets: lambdify would print a class of this name as sympy's own, whose precedence it knows."""
        a, d = (printer._print(x) for x in self.args)
        return f"(({a}) {self.sign} ({d}))"

    _lambdacode = _pythoncode = _numpycode = _code


class FloorDiv(_Division):
    """floor(a / d)."""

    sign = "//"
    _imp_ = staticmethod(operator.floordiv)
    as_floor = staticmethod(lambda a, d: sympy.floor(a / d))
    by_one = staticmethod(lambda a: a)


class Mod(_Division):
    """a - d*floor(a / d), with the sign of d. sympy's own takes factors out of products that hold another Mod, and `subs` then
    gives other numbers; `rewrite(sympy.Mod)` gives it."""

    sign = "%"
    _imp_ = staticmethod(operator.mod)
    as_floor = staticmethod(lambda a, d: a - d * sympy.floor(a / d))
    by_one = staticmethod(lambda a: sympy.S.Zero)

    def _eval_rewrite_as_Mod(self, a: Any, d: Any, **_: Any) -> Any:
        return sympy.Mod(a, d)


# -- expressions to sympy -------------------------------------------------------------------------------------------


def symbol(name: str, kind: str = "size") -> sympy.Symbol:
    """The same symbol for the same name and kind, whatever is learned of it later."""
    return sympy.Symbol(name, integer=True, **ASSUMED[kind])


def to_sympy(e: ExprLike) -> sympy.Expr:
    """The same value over integer symbols."""
    if not isinstance(e, Expr):
        return sympy.Integer(e)
    return sympy.Add(*(sympy.Mul(c, *(_atom(a) ** p for a, p in m)) for m, c in e.terms))


def _atom(atom: Atom) -> sympy.Expr:
    return symbol(*atom.args) if atom.op == "var" else TO_SYMPY[atom.op](*map(to_sympy, atom.args))


TO_SYMPY: dict[str, Callable] = {"floordiv": FloorDiv, "mod": Mod, "max": sympy.Max, "min": sympy.Min}
RELATIONS = {"==": sympy.Eq, "!=": sympy.Ne, "<": sympy.Lt, "<=": sympy.Le}


def relation(op: str, lhs: ExprLike, rhs: ExprLike) -> sympy.Basic:
    """`lhs op rhs`; true or false where the symbols' kinds decide."""
    return RELATIONS[op](to_sympy(lhs), to_sympy(rhs))


FLOATS: dict[str, Callable] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": lambda a, b: sympy.floor(a / b),
    "mod": sympy.Mod,
    "pow": operator.pow,
    "neg": operator.neg,
    "abs": sympy.Abs,
    **{name: getattr(sympy, name) for name in ("sqrt", "exp", "log", "sin", "cos", "tanh")},
}


def float_tree(tree: tuple) -> sympy.Expr:
    """A symbolic float as a real number: sympy knows nothing of its roundings."""
    kind, *parts = tree
    if kind == "var":
        return sympy.Symbol(parts[0], real=True)
    if kind == "int":
        return to_sympy(parts[0])
    return sympy.sympify(parts[0]) if kind == "const" else FLOATS[kind](*map(float_tree, parts))


# -- sympy to expressions -------------------------------------------------------------------------------------------


def from_sympy(s: sympy.Basic | int, known: Iterable[Expr] = ()) -> Expr:
    """The canonical expression of the same value; symbols are `known` variables by their names, others variables of the kind that
    their assumptions say. What is no polynomial over //, %, max and min with integer coefficients raises ValueError."""
    return _from(sympy.sympify(s), {v.name: v for v in known})


def _from(s: sympy.Basic, known: Mapping[str, Expr]) -> Expr:
    if isinstance(s, sympy.Symbol):
        return known[s.name] if s.name in known else E.var(s.name, _kind(s))
    if isinstance(s, sympy.Integer):
        return E.const(int(s))
    if isinstance(s, sympy.Pow) and s.exp.is_Integer and s.exp >= 0:
        return _from(s.base, known) ** int(s.exp)
    if isinstance(s, (sympy.floor, sympy.ceiling)):
        sign = 1 if isinstance(s, sympy.floor) else -1
        above, below = sympy.fraction(sympy.together(sign * s.args[0]))
        return E.floordiv(_from(above, known), _from(below, known)) * sign
    for kind, compute in FROM_SYMPY.items():
        if isinstance(s, kind):
            return compute(*(_from(a, known) for a in s.args))
    raise ValueError(f"{s} is no integer expression of + - * // % max and min: {type(s).__name__} {s.func}")


FROM_SYMPY: dict[type, Callable] = {
    sympy.Add: lambda *parts: reduce(operator.add, parts),
    sympy.Mul: lambda *parts: reduce(operator.mul, parts),
    FloorDiv: E.floordiv,
    Mod: E.mod,
    sympy.Mod: E.mod,
    sympy.Max: E.maximum,
    sympy.Min: E.minimum,
}


def _kind(s: sympy.Symbol) -> str:
    return "size" if s.is_positive else "index" if s.is_nonnegative else "int"


# -- signs of polynomials -------------------------------------------------------------------------------------------

HIGHEST = 6  # degree of a polynomial that is factored


def nonnegative(e: Expr, bounds: Bounds) -> bool:
    """Whether a polynomial is >= 0 for all integers within the bounds: by real roots (one variable), or by signs of factors."""
    if any(sum(power for _, power in m) > HIGHEST for m, _ in e.terms):
        return False
    atoms = sorted(e.free_atoms(), key=lambda a: a.key)
    if e.is_const:
        return e.value >= 0
    if len(atoms) == 1:
        return _nonnegative_between(e, *bounds.interval_atom(atoms[0]))
    found: Any = sympy.factor_list(to_sympy(e))
    constant, factors = found
    sign = 1 if constant > 0 else -1
    known = [E.from_atom(a) for a in atoms]
    for factor, power in factors:
        part = from_sympy(factor, known)
        if power % 2 == 0 or bounds.nonnegative(part):
            continue
        if not bounds.nonnegative(-part):
            return False
        sign = -sign
    return sign > 0


def _nonnegative_between(e: Expr, low: float, high: float) -> bool:
    """The sign changes at roots only: it is enough to look at the ends, and at the integers beside each root."""
    points = {0} | {int(end) for end in (low, high) if abs(end) < INF}
    points |= {below + d for below in floors_of_roots(e) for d in (-1, 0, 1)}
    return all(e.evaluate(dict.fromkeys(e.free_names(), x)) >= 0 for x in points if low <= x <= high)


def floors_of_roots(e: Expr) -> set[int]:
    """floor(x) for each real root x of a polynomial of one variable that is no constant."""
    (atom,) = e.free_atoms()
    return {int(sympy.floor(root)) for root in sympy.Poly(to_sympy(e), symbol(*atom.args)).real_roots()}
