"""Lowering: a functional, decomposed graph becomes an unscheduled program of the loop IR, one kernel per realised value.

In: a Graph of Map, Reduce, Scan, Scatter, View, Random and Extern nodes. Out: a `Program`. The idea: a node is a function from
an index to a value (a `Loader`); calling the record's loop with loaders inlines its producers. What is too dear to compute
twice, or must lie in memory, is realised: a kernel stores it, and its loader becomes a load. Views only remap indices.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterator
from itertools import islice, permutations
from typing import Any

from ...capture.shapes.value_ranges import Bounds, simplify
from ...capture.shapes.expr import Expr, ExprLike, const, lift, int_if_const
from ...capture.graph.graph import Graph, Node
from ...capture.shapes.symbolic_shapes import SymFloat, SymInt, expr_of
from ...eager import dtypes
from ...eager.op.op import Kind
from ...eager.sizes import contiguous_strides
from ...eager.tensor import Tensor
from ...runtime.dataclass import data
from ...runtime.errors import InternalError, Unsupported
from ...runtime.locks import cached_property
from .body import Body, Buffer, Rewriter, Value, is_zero, reachable, strides_of
from .extern_kernels import as_argument, geometry, has_kernel, native_call, raw_buffer, rows_of
from .ir import (
    Axis,
    ExternCall,
    GemmKernel,
    Kernel,
    LoopKernel,
    Operand,
    Origin,
    Program,
    Reduce,
    ScatterKernel,
    Step,
    Store,
    Symbol,
    View,
    outer_axes,
    row_major,
    step_bounds,
    steps,
)

# The budget of inlining: work is in units of one addition per element, a load counts apart.
WORK = {
    "exp": 10,
    "log": 10,
    "log2": 10,
    "log1p": 12,
    "expm1": 12,
    "tanh": 12,
    "erf": 14,
    "sin": 12,
    "cos": 12,
    "tan": 16,
    "pow": 20,
    "philox": 40,
    "truediv": 3,
    "sqrt": 3,
    "rsqrt": 3,
    "floordiv": 6,
    "mod": 6,
    "cast": 0,
    "index": 0,
    "const": 0,
    "scalar": 0,
    "acc": 0,
    "load": 0,
}
MAX_BODY = 120  # values of an inlined expression
CHEAP_WORK = 6  # work that may be done again by every user, where it costs no traffic
SMALL_PART = 4  # a load of fewer elements than 1/4 of the value's counts as no traffic
MAX_SPACES = 120  # ways to find the axes of an index among those of a kernel
DEAR_WORK = 10  # work that is not repeated along a broadcast


def lower(graph: Graph, name: str = "graph", takes: Callable[[tuple], bool] | None = None) -> Program:
    """Lower a whole graph; `Program.outputs` follow the graph's flattened outputs. `takes`: which calls of the runtime's
    kernels the target can print (None: all).

    Where a formula settles the value of a size, what was made before still names its symbol: all is lowered again.
    """
    while True:
        solved = graph.env.solved if graph.env else 0
        lowering = Lowering(graph, name, takes)
        lowering.nodes()
        if not graph.env or graph.env.solved == solved:
            return lowering.program()


Space = tuple[tuple[Axis, ...], tuple[ExprLike, ...], tuple[Axis, ...], tuple[ExprLike, ...]]


class Loader:
    """A tensor as a formula sees it: `x(*index, mask=None, other=0) -> value`."""

    __slots__ = ("shape", "dtype", "fetch", "mask", "lowering")

    def __init__(self, lowering: Lowering, shape: tuple, dtype: Any, fetch: Callable, mask: Value | None = None):
        self.lowering, self.shape, self.dtype, self.fetch, self.mask = lowering, tuple(shape), dtype, fetch, mask

    def __call__(self, *index: ExprLike, mask: Value | None = None, other: Any = 0) -> Value:
        tidy = self.lowering.tidy
        index = tuple([e if type(e) is int else tidy(e) for e in index])
        if self.mask is not None:
            mask = self.mask if mask is None else self.lowering.body.prim("logical_and", self.mask, mask)
        if mask is not None and mask.op == "const":
            if not mask.attrs:
                return self.lowering.body.const(other, self.dtype)
            mask = None
        return self.fetch(index, mask, other)

    def masked(self, mask: Value | None) -> Loader:
        return self if mask is None else Loader(self.lowering, self.shape, self.dtype, self.fetch, mask)


@data
class InlineCost:
    """What one evaluation of a value takes; `loads`: arrays that it reads, those much smaller than the value left out."""

    work: float
    loads: int
    size: int
    reads: set[Buffer]


def cost(value: Value, numel: int) -> InlineCost:
    values = reachable((value,))
    read = {v.attrs.buffer for v in values if v.op == "load"}
    full = sum(v.op == "load" and number_of(v.attrs.buffer.sizes) * SMALL_PART > numel for v in values)
    return InlineCost(sum(WORK.get(v.op, 1) for v in values), full, len(values), read)


class Lowering:
    """The state of lowering one graph."""

    def __init__(self, graph: Graph, name: str, takes: Callable[[tuple], bool] | None = None):
        self.graph, self.name, self.takes = graph, name, takes
        self.body = Body()
        self.buffers: list[Buffer] = []
        self.kernels: list[Kernel] = []
        self.constants: dict[str, Tensor] = {}
        self.loaders: dict[Any, Loader] = {}  # (node, output number) -> how to read it
        self.homes: dict[Any, Buffer] = {}  # (node, output number) -> where it lies, when it does
        self.copies: dict[Any, View] = {}  # row-major copies for calls of the runtime
        self.products: dict[str, Node] = {}  # buffers that matrix products fill
        self.memo: dict[tuple, Any] = {}
        self.bounds = self.body.bounds = Bounds({})
        self.tidied: dict[Expr, ExprLike] = {}
        self.called: set[Node] = set()  # those that the runtime's kernels compute
        self.axis_names: dict[tuple, str] = {}
        self.axes: dict[str, Axis] = {}
        self.looks: list[tuple[int, Node, Value]] = []  # (kernels made before, whose, an index that must be looked at)
        self.used_names: set[str] = set()

    def nodes(self) -> None:
        self.called = {
            n
            for n in self.graph.calls
            if n.is_op
            and n.target.call_rule is not None
            and n.target.kind in LOWER
            and has_kernel(n.target, values_of(n.args), n.value, self.takes)
        }
        for node in self.graph.nodes:
            if node.op != "output":
                LOWER_NODE[node.op](self, node)

    def program(self) -> Program:
        outputs = tuple(self.output(x) for x in flatten(self.graph.output.args))
        self.add_looks()
        symbols, floats = self.symbols()
        self.refuse_unknown_sizes({s.name for s in symbols})
        return Program(
            buffers=tuple(self.buffers),
            kernels=tuple(self.kernels),
            inputs=self.inputs(),
            outputs=outputs,
            symbols=symbols,
            floats=floats,
            scalars=self.scalars(),
            constants=self.constants,
            draws=self.graph.draws or 0,
            checks=tuple(self.body.checks),
            name=self.name,
        )

    # -- the interface of the program

    @cached_property
    def placeholders(self) -> list[Node]:
        return [n for n in self.graph.nodes if n.op == "placeholder"]

    def inputs(self) -> tuple:
        return tuple(self.homes.get((n, 0)) or n.name for n in self.placeholders)

    def symbols(self) -> tuple[tuple[Symbol, ...], tuple[Symbol, ...]]:
        """Where every size symbol and every symbolic float comes from."""
        sources = [Symbol(name, *source) for name, source in self.graph.symbol_sources().items()]
        floats = {s.name for s in sources if isinstance(self.placeholders[s.input].value, SymFloat)}
        return tuple(s for s in sources if s.name not in floats), tuple(s for s in sources if s.name in floats)

    def refuse_unknown_sizes(self, known: set[str]) -> None:
        """Memory is planned before the call runs, so every size must follow from the inputs."""
        for buffer in self.buffers:
            names = {n for e in buffer.sizes if isinstance(e, Expr) for n in e.free_names()}
            if names - known:
                raise Unsupported(
                    "data-dependent size",
                    f"the size of {buffer.text()} depends on data",
                    "compute it outside of the compiled function, or use a mask of fixed size",
                )

    def scalars(self) -> tuple[str, ...]:
        return ("seed", "base") if any(n.draw is not None for n in self.graph.nodes) else ()

    def output(self, x: Any) -> Any:
        if not isinstance(x, Node):
            return expr_of(x)
        if isinstance(x.value, (SymInt, int)) or x.value is None:
            return expr_of(x.value)
        return self.homes[self.source(x)]

    @cached_property
    def output_keys(self) -> set:
        return {self.source(x) for x in flatten(self.graph.output.args) if isinstance(x, Node) and isinstance(x.value, Tensor)}

    # -- names

    def unique(self, name: str) -> str:
        name = re.sub(r"\W+", "_", name).strip("_") or "x"
        candidate, k = name, 1
        while candidate in self.used_names:
            candidate, k = f"{name}_{k}", k + 1
        self.used_names.add(candidate)
        return candidate

    def axis(self, position: int, extent: Any) -> Axis:
        """The axis at a position of a space, one name for each (position, extent): equal spaces have equal variables."""
        extent = int_if_const(expr_of(extent))
        key = (position, extent)
        name = self.axis_names.get(key)
        if name is None:
            text = re.sub(r"\W+", "_", str(extent)).strip("_")
            name = f"i{position}_{text}"
            while name in self.bounds.ranges:
                name += "x"
            self.axis_names[key] = name
            self.bounds.ranges[name] = (0, extent - 1)
            self.axes[name] = Axis(name, extent)
        return Axis(name, extent)

    def space(self, shape: tuple) -> tuple[tuple[Axis, ...], tuple[ExprLike, ...]]:
        """The axes of a shape (none for sizes of 1) and the index they make."""
        pairs = [(None, 0) if is_one(n) else (a := self.axis(d, n), a.var) for d, n in enumerate(shape)]
        return tuple(a for a, _ in pairs if a is not None), tuple(e for _, e in pairs)

    def tidy(self, e: Any) -> ExprLike:
        """An index expression, simplified under the ranges of all axes."""
        if isinstance(e, SymInt):
            return e.expr
        if not isinstance(e, Expr):
            return int(e)
        found = self.tidied.get(e)
        if found is None:
            found = self.tidied[e] = simplify(e, self.bounds)
        return found

    # -- buffers

    def buffer(self, key: tuple, kind: str, value: Tensor) -> Buffer:
        """The memory of a value: eager's strides where they are dense, else row-major."""
        sizes, strides = geometry(value)
        if kind in ("temp", "output") and not dense(sizes, strides):
            strides = tuple(int_if_const(expr_of(s)) for s in contiguous_strides(value.shape))
        node, number = key
        suffix = f"_{number}" if number else ""
        made = Buffer(self.unique(node.name + suffix), value.dtype, sizes, strides, 0, kind, node.name)
        self.buffers.append(made)
        self.homes[key] = made
        self.loaders[key] = self.loader(made, value)
        return made

    def loader(self, buffer: Buffer, value: Tensor) -> Loader:
        load = self.body.load
        return Loader(self, value.shape, value.dtype, lambda index, mask, other: load(buffer, index, mask, other))

    def home(self, key: tuple) -> Buffer:
        """The buffer that a kernel is about to fill for this value."""
        return self.buffer(key, "output" if key in self.output_keys else "temp", self.value(key))

    def value(self, key: tuple) -> Tensor:
        node, number = key
        return node.value[number] if isinstance(node.value, (tuple, list)) else node.value

    def source(self, node: Node) -> tuple:
        """The (node, output number) that a node stands for."""
        if node.target is operator.getitem:
            return node.args[0], node.args[1]
        return node, 0

    # -- nodes without kernels

    def placeholder(self, node: Node) -> None:
        if isinstance(node.value, Tensor):
            self.buffer((node, 0), "input", node.value)
        self.used_names.add(node.name)

    def get_attr(self, node: Node) -> None:
        tensor = self.graph.constants[node.target]
        made = self.buffer((node, 0), "const", tensor)
        self.constants[made.name] = tensor

    def call(self, node: Node) -> None:
        if node.target is operator.getitem:
            return
        op = node.target
        if node in self.called or op.kind not in LOWER or not all(loopable(t) for t in tensors_of(node)):
            return self.extern(node)
        looked = node.refuses
        if not looked or node.users or op.kind in (Kind.MAP, Kind.RANDOM):
            LOWER[op.kind](self, node)
        if looked:
            self.looks += [(len(self.kernels), node, value) for value in self.looks_of(node)]

    def args(self, node: Node) -> list:
        """The node's arguments for a loop: loaders for tensors, the rest as it is."""
        return [self.loop_argument(a) for a in node.target.bind(node.args, {})]

    def loop_argument(self, a: Any) -> Any:
        if isinstance(a, Node):
            return self.loaders[self.source(a)] if isinstance(a.value, Tensor) else a.value
        if isinstance(a, (tuple, list)):
            return type(a)(map(self.loop_argument, a)) if type(a) in (tuple, list) else tuple(map(self.loop_argument, a))
        return a

    # -- maps, views and random numbers: inlined or realised

    def map(self, node: Node) -> None:
        args = self.args(node)
        keys = [(node, k) for k in range(len(node.target.outputs))]
        for key in keys:
            value = self.value(key)
            self.loaders[key] = Loader(self, value.shape, value.dtype, self.inlined(node, args, key[1], len(keys) > 1))
        for key in keys:
            if node.target.kind is Kind.VIEW and key not in self.output_keys:
                continue
            if not self.may_inline(node, key):
                self.realise(key)

    def inlined(self, node: Node, args: list, number: int, several: bool) -> Callable:
        """index -> value, by the record's loop over the operands' loaders."""
        op, body, memo = node.target, self.body, self.memo
        view, made = op.kind is Kind.VIEW, self.value((node, number))
        if nothing(made.shape):  # no element is ever asked for; sizes of 0 divide nothing
            return lambda index, mask, other: body.const(0 if mask is None else other, made.dtype)

        def fetch(index: tuple, mask: Value | None, other: Any) -> Value:
            if view:
                value = op.loop(body, index, (), args[0].masked(mask), *args[1:])
                return value if mask is None or other == 0 else body.where(mask, value, other)
            key = (node, index, None if mask is None else mask.id)
            result = memo.get(key)
            if result is None:
                body.ordinal = node.draw or 0
                around, body.mask, body.looks = (body.mask, body.looks), mask, None
                result = memo[key] = op.loop(body, index, (), *([masked(a, mask) for a in args] if mask is not None else args))
                body.mask, body.looks = around
            value = result[number] if several else result
            return value if mask is None else body.where(mask, value, body.const(other, value.dtype))

        return fetch

    def generic(self, key: tuple) -> tuple[tuple[Axis, ...], tuple, Value]:
        """The axes of a value's own space, the index they make and the value there."""
        axes, index = self.space(self.value(key).shape)
        return axes, index, self.loaders[key](*index)

    def realise(self, key: tuple) -> Buffer:
        """Store a value in memory (once)."""
        if key in self.homes:
            return self.homes[key]
        axes, index, value = self.generic(key)
        buffer = self.home(key)
        step = Step((), (Store(buffer, index, self.body.cast(value, buffer.dtype)),))
        self.kernels.append(LoopKernel(self.unique("k_" + buffer.name), axes, (step,), origins=self.origins(key[0])))
        return buffer

    def origins(self, node: Node) -> tuple[Origin, ...]:
        """Of a kernel that computes a node, with what it computes on the way."""
        found: dict[Node, tuple] = {}
        waiting = list(node.inputs)
        while waiting:
            other = waiting.pop()
            outputs = range(len(other.target.outputs) if other.is_op else 1)
            if other.op == "call_function" and other not in found and not any((other, k) in self.homes for k in outputs):
                found[other] = origins(other) if other.is_op and other.target.kind is not Kind.VIEW else ()
                waiting += other.inputs
        (own,) = origins(node)
        return (own._replace(within=tuple(each for made in reversed(found.values()) for each in made)),)

    def may_inline(self, node: Node, key: tuple) -> bool:
        """Whether all users compute the value again: cheap to repeat, or used once and not repeated along a broadcast."""
        if key in self.output_keys or node.target.template == "kept":
            return False
        users = list(self.consumers(node))
        if any(self.wants_memory(user) for user in users):
            return False
        found = cost(self.generic(key)[2], numel_of(self.value(key)))
        if found.size > MAX_BODY:
            return False
        if len(users) > 1:
            return self.cheap(node, found, len(users))
        return not (found.work >= DEAR_WORK and any(self.repeats(node, user) for user in users))

    def cheap(self, node: Node, found: InlineCost, users: int) -> bool:
        """Whether `users` evaluations read no more than one evaluation, a store and `users` loads; and what a product's
        epilogue can compute on its way out is not computed by its users."""
        if found.loads == 0 and not found.reads:
            return found.work < WORK["philox"]
        if found.work > CHEAP_WORK or users * found.loads > found.loads + 1 + users:
            return False
        return not any(self.only_here(buffer, node) for buffer in found.reads)

    def only_here(self, buffer: Buffer, node: Node) -> bool:
        """Whether a product goes into this node alone, if through inlined maps."""
        at = self.products.get(buffer.name)
        while at is not None and (at, 0) not in self.output_keys:
            users = list(self.consumers(at))
            if len(users) != 1 or users[0] is node:
                return len(users) == 1
            at = users[0] if (users[0], 0) not in self.homes and not self.wants_memory(users[0]) else None
        return False

    def consumers(self, node: Node) -> Iterator[Node]:
        """The users of a node, looking through views and selections of outputs."""
        for user in node.users:
            if user.op == "call_function" and (user.target is operator.getitem or user.target.kind is Kind.VIEW):
                if any(key[0] is user for key in self.output_keys):
                    yield user
                yield from self.consumers(user)
            else:
                yield user

    def wants_memory(self, user: Node) -> bool:
        """Users that read memory and cannot compute what they read."""
        if user.op != "call_function" or user in self.called:
            return True
        return user.target.kind not in (Kind.MAP, Kind.VIEW, Kind.REDUCE, Kind.RANDOM, Kind.SCATTER)

    def repeats(self, node: Node, user: Node) -> bool:
        """Whether `user` reads elements of `node` more than once."""
        return max((numel_of(t) for t in tensors_of(user)), default=0) > numel_of(first_tensor(node.value))

    # -- what must be looked at, whoever reads the result

    def looks_of(self, node: Node) -> list[Value]:
        """The indices and divisors of a call that are not proved right, at every point of its own space."""
        op, args, body = node.target, self.args(node), self.body
        if any(is_zero(expr_of(n)) for t in indices_of(node) for n in t.shape):
            return []  # (the index is 0 then at every point, of which there are none)
        if op.kind is Kind.REDUCE:
            *_, index, _, r = self.reduction_space(node, args, tuple(op.ranges(*args)))
        else:
            shape = op.ranges(*args) if op.kind is Kind.SCATTER else first_tensor(node.value).shape
            index, r = self.space(tuple(shape))[1], ()
        body.ordinal, body.mask, body.looks = node.draw or 0, None, []
        op.loop(body, index, r, *args)
        found, body.looks = body.looks, None
        return list(dict.fromkeys(found))

    def add_looks(self) -> None:
        """Kernels for what no kernel looks at as a whole: part of a result is read, or none, or the index fell away with a
        dimension of one element."""
        seen: dict[Value, list[tuple[Axis, ...]]] = {}
        for kernel in self.kernels if self.looks else ():
            for step in steps(kernel):
                for value in addressing(self.body, step, step_bounds(outer_axes(kernel), step)):
                    if value.attrs.check is not None:
                        seen.setdefault(value, []).append((*outer_axes(kernel), *step.axes))
        wanted: dict[tuple, list[Value]] = {}
        for at, node, value in dict.fromkeys(self.looks):
            axes = self.axes_of(value)
            if not any(is_zero(a.extent) for a in axes) and not self.looked_at(value, axes, seen):
                wanted.setdefault((at, node, axes), []).append(value)
        for (at, node, axes), values in reversed(wanted.items()):
            kernel = LoopKernel(self.unique("k_look_" + node.name), axes, (Step((), looks=tuple(values)),), origins=origins(node))
            self.kernels.insert(at, kernel)

    def axes_of(self, value: Value) -> tuple[Axis, ...]:
        """The axes that a value depends on, in the order of their positions."""
        exprs = [
            e for v in reachable((value,)) if v.op in ("load", "index") for e in (v.attrs.index if v.op == "load" else (v.attrs,))
        ]
        names = {name for e in exprs if isinstance(e, Expr) for name in e.free_names()}
        return tuple(axis for axis in self.axes.values() if axis.name in names)

    def looked_at(self, value: Value, axes: tuple[Axis, ...], seen: dict) -> bool:
        """Whether some kernel looks at all of a value: over its axes, or over others of the same extents."""
        filled = lambda spare: all(self.bounds.nonnegative(a.extent - 1) for a in spare)
        if any(filled(set(space) - set(axes)) for space in seen.get(value, ())):
            return True
        if any(v.op == "indirect" for v in reachable(value.args)):
            return False
        for other, spaces in seen.items():
            if other.attrs.size != value.attrs.size or other.args[0].op != value.args[0].op:
                continue
            for space in spaces:
                for chosen in islice(permutations(space, len(axes)), MAX_SPACES):
                    if all(a.extent == b.extent for a, b in zip(axes, chosen)) and filled(set(space) - set(chosen)):
                        moved = Rewriter(self.body, {a.name: b.var for a, b in zip(axes, chosen)}, tidy=self.tidy)
                        if moved(value.args[0]) is other.args[0]:
                            return True
        return False

    # -- reductions

    def reduce(self, node: Node) -> None:
        op, args = node.target, self.args(node)
        extents = tuple(op.ranges(*args))
        outer, index, inner, r = self.reduction_space(node, args, extents)
        self.body.ordinal = 0
        prologue = op.loop(self.body, index, r, *args)
        reduces, accs = (), single_element(self.body, op.combine, prologue)
        if inner:
            reduce, accs = self.accumulate(op.combine, self.unique("acc_" + node.name), prologue, r, extents)
            reduces = (Step(inner, (), (reduce,)),)
        results = op.finished(self.body, accs if accs[1:] else accs[0], *args)
        results = results if isinstance(results, tuple) else (results,)
        stores = tuple(self.result_store((node, k), index, v) for k, v in enumerate(results) if self.wanted((node, k)))
        steps = (*reduces, Step((), stores))
        self.kernels.append(LoopKernel(self.unique("k_" + node.name), outer, steps, origins=self.origins(node)))

    def reduction_space(self, node: Node, args: list, extents: tuple) -> Space:
        """Outer axes and index, inner axes and index. Axes are named by their place in the operand, so that maps over the
        operand have the same; windows come after the output's axes."""
        shape = first_tensor(node.value).shape
        dims = {p.name: a for p, a in zip(node.target.params, args)}
        if not node.target.explicit_loop and isinstance(dims.get("dim"), tuple):
            return self.dim_space(args[0].shape, dims["dim"], dims.get("keepdim", False))
        outer, index = self.space(shape)
        pairs = [(None, 0) if is_one(n) else (a := self.axis(len(shape) + d, n), a.var) for d, n in enumerate(extents)]
        return outer, index, tuple(a for a, _ in pairs if a is not None), tuple(e for _, e in pairs)

    def dim_space(self, shape: tuple, dims: tuple, keepdim: bool) -> Space:
        axes = {d: None if is_one(n) else self.axis(d, n) for d, n in enumerate(shape)}
        place = {d: 0 if a is None else a.var for d, a in axes.items()}
        outer = tuple(a for d, a in axes.items() if a is not None and d not in dims)
        inner = tuple(a for d, a in axes.items() if a is not None and d in dims)
        index = tuple(0 if d in dims else place[d] for d in axes if keepdim or d not in dims)
        return outer, index, inner, tuple(place[d] for d in dims)

    def accumulate(self, combine: str, name: str, prologue: Value, r: tuple, extents: tuple) -> tuple[Reduce, tuple[Value, ...]]:
        """The Reduce of a step and the values of its accumulators."""
        body, dtype = self.body, prologue.dtype
        if combine in ("any", "all"):
            prologue, dtype = body.cast(prologue, dtypes.bool), dtypes.bool
        if combine in ("argmax", "argmin"):
            position: ExprLike = 0
            for e, n in zip(r, extents):
                position = position * expr_of(n) + e
            reduce = Reduce((name, name + "_at"), combine, (prologue, body.index(position)), (dtype, dtypes.int64))
        elif combine == "welford":
            reduce = Reduce((name + "_mean", name + "_m2", name + "_n"), combine, (prologue,), (dtype,) * 3)
        else:
            reduce = Reduce((name,), combine, (prologue,), (dtype,))
        return reduce, tuple(body.acc(n, d) for n, d in zip(reduce.names, reduce.dtypes))

    def result_store(self, key: tuple, index: tuple, value: Value) -> Store:
        buffer = self.home(key)
        return Store(buffer, index, self.body.cast(value, buffer.dtype))

    def wanted(self, key: tuple) -> bool:
        """Whether anything reads this output (the first one always counts)."""
        node, number = key
        return (
            key in self.output_keys
            or len(node.target.outputs) == 1
            or any(u.target is operator.getitem and u.args[1] == number for u in node.users)
        )

    # -- scatters

    def scatter(self, node: Node) -> None:
        op, args = node.target, self.args(node)
        axes, point = self.space(tuple(op.ranges(*args)))
        index, value = op.loop(self.body, point, (), *args)
        first = op.bind_first(node) if hasattr(op, "bind_first") else node.args[0]
        init = self.memory_of(first) if isinstance(first, Node) and isinstance(first.value, Tensor) else None
        buffer = self.home((node, 0))
        index = tuple(self.tidy(e) for e in index)
        store = Store(buffer, index, self.body.cast(value, buffer.dtype), op.mode)
        self.kernels.append(ScatterKernel(self.unique("k_" + node.name), axes, init, store, origins=self.origins(node)))

    def memory_of(self, node: Node) -> Buffer:
        """A buffer with exactly the node's elements; a view is copied."""
        key = self.source(node)
        return self.realise(key)

    # -- matrix products and other library calls

    def extern(self, node: Node) -> None:
        if node.target.template == "gemm" and is_gemm(node):
            return self.gemm(node)
        call = native_call(self, node, origins(node))
        if call is not None:
            self.kernels.append(call)
            for key in [(node, k) for k in range(len(node.target.outputs))]:
                if key in self.output_keys:
                    self.realise(key)
            return
        args = tuple(as_argument(a, self.region) for a in node.target.bind(node.args, {}))
        outputs = tuple(self.home((node, k)) for k in range(len(node.target.outputs)))
        self.kernels.append(ExternCall(self.unique("k_" + node.name), node.target, args, outputs, node.draw, origins(node)))

    def filled(self, key: tuple) -> Buffer:
        """The row-major buffer that a call fills with this value; an output whose strides are others is realised from it."""
        node, number = key
        value = self.value(key)
        strides = geometry(value)
        if key not in self.output_keys or not is_row_major(*strides):
            made = raw_buffer(self, f"{node.name}_{number}" if number else node.name, value, node.name)
            self.loaders[key] = self.loader(made, value)
            if key not in self.output_keys:
                self.homes[key] = made
            return made
        return self.home(key)

    def rows_of(self, node: Node) -> View:
        """A row-major copy of a value, made once."""
        key = self.source(node)
        if key not in self.copies:
            self.copies[key] = rows_of(self, node)
        return self.copies[key]

    def region(self, node: Node) -> View:
        """A tensor argument as a geometry over some buffer's memory; copied first when it is no such thing."""
        axes, index = self.space(node.value.shape)
        sizes = tuple(int_if_const(expr_of(n)) for n in node.value.shape)
        operand = self.strided(node, index)
        return View(operand.buffer, sizes, operand.strides, operand.offset)

    def strided(self, node: Node, index: tuple) -> Operand:
        """Strides along the given index variables; folds views, realises what is no plain load of memory."""
        self.realise_base(node)
        found = as_operand(self.loaders[self.source(node)](*index), index, self.tidy)
        if found is None:
            buffer = self.realise_copy(node)
            found = as_operand(self.body.load(buffer, index), index, self.tidy)
            assert found is not None  # (a load of a row-major buffer at the index itself)
        return found

    def realise_base(self, node: Node) -> None:
        """Put the value under a chain of views into memory."""
        while node.op == "call_function" and self.source(node) not in self.homes:
            if node.target is operator.getitem or node.target.kind is not Kind.VIEW:
                self.realise(self.source(node))
                return
            node = node.args[0]

    def realise_copy(self, node: Node) -> Buffer:
        key = self.source(node)
        if key in self.homes:
            raise InternalError(f"{node.name}: the strides of {self.homes[key].text()} are not those of a matrix operand")
        return self.realise(key)

    def gemm(self, node: Node) -> None:
        a, b = (x for x in node.args[:2])
        out = node.value
        rows, columns = len(a.value.shape) > 1, len(b.value.shape) > 1
        batch_rank = len(out.shape) - rows - columns
        outer, batch_index = self.space(tuple(out.shape[:batch_rank]))
        m = self.axis(batch_rank, out.shape[batch_rank] if rows else 1)
        n = self.axis(batch_rank + 1, out.shape[-1] if columns else 1)
        k = self.axis(batch_rank + 2, a.value.shape[-1])
        kv = k.var
        a_index = (*aligned(batch_index, a.value.shape[:-2] if rows else ()), *((m.var,) if rows else ()), kv)
        b_index = (*aligned(batch_index, b.value.shape[:-2] if columns else ()), kv, *((n.var,) if columns else ()))
        a_operand = along(self.strided(a, a_index), a_index, (*(x.var for x in outer), m.var, kv))
        b_operand = along(self.strided(b, b_index), b_index, (*(x.var for x in outer), kv, n.var))
        buffer, compute = self.home((node, 0)), out.dtype.compute
        self.products[buffer.name] = node
        acc = "product_" + node.name
        value = self.body.cast(self.body.acc(acc, compute), buffer.dtype)
        index = (
            *batch_index,
            *((0 if is_one(m.extent) else m.var,) if rows else ()),
            *((0 if is_one(n.extent) else n.var,) if columns else ()),
        )
        step = Step((*outer, m, n), (Store(buffer, index, value),))
        self.kernels.append(
            GemmKernel(
                self.unique("k_" + node.name), outer, m, n, k, a_operand, b_operand, compute, step, acc, "gemm", origins(node)
            )
        )


