"""The bodies of loops: hash-consed SSA values, and the builder that formulas of op records run against.

In: a record's formula, called with a `Body` as its vocabulary `s` and `Value`s as operands. Out: a graph of `Value`s in
which equal expressions are one object, so inlining the same producer twice costs nothing. Index expressions are
`capture.shapes.expr`; a value used as an index becomes a variable bound to that value (`indirect`).
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...capture.shapes.value_ranges import Bounds
from ...capture.shapes.expr import Expr, ExprLike, from_atom, is_const, lift, maximum, minimum, int_if_const, product, var
from ...capture.shapes.symbolic_shapes import SymFloat, SymInt
from ...eager import dtypes
from ...eager.op.prims import PRIMS
from ...runtime.config import config
from ...runtime.dataclass import data
from ...runtime.errors import InternalError
from ...runtime.locks import cached_property

Number = bool | int | float


@data(eq=False)
class Buffer:
    """A region of memory with a geometry. `kind`: input, output, temp, const, or local (row scratch of one kernel).

    The name is the identity: `flat` is the same memory seen as one dimension.
    """

    name: str
    dtype: Any
    sizes: tuple[ExprLike, ...]
    strides: tuple[ExprLike, ...]
    offset: ExprLike = 0
    kind: str = "temp"
    origin: str = ""

    def __eq__(self, other: Any) -> bool:
        return self is other or isinstance(other, Buffer) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    @cached_property
    def flat(self) -> Buffer:
        """The same memory with element offsets as its only index."""
        return Buffer(self.name, self.dtype, (self.extent(),), (1,), 0, self.kind, self.origin)

    def linear(self, index: tuple[ExprLike, ...]) -> ExprLike:
        """The element offset of `index` from the start of the buffer's memory."""
        total = self.offset
        for i, stride in zip(index, self.strides, strict=True):
            total = total + i * stride
        return total

    def numel(self) -> ExprLike:
        return product(self.sizes)

    def extent(self) -> ExprLike:
        """Elements from the start of memory to the last one that the geometry reaches (0 when empty)."""
        if any(is_zero(size) for size in self.sizes):
            return 0
        return int_if_const(self.linear(tuple(size - 1 for size in self.sizes)) + 1)

    def text(self) -> str:
        sizes = ", ".join(map(str, self.sizes))
        strides = ", ".join(map(str, self.strides))
        tail = f" + {self.offset}" if not is_zero(self.offset) else ""
        return f"{self.kind} {self.name}: {self.dtype.name}[{sizes}] strides ({strides}){tail}"


class Load(NamedTuple):
    """What a load reads. With `masked`, the first argument is the mask and `other` the value where it is false."""

    buffer: Buffer
    index: tuple[ExprLike, ...]
    masked: bool = False
    other: Number = 0


class Indirect(NamedTuple):
    """A value used as an index: variable `name`, which lies in [0, size) after check `check` (None: known to)."""

    name: str
    size: ExprLike
    check: int | None


class Check(NamedTuple):
    """A condition that a kernel tests before anything is committed; `ident` is the native error code (from 1)."""

    ident: int
    text: str


def _operator(name: str, reflected: bool = False) -> Callable[[Any, Any], Any]:
    """Python's operator of two values as a primitive; `reflected`: the other one stands left of it."""
    if reflected:
        return lambda self, other: self.body.prim(name, other, self)
    return lambda self, other: self.body.prim(name, self, other)


def _bitwise(name: str, reflected: bool = False) -> Callable[[Any, Any], Any]:
    """The same of the operators that mean something else for truth values."""
    if reflected:
        return lambda self, other: self.body.bitwise(name, other, self)
    return lambda self, other: self.body.bitwise(name, self, other)


