"""Reductions in C++: for every combine of `eager.op.prims.COMBINES`, its accumulators, updates and finish.

Inside a row ("inner"), accumulators are a few independent registers `name_a[slot]`, folded to one number at the
end; over columns they are arrays `name_a[slot]` over the vectors of a block and are not folded. Welford and
logsumexp take two passes over the row (mean, then squares of differences; maximum, then exponentials): the values
are in cache, and exact.
"""

from __future__ import annotations

from typing import Any

from ...runtime.errors import InternalError
from ..loops.body import reachable
from ..loops.ir import Reduce
from .prims import COSTS, Type, convert, splat, type_of
from .cpp_text import Lines, cpp

CHEAP = 12  # cost of an element that may be computed once more to find where the best one stands
INT_RANGE = {"int64": 64, "int32": 32, "int16": 16, "int8": 8}


def lowest(dtype: Any) -> Any:
    if dtype.is_floating_point:
        return float("-inf")
    return -(2 ** (INT_RANGE[dtype.name] - 1)) if dtype.name in INT_RANGE else 0


def highest(dtype: Any) -> Any:
    if dtype.is_floating_point:
        return float("inf")
    if dtype.name == "bool":
        return True
    return 2 ** (INT_RANGE[dtype.name] - 1) - 1 if dtype.name in INT_RANGE else 2 ** (8 * dtype.itemsize) - 1


class Accumulator:
    """One running value: how it starts, takes a register, and folds its lanes into one number."""

    def __init__(self, name: str, dtype: Any, start: Any, update: str, fold: str):
        self.name, self.dtype, self.type = name, dtype, type_of(dtype)
        self.start = splat(start, self.type.kind)
        self.update_text, self.fold = update, fold

    def combined(self, a: str, b: str) -> str:
        return self.update_text.format(a=a, b=b)


class Reducer:
    """A reduction with one pass and one accumulator; subclasses have more."""

    phases = 1
    independent = True  # several accumulators side by side give the same result

    def __init__(self, reduce: Reduce, nest: Any):
        self.reduce, self.nest = reduce, nest
        self.names = [
            nest.kernel.acc_name(name, reduce.combine if k == 0 else f"{reduce.combine}_{k}")
            for k, name in enumerate(reduce.names)
        ]
        self.accumulators = self.make()

    def make(self) -> list[list[Accumulator]]:
        """The accumulators of each phase."""
        start, update, fold = simple(self.reduce.combine, self.reduce.dtypes[0])
        return [[Accumulator(self.names[0], self.reduce.dtypes[0], start, update, fold)]]

    def until(self, phase: int) -> bool:
        """Whether a pass may end before the row does."""
        return False

    @property
    def slot(self) -> str:
        return "slot"

    def value(self, k: int, target: Type) -> str:
        value = self.reduce.values[k]
        return convert(self.nest.texts[value.id], type_of(value.dtype), target)

    def declare(self, out: Lines, phase: int) -> None:
        for a in self.accumulators[phase]:
            if self.nest.columns:
                out(f"{a.type.register} {a.name}_a[COLUMNS];")
                out(f"for (int b = 0; b < COLUMNS; b++) {a.name}_a[b] = {a.start};")
            else:
                copies = ", ".join([a.start] * self.nest.unroll)
                out(f"{a.type.register} {a.name}_a[{self.nest.unroll}] = {{{copies}}};")

    def update(self, out: Lines, phase: int) -> None:
        a = self.accumulators[phase][0]
        self.take(out, a, self.operand(out, a, phase))

    def operand(self, out: Lines, a: Accumulator, phase: int) -> str:
        return self.value(0, a.type)

    def take(self, out: Lines, a: Accumulator, value: str) -> None:
        place = f"{a.name}_a[{self.slot}]"
        alive = value if self.nest.columns or not self.nest.axes else f"keep(lanes, {value}, {a.start})"
        slot = place if self.nest.axes else f"{a.name}_a[0]"
        out(f"{slot} = {a.combined(slot, alive)};")

    def close(self, out: Lines, phase: int) -> None:
        """After the loops of a phase: one register with the result in all lanes."""
        if self.nest.columns:
            return
        for a in self.accumulators[phase]:
            folded = self.folded(a)
            rounded = f"{a.type.after}({folded})" if a.type.after else folded
            out(f"const {a.type.register} {a.name} = {rounded};")

    def folded(self, a: Accumulator) -> str:
        """All registers and lanes of an accumulator as one number in all lanes."""
        parts = [f"{a.name}_a[{k}]" for k in range(self.nest.unroll)]
        while len(parts) > 1:
            parts = [a.combined(f"({x})", f"({y})") for x, y in zip(parts[::2], parts[1::2])]
        return f"splat_{'i' if a.type.kind == 'b' else a.type.kind}({a.fold}({parts[0]}))" if self.nest.axes else parts[0]

    def finish(self, out: Lines) -> None:
        if self.nest.columns:
            for a in (a for phase in self.accumulators for a in phase):
                if a.type.after:
                    out(f"for (int b = 0; b < COLUMNS; b++) {a.name}_a[b] = {a.type.after}({a.name}_a[b]);")