def single_element(body: Body, combine: str, value: Value) -> tuple[Value, ...]:
    """The accumulators of a reduction over one element."""
    if combine in ("argmax", "argmin"):
        return value, body.const(0, dtypes.int64)
    if combine == "welford":
        return value, body.const(0, value.dtype), body.const(1, value.dtype)
    return (body.cast(value, dtypes.bool) if combine in ("any", "all") else value,)


LOWER_NODE = {"placeholder": Lowering.placeholder, "get_attr": Lowering.get_attr, "call_function": Lowering.call}
LOWER = {
    Kind.MAP: Lowering.map,
    Kind.VIEW: Lowering.map,
    Kind.RANDOM: Lowering.map,
    Kind.REDUCE: Lowering.reduce,
    Kind.SCATTER: Lowering.scatter,
}


# -- questions


def addressing(body: Body, step: Step, bounds: Bounds) -> list[Value]:
    """The indirect values of a step that are left when its places in memory are offsets: an index into a dimension of one
    element, or into one whose elements share their memory, takes no part in those."""
    if not any(v.op == "indirect" for v in step.values()):
        return []
    found: dict[int, Value] = {}
    named = lambda at: body.indirect_args((simplify(lift(at.buffer.linear(at.index)), bounds),))
    stack = [*(v for s in step.stores for v in (s.value, *named(s))), *(v for r in step.reduces for v in r.values), *step.looks]
    while stack:
        value = stack.pop()
        if value.id not in found:
            found[value.id] = value
            load = value.attrs
            stack += [*value.args[: load.masked], *named(load)] if value.op == "load" else value.args
    return [v for v in found.values() if v.op == "indirect"]