class Value:
    """One SSA value. `op` is a primitive's name or load, index, const, acc, indirect, scalar; `attrs` is what that op needs:

    load: `Load`; index: an expression; const: a number; acc: the accumulator's name; indirect: `Indirect`;
    scalar: the name of a scalar input; cast: "held" where a half's rounding stays.
    `args` are all values it depends on (a load's mask, then its indirect indices).
    """

    __slots__ = ("id", "op", "args", "dtype", "attrs", "body")

    def __init__(self, ident: int, op: str, args: tuple[Value, ...], dtype: Any, attrs: Any, body: Body):
        self.id, self.op, self.args, self.dtype, self.attrs, self.body = ident, op, args, dtype, attrs, body

    def __repr__(self) -> str:
        shown = "" if self.attrs is None else f" {self.attrs!r}" if self.op != "load" else f" {self.attrs.buffer.name}"
        return f"<%{self.id} {self.op}({', '.join(f'%{a.id}' for a in self.args)}){shown}: {self.dtype.name}>"

    def __bool__(self) -> bool:
        raise InternalError(f"the value of {self!r} is not known while a loop is built: use s.where")

    __hash__ = object.__hash__

    __add__, __radd__ = _operator("add"), _operator("add", reflected=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", reflected=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", reflected=True)
    __truediv__, __rtruediv__ = _operator("truediv"), _operator("truediv", reflected=True)
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _operator("floordiv", reflected=True)
    __mod__, __rmod__ = _operator("mod"), _operator("mod", reflected=True)
    __pow__, __rpow__ = _operator("pow"), _operator("pow", reflected=True)
    __lshift__, __rshift__ = _operator("shl"), _operator("shr")
    __lt__, __le__, __gt__, __ge__ = _operator("lt"), _operator("le"), _operator("gt"), _operator("ge")
    __eq__, __ne__ = _operator("eq"), _operator("ne")
    __and__, __rand__ = _bitwise("and"), _bitwise("and", reflected=True)
    __or__, __ror__ = _bitwise("or"), _bitwise("or", reflected=True)
    __xor__, __rxor__ = _bitwise("xor"), _bitwise("xor", reflected=True)

    def __neg__(self) -> Value:
        return self.body.prim("neg", self)

    def __abs__(self) -> Value:
        return self.body.prim("abs", self)

    def __invert__(self) -> Value:
        return self.body.prim("logical_not" if self.dtype is dtypes.bool else "bit_not", self)


def is_whole(number: Any) -> bool:
    """Whether a constant is a whole number: neither a fraction nor infinite, and not complex."""
    return isinstance(number, numbers.Real) and float(number).is_integer()


