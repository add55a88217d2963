"""Symbolic sizes: SymInt, SymBool, SymFloat and the ShapeEnv that knows their hints, ranges and guards.

In: hints and source names of inputs; what Python and the meta rules ask. Out: sizes that compute, and `env.guards`,
the facts that answers relied on. The idea: an answer comes from proof when the known facts decide, else from the hint
and becomes a guard (or, for an unbacked symbol, which has no hint, a graph break).
"""

from __future__ import annotations

import contextlib
import math
import operator
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...eager import sizes
from ...runtime.dataclass import data
from ...runtime.errors import CheckFailed, Unsupported
from . import expr as E
from .value_ranges import INF, Bounds
from .expr import Expr, ExprLike
from .float_ranges import finite, float_range
from .relations import COMPARE, ShapeGuard, Relation, fits

OWN_CODE = "0 and 1 have code of their own"
PROVING = 1.0  # seconds of one capture after which nothing more is proved


@data
class Symbol:
    """One symbol: where the call finds it, and the value it had at capture (None: unbacked)."""

    name: str
    hint: int | float | None
    kind: str  # size | int | unbacked | float
    sources: list


class ShapeEnv:
    """The symbols of one capture, what is known of them, and the guards recorded so far."""

    def __init__(self, where: Callable[[], tuple] = tuple):
        self.symbols: dict[str, Symbol] = {}
        self.guards: list[ShapeGuard] = []
        self.specialised_floats: dict[str, float] = {}
        self.float_guards: dict[FloatComparison, tuple] = {}  # comparison -> the user's stack
        self.where = where  # gives the user's stack
        self.relies: Callable | None = None  # told of numbers that must be known to read a text, or under a key
        self._sealed = False
        self.assumed: list[Relation] = []  # of numbers that only the data knows: checked when it is known
        self.assumes = False  # whether library code asks, which takes them for sizes and indices
        self._ranges: dict[str, tuple] = {}
        self._facts: list[tuple[str, Expr]] = []
        self._replaced: dict[str, Expr] = {}
        self._duck: dict[int, str] = {}
        self.places: dict[str, str] = {}  # name of a source -> the symbol that is read there, whatever it equals now
        self._bounds = Bounds()
        self.proving = 0.0  # seconds spent on proofs so far
        self._unproved: dict[tuple, int] = {}  # what was tried -> how many facts there were

    # -- symbols -----------------------------------------------------------------------------------------------------
    def create_symbol(self, hint: int, source_name: str, duck: bool = True, kind: str = "size") -> SymInt | int:
        """A symbol for a size (or an int argument, kind="int") seen as `hint`; sizes 0 and 1 stay ints. With `duck` an equal
        hint shares the symbol: its second source is then bound to the same symbol, which guards their equality."""
        if hint in (0, 1) and kind == "size":
            return hint
        if duck and hint in self._duck:
            name = self._duck[hint]
            self.symbols[name].sources.append(source_name)
            self.places[source_name] = name
            return self.wrap(E.var(name, self.symbols[name].kind))
        name = self._new("s", hint, "size" if hint > 1 else kind, source_name)
        if duck:
            self._duck[hint] = name
        self.places[source_name] = name
        symbol = E.var(name, self.symbols[name].kind)
        if hint > 1:
            self.guards.append(ShapeGuard(Relation("<=", E.const(2), symbol), self.where(), f"{source_name}: {OWN_CODE}"))
        return self.wrap(symbol)

    def limit(self, size: SymInt, low: int | None, high: int | None, reason: str) -> None:
        """Guard the size to lie in [low, high], and rely on it."""
        for relation in ([] if low is None else [Relation("<=", E.const(low), size.expr)]) + (
            [] if high is None else [Relation("<=", size.expr, E.const(high))]
        ):
            if self.known(relation) is None:
                self.guards.append(ShapeGuard(relation, self.where(), reason))
                self.learn(relation)

    def create_unbacked(self, source_name: str = "data", kind: str = "unbacked") -> SymInt | SymFloat:
        """A number that only the data knows, without a hint. kind: "unbacked" (a size, in [0, inf)), "int" or "float"."""
        name = self._new("f" if kind == "float" else "u", None, kind, source_name)
        return SymFloat(self, ("var", name)) if kind == "float" else SymInt(self, E.var(name, kind))

    def create_float(self, hint: float, source_name: str) -> SymFloat:
        name = self._new("f", float(hint), "float", source_name)
        return SymFloat(self, ("var", name))

    def compare_floats(self, compute: Callable, a: SymFloat, b: Any) -> bool:
        """Answered from the hints. Where one symbolic float decides, that answer is guarded; else all are settled."""
        left, right = _tree(a), _tree(b)
        first, second = _ratio(self, left), _ratio(self, right)
        if first is not None and second is not None:
            (n, d), (m, e) = first, second
            return bool(compute(n * e, m * d))
        if all(finite(self, t) or t[0] == "const" and t[1] == t[1] for t in (left, right)):
            answer = _ORDERED[compute](*float_range(self, left), *float_range(self, right))
            if answer is not None:
                return answer
        names = {*_tree_names(left), *_tree_names(right)}
        if any(self.symbols[n].hint is None for n in names):
            raise _unknown(f"a comparison of {_tree_text(left)} with {_tree_text(right)}")
        floats = {n for n in names if self.symbols[n].kind == "float"} - self.specialised_floats.keys()
        if len(floats) != 1 or len(names) != 1:
            return compute(_specialise_tree(self, left), _specialise_tree(self, right))
        hints = {n: self.symbols[n].hint for n in names}
        answer = compute(_evaluate_tree(left, hints), _evaluate_tree(right, hints))
        made = FloatComparison(compute, left, right, answer)
        if made not in self.float_guards:
            if self._sealed:
                raise Unsupported(
                    "late guard", f"{made} is asked after the guards of this code were made", "pass the number as a tensor"
                )
            self.float_guards[made] = self.where()
        return answer

    def _new(self, letter: str, hint: Any, kind: str, source_name: str) -> str:
        name = f"{letter}{sum(n.startswith(letter) for n in self.symbols)}"
        self.symbols[name] = Symbol(name, hint, kind, [source_name])
        return name

    def wrap(self, e: ExprLike) -> SymInt | int:
        """A size with this value: an int where it is constant."""
        e = E.int_if_const(self.canonical(E.lift(e)))
        return e if isinstance(e, int) else SymInt(self, e)

    def sym(self, name: str) -> SymInt | int:
        return self.wrap(E.var(name, self.symbols[name].kind))

    @contextlib.contextmanager
    def sealed(self) -> Iterator[Any]:
        """For code compiled later under the guards there are: a question that would need a new one raises Unsupported."""
        before, self._sealed = self._sealed, True
        try:
            yield self
        finally:
            self._sealed = before

    # -- knowledge ---------------------------------------------------------------------------------------------------
    def canonical(self, e: Expr) -> Expr:
        """`e` with what is known to be equal put in."""
        if self._replaced and not self._replaced.keys().isdisjoint(e.free_names()):
            return e.substitute(self._replaced)
        return e

    @property
    def solved(self) -> int:
        """How many symbols are expressed by others, or are numbers, by now."""
        return len(self._replaced)

    def bounds(self) -> Bounds:
        return self._bounds

    def hints(self) -> dict[str, int | float]:
        return {s.name: s.hint for s in self.symbols.values() if s.hint is not None}

    def examples(self) -> dict[str, int | float]:
        """Hints, and for symbols that only the data knows a number that meets what was assumed of them."""
        unbacked = [s.name for s in self.symbols.values() if s.hint is None]
        for number in (8, 4, 2, 1, 0):
            found = self.hints() | dict.fromkeys(unbacked, number)
            with contextlib.suppress(CheckFailed):
                self.check_assumed(found)
                break
        return found

    def hint_of(self, e: ExprLike) -> int | None:
        """The value at capture; None when an unbacked symbol is in it."""
        if isinstance(e, int):
            return e
        known = self.hints()
        return e.evaluate(known) if e.free_names() <= known.keys() else None

    def known(self, relation: Relation) -> bool | None:
        """What the facts decide about a relation, without a new guard."""
        op, e = relation.fact()
        e = self.canonical(e)
        if op == ">=":
            return True if self._nonnegative(e) else False if self._nonnegative(-e - 1) else None
        zero = self._zero(e)
        return zero if op == "==" or zero is None else not zero

    def _nonnegative(self, e: Expr) -> bool:
        if self._bounds.nonnegative(e):
            return True
        return any(op == ">=" and self._bounds.nonnegative(e - fact) for op, fact in self._facts)

    def _zero(self, e: Expr) -> bool | None:
        if e.is_const:
            return e.value == 0
        if ("!=", e) in self._facts or ("!=", -e) in self._facts or self._nonnegative(e - 1) or self._nonnegative(-e - 1):
            return False
        return True if ("==", e) in self._facts or ("==", -e) in self._facts else None

    def decide(self, relation: Relation, reason: str = "") -> bool:
        """Whether the relation holds: by proof, else by the hints under a new guard, else a graph break."""
        known = self.known(relation)
        if known is None:
            known = self.proved(relation)
        if known is not None:
            return known
        if self.hint_of(relation.lhs) is None or self.hint_of(relation.rhs) is None:
            return self._assume(relation)
        if self._sealed:
            raise Unsupported(
                "late guard",
                f"{relation} is asked after the guards of this code were made",
                "call the function once with these sizes before it is compiled",
            )
        if not fits(relation, self.hints()):
            return self._settle(relation)
        answer = relation.evaluate(self.hints())
        held = relation if answer else relation.negated()
        self.guards.append(ShapeGuard(held, self.where(), reason))
        self.learn(held)
        return answer

    def proved(self, relation: Relation) -> bool | None:
        """What holds for all sizes though bounds do not show it, within a budget of time; then it is a fact from now on."""
        from . import proofs

        op, e = relation.fact()
        e = self.canonical(e)
        if not proofs.is_worth_proving(e) or self.proving > PROVING or self._unproved.get((op, e)) == len(self._facts):
            return None
        start = time.perf_counter()
        answer = proofs.proved(op, e, self._bounds, self._facts, self.hints())
        self.proving += time.perf_counter() - start
        if answer is None:
            self._unproved[op, e] = len(self._facts)
        else:
            self.learn(relation if answer else relation.negated())
        return answer

    def _assume(self, relation: Relation) -> bool:
        """What library code asks of a number that only the data knows, it asks to refuse it: the number is taken to be no less
        than 0, no greater than what it is compared with, and equal to a size that it is compared with. The call checks that,
        and leaves other numbers to eager."""
        names = [n for n in relation.free_names() if self.symbols[n].hint is None and self.symbols[n].kind != "float"]
        if self._sealed or not self.assumes or len(names) != 1:
            raise _unknown(f"whether {relation}")
        number = E.var(names[0], self.symbols[names[0]].kind)
        for made in (Relation("<=", E.const(0), number), upper_bound(relation, number), self.same_size(relation, number)):
            if made is not None and self.known(made) is None:
                self.assumed.append(made)
                self.learn(made)
                if (answer := self.known(relation)) is not None:
                    return answer
        raise _unknown(f"whether {relation}")

    def same_size(self, relation: Relation, number: Expr) -> Relation | None:
        """From a comparison with a size of at least 2, which does not broadcast: the equality."""
        if relation.op not in ("==", "!=") or number not in (relation.lhs, relation.rhs):
            return None
        other = relation.rhs if relation.lhs == number else relation.lhs
        hint = self.hint_of(other)
        return Relation("==", number, other) if hint is not None and hint > 1 else None

    def assume_size(self, size: SymInt) -> None:
        """A number that only the data knows has become the size of a tensor: checked not to be negative."""
        made = Relation("<=", E.const(0), size.expr)
        if self.known(made) is None and not self._sealed:
            self.assumed.append(made)
            self.learn(made)

    def check_assumed(self, symbols: Mapping) -> None:
        """Raise CheckFailed unless what was assumed holds for these values, as far as they are known."""
        for relation in self.assumed:
            now = Relation(relation.op, self.canonical(relation.lhs), self.canonical(relation.rhs))
            if now.free_names() <= symbols.keys() and not now.evaluate(symbols):
                raise CheckFailed(f"{relation} was assumed, and does not hold for {dict(symbols)}")

    def _settle(self, relation: Relation) -> bool:
        """Numbers so large that a guard could not compute: the symbols become what they are now."""
        for name in relation.free_names():
            self.specialise(E.var(name, self.symbols[name].kind), "a number beyond 64 bits")
        return relation.evaluate(self.hints())

    def learn(self, relation: Relation) -> None:
        """Take a relation as a fact (guards do; `torch._check` on unbacked sizes may)."""
        op, e = relation.fact()
        e = self.canonical(e)
        self._facts.append((op, e))
        if op == "==":
            self._solve(e)
        elif op == ">=":
            self._tighten(e)

    def _solve(self, e: Expr) -> None:
        """From e == 0: a symbol that stands alone in it becomes the rest; unbacked ones first, then the newest."""
        order = {name: k for k, name in enumerate(self.symbols)}
        common = math.gcd(*(c for _, c in e.terms))
        e = E.lift(e // common) if common > 1 else e
        for atom in sorted(e.free_atoms(), key=lambda a: (a.args[1] != "unbacked", -order.get(a.name, 0))):
            factor = e.coeff(atom)
            rest = e - factor * E.from_atom(atom)
            if factor.is_const and abs(factor.value) == 1 and atom not in rest.free_atoms():
                return self._replace(atom.name, rest * -factor.value)
        names, growing = e.free_names(), {c > 0 for m, c in e.terms if m}
        if len(names) == 1 and len(growing) == 1 and all(a.op == "var" for m, _ in e.terms for a, _power in m):
            (name,) = names
            hint = self.symbols[name].hint
            if hint is not None and self._bounds.nonnegative(E.var(name, self.symbols[name].kind)):
                self._replace(name, E.const(int(hint)))  # it grows: there is one solution

    def _replace(self, name: str, value: Expr) -> None:
        low, high = self._bounds.interval(E.var(name, self.symbols[name].kind))
        self._facts += [(">=", value - low)] if low > -INF else []
        self._facts += [(">=", high - value)] if high < INF else []
        self._replaced = {n: e.substitute({name: value}) for n, e in self._replaced.items()} | {name: value}
        self._facts = [(op, e.substitute({name: value})) for op, e in self._facts]

    def _tighten(self, e: Expr) -> None:
        """From e >= 0 with one symbol, alone: its range."""
        if len(e.free_atoms()) != 1:
            return
        (atom,) = e.free_atoms()
        factor = e.coeff(atom)
        rest = e - factor * E.from_atom(atom)
        if not (factor.is_const and rest.is_const and factor.value):
            return
        low, high = self._ranges.get(atom.name, (E.KINDS[atom.args[1]], None))
        if factor.value > 0:
            end = -(rest.value // factor.value)
            low = end if low is None else max(low, end)
        else:
            end = rest.value // -factor.value
            high = end if high is None else min(high, end)
        self._ranges[atom.name] = (low, high)
        self._bounds = Bounds(self._ranges)

    def as_size(self, size: SymInt) -> SymInt | int:
        """A number that has become the size of a dimension. As for the sizes of inputs, 0 and 1 have code of their own; those
        that only the data knows stay open, as do all where no guard may be added."""
        e = self.canonical(size.expr)
        if e.is_const:
            return e.value
        low, _ = self._bounds.interval(e)
        if low >= 2 or self._sealed or self.hint_of(e) is None:
            return size
        if self.decide(Relation("<=", E.const(2), e), f"a size: {OWN_CODE}"):
            return size
        return self.specialise(e, f"a size: {OWN_CODE}")

    def specialise(self, e: Expr, reason: str) -> int:
        """The value as a plain int, under a guard that it stays that."""
        e = self.canonical(e)
        if e.is_const:
            return e.value
        hint = self.hint_of(e)
        if hint is None:
            raise _unknown(f"{reason} of {e}")
        self.decide(Relation("==", e, E.const(hint)), reason)
        return hint


def upper_bound(relation: Relation, number: Expr) -> Relation | None:
    """From a comparison of a number with others: the bound that it should keep."""
    if relation.op in ("==", "!="):
        return None
    (atom,) = number.free_atoms()
    for asked in (relation, relation.negated()):
        e = asked.fact()[1]
        if e.coeff(atom) == E.const(-1) and atom not in (e + number).free_atoms():
            return asked
    return None


def _unknown(what: str) -> Unsupported:
    return Unsupported(
        "data-dependent size",
        f"{what}: only the data knows",
        "keep the number symbolic, or move the question out of the compiled function",
    )


def _node(value: Any, pytype: type, convert: str, *parts: Any) -> Any:
    from .sym_node import SymNode

    return SymNode(value, pytype, convert, *parts)


# -- the three symbolic values --------------------------------------------------------------------------------------


def _relation(op: str, turned: bool = False) -> Callable:
    def compare(self: Any, other: Any) -> Any:
        if isinstance(other, (float, SymFloat)):
            return COMPARE[op](*((other, self.as_float()) if turned else (self.as_float(), other)))
        if not isinstance(other, (int, SymInt)):
            return NotImplemented
        sides = (self.expr, _expr(other))
        relation = Relation(op, *(sides[::-1] if turned else sides))
        known = self.env.known(relation)
        return SymBool(self.env, relation) if known is None else known

    return compare


def _arithmetic(compute: Callable, name: str, turned: bool = False) -> Callable:
    def method(self: Any, other: Any) -> Any:
        if isinstance(other, (float, SymFloat)):
            a, b = self.as_float(), other
            return self.env_float(name, b, a) if turned else self.env_float(name, a, b)
        if isinstance(other, Expr):  # an index expression of the loop IR: stays one
            return compute(other, self.expr) if turned else compute(self.expr, other)
        if not isinstance(other, (int, SymInt)):
            return NotImplemented
        a, b = (_expr(other), self.expr) if turned else (self.expr, _expr(other))
        if name in ("floordiv", "mod") and self.env.decide(Relation("==", b, E.const(0)), "a divisor"):
            raise ZeroDivisionError("integer division or modulo by zero")
        return self.env.wrap(compute(a, b))

    return method


def _expr(size: Any) -> Expr:
    return size.expr if isinstance(size, SymInt) else E.const(int(size))


def expr_of(size: Any) -> ExprLike:
    """The Expr of a SymInt; an int is itself."""
    return E.int_if_const(size.expr) if isinstance(size, SymInt) else size


def hint_of(size: Any) -> Any:
    """The value at capture of an int, SymInt or SymFloat (None: unbacked)."""
    return size.hint if isinstance(size, (SymInt, SymFloat)) else size


class SymInt(sizes.SymInt):
    """An int whose value may differ at the next call. Arithmetic is symbolic; a question to it becomes a guard."""

    __slots__ = ("env", "_expr")

    def __init__(self, env: ShapeEnv, e: Expr):
        self.env, self._expr = env, e

    @property
    def expr(self) -> Expr:
        return self.env.canonical(self._expr)

    @property
    def node(self) -> Any:
        return _node(self, int, "to_sympy", self.expr)

    @property
    def hint(self) -> int | None:
        return self.env.hint_of(self.expr)

    __add__, __radd__ = _arithmetic(operator.add, "add"), _arithmetic(operator.add, "add", True)
    __sub__, __rsub__ = _arithmetic(operator.sub, "sub"), _arithmetic(operator.sub, "sub", True)
    __mul__, __rmul__ = _arithmetic(operator.mul, "mul"), _arithmetic(operator.mul, "mul", True)
    __floordiv__, __rfloordiv__ = _arithmetic(E.floordiv, "floordiv"), _arithmetic(E.floordiv, "floordiv", True)
    __mod__, __rmod__ = _arithmetic(E.mod, "mod"), _arithmetic(E.mod, "mod", True)
    __eq__, __ne__ = _relation("=="), _relation("!=")
    __lt__, __le__ = _relation("<"), _relation("<=")
    __gt__, __ge__ = _relation("<", True), _relation("<=", True)

    def as_size(self) -> SymInt | int:
        return self.env.as_size(self)

    def as_float(self) -> SymFloat:
        return SymFloat(self.env, ("int", self.expr))

    def env_float(self, name: str, a: Any, b: Any) -> SymFloat | float:
        return float_op(self.env, name, a, b)

    def __truediv__(self, other: int) -> SymFloat | float:
        return float_op(self.env, "truediv", self, other)

    def __rtruediv__(self, other: Any) -> SymFloat | float:
        return float_op(self.env, "truediv", other, self)

    def __pow__(self, other: Any) -> SymInt | int | SymFloat | float:
        if isinstance(other, (int, SymInt)):
            other = int(other)  # its sign decides whether the result is an int
            return self.env.wrap(self.expr**other) if other >= 0 else float_op(self.env, "pow", self, other)
        return float_op(self.env, "pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return other ** int(self) if isinstance(other, int) else float_op(self.env, "pow", other, self)

    def __divmod__(self, other: int) -> tuple:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple:
        return other // self, other % self

    def __neg__(self) -> SymInt | int:
        return self.env.wrap(-self.expr)

    def __pos__(self) -> SymInt:
        return self

    def __abs__(self) -> SymInt | int:
        return self if self >= 0 else -self

    def __round__(self, digits: int | None = None) -> SymInt | int:
        return self if digits is None or digits >= 0 else round(int(self), digits)

    __floor__ = __ceil__ = __trunc__ = __pos__

    def __invert__(self) -> Any:
        return -self - 1

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << other) if isinstance(other, (int, SymInt)) else NotImplemented

    def __rshift__(self, other: Any) -> Any:
        return self // (1 << other) if isinstance(other, (int, SymInt)) else NotImplemented

    def __rlshift__(self, other: Any) -> Any:
        return other << int(self)

    def __rrshift__(self, other: Any) -> Any:
        return other >> int(self)

    def sym_max(self, other: Any) -> SymInt | int:
        return self.env.wrap(E.maximum(self.expr, _expr(other)))

    def sym_min(self, other: Any) -> SymInt | int:
        return self.env.wrap(E.minimum(self.expr, _expr(other)))

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __int__(self) -> int:
        return self.env.specialise(self.expr, "int()")

    def __index__(self) -> int:
        return self.env.specialise(self.expr, "an index")

    def __hash__(self) -> int:
        return hash(self.env.specialise(self.expr, "hash()"))

    def __float__(self) -> float:
        return float(self.env.specialise(self.expr, "float()"))

    def __repr__(self) -> str:
        return str(self.expr)

    def __deepcopy__(self, memo: Any) -> SymInt:
        return self


def _asked(name: str, turned: bool = False) -> Callable:
    """An operator of Python's bool: the relation is asked first."""
    compute = getattr(operator, name)
    if turned:
        return lambda self, other: compute(other, bool(self))
    return lambda self, *other: compute(bool(self), *other)


class SymBool(sizes.SymBool):
    """A relation nobody has asked about yet; `bool()` asks, and so does arithmetic."""

    __slots__ = ("env", "relation")

    def __init__(self, env: ShapeEnv, relation: Relation):
        self.env, self.relation = env, relation

    def __bool__(self) -> bool:
        return self.env.decide(self.relation)

    @property
    def node(self) -> Any:
        sides = self.env.canonical(self.relation.lhs), self.env.canonical(self.relation.rhs)
        return _node(self, bool, "relation", self.relation.op, *sides)

    @property
    def hint(self) -> bool | None:
        known = self.env.hints()
        return self.relation.evaluate(known) if self.relation.free_names() <= known.keys() else None

    for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor"):
        _plain = _name.rstrip("_")
        locals()[f"__{_plain}__"], locals()[f"__r{_plain}__"] = _asked(_name), _asked(_name, True)
    for _name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "index"):
        locals()[f"__{_name}__"] = _asked(_name)
    del _name, _plain

    def __invert__(self) -> SymBool:
        return SymBool(self.env, self.relation.negated())

    def __int__(self) -> int:
        return int(bool(self))

    def __float__(self) -> float:
        return float(bool(self))

    def __hash__(self) -> int:
        return hash(bool(self))

    def __repr__(self) -> str:
        return str(self.relation)


FLOAT_OPS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "neg": operator.neg,
    "abs": abs,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}


