"""Guards of a trace into the native guard tree: the one place that knows the tree's vocabulary.

In: the collected Guards, the shape environment, the graph's inputs. Out: a GuardTree and the tree's node of every input.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...eager import dtypes, random
from ...eager.dispatch import refused_write
from ...eager.storage import address
from ..shapes import expr as E
from ..shapes.relations import Relation, compile_guard, compile_number
from .class_lookups import lookup_guards
from .source import Guard, Pinned, item, node_of
from .tensor_facts import TensorFacts, on_gpu
from ..state import native


def build_tree(tx: Any, inputs: list) -> tuple:
    """(tree, nodes of the inputs)."""
    tree = native.GuardTree()
    tx.guard_distinct()
    known: dict = {}
    for guard in tx.guards.items:
        add(tree, guard, known)
    default = node_of(tree.root, item(Pinned(vars(dtypes), "dtypes"), "_default"))
    default.check("is", dtypes._default, f"the default dtype is {dtypes._default}", "")
    if tx.tracer.graph.draws or random.in_order is not None:
        numbers = node_of(tree.root, item(Pinned(vars(random), "random"), "in_order"))
        numbers.check("is", random.in_order, f"random numbers are those of {random.used()}", "")
    add_classes(tree, tx)
    add_shapes(tree, tx)
    add_floats(tree, tx)
    add_refusals(tree, tx)
    tx.guards.closed = True
    add_aliases(tree, tx)
    return tree, tuple(node_of(tree.root, source) for _, source, _ in inputs)


def add(tree: Any, guard: Guard, known: dict) -> None:
    if guard.source is None:
        tree.root.check(guard.kind, guard.payload, guard.describe(), guard.line)
        return
    node = node_of(tree.root, guard.source, known)
    if guard.kind == "there":  # a place that is missing fails by itself
        return
    if guard.kind in ("same_as", "not_same"):
        getattr(node, guard.kind)(node_of(tree.root, guard.payload, known))
    elif guard.kind == "own_names":
        node.child("attr", "__dict__").check("dict_keys", guard.payload, guard.describe(), guard.line)
    elif guard.kind == "tensor":
        node.check("tensor", tensor_payload(guard.payload), guard.describe(), guard.line)
    else:
        node.check(guard.kind, guard.payload, guard.describe(), guard.line)


def add_classes(tree: Any, tx: Any) -> None:
    """What the trace found in classes, or did not find there, along the order of their bases."""
    for cls, payload in lookup_guards(tx.lookups):
        node = node_of(tree.root, Pinned(cls, cls.__qualname__))
        node.check("lookups", payload, f"{cls.__qualname__} has the attributes that were looked up", "")


def tensor_payload(facts: TensorFacts) -> dict:
    real, fake = facts.real, facts.fake
    far = dict(memory=type(real._fl_storage), offset=real.storage_offset()) if on_gpu(real) else {}
    return dict(
        **far,
        type=type(real),
        dtype=real.dtype,
        device=real.device,
        requires_grad=real.requires_grad,
        leaf=real._grad_fn is None if real.requires_grad else None,
        no_hooks=facts.no_hooks,
        no_gradient=facts.no_gradient,
        sizes=tuple(n if type(n) is int else None for n in fake._fl_sizes),
        strides=tuple(n if type(n) is int else None for n in fake._fl_strides),
    )


def add_shapes(tree: Any, tx: Any) -> None:
    """Symbols are bound where they are read; strides of symbolic tensors must follow from the sizes."""
    tracer, env = tx.tracer, tx.env
    names = list(dict.fromkeys(name for name, *_ in tracer.bindings))
    for name, source, what, dim in tracer.bindings:
        node_of(tree.root, source).bind(names.index(name), what, dim)
    for relation, source, dim in symbolic_strides(tx):
        names.append(next(iter(relation.lhs.free_names())))
        node_of(tree.root, source).bind(len(names) - 1, "stride", dim)
        tree.relation(compile_guard(relation, names), f"{source.name()}.stride({dim}) == {relation.rhs}", "")
    for guard in env.guards:
        if guard.relation.free_names() <= set(names):
            line = f"{guard.stack[-1][0]}:{guard.stack[-1][1]}" if guard.stack else ""
            tree.relation(compile_guard(guard.relation, names), str(guard), line)
    for (source, _), (number, there, line) in tx.memberships.items():
        told = f"{number} is {'' if there else 'not '}in {source.name()}"
        tree.relation(compile_number(number.expr, names), told, line, table=node_of(tree.root, source), there=there)


def add_floats(tree: Any, tx: Any) -> None:
    """Symbolic floats whose value was asked for, and comparisons that were answered."""
    sources, env = tx.tracer.floats, tx.env
    for name, value in env.specialised_floats.items():
        node_of(tree.root, sources[name]).check("equals", value, f"{sources[name].name()} == {value!r}", "")
    for compared, stack in env.float_guards.items():
        (name,) = compared.names()
        line = f"{stack[-1][0]}:{stack[-1][1]}" if stack else ""
        node_of(tree.root, sources[name]).check("predicate", compared, f"{compared} of {sources[name].name()}", line)


class WriteRefusalGuard:
    """Guard: what an in-place write says to the views that a tensor is one of."""

    def __init__(self, needs: bool, text: str | None):
        self.needs, self.text = needs, text

    def __call__(self, tensor: Any) -> bool:
        return refused_write(tensor, self.needs) == self.text

    def __str__(self) -> str:
        return "a tensor that may be written in place" if self.text is None else f"a tensor whose write is refused: {self.text}"


def add_refusals(tree: Any, tx: Any) -> None:
    for (source, needs), (text, stack) in tx.tracer.refusals.items():
        line = f"{stack[-1][0]}:{stack[-1][1]}" if stack else ""
        test = WriteRefusalGuard(needs, text)
        node_of(tree.root, source).check("predicate", test, f"{source.name()} is {test}", line)


def symbolic_strides(tx: Any) -> Iterator[Any]:
    """The strides to check; that of a dimension of one element, or of no element at all, means nothing."""
    for node, source, _ in tx.tracer.all_inputs:
        sizes = getattr(node.value, "_fl_sizes", ())
        empty = any(type(n) is int and n == 0 for n in sizes)
        for dim, stride in enumerate(getattr(node.value, "_fl_strides", ())):
            if type(stride) is not int and not empty and not (type(sizes[dim]) is int and sizes[dim] == 1):
                yield Relation("==", E.var(f"{node.name}_stride{dim}"), E.lift(stride.expr)), source, dim


def add_aliases(tree: Any, tx: Any) -> None:
    """Which tensors share bytes, and how far from the start of their storage they begin: one group per storage."""
    groups: dict[int, int] = {}
    rows = [
        (node_of(tree.root, source), groups.setdefault(id(value._fl_storage), len(groups)), distance(value))
        for node, source, value in tx.tracer.all_inputs
        if hasattr(value, "_fl_storage") and not on_gpu(value)
    ]
    if len(rows) > 1:
        tree.alias(rows)
    add_gpu_aliases(tree, tx)


def add_gpu_aliases(tree: Any, tx: Any) -> None:
    """Of tensors on GPUs: which have one storage (their offsets are guarded with their sizes), and that others have not."""
    storages = [
        (node_of(tree.root, source).child("attr", "_fl_storage"), value._fl_storage)
        for node, source, value in tx.tracer.all_inputs
        if on_gpu(value)
    ]
    seen: list = []
    for place, storage in storages:
        known = next((other for other, held in seen if held is storage), None)
        if known is not None:
            place.same_as(known)
            continue
        for other, _ in seen:
            place.not_same(other)
        seen.append((place, storage))


def distance(value: Any) -> int:
    return address(value._fl_array) - address(value._fl_storage.bytes)


def tree_text(tx: Any) -> str:
    relations = "".join(f"{guard}\n" for guard in tx.env.guards)
    return tx.guards.text() + relations