class Body:
    """Builds values. One body serves a whole program; it is also the vocabulary `s` of formulas."""

    def __init__(self):
        self.table: dict[tuple, Value] = {}
        self.indirects: dict[str, Value] = {}
        self.uses: dict[Expr, tuple[Value, ...]] = {}
        self.checks: list[Check] = []
        self.bounds: Bounds | None = None  # what is known of the axes
        self.ordinal = 0  # draw number of the random node at hand
        self.mask: Value | None = None  # where what is being built is read at all (None: everywhere)
        self.looks: list[Value] | None = None  # while somebody listens: the checked values of a formula

    # -- leaves

    def make(self, op: str, args: tuple[Value, ...], dtype: Any, attrs: Any = None, key: Any = None) -> Value:
        """The one value of this op, arguments, type and attributes."""
        ident = (op, *[a.id for a in args], dtype.name, attrs if key is None else key)
        found = self.table.get(ident)
        if found is None:
            found = self.table[ident] = Value(len(self.table), op, args, dtype, attrs, self)
        return found

    def const(self, number: Number | complex | SymInt | SymFloat, dtype: Any = None) -> Value:
        """A number of the given type (default: what PyTorch gives a lone Python number); symbolic ones stay so."""
        if isinstance(number, (SymInt, SymFloat)):
            value = self.value(number)
            return value if dtype is None else self.cast(value, dtype)
        dtype = dtype or dtypes.of_number(number)
        number = as_number(number, dtype)
        return self.make("const", (), dtype, number, key=repr(number))

    def index(self, expr: ExprLike | SymInt) -> Value:
        """An index expression as an int64 value."""
        if isinstance(expr, SymInt):
            expr = expr.expr
        expr = int_if_const(expr)
        if isinstance(expr, int):
            return self.const(expr, dtypes.int64)
        return self.make("index", self.indirect_args((expr,)), dtypes.int64, expr)

    def scalar(self, name: str, dtype: Any) -> Value:
        """A scalar input of the program: a symbol's value, the seed, the base ordinal, a 0-dim f64 input."""
        return self.make("scalar", (), dtype, name)

    def acc(self, name: str, dtype: Any) -> Value:
        """The result of an earlier step's reduction, or a template's product."""
        return self.make("acc", (), dtype, name)

    def draw(self) -> tuple[Value, Value]:
        """(seed, ordinal) of the random node that is being lowered."""
        return self.scalar("seed", dtypes.int64), self.prim("add", self.scalar("base", dtypes.int64), self.ordinal)

    def load(self, buffer: Buffer, index: Iterable[ExprLike], mask: Value | None = None, other: Number = 0) -> Value:
        index = tuple(map(int_if_const, index))
        if mask is not None and mask.op == "const":
            if not mask.attrs:
                return self.const(other, buffer.dtype)
            mask = None
        args = self.indirect_args(index)
        if mask is None:
            return self.make("load", args, buffer.dtype, Load(buffer, index), key=(buffer.name, buffer.strides, index))
        attrs = Load(buffer, index, True, as_number(other, buffer.dtype))
        key = (buffer.name, buffer.strides, index, repr(attrs.other))
        return self.make("load", (mask, *args), buffer.dtype, attrs, key=key)

    def indirect(self, value: Value | int, size: ExprLike | SymInt, check: bool | str = True) -> ExprLike:
        """`value` as an index into a dimension of `size`; `check` may be the text of the error. An index is proved to lie
        within, or looked at when the kernel runs; without `check` the formula has seen to that. (Of a masked read it is 0
        where nothing is read, as all that was loaded for it.)
        """
        size = size.expr if isinstance(size, SymInt) else size
        if not isinstance(value, Value):
            value = self.value(value)
        known = self.exact(value)
        if known is not None and (not check or self.is_within(known, size)):
            return known
        return self.looked_at(self.cast(value, dtypes.int64), size, check)

    def exact(self, value: Value) -> ExprLike | None:
        """The index expression that an integer is, through sums, products and choices that the axes' ranges decide."""
        if value.op == "index":
            return value.attrs
        if value.op == "const":
            return int(value.attrs) if is_whole(value.attrs) else None
        if value.dtype is not dtypes.int64 or value.op not in ("add", "sub", "mul", "where"):
            return None
        if value.op == "where":
            condition = value.args[0]
            sides = self.all_exact(condition.args) if condition.op in COMPARISONS else []
            chosen = self.decided(condition.op, lift(sides[0]) - sides[1]) if sides else None
            return None if chosen is None else self.exact(value.args[1 if chosen.attrs else 2])
        sides = self.all_exact(value.args)
        return int_if_const(ARITHMETIC[value.op](*map(lift, sides))) if sides else None

    def all_exact(self, values: tuple[Value, ...]) -> list[ExprLike]:
        """The index expressions that all of these are; none where one is not."""
        found = [e for v in values if (e := self.exact(v)) is not None]
        return found if len(found) == len(values) else []

    def is_within(self, e: ExprLike, size: ExprLike) -> bool:
        """Whether an index expression provably lies in [0, size)."""
        if is_const(e) and is_const(size):
            return 0 <= int(e) < int(size)
        return self.bounds is not None and self.bounds.nonnegative(e) and self.bounds.less(e, size)

    def looked_at(self, value: Value, size: ExprLike, check: bool | str) -> ExprLike:
        """The variable of an index that is looked at (unless `check` is False), one for equal values and sizes."""
        key = (size, bool(check))
        found = self.table.get(("indirect", value.id, "int64", key))
        if found is None:
            found = self.make("indirect", (value,), dtypes.int64, self._new_indirect(size, check), key=key)
            self.indirects[found.attrs.name] = found
        if check and self.looks is not None:
            self.looks.append(found)
        return index_var(found.attrs.name)

    def _new_indirect(self, size: ExprLike, check: bool | str) -> Indirect:
        ident = None
        if check:
            ident = len(self.checks) + 1
            text = check if isinstance(check, str) else f"index out of range for a dimension of size {size}"
            self.checks.append(Check(ident, text))
        return Indirect(f"ind{len(self.indirects)}", size, ident)

    def indirect_args(self, exprs: Iterable[ExprLike]) -> tuple[Value, ...]:
        if not self.indirects:
            return ()
        found = [v for e in exprs if not isinstance(e, int) for v in self.uses_of(e)]
        return tuple(sorted(dict.fromkeys(found), key=lambda v: v.id)) if found else ()

    def uses_of(self, e: Expr) -> tuple[Value, ...]:
        """The indirect indices that an expression names."""
        found = self.uses.get(e)
        if found is None:
            found = self.uses[e] = tuple(self.indirects[name] for name in e.free_names() if name in self.indirects)
        return found

    # -- primitives

    def __getattr__(self, name: str) -> Callable:
        if name not in PRIMS:
            raise AttributeError(f"the vocabulary of formulas has no {name!r}; it has: {', '.join(PRIMS)}")
        method = lambda *args: self.prim(name, *args)
        self.__dict__[name] = method
        return method

    def prim(self, name: str, *args: Any) -> Value:
        """Apply a scalar primitive; operands of different types are brought to their common type."""
        info = PRIMS[name]
        if name == "cast":
            return self.cast(*args)
        if name == "where":
            return self.where(*args)
        if name == "philox":
            return self.make("philox", tuple(self.cast(self.value(a), dtypes.int64) for a in args), dtypes.int64)
        if len(args) != info.arity:
            raise InternalError(f"primitive {name} takes {info.arity} operands, got {len(args)}")
        values = self.unify(args)
        values = self.arithmetic_operands(name, values, info.result)
        if name in ("floordiv", "mod") and values[1].dtype.category == 1:
            values = (values[0], self.divisor(values[1]))
        dtype = result_dtype(info.result, values)
        found = self.simplified(name, values, dtype)
        return self.make(name, values, dtype) if found is None else found

    def divisor(self, b: Value) -> Value:
        """`b`, after a check that it is not zero: a check of an index that is 0 where all is well, and is added."""
        if b.op == "const" and b.attrs or b.op == "index" and self.bounds and self.bounds.nonnegative(b.attrs - 1):
            return b
        zero = self.prim("eq", b, 0)  # as a masked read's divisor is where nothing is read
        zero = zero if self.mask is None else self.prim("logical_and", self.mask, zero)
        return self.prim("add", b, self.cast(self.index(self.refused(zero, "ZeroDivisionError")), b.dtype))

    def refused(self, condition: Value, text: str) -> ExprLike:
        """Fails the call where `condition` holds: the variable of an index that is 0 where all is well, and else too large."""
        return self.looked_at(self.cast(self.where(condition, 2, 0), dtypes.int64), 2, text)

    def value(self, x: Any) -> Value:
        """A number, symbolic number or value, as a value."""
        if isinstance(x, Value):
            return x
        if isinstance(x, (SymInt, Expr)):
            return self.index(x)
        return self.float_tree(x.tree) if isinstance(x, SymFloat) else self.const(x)

    def float_tree(self, tree: tuple) -> Value:
        """A symbolic float (a tree of operations over float inputs and sizes), computed in float64."""
        if tree[0] == "var":
            return self.scalar(tree[1], dtypes.float64)
        if tree[0] == "int":
            return self.cast(self.index(tree[1]), dtypes.float64)
        if tree[0] == "const":
            return self.const(tree[1], dtypes.float64)
        return self.prim(tree[0], *[self.float_tree(t) for t in tree[1:]])

    def unify(self, args: tuple) -> tuple[Value, ...]:
        """Operands as values of one type: numbers take the type of the values beside them."""
        strong = [a.dtype for a in args if isinstance(a, Value)]
        if not strong:
            dtype = dtypes.float64 if any(isinstance(a, (float, SymFloat)) for a in args) else None
            return tuple(self.cast(self.value(a), dtype) if dtype else self.value(a) for a in args)
        dtype = strong[0]
        for other in strong[1:]:
            dtype = common_dtype(dtype, other)
        if not dtype.is_floating_point and any(isinstance(a, (float, SymFloat)) for a in args):
            dtype = dtypes.get_default_dtype()
        elif dtype is dtypes.bool and any(isinstance(a, (int, SymInt)) and not isinstance(a, bool) for a in args):
            dtype = dtypes.int64
        return tuple(
            self.cast(a, dtype) if isinstance(a, (Value, SymInt, SymFloat, Expr)) else self.const(a, dtype) for a in args
        )

    def arithmetic_operands(self, name: str, values: tuple[Value, ...], result: Any) -> tuple[Value, ...]:
        """Floating functions of integers compute in the default floating type; logical functions take booleans."""
        if result == "float" and not values[0].dtype.is_floating_point:
            return tuple(self.cast(v, dtypes.get_default_dtype()) for v in values)
        if name.startswith("logical_"):
            return tuple(self.cast(v, dtypes.bool) for v in values)
        return values

    def cast(self, x: Any, dtype: Any) -> Value:
        if isinstance(x, (bool, int, float, complex)):
            return self.const(x, dtype)
        value = self.value(x)
        if value.dtype is dtype:
            return value
        if value.op == "const":
            return self.const(rounded(value), dtype)
        if value.op == "cast" and not config.keep_half_rounding and is_half(value.dtype) and not value.attrs:
            source = value.args[0]
            if source.dtype is dtype and dtype.is_floating_point:
                return source
        if value.op == "cast" and (
            widens(value.args[0].dtype, value.dtype) or dtype is dtypes.bool and keeps_zero(value.args[0].dtype, value.dtype)
        ):
            return self.cast(value.args[0], dtype)
        return self.make("cast", (value,), dtype)

    def held(self, value: Value) -> Value:
        """A half as memory holds it: its rounding stays, whatever reads it. A load may yet become what was stored there."""
        if not is_half(value.dtype) or value.op not in ("cast", "load"):
            return value
        return self.make("cast", value.args if value.op == "cast" else (value,), value.dtype, "held")

    def where(self, condition: Any, a: Any, b: Any) -> Value:
        condition = self.cast(condition, dtypes.bool)
        a, b = self.unify((a, b))
        if condition.op == "const":
            return a if condition.attrs else b
        return a if a is b else self.make("where", (condition, a, b), a.dtype)

    def bitwise(self, which: str, a: Any, b: Any) -> Value:
        """& | ^ : logical on booleans, bits on integers."""
        if all(isinstance(x, bool) or isinstance(x, Value) and x.dtype is dtypes.bool for x in (a, b)):
            return self.prim("ne" if which == "xor" else f"logical_{which}", a, b)
        return self.prim(f"bit_{which}", a, b)

    def simplified(self, name: str, values: tuple[Value, ...], dtype: Any) -> Value | None:
        """Exact identities only: a result that differs in a NaN or in the sign of a zero is not taken."""
        if all(v.op == "const" for v in values):
            return self.folded(name, values, dtype)
        if name in COMPARISONS and self.bounds is not None and all(v.op in ("index", "const") for v in values):
            return self.decided(name, values[0].attrs - values[1].attrs)
        if name in INDEX_FORMS and dtype is dtypes.int64 and all(v.op in ("index", "const") for v in values):
            return self.index(INDEX_FORMS[name](*[v.attrs for v in values]))
        if len(values) == 2:
            a, b = values
            if name in ("mul", "truediv") and is_number(b, 1) or name == "sub" and is_number(b, 0):
                return a if a.dtype is dtype else None
            if name == "mul" and is_number(a, 1):
                return b
            if name in ("logical_and", "logical_or"):
                return boolean_identity(name, a, b)
            if not dtype.is_floating_point and name == "add":
                return a if is_number(b, 0) else b if is_number(a, 0) else None
        return None

    def decided(self, name: str, difference: ExprLike) -> Value | None:
        """A comparison of index expressions that the ranges of the axes decide."""
        if self.bounds is None:
            return None
        at_least, above = COMPARISONS[name]
        for answer in (True, False):
            e = difference if answer == at_least else -difference
            if self.bounds.nonnegative(e - (1 if answer == above else 0)):
                return self.const(answer, dtypes.bool)
        return None

    def folded(self, name: str, values: tuple[Value, ...], dtype: Any) -> Value | None:
        """What the code would compute; whole numbers that numpy warns of (0 as a divisor, overflow) are left to it."""
        try:
            with np.errstate(all="ignore" if dtype.is_floating_point else "raise"):
                result = PRIMS[name].numpy(*[v.dtype.numpy.type(v.attrs) for v in values])
        except (ZeroDivisionError, OverflowError, FloatingPointError):
            return None
        return self.const(result.item() if hasattr(result, "item") else result, dtype)


