"""`backward()` and `autograd.grad()` inside of captured programs: the engine runs on fakes, and what it runs are nodes.

In: tensors of the trace whose history leads to leaves among the inputs. Out: gradients as tensors of the trace; `.grad` of a leaf
becomes an attribute that is stored after the graph, or is added to in place where it was there. Hooks, and history from outside
of the frame, are cuts.
"""

from __future__ import annotations

from typing import Any

from ...eager import autograd
from ...eager.autograd.api import checked_edges, gradient_edge, root_gradients
from ...eager.autograd.engine import laid_out, run, targets
from ...eager.op.op import OPS
from ...eager.autograd_node import Node, edge_of, metas_of, raise_released
from ...eager.state import recording, state
from ...eager.tensor import Tensor
from ..breaks import unsupported
from .base import Variable
from .builtins import handles
from .sequences import ListVariable, TupleVariable
from .tensor import TensorVariable


@handles(autograd.backward)
def _backward(
    tx: Any,
    tensors: Variable,
    grad_tensors: Variable | None = None,
    retain_graph: Variable | None = None,
    create_graph: Variable | None = None,
    grad_variables: Variable | None = None,
    inputs: Variable | None = None,
) -> Variable:
    if grad_variables is not None:
        raise unsupported("backward", "backward() into tensors that are no leaves")
    return accumulate_all(tx, tensors, grad_tensors, retain_graph, create_graph, inputs)


@handles(autograd.tensor_backward)
def _tensor_backward(
    tx: Any,
    tensor: Variable,
    /,
    gradient: Variable | None = None,
    retain_graph: Variable | None = None,
    create_graph: Variable | None = None,
    inputs: Variable | None = None,
) -> Variable:
    return accumulate_all(tx, tensor, gradient, retain_graph, create_graph, inputs)


@handles(autograd.grad)
def _grad(tx: Any, outputs: Any, inputs: Any, grad_outputs: Any = None, *more: Any, **options: Any) -> Any:
    names = ("retain_graph", "create_graph", "only_inputs", "allow_unused", "is_grads_batched", "materialize_grads")
    plain = {name: constant(value) for name, value in (dict(zip(names, more)) | options).items()}
    if plain.get("is_grads_batched"):
        raise unsupported("backward", "autograd.grad() of batches of gradients")
    outputs, inputs = fakes(tx, outputs), fakes(tx, inputs)
    check(tx, outputs)
    return tx.fresh(tx.run(autograd.grad, outputs, inputs, fakes(tx, grad_outputs), **plain))


def constant(variable: Variable) -> bool | None:
    if not variable.is_constant():
        raise unsupported("backward", f"an option of the engine that is {variable}")
    return variable.plain()


def fakes(tx: Any, variable: Variable | None) -> tuple | None:
    """The tensors (and Nones) of an argument that is one, or several."""
    if variable is None or variable.is_constant() and variable.plain() is None:
        return None
    several = variable.unpack(tx) if isinstance(variable, (ListVariable, TupleVariable)) else [variable]
    return tuple(v.fake if isinstance(v, TensorVariable) else constant(v) for v in map(lambda v: v.realize(), several))


def accumulate_all(tx: Any, tensors: Any, gradients: Any, retain_graph: Any, create_graph: Any, inputs: Any) -> Any:
    outputs, inputs = fakes(tx, tensors) or (), fakes(tx, inputs)
    create = create_graph is not None and bool(constant(create_graph))
    retain = constant(retain_graph) if retain_graph is not None else None
    if inputs is not None and any(not t.is_leaf for t in inputs):
        raise unsupported("backward", "backward() into tensors that are no leaves")
    leaves = check(tx, outputs)
    wanted = leaves if inputs is None else list({id(t): t for t in inputs}.values())
    seen = {id(v.fake._fl_storage) for v in tx.tracer.variables.values()}
    found = tx.run(engine, outputs, fakes(tx, gradients) or (None,) * len(outputs), wanted, retain, create)
    for leaf, grad in zip(wanted, found):
        if grad is not None:
            accumulate(tx, leaf, grad, seen, bool(retain), create)
    return tx.constant(None)


