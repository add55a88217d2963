"""Scatters and products in C++, and the choice of a kernel's writer by its kind.

A scatter fills its target, then adds or sets in row-major order; threads share out the last axis where its points never
meet. A product calls the runtime's template; an epilogue that does more than store is a function over finished tiles.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...capture.shapes.expr import Expr, ExprLike, int_if_const
from ...runtime.errors import InternalError
from ..loops.body import Buffer, Value, index_var
from ..loops.ir import Axis, GemmKernel, LoopKernel, Operand, Reduce, ScatterKernel, Step, Store, fallible, step_bounds
from ..loops.lower import is_row_major
from .extern_calls import geometry_lines, three
from .kernels import RowKernel, write_loops
from .loop_codegen import StepWriter
from .prims import Type, type_of
from .segments import step_at, segments
from .cpp_text import Lines, cpp, factor
from .kernel_writer import KernelWriter, CppKernel, cost, decode, extents, refuse_hidden_names, work_text

FEW = 8  # points of the last axes of a scatter that are written one by one
CUT = 32  # elements of a scatter's row from which segments pay
OUT_TYPES = {"float32": "FB_FLOAT", "float64": "FB_DOUBLE", "bfloat16": "FB_BF16", "float16": "FB_F16"}
GEMM_TYPES = {(d, d): text for d, text in OUT_TYPES.items()} | {(d, "float32"): OUT_TYPES[d] for d in ("bfloat16", "float16")}


def write_kernel(program: Any, kernel: Any) -> CppKernel:
    """The kernel by its kind."""
    refuse_hidden_names(kernel)
    return WRITERS[type(kernel)](program, kernel)


# -- scatter


def write_scatter(program: Any, kernel: ScatterKernel) -> CppKernel:
    """The initial copy or zeros as a kernel of its own, then the scatter."""
    written = ScatterWriter(program, kernel).write()
    if kernel.init != kernel.target:
        written.extra.append(write_loops(program, initial_kernel(kernel)))
    return written


def initial_kernel(kernel: ScatterKernel) -> LoopKernel:
    """A map over the target that fills it with zeros or with `init`."""
    body = kernel.store.value.body
    target, init = kernel.target, kernel.init
    if is_row_major(target.sizes, target.strides) and (init is None or is_row_major(init.sizes, init.strides)):
        target, init = target.flat, init and init.flat
    axes = tuple(Axis(f"d{k}", size) for k, size in enumerate(target.sizes))
    index = tuple(a.var for a in axes)
    value = body.const(0, target.dtype) if init is None else body.load(init, index)
    return LoopKernel(f"{kernel.name}_start", (), (Step(axes, (Store(target, index, value),)),), origins=kernel.origins)


class ScatterWriter(RowKernel):
    """All points in row-major order; where the last axis is a coordinate of the target, threads share it out."""

    def write(self) -> CppKernel:
        axes = self.kernel.axes
        shared = self.shared_axis()
        body = Lines(1)
        if shared:
            body.open("for (i64 point = begin; point < end; point++)")
            body(f"const i64 first = point * args.block, past = fb_min(first + args.block, {cpp(axes[-1].extent)});")
            StepWriter(self, self.kernel.step, axes, (), "first", "past").write(body)
            body.close()
        else:
            self.write_rows(body, axes)
        if not shared:
            return self.written(body, "1", work_text(extents(axes), cost(self.kernel.step)))
        extent = factor(axes[-1].extent)
        block = f"column_block({extent}, 1 << 20, rt)"
        return self.written(
            body,
            f"(({extent} + {block} - 1) / {block})",
            work_text([*extents(axes[:-1]), index_var(block)], cost(self.kernel.step)),
            block,
        )

    def write_rows(self, body: Lines, axes: tuple[Axis, ...]) -> None:
        """All points in order: a row of the last axis at a time where that has segments, and a few points of the last axes, whose
        vectors would wait for each other's stores, one by one."""
        step = self.kernel.step
        outer, parts = points(axes, step)
        if not parts and axes and type(axes[-1].extent) is int and axes[-1].extent >= CUT:
            outer = axes[:-1]
            for _, part in segments(outer, step, axes[-1]):
                part = replace(part, axes=part.axes[-1:])
                few = type(part.axes[0].extent) is int and part.axes[0].extent <= FEW and not part.looks
                parts += [step_at(outer, part, part.axes[0], k) for k in range(part.axes[0].extent)] if few else [part]
        if not parts:
            return StepWriter(self, step, axes, ()).write(body)
        for axis in outer:
            body.open(f"for (i64 {axis.name} = 0; {axis.name} < {cpp(axis.extent)}; {axis.name}++)")
        for part in parts:
            StepWriter(self, part, part.axes, outer).write(body)
        for _ in outer:
            body.close()

    def shared_axis(self) -> bool:
        """Different points of the last axis never meet: it is one coordinate, and no other depends on it."""
        if not self.kernel.axes:
            return False
        variable, values = self.kernel.axes[-1].var, self.kernel.step.values()
        name = self.kernel.axes[-1].name
        index = self.kernel.store.index
        moving = {v.attrs.name for v in values if v.op == "indirect" and depends_on(v, name)}
        plain = [e for e in index if isinstance(e, Expr) and e == variable]
        others = [
            e for e in index if isinstance(e, Expr) and e != variable and (name in e.free_names() or moving & e.free_names())
        ]
        return len(plain) == 1 and not others


