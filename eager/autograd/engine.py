"""The engine: runs the graph of nodes backward from some outputs.

In: edges with their gradients. Out: gradients accumulated into leaves, or captured at given inputs. A node runs when
all that depends on it has run (dependency counts), latest recorded first. Gradients that nobody needs are not
computed; the gradient of an unused output is None all the way. Every step is made of ops, so it can be recorded or
traced itself.
"""

from __future__ import annotations

import heapq
import itertools
import sys
import warnings

import numpy as np

from ..op import OPS
from ..record import Node
from ..state import state
from ..tensor import Tensor, is_dense

_LEAF_FIRST = float("-inf")


def targets(node):
    """(target, output number) of every edge, flat."""
    for edge in node.edges:
        if type(edge) is list:
            yield from (e for e in edge if e is not None)
        elif edge is not None:
            yield edge


class Task:
    """One run of the engine."""

    def __init__(self, roots, inputs, retain: bool, create_graph: bool, accumulate: bool):
        self.retain, self.create_graph, self.accumulate = retain, create_graph, accumulate
        self.wanted = {} if inputs is None else {edge: None for edge in inputs}
        self.captured: dict = {}
        self.buffers: dict = {}
        self.pending: dict = {}
        self.order = itertools.count()
        self.ready: list = []
        self.needed = self.count(roots, inputs)

    def count(self, roots, inputs):
        """Dependency counts of everything reachable; with inputs given, also the set of targets that lead to them."""
        stack, seen = [target for (target, _), _ in roots], set()
        order = []
        while stack:
            target = stack.pop()
            if target in seen:
                continue
            seen.add(target)
            order.append(target)
            if isinstance(target, Node):
                for child, _ in targets(target):
                    self.pending[child] = self.pending.get(child, 0) + 1
                    stack.append(child)
        if inputs is None:
            return None
        return self.leading(order, {target for target, _ in inputs})

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
        for edge, grad in roots:
            self.deliver(edge, grad)
        for target in dict.fromkeys(target for (target, _), _ in roots):
            if not self.pending.get(target):
                self.push(target)
        while self.ready:
            target = heapq.heappop(self.ready)[2]
            if isinstance(target, Node):
                self.run_node(target)
            else:
                self.run_leaf(target)

    def push(self, target) -> None:
        rank = -target.sequence if isinstance(target, Node) else _LEAF_FIRST
        heapq.heappush(self.ready, (rank, next(self.order), target))

    def deliver(self, edge, grad) -> None:
        """Add a gradient to what an edge's target has received so far."""
        target, number = edge
        buffer = self.buffers.get(target)
        if buffer is None:
            buffer = self.buffers[target] = [None] * (len(target.metas) if isinstance(target, Node) else 1)
        if grad is not None:
            grad = fitted(grad, target, number)
            have = buffer[number]
            buffer[number] = grad if have is None else OPS["add"](have, grad)

    def run_node(self, node: Node) -> None:
        grads = self.buffers.pop(node)
        if node.hooks is not None:
            grads = before(node, grads)
        for number, grad in enumerate(grads):
            if (node, number) in self.wanted:
                self.captured[node, number] = grad
        results = [None] * len(node.edges)
        if self.needed is None or any(child in self.needed for child, _ in targets(node)):
            if any(g is not None for g in grads):
                results = self.gradients(node, grads)
            if not self.retain:
                node.release()
        self.route(node, results)

    def gradients(self, node: Node, grads: list) -> list:
        needs = [self.need(edge) for edge in node.edges]
        if node.final is not None:
            node.final = not self.retain
        try:
            results = list(node.apply(grads, needs))
        except Exception as error:
            if node.stack is not None:
                warnings.warn(
                    f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{node.stack}",
                    stacklevel=2,
                )
                error.add_note(f"raised while the gradient of this call was computed:\n{node.stack}")
            raise
        if state.anomaly is not None or node.stack is not None:
            check_nan(node, results)
        if node.hooks is not None and node.hooks.post:
            results = after(node, results, grads)
        return results

    def need(self, edge):
        if edge is None:
            return False
        if type(edge) is list:
            flags = tuple(e is not None and (self.needed is None or e[0] in self.needed) for e in edge)
            return flags if any(flags) else False
        return self.needed is None or edge[0] in self.needed

    def route(self, node: Node, results: list) -> None:
        for edge, grad in zip(node.edges, results):
            if type(edge) is list:
                grads = grad if grad is not None else (None,) * len(edge)
                for each, g in zip(edge, grads):
                    if each is not None:
                        self.pass_on(each, g)
            elif edge is not None:
                self.pass_on(edge, grad)

    def pass_on(self, edge, grad) -> None:
        target = edge[0]
        if self.needed is None or target in self.needed:
            self.deliver(edge, grad)
        else:
            self.buffers.setdefault(target, [None] * (len(target.metas) if isinstance(target, Node) else 1))
        self.pending[target] -= 1
        if not self.pending[target]:
            self.push(target)

    def run_leaf(self, leaf: Tensor) -> None:
        (grad,) = self.buffers.pop(leaf)
        if grad is None:
            return
        hooks = getattr(leaf, "_hooks", None)
        if hooks is not None:
            for hook in list(hooks.tensor.get(0, {}).values()):
                grad = replaced(hook(grad), grad)
        if (leaf, 0) in self.wanted:
            self.captured[leaf, 0] = grad
        if self.accumulate and (not self.wanted or (leaf, 0) in self.wanted):
            if hooks is not None:
                for hook in list(hooks.pre.values()):
                    grad = replaced((hook((grad,)) or (None,))[0], grad)
            held = [grad]
            if hooks is None or not hooks.post:
                grad = None
            accumulate(leaf, held)
            if hooks is not None:
                for hook in list(hooks.accumulated.values()):
                    hook(leaf)
                for hook in list(hooks.post.values()):
                    hook((), (grad,))