# what stays an index expression, so that memory is addressed by it without a value in between
ARITHMETIC = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
INDEX_FORMS = {"maximum": maximum, "minimum": minimum, "abs": lambda e: maximum(e, -e)}

# comparison of a and b -> (true when a - b is large rather than small, false when they are equal)
COMPARISONS = {"ge": (True, False), "gt": (True, True), "lt": (False, True), "le": (False, False)}


# -- types and numbers


def as_number(number: Any, dtype: Any) -> Number:
    """A Python number with the kind of `dtype`; whole numbers wrap around, others become what eager's cast makes of them."""
    if dtype is dtypes.bool:
        return bool(number)
    if dtype.is_floating_point:
        return float(number)
    if isinstance(number, float):
        with np.errstate(invalid="ignore"):
            return int(np.array([number]).astype(dtype.numpy)[0])
    span, least = 1 << 8 * dtype.itemsize, -(1 << 8 * dtype.itemsize - 1) if dtype.is_signed else 0
    return (int(number) - least) % span + least


def is_number(value: Value, number: Number) -> bool:
    return (
        value.op == "const" and value.attrs == number and not isinstance(value.attrs, bool) and math.copysign(1, value.attrs) > 0
    )


def boolean_identity(name: str, a: Value, b: Value) -> Value | None:
    neutral = name == "logical_and"
    for x, y in ((a, b), (b, a)):
        if x.op == "const":
            return y if x.attrs is neutral else x
    return a if a is b else None


