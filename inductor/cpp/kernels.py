"""Loop kernels as C++ range functions.

Strategy: rows over the pool with vectors along the last axis; maps without rows in chunks; maps with transposed
accesses in squares of registers; column reductions in blocks of columns with one accumulator a column.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ...capture.shapes.expr import Expr, ExprLike, is_const, lift, product
from ...runtime.dataclass import data
from ..loops.body import Buffer, Rewriter, Value
from ..loops.ir import Axis, LoopKernel, Step, Store, fallible, step_bounds, buffers_written
from .byte_maps import ByteStepWriter, is_byte_map
from .loop_codegen import ALIGNMENT, StepWriter
from .prims import COSTS, type_of
from .segments import step_at, segments
from .cpp_text import Lines, cpp, factor
from .prefetch import ROWS_AHEAD, at_most, columns_ahead, from_memory, phases, rows_ahead, streaming_stores, writes_much
from .kernel_writer import KernelWriter, CppKernel, cost, decode, extents, work_text

RANGE = "static void {fn}(void* raw, i64 begin, i64 end, int thread)"
MAP_BLOCK = 16384  # a map's rows up to this length are not cut into chunks (map_block in loops.h)
SQUARE, STRIPE = 16, 64  # least extent for turning squares of registers; rows in one stripe of squares
COLUMNS = 32  # vectors in one block of a column reduction: their accumulators stay in the first-level cache
WIDE_COLUMNS = 256  # the same where rows come from memory, once each: long runs of them need fewer pages at a time
ROW, ROWS = 128, 64  # rows of fewer elements are walked several at a time, as long as so many groups of them are left
TABLE, TABLES, TABLE_ROWS = 2048, 3, 8  # elements of a table of what rows share; tables; rows from which on they pay
TABLE_WORK, UNEVEN = 8, 10  # least work of an element in a table; work of an uneven index
FEW, FEW_COST = 8, 12  # elements of a row in segments, at most so dear, that are written one by one
STACK_BYTES = 65536  # row scratch below this lives on the stack


def write_loops(program: Any, kernel: LoopKernel) -> CppKernel:
    """The kernel by its form."""
    if kernel.vector == "outer" and kernel.outer:
        return ColumnKernel(program, kernel).write()
    step = kernel.steps[0]
    if len(kernel.steps) > 1 or step.reduces or kernel.locals or not (kernel.outer or step.axes):
        return RowKernel(program, kernel).write()
    moved = as_transpose_copy(kernel)
    if moved is not None:
        return CopyKernel(program, kernel, moved).write()
    turning = None if step.looks else transposed_accesses(kernel)
    return SquareKernel(program, kernel, turning).write() if turning else MapKernel(program, kernel).write()


class RowKernel(KernelWriter):
    """For each point of the outer axes, over the pool: the steps one after the other."""

    def write(self) -> CppKernel:
        body = Lines(1)
        self.start_streams(body)
        self.write_scratch(body)
        body.open("for (i64 point = begin; point < end; point++)")
        walked = self.write_points(body)
        ahead = rows_ahead(self.kernel)
        for k, step in enumerate(self.kernel.steps):
            StepWriter(self, step, step.axes, self.kernel.outer, ahead=ahead.get(k)).write(body)
        for _ in (0, *walked):
            body.close()
        self.close_scratch(body)
        points = " * ".join(factor(e) for e in extents(self.kernel.outer[: len(self.kernel.outer) - len(walked)])) or "1"
        per = " + ".join(f"({work_text(extents(step.axes), cost(step))})" for step in self.kernel.steps)
        return self.written(body, points, " * ".join([*(factor(a.extent) for a in walked), f"({per})"]) if walked else per)

    def write_points(self, body: Lines) -> tuple[Axis, ...]:
        """The point's variables; the last axis as a loop where stores add up along it, which begin as zeros."""
        sums = self.kernel.sums()
        if not sums:
            decode(body, self.kernel.outer, "point")
            return ()
        *others, last = self.kernel.outer
        decode(body, tuple(others), "point")
        for step, store in sums:
            zero = Store(store.buffer, store.index, store.value.body.const(0, store.buffer.dtype))
            StepWriter(self, Step(step.axes, (zero,)), step.axes, tuple(others)).write(body)
        body.open(f"for (i64 {last.name} = 0; {last.name} < {cpp(last.extent)}; {last.name}++)")
        return (last,)

    def written(self, body: Lines, points: str, per: str, block: str = "0") -> CppKernel:
        out = Lines()
        out.open(RANGE)
        out("const Args& args = *(const Args*)raw;")
        out.depth = 1
        inner = Lines(0)
        inner.lines = [line[4:] if line.startswith("    ") else line for line in body.lines]
        self.frame(out, inner)
        out.close()
        call = [f"Args args = {{p, sym, fsym, rt, &error, {block}}};", f"run_kernel({{fn}}, args, {points}, {per});"]
        work, checked = f"({points}) * ({per})", bool(self.checks())
        return CppKernel(self.kernel, out.text(), self.buffers, call, work, checked, starts=self.starts)

    def start_streams(self, out: Lines) -> None:
        """Decide what is written past the caches; all that was must be in memory when the function returns."""
        self.streams, self.streams_if = streaming_stores(self.kernel)
        if self.streams:
            out("Drain drain;")
        if self.streams_if:
            out(f"const bool far = {self.streams_if};")

    def checks(self) -> bool:
        return bool(fallible(self.kernel))

    # -- row scratch

    def scratch_bytes(self, lanes: int) -> int | None:
        sizes = [b.extent() for b in self.locals]
        if not all(isinstance(size, int) for size in sizes):
            return None
        return sum(size * b.dtype.itemsize for size, b in zip(sizes, self.locals)) * lanes

    def write_scratch(self, out: Lines, lanes: str = "") -> None:
        bytes_ = self.scratch_bytes(16 * COLUMNS if lanes else 1)
        self.heap = bytes_ is None or bytes_ > STACK_BYTES
        for buffer, name in self.locals.items():
            type_, size = type_of(buffer.dtype).c, f"{factor(buffer.extent())}{lanes} + 64"
            if self.heap:
                out(f"{type_}* const {name} = ({type_}*)args.rt->alloc(({size}) * sizeof({type_}));")
            else:
                out(f"alignas(64) {type_} {name}[{size}];")

    def close_scratch(self, out: Lines) -> None:
        if self.heap:
            for name in self.locals.values():
                out(f"args.rt->release({name});")