def engine(outputs: tuple, gradients: tuple, leaves: list, retain: bool | None, create: bool) -> list:
    """The gradient of each leaf, or None."""
    roots, edges = root_gradients(outputs, gradients), checked_edges(leaves)
    found = run(roots, edges, create if retain is None else bool(retain), create, accumulate=False)
    return [found.get(edge) for edge in edges]


# -- what the history leads to -----------------------------------------------------------------------------------------


def check(tx: Any, outputs: tuple) -> list[Tensor]:
    """The leaves behind these tensors, in the order in which they are met. Refuses what only eager can do."""
    if state.anomaly is not None:
        raise unsupported("backward", "anomaly mode")
    if any(node.tag for node in tx.tracer.graph.nodes):
        raise unsupported("backward", "a checkpointed region is computed again by a backward outside of the frame")
    places = [gradient_edge(t) for t in outputs if isinstance(t, Tensor)]
    nodes = history([target for target, _ in filter(None, places)])
    if any(isinstance(node, Node) and node.hooks is not None for node in nodes):
        raise unsupported("backward", "a tensor with hooks")
    if tx.tracer.closed:
        raise tx.assumptions.without("composites_closed")
    leaves = [leaf for leaf in nodes if isinstance(leaf, Tensor)]
    for leaf in leaves:
        refuse_unknown(tx, leaf)
    tx.tracer.differentiated.update((id(leaf), leaf) for leaf in leaves)
    return leaves


def history(targets_: list) -> list:
    """Every node and leaf that can be reached, depth first."""
    found, stack = {}, list(reversed(targets_))
    while stack:
        target = stack.pop()
        if id(target) not in found:
            found[id(target)] = target
            if isinstance(target, Node):
                stack += [t for t, _ in targets(target)]
    return list(found.values())


def refuse_unknown(tx: Any, leaf: Tensor) -> None:
    """A leaf must be an input of the graph, and nobody may wait for its gradient."""
    if id(leaf) in tx.tracer.owned:
        return
    variable = tx.tracer.variables.get(id(leaf))
    if variable is None or variable.real is None or variable.source is None:
        raise unsupported("backward", "backward() leads to what was recorded outside of the frame")
    if hooked(variable.real):
        raise unsupported("backward", f"{variable} has hooks")
    if getattr(variable.real, "_fl_hooks", None) is None:
        variable.facts.no_hooks = True
    else:  # there were some: the object that held them stays
        tx.guard(variable.source, "predicate", unhooked)


def hooked(leaf: Tensor) -> bool:
    hooks = getattr(leaf, "_fl_hooks", None)
    return hooks is not None and bool(hooks.tensor or hooks.retain or hooks.pre or hooks.accumulated or hooks.post)


def unhooked(leaf: Tensor) -> bool:
    return not hooked(leaf)


# -- into .grad --------------------------------------------------------------------------------------------------------


def accumulate(tx: Any, leaf: Tensor, grad: Tensor, seen: set, retain: bool, create: bool) -> None:
    """What the engine does at a leaf: the gradient becomes `.grad`, in memory of its own, or is added to what is there."""
    variable = tx.tracer.variables[id(leaf)]
    have = variable.get_attr(tx, "grad").realize()
    if isinstance(have, TensorVariable):
        made = tx.run(added, have.fake, grad, create)
    else:
        made = tx.run(unshared_gradient, grad, leaf, seen, retain or create, create)
    if not isinstance(have, TensorVariable) or made is not have.fake:
        seen.add(id(made._fl_storage))
        tx.effects.store_attr(variable, "grad", tx.fresh(made))


def added(have: Tensor, grad: Tensor, create: bool) -> Tensor:
    with recording(create):
        return OPS["add"](have, grad) if create else OPS["add"].inplace(have, grad)


