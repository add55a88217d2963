"""Reads of data inside a graph: numbers and sizes that only the values of tensors know.

`item()`, `nonzero()`, `unique()` and the like of a captured tensor are nodes whose target is a `Read`; what they give is an
unbacked symbol, or tensors with a size that is one. A backend gets the pieces between them, as graphs whose symbols are
inputs (`split_at_reads`); a piece is compiled at its first call, when the values it takes are there. A backend that
`takes_reads` gets the graph whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...eager import dtypes, random
from ...eager.frontend.indexing import nonzero
from ...eager.frontend.shapes import one_hot, repeat_interleave
from ...eager.frontend.statistics import bincount, unique, unique_consecutive
from ...eager.tensor import Tensor, fake_tensor
from ...runtime import counters
from ...runtime.errors import CheckFailed, Unsupported
from .graph import Graph, Interpreter, Node, Read, bind_symbols, check_read, evaluate_number, leaves, map_args, reads
from ..shapes.symbolic_shapes import SymFloat, SymInt
from ..state import native


TRIES = 8  # calls in a row whose data is not as the graph assumes, before it is not tried any more
MOST = 16  # reads in one graph; a loop over more values is better left to Python


def fake_number(new: Callable, x: Tensor) -> Any:
    return new("float" if x.dtype.is_floating_point else "int")


def fake_rows(new: Callable, x: Tensor) -> Tensor:
    return fake_tensor((new("unbacked"), x.ndim), None, dtypes.int64, x.device)


def fake_sets(new: Callable, x: Tensor, inverse: bool, counts: bool, dim: int | None) -> Any:
    """What unique() gives: the values, where each element is among them, how often each occurs."""
    size = new("unbacked")
    shape = (size,) if dim is None else (*x._fl_sizes[:dim], size, *x._fl_sizes[dim + 1 :])
    found = [fake_tensor(shape, None, x.dtype, x.device)]
    found += [fake_tensor(x._fl_sizes if dim is None else (x._fl_sizes[dim],), None, dtypes.int64, x.device)] * inverse
    found += [fake_tensor((size,), None, dtypes.int64, x.device)] * counts
    return found[0] if len(found) == 1 else tuple(found)


def fake_counts(new: Callable, x: Tensor, weights: Any, least: int) -> Tensor:
    kind = dtypes.int64 if weights is None else dtypes.float32 if weights.dtype is dtypes.float32 else dtypes.float64
    return fake_tensor((new("unbacked"),), None, kind, x.device)


def fake_places(new: Callable, counts: Tensor, size: Any) -> Tensor:
    return fake_tensor((new("unbacked") if size is None else size,), None, dtypes.int64, counts.device)


def classes(x: Tensor) -> int:
    return int(one_hot(x).shape[-1])


def fake_classes(new: Callable, x: Tensor) -> SymInt:
    return new("unbacked")


def sets_of(function: Callable) -> Callable:
    return lambda x, inverse, counts, dim: function(x, return_inverse=inverse, return_counts=counts, dim=dim)


READS = {
    read.name: read
    for read in (
        Read("item", Tensor.item, fake_number),
        Read("whole", lambda x: int(x.item()), lambda new, x: new("int")),
        Read("nonzero", nonzero, fake_rows),
        Read("unique", sets_of(unique), fake_sets),
        Read("unique_consecutive", sets_of(unique_consecutive), fake_sets),
        Read("bincount", bincount, fake_counts),
        Read("places", lambda counts, size: repeat_interleave(counts, output_size=size).long(), fake_places),
        Read("classes", classes, fake_classes),
    )
}
reads.update(READS)


def is_read(node: Node) -> bool:
    """A read, or a part of what one gives."""
    return isinstance(node.target, Read) or node.is_getitem and isinstance(node.args[0].target, Read)


def split_at_reads(graph: Graph, backend: Callable) -> Callable | None:
    """The callable of a graph with reads; None where the backend takes it whole."""
    if backend.takes_reads or not any(map(is_read, graph.nodes)):
        return None
    return SplitGraph(graph, backend)


class SplitGraph:
    """Runs the pieces and the reads between them. Nothing that the caller can see is written before the last read."""

    def __init__(self, graph: Graph, backend: Callable):
        self.graph, self.steps, self.refused, run = graph, [], 0, []
        self.needed = set(leaves(graph.output.args))
        for node in graph.calls:
            if is_read(node):
                self.add(run, backend)
                self.steps.append(ReadStep(node))
                run = []
            else:
                run.append(node)
        self.add(run, backend)
        self.constants = {n: graph.constants[n.target] for n in graph.nodes if n.op == "get_attr"}
        self.inputs = list(graph.inputs)
        self.binding = [n for n in self.inputs if free_names(n.value)]  # what shows a symbol
        output = graph.output.args[0]
        self.flat = output if type(output) is tuple and all(isinstance(v, Node) for v in output) else None

    def add(self, nodes: list[Node], backend: Callable) -> None:
        if nodes:
            inside = set(nodes)
            shown = [n for n in nodes if n in self.needed or any(user not in inside for user in n.users)]
            self.steps.append(Subgraph(self.graph, nodes, shown, backend))

    def __call__(self, *inputs: Any) -> Any:
        if self.refused >= TRIES:
            raise CheckFailed("the data is never what the graph assumes")
        generator = random.default_generator
        before = generator.get_state() if self.graph.draws else None
        try:
            result = self.run(inputs)
            self.refused = 0
            return result
        except CheckFailed:
            self.refused += 1
            if self.refused == TRIES:
                counters.add("fallbacks", "data unlike what was assumed")
            if before is not None:
                generator.set_state(before)
            raise

    def run(self, inputs: tuple) -> Any:
        symbols: dict = {}
        values = self.constants | dict(zip(self.inputs, inputs))
        for node in self.binding:
            bind_symbols(node.value, values[node], symbols)
        for step in self.steps:
            step(values, symbols)
        if self.flat is not None:
            return tuple([values[n] for n in self.flat])
        return map_args(self.graph.output.args[0], lambda v: values[v] if isinstance(v, Node) else evaluate_number(v, symbols))


class ReadStep:
    """One read, or a part of what one gave, between two pieces."""

    def __init__(self, node: Node):
        self.node, self.target, self.args = node, node.target, node.args
        self.plain = all(isinstance(a, Node) for a in node.args)
        tree = getattr(node.value, "tree", None)  # a float: nothing but itself can be bound or checked
        self.name = tree[1] if tree is not None and tree[0] == "var" else None

    def __call__(self, values: dict, symbols: dict) -> None:
        values[self.node] = value = self.value(values, symbols)
        if self.name is not None:
            symbols.setdefault(self.name, value)
            env = self.node.graph.env
            if env is None or not env.assumed:
                return
        bind_symbols(self.node.value, value, symbols)
        check_read(self.node, value, symbols)

    def value(self, values: dict, symbols: dict) -> Any:
        """An error, or another kind of value than the graph knows, is a matter for the original program."""
        args = (
            [values[a] for a in self.args]
            if self.plain
            else map_args(self.args, lambda v: values[v] if isinstance(v, Node) else evaluate_number(v, symbols))
        )
        try:
            value = self.target(*args)
        except Exception as error:
            raise CheckFailed(f"{self.node.name}: {error}") from error
        known = self.node.value
        if isinstance(value, Tensor) and (value.dtype is not known.dtype or value.ndim != known.ndim):
            raise CheckFailed(f"{self.node.name} is of {value.dtype}")
        return value


class Subgraph:
    """Nodes between two reads as a graph of their own: inputs are earlier values and symbols."""

    def __init__(self, whole: Graph, nodes: list[Node], shown: list[Node], backend: Callable):
        self.shown, self.backend, self.compiled = shown, backend, None
        self.graph = whole.like(whole.name)
        inside = set(nodes)
        self.inputs = list(
            dict.fromkeys(read for n in nodes for read in n.inputs if read not in inside and read.op != "get_attr")
        )
        table = {n: self.graph.placeholder(n.name, n.value, n.source) for n in self.inputs}
        self.symbols = [self.take(name) for name in sorted(missing_symbols(self.graph, (*nodes, *self.inputs)))]
        draws = 0
        for node in nodes:
            for read in node.inputs:
                if read.op == "get_attr" and read not in table:
                    table[read] = self.graph.get_attr(read.target, whole.constants[read.target], read.value)
            table[node] = copy = self.graph.copy_node(node, table.__getitem__)
            if node.draw is not None:
                copy.draw, draws = draws, draws + 1
        self.graph.draws = draws
        self.graph.set_output(tuple(table[n] for n in shown))

    def take(self, name: str) -> SymFloat | SymInt | int:
        """A symbol as an input."""
        env = self.graph.env
        assert env is not None
        number = SymFloat(env, ("var", name)) if env.symbols[name].kind == "float" else env.sym(name)
        self.graph.placeholder(name, number)
        return number

    def __call__(self, values: dict, symbols: dict) -> None:
        given = [values[n] for n in self.inputs]
        if self.symbols:
            given += [evaluate_number(s, symbols) for s in self.symbols]
        if self.compiled is None:
            self.compiled = native.call("capturing", None, self.compile, (given,), {})
        values.update(zip(self.shown, self.compiled(*given)))

    def compile(self, given: list) -> Callable:
        """By the backend; where a question cannot be answered for all values, eager runs the piece."""
        env = self.graph.env
        assert env is not None
        try:
            with env.sealed():
                return self.backend(self.graph, given)
        except Unsupported as reason:
            counters.add("fallbacks", reason.code)
            return Interpreter(self.graph).run


def missing_symbols(graph: Graph, nodes: tuple | None = None) -> set[str]:
    """Symbols that nodes (of the graph, if not given) need and no input of the graph shows."""
    names: set[str] = set()
    for node in graph.nodes if nodes is None else nodes:
        values = [node.value] if isinstance(node.value, (Tensor, SymInt, SymFloat)) else list(node.value or ())
        map_args((node.args, values), lambda v: names.update(free_names(v)))
    return names - graph.symbol_sources().keys()


def free_names(value: Any) -> frozenset:
    """Names of the symbols in a number or in the geometry of a tensor."""
    if isinstance(value, Tensor):
        offset = value._fl_geometry[2] if value._fl_fake and value._fl_geometry else 0  # a constant has bytes, and numbers
        return frozenset().union(*map(free_names, (*value._fl_sizes, *value._fl_strides, offset)))
    return (
        value.expr.free_names()
        if isinstance(value, SymInt)
        else value.free_names()
        if isinstance(value, SymFloat)
        else frozenset()
    )