def rounded(value: Value) -> Number:
    """A constant as its own type holds it."""
    return value.dtype.numpy.type(value.attrs).item() if value.dtype.is_floating_point else value.attrs


def is_half(dtype: Any) -> bool:
    return dtype.is_floating_point and dtype.itemsize == 2


def widens(small: Any, large: Any) -> bool:
    """True when every value of `small` is exactly a value of `large`."""
    if small.is_floating_point:
        return large.is_floating_point and (large.itemsize, small.itemsize) in ((4, 2), (8, 2), (8, 4))
    if small is dtypes.bool:
        return large is not dtypes.bool
    return False


def keeps_zero(whole: Any, other: Any) -> bool:
    """True when a whole number is zero in `other` only if it is zero."""
    if whole.is_floating_point or whole.is_complex:
        return False
    return other.is_floating_point or not other.is_complex and other is not dtypes.bool and other.itemsize >= whole.itemsize


def common_dtype(a: Any, b: Any) -> Any:
    """The type in which two operands meet inside a formula (formulas cast their operands themselves where it matters)."""
    if a is b:
        return a
    if a.is_floating_point != b.is_floating_point:
        return a if a.is_floating_point else b
    if a.itemsize == b.itemsize:
        return dtypes.float32 if a.is_floating_point else b if a is dtypes.bool else a
    return a if a.itemsize > b.itemsize else b


