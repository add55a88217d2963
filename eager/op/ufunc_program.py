"""Programs for the native call path: what a pointwise record does to operands of given types, as steps of numpy loops.

In: a record and the operands of one call. Out: `(arguments, constants, item sizes, types of numbers, steps, result,
divisor)`, which `_call.Map` runs over blocks, or None where the formula does something else than apply numpy's functions
to arrays of one type (then the call takes the Python path). The formula is run once on placeholders; types are asked of numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _call, dtypes
from .loop_rules import computation
from .prims import OPERATORS, PRIMS, REFLECTED
from ..sizes import is_number
from ..tensor import Tensor

_OWN = _call.own_loops()  # loops of the native module that stand for numpy's (csrc/numpy_loops.h)
NUMBERS = {d: k for k, d in enumerate(dtypes.ALL)}
_MOVED = frozenset(d for d in dtypes.ALL if d.category < 3 and d.itemsize >= 1) - {
    dtypes.uint16,
    dtypes.uint32,
    dtypes.uint64,
    dtypes.float8_e4m3fn,
    dtypes.float8_e5m2,
}


_SIGN_BITS = {np.absolute: "absolute e->e", np.negative: "negative e->e"}  # what changes a half's sign alone
_LATER = frozenset(("add", "sub", "mul", "truediv", "neg"))  # of numbers: computed where they meet an array
_TRUE = object()  # a condition that always holds


class NotAProgram(Exception):
    """The formula, or the types, are not for this path."""


class Value:
    """A placeholder: `place` ("arg", k), ("const", k), ("temp", k), or of a number ("later", (primitive, numbers)); `dtype`
    a numpy type, None for a weak number."""

    __slots__ = ("builder", "place", "dtype", "sample", "origin")

    def __init__(self, builder, place, dtype, sample: Any = None):
        self.builder, self.place, self.dtype, self.sample = builder, place, dtype, sample
        self.origin = place[1] if place[0] == "arg" else None  # the operand whose zeros are the value's

    def __bool__(self):
        raise NotAProgram("the formula branches on a value")

    def __getattr__(self, name):
        raise NotAProgram(name)

    __hash__ = object.__hash__


def _special(name, swapped=False):
    def method(self, *others):
        return self.builder.apply(name, *((*others, self) if swapped else (self, *others)))

    return method


for _name, _prim in OPERATORS.items():
    setattr(Value, f"__{_name}__", _special(_prim))
for _name, _prim in REFLECTED.items():
    setattr(Value, f"__r{_name}__", _special(_prim, True))


class Builder:
    """The vocabulary `s` of a formula being turned into steps. `compute`: the type in which its operands meet, or None."""

    def __init__(self, compute: dtypes.dtype | Any = None):
        self.compute = compute
        self.constants, self.sizes, self.steps, self.divisor = [], [], [], -1

    def __getattr__(self, name):
        if name not in PRIMS:
            raise NotAProgram(name)
        return lambda *values: self.apply(name, *values)

    def numbers(self, values):
        """Numbers alone, as values of the floating type in which the operands meet."""
        if self.compute is None or self.compute.category != 2:
            raise NotAProgram("a number of numbers")
        return [self.as_type(v, self.compute.numpy) if not isinstance(v, Value) else self.read(v) for v in values]

    def read(self, value):
        """A number argument as a value of the type in which the operands meet."""
        found = self.as_type(value, self.compute.numpy)
        return found if found.dtype is not None else Value(self, value.place, self.compute.numpy)

    def const(self, number, dtype):
        return self.constant(np.asarray(number, dtype.numpy))

    def constant(self, array):
        self.constants.append(array)
        return Value(self, ("const", len(self.constants) - 1), array.dtype)

    def emit(self, what, which, operands, dtype):
        self.sizes.append(dtype.itemsize)
        value = Value(self, ("temp", len(self.sizes) - 1), dtype)
        self.steps.append((what, which, tuple(v.place for v in operands), value.place))
        return value

    def apply(self, name, *values):
        if name == "cast":
            return self.cast(values[0], values[1].numpy)
        if not any(isinstance(v, Value) and v.dtype is not None for v in values):
            if name in _LATER:
                return self.later(name, values)
            values = self.numbers(values)
        if name == "where":
            return self.where(*values)
        if name == "eq" and values[0] is values[1] and sample(values[0]).dtype.kind in "biu":
            return _TRUE
        function = PRIMS[name].numpy
        if name == "pow" and not isinstance(values[0], Value) and values[0] == 2.0 and sample(values[1]).dtype.kind == "f":
            return self.apply_ufunc(np.exp2, values[1])
        if name == "logical_not" and sample(values[0]).dtype.kind == "f":
            return self.apply_ufunc(np.equal, values[0], 0)
        if name == "rsqrt" and sample(values[0]).dtype != np.float32:
            return self.apply_ufunc(np.reciprocal, self.apply_ufunc(np.sqrt, values[0]))
        if type(function) is not np.ufunc:
            return self.apply_own(name, values)
        if name in ("floordiv", "mod", "pow") and not any(
            sample(v).dtype.kind == "f" for v in values if isinstance(v, Value) and v.dtype is not None
        ):
            self.refuse_zeros(name, values[1])
        return self.apply_ufunc(function, *values)

    def refuse_zeros(self, name, divisor):
        """Whole numbers are divided by one operand, in which the call looks for zeros first."""
        if name == "pow" or not isinstance(divisor, Value) or divisor.origin is None or self.divisor not in (-1, divisor.origin):
            raise NotAProgram("integers that may be refused")
        self.divisor = divisor.origin

    def apply_ufunc(self, function, *values):
        samples = [sample(v) for v in values]
        result = function(*samples).dtype
        return self.in_type(function, values, np.result_type(*samples), result)

    def in_type(self, function, values, common, result):
        """A function of values in one type, by numpy's loop or the native module's."""
        signature = common.char * len(values) + "->" + result.char
        if signature not in function.types or common.kind == "c":
            raise NotAProgram(f"no loop {function.__name__} {signature}")
        own = f"{function.__name__} {signature}"
        operands = [self.as_type(v, common) for v in values]
        return self.emit(own if own in _OWN else function, function.types.index(signature), operands, result)

    def later(self, name, values):
        """A number of numbers, which is computed in the type that it meets."""
        return Value(self, ("later", (name, values)), None, {"number": PRIMS[name].numpy(*map(sample, values)).item()})

    def apply_own(self, name, values):
        """A primitive that numpy has no function for: by a loop of the native module."""
        common = np.result_type(*[sample(v) for v in values])
        own = f"{name} {common.char * len(values)}->{common.char}"
        if own not in _OWN:
            raise NotAProgram(name)
        return self.emit(own, 0, [self.as_type(v, common) for v in values], common)

    def where(self, condition, a, b):
        if condition is _TRUE:
            return self.as_type(a, np.result_type(sample(a), sample(b)))
        if not isinstance(condition, Value) or condition.dtype != np.bool_:
            raise NotAProgram("a condition that is not bool")
        common = np.result_type(sample(a), sample(b))
        operands = [condition, self.as_type(a, common), self.as_type(b, common)]
        return self.emit(-1, common.itemsize, operands, common)

    def as_type(self, value, dtype):
        """A placeholder of this numpy type; numbers become constants, or are read in this type at the call."""
        if not isinstance(value, Value):
            number = np.asarray(value, dtype)
            if number.dtype.kind in "iu" and int(number) != value:
                raise NotAProgram("a number out of range")
            return self.constant(number)
        if value.place[0] == "later":
            if dtype.kind != "f":
                raise NotAProgram("a whole number of numbers")
            name, values = value.place[1]
            return self.in_type(PRIMS[name].numpy, values, dtype, dtype)
        if value.dtype is None:
            known = value.sample.setdefault("read as", dtype)
            if known != dtype:
                raise NotAProgram("a number in two types")
            return value
        return self.cast(value, dtype)

    def cast(self, value, dtype):
        if not isinstance(value, Value) or value.dtype is None:
            raise NotAProgram("a cast of a number")
        if value.dtype == dtype:
            return value
        moved = self.move(value, dtype)
        moved.origin = value.origin if dtype.itemsize >= value.dtype.itemsize else None
        return moved

    def move(self, value, dtype):
        """A conversion, or a copy."""
        source, target = dtypes.from_numpy(value.dtype), dtypes.from_numpy(dtype)
        if source not in _MOVED or target not in _MOVED:
            raise NotAProgram("no conversion")
        if source is dtypes.float64 and target in (dtypes.float16, dtypes.bfloat16):
            raise NotAProgram("a conversion that rounds once")
        return self.emit(NUMBERS[source], NUMBERS[target], [value], dtype)


def sample(value):
    """Something of a value's type for numpy to tell the type of a result: an array, or a weak number."""
    if not isinstance(value, Value):
        return value
    return value.sample["number"] if value.dtype is None else np.ones(1, value.dtype)


