"""Halves that decide something are what memory would hold.

In: a pure graph. Out: the same with `rounded` and `kept` behind some values of type float16 and bfloat16. The idea: inside of a
kernel a half stays a float32, so one value has two: with and without its rounding. Sums do not mind. A comparison does: a maximum
that was stored is not among the values that it was taken of, once these are computed again. So what becomes a truth value or a
whole number is rounded first; so is what the program itself casts to a half; and a value that meets a selection of itself
(`x == x.amax()`, `x - x.amin()`) is computed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...capture.graph.graph import Graph, Node, map_nodes
from ...eager.op.op import Kind, Op, find
from ...eager.state import recording
from ...eager.tensor import Tensor
from ...runtime.config import config
from ..loops.body import is_half
from .compiler_ops import kept, rounded
from .joint_graph import JointGraph
from .retrace import run_on_fakes

SELECTIONS = ("max", "min", "argmax", "argmin")
MARKS = {rounded: "rounded_", kept: "kept_"}


def insert_roundings(graph: Graph, own: bool = True, forward: set[Node] | None = None, saved: Sequence = ()) -> Graph:
    """The graph, changed. `own`: what it calls is the program's own, not what composites are written with; `forward`: nodes of
    a joint graph's forward, to which what is put in there belongs; `saved`: names of what a forward kept, under these names."""
    for node, (op, users) in choose_roundings(graph, own, forward, saved).items():
        insert_rounding(graph, node, op, users, forward)
    return graph


def insert_joint_roundings(joint: JointGraph, saved: Sequence = ()) -> JointGraph:
    """The same in a joint graph; `saved`: names of what a forward that is compiled already has kept."""
    insert_roundings(joint.graph, True, joint.forward, saved)
    joint.refresh()
    return joint


def copy_with_roundings(graph: Graph, own: bool) -> Graph:
    """The same on a copy, where there is something to do."""
    return insert_roundings(graph.copy()[0], own) if choose_roundings(graph, own) else graph


def choose_roundings(graph: Graph, own: bool, forward: set[Node] | None = None, saved: Sequence = ()) -> dict[Node, tuple]:
    """What to put behind which values, for which of their users (None: all)."""
    if config.keep_half_rounding or not any(computes_half(n) for n in graph.calls):
        return {}
    found: dict = {node: (kept, None) for node in unselected(graph, own)}
    for node in cast_to_half(graph, forward) if own else ():
        found.setdefault(node, (rounded, None))
    for node, user in deciding_halves(graph):
        _, users = found.setdefault(node, (rounded, []))
        if users is not None:
            found[node] = (rounded, None if user is None else [*users, user])
    names = {n.name: n for n in graph.calls}
    for op, prefix in MARKS.items():
        found.update((names[n[len(prefix) :]], (op, None)) for n in saved if n.startswith(prefix) and n[len(prefix) :] in names)
    return found


def insert_rounding(graph: Graph, node: Node, op: Op, users: list | None, forward: set[Node] | None) -> None:
    with recording(False), graph.inserting_after(node):
        value = run_on_fakes(op, (node.value,))
        made = graph.call(op, (node,), value, MARKS[op] + node.name, stack=node.stack, grad=False, tag=node.tag)
    for user in [u for u in node.users if u is not made and (users is None or u in users)]:
        user.args = map_nodes(user.args, lambda n: made if n is node else n)
    if forward is not None and node in forward:
        forward.add(made)


# -- which values ---------------------------------------------------------------------------------------------------


def computes_half(node: Node) -> bool:
    """A half that a kernel computes: not an input, a view, or one that is settled for all who read it."""
    return (
        node.op == "call_function"
        and isinstance(node.value, Tensor)
        and is_half(node.value.dtype)
        and not (node.is_op and (node.target.kind is Kind.VIEW or node.target in MARKS))
        and not all(u.is_op and u.target in MARKS for u in node.users)
    )