def result_dtype(rule: Any, values: tuple[Value, ...]) -> Any:
    if rule == "bool":
        return dtypes.bool
    if rule in ("same", "float"):
        return values[0].dtype
    return rule(*[v.dtype for v in values])


def is_zero(x: ExprLike) -> bool:
    return is_const(x) and int(x) == 0


def index_var(name: str) -> Expr:
    """The variable of an axis or of an indirect index."""
    return var(name, "index")


@lru_cache(maxsize=1 << 14)
def strides_of(e: Expr) -> tuple[dict[str, ExprLike], frozenset[str]]:
    """(index variable -> its factor, where it is affine; the index variables that stand in divisions, products or powers)."""
    factors: dict[str, ExprLike] = {}
    tangled: set[str] = set()
    for monomial, c in e.terms:
        names = [(a.args[0], k) for k, (a, p) in enumerate(monomial) if a.op == "var" and a.args[1] == "index"]
        inner = {v.name for a, _ in monomial if a.op != "var" for v in a.variables() if v.args[1] == "index"}
        if inner or len(names) > 1 or names and monomial[names[0][1]][1] > 1:
            tangled |= inner | {name for name, _ in names}
        elif names:
            name, k = names[0]
            factor: ExprLike = c
            for other, power in monomial[:k] + monomial[k + 1 :]:
                factor = from_atom(other) ** power * factor
            factors[name] = int_if_const(factors[name] + factor) if name in factors else factor
    return factors, frozenset(tangled)


