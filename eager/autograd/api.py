"""`backward` and `grad`: the public ways into the engine, with PyTorch's checks and texts.

Outputs and inputs are tensors or `GradientEdge`s (node, output number).
"""

from __future__ import annotations

import warnings
import weakref
from typing import Any, NamedTuple

import numpy as np

from .. import _call
from ..device import cpu
from ..op.op import OPS, zeros
from ..autograd_node import AccumulateGrad, Node, edge_of, leaf_hooks
from ..state import state
from ..tensor import Tensor
from .engine import Task, run


class GradientEdge(NamedTuple):
    """A place in the graph: where the gradient of a tensor arrives. `ownership_token` keeps it alive."""

    node: Node
    output_nr: int
    ownership_token: Any = None


def sequence(x) -> tuple:
    return (x,) if isinstance(x, (Tensor, GradientEdge)) or x is None else tuple(x)


def ones_like(t: Tensor) -> Tensor:
    if state.quick is not None and not t._fl_fake and t._fl_device is cpu:
        return Tensor._fl_from_array(np.ones(t._fl_sizes, t._fl_dtype.numpy), t._fl_dtype)
    return OPS["full"](tuple(t._fl_sizes), 1, t._fl_dtype, t._fl_device)


def gradient_edge(x):
    """(target, output number) of a tensor or GradientEdge, or None."""
    if isinstance(x, GradientEdge):
        return (x.node.variable, 0) if isinstance(x.node, AccumulateGrad) else (x.node, x.output_nr)
    return edge_of(x)


def root_gradients(outputs, grads, batched: bool = False) -> list:
    """[(edge, gradient)] for outputs; a missing gradient is 1 for scalars and an error for others."""
    if len(grads) < len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    roots = []
    for k, (out, grad) in enumerate(zip(outputs, grads)):
        sizes, dtype = described(out)
        if isinstance(out, Tensor) and not out.requires_grad:
            raise RuntimeError(f"element {k} of tensors does not require grad and does not have a grad_fn")
        if grad is None:
            grad = implicit_gradient(out, sizes, dtype)
        elif not isinstance(grad, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
        else:
            check_root(k, grad, sizes, dtype, batched)
        roots.append((gradient_edge(out), grad))
    return roots


def described(out) -> tuple:
    if isinstance(out, Tensor):
        return out._fl_sizes, out._fl_dtype
    target, number = gradient_edge(out)
    return target.metas[number][:2] if isinstance(target, Node) else (target._fl_sizes, target._fl_dtype)


def implicit_gradient(out, sizes, dtype) -> Tensor:
    if not isinstance(out, Tensor):
        raise RuntimeError("grad_outputs must be given for outputs that are GradientEdges")
    if out.numel() != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if not dtype.is_floating_point:
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {dtype}")
    return ones_like(out)


def check_root(k: int, grad: Tensor, sizes, dtype, batched: bool) -> None:
    if (grad._fl_sizes[1:] if batched else grad._fl_sizes) != sizes:
        if batched:
            raise RuntimeError(
                f"If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
                f"batch dimension. The sizes of the remaining dimensions are expected to match the shape "
                f"of corresponding output, but a mismatch was detected: grad_output[{k}] has a shape of "
                f"{grad.shape} and output[{k}] has a shape of torch.Size({list(sizes)})."
            )
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{k}] has a shape of {grad.shape} and "
            f"output[{k}] has a shape of torch.Size({list(sizes)})."
        )
    if grad._fl_dtype.is_complex != dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{k}] has a dtype of {grad._fl_dtype} and output[{k}] has a dtype of {dtype}."
        )


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Accumulate the gradients of `tensors` into the leaves (or only into `inputs`; a non-leaf there retains its
    gradient)."""
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                "Please only use `grad_tensors`."
            )
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        grad_tensors = grad_variables
    inputs = None if inputs is None else sequence(inputs)
    if inputs is not None and not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    outputs = sequence(tensors)
    grads = (None,) * len(outputs) if grad_tensors is None else sequence(grad_tensors)
    roots = root_gradients(outputs, grads)
    retain = create_graph if retain_graph is None else retain_graph
    edges = None if inputs is None else checked_edges(inputs)
    for x in inputs or ():
        if isinstance(x, Tensor) and x._grad_fn is not None:
            x.retain_grad()
    run(roots, edges, retain, create_graph)


def checked_edges(inputs) -> list:
    edges = [gradient_edge(x) for x in inputs]
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
    """The gradients of `outputs` with respect to `inputs`, without touching any `.grad`.

    `is_grads_batched`: the first dimension of each of `grad_outputs` counts several backward runs, whose gradients
    come stacked.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient "
            "for other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    outputs, inputs = sequence(outputs), sequence(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    grads = (None,) * len(outputs) if grad_outputs is None else sequence(grad_outputs)
    retain = (create_graph if retain_graph is None else retain_graph) or state.again
    if is_grads_batched:
        found = batched_gradients(outputs, inputs, grads, retain, create_graph)
    else:
        found = gradients(root_gradients(outputs, grads), checked_edges(inputs), retain, create_graph)
    if materialize_grads:
        return tuple(zeros(x) if g is None and isinstance(x, Tensor) else g for g, x in zip(found, inputs))
    if not allow_unused:
        for k, g in enumerate(found):
            if g is None:
                raise RuntimeError(
                    f"The differentiated Tensor at index {k} appears to not have been used in the graph. "
                    "Set allow_unused=True if this is the desired behavior."
                )
    return tuple(found)


def gradients(roots, edges, retain: bool, create_graph: bool) -> list:
    captured = run(roots, edges, retain, create_graph, accumulate=False)
    return [captured.get(edge) for edge in edges]


def batched_gradients(outputs, inputs, grads, retain: bool, create_graph: bool) -> list:
    """One run per row of the gradients; the results stacked."""
    roots, edges = root_gradients(outputs, grads, batched=True), checked_edges(inputs)
    count = roots[0][1]._fl_sizes[0]
    runs = [
        gradients([(edge, OPS["select"](g, 0, k)) for edge, g in roots], edges, retain or k + 1 < count, create_graph)
        for k in range(count)
    ]
    return [None if any(g is None for g in column) else OPS["stack"](tuple(column), 0) for column in zip(*runs)]


# -- methods of Tensor


def tensor_backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    plain = gradient is None and retain_graph is None and create_graph is False and inputs is None
    if not (plain and _call.backward(self, Task)):
        backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def register_hook(self, hook):
    """`hook(grad)` when the gradient of this tensor is complete; what it returns (unless None) replaces the
    gradient.
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._grad_fn is not None:
        return self._grad_fn.make_hooks().add_tensor(self._fl_output_nr, hook)
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
        self._grad_fn.make_hooks().retain[self._fl_output_nr] = weakref.ref(self)


def retains_grad(self) -> bool:
    node = self._grad_fn
    return node is not None and node.hooks is not None and self._fl_output_nr in node.hooks.retain


def zero_gradient(grad: Tensor) -> None:
    """Zeros in a gradient's own memory, without the history that it may have. A view without one is left the view it is."""
    (grad.detach_() if grad._grad_fn is not None else grad.requires_grad_(False)).zero_()
