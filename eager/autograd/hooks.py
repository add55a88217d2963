"""Hooks of nodes and leaves, in their order, and the checks of what they return.

Before a node: the hooks of its output tensors, gradients to retain, the node's pre-hooks. After it: its hooks, which
see flat gradients. At a leaf: tensor hooks, pre-hooks, the gradient is added, post-accumulate hooks, hooks.
"""

from __future__ import annotations

from ..op.op import OPS
from ..autograd_node import type_text
from ..tensor import Tensor


def hook_name(hook) -> str:
    return getattr(hook, "__name__", None) or type(hook).__name__


def replaced(hook, answer, grad):
    """The gradient after a hook that gave `answer`."""
    if answer is None:
        return grad
    if not isinstance(answer, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(answer).__name__}'")
    if grad is None:
        raise RuntimeError(f"can't replace a None gradient with a non-None value (hook '{hook_name(hook)}')")
    if answer._fl_dtype is not grad._fl_dtype:
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has changed the type of value (was {type_text(grad._fl_dtype)} got "
            f"{type_text(answer._fl_dtype)})"
        )
    if answer._fl_sizes != grad._fl_sizes:
        raise RuntimeError(f"hook '{hook_name(hook)}' has changed the size of value")
    return answer


def all_replaced(hook, answer, grads) -> list:
    """The same for a hook of several gradients, which answers with a tuple."""
    if answer is None:
        return list(grads)
    if not isinstance(answer, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(answer).__name__}'")
    if len(answer) != len(grads):
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has returned an incorrect number of values (got {len(answer)}, but expected {len(grads)})"
        )
    for a, g in zip(answer, grads):
        if a is not None and g is None:
            raise RuntimeError("can't replace a None gradient with a non-None value")
    return [replaced(hook, a, g) if g is not None and a is not None else a for a, g in zip(answer, grads)]


def tensor_hooks(node, grads: list) -> list:
    """Hooks of the output tensors, then the gradients that are to be retained. A record of several outputs tells the hook of one
    without a gradient None; a node that stands for many calls is asked only for those that would have run."""
    hooks = node.hooks
    for number, table in hooks.tensor.items():
        if node.joined and grads[number] is None:
            continue
        for hook in list(table.values()):
            grads[number] = replaced(hook, hook(grads[number]), grads[number])
    for number, ref in hooks.retain.items():
        tensor = ref()
        if tensor is not None and grads[number] is not None:
            have = tensor.grad
            tensor._grad = OPS["clone"](grads[number]) if have is None else OPS["add"](have, grads[number])
    return grads


def before(node, grads: list) -> list:
    grads = tensor_hooks(node, grads)
    for hook in list(node.hooks.pre.values()):
        grads = all_replaced(hook, hook(tuple(grads)), grads)
    return grads


def after(node, results: list, grads: list) -> list:
    """The node's hooks see the gradients of its tensor inputs and may replace them."""
    flat = node.flat_results(results)
    for hook in list(node.hooks.post.values()):
        flat = all_replaced(hook, hook(tuple(flat), tuple(grads)), flat)
    return node.shaped_results(flat, results)


def leaf_before(hooks, grad, pre: bool):
    for hook in list(hooks.tensor.get(0, {}).values()):
        grad = replaced(hook, hook(grad), grad)
    if pre:
        for hook in list(hooks.pre.values()):
            (grad,) = all_replaced(hook, hook((grad,)), (grad,))
    return grad


def leaf_after(hooks, leaf, grad) -> None:
    for hook in list(hooks.accumulated.values()):
        hook(leaf)
    for hook in list(hooks.post.values()):
        hook((), (grad,))
