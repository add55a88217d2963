"""The engine: runs the graph of nodes backward from some outputs.

In: edges with their gradients. Out: gradients accumulated into leaves, or captured at given inputs. A node runs when
all that depends on it has run (dependency counts), latest recorded first. Gradients that nobody needs are not
computed; the gradient of an unused output is None all the way. Every step is made of ops, so it can be recorded or
traced itself. What hooks see and may change is in `hooks.py`.
"""

from __future__ import annotations

import sys
from typing import Any
from types import MappingProxyType

from .. import _call
from ..op.op import OPS, specialise
from ..autograd_node import Node
from ..state import state
from ..tensor import Tensor, is_dense
from . import anomaly
from .hooks import after, before, leaf_after, leaf_before, tensor_hooks


def targets(node):
    """(target, output number) of every edge, flat."""
    for edge in node.edges:
        if type(edge) is list:
            yield from (e for e in edge if e is not None)
        elif edge is not None:
            yield edge


class Task(_call.Task):
    """One run of the engine. `inputs`: None, or the edges whose gradients are wanted; with `accumulate` they go into
    leaves (and to hooks), else into `captured`. The base holds dependency counts and gradients on their way; it calls
    `run_node` and `run_leaf` for what is not plain. What stands at the class is a plain `loss.backward()`, which the base
    runs without `__init__`.
    """

    retain = create_graph = False
    accumulate = whole = True
    wanted: Any = MappingProxyType({})
    captured: Any = wanted
    callbacks: Any = ()
    needed: set | None = None

    def __init__(self, roots, inputs, retain: bool, create_graph: bool, accumulate: bool):
        self.retain, self.create_graph, self.accumulate = retain, create_graph, accumulate
        self.whole = inputs is None
        self.wanted = {} if inputs is None else dict.fromkeys(inputs)
        self.captured = {}
        self.reach([target for (target, _), _ in roots])
        if inputs is not None:
            self.needed = self.leading(self.order(), {target for target, _ in inputs})
            self.only(self.needed)
            self.wants(tuple(self.wanted))

    def reaches(self, target) -> bool:
        """Whether this run computes (or has computed) a gradient at `target`."""
        return target in self.order() and (self.needed is None or target in self.needed)

    @staticmethod
    def leading(order, goals) -> set:
        """The targets from which a goal can be reached. A node's children were recorded before it, so sorting
        suffices.
        """
        needed = set(goals)
        nodes = sorted((t for t in order if isinstance(t, Node)), key=lambda n: n.sequence)
        changed = True
        while changed:
            changed = False
            for node in nodes:
                if node not in needed and any(child in needed for child, _ in targets(node)):
                    needed.add(node)
                    changed = True
        return needed

    # -- running

    def run(self, roots) -> None:
        for k, (edge, grad) in enumerate(roots):
            self.deliver(edge, grad, None, k)
        unwatched = state.anomaly is None
        plain, captured = self.whole and self.accumulate and unwatched, None
        if unwatched and not self.whole and not self.accumulate:
            captured = self.captured
        self.loop(list(dict.fromkeys(target for (target, _), _ in roots)), plain, self.retain, captured)
        self.finish()

    def finish(self) -> None:
        """What was asked for at the end; that may ask for more."""
        for callback in self.callbacks:
            callback()

    def run_node(self, node: Node, grads: list) -> None:
        goes_on = self.whole or self.leads_on(node)
        if self.wanted and not self.accumulate:
            if not goes_on and node.hooks is not None:
                grads = tensor_hooks(node, grads)
            self.capture(node, grads)
        if not goes_on:
            return
        if node.hooks is not None:
            grads = before(node, grads)
        results = self.results(node, grads)
        if node.hooks is not None and node.hooks.post:
            results = after(node, results, grads)
        if not self.retain:
            node.release()
        self.route(node, results)

    def leads_on(self, node) -> bool:
        """Whether the node has to run for an input behind it (or for its own hooks, where it is an input itself)."""
        needed = self.needed
        return (self.accumulate and any((node, k) in self.wanted for k in range(len(node.metas)))) or any(
            child in needed for child, _ in targets(node)
        )

    def capture(self, target, grads) -> None:
        for number, grad in enumerate(grads):
            if (target, number) in self.wanted:
                self.captured[target, number] = grad

    def results(self, node: Node, grads: list) -> list:
        """What the node makes of its gradients: per edge a gradient, a list of them, or None."""
        if not node.always and all(g is None for g in grads):
            return [None] * len(node.edges)
        needs = [self.need(edge) for edge in node.edges]
        if node.final is not None:
            node.final = not self.retain
        above, state.node = state.node, node
        try:
            results = list(node.apply(grads, needs))
            if state.anomaly is not None and state.check_nan:
                anomaly.check_nan(node, results)
        except Exception:
            if state.anomaly is not None:
                anomaly.tell(node)
            raise
        finally:
            state.node = above
        return results

    def need(self, edge):
        if edge is None:
            return False
        if type(edge) is list:
            flags = tuple(e is not None and (self.needed is None or e[0] in self.needed) for e in edge)
            return flags if any(flags) else False
        return self.needed is None or edge[0] in self.needed

    def run_leaf(self, leaf: Tensor, grad) -> None:
        hooks = getattr(leaf, "_fl_hooks", None)
        if grad is None and hooks is None:
            return
        if hooks is not None:
            grad = leaf_before(hooks, grad, self.accumulate)
        if not self.accumulate:
            self.capture(leaf, (grad,))
            return
        watched = hooks is not None and hooks.post
        if grad is not None:
            held = [grad]
            if not watched:
                grad = None
            accumulate(leaf, held)
        if hooks is not None:
            leaf_after(hooks, leaf, grad)


