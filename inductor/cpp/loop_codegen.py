"""One loop nest of a kernel as C++: plain loops over the outer axes, one vector loop with masked tail innermost.

In: a step, its axes in loop order, how accumulators are kept. Out: lines. The idea: every value is a vector
register with all lanes of the innermost axis; a value is written at the outermost loop that knows all that it
depends on, where its lanes are equal. Loads are contiguous, one element for all lanes, or gathered lane by lane, as
the stride says.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any
from collections.abc import Callable

from ...capture.shapes.expr import Atom, Expr, ExprLike, from_atom, is_const, lift, int_if_const, product
from ...runtime.dataclass import data
from ..loops.body import Buffer, Value, reachable
from ..loops.ir import Axis, Step, Store
from .prims import COSTS, TYPES, Type, apply, convert, splat, type_of
from .loop_invariants import held_values, without
from .loop_fission import Stage, stages_of
from .reductions import Reducer, reducer_of
from .cpp_text import Lines, cpp, factor
from .prefetch import FEW_ROWS, Prefetch, exceeds_caches


EXACT = 2**50  # numbers below are divided exactly in lanes of doubles
COPIED = 512  # elements of a row from which the C library copies it
TOGETHER_COST = 16  # of one point, up to which a block of columns takes several rows at a time
CHEAP_MAP = 8  # cost of an element of a map up to which four vectors are taken a step
STAGED = 32  # elements of a row from which a map of several long functions is made in stages
GROUPED, GROUPED_COST = 64, 24  # elements of a row, at most so dear, from which bytes of four registers are stored together


@data
class LaneAddress:
    """How an address depends on the lane: `kind` is same, next (stride 1), stride or any; with the lane's index as
    text.
    """

    kind: str
    at: str
    stride: str = ""

    @property
    def near(self) -> bool:
        """A few elements from one lane to the next."""
        return self.kind == "stride" and self.stride in ("2", "3", "4")


class StepWriter:
    """Writes one step. `kernel` gives names; `acc(value)` the text of an accumulator read at the innermost level.

    `first`/`last` bound the innermost axis; `columns`: the innermost axis is an outer axis of the kernel whose
    points lie side by side in a block (column reductions), accumulators are arrays over the vectors of the block.
    `aligned`: `first` is a multiple of the vector's width.
    """

    def __init__(
        self,
        kernel: Any,
        step: Step,
        axes: tuple[Axis, ...],
        outer: tuple[Axis, ...],
        first: str = "0",
        last: str | None = None,
        columns: bool = False,
        acc: Callable[[Value], str | None] | None = None,
        squares: dict | None = None,
        ahead: Prefetch | None = None,
        aligned: bool = True,
    ):
        self.kernel, self.step, self.axes, self.columns, self.acc = kernel, step, axes, columns, acc
        self.bounds = kernel.bounds(outer, step)
        self.depth = {axis.name: k + 1 for k, axis in enumerate(axes)}
        self.inner = len(axes)
        self.first, self.squares, self.ahead, self.aligned = first, squares, ahead, aligned
        self.last = last if last is not None else (cpp(axes[-1].extent, self.bounds) if axes else "1")
        self.levels: dict[int, int] = {}
        self.texts: dict[int, str] = {}
        self.words: dict[tuple, str] = {}  # four random words by the texts of seed, ordinal and index
        self.indirects: dict[str, Value] = {}
        self.numbered: set[str] = set()  # indirect indices whose numbers stand side by side in memory
        self.unroll = 1
        self.until = False  # a row is walked until its one reduction has found what it looks for
        self.rounded: set[int] = set()
        self.groups: dict[Store, str] = {}  # arrays of registers whose bytes are stored together

    # -- where values belong

    def level(self, value: Value) -> int:
        found = self.levels.get(value.id)
        if found is None:
            own = [self.level_of_expr(e) for e in exprs_of(value)]
            if value.op == "acc" and (self.columns or (self.acc and self.acc(value))):
                own.append(self.inner)
            if value.op == "load" and self.columns and value.attrs.buffer in self.kernel.locals:
                own.append(self.inner)
            found = self.levels[value.id] = max([0, *own, *(self.level(a) for a in value.args)])
        return found

    def level_of_expr(self, e: ExprLike) -> int:
        if not isinstance(e, Expr):
            return 0
        return max((self.depth.get(name, 0) for name in e.free_names()), default=0)

    # -- the nest

    def write(self, out: Lines) -> None:
        """All phases of the step: most reductions need one, two-pass ones (welford, logsumexp) a second."""
        reducers = [reducer_of(r, self) for r in self.step.reduces]
        reducers.sort(key=lambda r: r.phases)  # a maximum is known when a logsumexp takes it over
        phases = max([1, *(r.phases for r in reducers)])
        for phase in range(phases):
            active = [r for r in reducers if phase < r.phases]
            stores = self.step.stores if phase == phases - 1 else ()
            self.write_phase(out, phase, active, stores)
        for reducer in reducers:
            reducer.finish(out)

    def write_phase(self, out: Lines, phase: int, reducers: list[Reducer], stores: tuple[Store, ...]) -> None:
        self.texts.clear()
        self.words.clear()
        needed = self.needed(reducers, stores)
        self.rounded = rounded_by_stores(needed, reducers, stores)
        self.until = self.inner == 1 and not stores and len(reducers) == 1 and reducers[0].until(phase)
        self.unroll = 1 if self.until else self.accumulators(needed, reducers)
        for reducer in reducers:
            reducer.declare(out, phase)
        self.guard(out)
        if not self.axes:
            self.write_values(out, needed, 0)
            self.write_effects(out, phase, reducers, stores)
        else:
            self.write_loops(out, phase, needed, reducers, stores)
        out.close()
        for reducer in reducers:
            reducer.close(out, phase)

    def needed(self, reducers: list[Reducer], stores: tuple[Store, ...]) -> list[Value]:
        part = Step(self.step.axes, stores, tuple(r.reduce for r in reducers), self.step.looks)
        return part.values()

    def guard(self, out: Lines) -> None:
        """Open a block; values written ahead of a loop must not be computed where the loop runs zero times."""
        unsure = [axis for axis in self.axes if not self.bounds.nonnegative(lift(axis.extent) - 1)]
        conditions = " && ".join(f"{factor(axis.extent)} > 0" for axis in unsure)
        out.open(f"if ({conditions})" if conditions else "")

    def accumulators(self, values: list[Value], reducers: list[Reducer]) -> int:
        """Vectors that a step of the innermost loop takes: of sums as many accumulators, of cheap maps to keep loads ahead."""
        if self.columns or not all(r.independent for r in reducers):
            return 1
        cost = sum(COSTS.get(v.op, 1) for v in values if self.level(v) == self.inner)
        if not reducers:
            return 4 if cost <= CHEAP_MAP else 1
        return 4 if cost <= 16 else 2 if cost <= 48 else 1

    def write_loops(
        self, out: Lines, phase: int, values: list[Value], reducers: list[Reducer], stores: tuple[Store, ...]
    ) -> None:
        self.write_values(out, values, 0)
        if self.copies(reducers, stores):
            return self.write_copies(out, values, stores[0])
        values = self.write_held(out, values, reducers, stores)
        together = self.together(values, reducers, stores)
        self.groups = self.grouped(values, reducers, stores)
        stages = self.staged(values, reducers, stores)
        loops = self.axes[:-2] if together else self.axes[:-1]
        for k, axis in enumerate(loops):
            out.open(f"for (i64 {axis.name} = 0; {axis.name} < {cpp(axis.extent, self.bounds)}; {axis.name}++)")
            self.write_values(out, values, k + 1)
        if stages:
            self.write_stages(out, stages, stores)
            return self.close(out, loops)
        for group in self.groups.values():
            out(f"vi {group}[4];")
        out.open(f"{self.row_loop() if together else self.vector_loop(self.axes[-1].name)} FB_BODY")
        self.write_values(out, values, self.inner)
        self.write_ahead(out, phase)
        self.write_effects(out, phase, reducers, stores)
        if self.until:
            out("return false;")
        out.close(");")
        self.close(out, loops)

    def close(self, out: Lines, loops: tuple[Axis, ...]) -> None:
        for _ in loops:
            out.close()

    def write_held(self, out: Lines, values: list[Value], reducers: list[Reducer], stores: tuple[Store, ...]) -> list[Value]:
        """In a block of columns, compute what depends on the column alone once. The values that the loops over rows are left
        with."""
        if not self.columns or self.inner < 2:
            return values
        roots = Step(self.step.axes, stores, tuple(r.reduce for r in reducers), self.step.looks).roots()
        rows, written = {axis.name for axis in self.axes[:-1]}, {s.buffer.name for s in stores}
        found = held_values(values, roots, rows, written, lambda v: self.level(v) == self.inner and v.id not in self.rounded)
        if not found:
            return values
        names = {v.id: self.kernel.value_name("held") for v in found}
        for value in found:
            out(f"{type_of(value.dtype).register} {names[value.id]}[COLUMNS];")
        texts = dict(self.texts)
        out.open(f"{self.vector_loop(self.axes[-1].name)} FB_BODY")
        self.write_values(out, reachable(found), self.inner)
        for value in found:
            out(f"{names[value.id]}[slot] = {self.texts[value.id]};")
        out.close(");")
        self.texts = texts | {ident: f"{name}[slot]" for ident, name in names.items()}
        return without(found, values, roots)

    # -- maps in stages

    def staged(self, values: list[Value], reducers: list[Reducer], stores: tuple[Store, ...]) -> list[Stage]:
        """The loops that a map of several long functions, one of the other, is computed in."""
        extent = self.axes[-1].extent
        if self.columns or self.squares is not None or self.ahead or reducers or self.step.looks or self.until or self.groups:
            return []
        if type(extent) is int and extent < STAGED:
            return []
        indices = [v for s in stores for v in s.value.body.indirect_args(s.index)]
        return [] if indices else stages_of(values, [s.value for s in stores], lambda v: self.level(v) == self.inner)

    def write_stages(self, out: Lines, stages: list[Stage], stores: tuple[Store, ...]) -> None:
        """Loops over a block, one after the other; what one keeps for another stands in an array of the block's size."""
        name = self.axes[-1].name
        texts, start, end = dict(self.texts), self.kernel.value_name("block_start"), self.kernel.value_name("block_end")
        out.open(f"for (i64 {start} = {self.first}; {start} < {self.last}; {start} += STAGE)")
        out(f"const i64 {end} = fb_min({start} + STAGE, i64({self.last}));")
        at = f"({name} - {start})"
        rooms: dict[int, str] = {}
        for stage in stages:
            for value in stage.keeps:
                rooms[value.id] = self.kernel.value_name("kept")
                out(f"alignas(64) float {rooms[value.id]}[STAGE];")
            self.texts = dict(texts)
            out.open(f"each_vector<1>({start}, {end}, [&](i64 {name}, auto lanes, int slot) FB_BODY")
            for value in stage.values:
                for a in value.args:
                    self.read_kept(out, a, rooms, at)
                self.write_values(out, [value], self.inner)
            for value in stage.keeps:
                out(f"st({rooms[value.id]} + {at}, {self.texts[value.id]}, Full{{}});")
            if stage is stages[-1]:
                for store in stores:
                    self.read_kept(out, store.value, rooms, at)
                    self.write_store(out, store)
            out.close(");")
        out.close()

    def read_kept(self, out: Lines, value: Value, rooms: dict[int, str], at: str) -> None:
        """Make the register of a value that an earlier stage kept."""
        if value.id in rooms and value.id not in self.texts:
            self.texts[value.id] = self.kernel.value_name(value.op)
            out(f"const vf {self.texts[value.id]} = ld({rooms[value.id]} + {at}, Full{{}});")

    def together(self, values: list[Value], reducers: list[Reducer], stores: tuple[Store, ...]) -> bool:
        """Whether a block of columns takes several rows at a time: cheap sums with nothing to compute once a row."""
        if not self.columns or self.inner < 2 or not reducers or stores:
            return False
        cost = sum(COSTS.get(v.op, 1) for v in values if self.level(v) == self.inner)
        return cost <= TOGETHER_COST and all(self.level(v) != self.inner - 1 or v.op == "const" for v in values)

    def grouped(self, values: list[Value], reducers: list[Reducer], stores: tuple[Store, ...]) -> dict[Store, str]:
        """The stores of bytes next to each other, of a cheap step that only stores: a name for the registers of each."""
        extent = self.axes[-1].extent
        if self.columns or self.squares is not None or self.ahead or reducers or self.step.looks or self.until:
            return {}
        if type(extent) is int and extent < GROUPED or sum(COSTS.get(v.op, 1) for v in values) > GROUPED_COST:
            return {}
        bytes_ = [
            s
            for s in stores
            if s.mode == "set"
            and type_of(s.buffer.dtype).c in ("bool", "u8", "i8")
            and self.place(self.kernel.linear(s.buffer, s.index, False)).kind == "next"
        ]
        return {s: f"bytes{k}" for k, s in enumerate(bytes_)}

    # -- rows that are moved as they are

    def copies(self, reducers: list[Reducer], stores: tuple[Store, ...]) -> bool:
        """Whether all that happens along the innermost axis is that neighbours are copied, or zeros are written, from where the
        loops around it say: the C library moves long rows without fetching what it overwrites."""
        extent = self.axes[-1].extent
        if self.columns or self.squares or self.ahead or reducers or self.step.looks or len(stores) != 1:
            return False
        if type(extent) is not int or extent < COPIED:
            return False
        store = stores[0]
        if store.buffer.name in self.kernel.streams and exceeds_caches(self.kernel.kernel):
            return False
        known = all(self.level(v) < self.inner for v in store.value.body.indirect_args(store.index))
        if store.mode != "set" or not known or not self.is_copied(store.value, store.buffer):
            return False
        return self.place(self.kernel.linear(store.buffer, store.index, False)).kind == "next"

    def is_copied(self, value: Value, into: Buffer) -> bool:
        if value.op == "const":
            return not value.attrs and math.copysign(1, value.attrs) == 1
        if value.op == "where":
            condition, *sides = value.args
            return self.level(condition) < self.inner and all(self.is_copied(side, into) for side in sides)
        if value.op != "load" or value.attrs.buffer.dtype is not into.dtype or value.attrs.buffer == into:
            return False
        load = value.attrs
        if load.masked and (load.other or math.copysign(1, load.other) < 0):
            return False
        if any(self.level(a) == self.inner for a in value.args):
            return False
        return self.place(self.kernel.linear(load.buffer, load.index, False)).kind == "next"

    def write_copies(self, out: Lines, values: list[Value], store: Store) -> None:
        for k, axis in enumerate(self.axes[:-1]):
            out.open(f"for (i64 {axis.name} = 0; {axis.name} < {cpp(axis.extent, self.bounds)}; {axis.name}++)")
            self.write_values(out, values, k + 1)
        name = self.axes[-1].name
        out(f"const i64 {name} = {self.first}, {name}_count = ({self.last}) - {name};")
        out.open(f"if ({name}_count > 0)")
        at = self.pointer(store.buffer, self.place(self.kernel.linear(store.buffer, store.index, False)).at)
        self.write_copy(out, store.value, at, f"{name}_count * sizeof({type_of(store.buffer.dtype).c})")
        for _ in self.axes:
            out.close()

    def write_copy(self, out: Lines, value: Value, at: str, size: str) -> None:
        choice = value.args[0] if value.op == "where" or value.op == "load" and value.attrs.masked else None
        if choice is not None:
            out.open(f"if (lane({self.texts[choice.id]}, 0) != 0)")
            if value.op == "where":
                self.write_copy(out, value.args[1], at, size)
                out.close(" else {")
                out.depth += 1
                self.write_copy(out, value.args[2], at, size)
                return out.close()
        if value.op == "load":
            source = self.place(self.kernel.linear(value.attrs.buffer, value.attrs.index, False)).at
            # (linked without version numbers, `memcpy` is the C library's oldest one, in 128 bits; `memmove` is its best)
            out(f"__builtin_memmove({at}, {self.pointer(value.attrs.buffer, source)}, {size});")
        else:
            out(f"__builtin_memset({at}, 0, {size});")
        if choice is not None:
            out.close(" else {")
            out.depth += 1
            out(f"__builtin_memset({at}, 0, {size});")
            out.close()

    def row_loop(self) -> str:
        """The head of the two innermost loops over a block of columns."""
        row, lane = self.axes[-2:]
        rows = cpp(row.extent, self.bounds)
        function = f"[&](i64 {row.name}, i64 {lane.name}, auto lanes, i64 slot)"
        if isinstance(row.extent, int) and 1 < row.extent <= FEW_ROWS:
            return f"each_few_rows<{row.extent}>({self.first}, {self.last}, {function}"
        return f"each_row_of_columns({rows}, {self.first}, {self.last}, {function}"

    def vector_loop(self, name: str) -> str:
        """The head of the innermost loop, up to its function's parameters."""
        if self.columns:
            return f"each_column({self.first}, {self.last}, [&](i64 {name}, auto lanes, i64 slot)"
        function = f"[&](i64 {name}, auto lanes, int slot)"
        if self.until:
            return f"until_vector({self.first}, {self.last}, {function}"
        if self.squares is not None:
            return f"one_vector({self.first}, {function}"
        if self.groups:
            return f"each_four({self.first}, {self.last}, {function}"
        if self.first == "0" and self.last.isdigit() and self.last != "0":
            return f"each_vector_of<{self.unroll}, {self.last}>({function}"
        return f"each_vector<{self.unroll}>({self.first}, {self.last}, {function}"

    def write_ahead(self, out: Lines, phase: int) -> None:
        """Ask for later rows, in the phases that are to do so."""
        if self.ahead is not None and phase in self.ahead.phases:
            stores = [(b, place) for b, place in self.ahead.stores if b.name not in self.kernel.streams]
            kinds = ((self.ahead.places, f"0, {self.ahead.level}"), (stores, "1, 3"))
            for (buffer, place), kind in ((place, kind) for places, kind in kinds for place in places):
                at = self.kernel.renamed(place - self.kernel.starts.get(buffer.name, 0))
                out(f"__builtin_prefetch({self.pointer(buffer, cpp(at, self.bounds))}, {kind});")

    def write_effects(self, out: Lines, phase: int, reducers: list[Reducer], stores: tuple[Store, ...]) -> None:
        for reducer in reducers:
            reducer.update(out, phase)
        for store in stores:
            self.write_store(out, store)

    def write_values(self, out: Lines, values: list[Value], level: int) -> None:
        for value in values:
            if self.level(value) == level and value.id not in self.texts:
                self.texts[value.id] = self.write_value(out, value)

    # -- values

    def write_value(self, out: Lines, value: Value) -> str:
        """The text that stands for the value; anything but constants becomes a named register."""
        target = type_of(value.dtype)
        if value.op == "const":
            return splat(value.attrs, target.kind)
        if value.op == "acc":
            return (self.acc and self.acc(value)) or self.kernel.acc_text(value, self.columns)
        if value.op == "indirect":
            return self.write_indirect(out, value)
        if value.op == "philox":
            self.write_words(out, value)
        if value.id in self.rounded:
            return convert(self.texts[value.args[0].id], type_of(value.args[0].dtype), TYPES["float32"])
        text, name = self.expression(value, target)
        name = self.kernel.value_name(name)
        out(f"const {target.register} {name} = {text};")
        return name

    def write_words(self, out: Lines, value: Value) -> None:
        """The four words of a counter, once for all draws that take one of them."""
        counter = self.counter(value)
        if counter not in self.words:
            self.words[counter] = self.kernel.value_name("words")
            seed, ordinal, index = counter
            element = value.args[2]
            place = self.place(element.attrs) if element.op == "index" and self.level(element) == self.inner else None
            if place is not None and place.kind == "next":  # neighbours need no lanes of 64 bits
                seed, index = f"philox_keys({seed})", f"i64({place.at})"
            out(f"const Words {self.words[counter]} = philox_words({seed}, {ordinal}, {index});")

    def counter(self, value: Value) -> tuple[str, ...]:
        return tuple(self.texts[a.id] for a in value.args[:3])

    def word(self, value: Value) -> str:
        return f"{self.words[self.counter(value)]}.w[{value.args[3].attrs}]"

    def expression(self, value: Value, target: Type) -> tuple[str, str]:
        """(C++ expression, stem of a name) of a value that is computed."""
        if value.op == "philox":
            return f"unsigned_words({self.word(value)})", "philox"
        if (shift := shifted_word(value, target)) is not None:
            return f"to_f((vi)({self.word(value.args[0].args[0])} >> {shift}))", "cast"
        if value.op == "load":
            return self.load(value, target), f"{self.kernel.buffer(value.attrs.buffer)}_at"
        if value.op == "index":
            return self.index(value.attrs, self.level(value)), "index"
        if value.op == "scalar":
            return self.kernel.scalar(value, target), "scalar"
        if value.op == "cast":
            argument = value.args[0]
            uniform = self.level(value) < self.inner
            return convert(self.texts[argument.id], type_of(argument.dtype), target, uniform), value.op
        operands = [(self.texts[a.id], type_of(a.dtype)) for a in value.args]
        constants = [a.attrs if a.op == "const" else None for a in value.args]
        return apply(value.op, operands, target, constants), value.op

    def index(self, e: Expr, level: int) -> str:
        place = self.place(e)
        if level < self.inner or place.kind == "same":
            return f"splat_l({place.at})"
        if place.kind == "any":
            return self.in_lanes(e) or f"lanes_of({self.lane_function(e)})"
        return f"lanes_from({place.at}, {place.stride or 1})"

    def write_indirect(self, out: Lines, value: Value) -> str:
        """Bind the index variable: a plain number where the value is the same in all lanes, else a register of
        numbers.
        """
        attrs = value.attrs
        name = self.kernel.indirect_name(attrs.name)
        argument = self.texts[value.args[0].id]
        size = cpp(self.kernel.renamed(attrs.size), self.bounds)
        self.indirects[name] = value
        if self.level(value) < self.inner or not self.axes:
            number = f"lane({argument}, 0)"
            checked = f"checked({number}, {size}, {attrs.check}, args.error)" if attrs.check is not None else number
            out(f"const i64 {name} = {checked};")
            return f"splat_l({name})"
        truth = value.args[0].args[0] if value.args[0].op == "cast" else None
        if attrs.check is None:
            checked = argument
        elif size == "1" and truth is not None and type_of(truth.dtype).kind == "b":
            checked = f"refused({self.texts[truth.id]}, {attrs.check}, args.error, lanes)"
        else:
            memory = self.numbers(value.args[0])
            if memory is not None:
                self.numbered.add(name)
                out(f"const i64* const {name}_from = within({memory}, {argument}, {size}, {attrs.check}, args.error, lanes);")
                out(f"const vl {name}_lanes = ld({name}_from, lanes);")
                return f"{name}_lanes"
            checked = f"checked({argument}, {size}, {attrs.check}, args.error, lanes)"
        out(f"const vl {name}_lanes = {checked};")
        return f"{name}_lanes"

    def numbers(self, value: Value) -> str | None:
        """Where the lanes of an index stand in memory, if it is loaded as it is."""
        if value.op != "load" or value.args or value.dtype.name != "int64" or value.attrs.buffer.dtype is not value.dtype:
            return None
        if self.squares and value.id in self.squares:
            return None
        place = self.place(self.kernel.linear(value.attrs.buffer, value.attrs.index, self.columns))
        return self.pointer(value.attrs.buffer, place.at) if place.kind == "next" else None

    # -- addresses

    def place(self, e: ExprLike) -> LaneAddress:
        """How an index expression moves with the lane of the innermost axis."""
        e = self.kernel.renamed(e)
        at = cpp(e, self.bounds)
        if not self.axes or not isinstance(e, Expr):
            return LaneAddress("same", at)
        if self.moving(e):
            return LaneAddress("any", at)
        step = lane_step(e, self.axes[-1].var.atom, self.aligned)
        if step is None:
            return LaneAddress("any", at)
        if is_const(step) and int(step) in (0, 1):
            return LaneAddress(("same", "next")[int(step)], at)
        return LaneAddress("stride", at, cpp(step, self.bounds))

    def moving(self, e: Expr) -> list[str]:
        """The indirect indices of an expression that differ from lane to lane."""
        return sorted(
            name for name in e.free_names() if name in self.indirects and self.level(self.indirects[name]) == self.inner
        )

    def in_lanes(self, e: ExprLike) -> str | None:
        """An expression that moves unevenly from lane to lane as a register of numbers: sums of indirect indices, extremes,
        and divisions whose numerator is known to be small, each times what is the same in all lanes."""
        if not isinstance(e, Expr):
            return None
        e, rest, parts = lift(self.kernel.renamed(e)), lift(0), []
        for monomial, coefficient in e.terms:
            uneven = [(atom, power) for atom, power in monomial if self.place(from_atom(atom)).kind == "any"]
            if not uneven:
                rest = rest + product(from_atom(atom) ** power for atom, power in monomial) * coefficient
                continue
            by = int_if_const(
                product(from_atom(atom) ** power for atom, power in monomial if atom is not uneven[0][0]) * coefficient
            )
            text = self.atom_in_lanes(uneven[0][0]) if len(uneven) == 1 and uneven[0][1] == 1 else None
            if text is None or self.place(by).kind != "same":
                return None
            parts.append(text if by == 1 else f"{text} * splat_l({cpp(by, self.bounds)})")
        even = self.even(int_if_const(rest))
        return None if even is None else " + ".join(([even] if even != "splat_l(0)" or not parts else []) + parts)

    def even(self, e: ExprLike) -> str | None:
        """What moves by a step from lane to lane, as a register."""
        place = self.place(e)
        if place.kind == "any":
            return None
        return f"splat_l({place.at})" if place.kind == "same" else f"lanes_from({place.at}, {place.stride or 1})"

    def atom_in_lanes(self, atom: Atom) -> str | None:
        if atom.op == "var":
            return f"{atom.name}_lanes" if atom.name in self.indirects else None
        if atom.op in ("max", "min"):
            parts = [self.even(a) or self.in_lanes(a) for a in atom.args]
            join = lambda a, b: a and b and f"v_{atom.op}imum({a}, {b})"
            return reduce(join, parts)
        a, d = atom.args
        text = (self.even(a) or self.in_lanes(a)) if is_const(d) and int(d) > 0 and self.is_small(a) else None
        return text and f"v_{'floor' if atom.op == 'floordiv' else 'rest'}_by({text}, {cpp(int_if_const(d))})"

    def is_numbered(self, e: ExprLike) -> bool:
        """Whether a place follows from indices in memory by sums and products: lanes read these one by one, which a register of
        them would have to be stored for."""
        e = self.kernel.renamed(e)
        if not isinstance(e, Expr):
            return False
        moving = self.moving(e)
        return bool(moving) and self.numbered.issuperset(moving) and all(a.op == "var" for m, _ in e.terms for a, _ in m)

    def is_small(self, e: ExprLike) -> bool:
        return all(abs(end) < EXACT for end in self.bounds.interval(e))

    def lane_function(self, e: ExprLike) -> str:
        """A function from the lane to the value of an index expression."""
        e = self.kernel.renamed(e)
        name = self.axes[-1].name
        number = lambda n: f"{n}_from[l]" if n in self.numbered else f"lane({n}_lanes, l)"
        binds = [f"const i64 {n} = {number(n)};" for n in (self.moving(e) if isinstance(e, Expr) else [])]
        capture = "&"
        if isinstance(e, Expr) and name in e.free_names():
            capture = f"&, start = {name}"
            binds.insert(0, f"const i64 {name} = start + l;")
        return f"[{capture}](int l) -> i64 {{ {' '.join(binds)} return {cpp(e, self.bounds)}; }}"

    def lane_offset(self, place: LaneAddress, e: ExprLike) -> tuple[str, str]:
        """(start, function of the lane) of a place that is neither the same nor next."""
        if place.kind == "any":
            lanes = None if self.is_numbered(e) else self.in_lanes(e)
            return "", self.lane_function(e) if lanes is None else f"places({lanes})"
        return place.at, f"[&](int l) -> i64 {{ return l * (i64)({place.stride}); }}"

    def pointer(self, buffer: Buffer, at: str) -> str:
        name = self.kernel.buffer(buffer)
        return name if at in ("", "0") else f"{name} + {at}" if at.replace("_", "").isalnum() else f"{name} + ({at})"

    # -- memory

    def load(self, value: Value, target: Type) -> str:
        load = value.attrs
        if self.squares and value.id in self.squares:
            return f"{self.squares[value.id]}[turn]"
        e = self.kernel.linear(load.buffer, load.index, self.columns)
        place = self.place(e)
        masked = f"{self.texts[value.args[0].id]}, {splat(load.other, target.kind)}" if load.masked else ""
        if self.level(value) < self.inner or not self.axes:
            if masked:
                return f"ld1_where({self.kernel.buffer(load.buffer)}, {place.at}, {masked})"
            return f"ld1({self.pointer(load.buffer, place.at)})"
        if place.kind == "same" and not masked:
            return f"ld1({self.pointer(load.buffer, place.at)})"
        if place.kind == "next":
            pointer = self.pointer(load.buffer, place.at)
            if masked and self.level(value.args[0]) < self.inner:
                other = splat(load.other, target.kind)
                return f"ld_if(lane({self.texts[value.args[0].id]}, 0) != 0, {pointer}, {other}, lanes)"
            return f"ld_where({pointer}, {masked}, lanes)" if masked else f"ld({pointer}, lanes)"
        if place.near and not masked:
            return f"gather_by<{place.stride}>({self.pointer(load.buffer, place.at)}, lanes)"
        if place.kind == "any" and not masked and not self.is_numbered(e) and (lanes := self.in_lanes(e)) is not None:
            return f"gather({self.kernel.buffer(load.buffer)}, {lanes}, lanes)"
        start, function = ("", self.lane_function(e)) if place.kind == "same" else self.lane_offset(place, e)
        pointer = self.pointer(load.buffer, start)
        return f"gather_where({pointer}, {function}, {masked}, lanes)" if masked else f"gather({pointer}, {function}, lanes)"

    def write_store(self, out: Lines, store: Store) -> None:
        e = self.kernel.linear(store.buffer, store.index, self.columns)
        place = self.place(e)
        value = convert(self.texts[store.value.id], type_of(store.value.dtype), type_of(store.buffer.dtype))
        combined = store.mode != "set"
        pointer = self.pointer(store.buffer, place.at)
        if self.squares and store in self.squares:
            out(f"{self.squares[store]}[turn] = {value};")
        elif not self.axes:
            out(f"{f'{store.mode}_to1' if combined else 'st1'}({pointer}, {value});")
        elif store in self.groups:
            out(f"st_part({pointer}, {value}, lanes, slot, {self.groups[store]});")
        elif place.kind == "next":
            out(f"{self.store_call(store)}{pointer}, {value}, lanes);")
        elif place.near and not combined:
            out(f"scatter_by<{place.stride}>({pointer}, {value}, lanes);")
        else:
            start, function = ("", self.lane_function(e)) if place.kind == "same" else self.lane_offset(place, e)
            out(
                f"{f'scatter_{store.mode}' if combined else 'scatter'}"
                f"({self.pointer(store.buffer, start)}, {function}, {value}, lanes);"
            )

    def store_call(self, store: Store) -> str:
        """The function that stores neighbouring lanes, up to its first argument."""
        if store.mode != "set":
            return f"{store.mode}_to("
        if store.buffer.name not in self.kernel.streams:
            return "st("
        return "stream_if(far, " if self.kernel.streams_if else "stream("

    def count_text(self) -> ExprLike:
        """Elements that a reduction of this step combines."""
        total: ExprLike = 1
        for axis in self.step.axes:
            total = total * axis.extent
        return total