class MapKernel(RowKernel):
    """One step without reductions: rows times chunks of the last axis, over the pool."""

    def write(self) -> CppKernel:
        step = self.kernel.steps[0]
        self.nest = ByteStepWriter if is_byte_map(self.kernel) else StepWriter
        axes = (*self.kernel.outer, *step.axes)
        rows, last = axes[:-1], axes[-1]
        if isinstance(last.extent, int) and 0 < last.extent <= MAP_BLOCK:
            return self.whole_rows(step, rows, last)
        extent = factor(last.extent)
        body = Lines(1)
        if not rows and is_clearing(step, last):
            return self.cleared(body, step.stores[0], last)
        self.start_streams(body)
        if rows:
            body(f"const i64 chunks = ({extent} + args.block - 1) / args.block;")
            body.open("for (i64 point = begin; point < end; point++)")
            body(f"const i64 first = point % chunks * args.block, past = fb_min(first + args.block, {cpp(last.extent)});")
            body("const i64 row = point / chunks;")
            decode(body, rows, "row")
            self.write_chunk(body, step, rows, last)
            body.close()
        else:  # chunks of one thread are one run
            body(f"const i64 first = begin * args.block, past = fb_min(end * args.block, {cpp(last.extent)});")
            self.write_chunk(body, step, rows, last)
        block = f"map_block({extent})"
        points = " * ".join([*(factor(e) for e in extents(rows)), f"(({extent} + {block} - 1) / {block})"])
        return self.written(body, points, f"{block} * {cost(step)} / 4 + 1", block)

    def cleared(self, body: Lines, store: Store, last: Axis) -> CppKernel:
        """One run of zeros, by the C library: it knows what fills memory best."""
        extent, block = factor(last.extent), f"map_block({factor(last.extent)})"
        start = self.linear(store.buffer, store.index, False) - last.var
        body(f"const i64 first = begin * args.block, past = fb_min(end * args.block, {cpp(last.extent)});")
        body(
            f"if (first < past) __builtin_memset({self.buffer(store.buffer)} + {factor(start)} + first, 0, "
            f"(past - first) * sizeof({type_of(store.buffer.dtype).c}));"
        )
        return self.written(body, f"(({extent} + {block} - 1) / {block})", f"{block} / 16 + 1", block)

    def write_chunk(self, body: Lines, step: Step, rows: tuple[Axis, ...], last: Axis) -> None:
        """A chunk [first, past) of the last axis, in segments where there are any."""
        step = replace(step, axes=(last,))
        found = segments(rows, step, last)
        if not found:
            return self.nest(self, step, (last,), rows, "first", "past").write(body)
        for begin, part in found:
            bounds = f"fb_max(first - {begin}, 0)", f"fb_min(past - {begin}, {part.axes[0].extent})"
            self.nest(self, part, part.axes, rows, *bounds, aligned=begin % ALIGNMENT == 0).write(body)

    def whole_rows(self, step: Step, rows: tuple[Axis, ...], last: Axis) -> CppKernel:
        """Rows of a known length that need no chunks."""
        body = Lines(1)
        self.start_streams(body)
        rows, inner = split_rows(rows, last)
        step = self.write_tables(body, replace(step, axes=inner), last, product(extents((*rows, *inner[:-1]))))
        body.open("for (i64 point = begin; point < end; point++)")
        decode(body, rows, "point")
        parts = [part for _, part in segments(rows, step, last)]
        if parts and at_most(last.extent, FEW):
            self.write_singly(body, step, rows)
        else:
            for part in parts or [step]:
                if len(parts) > 1 and at_most(part.axes[-1].extent, FEW) and cost(part) <= FEW_COST:
                    self.write_singly(body, part, rows)
                else:
                    self.nest(self, part, part.axes, rows).write(body)
        body.close()
        points = " * ".join(factor(e) for e in extents(rows)) or "1"
        return self.written(body, points, work_text([a.extent for a in inner], cost(step)))

    def write_singly(self, body: Lines, step: Step, rows: tuple[Axis, ...]) -> None:
        """The few elements of a row that has segments, one by one."""
        *outer, last = step.axes
        for axis in outer:
            body.open(f"for (i64 {axis.name} = 0; {axis.name} < {cpp(axis.extent)}; {axis.name}++)")
        for k in range(last.extent):
            self.nest(self, step_at((*rows, *outer), step, last, k), (), (*rows, *outer)).write(body)
        for _ in outer:
            body.close()

    def write_tables(self, body: Lines, step: Step, last: Axis, rows: ExprLike) -> Step:
        """What is dear and depends on the place in the row alone is computed once for all rows, into row scratch."""
        pays = isinstance(rows, int) and rows >= TABLE_ROWS and at_most(last.extent, TABLE)
        found = row_table_values(step, last, {b.name for b in buffers_written(self.kernel)}) if pays else []
        if not found:
            return step
        rewrite = Rewriter(found[0].body, {})
        tables = [Buffer(f"table_{k}", v.dtype, (last.extent,), (1,), 0, "local", "") for k, v in enumerate(found)]
        for value, table in zip(found, tables):
            self.locals[table] = self.names(table, "table")
            rewrite.done[value.id] = value.body.load(table, (last.var,))
        self.write_scratch(body)
        stores = tuple(Store(table, (last.var,), value) for value, table in zip(found, tables))
        self.nest(self, Step((last,), stores), (last,), ()).write(body)
        return replace(step, stores=tuple(replace(store, value=rewrite(store.value)) for store in step.stores))