def flatten(x: Any) -> Iterator:
    if isinstance(x, (tuple, list)):
        for item in x:
            yield from flatten(item)
    elif isinstance(x, dict):
        yield from flatten(tuple(x.values()))
    else:
        yield x


def is_one(n: Any) -> bool:
    """Also a symbolic size whose expression came out as 1 (`2 - s // s`)."""
    n = int_if_const(expr_of(n))
    return type(n) is int and n == 1


def masked(a: Any, mask: Value) -> Any:
    if isinstance(a, Loader):
        return a.masked(mask)
    return tuple(masked(x, mask) for x in a) if isinstance(a, tuple) else a


def dense(sizes: tuple, strides: tuple) -> bool:
    """Whether the elements fill their span without overlap, in some order of the dimensions."""
    left = [(size, stride) for size, stride in zip(sizes, strides) if not is_one(size)]
    step: ExprLike = 1
    while left:
        found = next((pair for pair in left if pair[1] == step), None)
        if found is None:
            return False
        left.remove(found)
        step = int_if_const(step * found[0])
    return True


def is_row_major(sizes: tuple, strides: tuple) -> bool:
    return all(a == b for a, b, n in zip(strides, row_major(sizes), sizes) if not is_one(n))


def loopable(t: Tensor) -> bool:
    """The loop IR has no complex numbers and no 8-bit floats."""
    return not t.dtype.is_complex and not (t.dtype.is_floating_point and t.dtype.itemsize == 1)


