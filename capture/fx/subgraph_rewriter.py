"""replace_pattern: every place where a graph computes a pattern computes the replacement instead.

In: a GraphModule, a pattern and a replacement (functions, modules or graphs with as many inputs). Out: the matches. A match
maps the pattern's nodes to nodes with the same operation, target and constants; what lies inside of it may be read only by
itself. Matches do not overlap; earlier ones win.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...eager.nn.modules.module import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _copy_attr
from .node import Node


class Match(NamedTuple):
    """`anchor`: the node that gave the pattern's result; `nodes_map`: the pattern's nodes -> the graph's."""

    anchor: Node
    nodes_map: dict[Node, Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replaces all matches, recompiles `gm`, returns what was found."""
    wanted, made = _graph_of(pattern), _graph_of(replacement)
    if isinstance(replacement, Module):
        for node in made.nodes:
            if node.op in ("get_attr", "call_module"):
                _copy_attr(replacement, gm, node.target)
    matches = _matches(gm, wanted)
    replaced: dict[Node, Node] = {}
    for match in matches:
        _replace(gm.graph, wanted, made, match, replaced)
    gm.graph.lint()
    gm.recompile()
    return matches


def _graph_of(given: Any) -> Graph:
    if isinstance(given, GraphModule):
        return given.graph
    return given if isinstance(given, Graph) else symbolic_trace(given).graph


def _matches(gm: GraphModule, pattern: Graph) -> list[Match]:
    result = pattern.output_node().args[0]
    if not isinstance(result, Node):
        raise RuntimeError("replace_pattern: the pattern must return one value")
    found: list[Match] = []
    taken: set[Node] = set()
    for node in gm.graph.nodes:
        table: dict[Node, Node] = {}
        if _matches_node(result, node, table) and _closed(result, table):
            inside = {n for p, n in table.items() if p.op != "placeholder"}
            if not inside & taken:
                taken |= inside
                found.append(Match(node, table))
    return found


def _matches_node(pattern: Node, node: Node, table: dict) -> bool:
    """Whether `node` computes what the pattern's node does; fills the table."""
    if pattern in table:
        return table[pattern] is node
    if node in table.values():  # different values of a pattern are different nodes
        return False
    if pattern.op == "placeholder":
        table[pattern] = node
        return True
    if pattern.op != node.op or pattern.target != node.target or node.op == "output":
        return False
    table[pattern] = node
    return _same_args(pattern.args, node.args, table) and _same_args(pattern.kwargs, node.kwargs, table)


def _same_args(a: Any, b: Any, table: dict) -> bool:
    if isinstance(a, Node):
        return isinstance(b, Node) and _matches_node(a, b, table)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_same_args(x, y, table) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same_args(a[k], b[k], table) for k in a)
    return type(a) is type(b) and a == b


def _closed(result: Node, table: dict) -> bool:
    """Nothing outside reads what would disappear."""
    inside = set(table.values())
    return all(p is result or p.op == "placeholder" or all(user in inside for user in node.users) for p, node in table.items())


def _replace(graph: Graph, pattern: Graph, made: Graph, match: Match, replaced: dict) -> None:
    inputs = [n for n in pattern.nodes if n.op == "placeholder"]
    outputs = [n for n in made.nodes if n.op == "placeholder"]
    table = {new: _latest(match.nodes_map[old], replaced) for old, new in zip(inputs, outputs) if old in match.nodes_map}
    place = next(n for n in graph.nodes if n in match.anchor.users or not match.anchor.users and n is match.anchor)
    with graph.inserting_before(place):
        result = graph.graph_copy(made, table)
    match.anchor.replace_all_uses_with(result)
    replaced[match.anchor] = result
    for old in reversed(list(pattern.nodes)):
        node = match.nodes_map.get(old)
        if node is not None and old.op != "placeholder" and not node.users:
            graph.erase_node(node)


def _latest(node: Node, replaced: dict) -> Node:
    while node in replaced:
        node = replaced[node]
    return node


__all__ = ["Match", "replace_pattern"]
