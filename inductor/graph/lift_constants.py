"""Constant tensors of a captured graph become inputs at the end, so that writing and aliasing them is like writing any input."""

from __future__ import annotations

from ...capture.graph.graph import Graph, map_nodes
from .retrace import fresh_fake
from .schemas import constant_names


def lift_constants(graph: Graph) -> Graph | None:
    """The graph without constants; None: it has none."""
    if not graph.constants:
        return None
    new, table = graph.like(), {}
    for node in graph.inputs:
        table[node] = new.placeholder(node.name, node.value, node.source)
    lifted = [n for n in graph.nodes if n.op == "get_attr"]
    first = {n.target: n for n in reversed(lifted)}
    made = {
        name: new.placeholder(first[name].name, fresh_fake(graph.constants[name]), f"constant {name}")
        for name in constant_names(graph)
    }
    for node in graph.nodes:
        if node.op == "get_attr":
            table[node] = made[node.target]
        elif node.op == "call_function":
            table[node] = new.copy_node(node, table.__getitem__)
    new.set_output(map_nodes(graph.output.args[0], table.__getitem__))
    new.constants = {}
    return new