def float_op(env: ShapeEnv, name: str, *args: Any) -> SymFloat | float:
    """A float operation over SymFloat, SymInt and numbers (names: FLOAT_OPS)."""
    trees = [_tree(a) for a in args]
    if any(t is NotImplemented for t in trees):
        return NotImplemented
    if all(t[0] == "const" for t in trees):
        return FLOAT_OPS[name](*(t[1] for t in trees))
    return SymFloat(env, (name, *trees))


def always_finite(name: str, x: SymInt | SymFloat) -> bool:
    """Whether this function of the number is a finite number whatever the sizes are."""
    return finite(x.env, (name, _tree(x)))


def _tree(value: Any) -> Any:
    if isinstance(value, SymFloat):
        return value.tree
    if isinstance(value, SymInt):
        return ("int", value.expr)
    return ("const", value) if isinstance(value, (int, float)) else NotImplemented


def _float_method(name: str, turned: bool = False) -> Callable:
    if turned:
        return lambda self, other: float_op(self.env, name, other, self)
    return lambda self, other: float_op(self.env, name, self, other)


def _float_compare(compute: Callable) -> Callable:
    def compare(self: Any, other: Any) -> bool:
        if not isinstance(other, (int, float, SymInt, SymFloat)):
            return NotImplemented
        return self.env.compare_floats(compute, self, other)

    return compare


