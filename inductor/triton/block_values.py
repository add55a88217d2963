"""What all kernels of the Triton backend share: arguments, printed values, loads, stores, checks.

In: the values of a step. Out: lines of Triton, one a value that is more than a number or an index. `KernelWriter` keeps
what has been printed by scope (a loop's lines are not known behind it).
"""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass, field
from typing import Any

from ...capture.shapes.value_ranges import Bounds
from ...capture.shapes.expr import Expr, ExprLike
from ...eager import dtypes
from ...runtime.errors import InternalError
from ..loops.body import Buffer, Value, reachable
from ..loops.ir import Axis, Store, outer_axes, buffers_read, steps, buffers_written
from ..source_text import shape_text
from .helpers import library
from .prims import PLAIN, apply, literal, typed
from .triton_text import HALVES, TAKEN, Lines, Names, expression, factor, register_type, stored_type
from .tiles import BlockValue, Tile

COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
NOTHING: frozenset = frozenset()


@dataclass
class Argument:
    """A parameter of a kernel. kind: buffer, size, scalar, float, error or scratch; `key`: the buffer, symbol or name."""

    kind: str
    key: Any


@dataclass
class TritonKernel:
    """One kernel: its name-free text, its arguments in order, the grid over block sizes, and the block sizes."""

    kernel: Any
    name: str
    body: list[str]
    arguments: dict[str, Argument]
    grid: str
    blocks: dict[str, Any]
    points: list[ExprLike]
    fallible: bool = False
    rows: dict[str, ExprLike] = field(default_factory=dict)  # scratch argument -> elements
    choices: tuple[dict[str, Any], ...] = ()  # changes of `blocks` that can be tried


