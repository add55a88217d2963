"""What a loop over slices adds up in its backward is computed at once.

In: a graph with a backward. Each slice of a tensor gives back a gradient of the tensor's size, zero outside of the
slice; each step gives a product of a few rows to the gradient of a weight. Out: one `cat` for slices that lie side by
side without overlap or gap (`chunk`, `split`, all steps of a sequence), and one product over the rows of all steps.
The sums would walk over the whole sequence, or over the whole weight, once a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from ...capture.graph.graph import Graph, Node
from ...eager.op.op import OPS
from ...eager.state import recording
from ...eager.tensor import Tensor
from .joint_graph import JointGraph
from .partition import bytes_of
from .passes import same_geometry
from .retrace import run_on_fakes

STEPS = 3  # products from which one of all rows is made


def join_slices(joint: JointGraph) -> JointGraph | None:
    """Sums of slices' gradients in the backward; at most one other summand keeps its rounding. None: there were none."""
    graph, found = joint.graph, False
    for node, summands in _sums(graph):
        found = node not in joint.forward and _slices(graph, node, summands) or found
    return joint if found else None


def join_products(graph: Graph) -> Graph | None:
    """Sums of products of a few rows each, and of the sums of these rows, in a graph without composites. None: it has none."""
    sums, stacked = _sums(graph), {}
    found = [_products(graph, node, summands, stacked) for node, summands in sums]
    if stacked:
        order = {n: k for k, n in enumerate(graph.nodes)}
        rows = {_in_any_order(parts): made for parts, made in stacked.items()}
        for node, summands in sums:
            _column_sums(graph, node, summands, rows, order)
    return graph if any(found) else None


# -- trees of sums


def _sums(graph: Graph) -> list[tuple[Node, list[Node]]]:
    """The roots of all trees of sums, with their summands."""
    taken: set[Node] = set()
    return [(node, _summands(node, taken)) for node in reversed(graph.calls) if node not in taken and _is_sum(node)]


def _is_sum(node: Node) -> bool:
    """Of two tensors of the result's sizes and type."""
    if not node.is_op or node.target is not OPS["add"] or len(node.args) != 2:
        return False
    return all(isinstance(a, Node) and same_sizes(a.value, node.value) and a.value.dtype is node.value.dtype for a in node.args)


def same_sizes(a: Tensor, b: Tensor) -> bool:
    """For certain: symbols are not asked."""
    return len(a.shape) == len(b.shape) and all((n == m) is True for n, m in zip(a.shape, b.shape))


def _summands(root: Node, taken: set[Node]) -> list[Node]:
    """What a tree of sums adds up; a sum that something else reads is a summand."""
    found, open_sums = [], [root]
    while open_sums:
        node = open_sums.pop()
        for each in node.args:
            if _is_sum(each) and len(each.users) == 1 and node.args.count(each) == 1:
                taken.add(each)
                open_sums.append(each)
            else:
                found.append(each)
    return found


def _replace(graph: Graph, node: Node, make: Callable[[], Node], place: AbstractContextManager, rest: list[Node]) -> bool:
    """True: the graph has changed."""
    with recording(False), place:
        made = make()
        for each in rest:
            made = _call(graph, "add", (made, each), node)
    if same_geometry(made.value, node.value):
        graph.replace_all_uses(node, made)
    return True


def _call(graph: Graph, name: str, args: tuple, place: Node) -> Node:
    values = tuple(
        tuple(x.value for x in a)
        if isinstance(a, tuple) and a and isinstance(a[0], Node)
        else a.value
        if isinstance(a, Node)
        else a
        for a in args
    )
    return graph.call(OPS[name], args, run_on_fakes(OPS[name], values), **place.marks())


# -- slices


def _slices(graph: Graph, node: Node, summands: list[Node]) -> bool:
    pieces = _covering([n for n in summands if _is_piece(n)])
    rest = [n for n in summands if n not in pieces]
    if not pieces or len(rest) > 1:
        return False
    parts, dim = tuple(piece.args[0] for piece in pieces), pieces[0].args[2]
    return _replace(graph, node, lambda: _call(graph, "cat", (parts, dim), node), graph.inserting_before(node), rest)


def _is_piece(node: Node) -> bool:
    """The gradient of a slice of neighbours, at a place that is a number."""
    if not node.is_op or node.target is not OPS["slice_backward"]:
        return False
    x, size, dim, start, step = node.args
    return all(type(n) is int for n in (size, start, step, x.value.shape[dim])) and step == 1


def _covering(pieces: list[Node]) -> list[Node]:
    """The pieces in order if they follow each other along one dim from its start to its end, without overlap; else
    none."""
    if len(pieces) < 2 or len({piece.args[2] for piece in pieces}) > 1:
        return []
    pieces, at = sorted(pieces, key=lambda piece: piece.args[3]), 0
    for piece in pieces:
        x, size, dim, start, _ = piece.args
        if start != at:
            return []
        at += x.value.shape[dim]
    return pieces if at == size else []


# -- products


def _products(graph: Graph, node: Node, summands: list[Node], stacked: dict) -> bool:
    """Products of transposed rows become one, where their results are more than twice as large as the rows.
    `stacked`: rows of all steps by their parts."""
    products = [n for n in summands if _is_product(n)]
    lefts, rights = tuple(n.args[0].args[0] for n in products), tuple(n.args[1] for n in products)
    if len(products) < STEPS:
        return False
    if 2 * sum(map(bytes_of, [x.value for x in (*lefts, *rights)])) > len(products) * bytes_of(node.value):
        return False

    def make() -> Node:
        a, b = (_call(graph, "cat", (rows, 0), node) for rows in (lefts, rights))
        stacked.update({lefts: a, rights: b})
        return _call(graph, "gemm", (_call(graph, "transpose", (a, 0, 1), node), b), node)

    return _replace(graph, node, make, graph.inserting_before(node), [n for n in summands if n not in products])


def _is_product(node: Node) -> bool:
    """(rows, M) transposed times (rows, N), of known sizes, read by its sum alone."""
    if not node.is_op or node.target is not OPS["gemm"] or len(node.users) != 1 or len(node.args) != 2:
        return False
    left, right = node.args
    if not (isinstance(left, Node) and isinstance(right, Node) and left.is_op) or left.target is not OPS["transpose"]:
        return False
    sizes = (*left.value.shape, *right.value.shape)
    return left.args[1:] == (0, 1) and len(sizes) == 4 and all(type(n) is int for n in sizes)


def _in_any_order(nodes: Iterable[Node]) -> tuple:
    return tuple(sorted(map(id, nodes)))


def _is_column_sum(node: Node) -> bool:
    return node.is_op and node.target is OPS["sum"] and node.args[1:] == ((0,), False) and len(node.users) == 1


def _column_sums(graph: Graph, node: Node, summands: list[Node], stacked: dict, order: dict[Node, int]) -> None:
    """Sums over the rows of each step are one over the rows of all, where these have been put together."""
    if not all(_is_column_sum(n) for n in summands):
        return
    rows = stacked.get(_in_any_order(n.args[0] for n in summands))
    if rows is None or any(order[u] < order[rows] for u in node.users):
        return
    place = graph.inserting_before(node) if order[rows] < order[node] else graph.inserting_after(rows)
    _replace(graph, node, lambda: _call(graph, "sum", (rows, (0,), False), node), place, [])
