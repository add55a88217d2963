"""Outputs of composites that the backward computes again from the hidden outputs, instead of keeping them.

In: a joint graph. Out: the same with the backward's reads of a normalised value replaced by the record's `again`
formula (a map of its operands and of the numbers per row, which the gradient keeps anyway). A parameter that only this
formula reads is kept as a copy: the caller may write it between forward and backward, as in eager.
"""

from __future__ import annotations

from ...capture.graph.graph import Node, map_args
from ...eager.op.op import OPS
from ...eager.state import recording
from ...eager.tensor import Tensor
from .joint_graph import JointGraph
from .partition import bytes_of
from .retrace import Retracer, fresh_fake

SMALL = 8  # a copy is at most this part of what need not be kept for it


def recompute_in_backward(joint: JointGraph) -> JointGraph:
    """Rewrite every call whose first output the backward reads and can rebuild."""
    for node in joint.graph.calls:
        if node not in joint.forward or not node.is_op or node.target.again is None or node.tag:
            continue
        outputs = {u.args[1]: u for u in node.users if u.is_getitem}
        if len(outputs) == len(node.target.outputs) and outputs[0] not in joint.gradients.values():
            late = [u for u in outputs[0].users if u not in joint.forward and u.op != "output"]
            if late:
                rebuild(joint, node, outputs, late)
    return joint


def rebuild(joint: JointGraph, node: Node, outputs: dict[int, Node], late: list[Node]) -> None:
    operands = recompute_arguments(joint, node, bytes_of(outputs[0].value) // SMALL)
    if operands is None:
        return
    recorder = Retracer(joint.graph)
    hidden = [outputs[k] for k in range(1, len(outputs))]
    values = map_args((*operands, *hidden), lambda v: fake_of(recorder, v) if isinstance(v, Node) else v)
    first = next(n for n in joint.graph.calls if n in late)
    recorder.marks = {"stack": node.stack}
    with recording(False), joint.graph.inserting_before(first), recorder:
        made = recorder.node_of(node.target.again(*values))
    for user in late:
        user.args = map_args(user.args, lambda v: made if v is outputs[0] else v)


def fake_of(recorder: Retracer, node: Node) -> Tensor:
    fake = fresh_fake(node.value)
    recorder.know(fake, node)
    return fake


def recompute_arguments(joint: JointGraph, node: Node, room: int) -> tuple | None:
    """The call's arguments; inputs that no gradient formula names as copies. None if a copy would be large."""
    operands = []
    for x in node.args:
        if isinstance(x, Node) and x.op == "placeholder" and all(u in joint.forward for u in x.users if u.op != "output"):
            if bytes_of(x.value) > room:
                return None
            x = copy_of(joint, x, node)
        operands.append(x)
    return tuple(operands)


def copy_of(joint: JointGraph, x: Node, place: Node) -> Node:
    """A forward node of its own name (backwards of other tangents find it by that)."""
    name = f"kept_{x.name}"
    found = next((u for u in x.users if u.is_op and u.name == name), None)
    if found is None:
        with joint.graph.inserting_before(place):
            found = joint.graph.call(OPS["clone"], (x,), fresh_fake(x.value), name, stack=place.stack)
        joint.forward.add(found)
    return found