def simple(combine: str, dtype: Any) -> tuple[Any, str, str]:
    """(start, update, fold) of the one-pass combines."""
    kind = type_of(dtype).kind
    plus, times = ("add_i({a}, {b})", "mul_i({a}, {b})") if kind == "i" else ("{a} + {b}", "{a} * {b}")
    if kind == "b":
        table = {
            "any": (False, "{a} | {b}", "fold_or"),
            "all": (True, "{a} & {b}", "fold_and"),
            "max": (False, "{a} | {b}", "fold_or"),
            "min": (True, "{a} & {b}", "fold_and"),
            "sum": (False, "{a} | {b}", "fold_or"),
            "prod": (True, "{a} & {b}", "fold_and"),
        }
    else:
        table = {
            "sum": (0, plus, "fold_add"),
            "prod": (1, times, "fold_mul"),
            # a value that is NaN stays; so nothing but one instruction waits for the accumulator
            "max": (lowest(dtype), "v_maximum({b}, {a})", "fold_max"),
            "min": (highest(dtype), "v_minimum({b}, {a})", "fold_min"),
        }
    if combine not in table:
        raise InternalError(f"reduction {combine} over {dtype.name} has no C++ form")
    return table[combine]


class ArgExtreme(Reducer):
    """argmax and argmin: the best key with its position."""

    independent = False

    def make(self) -> list[list[Accumulator]]:
        key, position = self.reduce.dtypes
        greatest = self.reduce.combine == "argmax"
        best = Accumulator(self.names[0], key, lowest(key) if greatest else highest(key), "", "")
        if best.type.kind == "b":  # keys are 0 and 1 here, where masks are 0 and -1
            best.start = splat(0 if greatest else 1, "i")
        return [[best, Accumulator(self.names[1], position, 2**63 - 1, "", "")]]

    def update(self, out: Lines, phase: int) -> None:
        best, at = self.accumulators[0]
        slot = self.slot if self.nest.axes else "0"
        key, position = self.value(0, best.type), self.value(1, at.type)
        if best.type.kind == "b":
            key = f"truth_i({key})"
        take = self.nest.kernel.value_name("take")
        best_text, at_text = f"{best.name}_a[{slot}]", f"{at.name}_a[{slot}]"
        which = "take_max" if self.reduce.combine == "argmax" else "take_min"
        out.open(f"if (may_{which}({key}, {best_text}))")
        out(f"vi {take};")
        out(f"{which}({take}, {key}, {best_text}, {position}, {at_text});")
        if self.nest.axes and not self.nest.columns:
            out(f"{take} &= alive(lanes);")
        out(f"{best_text} = v_where({take}, {key}, {best_text});")
        out(f"{at_text} = v_where({take}, {position}, {at_text});")
        out.close()

    def close(self, out: Lines, phase: int) -> None:
        best, at = self.accumulators[0]
        if self.nest.columns:
            return
        if self.nest.axes:
            out(f"fold_arg({best.name}_a[0], {at.name}_a[0], {'true' if self.reduce.combine == 'argmax' else 'false'});")
        key = f"{best.name}_a[0]"
        out(f"const {best.type.register} {best.name} = {f'-{key}' if best.type.kind == 'b' else key};")
        out(f"const {at.type.register} {at.name} = {at.name}_a[0];")

    def finish(self, out: Lines) -> None:
        best = self.accumulators[0][0]
        if self.nest.columns and best.type.kind == "b":
            out(f"for (int b = 0; b < COLUMNS; b++) {best.name}_a[b] = -{best.name}_a[b];")


