"""GraphTracer: library code runs for real on fake tensors, and every op record it calls becomes a graph node.

In: real tensors with their sources (they become placeholders) and whatever eager code does under the mode. Out: a Graph.
Because eager's own spellings, promotion, views and version counters run, the graph's meta tensors are eager's.
"""

from __future__ import annotations

import contextlib
import operator
from typing import Any
from collections.abc import Callable, Iterator

from ...eager import dispatch, random
from ...eager.errors import DataDependent
from ...eager.op.op import OPS, Kind
from ...eager.storage import Storage, address
from ...eager.tensor import Tensor, fake_tensor
from ...runtime.errors import ConstraintViolation, FlambeauError
from ..breaks import Assumptions, unsupported
from .graph import Graph, Node, map_args
from .data_dependent import MOST, READS
from ..shapes.symbolic_shapes import OWN_CODE, ShapeEnv, SymFloat, SymInt
from ..guards.source import Source
from ..guards.tensor_facts import on_gpu
from ..state import MAYBE, dynamic_marks


LARGEST_SYMBOL = 2**31  # products of two symbols fit the 64 bits of guards and kernels; other numbers are constants
MARKED = "said by mark_dynamic"  # the reason of guards that no line of the program asked for


class GraphTracer(dispatch.Mode):
    """Appends a node per op; knows the node and the variable of every fake tensor of the trace."""

    def __init__(self, stack: Callable[[], tuple], handled: Callable[[], bool], assumptions: Assumptions = Assumptions()):
        self.stack, self.handled = stack, handled  # where the program is; whether a handler of its own is around that
        self.env = ShapeEnv(stack)
        self.graph = Graph(self.env)
        self.nodes: dict[int, tuple[Tensor, Node]] = {}  # id -> (tensor kept alive, node)
        self.variables: dict[int, Any] = {}
        self.inputs: list[tuple[Node, Source, Any]] = []
        self.all_inputs: list[tuple[Node, Source, Any]] = []
        self.storages: dict[int, tuple[Storage, Storage]] = {}
        self.bindings: list[tuple[str, Source, str, int]] = []  # symbol, where it is read
        self.floats: dict[str, Source] = {}  # symbolic float -> where it is read
        self.spans: list[tuple[int, int, Storage]] = []
        self.marked: list[tuple[str, int, Any]] = []  # sizes under mark_dynamic
        self.unbacked: dict[str, Node] = {}  # symbol -> the read that brings it
        self.known_reads: dict[tuple, tuple] = {}
        self.written = False
        self.tag: str | None = None  # of the checkpointed region that is being traced
        self.root, self.root_nodes = self.graph, self.nodes
        self.lifted: dict[int, Tensor] | None = None  # inside another graph: what it takes from the one around it
        self.silent: list[Storage] = []  # storages that the program reads through .data
        self.copied: dict[int, Storage] = {}  # storages that eager shares and the graph has copies of
        self.assumptions = assumptions
        self.closed = False  # a composite without a gradient was not opened
        self.differentiated: dict[int, Tensor] = {}  # leaves that a traced backward has led to
        self.owned: dict[int, Tensor] = {}  # leaves that the trace made
        self.lines: dict[int, tuple] = {}  # id of a node of autograd -> where the program made it
        self.refusals: dict[tuple, tuple] = {}  # input, recorded -> what a write says to the views it is one of

    # -- ops -------------------------------------------------------------------------------------------------------

    def dispatch(self, op: Any, args: tuple) -> Any:
        if random.in_order is not None and op.draws is not None and op.draws(*args):
            drawn = self.draw_in_order(op, args)
            if drawn is not None:
                return drawn
        grad, args = dispatch.state.grad, with_plain_dim(op, args)
        if grad and op.kind is Kind.COMPOSITE and not op.grads and any(t.requires_grad for t in tensors_of(args)):
            if not self.assumptions.composites_closed:
                return op.fn(*args)
            self.closed = True
        args = specialise_static_arguments(op, args)
        inputs = map_args(tuple(args), self.argument)
        if op.mutates:
            self.note_writes(op, args)
            if grad:
                self.check_views(op, args)
        with dispatch.setting(modes=(), fake=True):
            out = dispatch.execute(op, tuple(args))
        stack = self.stack_of(out, grad)
        node = self.graph.call(op, inputs, out, stack=stack, grad=grad, draw=self.draw(op, args), tag=self.tag)
        self.bind(out, node)
        return out

    def stack_of(self, out: Any, grad: bool) -> tuple:
        """Where the program makes this; a gradient is made where the program made what it is a gradient of."""
        running = dispatch.state.node
        stack = self.lines[id(running)] if id(running) in self.lines else self.stack()
        if grad:
            self.lines.update((id(t._grad_fn), stack) for t in tensors_of((out,)) if t._grad_fn is not None)
        return stack

    def draw(self, op: Any, args: tuple) -> int | None:
        """The number of this op's random draw in program order."""
        if not op.draws or not op.draws(*args):
            return None
        if self.lifted is not None:
            raise unsupported("backward", "a backward of a custom function draws random numbers")
        if any(isinstance(a, random.Generator) and a is not random.default_generator for a in args):
            raise unsupported("builtin", f"{op.name}() draws from a generator of the program's own")
        self.graph.draws += 1
        return self.graph.draws - 1

    def draw_in_order(self, op: Any, args: tuple) -> Any:
        """PyTorch's numbers: records that draw them become nodes (None), whose draws are made before the graph runs
        (functionalize_rng.py); what is made of draws and data is opened up to these."""
        from .functionalize_rng import on_cpu

        if not on_cpu(op, args):
            return None
        if op.mutates and op.functional is not None and op.functional.ordered is not None:
            return OPS["copy"].inplace(args[0], op.functional(*args))
        if op.ordered is not None:
            return None
        if op.kind is Kind.COMPOSITE:
            return op.fn(*args)
        raise unsupported("builtin", f"{op.name}() draws from data, under FLAMBEAU_RANDOM=torch")

    def bind(self, out: Any, node: Node) -> None:
        if isinstance(out, Tensor):
            self.nodes.setdefault(id(out), (out, node))
            for n in out._fl_sizes if self.unbacked else ():
                if isinstance(n, SymInt) and n.hint is None:
                    self.env.assume_size(n)
        elif isinstance(out, (tuple, list)):
            for i, part in enumerate(out):
                if isinstance(part, Tensor) and id(part) not in self.nodes:
                    item = self.graph.call(operator.getitem, (node, i), part, stack=node.stack, grad=node.grad, tag=node.tag)
                    self.nodes[id(part)] = part, item

    def argument(self, value: Any) -> Any:
        return self.node_of(value) if isinstance(value, Tensor) else value

    def node_of(self, tensor: Tensor) -> Node:
        found = self.nodes.get(id(tensor))
        if found is None:
            if self.lifted is not None and id(tensor) in self.root_nodes:
                return self.lift(tensor)
            if tensor._fl_fake:
                raise unsupported("metadata", "a tensor that no traced operation made (set_, .data or a geometry change)")
            if self.lifted is not None:  # numbers that a backward was written with: what the call saves
                self.root_nodes[id(tensor)] = tensor, self.root.get_attr("constant", tensor)
                return self.lift(tensor)
            found = self.nodes[id(tensor)] = tensor, self.graph.get_attr("constant", tensor)
        return found[1]

    # -- a graph inside: the backward of a custom function ---------------------------------------------------------

    @contextlib.contextmanager
    def inside(self) -> Iterator[Any]:
        """Ops go into a graph of their own; what it uses of the graph around it becomes its inputs, in `lifted`."""
        if self.lifted is not None:
            raise unsupported("backward", "a custom function is called in the backward of another")
        self.graph, self.nodes, self.lifted = Graph(self.env), {}, {}
        try:
            yield self.graph
        finally:
            self.graph, self.nodes, self.lifted = self.root, self.root_nodes, None

    def lift(self, tensor: Tensor) -> Node:
        assert self.lifted is not None
        self.lifted[id(tensor)] = tensor
        node = self.graph.placeholder(self.root_nodes[id(tensor)][1].name, tensor)
        self.nodes[id(tensor)] = tensor, node
        return node

    def placeholder(self, name: str, fake: Tensor) -> Tensor:
        """An input of the graph inside."""
        self.nodes[id(fake)] = fake, self.graph.placeholder(name, fake)
        return fake

    def constant_copy(self, tensor: Tensor) -> Tensor:
        """A tensor that library code made from numbers: each call of the compiled code gets its own copy."""
        self.node_of(tensor)
        with self, dispatch.setting(grad=dispatch.state.grad and tensor._grad_fn is not None):
            made = OPS["clone"](tensor)
        made._fl_requires_grad = tensor._fl_requires_grad
        return made

    # -- reads of data ---------------------------------------------------------------------------------------------

    def read(self, what: str, tensor: Tensor, *more: Any) -> Any:
        """A node that reads data; what it gives has numbers or sizes that are unbacked symbols."""
        if self.written or self.tag is not None or self.lifted is not None or len(self.unbacked) >= MOST:
            raise DataDependent(f"{what}()")  # a call with reads must be able to start again
        args = tensor, *more
        key = what, *((id(a), a._version) if isinstance(a, Tensor) else repr(a) for a in args)
        if key in self.known_reads:  # one symbol for one value; the entry keeps the tensors alive
            return self.known_reads[key][0]
        made: list = []

        def new(kind: str) -> Any:
            made.append(self.env.create_unbacked(f"{what}()", kind))
            return made[-1]

        value = READS[what].fake(new, *args)
        node = self.graph.call(READS[what], map_args(args, self.argument), value, stack=self.stack(), grad=dispatch.state.grad)
        self.bind(value, node)
        shown = next(
            (self.nodes[id(part)][1] for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, Tensor)),
            node,
        )
        self.unbacked.update((n.tree[1] if isinstance(n, SymFloat) else n.expr.name, shown) for n in made)
        self.known_reads[key] = value, args
        return value

    def note_writes(self, op: Any, args: tuple) -> None:
        """Whether something that the caller can see was written."""
        targets = {id(args[op.names[name]]._fl_storage) for name in op.mutates}
        given = [t for t, node in self.nodes.values() if node.op == "placeholder"] if self.lifted is not None else []
        if any(id(t._fl_storage) in targets for t in given):
            raise unsupported("backward", "a backward of a custom function writes what it was given")
        if any(id(storage) in targets for storage in self.silent):
            raise self.seen_alias("a tensor is written whose .data the program has")
        if targets & self.copied.keys():
            raise self.seen_alias("a result and an argument of a custom function share memory, and one is written")
        seen = {id(fake) for _, fake in self.storages.values()}
        self.written |= not targets.isdisjoint(seen)

    def seen_alias(self, text: str) -> FlambeauError:
        return self.assumptions.without("aliases_unseen", unsupported("hidden alias", text))

    def check_views(self, op: Any, args: tuple) -> None:
        """A recorded write into an input that is a view of what the trace does not see: its leaf may refuse it."""
        needs = any(t.requires_grad for t in tensors_of(args))
        for name in op.mutates:
            target = shown = args[op.names[name]]
            while target._fl_view is not None and target._fl_view.parent is not None:
                target = target._fl_view.parent
            found = next((row for row in self.inputs if row[0].value is target), None)
            if found is None or not isinstance(real := found[2], Tensor) or real._fl_fake:
                continue
            if real.requires_grad != target.requires_grad:
                continue
            text = dispatch.refused_write(real, needs)
            if text is not None or self.handled():  # else the call itself raises, and nobody in the program hears it
                self.refusals[found[1], needs] = text, self.stack()
            if text is not None:
                raise RuntimeError(dispatch.refused_write(real, needs, shown))

    # -- inputs ----------------------------------------------------------------------------------------------------

    def input(self, value: Tensor, source: Source, dims: set) -> Tensor | None:
        """A fake for a real tensor; `dims`: the dimensions whose sizes are symbols."""
        if value._fl_fake and not on_gpu(value):
            return None
        sizes, strides = self.geometry(value, source, dims)
        offset = value.storage_offset()
        fake = fake_tensor(sizes, strides, value.dtype, value.device, value._fl_requires_grad, self.storage(value), offset)
        if value._grad_fn is not None:
            fake = self.with_history(fake)
        node = self.root.placeholder(source.name(), fake, source.name())
        self.root_nodes[id(fake)] = fake, node
        self.inputs.append((node, source, value))
        return fake

    def with_history(self, fake: Tensor) -> Tensor:
        """The fake of a tensor that is not a leaf: it has a grad_fn that nobody runs."""
        fake._fl_requires_grad = True
        with dispatch.setting(modes=(), grad=True):
            made = OPS["clone"](fake)
        made._fl_storage, made._fl_geometry = fake._fl_storage, fake._fl_geometry
        return made

    def geometry(self, value: Tensor, source: Source, dims: set) -> tuple:
        """(sizes, strides) with symbols; strides follow from the sizes of a dense tensor."""
        order = dense_order(value)
        if not dims or order is None:
            return tuple(value.shape), tuple(value.stride())
        marked = dynamic_marks(value)
        sizes = [self.symbolic_size(n, source, d, marked.get(d)) if d in dims else n for d, n in enumerate(value.shape)]
        strides, step = [0] * value.ndim, 1
        for d in reversed(order):
            strides[d] = step
            step = step if type(sizes[d]) is int and sizes[d] == 0 else step * sizes[d]
        return tuple(sizes), tuple(strides)

    def symbolic_size(self, n: int, source: Source, dim: int, mark: Any = None) -> SymInt | int:
        name = f"{source.name()}.size({dim})"
        symbol = self.env.create_symbol(n, name)
        if type(symbol) is not int:
            self.bindings.append((self.env.places[name], source, "size", dim))
        if type(mark) is tuple:
            low, high = mark
            if low is not None and n < low or high is not None and n > high:
                raise ConstraintViolation(
                    f"{name} is {n}, and mark_dynamic said that it is in [{low}, {high}]\n"
                    f"  what to do: {widen_mark(source, dim, n, low, high)}, or call it with a size of that range first"
                )
            if isinstance(symbol, SymInt):
                self.env.limit(symbol, low, high, f"{name}: {MARKED}")
        if mark not in (None, False, MAYBE):
            self.marked.append((name, n, symbol))
        return symbol

    def check_marks(self) -> None:
        """Raise for a dimension that was marked dynamic and became one number."""
        for name, n, symbol in self.marked:
            why = f"sizes {OWN_CODE}" if type(symbol) is int else self.why_specialised(self.env.places[name], symbol)
            if why:
                raise ConstraintViolation(
                    f"{name} was marked dynamic, but it is always {n} here: {why}\n"
                    "  what to do: mark it with maybe_mark_dynamic, or not at all"
                )

    def why_specialised(self, name: str, symbol: Any) -> str:
        """Why a symbol is one number: an equality, or relations that one number alone meets; nothing where it is not."""
        from ..shapes import solutions

        guards = [g for g in solutions.guards_on(self.env, name) if g.stack and not g.reason.endswith((OWN_CODE, MARKED))]
        if not symbol.expr.is_const:
            found = solutions.accepted_values(self.env, name) if len(guards) > 1 else None
            if found is None or found.values(1) is None:
                return ""
            return "the program needs " + " and ".join(str(g.relation) for g in guards) + where_asked(guards[-1])
        guards = guards or [g for g in self.env.guards if g.stack]
        why = next((g for g in guards if g.relation.op == "=="), guards[0] if guards else None)
        return f"the program needs {why or 'that'}" + (where_asked(why) if why else "")

    def storage(self, value: Tensor) -> Storage:
        """One fake storage per real one, so that aliasing inputs alias as fakes."""
        real = value._fl_ensure_storage()
        if id(real) not in self.storages:
            self.refuse_overlap(real)
            self.storages[id(real)] = real, Storage(None, device=value.device)
        return self.storages[id(real)][1]

    def refuse_overlap(self, real: Storage) -> None:
        start = real.data_ptr() if real.bytes is None else address(real.bytes)
        end = start + real.nbytes()
        if any(start < e and s < end for s, e, _ in self.spans):
            raise unsupported("value", "two inputs are separate storages over the same foreign memory")
        self.spans.append((start, end, real))

    def symbolic_int(self, value: int, source: Source) -> SymInt | int:
        symbol = self.env.create_symbol(value, source.name(), duck=False, kind="int")
        if isinstance(symbol, SymInt):
            self.env.limit(symbol, -LARGEST_SYMBOL, LARGEST_SYMBOL, f"{source.name()}: products fit 64 bits")
            node = self.root.placeholder(source.name(), symbol, source.name())
            self.inputs.append((node, source, value))
            self.bindings.append((self.env.places[source.name()], source, "int", 0))
        return symbol

    def symbolic_float(self, value: float, source: Source) -> SymFloat:
        """A number input; one symbol per source."""
        known = next((name for name, found in self.floats.items() if found == source), None)
        if known is not None:
            return SymFloat(self.env, ("var", known))
        symbol = self.env.create_float(value, source.name())
        node = self.root.placeholder(source.name(), symbol, source.name())
        self.inputs.append((node, source, value))
        self.floats[symbol.tree[1]] = source
        return symbol

    # -- the end ---------------------------------------------------------------------------------------------------

    def has_work(self) -> bool:
        return any(node.op == "call_function" for node in self.graph.nodes)

    def finish(self, outputs: list) -> list[tuple[Node, Source, Any]]:
        """Set the output and drop inputs that nothing needs; returns the inputs that are left."""
        silent = {id(storage) for storage in self.silent}
        if any(isinstance(v, Tensor) and id(v._fl_storage) in silent and self.node_of(v).op != "placeholder" for v in outputs):
            raise self.seen_alias("a tensor leaves the graph that may be the .data of another")
        if any(isinstance(v, Tensor) and id(v._fl_storage) in self.copied for v in outputs):
            raise self.seen_alias("a result shares memory with an argument of a custom function")
        reads = {id(node.value): node for node in self.unbacked.values()}
        self.graph.set_output(tuple(reads[id(v)] if id(v) in reads else self.argument(v) for v in outputs))
        self.all_inputs, self.inputs = self.inputs, []
        for node, source, value in self.all_inputs:
            if node.users or not self.is_static(node.value):
                self.inputs.append((node, source, value))
            else:
                self.graph.erase(node)
        return self.inputs

    @staticmethod
    def is_static(value: Any) -> bool:
        return isinstance(value, Tensor) and all(type(n) is int for n in (*value._fl_sizes, *value._fl_strides))