def is_clearing(step: Step, last: Axis) -> bool:
    """Whether a step of one store writes zeros side by side."""
    if len(step.stores) != 1 or step.looks or step.stores[0].mode != "set":
        return False
    (store,), value = step.stores, step.stores[0].value
    parts = lift(store.buffer.linear(store.index)).affine([last.var])
    zero = value.op == "const" and not value.attrs and math.copysign(1, value.attrs) == 1
    return zero and parts is not None and is_const(parts[0][last.var]) and int(parts[0][last.var]) == 1


def row_table_values(step: Step, last: Axis, written: set[str]) -> list[Value]:
    """The largest values of a step of stores that depend on the last axis alone and cost more than a load; `written`: arrays
    that the kernel writes."""
    if step.looks or any(store.mode != "set" for store in step.stores):
        return []
    work: dict[int, int] = {}  # of values that depend on nothing but the place in the row
    for value in step.values():
        own = work_of_value(value, last, written)
        if own is not None and all(a.id in work for a in value.args):
            work[value.id] = own + sum(work[a.id] for a in value.args)
    users = [a for value in step.values() if value.id not in work for a in value.args] + [s.value for s in step.stores]
    found = {v.id: v for v in users if work.get(v.id, 0) >= TABLE_WORK and v.op != "const"}
    return list(found.values())[:TABLES]


