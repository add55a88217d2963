"""`torch.autograd.graph`: nodes and edges, saved-tensor hooks, hooks over several gradients."""

from __future__ import annotations

from typing import Any

from ...runtime import locks
from ..hook_handle import RemovableHandle
from ..autograd_node import AccumulateGrad, Node, edge_of
from ..state import state
from ..tensor import Tensor
from .api import GradientEdge
from .modes import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

__all__ = [
    "saved_tensors_hooks",
    "save_on_cpu",
    "disable_saved_tensors_hooks",
    "register_multi_grad_hook",
    "allow_mutation_on_saved_tensors",
    "Node",
    "GradientEdge",
    "get_gradient_edge",
    "increment_version",
]


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """(node, output number) where the gradient of `tensor` arrives."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    edge = edge_of(tensor)
    assert edge is not None
    target, number = edge
    return GradientEdge(AccumulateGrad(target) if isinstance(target, Tensor) else target, number)


def increment_version(tensor) -> None:
    """Tell autograd that a tensor (or several) was written behind its back."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        t._fl_ensure_storage().bump()


class _Handles(RemovableHandle):
    """Removes several handles at once."""

    handles: tuple = ()

    @classmethod
    def of(cls, handles):
        self = object.__new__(cls)
        self.handles = tuple(handles)
        return self

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self):
        return self.handles

    def __setstate__(self, state):
        self.handles = state


def register_multi_grad_hook(tensors, fn, *, mode: str = "all") -> RemovableHandle:
    """`fn(grads)` when the gradients of all tensors have arrived that this backward reaches (None for the others);
    with mode "any", `fn(grad)` at the first.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    watch = _All(tuple(tensors), fn) if mode == "all" else _Any(fn)
    return _Handles.of(t.register_hook(watch.hook(k)) for k, t in enumerate(tensors))


class _Any:
    run: Any  # the engine's, that is under way

    def __init__(self, fn):
        self.fn, self.run, self.lock = fn, None, locks.fresh()

    def hook(self, k: int):
        def see(grad):
            with self.lock:
                first = self.run is not state.task
                self.run = state.task
            if first:
                self.fn(grad)

        return see


class _All:
    """Counts the gradients that have arrived in one run of the engine against those that it will compute."""

    edges: list[Any]
    run: Any

    def __init__(self, tensors, fn):
        self.fn, self.edges = fn, [edge_of(t) for t in tensors]
        self.run, self.found, self.expected, self.arrived = None, [], 0, 0

    def start(self) -> None:
        self.run, self.arrived = state.task, 0
        self.found = [None] * len(self.edges)
        self.expected = sum(self.run.reaches(target) for target, _ in self.edges)

    def hook(self, k: int):
        def see(grad):
            if self.run is not state.task:
                self.start()
            self.found[k] = grad
            self.arrived += 1
            if self.arrived == self.expected:
                found, self.run, self.found = self.found, None, []
                self.fn(found)

        return see


class allow_mutation_on_saved_tensors:
    """Inside, tensors saved for backward may be changed in place: each is saved as a copy."""

    def __enter__(self):
        self.inner = saved_tensors_hooks(lambda t: t.clone(), lambda t: t)
        self.inner.__enter__()
        return self

    def __exit__(self, *exc):
        self.inner.__exit__(*exc)

    def clear(self) -> None:
        """Nothing is kept beside the copies."""
