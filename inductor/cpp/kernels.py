"""Kernels of a loop program as C++ range functions, with the numbers that the entry point needs to run them.

In: LoopKernel, GemmKernel, ScatterKernel. Out: `Written`: the function's text with placeholders, the buffers in the order
of its argument, and C++ texts for the number of points, the work of one and the block. Strategy: rows over the pool with
vectors along the last axis; maps without rows in chunks; column reductions in blocks of columns; templates call the
runtime's product with the epilogue as a function over finished tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...capture.expr import Expr, ExprLike, is_const, lift, product
from ...runtime.errors import InternalError
from ..body import Body, Buffer, Value, index_var
from ..loops import (Axis, GemmKernel, LoopKernel, Operand, Reduce, ScatterKernel, Step, Store, fallible, outer_axes, reads, step_bounds,
                     steps, writes)
from .nest import Nest
from .prims import COSTS, Type, type_of
from .text import Lines, Names, cpp, factor, shape_text

MAP_BLOCK = 16384            # a map's rows up to this length are not cut into chunks (map_block in loops.h)
SQUARE, STRIPE = 16, 64      # least extent for turning squares of registers; rows in one stripe of squares
COLUMNS = 32                 # vectors in one block of a column reduction: their accumulators stay in the first-level cache
STACK_BYTES = 65536          # row scratch below this lives on the stack
GEMM_TYPES = {("float32", "float32"): "FB_FLOAT", ("float64", "float64"): "FB_DOUBLE", ("bfloat16", "float32"): "FB_BF16",
              ("float16", "float32"): "FB_F16", ("bfloat16", "bfloat16"): "FB_BF16", ("float16", "float16"): "FB_F16"}
OUT_TYPES = {"float32": "FB_FLOAT", "float64": "FB_DOUBLE", "bfloat16": "FB_BF16", "float16": "FB_F16"}


@dataclass
class Written:
    """One kernel in C++. `call` are the lines of the entry point, with `{fn}` for the function's name."""

    kernel: Any
    code: str
    buffers: list[Buffer]
    call: list[str]
    work: str
    fallible: bool = False
    extra: list[Written] = field(default_factory=list)     # kernels that must run before (a scatter's initial copy)


class KernelWriter:
    """Names and helpers of one kernel's function; the nests ask it for everything that is not theirs."""

    def __init__(self, program: Any, kernel: Any):
        self.program, self.kernel = program, kernel
        self.names = Names()
        self.buffers: list[Buffer] = []
        self.accs: dict[str, str] = {}
        self.locals: dict[Buffer, str] = {b: self.names(b, "scratch") for b in getattr(kernel, "locals", ())}
        self.indirect_names: dict[str, str] = {}
        self.mapping: dict = {}
        self.symbols = {s.name: k for k, s in enumerate(program.symbols)}
        self.floats = {s.name: k for k, s in enumerate(program.floats)}

    # -- names

    def buffer(self, buffer: Buffer) -> str:
        """A placeholder: the buffer's position among the function's arguments (row scratch has its own name)."""
        if buffer in self.locals:
            return self.locals[buffer]
        for k, known in enumerate(self.buffers):
            if known.name == buffer.name:
                return f"@{k}@"
        self.buffers.append(buffer)
        return f"@{len(self.buffers) - 1}@"

    def value_name(self, stem: str) -> str:
        count = self.names.found.get("values", 0)
        self.names.found["values"] = count + 1
        return f"{stem}_{count}"

    def acc_name(self, name: str, wanted: str) -> str:
        if name not in self.accs:
            self.accs[name] = self.names.fresh(f"{wanted}_acc")
        return self.accs[name]

    def acc_text(self, value: Value, columns: bool) -> str:
        if value.attrs not in self.accs:
            raise InternalError(f"accumulator {value.attrs} is read in kernel {self.kernel.name} before a step wrote it")
        return f"{self.accs[value.attrs]}_a[slot]" if columns else self.accs[value.attrs]

    def indirect_name(self, name: str) -> str:
        """Indirect indices are numbered within the kernel, so that equal kernels have equal texts."""
        if name not in self.indirect_names:
            self.indirect_names[name] = f"ind{len(self.indirect_names)}"
            self.mapping[index_var(name)] = index_var(self.indirect_names[name] + "_")
        return self.indirect_names[name] + "_"

    def renamed(self, e: ExprLike) -> ExprLike:
        return e.substitute(self.mapping) if self.mapping and isinstance(e, Expr) else e

    def scalar(self, value: Value, target: Type) -> str:
        """A scalar input as a register: symbols, seed and base are integers, others floats."""
        name = value.attrs
        if name in ("seed", "base"):
            place = f"args.n[{len(self.symbols) + (name == 'base')}]"
        elif name in self.symbols:
            place = f"args.n[{self.symbols[name]}]"
        else:
            place = f"args.f[{self.floats[name]}]"
        if target.kind == "b":
            return f"splat_b({place} != 0)"
        return f"splat_{target.kind}({place})"

    def bounds(self, outer: tuple[Axis, ...], step: Step) -> Any:
        return step_bounds(outer, step)

    def linear(self, buffer: Buffer, index: tuple, columns: bool) -> ExprLike:
        """Element offset of an index; row scratch of a column kernel has one row a column of the block."""
        linear = buffer.linear(index)
        if buffer in self.locals and columns:
            lane = self.kernel.outer[-1].var - index_var("column0")
            return lift(linear) * index_var("LANES") + lane
        return linear

    # -- the function's frame

    def frame(self, out: Lines, body: Lines) -> str:
        """Declarations of what the body uses, then the body."""
        for k, buffer in enumerate(self.buffers):
            out(f"{type_of(buffer.dtype).c}* const @{k}@ = ({type_of(buffer.dtype).c}*)args.p[{k}];")
        for name, k in self.symbols.items():
            out(f"const i64 {name} = args.n[{k}];")
        out.extend(body.lines)
        return out.text()


