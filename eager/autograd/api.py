"""`backward` and `grad`: the public ways into the engine, with PyTorch's checks and texts."""

from __future__ import annotations

import weakref

from ..op import OPS, zeros
from ..record import edge_of, leaf_hooks
from ..tensor import Tensor
from .engine import run


def sequence(x) -> tuple:
    return (x,) if isinstance(x, Tensor) or x is None else tuple(x)


def ones_like(t: Tensor) -> Tensor:
    return OPS["full"](tuple(t._sizes), 1, t._dtype, t._device)


def root_gradients(outputs, grads) -> list:
    """[(edge, gradient)] for outputs; a missing gradient is 1 for scalars and an error for others."""
    if len(grads) != len(outputs):
        raise RuntimeError(f"Mismatch in length: got {len(outputs)} outputs and {len(grads)} gradients")
    roots = []
    for k, (out, grad) in enumerate(zip(outputs, grads)):
        if not out.requires_grad:
            raise RuntimeError(f"element {k} of tensors does not require grad and does not have a grad_fn")
        if grad is None:
            if out.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            grad = ones_like(out)
        elif grad._sizes != out._sizes:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{k}] has a shape of {grad.shape} and "
                f"output[{k}] has a shape of {out.shape}."
            )
        roots.append((edge_of(out), grad))
    return roots


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None) -> None:
    """Accumulate the gradients of `tensors` into the leaves (or only into `inputs`)."""
    outputs = sequence(tensors)
    grads = (None,) * len(outputs) if grad_tensors is None else sequence(grad_tensors)
    roots = root_gradients(outputs, grads)
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        run(roots, None, retain, create_graph)
        return
    inputs = sequence(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    captured = run(roots, checked_edges(inputs), retain, create_graph)
    for x in inputs:
        if x._grad_fn is not None and captured.get(edge_of(x)) is not None:
            x._grad = captured[edge_of(x)] if x.grad is None else OPS["add"](x.grad, captured[edge_of(x)])


def checked_edges(inputs) -> list:
    edges = [edge_of(x) for x in inputs]
    if any(edge is None for edge in edges):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return edges


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
) -> tuple:
    """The gradients of `outputs` with respect to `inputs`, without touching any `.grad`."""
    if is_grads_batched:
        raise RuntimeError("autograd.grad: is_grads_batched is not supported; call it once per gradient")
    outputs, inputs = sequence(outputs), sequence(inputs)
    grads = (None,) * len(outputs) if grad_outputs is None else sequence(grad_outputs)
    edges = checked_edges(inputs)
    retain = create_graph if retain_graph is None else retain_graph
    captured = run(root_gradients(outputs, grads), edges, retain, create_graph, accumulate=False)
    found = [captured.get(edge) for edge in edges]
    if materialize_grads:
        return tuple(zeros(x) if g is None else g for g, x in zip(found, inputs))
    if not allow_unused and any(g is None for g in found):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if "
            "this is the desired behavior."
        )
    return tuple(found)


# -- methods of Tensor


def tensor_backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    backward(self, gradient, retain_graph, create_graph, inputs)


def register_hook(self, hook):
    """`hook(grad)` when the gradient of this tensor is complete; what it returns (unless None) replaces the
    gradient.
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._grad_fn is not None:
        return self._grad_fn.make_hooks().add_tensor(self._output_nr, hook)
    return leaf_hooks(self).add_tensor(0, hook)


def register_post_accumulate_grad_hook(self, hook):
    """`hook(tensor)` after the gradient was added to `.grad`."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return leaf_hooks(self).add("accumulated", hook)


def retain_grad(self) -> None:
    """Keep the gradient of a tensor that is not a leaf in `.grad`."""
    if not self.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self._grad_fn is not None:
        self._grad_fn.make_hooks().retain[self._output_nr] = weakref.ref(self)


def retains_grad(self) -> bool:
    node = self._grad_fn
    return node is not None and node.hooks is not None and self._output_nr in node.hooks.retain
