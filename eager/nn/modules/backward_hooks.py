"""Backward hooks of modules.

In: a module with backward hooks, its arguments and its result. Full hooks: inputs and outputs pass through an identity
Function; the one on the outputs sees grad_output first, the one on the inputs sees grad_input last, and there the hooks
run. The older kind hangs on the last node of the result.
"""

import warnings
from typing import Any

from ...autograd import Function, is_grad_enabled
from ...tensor import Tensor


class BackwardHookFunction(Function):
    """Identity on several tensors whose backward shows all gradients to `seen`, which may replace them."""

    @staticmethod
    def forward(ctx, seen, materialize, *tensors):
        ctx.seen = seen
        ctx.set_materialize_grads(materialize)
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        return (None, None, *ctx.seen(grads))


class BackwardCall:
    """One call of a module: keeps the gradient of its outputs until the gradient of its inputs is known."""

    def __init__(self, module, hooks, pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_output: Any = None
        self.inputs: Any = None  # where the tensors are among the arguments
        self.outputs: Any = None  # ditto among the results
        self.n_inputs = self.n_outputs = 0

    # forward

    def tap_inputs(self, args):
        args, self.inputs = tapped(args, self.see_input, True)
        self.n_inputs = len(args)
        return args

    def tap_outputs(self, result):
        single = isinstance(result, Tensor)
        if not (single or isinstance(result, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                f"received {type(result)}",
                stacklevel=2,
            )
            return result
        results = (result,) if single else result
        self.n_outputs = len(results)
        results, self.outputs = tapped(results, self.see_output, False)
        return results[0] if single else results

    # backward

    def see_output(self, grads):
        self.grad_output = packed(self.outputs, grads, self.n_outputs)
        for hook in self.pre_hooks:
            changed = hook(self.module, self.grad_output)
            if changed is not None:
                check_count(changed, self.n_outputs, "pre hook", "grad_output")
                self.grad_output = changed if isinstance(changed, tuple) else tuple(changed)
        kept = self.grad_output
        if self.inputs is None:  # no input requires grad: the hooks run now, with nothing for the inputs
            self.run_without_inputs()
        return tuple(kept[k] for k in self.outputs)

    def run_without_inputs(self):
        if self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since "
                "no inputs require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module."
                "html#torch.nn.Module.register_full_backward_hook for more details.",
                stacklevel=2,
            )
        for hook in self.hooks:
            changed = hook(self.module, (None,) * self.n_inputs, self.grad_output)
            if changed is not None and not (isinstance(changed, tuple) and all(g is None for g in changed)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None "
                    "or None for all gradients."
                )
        self.grad_output = None

    def see_input(self, grads):
        if self.grad_output is None:  # the gradient did not come through the module's outputs
            return grads
        found = packed(self.inputs, grads, self.n_inputs)
        for hook in self.hooks:
            changed = hook(self.module, found, self.grad_output)
            if changed is not None:
                check_count(changed, self.n_inputs, "hook", "grad_input")
                found = changed if isinstance(changed, tuple) else tuple(changed)
        self.grad_output = None
        return tuple(found[k] for k in self.inputs)


def check_count(changed, count, what, values):
    if len(changed) != count:
        raise RuntimeError(
            f"Backward {what} returned an invalid number of {'grad_input' if what == 'hook' else values}, "
            f"got {len(changed)}, but expected {count}"
        )


def packed(at, grads, count):
    """Gradients at their places among `count` values, None elsewhere."""
    found = [None] * count
    for k, g in zip(at, grads):
        found[k] = g
    return tuple(found)


def tapped(values, seen, materialize):
    """Pass the tensors of a tuple through one Function; (the new tuple, where they are), or (values, None) where no
    gradient will come."""
    at = [k for k, v in enumerate(values) if isinstance(v, Tensor)]
    if not (is_grad_enabled() and any(values[k].requires_grad for k in at)):
        return values, None
    new = list(values)
    for k, t in zip(at, BackwardHookFunction.apply(seen, materialize, *(values[k] for k in at))):
        new[k] = t
    return tuple(new), at


# -- the older kind


def watch_result(module, hooks, args, result):
    """Hang hooks on the node of the (first) tensor of a result."""
    t = result
    while not isinstance(t, Tensor):
        t = next(v for v in t.values() if isinstance(v, Tensor)) if isinstance(t, dict) else t[0]
    node = t.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(lambda grad_input, grad_output, hook=hook: hook(module, grad_input, grad_output))
    warn_of_many_nodes(args, result, node)


def warn_of_many_nodes(args, result, node):
    """Hooks of the older kind mean the module only if its forward is one node from tensors to a tensor."""
    if not isinstance(result, Tensor):
        warnings.warn(
            "Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors "
            "is deprecated and will be removed in future versions. Please use register_full_backward_hook to "
            "get the documented behavior.",
            FutureWarning,
            stacklevel=3,
        )
        return
    starts = {t.grad_fn for t in args if isinstance(t, Tensor)}
    nexts = {n for n, _ in node.next_functions if n is not None}
    if not nexts <= {s for s in starts if s is not None} or None in starts:
        warnings.warn(
            "Using a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and "
            "will be removed in future versions. This hook will be missing some grad_input. Please use "
            "register_full_backward_hook to get the documented behavior.",
            FutureWarning,
            stacklevel=3,
        )