class KernelWriter:
    """One kernel while it is written."""

    def __init__(self, program: Any, kernel: Any):
        self.program, self.kernel = program, kernel
        self.names = Names(TAKEN | library().keys())
        self.symbols = {s.name for s in program.symbols}
        self.floats = {s.name for s in program.floats}
        self.names.used |= self.symbols | {"seed", "base"} | {a.name for a in self.axes()}
        self.names.used |= {v.attrs.name for s in steps(kernel) for v in s.values() if v.op == "indirect"}
        self.arguments: dict[str, Argument] = {}
        self.accs: dict[str, BlockValue] = {}
        self.lines = Lines(1)
        self.tile = Tile(())
        self.made: ChainMap[int, BlockValue] = ChainMap()
        self.bounds = Bounds({})
        self.fallible = False

    def axes(self) -> list[Axis]:
        return [*outer_axes(self.kernel), *(a for s in steps(self.kernel) for a in s.axes)]

    # -- arguments

    def pointer(self, buffer: Buffer) -> str:
        name = self.names(buffer.name, buffer.name)
        self.arguments.setdefault(name, Argument("buffer", buffer))
        return name

    def sizes(self, e: ExprLike) -> ExprLike:
        """The expression, whose symbols become arguments."""
        for name in sorted(e.free_names() & self.symbols) if isinstance(e, Expr) else ():
            self.arguments.setdefault(name, Argument("size", name))
        return e

    def text(self, e: ExprLike) -> str:
        text = expression(self.sizes(e), self.bounds)
        return text

    def scalar(self, value: Value) -> BlockValue:
        """A number that the call gives."""
        name = value.attrs
        kind = "size" if name in self.symbols else "float" if name in self.floats else "scalar"
        self.arguments.setdefault(name, Argument(kind, name))
        given = dtypes.float64 if kind == "float" else dtypes.int64
        if value.dtype is dtypes.bool:
            return BlockValue(f"(tl.cast({name}, {register_type(given)}) != 0)", NOTHING)
        return BlockValue(f"tl.cast({name}, {register_type(value.dtype)})", NOTHING)

    # -- dimensions and masks

    def dims_of(self, e: ExprLike) -> frozenset:
        if not isinstance(e, Expr):
            return NOTHING
        return NOTHING.union(*(self.tile.where.get(name, NOTHING) for name in e.free_names()))

    def always(self, buffer: Buffer) -> frozenset:
        """The dimensions that any access of a buffer varies along."""
        return NOTHING

    def broadcast(self, text: str, have: frozenset, wanted: frozenset) -> str:
        """A block, or a number, as large as `wanted` says."""
        if have == wanted:
            return text
        if text.isdigit():
            return f"tl.full({self.tile.shape(wanted)}, {text}, INDEX)"
        return f"tl.broadcast_to({text}, {self.tile.shape(wanted)})"

    # -- values

    def emit(self, roots: list[Value], only: frozenset | None = None) -> None:
        """Print all that the roots need; with `only`, what depends on no other dimensions than these."""
        reach: dict[int, frozenset] = {}
        for value in reachable(roots):
            dims = reach[value.id] = self.reach(value, reach)
            if value.id not in self.made and value.op not in ("const", "index", "acc", "scalar"):
                if only is None or dims <= only:
                    self.made[value.id] = self.print(value)

    def reach(self, value: Value, known: dict[int, frozenset]) -> frozenset:
        """The dimensions that a value depends on."""
        if value.id in self.made:
            return self.made[value.id].dims
        found = NOTHING.union(*(known[a.id] for a in value.args))
        if value.op == "indirect":
            self.tile.where[value.attrs.name] = found
        elif value.op == "load":
            found |= NOTHING.union(self.always(value.attrs.buffer), *(self.dims_of(e) for e in value.attrs.index))
        elif value.op == "index":
            found |= self.dims_of(value.attrs)
        elif value.op == "acc":
            found |= self.accs[value.attrs].dims
        return found

    def get(self, value: Value) -> BlockValue:
        if value.op == "const":
            return BlockValue(typed(value.attrs, value.dtype), NOTHING)
        if value.op == "index":
            dims = self.dims_of(value.attrs)
            text = self.text(value.attrs)
            return BlockValue(f"{factor(text)}.to(tl.int64)" if dims else f"tl.cast({text}, tl.int64)", dims)
        if value.op == "acc":
            if value.attrs not in self.accs:
                raise InternalError(f"accumulator {value.attrs} of {self.kernel.name} is read before a step wrote it")
            return self.accs[value.attrs]
        return self.scalar(value) if value.op == "scalar" else self.made[value.id]

    def bind(self, stem: str, text: str, dims: frozenset) -> BlockValue:
        name = self.names.fresh(stem)
        self.lines(f"{name} = {text}")
        return BlockValue(name, dims)

    def print(self, value: Value) -> BlockValue:
        if value.op == "load":
            return self.load(value)
        if value.op == "indirect":
            return self.indirect(value)
        operands = list(value.args)
        dims = NOTHING.union(*(self.get(a).dims for a in operands))
        texts = self.operand_texts(value)
        constants = [a.attrs if a.op == "const" else None for a in operands]
        text = apply(value.op, texts, [a.dtype for a in operands], value.dtype, constants)
        return self.bind(value.op if value.op != "cast" else value.dtype.name, text, dims)

    def operand_texts(self, value: Value) -> list[str]:
        """Texts of the operands: bare numbers beside blocks, bare positions where they are only compared."""
        args = value.args
        if value.op in COMPARISONS and all(a.op in ("index", "const") for a in args) and any(a.op == "index" for a in args):
            return [self.text(a.attrs) if a.op == "index" else str(a.attrs) for a in args]
        if value.op == "philox":
            return [*(self.get(a).text for a in args[:3]), str(args[3].attrs)]
        first = 1 if value.op == "where" else 0
        bare = (value.op in PLAIN or value.op == "where") and any(a.op != "const" for a in args[first:])
        return [
            literal(a.attrs, a.dtype) if a.op == "const" and bare and k >= first else self.get(a).text for k, a in enumerate(args)
        ]

    # -- memory

    def load(self, value: Value) -> BlockValue:
        load = value.attrs
        offset = load.buffer.linear(load.index)
        dims = self.dims_of(offset) | self.always(load.buffer)
        text = self.text(offset)
        masks, other = [], ""
        if load.masked:
            given = self.get(value.args[0])
            text = self.broadcast(text, dims, dims | given.dims)
            dims |= given.dims
            masks, other = [factor(given.text)], f", other={literal(load.other, load.buffer.dtype)}"
        return self.loaded(value, text, dims, masks, other)

    def loaded(self, value: Value, offset: str, dims: frozenset, masks: list[str], other: str) -> BlockValue:
        buffer = value.attrs.buffer
        masks = [*self.tile.masks(dims), *masks]
        place = self.place(buffer, offset)
        policy = self.policy(value, dims)
        other += f", eviction_policy='{policy}'" if policy else ""
        text = f"tl.load({place}, {' & '.join(masks) or 'None'}{other})" if masks or policy else f"tl.load({place})"
        if buffer.dtype.name in HALVES:
            text += ".to(tl.float32)"
        return self.bind(buffer.name + "_at", text, dims)

    def policy(self, value: Value, dims: frozenset) -> str:
        """What the caches shall do with what is loaded; nothing said: what they like."""
        return ""

    def place(self, buffer: Buffer, offset: str) -> str:
        pointer = self.pointer(buffer)
        return pointer if offset == "0" else f"{pointer} + {factor(offset)}"

    def indirect(self, value: Value) -> BlockValue:
        """A value as an index: out of range it fails the call, and reads nothing."""
        attrs, given = value.attrs, self.get(value.args[0])
        name = attrs.name
        self.tile.where[name] = given.dims
        if attrs.check is None:
            self.lines(f"{name} = {given.text}")
            return BlockValue(name, given.dims)
        self.fallible = True
        self.arguments.setdefault("error", Argument("error", "error"))
        bad = self.bind("bad", f"({given.text} < 0) | ({given.text} >= {self.text(attrs.size)})", given.dims)
        self.lines(f"check(error, {' & '.join([bad.text, *self.tile.masks(given.dims)])}, {attrs.check})")
        self.lines(f"{name} = tl.where({bad.text}, 0, {given.text})")
        return BlockValue(name, given.dims)

    def stored(self, store: Store) -> Value:
        """The value as memory rounds it: a rounding to a half just before is left to the store."""
        value = store.value
        single = value.op == "cast" and value.dtype.name in HALVES and value.args[0].dtype is dtypes.float32
        return value.args[0] if single and store.mode == "set" and value.id not in self.made else value

    def store(self, store: Store, axes: tuple[Axis, ...]) -> None:
        """Write a value at all points of the tile; along an axis that the place does not name, the last point's."""
        value = self.stored(store)
        offset = store.buffer.linear(store.index)
        text, dims = self.text(offset), self.dims_of(offset)
        named = offset.free_names() if isinstance(offset, Expr) else set()
        reached = {n for name in named for n in self.behind(name)}
        lost = [a for a in axes if a.extent != 1 and a.name not in reached and store.mode == "set"]
        masks = [f"({a.name} == {self.text(a.extent - 1)})" for a in lost]
        made = self.get(value)
        wanted = self.tile.letters if lost or store.mode == "add" else dims | made.dims
        text = self.broadcast(text, dims, wanted)
        masks = [*self.tile.masks(wanted), *masks]
        mask = f", {' & '.join(masks)}" if masks else ""
        shown = made.text
        if store.mode == "add":
            shown = self.broadcast(f"{factor(shown)}.to({stored_type(store.buffer.dtype)})", made.dims, wanted)
            self.lines(f'tl.atomic_add({self.place(store.buffer, text)}, {shown}{mask}, sem="relaxed")')
        else:
            self.lines(f"tl.store({self.place(store.buffer, text)}, {shown}{mask})")

    def behind(self, name: str) -> frozenset:
        """The variables that an index variable stands for: itself, or those that an indirect one depends on."""
        found = self.program_body().indirects.get(name) if self.program_body() else None
        if found is None:
            return frozenset((name,))
        names = set()
        for v in reachable((found,)):
            exprs = v.attrs.index if v.op == "load" else (v.attrs,) if v.op == "index" else ()
            names |= {n for e in exprs if isinstance(e, Expr) for n in e.free_names()}
        return frozenset(names)

    def program_body(self) -> Any:
        return next((v.body for s in steps(self.kernel) for v in s.roots()), None)


# -- comments


def describe(kernel: Any) -> list[str]:
    """The comment above a kernel: where it comes from, why it is one kernel, what it moves."""
    lines = [f"{origin.node}" + (f"   {origin.line}" if origin.line else "") for origin in kernel.origins]
    lines += [f"why: {note}" for note in kernel.notes]
    shown = lambda found: ", ".join(f"{b.name} {shape_text(b.dtype, b.sizes)}" for b in found) or "nothing"
    lines.append(f"reads {shown(buffers_read(kernel))}; writes {shown(buffers_written(kernel))}")
    total = [b.numel() * b.dtype.itemsize for b in (*buffers_read(kernel), *buffers_written(kernel))]
    if total and all(isinstance(t, int) for t in total):
        lines.append(f"{sum(total):,} bytes")
    return lines