def points(axes: tuple[Axis, ...], step: Step) -> tuple[tuple[Axis, ...], list[Step]]:
    """(the axes before, the step at each point of the last ones in order) where these have a few points together."""
    outer, parts = axes, [step]
    while outer and type(outer[-1].extent) is int and 0 < outer[-1].extent * len(parts) <= FEW and not step.looks:
        outer, parts = outer[:-1], [step_at(outer[:-1], part, outer[-1], k) for k in range(outer[-1].extent) for part in parts]
    return (outer, parts) if len(parts) > 1 else (axes, [])


def depends_on(value: Value, name: str) -> bool:
    own = value.attrs.index if value.op == "load" else (value.attrs,) if value.op == "index" else ()
    return any(isinstance(e, Expr) and name in e.free_names() for e in own) or any(depends_on(a, name) for a in value.args)


# -- products


def write_gemm(program: Any, kernel: GemmKernel) -> CppKernel:
    if kernel.call is not None:
        return ConvWriter(program, kernel).write("")
    type_name, other = (GEMM_TYPES.get((x.buffer.dtype.name, kernel.compute.name)) for x in (kernel.a, kernel.b))
    if type_name is None or other != type_name or len(kernel.batch) > 4:
        return write_loops(program, as_loops(kernel))
    return GemmWriter(program, kernel).write(type_name)


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
    return LoopKernel(
        kernel.name,
        outer,
        (Step((kernel.k,), (), (reduce,)), Step((), kernel.epilogue.stores)),
        (),
        "outer",
        kernel.origins,
        kernel.notes,
    )