def program_of(op, args):
    """The plan of a record for operands like these, or None."""
    try:
        return build(op, args)
    except (NotAProgram, TypeError, ValueError, OverflowError, AttributeError, RuntimeError):
        return None


def build(op, args):
    compute, (result,) = computation(op, args)
    builder, values, numbers = Builder(compute or result), [], {}
    for k, (p, a) in enumerate(zip(op.params, args)):
        values.append(placeholder(builder, k, p, a, compute, numbers))
    out = op.fn(builder, *values)
    if not isinstance(out, Value) or out.dtype is None:
        raise NotAProgram("the result is a number")
    out = on_halves(builder, result, out)
    if out.dtype != result.numpy or out.place[0] != "temp":
        out = builder.move(out, result.numpy)
    return assemble(builder, args, numbers, out, result)


def on_halves(builder, result, out):
    """Where a few steps are one loop over halves, or over floats, that; else the value as it is."""
    halves = result in (dtypes.float16, dtypes.bfloat16)
    rules = (on_sign_bits, on_direction, on_pairs, on_choice) if halves else (on_direction,) if result is dtypes.float32 else ()
    return next((found for rule in rules if (found := rule(builder, result, out)) is not None), out)


def on_sign_bits(builder, result, out):
    """A half whose sign alone changes does not become a float for it."""
    if len(builder.steps) != 2:
        return None
    (source, _, operands, middle), (function, _, inner, _) = builder.steps
    name = _SIGN_BITS.get(function) if isinstance(function, np.ufunc) else None
    if name is None or type(source) is not int or inner != (middle,) or operands[0][0] != "arg" or source != NUMBERS[result]:
        return None
    return instead(builder, result, name, operands)


