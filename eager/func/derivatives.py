"""Derivatives as functions of functions, on the engine.

A transform runs the function on inputs of its own: views of the given tensors where an outer transform (or ordinary
autograd) follows them, else detached. What comes out is followed only if something outside can be reached from it.
"""

from __future__ import annotations

import functools

from .. import autograd
from ..autograd.functional import jacobian_of, pushed
from ..op.op import zeros
from ..autograd_node import Node
from ..autograd.engine import targets
from ..tensor import Tensor
from .trees import leaves, map_leaves, rebuild


def own_input(x):
    """An input of the transform's own."""
    if not isinstance(x, Tensor):
        return x
    return x.view_as(x) if x.requires_grad else x.detach().requires_grad_()


def outside(t: Tensor, inputs) -> bool:
    """Whether the history of `t` leads beyond `inputs`."""
    ours = {id(x) for x in inputs if x._grad_fn is None}
    stack, seen = [t._grad_fn], set()
    while stack:
        target = stack.pop()
        if target in seen or target is None:
            continue
        seen.add(target)
        if isinstance(target, Node):
            stack.extend(child for child, _ in targets(target))
        elif id(target) not in ours:
            return True
    return False


def detach_results(tree, inputs):
    """Results as the caller sees them."""

    def one(t):
        return t.detach() if isinstance(t, Tensor) and t.requires_grad and not outside(t, inputs) else t

    return map_leaves(one, tree)


def chosen(args, argnums):
    """(arguments with those of `argnums` replaced by our own, the replaced ones)."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not numbers:
        raise RuntimeError("argnums must be an int or a non-empty tuple of ints")
    args = list(args)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
        args[n] = map_leaves(own_input, args[n])
    picked = tuple(args[n] for n in numbers)
    return args, picked[0] if isinstance(argnums, int) else picked


def split_aux(out, has_aux: bool, name: str):
    if not has_aux:
        return out, None
    if not (isinstance(out, tuple) and len(out) == 2):
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return out


def tensors_of(tree, name: str) -> list:
    found = leaves(tree)
    for x in found:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{name}: Expected f(*args) to return only tensors, got unsupported type {type(x)}")
    return found


def pulled(outputs, inputs, seeds) -> list:
    """Gradients at the tensors `inputs`, which keep their graph; zeros where there is none."""
    pairs = [(o, g) for o, g in zip(outputs, seeds) if o.requires_grad]
    found = [None] * len(inputs)
    if pairs:
        found = autograd.grad([o for o, _ in pairs], inputs, [g for _, g in pairs], create_graph=True, allow_unused=True)
    return [zeros(x) if g is None else g for g, x in zip(found, inputs)]


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that gives (gradients at the arguments `argnums`, value) of a `func` with one value; with `has_aux`
    (gradients, (value, aux))."""

    @functools.wraps(func)
    def run(*args, **kwargs):
        with autograd.enable_grad():
            args, picked = chosen(args, argnums)
            out, aux = split_aux(func(*args, **kwargs), has_aux, "grad_and_value(f)(*args)")
            if not isinstance(out, Tensor):
                raise RuntimeError("Expected the differentiated function to return a tensor, got " + str(type(out)))
            if out.numel() != 1 or out.dim():
                raise RuntimeError(
                    f"Expected the differentiated function to return a scalar tensor, got tensor with {out.dim()} dims."
                )
            inputs = leaves(picked)
            found = rebuild(picked, iter(pulled([out], inputs, [None])))
            found, out, aux = detach_results(found, inputs), detach_results(out, inputs), detach_results(aux, inputs)
        return (found, (out, aux)) if has_aux else (found, out)

    return run


def grad(func, argnums=0, has_aux=False):
    """A function that gives the gradient of `func` (one value) at the arguments `argnums`; with `has_aux` also what else
    `func` returns."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def run(*args, **kwargs):
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return run


def vjp(func, *primals, has_aux=False):
    """(func(*primals), pull): pull(cotangents) gives a tuple, one result per primal."""
    with autograd.enable_grad():
        args = map_leaves(own_input, primals)
        inputs = leaves(args)
        out, aux = split_aux(func(*args), has_aux, "vjp(f, *primals)")
        outputs = tensors_of(out, "vjp(f, *primals)")

    def pull(cotangents):
        seeds = leaves(cotangents)
        if len(seeds) != len(outputs):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function."
            )
        with autograd.enable_grad():
            found = pulled(outputs, inputs, seeds)
            return detach_results(rebuild(args, iter(found)), inputs)

    result = detach_results(out, inputs)
    return (result, pull, detach_results(aux, inputs)) if has_aux else (result, pull)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), J tangents), by differentiating the transposed product."""
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple) or len(primals) != len(tangents):
        raise RuntimeError("jvp(f, primals, tangents): Expected primals and tangents to be tuples of the same length")
    with autograd.enable_grad():
        args = map_leaves(own_input, primals)
        inputs = leaves(args)
        out, aux = split_aux(func(*args), has_aux, "jvp(f, primals, tangents)")
        outputs = tensors_of(out, "jvp(f, primals, tangents)")
        found = pushed(outputs, inputs, leaves(tangents), True, strict)
        found = [zeros(o) if g is None else g for g, o in zip(found, outputs)]
        pushed_out = detach_results(rebuild(out, iter(found)), inputs)
    result = detach_results(out, inputs)
    return (result, pushed_out, detach_results(aux, inputs)) if has_aux else (result, pushed_out)


def linearize(func, *primals):
    """(func(*primals), push): push(*tangents) gives J tangents."""
    result = jvp(func, primals, tuple(map_leaves(zeros, primals)))[0]

    def push(*tangents):
        return jvp(func, primals, tangents)[1]

    return result, push


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None):
    """A function that gives the Jacobian: per output, per input of `argnums`, a tensor of both shapes. `chunk_size`
    bounds how many rows are computed together; here they come one after another."""
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev: `chunk_size` should be greater than 0.(got {chunk_size})")

    @functools.wraps(func)
    def run(*args, **kwargs):
        with autograd.enable_grad():
            args, picked = chosen(args, argnums)
            inputs = leaves(picked)
            out, aux = split_aux(func(*args, **kwargs), has_aux, "jacrev(f)(*args)")
            rows = [
                rebuild(picked, iter(jacobian_of(o, k, inputs, True, False))) for k, o in enumerate(tensors_of(out, "jacrev"))
            ]
            found = detach_results(rebuild(out, iter(rows)), inputs)
            aux = detach_results(aux, inputs)
        return (found, aux) if has_aux else found

    return run


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """The same as `jacrev`, column by column in PyTorch; here by rows, which gives the same values."""
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(f"jacfwd: randomness must be 'error', 'different' or 'same', got {randomness!r}")
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func, argnums=0):
    """A function that gives the second derivatives."""
    return jacfwd(jacrev(func, argnums), argnums)