def deciding_halves(graph: Graph) -> Iterator[tuple[Node, Node | None]]:
    """(half, who reads it; None: through casts and views): of calls without a floating result. A sign alone does not change
    with rounding."""
    for node in graph.calls:
        if node.is_op and has_whole_numbers(node) and not sign_alone(node):
            for operand in node.inputs:
                made = seen_through(operand)
                if computes_half(made):
                    yield made, node if made is operand else None


def has_whole_numbers(node: Node) -> bool:
    """Whether a call gives truth values or whole numbers; of those with several results, reductions."""
    parts = node.value if isinstance(node.value, tuple) and node.target.kind is Kind.REDUCE else (node.value,)
    return any(isinstance(t, Tensor) and t.dtype.category < 2 for t in parts)


def sign_alone(node: Node) -> bool:
    """A comparison of one tensor with zero."""
    numbers = [a for a in node.args if isinstance(a, (int, float))]
    return len(node.inputs) == 1 and len(node.args) == 2 and len(numbers) == 1 and numbers[0] == 0


def cast_to_half(graph: Graph, forward: set[Node] | None) -> Iterator[Node]:
    """Casts that the program makes."""
    for node in graph.calls:
        own = node.target is find("cast") and (forward is None or node in forward)
        if own and computes_half(node) and node.args[0].value.dtype.is_floating_point:
            yield node


def seen_through(node: Node) -> Node:
    """What a value is without views of it and casts to wider types."""
    while node.is_op and (node.target.kind is Kind.VIEW or widening(node)):
        node = node.args[0]
    return node


def widening(node: Node) -> bool:
    return (
        node.target is find("cast")
        and node.value.dtype.is_floating_point
        and isinstance(node.args[0], Node)
        and is_half(node.args[0].value.dtype)
    )


def unselected(graph: Graph, own: bool) -> Iterator[Node]:
    """Halves that meet a selection of themselves: in a decision after any maps; in the program's own calls, as they are."""
    selections = [n for n in graph.calls if selects(n)]
    if not selections:
        return
    chosen: set[Node] = set()
    for node in graph.calls:
        if (
            not node.is_op
            or node.target.kind not in (Kind.MAP, Kind.REDUCE)
            or len(node.inputs) < 2
            or not (own or has_whole_numbers(node))
        ):
            continue
        while (found := meeting(node, has_whole_numbers(node), chosen)) is not None:
            chosen.add(found)
            yield found


def selects(node: Node) -> bool:
    """Whether a call gives elements of what it reads, chosen by their values."""
    op = node.target
    return node.is_op and (op.combine in SELECTIONS or op.template == "order" or op.kind is Kind.EXTERN and op.template is None)


def meeting(node: Node, through_maps: bool, chosen: set[Node]) -> Node | None:
    """The last half that one operand is made of and another was selected from."""
    walks = [walk(operand, through_maps, chosen) for operand in node.inputs]
    common = {
        n for k, (plain, _) in enumerate(walks) for j, (_, selected) in enumerate(walks) if j != k for n in plain & selected
    }
    return max((n for n in common if computes_half(n) and n not in chosen), key=order_of, default=None)


def order_of(node: Node) -> int:
    return next(k for k, n in enumerate(node.graph.nodes) if n is node)


def walk(node: Node, through_maps: bool, chosen: set[Node]) -> tuple[set[Node], set[Node]]:
    """(what the value is made of without a selection on the way, with one)."""
    found: tuple[set[Node], set[Node]] = set(), set()
    stack = [(node, False)]
    while stack:
        node, selected = stack.pop()
        if node in found[selected]:
            continue
        found[selected].add(node)
        if node.op != "call_function" or node in chosen or node.target is kept:
            continue
        if node.is_getitem or node.target.kind is Kind.VIEW or node.target is rounded or widening(node):
            stack.append((node.args[0], selected))
        elif selects(node):
            stack += [(n, True) for n in node.inputs]
        elif through_maps and node.target.kind is Kind.MAP:
            stack += [(n, selected) for n in node.inputs]
    return found
