"""In-place ops and views become pure ops; what happened to inputs and how outputs alias is kept as data.

In: a captured graph. Out: a FunctionalGraph: pure nodes, the new values of mutated inputs, and for each output whether
it is fresh, an input, or a view of an input or of another output. The idea: a storage has one current value; a tensor
over it is a chain of view ops from the storage's first tensor. A read replays the chain when the storage has changed
since; a write goes back through the chain by the views' own write-back records.
"""

from __future__ import annotations

import operator
from dataclasses import field, replace
from collections.abc import Sequence
from typing import Any

from ...capture.graph.autograd_function import BackwardRule
from ...capture.graph.graph import Graph, Node, leaves, map_args
from ...eager import dtypes
from ...eager.autograd_node import overlaps
from ...eager.state import recording
from ...eager.op.op import Kind, Op, find
from ...eager.tensor import Tensor
from ...runtime.dataclass import data
from ...runtime.errors import InternalError, Unsupported
from .schemas import Fresh, IsInput, Mutation, Outline, Output, OutputSlot, ViewOfInput, ViewOfOutput, ViewStep, outline
from .compiler_ops import restride, with_value
from .retrace import fresh_fake, run_on_fakes, passes_gradients, retrace


@data
class FunctionalGraph:
    """`graph` returns the tuple of inner outputs: new values of mutated inputs, then fresh values."""

    graph: Graph
    mutated: list[Mutation] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    structure: Any = None  # the result's nesting, with Slots and numbers

    @property
    def outline(self) -> Outline:
        return outline(self.graph)

    def lines(self) -> list[str]:
        """What the boundary does, for people."""
        names = [n.name for n in self.graph.inputs]
        lines = [
            f"input {names[m.input]} becomes inner output {m.output}" + (" (recorded)" if m.recorded else "")
            for m in self.mutated
        ]
        return lines + [f"output {k}: {_output_text(o, names)}" for k, o in enumerate(self.outputs)]


def _output_text(output: Output, names: list[str]) -> str:
    if isinstance(output, Fresh):
        return f"inner output {output.index}"
    if isinstance(output, IsInput):
        return f"input {names[output.index]}"
    base = f"input {names[output.index]}" if isinstance(output, ViewOfInput) else f"inner output {output.index}"
    return f"{base} seen through " + (" then ".join(s.op.name + str(s.args) for s in output.chain) or "nothing (the same tensor)")


@data(eq=False)
class _Storage:
    """Memory of the program: its first tensor's current value. `input`: number of the placeholder that owns it."""

    value: Node
    input: int | None = None
    version: int = 0
    recorded: bool = False
    apart: list[ViewStep] = field(default_factory=list)  # what is seen through them has a history that `value` has not


@data(eq=False)
class _Alias:
    """A tensor of the program: a storage seen through a chain, and its value as of a version of the storage."""

    storage: _Storage
    chain: tuple[ViewStep, ...]
    node: Node
    version: int


def functionalize(graph: Graph) -> FunctionalGraph:
    """The pure form of a captured graph (which is left as it is)."""
    return _Functionalizer(open_aliasing(graph)).run()


def pure_rule(rule: BackwardRule) -> BackwardRule:
    """The backward of a custom function without writes: what runs it records pure graphs, or differentiates it."""
    if not any(n.is_op and n.target.mutates for n in rule.graph.calls):
        return rule
    return replace(rule, graph=_Functionalizer(open_aliasing(rule.graph)).values())


def open_aliasing(graph: Graph) -> Graph:
    """Composites that return aliases of what they read are replaced by the ops inside, until none is left."""
    if not any(_hides_aliasing(n) for n in graph.calls):
        return graph
    wanted = {n.target for n in graph.calls if _hides_aliasing(n)}
    return open_aliasing(retrace(graph, lambda op, args: op in wanted))


def _hides_aliasing(node: Node) -> bool:
    return node.is_op and node.target.kind is Kind.COMPOSITE and not node.target.mutates and _aliased(node)