def unshared_gradient(grad: Tensor, leaf: Tensor, seen: set, kept: bool, create: bool) -> Tensor:
    """In the leaf's memory order; a copy where somebody else may see the memory."""
    with recording(create):
        if grad._fl_strides != leaf._fl_strides:
            grad = laid_out(grad, leaf)
        return OPS["clone"](grad) if kept or id(grad._fl_storage) in seen else grad


# -- what leaves the trace ---------------------------------------------------------------------------------------------


def refuse_escaped(tx: Any, outputs: list) -> None:
    """A leaf that the trace made must not leave it, nor a result whose history leads to such leaves only: the results of a
    graph have their history through its inputs."""
    owned = tx.tracer.owned
    for t in outputs if owned else ():
        if isinstance(t, Tensor) and t.requires_grad:
            leaves = [leaf for leaf in history([t if t._grad_fn is None else t._grad_fn]) if isinstance(leaf, Tensor)]
            if id(t) in owned or leaves and all(id(leaf) in owned for leaf in leaves):
                raise tx.assumptions.without("leaves_unseen")


def free_used_history(tx: Any, outputs: list) -> tuple[list, list[int]]:
    """(what the graph returns, numbers of the outputs whose history was used up). Where no other output has a history,
    nothing in the graph is recorded any more."""
    tracer = tx.tracer
    if not tracer.differentiated:
        return outputs, []
    spent = [k for k, t in enumerate(outputs) if isinstance(t, Tensor) and t._grad_fn is not None and used_up(t)]
    rest = [t for k, t in enumerate(outputs) if k not in spent] + [node.value for node, _, _ in tracer.inputs]
    if not any(isinstance(t, Tensor) and t._grad_fn is not None for t in rest):
        for node in tracer.graph.nodes:
            node.grad = False
        return outputs, spent
    return [tx.run(unrecorded, t) if k in spent else t for k, t in enumerate(outputs)], spent


def used_up(t: Tensor) -> bool:
    """Whether a backward from here meets a node that has freed what it saved."""
    return any(isinstance(node, Node) and node.args is None for node in history([t._grad_fn]))


def unrecorded(t: Tensor) -> Tensor:
    with recording(False):
        return OPS["alias"](t)


class FreedGraph:
    """A compiled graph whose results in `numbers` have a history that its own backward has used up; it led to `leaves`,
    numbers of inputs."""

    def __init__(self, compiled: Any, numbers: list[int], leaves: list[int]):
        self.compiled, self.numbers, self.leaves = compiled, numbers, leaves

    def __call__(self, *inputs: Any) -> Any:
        results = self.compiled(*inputs)
        shown = [results[k] for k in self.numbers]
        node = FreedNode([inputs[k] for k in self.leaves], shown)
        for k, t in enumerate(shown):
            t._grad_fn, t._fl_output_nr, t._fl_requires_grad = node, k, False
        return results


class FreedNode(Node):
    """The history of what a captured backward has gone through: a second one raises."""

    def __init__(self, leaves: list[Tensor], outputs: list[Tensor]):
        edges = tuple([edge_of(leaf) for leaf in leaves])
        super().__init__(None, None, None, edges, metas_of(outputs))

    def name(self) -> str:
        return "CompiledBackward"

    def flat_edges(self) -> list:
        return list(self.edges)

    def apply(self, grads: list, needs: list) -> None:
        raise_released()


def with_freed_history(tx: Any, compiled: Any, numbers: list[int], inputs: list) -> Any:
    """The compiled graph; its used-up results get their history back."""
    if not numbers:
        return compiled
    places = {id(node): k for k, (node, _, _) in enumerate(inputs)}
    nodes = [tx.tracer.root_nodes[i][1] for i in tx.tracer.differentiated if i in tx.tracer.root_nodes]
    return FreedGraph(compiled, numbers, [places[id(n)] for n in nodes if id(n) in places])