def indices_of(node: Node) -> Iterator[Tensor]:
    """The operands of a call that take no part in its type."""
    for p, a in zip(node.target.params, node.args):
        if (p.is_tensor or p.role == "tensors") and not p.promotes:
            yield from (x.value for x in flatten((a,)) if isinstance(x, Node))


def first_tensor(value: Any) -> Tensor:
    return value[0] if isinstance(value, (tuple, list)) else value


def tensors_of(node: Node) -> Iterator[Tensor]:
    """The tensors that a node reads and makes."""
    for x in flatten((node.args, node.value)):
        x = x.value if isinstance(x, Node) else x
        if isinstance(x, Tensor):
            yield x


SYMBOL = 512  # a symbolic size, where a size only steers a choice


def hint(e: ExprLike) -> int:
    """A size as a number, for choices. A quotient of symbols that would be one by zero tells nothing."""
    try:
        return e if isinstance(e, int) else int(e.evaluate(dict.fromkeys(e.free_names(), SYMBOL)))
    except ZeroDivisionError:
        return SYMBOL


def number_of(sizes: tuple) -> int:
    """The number of elements, for choices."""
    total = 1
    for n in sizes:
        e = expr_of(n)
        total *= hint(e)
    return total


def nothing(sizes: tuple) -> bool:
    """Whether a size is known to be 0."""
    return any(type(n) is int and n == 0 for n in sizes)


