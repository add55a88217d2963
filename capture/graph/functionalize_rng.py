"""Graphs that draw PyTorch's numbers (`random.use("torch")`): what they draw becomes further inputs.

In: a captured graph whose draws are numbered in program order. Out: a callable that draws first, one after the other as eager
would, and then calls what the backend made of a graph without draws. So a compiler may drop, repeat and reorder what is left,
and a backward has what the forward drew among its inputs. Draws depend on sizes; one that only data knows is known when the
piece behind that read of data runs (data_dependent.py).
"""

from __future__ import annotations

from typing import Any
from collections.abc import Sequence

from ...eager import random
from ...eager.op.numpy_kernels import wrap
from ...eager.tensor import Tensor
from ...runtime.errors import CheckFailed
from .graph import Graph, Node, bind_symbols, evaluate_number, map_args


def on_cpu(op: Any, args: tuple) -> bool:
    """Whether a call draws on the CPU: GPUs draw as ever."""
    at = op.names.get("device", len(args))
    given = [args[at]] if at < len(args) and args[at] is not None else []
    return all(str(place).startswith("cpu") for place in (*given, *(a._fl_device for a in args if isinstance(a, Tensor))))


class FunctionalizeRng:
    """A backend whose graphs have what they draw among their inputs."""

    takes_reads = False

    def __init__(self, backend: Any):
        self.backend, self.name = backend, backend.name
        self.describe = None if backend.describe is None else self.described

    def __call__(self, graph: Graph, inputs: Sequence) -> Any:
        return functionalize_rng(graph, self.backend, inputs)

    def described(self, graph: Graph, compiled: Any) -> Any:
        if isinstance(compiled, FunctionalizedRng):
            graph, compiled = compiled.graph, compiled.compiled
        return self.backend.describe(graph, compiled)


def functionalize_rng(graph: Graph, backend: Any, inputs: Sequence) -> Any:
    """The backend's callable for a graph, behind one that draws what the graph does."""
    found = [
        n
        for n in graph.calls
        if n.is_op and n.draw is not None and n.target.ordered is not None and on_cpu(n.target, values_of(n))
    ]
    if not found:
        return backend(graph, inputs)
    return FunctionalizedRng(graph, found, backend, inputs)


def values_of(node: Node) -> tuple:
    return map_args(node.args, lambda v: v.value if isinstance(v, Node) else v)


class FunctionalizedRng:
    """`graph`: what the backend got; `compiled`: what it made of that."""

    def __init__(self, graph: Graph, draws: list[Node], backend: Any, inputs: Sequence):
        self.draws = sorted(draws, key=lambda n: n.draw or 0)
        self.calls = [(n.target, n.target.bind(n.args, {})) for n in self.draws]
        self.binding = [(k, n.value) for k, n in enumerate(graph.inputs)]
        self.graph = without(graph, self.draws)
        self.dynamic = any(map(is_symbolic, (values_of(n) for n in self.draws)))
        generator = random.default_generator
        before = generator.get_state()
        try:
            self.compiled = backend(self.graph, [*inputs, *self.drawn(inputs)])
        finally:
            generator.set_state(before)
        keep_inputs(self.compiled)

    def drawn(self, inputs: Sequence) -> list[Tensor]:
        symbols: dict = {}
        for k, value in self.binding if self.dynamic else ():
            bind_symbols(value, inputs[k], symbols)

        def number(value: Any) -> Any:
            return evaluate_number(value, symbols)

        return [self.draw(node, op, args, number) for node, (op, args) in zip(self.draws, self.calls)]

    def draw(self, node: Node, op: Any, args: tuple, number: Any) -> Tensor:
        def like(n: Node) -> Any:
            t = n.value
            return random.in_order.Like(map_args(tuple(t._fl_sizes), number), map_args(tuple(t._fl_strides), number), t._fl_dtype)

        given = map_args(args[:-1], lambda v: like(v) if isinstance(v, Node) else number(v))
        array = random.in_order.draw(op, given, random.default_generator)
        return wrap(array if array.flags.c_contiguous else array.copy("C"), node.value._fl_dtype)

    def __call__(self, *inputs: Any) -> Any:
        generator = random.default_generator
        before = generator.get_state()
        try:
            return self.compiled(*inputs, *self.drawn(inputs))
        except CheckFailed:
            generator.set_state(before)  # eager starts again from the same state
            raise


def is_symbolic(values: Any) -> bool:
    found: list = []

    def look(v: Any) -> None:
        parts = (*v._fl_sizes, *v._fl_strides) if isinstance(v, Tensor) else (v,)
        found.extend(n for n in parts if hasattr(n, "env"))

    map_args(values, look)
    return bool(found)


def keep_inputs(compiled: Any) -> None:
    """A second derivative runs the forward again, with what was drawn then."""
    training = getattr(compiled, "training", None)
    if training is not None:
        training.keep_inputs = True


def without(graph: Graph, draws: list[Node]) -> Graph:
    """A copy with inputs, behind the others, for what was drawn."""
    new, table = graph.like(), {}
    new.draws = graph.draws - len(draws)
    for node in graph.inputs:
        table[node] = new.copy_node(node, table.__getitem__)
    for node in draws:
        table[node] = new.placeholder(f"drawn_{node.name}", node.value)
    left = 0
    for node in graph.nodes:
        if node in table:
            continue
        if node.op == "output":
            new.set_output(map_args(node.args[0], lambda v: table[v] if isinstance(v, Node) else v))
            continue
        table[node] = copy = new.copy_node(node, table.__getitem__)
        if node.draw is not None:
            copy.draw, left = left, left + 1
    return new