def cost(step: Step) -> int:
    """Simple operations per element of a step."""
    return sum(COSTS.get(v.op, 1) for v in step.values() if v.op not in ("const", "acc", "scalar")) + len(step.stores) + len(step.reduces)


def work_text(factors: list[ExprLike], per: int) -> str:
    """Work of a nest in units of four simple operations."""
    whole = " * ".join(factor(f) for f in factors) or "1"
    return f"{whole} * {per} / 4 + 1"


def extents(axes: tuple[Axis, ...]) -> list[ExprLike]:
    return [a.extent for a in axes]


def decode(out: Lines, axes: tuple[Axis, ...], point: str) -> None:
    """The axes' variables from a flat position, last axis fastest."""
    for k in range(len(axes) - 1, -1, -1):
        rest = f" % {factor(axes[k].extent)}" if k else ""
        faster = [factor(a.extent) for a in axes[k + 1:]]
        whole = f"{point} / {faster[0]}" if len(faster) == 1 else f"{point} / ({' * '.join(faster)})" if faster else point
        out(f"const i64 {axes[k].name} = {f'({whole})' if rest and faster else whole}{rest};")


def write_kernel(program: Any, kernel: Any) -> Written:
    """The kernel by its kind and form."""
    refuse_hidden_names(kernel)
    if isinstance(kernel, GemmKernel):
        return write_gemm(program, kernel)
    if isinstance(kernel, ScatterKernel):
        return write_scatter(program, kernel)
    if kernel.vector == "outer" and kernel.outer:
        return ColumnKernel(program, kernel).write()
    if len(kernel.steps) == 1 and not kernel.steps[0].reduces and not kernel.locals and (kernel.outer or kernel.steps[0].axes):
        turning = turned(kernel)
        return SquareKernel(program, kernel, turning).write() if turning else MapKernel(program, kernel).write()
    return RowKernel(program, kernel).write()


# names of the functions' own variables: an axis that hid one would change what the code means
OWN = frozenset("""lanes slot point row first past chunks blocks column0 args raw begin end thread tile tile_row stride batch m0 n0 rows columns r l start
b COLUMNS LANES turn line column rest blocks sym fsym rt error p g""".split())