def on_direction(builder, result, out):
    """The sign, 0 of NaN, is told by the bits of a half, and by comparisons of a float with 0."""
    half, steps = widened(builder, result), builder.steps
    if (
        [len(step[2]) for step in steps[-3:]] != [2, 1, 3]
        or len(steps) != 3 + len(half)
        or len(half) > 1
        or out.place != steps[-1][3]
    ):
        return None
    (same, _, compared, known), (sign, _, signed, found), (choice, _, (condition, value, other), _) = steps[-3:]
    x, source = next(iter(half.items()), (signed[0], signed[0]))
    told = same is np.equal and compared == (x, x) and sign == "sign f->f" and signed == (x,)
    zero = other[0] == "const" and builder.constants[other[1]] == 0
    if not (told and zero and choice == -1 and (condition, value) == (known, found) and source[0] == "arg"):
        return None
    name = "direction" if result is dtypes.float32 else "sign"
    return instead(builder, result, f"{name} {result.numpy.char}->{result.numpy.char}", (source,))


def on_pairs(builder, result, out):
    """One operation on two halves, or on one and a number, is one loop."""
    half = widened(builder, result)
    if result is not dtypes.float16 or not half or len(builder.steps) != len(half) + 1:
        return None
    function, _, inner, _ = builder.steps[-1]
    if len(inner) != 2 or not set(half) <= set(inner) or not (isinstance(function, np.ufunc) or type(function) is str):
        return None
    name = function.split()[0] if isinstance(function, str) else function.__name__
    name = f"{name} {''.join('e' if place in half else 'f' for place in inner)}->e"
    return instead(builder, result, name, tuple(half.get(place, place) for place in inner)) if name in _OWN else None