def shifted_word(value: Value, target: Type) -> int | None:
    """By how many bits a random word is shifted before it becomes a float: what is left of it has a sign bit to spare."""
    if value.op != "cast" or target.kind != "f" or target.after or value.args[0].op != "shr":
        return None
    word, shift = value.args[0].args
    return shift.attrs if word.op == "philox" and shift.op == "const" and 1 <= shift.attrs < 32 else None


def exprs_of(value: Value) -> tuple[ExprLike, ...]:
    if value.op == "load":
        return value.attrs.index
    return (value.attrs,) if value.op == "index" else ()


# -- how index expressions move with the lane. The innermost axis starts at a multiple of the vector's width, which
#    divides 16: so with d a multiple of 16, (j + 32) // d is the same in all lanes and (j + 32) % d grows by one.

ALIGNMENT = 16


def lane_step(e: ExprLike, lane: Atom, whole: bool = True) -> ExprLike | None:
    """What `e` gains from one lane to the next, or None when that differs between lanes. `whole`: vectors begin at
    multiples of their width."""
    total: ExprLike = 0
    for monomial, coefficient in lift(e).terms:
        moving = [(atom, power) for atom, power in monomial if lane in atom.variables()]
        if not moving:
            continue
        step = atom_step(moving[0][0], lane, whole) if len(moving) == 1 and moving[0][1] == 1 else None
        if step is None:
            return None
        rest = product(from_atom(atom) ** power for atom, power in monomial if atom is not moving[0][0])
        total = total + rest * coefficient * step
    return total