def refuse_hidden_names(kernel: Any) -> None:
    axes = [a for step in steps(kernel) for a in step.axes] + list(outer_axes(kernel))
    hidden = sorted(axis.name for axis in axes if axis.name in OWN)
    if hidden:
        raise InternalError(f"axes {hidden} of kernel {kernel.name} have names that the generated code uses itself")


RANGE = "static void {fn}(void* raw, i64 begin, i64 end, int thread)"


class RowKernel(KernelWriter):
    """For each point of the outer axes, over the pool: the steps one after the other."""

    def write(self) -> Written:
        body = Lines(1)
        self.write_scratch(body)
        body.open("for (i64 point = begin; point < end; point++)")
        decode(body, self.kernel.outer, "point")
        for step in self.kernel.steps:
            Nest(self, step, step.axes, self.kernel.outer).write(body)
        body.close()
        self.close_scratch(body)
        points = " * ".join(factor(e) for e in extents(self.kernel.outer)) or "1"
        per = " + ".join(f"({work_text(extents(step.axes), cost(step))})" for step in self.kernel.steps)
        return self.written(body, points, per)

    def written(self, body: Lines, points: str, per: str, block: str = "0") -> Written:
        out = Lines()
        out.open(RANGE)
        out("const Args& args = *(const Args*)raw;")
        out.depth = 1
        inner = Lines(0)
        inner.lines = [line[4:] if line.startswith("    ") else line for line in body.lines]
        self.frame(out, inner)
        out.close()
        call = [f"Args args = {{p, sym, fsym, rt, &error, {block}}};", f"run_kernel({{fn}}, args, {points}, {per});"]
        return Written(self.kernel, out.text(), self.buffers, call, f"({points}) * ({per})", bool(self.checks()))

    def checks(self) -> bool:
        return bool(fallible(self.kernel))

    # -- row scratch

    def scratch_bytes(self, lanes: int) -> int | None:
        sizes = [b.extent() for b in self.kernel.locals]
        if not all(isinstance(size, int) for size in sizes):
            return None
        return sum(size * b.dtype.itemsize for size, b in zip(sizes, self.kernel.locals)) * lanes

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

    def write(self) -> Written:
        step = self.kernel.steps[0]
        axes = (*self.kernel.outer, *step.axes)
        rows, last = axes[:-1], axes[-1]
        if isinstance(last.extent, int) and 0 < last.extent <= MAP_BLOCK:
            return self.whole_rows(step, rows, last)
        extent = factor(last.extent)
        body = Lines(1)
        body(f"const i64 chunks = ({extent} + args.block - 1) / args.block;")
        body.open("for (i64 point = begin; point < end; point++)")
        body("const i64 first = point % chunks * args.block, past = fb_min(first + args.block, " + cpp(last.extent) + ");")
        if rows:
            body("const i64 row = point / chunks;")
            decode(body, rows, "row")
        Nest(self, step, (last,), rows, "first", "past").write(body)
        body.close()
        block = f"map_block({extent})"
        points = " * ".join([*(factor(e) for e in extents(rows)), f"(({extent} + {block} - 1) / {block})"])
        return self.written(body, points, f"{block} * {cost(step)} / 4 + 1", block)


    def whole_rows(self, step: Step, rows: tuple[Axis, ...], last: Axis) -> Written:
        """Rows of a known length that need no chunks."""
        body = Lines(1)
        body.open("for (i64 point = begin; point < end; point++)")
        decode(body, rows, "point")
        Nest(self, step, (last,), rows).write(body)
        body.close()
        points = " * ".join(factor(e) for e in extents(rows)) or "1"
        return self.written(body, points, work_text([last.extent], cost(step)))


@dataclass
class Turning:
    """Accesses of a map that run along `row` where its vectors run along the last axis: (value or store, buffer, index)."""

    row: Axis
    loads: list[Value]
    stores: list[Store]