def numel_of(t: Tensor) -> int:
    return number_of(t.shape)


def values_of(args: Any) -> Any:
    """Arguments with values for nodes."""
    if isinstance(args, (tuple, list)):
        return type(args)(map(values_of, args))
    return args.value if isinstance(args, Node) else args


def is_gemm(node: Node) -> bool:
    """The template multiplies floating matrices of one type."""
    a, b = node.args[:2]
    return a.value.dtype is b.value.dtype and node.value.dtype is a.value.dtype and a.value.dtype.is_floating_point


def aligned(batch_index: tuple, shape: tuple) -> tuple:
    """The batch part of the index into an operand that is broadcast to the batch."""
    tail = batch_index[len(batch_index) - len(shape) :]
    return tuple(0 if is_one(n) else e for n, e in zip(shape, tail))


def as_operand(value: Value, index: tuple, tidy: Callable) -> Operand | None:
    """The value as a strided read along the variables of `index` (0 for a constant index)."""
    if value.op != "load" or value.args:
        return None
    linear = tidy(value.attrs.buffer.linear(value.attrs.index))
    variables = [e for e in index if isinstance(e, Expr)]
    if not isinstance(linear, Expr):
        return Operand(value.attrs.buffer, (0,) * len(index), linear)
    factors, tangled = strides_of(linear)
    if any(e.name in tangled for e in variables):
        return None
    rest = int_if_const(linear - sum((factors[e.name] * e for e in variables if e.name in factors), start=const(0)))
    return Operand(value.attrs.buffer, tuple(factors.get(e.name, 0) if isinstance(e, Expr) else 0 for e in index), rest)


def along(operand: Operand, index: tuple, variables: tuple) -> Operand:
    """The operand's strides along other variables: 0 for those that its index lacks."""
    strides = {e: s for e, s in zip(index, operand.strides) if isinstance(e, Expr)}
    return Operand(operand.buffer, tuple(strides.get(v, 0) for v in variables), operand.offset)


def origins(node: Node) -> tuple[Origin, ...]:
    if not node.stack:
        return (Origin(f"{node.name} = {node.target}"),)
    filename, line, source = node.stack[-1][:3]
    where, regions = f"{os.path.basename(filename)}:{line}  {source}".strip(), getattr(node.stack, "regions", ())
    return (Origin(f"{node.name} = {node.target}", where, regions),)
