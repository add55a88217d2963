"""The loop IR: kernels as named ranges, SSA bodies, reductions and stores; what the scheduler orders and targets print.

In: what `lower` builds. Out: a `Program`, which prints (`text`), is checked (`verify`) and runs (`interpreter.run`). The IR
names ranges, bodies and reductions, never tiles, vectors, threads or atomics: those are the targets' choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import Any, NamedTuple

from ...capture.shapes.value_ranges import Bounds
from ...capture.shapes.expr import Expr, ExprLike, lift, int_if_const
from ...eager import dtypes
from ...eager.op.prims import COMBINES
from ...runtime.dataclass import data
from ...runtime.errors import InternalError
from .body import Body, Buffer, Check, Indirect, Load, Rewriter, Value, index_var, reachable, strides_of

__all__ = [
    "Axis",
    "Body",
    "Buffer",
    "Check",
    "ExternCall",
    "GemmKernel",
    "Indirect",
    "Kernel",
    "Load",
    "LoopKernel",
    "Operand",
    "Origin",
    "Program",
    "Reduce",
    "Rewriter",
    "ScatterKernel",
    "Step",
    "Store",
    "Symbol",
    "Value",
    "View",
    "reachable",
]


@data
class Axis:
    """A loop over [0, extent) whose variable has this name."""

    name: str
    extent: ExprLike

    @property
    def var(self) -> Expr:
        return index_var(self.name)


class Origin(NamedTuple):
    """Where a kernel comes from: the graph node, the user's line, the `record_function` blocks around that, and what was computed
    on the way to this node without a place in memory."""

    node: str
    line: str = ""
    regions: tuple[str, ...] = ()
    within: tuple[Origin, ...] = ()


@data(eq=False)
class Store:
    """Write `value` at `index`; mode "set", or "add", "mul", "max", "min" (combine with what is there; elements that meet all
    count)."""

    buffer: Buffer
    index: tuple[ExprLike, ...]
    value: Value
    mode: str = "set"


@data(eq=False)
class Reduce:
    """Combine `values` over all axes of the step into the accumulators `names`, which later steps read as "acc" values.

    sum prod max min any all logsumexp: one value, one name. argmax argmin: values (key, position), names (key, position);
    the least position wins among equals. welford: one value, names (mean, m2, count).
    """

    names: tuple[str, ...]
    combine: str
    values: tuple[Value, ...]
    dtypes: tuple[Any, ...]


@data(eq=False)
class Step:
    """One loop nest inside a kernel. The innermost axis is the vector axis (unless the kernel's is "outer").

    Per point all loads come before the stores. Values that do not depend on the axes may be computed once. `looks`: indirect
    values whose check is all that is wanted of them.
    """

    axes: tuple[Axis, ...]
    stores: tuple[Store, ...] = ()
    reduces: tuple[Reduce, ...] = ()
    looks: tuple[Value, ...] = ()

    def roots(self) -> list[Value]:
        return [s.value for s in self.stores] + [v for r in self.reduces for v in r.values] + self.index_values()

    def index_values(self) -> list[Value]:
        """The values that the stores' indices are bound to, and those that are looked at for their checks alone."""
        return [v for s in self.stores for v in s.value.body.indirect_args(s.index)] + list(self.looks)

    def values(self) -> list[Value]:
        """All values of the step, arguments first."""
        return reachable(self.roots())


@data(eq=False)
class LoopKernel:
    """For every point of `outer` (any order, parallel): run the steps in order; accumulators and locals live per point.

    vector "outer": the last outer axis is the vector axis (column reductions), the steps' loops run outside of it.
    Stores of mode "add" (at places that the last outer axis does not move) start from zero: they add up what the points along
    that axis give, which are therefore done in order by one thread.
    """

    name: str
    outer: tuple[Axis, ...]
    steps: tuple[Step, ...]
    locals: tuple[Buffer, ...] = ()
    vector: str = "inner"
    origins: tuple[Origin, ...] = ()
    notes: tuple[str, ...] = ()

    def stores(self) -> list[Store]:
        return [s for step in self.steps for s in step.stores]

    def sums(self) -> list[tuple[Step, Store]]:
        """The stores that add up, with their steps."""
        return [(step, s) for step in self.steps for s in step.stores if s.mode == "add"]


@data(eq=False)
class Operand:
    """A matrix operand: element strides along (batch axes..., row axis, column axis) from `offset` in the buffer's memory."""

    buffer: Buffer
    strides: tuple[ExprLike, ...]
    offset: ExprLike = 0


@data(eq=False)
class GemmKernel:
    """acc[b.., m, n] = sum over k of a[b.., m, k] * b[b.., k, n], then the epilogue at every (b.., m, n).

    `a` strides are over (batch..., m, k), `b` strides over (batch..., k, n); the epilogue's axes are (batch..., m, n) and
    its body reads the product (of type `compute`) as the "acc" value named `acc`. Template "conv": a is the weight, row-major,
    b is x, whose windows (`call`) are the matrix; m counts channels, n the windows of an image, the batch images.
    """

    name: str
    batch: tuple[Axis, ...]
    m: Axis
    n: Axis
    k: Axis
    a: Operand
    b: Operand
    compute: Any
    epilogue: Step
    acc: str = "product"
    template: str = "gemm"
    origins: tuple[Origin, ...] = ()
    notes: tuple[str, ...] = ()
    call: Any = None

    def stores(self) -> list[Store]:
        return list(self.epilogue.stores)


@data(eq=False)
class ScatterKernel:
    """Fill the target (`init`: a buffer of the same sizes to copy, None: zeros, or the target itself: leave as it is),
    then for every point of `axes` do `store`, whose indices may collide. Mode "set": the last point in row-major order wins.
    """

    name: str
    axes: tuple[Axis, ...]
    init: Buffer | None
    store: Store
    origins: tuple[Origin, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def target(self) -> Buffer:
        return self.store.buffer

    @property
    def step(self) -> Step:
        return Step(self.axes, (self.store,))

    def stores(self) -> list[Store]:
        return [self.store]


@data(eq=False)
class View:
    """A tensor argument: a geometry over a buffer's memory (offset in elements from its start)."""

    buffer: Buffer
    sizes: tuple[ExprLike, ...]
    strides: tuple[ExprLike, ...]
    offset: ExprLike = 0

    @property
    def shape(self) -> tuple[ExprLike, ...]:
        return self.sizes

    @property
    def dtype(self) -> Any:
        return self.buffer.dtype

    @property
    def name(self) -> str:
        return f"{self.buffer.name}[{', '.join(map(str, self.sizes))}]"


@data(eq=False)
class ExternCall:
    """An op without a loop. `args`: the op's arguments with a View for every tensor, `Expr` for sizes. `calls`: the
    runtime's kernels (runtime/kernel_calls.py) that fill the outputs, row-major ones, from the same views; None: run eagerly.
    `members`: the calls that this one stands for, where several that do not depend on each other are made at once.
    """

    name: str
    op: Any
    args: tuple
    outputs: tuple[Buffer, ...]
    draw: int | None = None
    origins: tuple[Origin, ...] = ()
    notes: tuple[str, ...] = ()
    calls: tuple | None = None
    members: tuple[ExternCall, ...] = ()

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return tuple(dict.fromkeys(view.buffer for view in leaves(self.args, View)))

    @property
    def call(self) -> Any:
        """The one call of the runtime's that it is."""
        if self.calls is None or len(self.calls) != 1:
            raise InternalError(f"{self.name} is not one call of the runtime's")
        return self.calls[0]

    def stores(self) -> list[Store]:
        return []


Kernel = LoopKernel | GemmKernel | ScatterKernel | ExternCall


class Symbol(NamedTuple):
    """How a symbol gets its value at a call: `what` is size, stride, offset or value of graph input `input` at `dim`."""

    name: str
    input: int
    what: str
    dim: int = 0


@data(eq=False)
class Program:
    """Kernels in order over buffers.

    `inputs`: one entry a graph input: a Buffer; or a name for a Python number. `outputs`: a Buffer (an input's too),
    an expression (a symbolic number), or None. `symbols`: the integer symbols; `floats`: the symbolic floats (float64).
    `scalars`: "seed" and "base" where something draws.
    `arena`: temp name -> byte offset, `arena_size` in bytes; `homes`: temp or output -> the input whose dead bytes it takes
    over (a temp at its offset, an output the whole block); filled by `memory.plan`.
    """

    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    inputs: tuple[Buffer | str, ...]
    outputs: tuple[Buffer | ExprLike | None, ...]
    symbols: tuple[Symbol, ...] = ()
    floats: tuple[Symbol, ...] = ()
    scalars: tuple[str, ...] = ()
    constants: dict[str, Any] = field(default_factory=dict)
    draws: int = 0
    checks: tuple[Check, ...] = ()
    arena: dict[str, ExprLike] = field(default_factory=dict)
    arena_size: ExprLike = 0
    homes: dict[str, str] = field(default_factory=dict)
    name: str = "graph"

    def text(self) -> str:
        """The whole program, readable and deterministic."""
        return "\n".join(_program_lines(self)) + "\n"

    def verify(self) -> None:
        """Raise InternalError, with the IR of the kernel, at the first broken rule."""
        Verifier(self).run()

    def with_kernels(self, kernels: Iterable[Kernel]) -> Program:
        """The same program over other kernels; buffers that nothing names any more are dropped."""
        kernels = tuple(kernels)
        used = {b for k in kernels for b in (*buffers_read(k), *buffers_written(k))}
        used.update(b for b in (*self.inputs, *self.outputs) if isinstance(b, Buffer))
        return replace(self, kernels=kernels, buffers=tuple(b for b in self.buffers if b in used))


# -- questions about kernels


def row_major(sizes: tuple) -> tuple:
    """The strides of contiguous memory."""
    strides, step = [], 1
    for n in reversed(sizes):
        strides.append(step)
        step = int_if_const(step * n)
    return tuple(reversed(strides))


def leaves(x: Any, kind: type | tuple[type, ...]) -> Iterator:
    """All objects of `kind` in nested tuples, lists and dicts."""
    if isinstance(x, kind):
        yield x
    elif isinstance(x, (tuple, list)):
        for item in x:
            yield from leaves(item, kind)
    elif isinstance(x, dict):
        yield from leaves(tuple(x.values()), kind)


def steps(kernel: Kernel) -> tuple[Step, ...]:
    """The loop nests of a kernel (a template's epilogue, a scatter's loop)."""
    if isinstance(kernel, LoopKernel):
        return kernel.steps
    if isinstance(kernel, GemmKernel):
        return (kernel.epilogue,)
    return (kernel.step,) if isinstance(kernel, ScatterKernel) else ()


def outer_axes(kernel: Kernel) -> tuple[Axis, ...]:
    return kernel.outer if isinstance(kernel, LoopKernel) else ()


def loads(kernel: Kernel) -> list[Value]:
    """The load values of all loop nests of a kernel."""
    return [v for step in steps(kernel) for v in step.values() if v.op == "load"]


def buffers_read(kernel: Kernel) -> list[Buffer]:
    """The buffers that a kernel reads, each once (row scratch left out)."""
    found = [v.attrs.buffer for v in loads(kernel)]
    if isinstance(kernel, GemmKernel):
        found += [kernel.a.buffer, kernel.b.buffer]
    elif isinstance(kernel, ScatterKernel) and kernel.init is not None:
        found.append(kernel.init)
    elif isinstance(kernel, ExternCall):
        found += kernel.inputs
    return [b for b in dict.fromkeys(found) if b.kind != "local"]


def buffers_written(kernel: Kernel) -> list[Buffer]:
    """The buffers that a kernel writes, each once (row scratch left out)."""
    if isinstance(kernel, ExternCall):
        return list(kernel.outputs)
    return [b for b in dict.fromkeys(s.buffer for s in kernel.stores()) if b.kind != "local"]


def fallible(kernel: Kernel) -> list[int]:
    """The checks that a kernel may fail."""
    found = (v.attrs.check for step in steps(kernel) for v in step.values() if v.op == "indirect")
    return sorted({check for check in found if check is not None})


def row_of(place: ExprLike, axes: tuple[Axis, ...]) -> tuple | None:
    """The set of places that a step's axes walk through: (what does not vary, ((stride, extent), ...)), axes that are one
    run of memory taken as one; None where that is not known."""
    factors, tangled = strides_of(place) if isinstance(place, Expr) else ({}, frozenset())
    walked = [(factors[a.name], a.extent) for a in axes if a.name in factors]
    if any(a.name in tangled for a in axes) or any(type(n) is int and n < 1 for pair in walked for n in pair):
        return None
    runs = joined_runs(walked)
    rest = place
    for a in axes:
        rest = rest - a.var * factors.get(a.name, 0)
    return int_if_const(rest), frozenset(runs)


def joined_runs(runs: list[tuple[ExprLike, ExprLike]]) -> list[tuple[ExprLike, ExprLike]]:
    """(stride, extent) pairs, where one steps over all of another taken together with that, whatever their sizes are."""
    for first in runs:
        for second in runs:
            if first is not second and second[0] == int_if_const(lift(first[0]) * first[1]):
                rest = [run for run in runs if run is not first and run is not second]
                return joined_runs([*rest, (first[0], int_if_const(lift(first[1]) * second[1]))])
    return runs


def step_bounds(outer: tuple[Axis, ...], step: Step) -> Bounds:
    """What is known of the variables inside a step."""
    ranges = {a.name: (0, a.extent - 1) for a in (*outer, *step.axes)}
    for v in step.values():
        if v.op == "indirect":
            ranges[v.attrs.name] = (0, v.attrs.size - 1)
    return Bounds(ranges)


# -- printing


def _lies(program: Program, name: str) -> str:
    home = program.homes.get(name)
    if name in program.arena:
        return f" at {home or 'arena'} + {program.arena[name]}"
    return f" takes over {home}" if home else ""


def _program_lines(program: Program) -> Iterator[str]:
    yield f"program {program.name}"
    for symbol in (*program.symbols, *program.floats):
        yield f"  symbol {symbol.name} = inputs[{symbol.input}].{symbol.what}" + (
            "" if symbol.what in ("value", "offset") else f"[{symbol.dim}]"
        )
    if program.scalars:
        yield f"  scalars {', '.join(program.scalars)}"
    for buffer in program.buffers:
        yield f"  {buffer.text()}{_lies(program, buffer.name)}"
    if program.arena:
        yield f"  arena {program.arena_size} bytes"
    for check in program.checks:
        yield f"  check {check.ident}: {check.text}"
    for kernel in program.kernels:
        yield ""
        yield from kernel_lines(kernel)
    yield ""
    yield f"return {', '.join(_ref(o) for o in program.outputs)}"


def kernel_text(kernel: Kernel) -> str:
    return "\n".join(kernel_lines(kernel))


def kernel_lines(kernel: Kernel) -> Iterator[str]:
    """A kernel's header, its provenance and its loop nests."""
    yield _header(kernel)
    for origin in kernel.origins:
        yield f"  # {origin.node}" + (f"  {origin.line}" if origin.line else "")
    for note in kernel.notes:
        yield f"  # why: {note}"
    for buffer in getattr(kernel, "locals", ()):
        yield f"  {buffer.text()}"
    names: dict[int, str] = {}
    for step in steps(kernel):
        yield f"  for {_axes(step.axes)}:" if step.axes else "  once:"
        yield from _step_lines(step, names)


def _header(kernel: Kernel) -> str:
    if isinstance(kernel, LoopKernel):
        return f"kernel {kernel.name}: for each {_axes(kernel.outer) or 'call'} vector={kernel.vector}"
    if isinstance(kernel, GemmKernel):
        batch = f"{_axes(kernel.batch)}; " if kernel.batch else ""
        return (
            f"{kernel.template} {kernel.name}: {batch}{_axes((kernel.m, kernel.n, kernel.k))} "
            f"{_operand(kernel.a)} @ {_operand(kernel.b)} in {kernel.compute.name}"
        )
    if isinstance(kernel, ScatterKernel):
        init = "zeros" if kernel.init is None else kernel.init.name
        return f"scatter {kernel.name}: {kernel.target.name} = {init}, then {kernel.store.mode}"
    kind = "extern" if kernel.calls is None else "native"
    return f"{kind} {kernel.name}: {_ref(kernel.outputs)} = {kernel.op.name}({', '.join(_ref(a) for a in kernel.args)})"


def _axes(axes: tuple[Axis, ...]) -> str:
    return ", ".join(f"{a.name} < {a.extent}" for a in axes)


def _operand(operand: Operand) -> str:
    offset = "" if operand.offset == 0 else f" + {operand.offset}"
    return f"{operand.buffer.name}({', '.join(map(str, operand.strides))}{offset})"


def _ref(x: Any) -> str:
    if isinstance(x, (tuple, list)):
        return f"({', '.join(map(_ref, x))})"
    return x.name if not isinstance(x, Expr) and hasattr(x, "name") else str(x)


def _step_lines(step: Step, names: dict[int, str]) -> Iterator[str]:
    for value in step.values():
        if value.op not in ("const", "acc", "scalar"):
            names.setdefault(value.id, f"%{len(names)}")
            yield f"    {names[value.id]} = {_value_text(value, names)}"
    for reduce in step.reduces:
        values = ", ".join(_value_ref(v, names) for v in reduce.values)
        yield f"    {', '.join(reduce.names)} = {reduce.combine}({values}) : {', '.join(d.name for d in reduce.dtypes)}"
    for store in step.stores:
        sign = {"set": "=", "add": "+=", "mul": "*="}.get(store.mode, f"{store.mode}=")
        yield f"    {_access_text(store.buffer, store.index)} {sign} {_value_ref(store.value, names)}"
    for value in step.looks:
        yield f"    look at {_value_ref(value, names)}"


def _access_text(buffer: Buffer, index: tuple) -> str:
    return f"{buffer.name}[{', '.join(map(str, index))}]"


def _value_ref(value: Value, names: dict[int, str]) -> str:
    if value.op == "const":
        return f"{value.attrs!r}:{value.dtype.name}"
    return value.attrs if value.op in ("acc", "scalar") else names[value.id]


def _value_text(value: Value, names: dict[int, str]) -> str:
    if value.op == "load":
        load = value.attrs
        mask = f" if {_value_ref(value.args[0], names)} else {load.other}" if load.masked else ""
        return f"{_access_text(load.buffer, load.index)}{mask} : {value.dtype.name}"
    if value.op == "index":
        return f"index {value.attrs}"
    args = ", ".join(_value_ref(a, names) for a in value.args)
    if value.op == "indirect":
        check = f", check {value.attrs.check}" if value.attrs.check is not None else ""
        return f"indirect {value.attrs.name} = {args} in [0, {value.attrs.size}){check}"
    return f"{value.op}({args}) : {value.dtype.name}"


# -- checking


class Verifier:
    """Walks a program in execution order with what has been written so far."""

    def __init__(self, program: Program):
        self.program = program
        self.kernel: Kernel | None = None
        self.written = {b for b in program.buffers if b.kind in ("input", "const")}
        self.symbols = {s.name for s in (*program.symbols, *program.floats)}

    def run(self) -> None:
        names = [b.name for b in self.program.buffers]
        self.require(len(set(names)) == len(names), "two buffers have one name")
        known = set(self.program.buffers)
        for kernel in self.program.kernels:
            self.kernel = kernel
            for buffer in (*buffers_read(kernel), *buffers_written(kernel)):
                self.require(buffer in known, f"{buffer.name} is not a buffer of the program")
            self.check_kernel(kernel)
            self.written.update(buffers_written(kernel))
        self.kernel = None
        for output in self.program.outputs:
            self.require(not isinstance(output, Buffer) or output in self.written, f"output {_ref(output)} is never written")
            self.require(not isinstance(output, Buffer) or output.kind != "temp", f"output {_ref(output)} lies in the arena")
        self.check_homes()

    def check_homes(self) -> None:
        """What lies in a donated input ends where the input ends: what is behind it is another's."""
        sizes = {b.name: b.extent() * b.dtype.itemsize for b in self.program.buffers}
        for name, home in self.program.homes.items():
            start = self.program.arena.get(name, 0)
            ends = [int_if_const(start + n) for n in (sizes[name], (sizes[name] + 63) // 64 * 64)]
            fits = any(sizes[home] == end or Bounds({}).nonnegative(sizes[home] - end) for end in ends)
            self.require(fits, f"{name} lies at bytes {start} to {ends[0]} of {home}, which has {sizes[home]}")

    def require(self, condition: bool, message: str) -> None:
        if not condition:
            raise InternalError(f"loop IR: {message}" + (f"\n{kernel_text(self.kernel)}" if self.kernel else ""))

    def check_kernel(self, kernel: Kernel) -> None:
        for buffer in buffers_read(kernel):
            ok = buffer in self.written or buffer in buffers_written(kernel)
            self.require(ok, f"{buffer.name} is read before it is written")
        for buffer in buffers_written(kernel):
            writable = buffer.kind in ("output", "temp") or buffer in self.program.outputs
            self.require(writable, f"{buffer.name} is a {buffer.kind} and is written")
        self.check_outputs_of_checks(kernel)
        outer = outer_axes(kernel)
        accs = {kernel.acc} if isinstance(kernel, GemmKernel) else set()
        locals_written: set[Buffer] = set()
        before: list[Step] = []
        for step in steps(kernel):
            self.check_step(outer, step, accs, locals_written, before)
            accs |= {name for r in step.reduces for name in r.names}
            before.append(step)
            locals_written |= {s.buffer for s in step.stores}

    def check_outputs_of_checks(self, kernel: Kernel) -> None:
        idents = {c.ident for c in self.program.checks}
        for check in fallible(kernel):
            self.require(check in idents, f"check {check} is not declared")

    def check_step(self, outer: tuple[Axis, ...], step: Step, accs: set[str], locals_written: set, before: list[Step]) -> None:
        axes = [a.name for a in (*outer, *step.axes)]
        self.require(len(set(axes)) == len(axes), f"an axis appears twice in {axes}")
        bounds = step_bounds(outer, step)
        scope = {*bounds.ranges, *self.symbols}
        for value in step.values():
            self.check_value(value, scope, accs, bounds)
            if value.op == "load":
                self.check_load(value, step, locals_written, before)
        for reduce in step.reduces:
            self.check_reduce(reduce)
        for store in step.stores:
            self.require(
                store.value.dtype is store.buffer.dtype,
                f"{store.buffer.name} of {store.buffer.dtype.name} is given {store.value.dtype.name}",
            )
            self.check_index(store.buffer, store.index, scope, bounds, masked=False)

    def check_reduce(self, reduce: Reduce) -> None:
        info = COMBINES.get(reduce.combine)
        if info is None:
            return self.require(False, f"unknown combine {reduce.combine!r}")
        self.require(
            len(reduce.names) == len(reduce.dtypes) == info.n_outputs,
            f"{reduce.combine} has {info.n_outputs} accumulators, not {len(reduce.names)}",
        )

    def check_value(self, value: Value, scope: set[str], accs: set[str], bounds: Bounds) -> None:
        if value.op == "acc":
            self.require(value.attrs in accs, f"accumulator {value.attrs} is read before its step")
        elif value.op == "load":
            load = value.attrs
            self.require(value.dtype is load.buffer.dtype, f"load of {load.buffer.name} has type {value.dtype.name}")
            self.require(not load.masked or value.args[0].dtype is dtypes.bool, f"a mask of {load.buffer.name} is not bool")
            self.check_index(load.buffer, load.index, scope, bounds, load.masked)
        elif value.op == "index":
            self.check_scope(value.attrs, scope)
        elif value.op == "scalar":
            ok = value.attrs in self.symbols or value.attrs in self.program.scalars
            self.require(ok, f"unknown scalar {value.attrs}")

    def check_scope(self, e: ExprLike, scope: set[str]) -> None:
        if isinstance(e, Expr):
            self.require(e.free_names() <= scope, f"{e} names {sorted(e.free_names() - scope)}, not in scope")

    def check_index(self, buffer: Buffer, index: tuple, scope: set[str], bounds: Bounds, masked: bool) -> None:
        self.require(
            len(index) == len(buffer.sizes), f"{_access_text(buffer, index)}: the buffer has {len(buffer.sizes)} dimensions"
        )
        for e, size in zip(index, buffer.sizes):
            self.check_scope(e, scope)
            if not masked:
                low, high = bounds.interval(e)
                size = int_if_const(size)
                inside = low > -1 and (not isinstance(size, int) or high < size)
                empty = any(int_if_const(extent) == 0 for extent in self.extents()) or size == 0
                self.require(
                    inside or empty or not self.surely_outside(e, low, high, size, bounds),
                    f"{_access_text(buffer, index)}: {e} may be {low}..{high}, outside of [0, {size})",
                )

    def extents(self) -> list[ExprLike]:
        assert self.kernel is not None  # (indices are checked kernel by kernel)
        return [a.extent for a in outer_axes(self.kernel)] + [a.extent for s in steps(self.kernel) for a in s.axes]

    @staticmethod
    def surely_outside(e: ExprLike, low: float, high: float, size: ExprLike, bounds: Bounds) -> bool:
        """Intervals of affine expressions of independent variables are exact; anything else counts only if never inside."""
        exact = not isinstance(e, Expr) or all(len(m) <= 1 and all(a.op == "var" and p == 1 for a, p in m) for m, _ in e.terms)
        if exact and isinstance(size, int) and low != -float("inf") and high != float("inf"):
            return low < 0 or high >= size
        return high < 0 or (isinstance(size, int) and low >= size)

    def check_load(self, value: Value, step: Step, locals_written: set, before: list[Step]) -> None:
        """What the kernel itself writes may be read at the same place only, or in the row that a step before wrote there; in
        a kernel of one point anywhere, once the step that writes it is over."""
        load = value.attrs
        if load.buffer.kind == "local":
            self.require(load.buffer in locals_written, f"row scratch {load.buffer.name} is read before it is written")
            return
        over = before if self.kernel is not None and outer_axes(self.kernel) else ()
        own = [(at, s) for at in (*over, step) for s in at.stores if s.buffer == load.buffer]
        if own:
            place = int_if_const(load.buffer.linear(load.index))
            row = row_of(place, step.axes)
            wrote = [(at, int_if_const(s.buffer.linear(s.index))) for at, s in own]
            self.require(
                all(e == place or at is not step and row is not None and row == row_of(e, at.axes) for at, e in wrote),
                f"{_access_text(load.buffer, load.index)} is read where the kernel writes another place of it",
            )
            stored = load.buffer in self.written or any(s.buffer == load.buffer for at in before for s in at.stores)
            self.require(stored, f"{load.buffer.name} is read before it is written")