class TwoPass(Reducer):
    """Reductions whose second pass needs the result of the first."""

    phases = 2

    def each(self, out: Lines, a: Accumulator, expression: str) -> str:
        """A register (inner) or an array (columns) named like the accumulator, from `expression` over its slot
        `{x}`.
        """
        if self.nest.columns:
            out(f"for (int b = 0; b < COLUMNS; b++) {a.name}_a[b] = {expression.format(x=f'{a.name}_a[b]')};")
            return f"{a.name}_a[b]"
        out(f"const {a.type.register} {a.name} = {expression.format(x=f'{a.name}_t')};")
        return a.name

    def close(self, out: Lines, phase: int) -> None:
        a = self.accumulators[phase][0]
        if not self.nest.columns:
            out(f"const {a.type.register} {a.name}_t = {self.folded(a)};")
        self.between(out, phase, a)

    def between(self, out: Lines, phase: int, a: Accumulator) -> None:
        raise InternalError("a two-pass reduction says what happens between its passes")


class TwoPassArgExtreme(TwoPass):
    """argmax and argmin along a row whose values cost little: the best key, then where it stands first. Of two NaN, each is the
    other here."""

    def make(self) -> list[list[Accumulator]]:
        key, position = self.reduce.dtypes
        start, update, fold = simple(self.reduce.combine.removeprefix("arg"), key)
        return [
            [Accumulator(self.names[0], key, start, update, fold)],
            [Accumulator(self.names[1], position, 2**63 - 1, "v_minimum({a}, {b})", "fold_min")],
        ]

    def update(self, out: Lines, phase: int) -> None:
        if phase == 0:
            return super().update(out, phase)
        (best,), (at,) = self.accumulators
        key, place = self.value(0, best.type), f"{at.name}_a[{self.slot}]"
        hit = self.nest.kernel.value_name("hit")
        out.open(f"if (may_be_{self.reduce.combine.removeprefix('arg')}({key}, {best.name}))")
        out(f"const vi {hit} = is_best({key}, {best.name}) & alive(lanes);")
        out(f"{place} = {at.combined(place, f'v_where({hit}, {self.value(1, at.type)}, {at.start})')};")
        if self.nest.until:
            out(f"if (any_lane({hit})) return true;")
        out.close()

    def until(self, phase: int) -> bool:
        return phase == 1

    def close(self, out: Lines, phase: int) -> None:
        Reducer.close(self, out, phase)

    @staticmethod
    def serves(reduce: Reduce, nest: Any) -> bool:
        cost = sum(COSTS.get(v.op, 1) for v in reachable(reduce.values))
        return bool(nest.axes) and not nest.columns and cost <= CHEAP and type_of(reduce.dtypes[0]).kind != "b"


