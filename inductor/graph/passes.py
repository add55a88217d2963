"""Graph passes on pure graphs: common subexpressions, dead nodes, constants, no-ops. Each changes the graph in place.

The rules that keep them honest: before `joint`, nodes of different `grad` mark never merge; different draws never
merge; two outputs of the graph stay two tensors; an op with effects is never removed.
"""

from __future__ import annotations

from typing import Any, NoReturn
from collections.abc import Callable, Collection

from ...capture.graph.graph import Graph, Node, leaves, map_args
from ...capture.shapes.symbolic_shapes import SymFloat, SymInt
from ...eager.state import no_modes, recording
from ...eager.op.op import Kind
from ...eager.sizes import SYMBOLIC, is_number
from ...eager.tensor import Tensor
from .retrace import run_on_fakes, passes_gradients


def tidy(graph: Graph, across_grad: bool = False, within: set[Node] | None = None) -> Graph:
    """The usual column of passes; `within`: see `remove_dead`."""
    remove_dead(graph, within)
    remove_noops(graph, across_grad, within)
    fold_numbers(graph)
    merge_common(graph, across_grad, within)
    remove_dead(graph, within)
    return graph


def remove_dead(graph: Graph, within: set[Node] | None = None) -> None:
    """Erase calls that nothing reads and that have no effect. Those that may refuse what they are given stay, for eager raises
    as well where nobody reads the result; with `within` only those in it (a backward's indices have been looked at)."""
    for node in reversed(graph.nodes):
        if (
            node.op in ("call_function", "get_attr")
            and not node.users
            and not (node.is_op and (node.target.effects or node.target.mutates))
            and not ((within is None or node in within) and node.refuses)
        ):
            graph.erase(node)


# -- common subexpressions ------------------------------------------------------------------------------------------


def returned_results(node: Node, returned: set) -> set:
    """Which of a call's results are outputs of the graph (each in memory of its own): None for its only one."""
    items = {user.args[1] for user in node.users if user.is_getitem and user in returned}
    return items | {None} if node in returned else items


def merge_common(graph: Graph, across_grad: bool, within: set[Node] | None = None) -> None:
    """A call equal to an earlier one (same target, arguments, draw, tag and, unless `across_grad`, grad mark) becomes
    that one. Of two calls of which the caller sees one, and may write it before the backward, the other stays where gradient
    formulas may read it: before `joint` if it was recorded, there if the backward reads it (`within`: the forward)."""
    seen: dict[Any, Node] = {}
    returned = set(leaves(graph.output.args))
    for node in graph.calls:
        if node.is_op and (node.target.effects or node.target.mutates or (node.target.kind is Kind.RANDOM and node.draw is None)):
            continue
        key = (node.target, freeze(node.args), node.draw, node.tag, None if across_grad else node.grad)
        first = seen.setdefault(key, node)
        if first is node or saved_apart(node, first, returned, across_grad, within):
            continue
        if returned_results(node, returned).isdisjoint(returned_results(first, returned)):
            graph.replace_all_uses(node, first)
            if node in returned:
                returned.add(first)
            graph.erase(node)


def saved_apart(node: Node, first: Node, returned: set, across_grad: bool, within: set[Node] | None) -> bool:
    """Whether one of two equal calls is seen by the caller, while eager may save the other for its backward."""
    seen = [seen_by_caller(n, returned) for n in (node, first)]
    if all(seen) or not any(seen):
        return False
    hidden = first if seen[0] else node
    return not across_grad and hidden.grad or within is not None and (hidden not in within or read_outside(hidden, within))


def freeze(value: Any) -> tuple:
    """Arguments as a hashable key: symbolic numbers by expression, numbers by type and text (so that -0.0 is not 0)."""
    if isinstance(value, Node):
        return ("node", id(value))
    if isinstance(value, SymInt):
        return ("int", value.expr)
    if isinstance(value, SymFloat):
        return ("float", value.tree)
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, *map(freeze, value))
    if isinstance(value, dict):
        return ("dict", *((k, freeze(v)) for k, v in value.items()))
    if isinstance(value, slice):
        return ("slice", *map(freeze, (value.start, value.stop, value.step)))
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return (type(value).__name__, repr(value))
    return ("object", id(value))


# -- no-ops ---------------------------------------------------------------------------------------------------------


class _NotIdentity(Exception):
    """The formula does something."""


def _keeps(number: int) -> Callable:
    """The operator of an operand that is unchanged by this number on its right."""

    def method(self: _Same, other: Any) -> _Same:
        if is_number(other) and not isinstance(other, SYMBOLIC) and other == number:
            return self
        raise _NotIdentity

    return method


class _Same:
    """Stands for an operand in a formula; the formula is the identity if it comes back."""

    __mul__ = __rmul__ = __truediv__ = _keeps(1)
    __sub__ = _keeps(0)

    def __getattr__(self, name: str) -> NoReturn:
        raise _NotIdentity

    def __call__(self, *index: Any) -> NoReturn:
        raise _NotIdentity


def _operator(*_: Any) -> NoReturn:
    raise _NotIdentity


for _name in (
    "add",
    "radd",
    "rsub",
    "rtruediv",
    "floordiv",
    "rfloordiv",
    "mod",
    "rmod",
    "pow",
    "rpow",
    "neg",
    "pos",
    "invert",
    "abs",
    "and",
    "rand",
    "or",
    "ror",
    "xor",
    "rxor",
    "lshift",
    "rshift",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "bool",
    "getitem",
    "iter",
    "len",
    "index",
    "int",
    "float",
):
    setattr(_Same, f"__{_name}__", _operator)