def work_of_value(value: Value, last: Axis, written: set[str]) -> int | None:
    """What a value costs beside its operands; None where it moves with another axis, or is read from memory that may change."""
    if value.op == "const":
        return 0
    if value.op == "index":
        e = lift(value.attrs)
        if e.free_names() - {last.name}:
            return None
        return UNEVEN * sum(atom.op != "var" for monomial, _ in e.terms for atom, _ in monomial)
    if value.op == "load" and not value.args and value.attrs.buffer.name not in written:
        names = {name for e in value.attrs.index if isinstance(e, Expr) for name in e.free_names()}
        return None if names - {last.name} else 0
    if value.op in ("load", "acc", "indirect", "scalar", "philox"):
        return None
    return COSTS.get(value.op, 1) * (2 if value.dtype.itemsize == 8 else 1)


def split_rows(rows: tuple[Axis, ...], last: Axis) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """(rows over the pool, axes of one row): finding the place of a short row takes longer than the row, so that several are
    walked in a loop where enough are left to share."""
    inner, left = (last,), product(extents(rows))
    while rows and isinstance(left, int) and left and at_most(product(extents(inner)), ROW - 1):
        left //= int(rows[-1].extent)
        if left < ROWS:
            break
        rows, inner = rows[:-1], (rows[-1], *inner)
    return rows, inner


@data
class TransposedAccesses:
    """Accesses of a map that run along `row` where its vectors run along the last axis: (value or store, buffer,
    index).
    """

    row: Axis
    loads: list[Value]
    stores: list[Store]


def transposed_accesses(kernel: LoopKernel) -> TransposedAccesses | None:
    """The transposed accesses of a map, if one axis serves them."""
    step = kernel.steps[0]
    *rows, last = (*kernel.outer, *step.axes)
    loads = {v: row_of(v.attrs.buffer, v.attrs.index, rows, last) for v in step.values() if v.op == "load" and not v.args}
    stores = {s: row_of(s.buffer, s.index, rows, last) for s in step.stores if s.mode == "set" and not step.index_values()}
    found = [axis for axis in (*loads.values(), *stores.values()) if axis is not None]
    if not found or any(isinstance(axis.extent, int) and axis.extent < SQUARE for axis in (found[0], last)):
        return None
    return TransposedAccesses(
        found[0], [v for v, axis in loads.items() if axis is found[0]], [s for s, axis in stores.items() if axis is found[0]]
    )


def row_of(buffer: Buffer, index: tuple, rows: list[Axis], last: Axis) -> Axis | None:
    """The axis along which an access is contiguous when the last axis is not it (32-bit registers only)."""
    if type_of(buffer.dtype).kind not in "fib":
        return None
    linear = lift(buffer.linear(index))
    parts = linear.affine([axis.var for axis in (*rows, last)])
    if parts is None or (is_const(parts[0][last.var]) and int(parts[0][last.var]) in (0, 1)):
        return None
    return next((axis for axis in rows if is_const(parts[0][axis.var]) and int(parts[0][axis.var]) == 1), None)