class Welford(TwoPass):
    """mean, then the sum of squared differences from it; the count is known."""

    def make(self) -> list[list[Accumulator]]:
        mean, m2, _ = self.reduce.dtypes
        return [
            [Accumulator(self.names[0], mean, 0, "{a} + {b}", "fold_add")],
            [Accumulator(self.names[1], m2, 0, "{a} + {b}", "fold_add")],
        ]

    def operand(self, out: Lines, a: Accumulator, phase: int) -> str:
        x = self.value(0, a.type)
        if phase == 0:
            return x
        mean = f"{self.names[0]}_a[slot]" if self.nest.columns else self.names[0]
        d = self.nest.kernel.value_name("difference")
        out(f"const {a.type.register} {d} = {x} - {mean};")
        return f"{d} * {d}"

    def between(self, out: Lines, phase: int, a: Accumulator) -> None:
        n = cpp(self.nest.kernel.renamed(self.nest.count_text()), self.nest.bounds)
        number = f"splat_{a.type.kind}(({'double' if a.type.kind == 'd' else 'float'})({n}))"
        self.each(
            out,
            a,
            f"{{x}} / {number}" if phase == 0 else f"v_where(splat_b(({n}) > 0), {{x}}, {splat(float('nan'), a.type.kind)})",
        )

    def finish(self, out: Lines) -> None:
        count = type_of(self.reduce.dtypes[2])
        n = cpp(self.nest.kernel.renamed(self.nest.count_text()), self.nest.bounds)
        text = f"splat_{count.kind}({n})"
        if self.nest.columns:
            out(f"{count.register} {self.names[2]}_a[COLUMNS];")
            out(f"for (int b = 0; b < COLUMNS; b++) {self.names[2]}_a[b] = {text};")
        else:
            out(f"const {count.register} {self.names[2]} = {text};")


class LogSumExp(TwoPass):
    """The maximum, then the logarithm of the sum of exponentials of the differences from it."""

    def make(self) -> list[list[Accumulator]]:
        dtype = self.reduce.dtypes[0]
        self.top = self.nest.kernel.value_name("top")
        self.same = None if self.nest.columns else self.greatest()
        # a NaN that the maximum skips comes back with the exponentials
        greater = "raw_max({b}, {a})" if type_of(dtype).kind == "f" else "v_maximum({a}, {b})"
        return [
            [Accumulator(self.top, dtype, float("-inf"), greater, "fold_max")],
            [Accumulator(self.names[0], dtype, 0, "{a} + {b}", "fold_add")],
        ]

    def greatest(self) -> Reduce | None:
        """A reduction of this step that gives the maximum of the same values anyway."""
        value, dtype = self.reduce.values[0], self.reduce.dtypes[0]
        found = (r for r in self.nest.step.reduces if r.combine == "max" and r.dtypes[0] is dtype)
        return next((r for r in found if r.values[0] is value), None)

    def declare(self, out: Lines, phase: int) -> None:
        if phase or self.same is None:
            super().declare(out, phase)

    def update(self, out: Lines, phase: int) -> None:
        if phase or self.same is None:
            super().update(out, phase)

    def close(self, out: Lines, phase: int) -> None:
        if phase or self.same is None:
            return super().close(out, phase)
        a = self.accumulators[0][0]
        out(f"const {a.type.register} {a.name}_t = {self.nest.kernel.acc_name(self.same.names[0], 'max')};")
        self.between(out, phase, a)

    def top_text(self, slot: str) -> str:
        return f"{self.top}_a[{slot}]" if self.nest.columns else self.top

    def operand(self, out: Lines, a: Accumulator, phase: int) -> str:
        x = self.value(0, a.type)
        return x if phase == 0 else f"v_exp({x} - {self.top_text('slot')})"

    def between(self, out: Lines, phase: int, a: Accumulator) -> None:
        kind = a.type.kind
        zero, inf = splat(0, kind), splat(float("inf"), kind)
        # an infinite or NaN maximum must not be subtracted: inf - inf is NaN
        self.each(
            out, a, f"v_where(v_abs({{x}}) < {inf}, {{x}}, {zero})" if phase == 0 else f"v_log({{x}}) + {self.top_text('b')}"
        )


REDUCERS = {"argmax": ArgExtreme, "argmin": ArgExtreme, "welford": Welford, "logsumexp": LogSumExp}


def reducer_of(reduce: Reduce, nest: Any) -> Reducer:
    found = REDUCERS.get(reduce.combine, Reducer)
    return (TwoPassArgExtreme if found is ArgExtreme and TwoPassArgExtreme.serves(reduce, nest) else found)(reduce, nest)