def turned(kernel: LoopKernel) -> Turning | None:
    """The transposed accesses of a map, if one axis serves them."""
    step = kernel.steps[0]
    *rows, last = (*kernel.outer, *step.axes)
    loads = {v: row_of(v.attrs.buffer, v.attrs.index, rows, last) for v in step.values() if v.op == "load" and not v.args}
    stores = {s: row_of(s.buffer, s.index, rows, last) for s in step.stores if s.mode == "set" and not step.index_values()}
    found = [axis for axis in (*loads.values(), *stores.values()) if axis is not None]
    if not found or any(isinstance(axis.extent, int) and axis.extent < SQUARE for axis in (found[0], last)):
        return None
    return Turning(found[0], [v for v, axis in loads.items() if axis is found[0]], [s for s, axis in stores.items() if axis is found[0]])


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

    def __init__(self, program: Any, kernel: Any, turning: Turning):
        super().__init__(program, kernel)
        self.turning = turning

    def write(self) -> Written:
        step, row = self.kernel.steps[0], self.turning.row
        *axes, last = (*self.kernel.outer, *step.axes)
        others = tuple(axis for axis in axes if axis is not row)
        height, width = factor(row.extent), cpp(last.extent)
        body = Lines(1)
        body(f"const i64 blocks = ({height} + {STRIPE - 1}) / {STRIPE};")
        body.open("for (i64 point = begin; point < end; point++)")
        body(f"const i64 first = point % blocks * {STRIPE}, past = fb_min(first + {STRIPE}, {height});")
        if others:
            body("const i64 rest = point / blocks;")
            decode(body, others, "rest")
        body.open(f"for (i64 column = 0; column < {width}; column += FB_W)")
        body.open("for (i64 line = first; line < past; line += FB_W)")
        body.open(f"if (line + FB_W <= past && column + FB_W <= {width})")
        self.write_square(body, step, row, last, others)
        body.close(" else {")
        body.depth += 1
        body.open(f"for (i64 {row.name} = line; {row.name} < fb_min(line + FB_W, past); {row.name}++)")
        Nest(self, step, (last,), (*others, row), "column", f"fb_min(column + FB_W, {width})").write(body)
        for _ in range(5):
            body.close()
        points = " * ".join([*(factor(e) for e in extents(others)), f"(({height} + {STRIPE - 1}) / {STRIPE})"])
        return self.written(body, points, work_text([STRIPE, last.extent], cost(step)))

    def write_square(self, body: Lines, step: Step, row: Axis, last: Axis, others: tuple[Axis, ...]) -> None:
        """Load and turn, compute row by row, turn and store."""
        accesses = [(v.id, v.attrs.buffer, v.attrs.index) for v in self.turning.loads] + [(s, s.buffer, s.index) for s in self.turning.stores]
        names = {key: f"square{k}" for k, (key, _, _) in enumerate(accesses)}
        bounds = self.bounds((*others, row), Step((last,), step.stores))
        for k, (_, buffer, _index) in enumerate(accesses):
            body(f"{type_of(buffer.dtype).register} square{k}[FB_W];")
        self.write_turns(body, accesses[:len(self.turning.loads)], 0, "load_square", row, last, bounds)
        body.open("for (int turn = 0; turn < FB_W; turn++)")
        body(f"const i64 {row.name} = line + turn;")
        Nest(self, step, (last,), (*others, row), "column", squares=names).write(body)
        body.close()
        self.write_turns(body, accesses[len(self.turning.loads):], len(self.turning.loads), "store_square", row, last, bounds)

    def write_turns(self, body: Lines, accesses: list, start: int, function: str, row: Axis, last: Axis, bounds: Any) -> None:
        if not accesses:
            return
        body.open("")
        body(f"const i64 {row.name} = line, {last.name} = column;")
        for k, (_, buffer, index) in enumerate(accesses):
            linear = lift(buffer.linear(index))
            stride = linear.affine([row.var, last.var])[0][last.var]
            body(f"{function}({self.buffer(buffer)} + ({cpp(linear, bounds)}), {cpp(stride, bounds)}, square{start + k});")
        body.close()