class SquareKernel(RowKernel):
    """A map with transposed accesses: squares of registers are loaded along the other axis and turned."""

    def __init__(self, program: Any, kernel: Any, turning: TransposedAccesses):
        super().__init__(program, kernel)
        self.turning = turning

    def write(self) -> CppKernel:
        step, row = self.kernel.steps[0], self.turning.row
        *axes, last = (*self.kernel.outer, *step.axes)
        others = tuple(axis for axis in axes if axis is not row)
        height, width = factor(row.extent), cpp(last.extent)
        body = Lines(1)
        open_stripes(body, height, others)
        body.open(f"for (i64 column = 0; column < {width}; column += FB_W)")
        body.open("for (i64 line = first; line < past; line += FB_W)")
        body.open(f"if (line + FB_W <= past && column + FB_W <= {width})")
        self.write_square(body, step, row, last, others)
        body.close(" else {")
        body.depth += 1
        body.open(f"for (i64 {row.name} = line; {row.name} < fb_min(line + FB_W, past); {row.name}++)")
        StepWriter(self, step, (last,), (*others, row), "column", f"fb_min(column + FB_W, {width})").write(body)
        for _ in range(5):
            body.close()
        points = " * ".join([*(factor(e) for e in extents(others)), f"(({height} + {STRIPE - 1}) / {STRIPE})"])
        return self.written(body, points, work_text([STRIPE, last.extent], cost(step)))

    def write_square(self, body: Lines, step: Step, row: Axis, last: Axis, others: tuple[Axis, ...]) -> None:
        """Load and turn, compute row by row, turn and store."""
        accesses = [(v.id, v.attrs.buffer, v.attrs.index) for v in self.turning.loads] + [
            (s, s.buffer, s.index) for s in self.turning.stores
        ]
        names = {key: f"square{k}" for k, (key, _, _) in enumerate(accesses)}
        bounds = self.bounds((*others, row), Step((last,), step.stores))
        for k, (_, buffer, _index) in enumerate(accesses):
            body(f"{type_of(buffer.dtype).register} square{k}[FB_W];")
        self.write_turns(body, accesses[: len(self.turning.loads)], 0, "load_square", row, last, bounds)
        body.open("for (int turn = 0; turn < FB_W; turn++)")
        body(f"const i64 {row.name} = line + turn;")
        StepWriter(self, step, (last,), (*others, row), "column", squares=names).write(body)
        body.close()
        self.write_turns(body, accesses[len(self.turning.loads) :], len(self.turning.loads), "store_square", row, last, bounds)

    def write_turns(self, body: Lines, accesses: list, start: int, function: str, row: Axis, last: Axis, bounds: Any) -> None:
        if not accesses:
            return
        body.open("")
        body(f"const i64 {row.name} = line, {last.name} = column;")
        for k, (_, buffer, index) in enumerate(accesses):
            linear = lift(self.linear(buffer, index, False))
            parts = linear.affine([row.var, last.var])
            assert parts is not None  # (as `row_of` has found)
            stride = parts[0][last.var]
            place = f"{self.buffer(buffer)} + ({cpp(linear, bounds)})"
            body(f"{function}({place}, {cpp(stride, bounds)}, square{start + k});")
        body.close()


@data
class TransposeCopy:
    """A map that only copies: contiguous along `row` in one of the two arrays and along the last axis in the other. `rows`: the
    axis that is a row of the result, with the strides of the result along it and of the operand along the other one."""

    row: Axis
    last: Axis
    by_row: bool
    out_row: ExprLike
    x_column: ExprLike


def as_transpose_copy(kernel: LoopKernel) -> TransposeCopy | None:
    """How a map moves elements from one order of two axes to the other, if that is all it does."""
    step = kernel.steps[0]
    *rows, last = (*kernel.outer, *step.axes)
    if len(step.stores) != 1 or step.looks or step.index_values() or step.stores[0].mode != "set":
        return None
    store, load = step.stores[0], step.stores[0].value
    if load.op != "load" or load.args or load.attrs.buffer.dtype is not store.buffer.dtype or load.attrs.buffer == store.buffer:
        return None
    if store.buffer.dtype.itemsize not in (1, 2, 4, 8):
        return None
    to, at = (strides_along(each.buffer, each.index, (*rows, last)) for each in (store, load.attrs))
    if to is None or at is None:
        return None
    for contiguous, other, by_row in ((to, at, True), (at, to, False)):
        row = next((a for a in rows if is_one(other[a.var])), None)
        if row is None or not is_one(contiguous[last.var]):
            continue
        repeated = any(is_const(s) and int(s) == 0 for s in (contiguous[row.var], other[last.var]))
        if repeated or any(isinstance(axis.extent, int) and axis.extent < SQUARE for axis in (row, last)):
            continue
        return TransposeCopy(row, last, by_row, *((to[row.var], at[last.var]) if by_row else (to[last.var], at[row.var])))
    return None


def is_one(stride: ExprLike) -> bool:
    return is_const(stride) and int(stride) == 1


def strides_along(buffer: Buffer, index: tuple, axes: tuple[Axis, ...]) -> dict | None:
    """By variable, the elements from one point of an axis to the next; None where places are no sums of those."""
    parts = lift(buffer.linear(index)).affine([axis.var for axis in axes])
    return None if parts is None else parts[0]


def open_stripes(body: Lines, height: str, others: tuple[Axis, ...]) -> None:
    """A loop over the points of `others`, and of each over stripes of the rows: those from `first` on, before `past`."""
    body(f"const i64 blocks = ({height} + {STRIPE - 1}) / {STRIPE};")
    body.open("for (i64 point = begin; point < end; point++)")
    body(f"const i64 first = point % blocks * {STRIPE}, past = fb_min(first + {STRIPE}, {height});")
    if others:
        body("const i64 rest = point / blocks;")
        decode(body, others, "rest")