def replaced(answer, grad):
    return grad if answer is None else answer


def before(node, grads: list) -> list:
    """Tensor hooks, then retained gradients, then the node's own pre-hooks."""
    hooks = node.hooks
    for number, table in hooks.tensor.items():
        for hook in list(table.values()):
            if grads[number] is not None:
                grads[number] = replaced(hook(grads[number]), grads[number])
    for hook in list(hooks.pre.values()):
        answer = hook(tuple(grads))
        if answer is not None:
            grads = list(answer) if isinstance(answer, (tuple, list)) else [answer]
    for number, ref in hooks.retain.items():
        tensor = ref()
        if tensor is not None and grads[number] is not None:
            have = tensor.grad
            tensor._grad = grads[number] if have is None else OPS["add"](have, grads[number])
    return grads


def after(node, results: list, grads: list) -> list:
    """The node's hooks see flat gradients and may replace them."""
    for hook in list(node.hooks.post.values()):
        flat = [g for r in results for g in (r if isinstance(r, (list, tuple)) else (r,))]
        answer = hook(tuple(flat), tuple(grads))
        if answer is not None:
            answer = iter(answer if isinstance(answer, (tuple, list)) else (answer,))
            results = [
                tuple(next(answer) for _ in r) if isinstance(r, (list, tuple)) else next(answer) for r in results
            ]
    return results


def check_nan(node, results) -> None:
    for k, g in enumerate(results):
        if isinstance(g, Tensor) and g._array is not None and g._dtype.category >= 2 and np.isnan(g._array).any():
            text = f"Function '{node.name()}' returned nan values in its {k}th output."
            raise RuntimeError(text + (f" Traceback of the forward call:\n{node.stack}" if node.stack else ""))


def meta_of(target, number):
    return target.metas[number] if isinstance(target, Node) else (target._sizes, target._dtype, target._device)


def fitted(grad: Tensor, target, number) -> Tensor:
    """The gradient in the sizes and type of what it is a gradient of: broadcast dimensions summed, cast, real part."""
    sizes, dtype, _ = meta_of(target, number)
    own = grad._sizes
    if own is not sizes and own != sizes:
        grad = sum_to(grad, sizes, target)
    if grad._dtype is not dtype:
        if grad._dtype.is_complex and not dtype.is_complex:
            grad = OPS["real"](grad)
        if grad._dtype is not dtype:
            grad = OPS["cast"](grad, dtype)
    return grad


def sum_to(grad: Tensor, sizes, target=None) -> Tensor:
    """Sum over the dimensions along which `sizes` was broadcast."""
    own = grad._sizes
    extra = len(own) - len(sizes)
    if extra < 0 or any(not (n is m or (type(n) is int and n == 1) or n == m) for n, m in zip(sizes, own[extra:])):
        raise RuntimeError(
            f"{target}: returned an invalid gradient - got {list(own)} but expected shape compatible with {list(sizes)}"
        )
    if extra:
        grad = OPS["sum"](grad, tuple(range(extra)), False)
    ones = tuple(
        [
            d
            for d, (n, m) in enumerate(zip(sizes, own[extra:]))
            if type(n) is int and n == 1 and not (type(m) is int and m == 1)
        ]
    )
    return OPS["sum"](grad, ones, True) if ones else grad


def accumulate(leaf: Tensor, held: list) -> None:
    """Add the gradient in `held` (the only reference, where the engine has no other use for it) to `leaf.grad`."""
    have = leaf.grad
    if have is None:
        grad = held.pop()
        if grad._array is not None and grad._array.strides != leaf._array.strides:
            grad = laid_out(grad, leaf)
        private = (
            grad._view is None and grad._storage is None and grad._array is not None and sys.getrefcount(grad) <= 2
        )
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
    order = sorted(range(leaf.ndim), key=lambda d: (-leaf._strides[d], d))
    if not is_dense(leaf._sizes, leaf._strides, order):
        return grad if grad.is_contiguous() else OPS["contiguous_copy"](grad)
    back = tuple(order.index(d) for d in range(leaf.ndim))
    return OPS["permute"](OPS["contiguous_copy"](OPS["permute"](grad, tuple(order))), back)


def run(roots, inputs=None, retain: bool = False, create_graph: bool = False, accumulate: bool = True) -> dict:
    """Run backward from `roots` = [(edge, gradient)]; returns captured gradients by edge."""
    previous = state.set(grad=create_graph, inference=False)
    try:
        task = Task(roots, inputs, retain, create_graph, accumulate)
        task.run(roots)
    finally:
        state.set(**previous)
    return task.captured