class ColumnKernel(RowKernel):
    """The last outer axis is the vector axis: each block of columns walks all rows with an accumulator a column."""

    def write(self) -> Written:
        *others, lane = self.kernel.outer
        extent = factor(lane.extent)
        body = Lines(1)
        body("const i64 blocks = (" + extent + " + args.block - 1) / args.block;")
        body(f"constexpr int COLUMNS = {COLUMNS};")
        body("constexpr i64 LANES = COLUMNS * FB_W;")
        self.write_scratch(body, " * LANES")
        body.open("for (i64 point = begin; point < end; point++)")
        body(f"const i64 column0 = point % blocks * args.block, past = fb_min(column0 + args.block, {cpp(lane.extent)});")
        if others:
            body("const i64 row = point / blocks;")
            decode(body, tuple(others), "row")
        for step in self.kernel.steps:
            Nest(self, step, (*step.axes, lane), tuple(others), "column0", "past", columns=True).write(body)
        body.close()
        self.close_scratch(body)
        block = f"column_block({extent}, {COLUMNS} * FB_W, rt)"
        points = " * ".join([*(factor(e) for e in extents(tuple(others))), f"(({extent} + {block} - 1) / {block})"])
        per = " + ".join(f"({work_text([*extents(step.axes)], cost(step))}) * {block}" for step in self.kernel.steps)
        return self.written(body, points, per, block)

    def bounds(self, outer: tuple[Axis, ...], step: Step) -> Any:
        return step_bounds(self.kernel.outer, step)


# -- scatter

def write_scatter(program: Any, kernel: ScatterKernel) -> Written:
    """The initial copy or zeros as a kernel of its own, then the scatter."""
    written = ScatterWriter(program, kernel).write()
    if kernel.init is not kernel.target:
        written.extra.append(write_kernel(program, initial(kernel)))
    return written


def initial(kernel: ScatterKernel) -> LoopKernel:
    """A map over the target that fills it with zeros or with `init`."""
    body = kernel.store.value.body
    target = kernel.target
    axes = tuple(Axis(f"d{k}", size) for k, size in enumerate(target.sizes))
    index = tuple(a.var for a in axes)
    value = body.const(0, target.dtype) if kernel.init is None else body.load(kernel.init, index)
    return LoopKernel(f"{kernel.name}_start", (), (Step(axes, (Store(target, index, value),)),), origins=kernel.origins)


class ScatterWriter(RowKernel):
    """All points in row-major order; where the last axis is a coordinate of the target, threads share it out."""

    def write(self) -> Written:
        axes = self.kernel.axes
        shared = self.shared_axis()
        body = Lines(1)
        if shared:
            body.open("for (i64 point = begin; point < end; point++)")
            body(f"const i64 first = point * args.block, past = fb_min(first + args.block, {cpp(axes[-1].extent)});")
            Nest(self, self.kernel.step, axes, (), "first", "past").write(body)
            body.close()
        else:
            Nest(self, self.kernel.step, axes, ()).write(body)
        if not shared:
            return self.written(body, "1", work_text(extents(axes), cost(self.kernel.step)))
        extent = factor(axes[-1].extent)
        block = f"column_block({extent}, 1 << 20, rt)"
        return self.written(body, f"(({extent} + {block} - 1) / {block})", work_text([*extents(axes[:-1]), index_var(block)], cost(self.kernel.step)), block)

    def shared_axis(self) -> bool:
        """Different points of the last axis never meet: it is one coordinate, and no other depends on it."""
        if not self.kernel.axes:
            return False
        variable, values = self.kernel.axes[-1].var, self.kernel.step.values()
        name = self.kernel.axes[-1].name
        index = self.kernel.store.index
        moving = {v.attrs.name for v in values if v.op == "indirect" and depends(v, name)}
        plain = [e for e in index if isinstance(e, Expr) and e == variable]
        others = [e for e in index if isinstance(e, Expr) and e != variable and (name in e.free_names() or moving & e.free_names())]
        return len(plain) == 1 and not others


def depends(value: Value, name: str) -> bool:
    own = value.attrs.index if value.op == "load" else (value.attrs,) if value.op == "index" else ()
    return any(isinstance(e, Expr) and name in e.free_names() for e in own) or any(depends(a, name) for a in value.args)


# -- products