def meta_of(target, number):
    return target.metas[number] if isinstance(target, Node) else (target._fl_sizes, target._fl_dtype, target._fl_device)


def fitted(grad: Tensor, target, number, source=None, index: int = 0) -> Tensor:
    """The gradient in the sizes and type of what it is a gradient of: broadcast dimensions summed, cast, real part.
    It is the `index`-th result of node `source`.
    """
    sizes, dtype, _ = meta_of(target, number)
    own = grad._fl_sizes
    if own is not sizes and own != sizes:
        grad = sum_to(grad, sizes, source, index)
    if grad._fl_dtype is not dtype:
        if grad._fl_dtype.is_complex and not dtype.is_complex:
            grad = OPS["real"](grad)
        if grad._fl_dtype is not dtype:
            grad = OPS["cast"](grad, dtype)
    return grad


def sum_to(grad: Tensor, sizes, source=None, index: int = 0) -> Tensor:
    """Sum over the dimensions along which `sizes` was broadcast."""
    own = grad._fl_sizes
    extra = len(own) - len(sizes)
    if extra < 0 or any(not (n is m or (type(n) is int and n == 1) or n == m) for n, m in zip(sizes, own[extra:])):
        raise RuntimeError(
            f"Function {'' if source is None else source.name()} returned an invalid gradient at index {index} - got "
            f"{list(own)} but expected shape compatible with {list(sizes)}"
        )
    if extra:
        grad = OPS["sum"](grad, tuple(range(extra)), False)
    ones = tuple(
        [d for d, (n, m) in enumerate(zip(sizes, own[extra:])) if type(n) is int and n == 1 and not (type(m) is int and m == 1)]
    )
    return OPS["sum"](grad, ones, True) if ones else grad


def accumulate(leaf: Tensor, held: list) -> None:
    """Add the gradient in `held` (the only reference, where the engine has no other use for it) to `leaf.grad`."""
    have = leaf.grad
    if have is None:
        grad = held.pop()
        if grad._fl_array is not None and grad._fl_array.strides != leaf._fl_array.strides:
            grad = laid_out(grad, leaf)
        private = grad._fl_view is None and grad._fl_storage is None and grad._fl_array is not None and sys.getrefcount(grad) <= 2
        if state.grad:
            leaf._grad = grad if private else OPS["clone"](grad)
        else:
            leaf._grad = grad if private and grad._grad_fn is None else OPS["clone"](grad)
    elif state.grad:
        leaf._grad = OPS["add"](have, held[0])
    else:
        OPS["add"].inplace(have, held[0])


def laid_out(grad: Tensor, leaf: Tensor) -> Tensor:
    """The gradient in its leaf's memory order where that is dense, else row-major: optimizers meet equal strides."""
    order = sorted(range(leaf.ndim), key=lambda d: (-leaf._fl_strides[d], d))
    if not is_dense(leaf._fl_sizes, leaf._fl_strides, order):
        return grad if grad.is_contiguous() else OPS["contiguous_copy"](grad)
    back = tuple(order.index(d) for d in range(leaf.ndim))
    return OPS["permute"](OPS["contiguous_copy"](OPS["permute"](grad, tuple(order))), back)


_call.engine(fitted, accumulate, specialise(OPS["add"]), specialise(OPS["add"].inplace))


def run(roots, inputs=None, retain: bool = False, create_graph: bool = False, accumulate: bool = True) -> dict:
    """Run backward from `roots` = [(edge, gradient)]; returns captured gradients by edge."""
    grad, inference, packer, above = state.grad, state.inference, state.packer, state.task
    state.grad, state.inference, state.task = create_graph, False, None
    if packer is not None:
        state.set(packer=None)
    try:
        task = state.task = Task(roots, inputs, retain, create_graph, accumulate)
        task.run(roots)
    finally:
        state.grad, state.inference, state.task = grad, inference, above
        if packer is not None:
            state.set(packer=packer)
    return task.captured


def queue_callback(callback) -> None:
    """`callback()` when the run of the engine that is under way has finished."""
    if state.task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    if not state.task.callbacks:
        state.task.callbacks = []
    state.task.callbacks.append(callback)