def _aliased(node: Node) -> bool:
    """Whether an output of the call shares memory with something it reads."""
    read = {id(t.untyped_storage()) for n in node.inputs for t in tensors(n.value)}
    return any(id(t.untyped_storage()) in read for t in tensors(node.value))


def static_sizes(t: Tensor) -> list[int]:
    return [n for n in t.shape if type(n) is int]


def tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [t for v in value for t in tensors(v)] if isinstance(value, (tuple, list)) else []


class _Functionalizer:
    def __init__(self, graph: Graph):
        self.old, self.new = graph, graph.like("forward")
        self.aliases: dict[Node, _Alias] = {}
        self.plain: dict[Node, Any] = {}  # old nodes whose value is no tensor (tuples, numbers)
        self.outs: list[Node] = []
        self.hidden: dict[_Storage, int] = {}
        self.taken = 0  # inputs so far
        self.recorded = any(n.grad for n in graph.calls)

    def run(self) -> FunctionalGraph:
        self.refuse_constants()
        self.nodes()
        return self.finish()

    def values(self) -> Graph:
        """The pure graph of the values that are returned, for those who do not look at their memory."""
        self.nodes()
        self.new.set_output(self.read(self.old.output.args[0]))
        return self.new

    def nodes(self) -> None:
        self.check_inputs()
        for node in self.old.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.leaf(node)
            elif node.is_getitem:
                self.item(node)
            elif node.op == "call_function":
                self.call(node)

    def refuse_constants(self) -> None:
        """A program's constants are inputs by now: a write into one is for good."""
        for node in self.old.nodes:
            if node.op == "get_attr":
                raise InternalError(f"constant {node.target} was not lifted to an input before functionalize")

    # -- nodes -------------------------------------------------------------------------------------------------------
    def leaf(self, node: Node) -> None:
        if node.op == "get_attr":
            return self.bind_value(node, self.new.get_attr(node.target, self.old.constants[node.target], node.value))
        new = self.new.placeholder(node.name, fresh_fake(node.value), node.source)
        self.plain[node] = new
        if isinstance(node.value, Tensor):
            self.aliases[node] = _Alias(_Storage(new, self.taken), (), new, 0)
        self.taken += 1

    def call(self, node: Node) -> None:
        op = node.target
        if op.mutates:
            self.write(node)
        elif op.kind is Kind.VIEW and _aliased(node):
            self.view(node)
        elif _aliased(node):
            raise Unsupported(
                "hidden alias",
                f"{op.name} at {node.where() or 'an unknown line'} returns a tensor that shares memory "
                "with its input, and has no view rule",
                "give the op the kind view, or clone its result",
            )
        else:
            self.bind_value(node, self.emit(op, self.read(node.args), node))

    def item(self, node: Node) -> None:
        source, key = node.args
        parts = self.plain[source]
        if isinstance(parts, tuple):
            return self.bind_value(node, parts[key])
        self.bind_value(node, self.new.call(operator.getitem, (parts, key), parts.value[key], node.name, **node.marks()))

    def bind_value(self, node: Node, new: Node) -> None:
        """`new` is the value of `node`, in memory of its own."""
        self.plain[node] = new
        if isinstance(new.value, Tensor):
            self.aliases[node] = _Alias(_Storage(new), (), new, 0)

    def view(self, node: Node) -> None:
        base, *args = node.args
        source = self.aliases[base]
        step = ViewStep(node.target, tuple(args), node.grad, node.stack)
        new = self.emit(node.target, (self.current(source), *args), node)
        self.aliases[node] = _Alias(source.storage, (*source.chain, step), new, source.storage.version)

    # -- reads -------------------------------------------------------------------------------------------------------
    def read(self, args: Any) -> Any:
        return map_args(args, self.argument)

    def argument(self, value: Any) -> Any:
        if isinstance(value, BackwardRule):
            return pure_rule(value)
        return self.value_of(value) if isinstance(value, Node) else value

    def value_of(self, node: Node) -> Node:
        alias = self.aliases.get(node)
        return self.plain[node] if alias is None else self.current(alias)

    def current(self, alias: _Alias) -> Node:
        """The tensor's value now: replayed from the storage's when that has changed."""
        self.check_history(alias)
        if alias.version != alias.storage.version:
            node = alias.storage.value
            for step in alias.chain:
                node = self.step(step, node)
            alias.node, alias.version = node, alias.storage.version
        return alias.node

    def check_history(self, alias: _Alias) -> None:
        """A storage has one value with one history: that of its first tensor."""
        if any(step is each for step in alias.storage.apart for each in alias.chain):
            raise Unsupported(
                "write through a view",
                "a detached tensor that shares memory took a value that requires grad, and is used",
                "write into a clone of it",
            )

    def step(self, step: ViewStep, base: Node) -> Node:
        return self.emit_marked(step.op, (base, *step.args), grad=step.grad, stack=step.stack)

    # -- writes ------------------------------------------------------------------------------------------------------
    def write(self, node: Node) -> None:
        op, pure = node.target, node.target.pure
        result = self.emit(pure, self.read(node.args), node)
        names = [p.name for p in op.params]
        targets = [node.args[names.index(name)] for name in op.mutates]
        if len(pure.outputs) == len(op.outputs):  # derived in-place: the result is the new value
            self.store(targets[0], result if pure.grads else self.without_gradient(targets[0], result, node), node)
            self.aliases[node] = self.aliases[targets[0]]
            return
        items = self.parts(result, node)
        for target, item in zip(targets, items[len(op.outputs) :]):
            if target is not None:
                self.store(target, item, node)
        self.results(node, items[: len(op.outputs)])

    def without_gradient(self, target: Node, result: Node, node: Node) -> Node:
        """What a draw or a comparison has written: it has a history, in which nothing of it leads to what was there."""
        old = self.current(self.aliases[target])
        if not node.grad or old.value.dtype.category < 2:
            return result
        return self.emit_marked(find("copy"), (old, result), grad=True, stack=node.stack)

    def parts(self, result: Node, node: Node) -> list[Node]:
        """One node per output."""
        if isinstance(result.value, Tensor):
            return [result]
        return [
            self.new.call(operator.getitem, (result, k), v, stack=node.stack, grad=node.grad) for k, v in enumerate(result.value)
        ]

    def results(self, node: Node, items: list[Node]) -> None:
        """The outputs of a writing record with outputs of its own."""
        if isinstance(node.value, Tensor):
            self.bind_value(node, items[0])
        else:
            self.plain[node] = tuple(items)

    def store(self, target: Node, value: Node, node: Node) -> None:
        """`target` (a tensor of the program) takes `value`, and with it everything that shares its memory."""
        alias = self.aliases[target]
        storage = alias.storage
        if 0 in static_sizes(alias.node.value) and not any(t.requires_grad for t in tensors(node.value)):
            return  # nothing is written, also where memory could not take it
        value = self.fitted(value, alias.node.value, node)
        grads_flow = node.grad and all(s.grad and passes_gradients(s.op) for s in alias.chain)
        new = self.put(alias.chain, storage.value, value, node, node.grad)
        if node.grad and not grads_flow and any(t.requires_grad for t in tensors(node.value)):
            storage.apart.append([s for s in alias.chain if not (s.grad and passes_gradients(s.op))][-1])
        new = self.same_strides(new, storage.value, node)
        if self.recorded and not grads_flow and storage.value.value.dtype.is_floating_point:
            new = self.emit_marked(with_value, (storage.value, new), grad=True, stack=node.stack)
        storage.value, storage.version = new, storage.version + 1
        storage.recorded = storage.recorded or grads_flow
        if not alias.chain:
            alias.node, alias.version = new, storage.version

    def fitted(self, value: Node, like: Tensor, node: Node) -> Node:
        """In-place results are cast to the written tensor's type."""
        if value.value.dtype is like.dtype:
            return value
        return self.emit_marked(find("cast"), (value, like.dtype), grad=node.grad, stack=node.stack)

    def same_strides(self, new: Node, old: Node, node: Node) -> Node:
        """A storage keeps its geometry, whatever layout the pure op chose."""
        if _known_same(new.value.stride(), old.value.stride()):
            return new
        return self.emit_marked(restride, (new, tuple(old.value.stride())), grad=node.grad, stack=node.stack)

    def put(self, chain: tuple, base: Node, value: Node, node: Node, grad: bool) -> Node:
        """`base` with `value` written where the chain shows it."""
        if not chain:
            return value
        step, *rest = chain
        if rest:
            seen = self.step(step, base)
            if may_repeat_elements(step, base.value, seen.value):
                return self.put_by_places(chain, base, value, node, grad)
            value = self.put(tuple(rest), seen, value, node, grad)
        elif may_repeat_elements(step, base.value, value.value):
            raise Unsupported(
                "write through a view",
                "what is not written of memory that is shown several times must not undo what is",
                "write into the base tensor",
            )
        if step.op.put is None:
            raise Unsupported("write through a view", f"{step.op.name} has no write-back rule", "write into the base tensor")
        return self.emit_marked(step.op.put, (base, value, *step.args), grad=grad, stack=node.stack)

    def put_by_places(self, chain: tuple, base: Node, value: Node, node: Node, grad: bool) -> Node:
        """The same where elements of a view share memory: what the chain shows of the numbers of `base`'s elements tells
        where to write, since a part of such a view that is not written must not undo what is."""
        emit = lambda name, *args, grad=False: self.emit_marked(find(name), args, grad=grad, stack=node.stack)
        row = lambda x, grad=False: emit("view", emit("contiguous_copy", x, grad=grad), (x.value.numel(),), grad=grad)
        sizes, count = tuple(base.value.shape), base.value.numel()
        places = emit("view", emit("arange", 0, 1, count, dtypes.int64, base.value.device), sizes)
        for step in chain:
            places = self.emit_marked(step.op, (places, *step.args), stack=node.stack)
        written = emit("scatter", row(base, grad), 0, row(places), row(value, grad), grad=grad)
        return emit("view", written, sizes, grad=grad)

    # -- emitting ----------------------------------------------------------------------------------------------------
    def emit(self, op: Op, args: tuple, node: Node) -> Node:
        name = node.name if op is node.target else None
        return self.emit_marked(op, args, name, **node.marks())

    def emit_marked(self, op: Op, args: tuple, name: str | None = None, **marks: Any) -> Node:
        with recording(False):
            value = run_on_fakes(op, map_args(args, lambda v: v.value if isinstance(v, Node) else v))
        return self.new.call(op, args, value, name, **marks)

    # -- the end -----------------------------------------------------------------------------------------------------
    def check_inputs(self) -> None:
        """Inputs that share memory must not be written: their write would have to show in both. Nor may those whose own
        elements do: no copy of the new value is defined."""
        owners: dict[int, Node] = {}
        shared = set()
        for node in self.old.inputs:
            for t in tensors(node.value):
                if owners.setdefault(id(t.untyped_storage()), node) is not node:
                    shared.add(id(t.untyped_storage()))
        repeated = {id(t.untyped_storage()) for node in self.old.inputs for t in tensors(node.value) if shares_places(t)}
        for node in self.old.calls if shared or repeated else ():
            if node.is_op and node.target.mutates:
                names = [p.name for p in node.target.params]
                for name in node.target.mutates:
                    written = node.args[names.index(name)].value
                    if id(written.untyped_storage()) in repeated and 0 not in static_sizes(written):
                        raise Unsupported(
                            "aliased inputs",
                            f"{node.target.name} at {node.where()} writes an input whose elements share memory",
                            "clone the expanded tensor",
                        )
                    if id(written.untyped_storage()) in shared:
                        raise Unsupported(
                            "aliased inputs",
                            f"{node.target.name} at {node.where()} writes an input that shares memory with another input",
                            "pass the base tensor once, or clone one of them",
                        )

    def finish(self) -> FunctionalGraph:
        result = FunctionalGraph(self.new)
        for node in self.old.inputs:
            alias = self.aliases.get(node)
            storage = None if alias is None else alias.storage
            if storage is not None and storage.input is not None and storage.version:
                result.mutated.append(Mutation(storage.input, self.inner(storage.value), storage.recorded))
        returned = [n for n in leaves(self.old.output.args[0])]
        order = {node: k for k, node in enumerate(dict.fromkeys(n for n in returned if n in self.aliases))}
        result.outputs = self.classify(list(order))
        result.structure = map_args(
            self.old.output.args[0],
            lambda v: (
                OutputSlot(order[v]) if isinstance(v, Node) and v in order else self.number(v) if isinstance(v, Node) else v
            ),
        )
        self.new.set_output(tuple(self.outs))
        return result

    def number(self, node: Node) -> Any:
        if isinstance(node.value, (Tensor, tuple)):
            raise InternalError(f"output {node.name} is neither a tensor nor a number\n{self.old}")
        return node.value

    def inner(self, node: Node) -> int:
        self.outs.append(node)
        return len(self.outs) - 1

    def classify(self, returned: list[Node]) -> list[Output]:
        sharing: dict[_Storage, list[_Alias]] = {}
        for node in returned:
            sharing.setdefault(self.aliases[node].storage, []).append(self.aliases[node])
        return [self.kind_of(self.aliases[n], sharing[self.aliases[n].storage], n.value.requires_grad) for n in returned]

    def kind_of(self, alias: _Alias, sharing: list[_Alias], history: bool) -> Output:
        self.check_history(alias)
        storage = alias.storage
        if storage.input is not None:
            return ViewOfInput(storage.input, alias.chain) if alias.chain else IsInput(storage.input)
        if len(sharing) == 1 and (not alias.chain or self.covers(alias, history)):
            return Fresh(self.inner(self.current(alias)))
        if storage not in self.hidden:
            self.hidden[storage] = self.inner(storage.value)
            if not alias.chain:
                return Fresh(self.hidden[storage])
        return ViewOfOutput(self.hidden[storage], alias.chain)

    def covers(self, alias: _Alias, history: bool) -> bool:
        """A lone returned view that shows all of its storage, densely, with its history or without any, is as good as fresh."""
        view, base = self.current(alias).value, alias.storage.value.value
        return (
            (not history or all(s.grad and passes_gradients(s.op) for s in alias.chain))
            and view.dtype is base.dtype
            and _dense(view)
            and _known_equal(view.numel(), base.numel())
        )