def write_gemm(program: Any, kernel: GemmKernel) -> Written:
    types = {GEMM_TYPES.get((x.buffer.dtype.name, kernel.compute.name)) for x in (kernel.a, kernel.b)}
    if None in types or len(types) > 1 or len(kernel.batch) > 4:
        return write_kernel(program, as_loops(kernel))
    return GemmWriter(program, kernel).write(types.pop())


def as_loops(kernel: GemmKernel) -> LoopKernel:
    """The product as a column reduction, for types that the templates do not have."""
    body = kernel.epilogue.stores[0].value.body
    outer = (*kernel.batch, kernel.m, kernel.n)

    def operand(x: Operand, axes: tuple[Axis, ...]) -> Value:
        view = Buffer(x.buffer.name, x.buffer.dtype, tuple(extents(axes)), x.strides, x.offset, x.buffer.kind)
        return body.cast(body.load(view, tuple(a.var for a in axes)), kernel.compute)
    a = operand(kernel.a, (*kernel.batch, kernel.m, kernel.k))
    b = operand(kernel.b, (*kernel.batch, kernel.k, kernel.n))
    reduce = Reduce((kernel.acc,), "sum", (body.prim("mul", a, b),), (kernel.compute,))
    renamed = {axis.name: own for axis, own in zip(kernel.epilogue.axes, outer)}
    if any(axis.name != own.name for axis, own in zip(kernel.epilogue.axes, outer)):
        raise InternalError(f"the epilogue of {kernel.name} has axes {list(renamed)} that are not the product's own")
    return LoopKernel(kernel.name, outer, (Step((kernel.k,), (), (reduce,)), Step((), kernel.epilogue.stores)), (), "outer", kernel.origins, kernel.notes)


class GemmWriter(KernelWriter):
    """A call of the runtime's product; an epilogue that does more than store becomes a function over finished tiles."""

    def write(self, type_name: str) -> Written:
        kernel = self.kernel
        self.buffer(kernel.a.buffer)
        self.buffer(kernel.b.buffer)
        direct = self.direct_store()
        code = "" if direct else self.epilogue()
        if direct:
            self.buffer(direct.buffer)
        call = self.setup(type_name, direct)
        work = f"({' * '.join(factor(e) for e in [*extents(kernel.batch), kernel.m.extent, kernel.n.extent, kernel.k.extent])}) / 8"
        return Written(kernel, code, self.buffers, call, work, False)

    def setup(self, type_name: str, direct: Store | None) -> list[str]:
        kernel, axes = self.kernel, self.kernel.batch
        pointer = lambda x: f"({type_of(x.buffer.dtype).c}*)p[{self.buffer(x.buffer).strip('@')}] + {factor(x.offset)}"
        lines = ["FbGemm g = {};", f"g.a = {pointer(kernel.a)};", f"g.b = {pointer(kernel.b)};",
                 f"g.a_type = g.b_type = {type_name};", f"g.batch_dims = {len(axes)};"]
        for d, axis in enumerate(axes):
            lines.append(f"g.batch[{d}] = {cpp(axis.extent)}, g.a_batch[{d}] = {cpp(kernel.a.strides[d])}, g.b_batch[{d}] = {cpp(kernel.b.strides[d])};")
        lines += [f"g.M = {cpp(kernel.m.extent)}, g.N = {cpp(kernel.n.extent)}, g.K = {cpp(kernel.k.extent)};",
                  f"g.a_m = {cpp(kernel.a.strides[-2])}, g.a_k = {cpp(kernel.a.strides[-1])};",
                  f"g.b_k = {cpp(kernel.b.strides[-2])}, g.b_n = {cpp(kernel.b.strides[-1])};"]
        if direct is None:
            return [*lines, "Args args = {p, sym, fsym, rt, &error, 0};", "g.epilogue = {fn};", "g.epilogue_arg = &args;", "rt->gemm(&g);"]
        return [*lines, *self.direct_lines(direct), "rt->gemm(&g);"]

    def direct_lines(self, store: Store) -> list[str]:
        strides, rest = self.affine(store)
        batch = [f"g.out_batch[{d}] = {cpp(s)};" for d, s in enumerate(strides[:-2])]
        c = type_of(store.buffer.dtype).c
        return [f"g.out = ({c}*)p[{self.buffer(store.buffer).strip('@')}] + {factor(rest)};", f"g.out_type = {OUT_TYPES[store.buffer.dtype.name]};",
                *batch, f"g.out_m = {cpp(strides[-2])}, g.out_n = {cpp(strides[-1])};"]

    def affine(self, store: Store) -> tuple[list[ExprLike], ExprLike] | None:
        axes = self.kernel.epilogue.axes
        linear = store.buffer.linear(store.index)
        if not isinstance(linear, Expr):
            return [0] * len(axes), linear
        found = linear.affine([axis.var for axis in axes])
        return None if found is None else ([found[0][axis.var] for axis in axes], found[1])

    def direct_store(self) -> Store | None:
        """The store that the product can do itself: the product as it is (or rounded once) at an affine place."""
        stores = self.kernel.epilogue.stores
        if len(stores) != 1 or stores[0].mode != "set" or stores[0].buffer.dtype.name not in OUT_TYPES or self.affine(stores[0]) is None:
            return None
        value = stores[0].value
        if value.op == "cast" and value.dtype is stores[0].buffer.dtype:
            value = value.args[0]
        return stores[0] if value.op == "acc" and value.attrs == self.kernel.acc and stores[0].value.dtype is stores[0].buffer.dtype else None

    def epilogue(self) -> str:
        kernel, step = self.kernel, self.kernel.epilogue
        *batch, m, n = step.axes
        compute = type_of(kernel.compute)
        body = Lines(0)
        if batch:
            decode(body, tuple(batch), "batch")
        body.open("for (i64 r = 0; r < rows; r++)")
        body(f"const i64 {m.name} = m0 + r;")
        body(f"const {tile_type(compute)}* const tile_row = (const {tile_type(compute)}*)tile + r * stride;")
        read = f"ld(tile_row + ({n.name} - n0), lanes)"
        acc = lambda value: read if value.attrs == kernel.acc else None
        Nest(self, Step((n,), step.stores), (n,), (*batch, m), "n0", "n0 + columns", acc=acc).write(body)
        body.close()
        out = Lines()
        out.open("static void {fn}(void* raw, const void* tile, i64 stride, i64 batch, i64 m0, i64 n0, i64 rows, i64 columns)")
        out("const Args& args = *(const Args*)raw;")
        self.frame(out, body)
        out.close()
        return out.text()

    def bounds(self, outer: tuple[Axis, ...], step: Step) -> Any:
        return step_bounds((), self.kernel.epilogue)