class GemmWriter(KernelWriter):
    """A call of the runtime's product; an epilogue that does more than store becomes a function over finished tiles."""

    def write(self, type_name: str) -> CppKernel:
        kernel = self.kernel
        self.buffer(kernel.a.buffer)
        self.buffer(kernel.b.buffer)
        direct = self.direct_store()
        code = "" if direct else self.epilogue()
        if direct:
            self.buffer(direct.buffer)
        call = self.setup(type_name, direct)
        work = " * ".join(map(factor, extents((*kernel.batch, kernel.m, kernel.n, kernel.k))))
        return CppKernel(kernel, code, self.buffers, call, f"({work}) / 8", bool(fallible(kernel)), starts=self.starts)

    def setup(self, type_name: str, direct: Store | None) -> list[str]:
        kernel, axes = self.kernel, self.kernel.batch
        pointer = lambda x: self.argument(x.buffer, x.offset)
        lines = [
            "FbGemm g = {};",
            f"g.a = {pointer(kernel.a)};",
            f"g.b = {pointer(kernel.b)};",
            f"g.a_type = g.b_type = {type_name};",
            f"g.batch_dims = {len(axes)};",
        ]
        for d, axis in enumerate(axes):
            a, b = cpp(kernel.a.strides[d]), cpp(kernel.b.strides[d])
            lines.append(f"g.batch[{d}] = {cpp(axis.extent)}, g.a_batch[{d}] = {a}, g.b_batch[{d}] = {b};")
        lines += [
            f"g.M = {cpp(kernel.m.extent)}, g.N = {cpp(kernel.n.extent)}, g.K = {cpp(kernel.k.extent)};",
            f"g.a_m = {cpp(kernel.a.strides[-2])}, g.a_k = {cpp(kernel.a.strides[-1])};",
            f"g.b_k = {cpp(kernel.b.strides[-2])}, g.b_n = {cpp(kernel.b.strides[-1])};",
        ]
        if direct is None:
            return [
                *lines,
                "Args args = {p, sym, fsym, rt, &error, 0};",
                "g.epilogue = {fn};",
                "g.epilogue_arg = &args;",
                "rt->gemm(&g);",
            ]
        return [*lines, *self.direct_lines(direct), "rt->gemm(&g);"]

    def direct_lines(self, store: Store) -> list[str]:
        strides, rest = self.place(store)
        batch = [f"g.out_batch[{d}] = {cpp(s)};" for d, s in enumerate(strides[:-2])]
        return [
            f"g.out = {self.argument(store.buffer, rest)};",
            f"g.out_type = {OUT_TYPES[store.buffer.dtype.name]};",
            *batch,
            f"g.out_m = {cpp(strides[-2])}, g.out_n = {cpp(strides[-1])};",
        ]

    def affine(self, store: Store) -> tuple[list[ExprLike], ExprLike] | None:
        axes = self.kernel.epilogue.axes
        linear = store.buffer.linear(store.index)
        if not isinstance(linear, Expr):
            return [0] * len(axes), linear
        found = linear.affine([axis.var for axis in axes])
        return None if found is None else ([found[0][axis.var] for axis in axes], found[1])

    def place(self, store: Store) -> tuple[list[ExprLike], ExprLike]:
        """`affine` of a store that the template does itself."""
        found = self.affine(store)
        assert found is not None  # (else `direct_store` gives none)
        return found

    def direct_store(self) -> Store | None:
        """The store that the product can do itself: the product as it is (or rounded once) at an affine place."""
        stores = self.kernel.epilogue.stores
        if (
            len(stores) != 1
            or stores[0].mode != "set"
            or stores[0].buffer.dtype.name not in OUT_TYPES
            or self.affine(stores[0]) is None
        ):
            return None
        value = stores[0].value
        if value.op == "cast" and value.dtype is stores[0].buffer.dtype:
            value = value.args[0]
        return (
            stores[0]
            if value.op == "acc" and value.attrs == self.kernel.acc and stores[0].value.dtype is stores[0].buffer.dtype
            else None
        )

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
        StepWriter(self, Step((n,), step.stores), (n,), (*batch, m), "n0", "n0 + columns", acc=acc).write(body)
        body.close()
        out = Lines()
        out.open("static void {fn}(void* raw, const void* tile, i64 stride, i64 batch, i64 m0, i64 n0, i64 rows, i64 columns)")
        out("const Args& args = *(const Args*)raw;")
        self.frame(out, body)
        out.close()
        return out.text()

    def bounds(self, outer: tuple[Axis, ...], step: Step) -> Any:
        return step_bounds((), self.kernel.epilogue)


class ConvWriter(GemmWriter):
    """A call of the runtime's convolution: the same epilogues over tiles of (channels, windows of an image)."""

    def setup(self, type_name: str, direct: Store | None) -> list[str]:
        kernel = self.kernel
        pointer = lambda x: self.argument(x.buffer, x.offset)
        lines = [
            "FbConv c = {};",
            f"c.x = {pointer(kernel.b)};",
            f"c.w = {pointer(kernel.a)};",
            *geometry_lines(kernel.call),
            *three("kernel", kernel.call.weight.sizes[2:]),
        ]
        if direct is None:
            return [
                *lines,
                "Args args = {p, sym, fsym, rt, &error, 0};",
                "c.epilogue = {fn};",
                "c.epilogue_arg = &args;",
                "rt->conv(&c);",
            ]
        return [*lines, *self.direct_lines(direct), "rt->conv(&c);"]

    def direct_store(self) -> Store | None:
        """A store in the operands' type alone is the convolution's own."""
        store = super().direct_store()
        return store if store is not None and store.buffer.dtype is self.kernel.b.buffer.dtype else None

    def direct_lines(self, store: Store) -> list[str]:
        strides, rest = self.place(store)
        place = self.argument(store.buffer, rest)
        each, found = strides[-1], []
        for n in reversed(self.kernel.call.out.sizes[2:]):
            found.insert(0, each)
            each = int_if_const(each * n)
        image = strides[0] if len(strides) == 3 else 0
        return [f"c.out = {place};", f"c.out_n = {cpp(image)}, c.out_c = {cpp(strides[-2])};", *three("out_s", tuple(found), 0)]


def tile_type(compute: Type) -> str:
    return "double" if compute.kind == "d" else "float"


WRITERS = {LoopKernel: write_loops, GemmKernel: write_gemm, ScatterKernel: write_scatter}
