"""A product of looked-up rows is looked up in the product of the table.

In: a pure graph. Out: the same graph with `linear(table[index], weight, bias)` as `linear(table, weight, bias)[index]`,
where the table has fewer rows than are looked up: characters, amino acids, notes, small vocabularies under a recurrent
layer. Gradients follow: they are added up per row of the table before they meet the weights. Rows that nobody looks up
are zero in that product, since zero times an infinity of theirs would be NaN in the weights' gradient.
"""

from __future__ import annotations

import math
from typing import Any

from ...capture.graph.graph import Graph, Node
from ...capture.shapes.symbolic_shapes import hint_of
from ...eager.op.op import OPS, Op
from ...eager.state import recording
from .passes import same_geometry
from .retrace import run_on_fakes

LEADING = {OPS["transpose"]: 2, OPS["select"]: 1, OPS["slice"]: 1}  # views and how many of their arguments are dims
FEWER = 2  # rows looked up per row of the table


def look_up_products(graph: Graph) -> Graph | None:
    """The graph, or None where it has not changed. Sizes decide by their hints: the result is right for all."""
    return graph if any([_look_up(graph, node) for node in graph.calls if _is_product(node)]) else None


def _is_product(node: Node) -> bool:
    """Of rows by a matrix."""
    if not node.is_op or node.target not in (OPS["linear"], OPS["matmul"]):
        return False
    return all(isinstance(n, Node) for n in node.args[:2]) and len(node.args[1].value.shape) == 2


def _look_up(graph: Graph, node: Node) -> bool:
    found = _looked_up(node.args[0], node.grad)
    if found is None or _count(node.value.shape[:-1]) < FEWER * _count(found[0].value.shape[:1]):
        return False
    table, index, views = found
    with recording(False), graph.inserting_before(node):
        for view in views:
            index = _call(graph, view.target, (index, *view.args[1:]), node, grad=False)
        read = _read_rows(graph, table, index, node) if node.grad else table
        product = _call(graph, node.target, (read, *node.args[1:]), node)
        made = _call(graph, OPS["embedding"], (product, index, -1), node)
    if same_geometry(made.value, node.value):
        graph.replace_all_uses(node, made)
    return True


def _read_rows(graph: Graph, table: Node, index: Node, place: Node) -> Node:
    """The table with zeros in the rows that `index` does not name: a sum of ones per row tells them."""
    dtype, device = table.value.dtype, table.value.device
    ones = _call(graph, OPS["full"], ((*index.value.shape, 1), 1.0, dtype, device), place, grad=False)
    counts = _call(graph, OPS["embedding_backward"], (table.value.shape[0], index, ones, -1), place, grad=False)
    named = _call(graph, OPS["ne"], (counts, 0), place, grad=False)
    return _call(graph, OPS["where"], (named, table, 0.0), place)


def _count(shape: tuple) -> int:
    """Places of a shape by the hints of its sizes."""
    return math.prod(4096 if (hint := hint_of(size)) is None else int(hint) for size in shape)


def _looked_up(node: Node, grad: bool) -> tuple[Node, Node, list[Node]] | None:
    """(table, index, views of the rows that leave each row whole). A row without gradient adds to the weights', so that
    the product cannot be without; nor may the table be without one where the product records (`grad`)."""
    views: list[Node] = []
    while node.is_op and node.target in LEADING and node.grad == grad:
        views.insert(0, node)
        node = node.args[0]
    if not node.is_op or node.target is not OPS["embedding"] or node.args[2] >= 0 or node.grad != grad:
        return None
    table, index = node.args[:2]
    if len(table.value.shape) != 2 or not all(_leaves_rows(view) for view in views):
        return None
    return table, index, views


def _leaves_rows(view: Node) -> bool:
    last = len(view.args[0].value.shape) - 1
    return all(type(dim) is int and 0 <= dim < last for dim in view.args[1 : 1 + LEADING[view.target]])


def _call(graph: Graph, op: Op, args: tuple, place: Node, **changed: Any) -> Node:
    values = tuple(a.value if isinstance(a, Node) else a for a in args)
    return graph.call(op, args, run_on_fakes(op, values), **{**place.marks(), **changed})
