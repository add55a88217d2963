"""Full backward hooks of modules.

In: a module with backward hooks, its arguments. Out: its result. Inputs and outputs pass through an identity Function;
the one on the outputs sees grad_output first, the one on the inputs sees grad_input last, and there the hooks run.
"""

from ...autograd import Function
from ...tensor import Tensor


class _Tap(Function):
    """Identity on several tensors whose backward shows all gradients to `seen`, which may replace them."""

    @staticmethod
    def forward(ctx, seen, *tensors):
        ctx.seen = seen
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        return (None, *ctx.seen(grads))


class _BackwardCall:
    """One call of a module: keeps the gradient of its outputs until the gradient of its inputs is known."""

    def __init__(self, module):
        self.module = module
        self.grad_output = None
        self.inputs = 0

    def see_output(self, grads):
        for hook in tuple(self.module._backward_pre_hooks.values()):
            changed = hook(self.module, grads)
            if changed is not None:
                grads = changed if isinstance(changed, tuple) else (changed,)
        self.grad_output = grads
        if not self.inputs:       # no input requires grad: the hooks run now, with nothing for the inputs
            self.run_hooks((None,))
        return grads

    def see_input(self, grads):
        return self.run_hooks(grads)

    def run_hooks(self, grad_input):
        for hook in tuple(self.module._backward_hooks.values()):
            changed = hook(self.module, grad_input, self.grad_output)
            if changed is not None:
                changed = changed if isinstance(changed, tuple) else (changed,)
                if len(changed) != len(grad_input):
                    raise RuntimeError("Backward hook returned an invalid number of grad_input, "
                                       f"got {len(changed)}, but expected {len(grad_input)}")
                grad_input = changed
        return grad_input


def _tap(values, seen):
    """Pass the tensors of a tuple through one tap; returns the new tuple and how many of them require grad."""
    at = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    needed = sum(values[i].requires_grad for i in at)
    if not needed:
        return values, 0
    tapped = _Tap.apply(seen, *(values[i] for i in at))
    new = list(values)
    for i, t in zip(at, tapped):
        new[i] = t
    return tuple(new), needed


def call_with_backward_hooks(module, args, kwargs, forward_hooks):
    """Run forward (and `forward_hooks(args, kwargs, result)`) between the two taps."""
    call = _BackwardCall(module)
    args, call.inputs = _tap(args, call.see_input)
    result = forward_hooks(args, kwargs, module.forward(*args, **kwargs))
    if isinstance(result, Tensor):
        return _tap((result,), call.see_output)[0][0]
    if isinstance(result, (tuple, list)):
        outputs, _ = _tap(tuple(result), call.see_output)
        return outputs if isinstance(result, tuple) else list(outputs)
    return result
