"""Forward and backward as one graph.

In: a functional forward, which inputs require grad, which outputs receive gradients. Out: a JointGraph whose output is
(forward outputs, input gradients). The idea: run the forward on meta tensors with recording on, then the autograd
engine on meta tangents, all under the Recorder: the backward nodes are what the records' own gradient formulas ran, no
second table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import reduce
from operator import or_

from ...capture.graph.graph import Graph, Node
from ...capture.graph.graph_tracer import tensors_of
from ...eager import autograd
from ...eager.op.op import Op
from ...eager.state import recording, state
from ...eager.tensor import Tensor
from ...runtime.dataclass import data
from .functionalize import FunctionalGraph
from .retrace import Retracer, Replay, fresh_fake


TANGENT = "gradient of output"  # how the source of such an input begins


def is_tangent(node: Node) -> bool:
    """Whether a node is the gradient of an output, which a backward is given."""
    return node.op == "placeholder" and (node.source or "").startswith(TANGENT)


@data
class JointGraph:
    """`graph` returns (outputs, gradients). `forward`: its nodes of the forward. tangents: inner output -> placeholder;
    gradients: input number -> node, None where no gradient arrives; steps: inner output -> the recorded calls that lead to
    it and save something (`saving_steps`); written: numbers of the inputs that get new values after the forward."""

    graph: Graph
    forward: set[Node]
    outputs: tuple[Node, ...]
    tangents: dict[int, Node] = field(default_factory=dict)
    gradients: dict[int, Node | None] = field(default_factory=dict)
    steps: dict[int, int] = field(default_factory=dict)
    written: frozenset[int] = frozenset()

    def refresh(self) -> None:
        """After passes on the graph: its output names the nodes that now stand for outputs and gradients."""
        self.outputs, gradients = self.graph.output.args[0]
        self.gradients = dict(zip(self.gradients, gradients))


def build_joint(functional: FunctionalGraph, requires: tuple[bool, ...], present: frozenset | None = None) -> JointGraph:
    """`requires`: per input, whether it needs a gradient; `present`: the inner outputs that receive one (None: all
    that can)."""
    recorder = Retracer(functional.graph.like("joint"), opens=_needs_opening)
    inputs = [fresh_fake(n.value, need) for n, need in zip(functional.graph.inputs, requires)]
    for node, value in zip(functional.graph.inputs, inputs):
        recorder.placeholder(node.name, value, node.source)
    with recording(True), recorder:
        outputs = Replay(functional.graph, recorder).run(*inputs)
        joint = JointGraph(recorder.graph, set(recorder.graph.nodes), recorder.reference(outputs))
        joint.written = frozenset(m.input for m in functional.mutated)
        _backward(joint, recorder, functional, inputs, outputs, present)
    joint.graph.set_output((joint.outputs, tuple(joint.gradients.values())))
    return joint


def _needs_opening(op: Op, args: tuple) -> bool:
    """A composite without a gradient of its own is recorded as what it runs, where gradients must pass."""
    return not op.grads and state.grad and any(t.requires_grad for t in tensors_of(args))


def differentiable(functional: FunctionalGraph, outputs: Sequence) -> list[int]:
    """Inner outputs that autograd may reach: those with history, less the values of unrecorded writes to inputs."""
    silent = {m.output for m in functional.mutated if not m.recorded}
    return [k for k, t in enumerate(outputs) if isinstance(t, Tensor) and t.requires_grad and k not in silent]


def saving_steps(tensors: Sequence[Tensor]) -> list[int]:
    """Of each tensor, as bits of a number, the recorded calls behind it that saved something: none runs backward twice."""
    bits: dict = {}  # call -> those of it and of all before it
    count = 0
    for t in tensors:
        waiting = [t._grad_fn] if t._grad_fn is not None else []
        while waiting:
            call = waiting[-1]
            before = [edge[0] for edge in call.flat_edges() if edge and not isinstance(edge[0], Tensor)]
            late = [each for each in before if each not in bits]
            if late:
                waiting += late
                continue
            waiting.pop()
            if call not in bits:
                bits[call] = reduce(or_, map(bits.get, before), call.saves << count)
                count += call.saves
    return [0 if t._grad_fn is None else bits[t._grad_fn] for t in tensors]


def _backward(
    joint: JointGraph,
    recorder: Retracer,
    functional: FunctionalGraph,
    inputs: Sequence,
    outputs: Sequence,
    present: frozenset | None,
) -> None:
    reached = differentiable(functional, outputs)
    used = [k for k in reached if present is None or k in present]
    sources = [k for k, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    tangents = [fresh_fake(outputs[k]) for k in used]
    for k, tangent in zip(used, tangents):
        joint.tangents[k] = recorder.placeholder(f"tangent_{joint.outputs[k].name}", tangent, f"{TANGENT} {k}")
    joint.steps = dict(zip(used, saving_steps([outputs[k] for k in used])))
    for node, stack in recorder.grad_nodes:
        node.register_prehook(lambda grads, stack=stack: recorder.marks.update(stack=stack))
    found = (
        autograd.grad([outputs[k] for k in used], [inputs[k] for k in sources], tangents, allow_unused=True)
        if used
        else [None] * len(sources)
    )
    recorder.marks = {}
    joint.gradients = {k: None if g is None else recorder.node_of(g) for k, g in zip(sources, found)}