def may_repeat_elements(step: ViewStep, base: Tensor, seen: Tensor) -> bool:
    """Whether the step may show an element several times."""
    if step.op is find("unfold"):
        _, size, every = step.args
        return not _known_equal(size, every)
    if step.op is find("as_strided"):
        return not _known(seen) or overlaps(seen.shape, seen.stride())
    return step.op is find("expand") and not _known_same(seen.shape, base.shape)


def _known(t: Tensor) -> bool:
    return all(type(n) is int for n in (*t.shape, *t.stride()))


def shares_places(t: Tensor) -> bool:
    """Whether elements of an input share memory: where it is expanded, or known to show windows of itself."""
    return (
        any(type(s) is int and s == 0 and not (type(n) is int and n < 2) for n, s in zip(t.shape, t.stride()))
        or _known(t)
        and 0 not in t.shape
        and overlaps(t.shape, t.stride())
    )


def _known_same(a: Sequence, b: Sequence) -> bool:
    return len(a) == len(b) and all(_known_equal(x, y) for x, y in zip(a, b))


def _known_equal(a: Any, b: Any) -> bool:
    """Equal for certain, without a new guard."""
    return (a == b) is True


def _dense(t: Tensor) -> bool:
    """Whether some order of the dims makes the strides row-major (dims of size 1 aside)."""
    left = [(size, stride) for size, stride in zip(t.shape, t.stride()) if not _known_equal(size, 1)]
    step = 1
    while left:
        found = next((pair for pair in left if _known_equal(pair[1], step)), None)
        if found is None:
            return False
        left.remove(found)
        step = step * found[0]
    return True