# -- walking and rewriting


def reachable(roots: Iterable[Value]) -> list[Value]:
    """All values that `roots` need, arguments before users."""
    found: dict[int, Value] = {}
    stack = list(roots)
    while stack:
        value = stack.pop()
        if value.id not in found:
            found[value.id] = value
            stack.extend(value.args)
    return [found[ident] for ident in sorted(found)]


class Rewriter:
    """Rebuilds values under a substitution of index variables and a replacement of leaves.

    `mapping`: variable name -> expression. `leaf(value)`: for loads, accs and scalars (already under the new indices), the
    value to use instead, or None to keep it.
    """

    def __init__(
        self,
        body: Body,
        mapping: Mapping[str, ExprLike],
        leaf: Callable[[Value], Value | None] | None = None,
        tidy: Callable[[ExprLike], ExprLike] | None = None,
    ):
        self.body, self.mapping, self.leaf, self.tidy = body, mapping, leaf, tidy
        self.done: dict[int, Value] = {}
        self.exprs: dict[Any, ExprLike] = {}
        self.vars: dict = dict(mapping)

    def expr(self, e: ExprLike) -> ExprLike:
        if isinstance(e, int):
            return e
        found = self.exprs.get(e)
        if found is None:
            found = int_if_const(e.substitute(self.vars)) if self.vars else e
            found = self.exprs[e] = self.tidy(found) if self.tidy and not isinstance(found, int) else found
        return found

    def __call__(self, value: Value) -> Value:
        found = self.done.get(value.id)
        if found is None:
            for each in reachable((value,)):
                if each.id not in self.done:
                    self.done[each.id] = self.rebuild(each)
            found = self.done[value.id]
        return found

    def rebuild(self, value: Value) -> Value:
        args = tuple([self.done[a.id] for a in value.args])
        if value.op == "load":
            return self.replaced(self.rebuild_load(value, args))
        if value.op == "index":
            return self.body.index(self.expr(value.attrs))
        if value.op == "indirect":
            return self.rebuild_indirect(value, args[0])
        if value.op in ("acc", "scalar"):
            return self.replaced(value)
        decidable = value.op in COMPARISONS and self.body.bounds is not None  # in narrower ranges, maybe, of the same operands
        if not decidable and all(a is b for a, b in zip(args, value.args)):
            return value
        if value.op == "cast":
            made = self.body.cast(args[0], value.dtype)
            return self.body.held(made) if value.attrs else made
        if value.op == "where":
            return self.body.where(*args)
        found = self.body.simplified(value.op, args, value.dtype)
        return self.body.make(value.op, args, value.dtype) if found is None else found

    def rebuild_load(self, value: Value, args: tuple[Value, ...]) -> Value:
        load = value.attrs
        if not self.vars and all(a is b for a, b in zip(args, value.args)):
            return value
        index = tuple([self.expr(e) for e in load.index])
        return self.body.load(load.buffer, index, args[0] if load.masked else None, load.other)

    def rebuild_indirect(self, value: Value, arg: Value) -> Value:
        """The same bound check on the rewritten value; users' index expressions follow through `vars`."""
        if arg is value.args[0]:
            return value
        attrs = value.attrs
        size = self.expr(attrs.size)
        key = (size, attrs.check is not None)
        new = self.body.table.get(("indirect", arg.id, "int64", key))
        if arg.op == "const" and (attrs.check is None or not is_const(size) or 0 <= arg.attrs < int(size)):
            self.vars[attrs.name] = int(arg.attrs)
            return arg
        if new is None:
            fresh = Indirect(f"ind{len(self.body.indirects)}", size, attrs.check)
            new = self.body.make("indirect", (arg,), dtypes.int64, fresh, key=key)
            self.body.indirects[fresh.name] = new
        self.vars[attrs.name] = index_var(new.attrs.name)
        return new

    def replaced(self, value: Value) -> Value:
        found = self.leaf(value) if self.leaf else None
        return value if found is None else found