def tile_type(compute: Type) -> str:
    return "double" if compute.kind == "d" else "float"


def describe(kernel: Any) -> list[str]:
    """The comment above a kernel: what it is, where it comes from, what it moves."""
    lines = [f"{kernel.name}: {headline(kernel)}"]
    lines += [f"  {origin.node}" + (f"   {origin.line}" if origin.line else "") for origin in kernel.origins]
    lines += [f"  why: {note}" for note in kernel.notes]
    moved = [*reads(kernel), *writes(kernel)]
    if moved:
        lines.append("  reads " + (", ".join(f"{b.name} {shape_text(b.dtype, b.sizes)}" for b in reads(kernel)) or "nothing")
                     + "; writes " + ", ".join(f"{b.name} {shape_text(b.dtype, b.sizes)}" for b in writes(kernel)))
    total = [b.numel() * b.dtype.itemsize for b in moved]
    if total and all(isinstance(t, int) for t in total):
        lines.append(f"  {sum(total):,} bytes")
    return lines


def headline(kernel: Any) -> str:
    shown = lambda axes: ", ".join(f"{a.name} < {a.extent}" for a in axes)
    if isinstance(kernel, GemmKernel):
        return f"product over {shown((*kernel.batch, kernel.m, kernel.n, kernel.k))}"
    if isinstance(kernel, ScatterKernel):
        return f"scatter ({kernel.store.mode}) over {shown(kernel.axes)}"
    return f"for each {shown(kernel.outer) or 'call'}" + (", columns side by side" if kernel.vector == "outer" else "")


__all__ = ["Body", "Written", "describe", "product", "write_kernel"]
