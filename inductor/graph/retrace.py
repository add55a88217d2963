"""Recording what runs on meta tensors as a new Graph: the tool of joint and decompose.

In: a graph (run by its Interpreter on fresh meta tensors) or any library code run under the mode. Out: the graph of
the ops that really ran. The idea: a dispatch mode that runs each op on fakes and appends a node; composites that
`opens` accepts are not recorded but run, so that the ops inside them are.
"""

from __future__ import annotations

import operator
from typing import Any
from collections.abc import Callable

from ...capture.graph.graph import Graph, Interpreter, Node, map_args
from ...capture.shapes.symbolic_shapes import SymInt
from ...eager.dispatch import execute
from ...eager.op.op import Kind, Op
from ...eager.sizes import is_row_major
from ...eager.state import Mode, recording, setting, state
from ...eager.tensor import Tensor, fake_tensor
from ...runtime.errors import InternalError
from ..loops.lower import geometry
from .compiler_ops import restride


class Retracer(Mode):
    """The mode. `marks` (stack, draw, tag) are put on every node recorded while they are set; `grad` is the grad mode."""

    def __init__(self, graph: Graph, opens: Callable[[Op, tuple], bool] = lambda op, args: False):
        self.graph, self.opens = graph, opens
        self.marks: dict[str, Any] = {}
        self.wanted: tuple | None = None  # (op, name): the name to give the next node of this op
        self.grad_nodes: list[tuple] = []  # (node of autograd, user stack) of what was recorded
        self._nodes: dict[int, tuple[Tensor, Node]] = {}  # keeps the tensor, so that its id stays its own

    def placeholder(self, name: str, value: Any, source: str | None = None) -> Node:
        node = self.graph.placeholder(name, value, source)
        if isinstance(value, Tensor):
            self.know(value, node)
        return node

    def know(self, tensor: Tensor, node: Node) -> None:
        self._nodes[id(tensor)] = (tensor, node)

    def node_of(self, tensor: Tensor) -> Node:
        found = self._nodes.get(id(tensor))
        if found is not None:
            return found[1]
        if tensor._fl_fake:
            raise InternalError(f"a meta tensor of shape {list(tensor.shape)} was not made by the recorded program\n{self.graph}")
        node = self.graph.get_attr("constant", tensor)
        self.know(tensor, node)
        return node

    def reference(self, args: Any) -> Any:
        """The same nesting with nodes for tensors."""
        return map_args(args, lambda v: self.node_of(v) if isinstance(v, Tensor) else v)

    def dispatch(self, op: Op, args: tuple) -> Any:
        if op.kind is Kind.COMPOSITE and op.fn is not None and self.opens(op, args):
            return op.fn(*args)
        nodes = self.reference(args)
        result = run_on_fakes(op, args)
        self.add_node(op, nodes, result)
        return result

    def add_node(self, op: Op, nodes: tuple, result: Any) -> None:
        name = None
        if self.wanted is not None and self.wanted[0] is op:
            name, self.wanted = self.wanted[1], None
        node = self.graph.call(op, nodes, result, name, grad=state.grad, **self.marks)
        self.grad_nodes += [
            (t._grad_fn, node.stack)
            for t in (result if isinstance(result, tuple) else (result,))
            if isinstance(t, Tensor) and t._grad_fn is not None
        ]
        if isinstance(result, Tensor):
            if not op.mutates:
                self.know(result, node)
            return
        for k, part in enumerate(result):
            if isinstance(part, Tensor):
                item = self.graph.call(operator.getitem, (node, k), part, grad=state.grad, stack=node.stack)
                self.know(part, item)


def run_on_fakes(op: Op, args: tuple) -> Any:
    """Run an op by its meta rule; factories make fakes too."""
    with setting(fake=True, modes=()):
        return execute(op, args)


def passes_gradients(op: Op) -> bool:
    """Whether autograd leads from the op's outputs to its inputs."""
    return bool(op.grads) and any(out.differentiable for out in op.outputs)


def simplify_size(size: Any) -> Any:
    """A size as an int where what is known by now leaves one number."""
    return size.env.wrap(size.expr) if isinstance(size, SymInt) else size


def fresh_fake(value: Any, requires_grad: bool = False) -> Any:
    """A meta tensor of the same geometry over a storage of its own; numbers are themselves."""
    if not isinstance(value, Tensor):
        return value
    contiguous = value._fl_fake and is_row_major(value._fl_geometry[1])  # said without numbers: some only the data knows
    return fake_tensor(
        tuple(map(simplify_size, value.shape)),
        None if contiguous else tuple(value.stride()),
        dtype=value.dtype,
        device=value.device,
        requires_grad=requires_grad,
    )


class Replay(Interpreter):
    """Runs a graph on fakes under a Recorder; each node's stack, draw and tag pass to what it makes."""

    def __init__(self, graph: Graph, recorder: Retracer):
        super().__init__(graph)
        self.recorder = recorder

    def call(self, node: Node, args: tuple) -> Any:
        self.recorder.marks = dict(stack=node.stack, draw=node.draw, tag=node.tag)
        self.recorder.wanted = (node.target, node.name)
        try:
            with recording(state.grad and node.grad):
                return with_traced_strides(node.target(*args), node.value)
        finally:
            self.recorder.marks, self.recorder.wanted = {}, None


def with_traced_strides(made: Any, known: Any) -> Any:
    """What a node made, in the strides that the graph was traced with: a decomposition may come to others."""
    if isinstance(made, tuple) and isinstance(known, Tensor):
        (made,) = made  # the one new value of a record that writes
    elif isinstance(made, tuple):
        return tuple(with_traced_strides(m, k) for m, k in zip(made, known))
    if not isinstance(made, Tensor) or not isinstance(known, Tensor):
        return made
    if made._fl_strides == known._fl_strides or not strides_differ(made, known):
        return made
    return restride(made, known._fl_strides)


def strides_differ(a: Tensor, b: Tensor) -> bool:
    """Whether strides that mean something differ."""
    sizes, strides = geometry(a)
    return any(s != t for n, s, t in zip(sizes, strides, geometry(b)[1]) if n != 1)


def retrace(graph: Graph, opens: Callable[[Op, tuple], bool]) -> Graph:
    """The same program with the composites that `opens` accepts replaced by the ops they run."""
    recorder = Retracer(graph.like(), opens)
    recorder.graph.constants = {}
    inputs = [fresh_fake(n.value) for n in graph.inputs]
    for node, value in zip(graph.inputs, inputs):
        recorder.placeholder(node.name, value, node.source)
    with recording(True), recorder:
        result = Replay(graph, recorder).run(*inputs)
    recorder.graph.set_output(recorder.reference(result))
    return recorder.graph