def atom_step(atom: Atom, lane: Atom, whole: bool) -> int | None:
    if atom == lane:
        return 1
    if atom.op not in ("floordiv", "mod"):
        return None
    a, d = atom.args
    step = None if lane in lift(d).free_atoms() else lane_step(a, lane, whole)
    if step is None or not is_const(step):
        return None
    if int(step) == 0:
        return 0
    if int(step) == 1 and whole and is_const(d) and int(d) % ALIGNMENT == 0 and aligned(a, lane):
        return int(atom.op == "mod")
    return None


def aligned(e: ExprLike, lane: Atom) -> bool:
    """In the first lane, `e` is a multiple of the alignment."""
    return all(
        coefficient % ALIGNMENT == 0 or any(aligned_atom(atom, lane) for atom, _ in monomial)
        for monomial, coefficient in lift(e).terms
    )


def aligned_atom(atom: Atom, lane: Atom) -> bool:
    if atom.op == "mod":
        return is_const(atom.args[1]) and int(atom.args[1]) % ALIGNMENT == 0 and aligned(atom.args[0], lane)
    return atom == lane


def rounded_by_stores(values: list[Value], reducers: list[Reducer], stores: tuple[Store, ...]) -> set[int]:
    """Casts to halves that only stores into memory of the same type read: these round, once."""
    read = {a.id for value in values for a in value.args} | {v.id for r in reducers for v in r.reduce.values}
    others = {s.value.id for s in stores if s.mode != "set" or s.buffer.dtype is not s.value.dtype}
    return {s.value.id for s in stores if s.value.op == "cast" and type_of(s.value.dtype).c in ("bf16", "f16")} - read - others