class CopyKernel(RowKernel):
    """A copy that exchanges two axes: tiles that are turned over in registers, a stripe of rows of the result a point."""

    def __init__(self, program: Any, kernel: Any, moved: TransposeCopy):
        super().__init__(program, kernel)
        self.moved = moved

    def write(self) -> CppKernel:
        moved, step = self.moved, self.kernel.steps[0]
        row, last = moved.row, moved.last
        others = tuple(axis for axis in (*self.kernel.outer, *step.axes[:-1]) if axis is not row)
        height = factor(row.extent)
        body = Lines(1)
        open_stripes(body, height, others)
        body(f"const i64 {row.name} = first, {last.name} = 0;")
        bounds = self.bounds((*others, row), Step((last,), step.stores))
        store, load = step.stores[0], step.stores[0].value.attrs
        to, x = (
            f"{self.buffer(each.buffer)} + ({cpp(self.linear(each.buffer, each.index, False), bounds)})" for each in (store, load)
        )
        sizes = ("past - first", cpp(last.extent)) if moved.by_row else (cpp(last.extent), "past - first")
        body(f"turn_block({to}, {cpp(moved.out_row, bounds)}, {x}, {cpp(moved.x_column, bounds)}, {', '.join(sizes)});")
        body.close()
        points = " * ".join([*(factor(e) for e in extents(others)), f"(({height} + {STRIPE - 1}) / {STRIPE})"])
        return self.written(body, points, work_text([STRIPE, last.extent], cost(step)))


class ColumnKernel(RowKernel):
    """The last outer axis is the vector axis: each block of columns walks all rows with an accumulator a column."""

    def write(self) -> CppKernel:
        *others, lane = self.kernel.outer
        extent = factor(lane.extent)
        body = Lines(1)
        body("const i64 blocks = (" + extent + " + args.block - 1) / args.block;")
        most = self.most_columns()
        few = isinstance(lane.extent, int) and 0 < lane.extent < most * 16 and f"({extent} + FB_W - 1) / FB_W"
        body(f"constexpr int COLUMNS = {f'{few} < {most} ? {few} : {most}' if few else most};")
        body("constexpr i64 LANES = COLUMNS * FB_W;")
        self.write_scratch(body, " * LANES")
        if writes_much(self.kernel):
            self.start_streams(body)
        body.open("for (i64 point = begin; point < end; point++)")
        body(f"const i64 column0 = point % blocks * args.block, past = fb_min(column0 + args.block, {cpp(lane.extent)});")
        if others:
            body("const i64 row = point / blocks;")
            decode(body, tuple(others), "row")
        vectors = min(most, -(-lane.extent // 16)) if few else most
        ahead = columns_ahead(self.kernel, max(2, min(ROWS_AHEAD, ROWS_AHEAD * COLUMNS // vectors)), vectors * 16)
        for k, step in enumerate(self.kernel.steps):
            axes = (*step.axes, lane)
            StepWriter(self, step, axes, tuple(others), "column0", "past", columns=True, ahead=ahead.get(k)).write(body)
        body.close()
        self.close_scratch(body)
        block = f"column_block({' * '.join([*(factor(e) for e in extents(tuple(others))), extent])}, {most} * FB_W, rt)"
        points = " * ".join([*(factor(e) for e in extents(tuple(others))), f"(({extent} + {block} - 1) / {block})"])
        each = " + ".join(f"({work_text([*extents(step.axes)], cost(step))})" for step in self.kernel.steps)
        written = self.written(body, points, f"({each}) * fb_min({block}, {extent})", block)
        return replace(written, work=f"{' * '.join(factor(a.extent) for a in self.kernel.outer)} * ({each})")

    def most_columns(self) -> int:
        """Vectors in one block: rows that are walked over again stay in cache, and so do accumulators."""
        walks = [step for step in self.kernel.steps if step.axes]
        if self.locals or len(walks) != 1 or phases(walks[0]) > 1 or not from_memory(self.kernel):
            return COLUMNS
        registers = sum(max(1, dtype.itemsize // 4) for reduce in walks[0].reduces for dtype in reduce.dtypes)
        return max(COLUMNS, WIDE_COLUMNS // max(1, registers))

    def bounds(self, outer: tuple[Axis, ...], step: Step) -> Any:
        return step_bounds(self.kernel.outer, step)