def dense_order(value: Tensor) -> list[int] | None:
    """Dimensions from the widest stride to the narrowest when they cover memory without gaps, else None."""
    sizes, strides = value.shape, value.stride()
    order = sorted(range(value.ndim), key=lambda d: (-strides[d], -sizes[d], d))
    step = 1
    for d in reversed(order):
        if sizes[d] != 1 and strides[d] != step:
            return None
        step *= max(sizes[d], 1)
    return order


def specialise_static_arguments(op: Any, args: tuple) -> tuple:
    """With the values of integers that a program made with other ones would be another kernel: dims and other settings."""
    return tuple(
        [
            int(a) if isinstance(a, SymInt) and k < len(op.params) and op.params[k].role == "static" else a
            for k, a in enumerate(args)
        ]
    )


def tensors_of(args: Any) -> Iterator[Any]:
    """The tensors among arguments."""
    for a in args:
        if isinstance(a, Tensor):
            yield a
        elif isinstance(a, (tuple, list)):
            yield from tensors_of(a)


def with_plain_dim(op: Any, args: tuple) -> tuple:
    """Which dim an op goes along is no size: its symbol is asked for the number, under a guard."""
    at = op.names.get("dim", len(args))
    if at >= len(args) or not isinstance(args[at], SymInt):
        return args
    return *args[:at], operator.index(args[at]), *args[at + 1 :]


def where_asked(guard: Any) -> str:
    return f" at {guard.stack[-1][0]}:{guard.stack[-1][1]}"


def widen_mark(source: Source, dim: int, n: int, low: int | None, high: int | None) -> str:
    """A mark whose range has the size."""
    ends = {"min": low if low is None else min(low, n), "max": high if high is None else max(high, n)}
    given = ", ".join(f"{name}={end}" for name, end in ends.items() if end is not None)
    return f"mark_dynamic({source.name()}, {dim}, {given})"