_Same.__hash__ = object.__hash__


class _SameComplex(_Same):
    """Times one is no identity of complex numbers: the product of an infinite part and the other's 0 is NaN."""

    __mul__ = __rmul__ = __truediv__ = _operator


class _Formula:
    """A vocabulary whose every op does something, except a cast to the type that the value has."""

    def __init__(self, dtype: Any):
        self.dtype = dtype

    def cast(self, x: Any, dtype: Any) -> Any:
        if dtype is self.dtype:
            return x
        raise _NotIdentity

    def __getattr__(self, name: str) -> Callable:
        return _operator


def remove_noops(graph: Graph, across_grad: bool, within: set[Node] | None = None) -> None:
    """Users of a call that gives one of its operands back read the operand, unless that would return an input as an
    output, or one tensor twice; before `joint` only where gradients pass through the call unchanged, too. A copy of what the
    caller sees, and may write before the backward, stays where gradient formulas may read it (`within`: the forward)."""
    returned = set(leaves(graph.output.args))
    for node in graph.calls:
        same = identity_of(node)
        if same is None or not (across_grad or passes_gradient(node)):
            continue
        kept = not across_grad or within is not None and node in within and read_outside(node, within)
        if kept and node.target.kind is not Kind.VIEW and seen_by_caller(same, returned):
            continue
        if node in returned and (same.op == "placeholder" or same in returned or aliases_input(same)):
            continue
        graph.replace_all_uses(node, same)
        if node in returned:
            returned.add(same)
        graph.erase(node)


def passes_gradient(node: Node) -> bool:
    """Whether an identity call hands its gradient on: it was recorded, has one operand, and a gradient."""
    return node.grad and len(node.inputs) == 1 and passes_gradients(node.target)


def aliases_input(node: Node) -> bool:
    """Whether the value is a view of a graph input."""
    return seen_by_caller(node, ())


def seen_by_caller(node: Node, returned: Collection[Node]) -> bool:
    """Whether the value lies in memory of a graph input, or of a result."""
    while node.is_op and node.target.kind is Kind.VIEW and node not in returned:
        node = node.args[0]
    return node.op == "placeholder" or node in returned


def read_outside(node: Node, within: set[Node]) -> bool:
    """Whether a call that is not among these reads the value, or a view of it."""
    return any(
        u not in within or u.is_op and u.target.kind is Kind.VIEW and read_outside(u, within)
        for u in node.users
        if u.op != "output"
    )


def identity_of(node: Node) -> Node | None:
    """The operand that this call returns unchanged, if there is one."""
    if not node.is_op or node.target.mutates or not isinstance(node.value, Tensor):
        return None
    if node.target.kind is Kind.VIEW:
        return (
            node.args[0]
            if same_geometry(node.args[0].value, node.value) and node.args[0].value.dtype is node.value.dtype
            else None
        )
    if node.target.kind is Kind.MAP and not node.target.explicit_loop and node.target.fn is not None:
        return _identity_map(node)
    return None


def _identity_map(node: Node) -> Node | None:
    marks = {n: _SameComplex() if n.value.dtype.is_complex else _Same() for n in node.inputs}
    args = map_args(node.args, lambda v: marks[v] if isinstance(v, Node) else v)
    try:
        result = node.target.fn(_Formula(node.value.dtype), *args)
    except _NotIdentity:
        return None
    found = next((n for n, mark in marks.items() if mark is result), None)
    if found is None or found.value.dtype is not node.value.dtype or not same_geometry(found.value, node.value):
        return None
    return found


def same_geometry(a: Tensor, b: Tensor) -> bool:
    """Equal sizes and strides, for certain."""
    return len(a.shape) == len(b.shape) and all(
        (x == y) is True for x, y in zip((*a.shape, *a.stride()), (*b.shape, *b.stride()))
    )


# -- constants ------------------------------------------------------------------------------------------------------


def fold_numbers(graph: Graph) -> None:
    """A 0-dim constant made in the graph goes into the Map ops that read it as a plain number, where the type stays
    the same."""
    for node in graph.calls:
        number = constant_number(node)
        for user in list(node.users) if number is not None else ():
            if user.is_op and user.target.kind is Kind.MAP and not user.target.explicit_loop and not user.target.mutates:
                _try_number(user, node, number)


def constant_number(node: Node) -> Any:
    """The value of a 0-dim Map of no operands, computed now."""
    if not (node.is_op and node.target.kind is Kind.MAP and isinstance(node.value, Tensor) and not node.inputs):
        return None
    if node.value.ndim or any(isinstance(a, SYMBOLIC) for a in node.args) or node.value.dtype.is_complex:
        return None
    with no_modes():
        return node.target(*node.args).item()


def _try_number(user: Node, node: Node, number: Any) -> None:
    args = tuple(number if a is node else a for a in user.args)
    if node in leaves(args) or not any(isinstance(a, Node) for a in args):
        return
    with recording(False):
        value = run_on_fakes(user.target, map_args(args, lambda v: v.value if isinstance(v, Node) else v))
    if value.dtype is user.value.dtype and same_geometry(value, user.value) and _same_computation(user, args):
        user.args = args


def _same_computation(user: Node, args: tuple) -> bool:
    """Whether operands meet in the same type with the number as with the tensor."""
    values = lambda args: tuple(a.value if isinstance(a, Node) else a for a in args)
    return user.target.types(*values(user.args))[0] is user.target.types(*values(args))[0]
