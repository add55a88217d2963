"""`torch.autograd.graph`: nodes, saved-tensor hooks, hooks over several gradients."""

from __future__ import annotations

from ..record import AccumulateGrad, Node, edge_of
from .modes import save_on_cpu, saved_tensors_hooks

__all__ = [
    "Node",
    "saved_tensors_hooks",
    "save_on_cpu",
    "get_gradient_edge",
    "register_multi_grad_hook",
    "increment_version",
]


def get_gradient_edge(t):
    """(node, output number) where the gradient of `t` arrives."""
    target, number = edge_of(t)
    return (AccumulateGrad(target) if target is t else target), number


def increment_version(tensors) -> None:
    for t in tensors if isinstance(tensors, (tuple, list)) else (tensors,):
        t._ensure_storage().bump()


class MultiHandle:
    def __init__(self, handles):
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(tensors, fn, *, mode: str = "all") -> MultiHandle:
    """`fn(grads)` when the gradients of all tensors have arrived; with mode "any", `fn(grad)` at the first."""
    arrived: dict[int, object] = {}

    def one(k):
        def hook(grad):
            if mode == "any":
                if not arrived:
                    fn(grad)
                arrived[k] = grad
            else:
                arrived[k] = grad
                if len(arrived) == len(tensors):
                    fn([arrived[j] for j in range(len(tensors))])
            if len(arrived) == len(tensors):
                arrived.clear()

        return hook

    return MultiHandle([t.register_hook(one(k)) for k, t in enumerate(tensors)])