def on_choice(builder, result, out):
    """What is chosen among halves and numbers is a half at once; a conversion that nothing reads then goes."""
    half, steps = widened(builder, result), builder.steps
    if not steps or steps[-1][0] != -1 or steps[-1][1] != 4 or out.place != steps[-1][3]:
        return None
    condition, *choices = steps[-1][2]
    if not any(place in half for place in choices) or any(place[0] == "temp" and place not in half for place in choices):
        return None
    steps.pop()
    halves = [
        Value(builder, half[place], result.numpy)
        if place in half
        else builder.move(Value(builder, place, np.dtype(np.float32)), result.numpy)
        for place in choices
    ]
    out = builder.emit(-1, 2, [Value(builder, condition, np.dtype(bool)), *halves], result.numpy)
    read = {place for _, _, places, _ in steps for place in places}
    builder.steps = [step for step in steps if step[3] in read or step[3] == out.place]
    return out


def widened(builder, result):
    """Of the halves of the result's type that are operands: where their floats are -> the operand."""
    return {
        target: places[0]
        for what, to, places, target in builder.steps
        if type(what) is int and what == NUMBERS[result] and to == NUMBERS[dtypes.float32] and places[0][0] == "arg"
    }


def instead(builder, result, name, places):
    """One loop in the place of all steps."""
    builder.steps, builder.sizes = [], []
    return builder.emit(name, 0, [Value(builder, place, None) for place in places], result.numpy)


def placeholder(builder, k, p, a, compute, numbers):
    if isinstance(a, Tensor):
        if a._fl_dtype.is_complex or (compute is not None and compute.is_complex):
            raise NotAProgram("complex")
        value = Value(builder, ("arg", k), a._fl_array.dtype)
        if compute is not None and p.promotes and a._fl_dtype is not compute:
            return builder.cast(value, compute.numpy)
        return value
    if a is None:
        return None
    if not is_number(a) or isinstance(a, bool):
        raise NotAProgram("an argument that is no number")
    numbers[k] = {"number": 1.5 if isinstance(a, float) else 2}
    return Value(builder, ("arg", k), None, numbers[k])


def assemble(builder, args, numbers, out, result):
    """Registers get numbers: arguments, constants, temporaries (the last use frees one), the output last."""
    count, constants = len(args), len(builder.constants)
    if any("read as" not in n for n in numbers.values()):
        raise NotAProgram("a number that nothing reads")
    last_use = {}
    for k, (_, _, places, _) in enumerate(builder.steps):
        last_use.update(dict.fromkeys(places, k))
    places, free, sizes = {}, [], []
    final = builder.steps[-1][3]
    if final != out.place:
        raise NotAProgram("the result is not the last step")
    steps = []

    def number(place):
        kind, k = place
        return k if kind == "arg" else count + k if kind == "const" else count + constants + places[place]

    for k, (what, which, sources, target) in enumerate(builder.steps):
        operands = tuple(number(p) for p in sources)
        for place in set(sources):
            if place[0] == "temp" and last_use[place] == k:
                free.append(places[place])
        if target != final:
            size = builder.sizes[target[1]]
            spot = next((r for r in free if sizes[r] == size), None)
            if spot is None:
                spot = len(sizes)
                sizes.append(size)
            else:
                free.remove(spot)
            places[target] = spot
        steps.append((what, which, operands, target))
    last = count + constants + len(sizes)
    steps = tuple((w, n, ops, last if t == final else count + constants + places[t]) for w, n, ops, t in steps)
    item_sizes = (*[0] * count, *[c.itemsize for c in builder.constants], *sizes, result.itemsize)
    read = tuple(NUMBERS[dtypes.from_numpy(numbers[k]["read as"])] if k in numbers else -1 for k in range(count))
    return count, tuple(builder.constants), item_sizes, read, steps, NUMBERS[result], builder.divisor
