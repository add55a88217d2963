"""What all kernels of the C++ backend share: names, placeholders, the function's frame, estimates of work,
comments.

A kernel's writer hands its nests names for buffers (placeholders), accumulators, values and scalars, and wraps
their lines into a function over a range of points. `CppKernel` is what the entry point needs of it.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ...capture.shapes.expr import Expr, ExprLike, from_atom, lift, product
from ...runtime.dataclass import data
from ...runtime.errors import InternalError
from ..loops.body import Buffer, Value, index_var
from ..loops.ir import Axis, GemmKernel, ScatterKernel, Step, outer_axes, buffers_read, step_bounds, steps, buffers_written
from ..source_text import shape_text
from .prims import COSTS, Type, type_of
from .cpp_text import Lines, Names, factor


@data
class CppKernel:
    """One kernel in C++. `call` are the lines of the entry point, with `{fn}` for the function's name; the function gets
    its buffers' addresses moved by `starts` elements."""

    kernel: Any
    code: str
    buffers: list[Buffer]
    call: list[str]
    work: str
    fallible: bool = False
    extra: list[CppKernel] = field(default_factory=list)  # kernels that must run before (a scatter's initial copy)
    starts: dict[str, ExprLike] = field(default_factory=dict)  # by buffer name


class KernelWriter:
    """Names and helpers of one kernel's function; the nests ask it for everything that is not theirs."""

    def __init__(self, program: Any, kernel: Any):
        self.program, self.kernel = program, kernel
        self.names = Names()
        self.values = 0  # named so far
        self.buffers: list[Buffer] = []
        self.starts: dict[str, ExprLike] = {}
        self.accs: dict[str, str] = {}
        self.locals: dict[Buffer, str] = {b: self.names(b, "scratch") for b in getattr(kernel, "locals", ())}
        self.indirect_names: dict[str, str] = {}
        self.streams: frozenset[str] = frozenset()  # buffers written past the caches (prefetch.py)
        self.streams_if = ""
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
        self.values += 1
        return f"{stem}_{self.values - 1}"

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
        """Element offset of an index from the address that the function gets; row scratch of a column kernel has one row
        a column of the block."""
        linear = buffer.linear(index)
        if buffer not in self.locals:
            return linear - self.start(buffer, linear)
        if columns:
            lane = self.kernel.outer[-1].var - index_var("column0")
            return lift(linear) * index_var("LANES") + lane
        return linear

    def start(self, buffer: Buffer, linear: ExprLike) -> ExprLike:
        """How far the caller moves a buffer's address: by what the first access of the buffer adds whatever the loops
        do. So kernels that differ in the place of a slice alone (the steps of a recurrence) have equal texts."""
        if buffer.name not in self.starts:
            self.starts[buffer.name] = fixed_part(linear, self.symbols)
        return self.starts[buffer.name]

    def argument(self, buffer: Buffer, offset: ExprLike) -> str:
        """An element's address for a line of the call, where `p` are the function's buffers."""
        number = self.buffer(buffer).strip("@")
        return f"({type_of(buffer.dtype).c}*)p[{number}] + {factor(offset - self.starts.get(buffer.name, 0))}"

    # -- the function's frame

    def frame(self, out: Lines, body: Lines) -> str:
        """Declarations of what the body uses, then the body."""
        for k, buffer in enumerate(self.buffers):
            out(f"{type_of(buffer.dtype).c}* const @{k}@ = ({type_of(buffer.dtype).c}*)args.p[{k}];")
        for name, k in self.symbols.items():
            out(f"const i64 {name} = args.n[{k}];")
        out.extend(body.lines)
        return out.text()


def fixed_part(e: ExprLike, symbols: Any) -> ExprLike:
    """The terms of an offset that are not negative and depend on sizes alone."""
    if not isinstance(e, Expr):
        return max(e, 0)
    kept = [
        product(from_atom(atom) ** power for atom, power in monomial) * coefficient
        for monomial, coefficient in e.terms
        if coefficient > 0 and all(atom.op == "var" and atom.args[0] in symbols for atom, _ in monomial)
    ]
    return sum(kept)


# names of the functions' own variables: an axis that hid one would change what the code means
OWN = frozenset(
    """
    lanes slot far drain point row first past chunks blocks column0 args raw begin end thread tile tile_row stride batch m0 n0
    rows columns r l start b COLUMNS LANES turn line column rest sym fsym rt error p g
    """.split()
)


def refuse_hidden_names(kernel: Any) -> None:
    axes = [a for step in steps(kernel) for a in step.axes] + list(outer_axes(kernel))
    hidden = sorted(axis.name for axis in axes if axis.name in OWN)
    if hidden:
        raise InternalError(f"axes {hidden} of kernel {kernel.name} have names that the generated code uses itself")


RANGE = "static void {fn}(void* raw, i64 begin, i64 end, int thread)"


# -- estimates and indices


def cost(step: Step) -> int:
    """Simple operations per element of a step."""
    return (
        sum(COSTS.get(v.op, 1) for v in step.values() if v.op not in ("const", "acc", "scalar"))
        + len(step.stores)
        + len(step.reduces)
    )


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
        faster = [factor(a.extent) for a in axes[k + 1 :]]
        whole = f"{point} / {faster[0]}" if len(faster) == 1 else f"{point} / ({' * '.join(faster)})" if faster else point
        out(f"const i64 {axes[k].name} = {f'({whole})' if rest and faster else whole}{rest};")


# -- comments


def describe(kernel: Any) -> list[str]:
    """The comment above a kernel: what it is, where it comes from, what it moves."""
    lines = [f"{kernel.name}: {headline(kernel)}"]
    lines += [f"  {origin.node}" + (f"   {origin.line}" if origin.line else "") for origin in kernel.origins]
    lines += [f"  why: {note}" for note in kernel.notes]
    moved = [*buffers_read(kernel), *buffers_written(kernel)]
    if moved:
        lines.append(
            "  reads "
            + (", ".join(f"{b.name} {shape_text(b.dtype, b.sizes)}" for b in buffers_read(kernel)) or "nothing")
            + "; writes "
            + ", ".join(f"{b.name} {shape_text(b.dtype, b.sizes)}" for b in buffers_written(kernel))
        )
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
    how = ", columns side by side" if kernel.vector == "outer" else ", the last in order" if kernel.sums() else ""
    return f"for each {shown(kernel.outer) or 'call'}{how}"