class SymFloat(sizes.SymFloat):
    """A float that may differ at the next call: a tree of FLOAT_OPS over ("var", name), ("int", Expr) and ("const",
    number). Branching on it specialises what it is made of."""

    __slots__ = ("env", "_made")

    def __init__(self, env: ShapeEnv, tree: tuple):
        self.env, self._made = env, tree

    @property
    def tree(self) -> tuple:
        """Its sizes are written in the symbols that are left by now."""
        return _canonical_tree(self.env, self._made)

    @property
    def node(self) -> Any:
        return _node(self, float, "float_tree", self.tree)

    @property
    def hint(self) -> float | None:
        known = self.env.hints()
        return self.evaluate(known) if self.free_names() <= known.keys() else None

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        return _evaluate_tree(self.tree, values)

    def free_names(self) -> frozenset:
        return frozenset(_tree_names(self.tree))

    for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        locals()[f"__{_name}__"], locals()[f"__r{_name}__"] = _float_method(_name), _float_method(_name, True)
    del _name
    __eq__, __ne__ = _float_compare(operator.eq), _float_compare(operator.ne)
    __lt__, __le__ = _float_compare(operator.lt), _float_compare(operator.le)
    __gt__, __ge__ = _float_compare(operator.gt), _float_compare(operator.ge)

    def __neg__(self) -> SymFloat | float:
        return float_op(self.env, "neg", self)

    def __abs__(self) -> SymFloat | float:
        return float_op(self.env, "abs", self)

    def __float__(self) -> float:
        return float(_specialise_tree(self.env, self.tree))

    def __int__(self) -> int:
        return int(float(self))

    def __round__(self, digits: Any = None) -> Any:
        return round(float(self), digits)

    def __floor__(self) -> Any:
        ratio = self.ratio()
        return math.floor(float(self)) if ratio is None else ratio[0] // ratio[1]

    def __ceil__(self) -> Any:
        ratio = self.ratio()
        return math.ceil(float(self)) if ratio is None else -(-ratio[0] // ratio[1])

    def __trunc__(self) -> Any:
        ratio = self.ratio()
        return (
            int(float(self))
            if ratio is None or self.env.known(Relation("<=", E.const(0), _expr(ratio[0]))) is not True
            else ratio[0] // ratio[1]
        )

    def ratio(self) -> tuple | None:
        return _ratio(self.env, self.tree)

    def __pos__(self) -> SymFloat:
        return self

    def is_integer(self) -> bool:
        return float(self).is_integer()

    def __bool__(self) -> bool:
        return self != 0.0

    def __hash__(self) -> int:
        return hash(float(self))

    def __repr__(self) -> str:
        return _tree_text(self.tree)

    def __deepcopy__(self, memo: Any) -> SymFloat:
        return self


def _ratio(env: ShapeEnv, tree: tuple) -> tuple | None:
    """(a, b) of integers where the number is a / b with b > 0: rounding and comparing the two is exact for operands below
    2 ** 26."""
    if tree[0] == "int":
        return env.wrap(tree[1]), 1
    if tree[0] == "const":
        return (int(tree[1]), 1) if math.isfinite(tree[1]) and tree[1] == int(tree[1]) else None
    if tree[0] != "truediv" or tree[1][0] != "int" or not _positive(env, tree[2]):
        return None
    return env.wrap(tree[1][1]), env.wrap(tree[2][1]) if tree[2][0] == "int" else int(tree[2][1])


def _positive(env: ShapeEnv, tree: tuple) -> bool:
    """A whole number that is known to be at least 1."""
    if tree[0] == "const":
        return type(tree[1]) is int and tree[1] > 0
    return tree[0] == "int" and env.known(Relation("<=", E.const(1), tree[1])) is True


def _canonical_tree(env: ShapeEnv, tree: tuple) -> tuple:
    if tree[0] in ("var", "const"):
        return tree
    if tree[0] == "int":
        return "int", env.canonical(tree[1])
    return (tree[0], *(_canonical_tree(env, t) for t in tree[1:]))


def _evaluate_tree(tree: tuple, values: Mapping[str, Any]) -> Any:
    if tree[0] == "var":
        return values[tree[1]]
    if tree[0] == "int":
        return tree[1].evaluate(values)
    return tree[1] if tree[0] == "const" else apply_float(tree[0], *(_evaluate_tree(t, values) for t in tree[1:]))


def apply_float(name: str, *args: Any) -> Any:
    """A FLOAT_OPS member over numbers or, when an argument is symbolic, symbolically."""
    env = next((a.env for a in args if isinstance(a, (SymInt, SymFloat))), None)
    return FLOAT_OPS[name](*args) if env is None else float_op(env, name, *args)


def _tree_names(tree: tuple) -> Iterator[Any]:
    if tree[0] == "var":
        yield tree[1]
    elif tree[0] == "int":
        yield from tree[1].free_names()
    elif tree[0] != "const":
        for branch in tree[1:]:
            yield from _tree_names(branch)


def _tree_text(tree: tuple) -> str:
    if tree[0] in ("var", "const"):
        return str(tree[1])
    if tree[0] == "int":
        return f"({tree[1]})"
    parts = [_tree_text(t) for t in tree[1:]]
    if tree[0] in _INFIX:
        return f"({f' {_INFIX[tree[0]]} '.join(parts)})"
    return f"{'-' if tree[0] == 'neg' else 'abs' if tree[0] == 'abs' else 'math.' + tree[0]}({', '.join(parts)})"


@data
class FloatComparison:
    """A comparison of one symbolic float with a constant that the compiled code relies on; called with a new value."""

    compute: Callable
    left: tuple
    right: tuple
    answer: bool

    def names(self) -> set:
        return {*_tree_names(self.left), *_tree_names(self.right)}

    def __call__(self, value: Any) -> bool:
        values = dict.fromkeys(self.names(), value)
        return self.compute(_evaluate_tree(self.left, values), _evaluate_tree(self.right, values)) is self.answer

    def __str__(self) -> str:
        held = f"{_tree_text(self.left)} {_COMPARISONS[self.compute]} {_tree_text(self.right)}"
        return held if self.answer else f"not {held}"


def _below(least: Any, greatest: Any, low: Any, high: Any) -> bool | None:
    return True if greatest < low else False if least >= high else None


def _at_most(least: Any, greatest: Any, low: Any, high: Any) -> bool | None:
    return True if greatest <= low else False if least > high else None


def _equal_in_ranges(least: Any, greatest: Any, low: Any, high: Any) -> bool | None:
    return False if greatest < low or least > high else None


# comparisons of two floats, neither of them NaN, by the ends of their ranges
_ORDERED = {
    operator.lt: _below,
    operator.le: _at_most,
    operator.eq: _equal_in_ranges,
    operator.gt: lambda a, b, c, d: _below(c, d, a, b),
    operator.ge: lambda a, b, c, d: _at_most(c, d, a, b),
    operator.ne: lambda *ends: None if _equal_in_ranges(*ends) is None else True,
}
_COMPARISONS = {operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">="}


def _specialise_tree(env: ShapeEnv, tree: tuple) -> float:
    if tree[0] == "var":
        hint = env.symbols[tree[1]].hint
        if hint is None:
            raise _unknown(f"the value of {tree[1]}")
        if env._sealed and tree[1] not in env.specialised_floats:
            raise Unsupported(
                "late guard",
                f"the value of {tree[1]} is asked after the guards of this code were made",
                "pass the number as a tensor",
            )
        env.specialised_floats[tree[1]] = hint
        return hint
    if tree[0] == "int":
        return env.specialise(tree[1], "float()")
    return tree[1] if tree[0] == "const" else FLOAT_OPS[tree[0]](*(_specialise_tree(env, t) for t in tree[1:]))
