"""What the forward saves for the backward, and what the backward computes again.

In: a joint graph. Out: a forward graph that also returns the saved values, and a backward graph from saved values,
sizes and tangents to input gradients. The idea: a minimum cut, weighed in bytes, between what the forward has and what
the gradient formulas read. Cheap ops may be computed again; costly ones only in a checkpointed region; a graph input or a
result may be saved only if a gradient formula names it (eager holds it then, too, and refuses the same writes into it).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field
from typing import Any

from ...capture.graph.graph import Graph, Node
from ...capture.shapes.symbolic_shapes import SymFloat, SymInt, hint_of
from ...eager.op.op import Kind, find
from ...eager.tensor import Tensor, fake_tensor
from ...runtime.dataclass import data
from .schemas import Crossing, strides_of
from .joint_graph import JointGraph
from ..loops.lower import dense, geometry
from .max_flow import INFINITE, Network
from .compiler_ops import restride


@data
class Partition:
    """`forward` returns (outputs, saved results); `backward` takes saved inputs and results, sizes, tangents, in this
    order.

    saved: names of the saved nodes, in the order of backward's inputs; saved_inputs: name -> number of the graph input
    that it is (the others are results, in order, of forward); sizes: symbols the backward reads as numbers; tangents:
    inner outputs; gradients: input number -> position among backward's outputs, or None.
    """

    forward: Graph
    backward: Graph
    saved: list[str]
    saved_inputs: dict[str, int]
    sizes: list[str] = field(default_factory=list)
    tangents: list[int] = field(default_factory=list)
    gradients: dict[int, int | None] = field(default_factory=dict)

    def hidden(self) -> frozenset[str]:
        """Saved results that are no outputs for the caller: the backward may use their memory once it has read them."""
        outputs = self.forward.output.args[0]
        names = [name for name in self.saved if name not in self.saved_inputs]
        shown = outputs[: len(outputs) - len(names)]
        return frozenset(name for name, node in zip(names, outputs[len(shown) :]) if node not in shown)

    def crossing(self) -> Crossing:
        return Crossing(
            tuple(self.saved),
            self.saved_inputs,
            tuple(self.sizes),
            tuple(self.tangents),
            self.gradients,
            strides_of(self.backward),
            self.hidden(),
        )


def partition(joint: JointGraph) -> Partition:
    """Cut the joint graph where the fewest bytes cross."""
    return split(joint, [n.name for n in _Cut(joint).saved()])


def split(joint: JointGraph, names: list[str]) -> Partition:
    """Forward and backward for a given set of saved values (a backward for other tangents uses the set of the first).
    An input that is written after the call is saved as a copy.
    """
    table = {n.name: n for n in joint.graph.nodes}
    inputs = {n: k for k, n in enumerate(n for n in joint.graph.inputs if n not in set(joint.tangents.values()))}
    saved = [table[name] for name in names if name in table]
    kept = {n for n in saved if n in inputs and inputs[n] not in joint.written}
    saved_inputs = {n.name: inputs[n] for n in saved if n in kept}
    forward = _forward(joint, [n for n in saved if n not in kept], list(inputs))
    backward, sizes = _backward(joint, saved, kept)
    reached = [k for k, g in joint.gradients.items() if g is not None]
    gradients = {k: reached.index(k) if k in reached else None for k in joint.gradients}
    return Partition(forward, backward, [n.name for n in saved], saved_inputs, sizes, list(joint.tangents), gradients)


# -- the two graphs -------------------------------------------------------------------------------------------------


def _forward(joint: JointGraph, saved: list[Node], inputs: list[Node]) -> Graph:
    new = joint.graph.like("forward")
    table = {n: new.placeholder(n.name, n.value, n.source) for n in inputs}
    refusing = [n for n in joint.graph.calls if n in joint.forward and n.refuses]
    _copy_needed(joint.graph, new, table, [*joint.outputs, *saved, *refusing])
    copies = {
        n: new.call(find("clone"), (table[n],), value_in_memory(n.value), grad=False)
        for n in saved
        if view_base(n) in inputs and inputs.index(view_base(n)) in joint.written
    }
    new.set_output((*(table[n] for n in joint.outputs), *(copies.get(n, table[n]) for n in saved)))
    return new


def view_base(node: Node) -> Node:
    """The value that a view is of."""
    while node.is_op and node.target.kind is Kind.VIEW:
        node = node.args[0]
    return node


def _backward(joint: JointGraph, saved: list[Node], kept: set[Node]) -> tuple[Graph, list[str]]:
    new = joint.graph.like("backward")
    table = {n: _saved_placeholder(new, n, n in kept) for n in saved}
    for tangent in joint.tangents.values():
        table[tangent] = new.placeholder(tangent.name, tangent.value, tangent.source)
    for node in saved:
        if table[node].value is not node.value:
            strides = tuple(node.value.stride())
            table[node] = new.call(restride, (table[node], strides), node.value, stack=node.stack, grad=False)
    gradients = [g for g in joint.gradients.values() if g is not None]
    _copy_needed(joint.graph, new, table, gradients)
    new.set_output(tuple(table[g] for g in gradients))
    return new, _add_sizes(new, len(saved))


def read_by_gradients(joint: JointGraph, names: Iterable[str]) -> list[str]:
    """Those of the saved values that the gradients of this joint graph are made of."""
    table = {n.name: n for n in joint.graph.nodes}
    saved = {table[name]: name for name in names if name in table}
    gradients = {g for g in joint.gradients.values() if g is not None}
    needed = ancestors(list(gradients), saved.keys())
    return [name for node, name in saved.items() if node in gradients or not needed.isdisjoint(node.users)]


def _saved_placeholder(graph: Graph, node: Node, kept: bool) -> Node:
    """The backward's input for a saved value: an input that is `kept`, or a result of the forward. These are dense,
    whatever strides they have within it."""
    return graph.placeholder(node.name, node.value if kept else value_in_memory(node.value), node.source or "saved")


def value_in_memory(value: Any) -> Any:
    """The value as it lies in memory of its own."""
    if not isinstance(value, Tensor) or dense(*geometry(value)):
        return value
    return fake_tensor(value.shape, None, value.dtype, value.device)


def _copy_needed(old: Graph, new: Graph, table: dict[Node, Node], wanted: list[Node]) -> None:
    """Copy what `wanted` needs, in order, down to what the table has."""
    needed = ancestors(wanted, table.keys())
    for node in old.nodes:
        if node in needed:
            table[node] = new.copy_node(node, table.__getitem__)


def ancestors(wanted: Iterable[Node], stop: Collection[Node] = ()) -> set[Node]:
    """`wanted` and all they read, not going into or beyond `stop`."""
    found: set[Node] = set()
    stack = [n for n in wanted if n not in stop]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += [n for n in node.inputs if n not in stop]
    return found


def _add_sizes(graph: Graph, at: int) -> list[str]:
    """Placeholders (after the first `at`) for the symbols that no input of the graph shows; their names."""
    env, used = graph.env, set()
    if env is None:
        return []
    for node in graph.nodes:
        used |= symbols_in(node.args) | symbols_in(node.value)
    missing = sorted(used - graph.symbol_sources().keys())
    place = graph.inputs[at] if at < len(graph.inputs) else None
    for name in missing:
        value = env.sym(name) if name[0] != "f" else SymFloat(env, ("var", name))
        node = graph.placeholder(f"size_{name}", value, f"symbol {name}")
        if place is not None:
            graph.move_before(node, place)
    return missing


def symbols_in(value: Any) -> set[str]:
    """Names of the symbols in arguments or in the geometry of a meta value."""
    if isinstance(value, SymInt):
        return set(value.expr.free_names())
    if isinstance(value, SymFloat):
        return set(value.free_names())
    if isinstance(value, Tensor):
        return symbols_in(tuple(value.shape)) | symbols_in(tuple(value.stride()))
    if isinstance(value, (tuple, list)):
        return set().union(*map(symbols_in, value))
    return symbols_in((value.start, value.stop, value.step)) if isinstance(value, slice) else set()


# -- the cut --------------------------------------------------------------------------------------------------------


class _Cut:
    """The network: every value is an edge (in -> out) whose capacity is the price of saving it."""

    def __init__(self, joint: JointGraph):
        self.joint = joint
        self.written = {n for k, n in enumerate(joint.graph.inputs) if k in joint.written}
        self.tangents = set(joint.tangents.values())
        self.moving = self.depends_on_tangents()
        gradients = [g for g in joint.gradients.values() if g is not None]
        self.needed = ancestors(gradients)
        self.still = [n for n in joint.graph.nodes if n in self.needed and n not in self.moving]
        self.read = {r for n in self.needed & self.moving for r in n.inputs if r not in self.moving}
        self.read |= {g for g in gradients if g not in self.moving}
        self.named = self.named_by_formulas()
        self.network = Network()

    def depends_on_tangents(self) -> set[Node]:
        found = set(self.tangents)
        for node in self.joint.graph.nodes:
            if node not in found and node.op != "output" and any(n in found for n in node.inputs):
                found.add(node)
        return found

    def named_by_formulas(self) -> set[Node]:
        """Values of the forward that the backward reads directly, and what these are views of: eager keeps them alive."""
        forward = self.joint.forward
        named = {r for n in self.needed if n not in forward for r in n.inputs if r in forward}
        named |= {g for g in self.joint.gradients.values() if g in forward}
        named |= {r for n in self.still if n.tag for r in n.inputs if r.tag != n.tag}
        stack = list(named)
        while stack:
            node = stack.pop()
            if node.is_op and node.target.kind is Kind.VIEW and node.args[0] not in named:
                named.add(node.args[0])
                stack.append(node.args[0])
        return named

    def saved(self) -> list[Node]:
        net = self.network
        source, sink = net.vertex(), net.vertex()
        inner = {n: (net.vertex(), net.vertex()) for n in self.still}
        for node, (enter, leave) in inner.items():
            net.edge(enter, leave, self.price(node))
            if not self.may_recompute(node):
                net.edge(source, enter, INFINITE)
            if node in self.read:
                net.edge(leave, sink, INFINITE)
            for read in node.inputs:
                net.edge(inner[read][1], enter, INFINITE)
        side = net.source_side(source, sink)
        return [n for n, (enter, leave) in inner.items() if enter in side and leave not in side]

    def may_recompute(self, node: Node) -> bool:
        if node.op != "call_function":
            return False
        if node.tag or node.is_getitem or node not in self.joint.forward:
            return True
        return node.target.recompute and node.target.kind in (Kind.MAP, Kind.VIEW, Kind.RANDOM)

    def price(self, node: Node) -> int:
        """Bytes that saving moves, or INFINITE for what cannot be saved."""
        if isinstance(node.value, (SymInt, SymFloat, int, float)):
            return 0
        if not isinstance(node.value, Tensor) or self.inside_region(node) or node not in self.joint.forward:
            return INFINITE  # what only the backward computes has no name that other patterns share
        size = bytes_of(node.value)
        if node.op == "placeholder":
            return 2 * size + 1 if node in self.written else 1 if node in self.named else INFINITE
        if node in self.joint.outputs:
            return max(size // 2, 2) if node in self.named else INFINITE
        if node.is_op and node.target.kind is Kind.VIEW:
            return 2 * size + size // 8 + 2  # its base, of the same bytes, is in memory already
        return 2 * size + (1 if node in self.read else 2)  # of equal sizes, the one that needs no computing

    def inside_region(self, node: Node) -> bool:
        """A value of a checkpointed region that only the region reads."""
        users = [u for u in node.users if u in self.joint.forward and u.op != "output"]
        return bool(node.tag) and all(u.tag == node.tag for u in users) and node not in self.joint.outputs


def bytes_of(t: Tensor) -> int:
    """Bytes of a meta tensor by the hints of its sizes (4096 stands for a size that only the data knows)."""
    total = t.dtype.itemsize
    for size in t.shape:
        hint = hint_of(size)
        total *= 4096 if hint is None else hint
    return total
