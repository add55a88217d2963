"""Jacobians, Hessians and products with them, by backward runs.

In: a function of tensors and its inputs (one tensor or a tuple). Out: derivatives in the same structure. Products with
a Jacobian from the right (`jvp`, `hvp`) are a second backward through the first one, which is linear in its gradient.
"""

from __future__ import annotations

from ..op.op import OPS, zeros
from ..tensor import Tensor
from .api import grad as gradient
from .api import ones_like
from .modes import enable_grad

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]


OUTPUTS = "outputs of the user-provided function"


# -- structure


def as_tuple(x, what: str, function: str) -> tuple:
    """(x,) or x, all tensors; and whether it was a tuple. `what`: "inputs" or "outputs of the ..."."""
    is_tuple = isinstance(x, (tuple, list))
    values = tuple(x) if is_tuple else (x,)
    for k, v in enumerate(values):
        if not isinstance(v, Tensor):
            short = f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the "
            raise TypeError(
                short + (f"value at index {k} has type {type(v)}." if is_tuple else f"given {what} has type {type(v)}.")
            )
    return values, is_tuple


def prepared(inputs, create_graph: bool) -> tuple:
    """Inputs of our own: views of the user's where the result is to be differentiated on, else detached."""
    with enable_grad():
        return tuple([x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs])


def finished(values, create_graph: bool) -> tuple:
    return tuple(values) if create_graph else tuple([v.detach() for v in values])


def unpacked(values: tuple, is_tuple: bool):
    return tuple(values) if is_tuple else values[0]


def check_vectors(v, others, is_tuple: bool, function: str) -> tuple:
    v, _ = as_tuple(v, "v", function)
    if len(v) != len(others):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(others)} but got {len(v)}."
            if is_tuple
            else f"The given v should contain a single Tensor but got {len(v)}."
        )
    for k, (a, b) in enumerate(zip(v, others)):
        if a._fl_sizes != b._fl_sizes:
            raise RuntimeError(
                f"v has invalid size: should be {b.shape} but got {a.shape}."
                if len(v) == 1
                else f"Entry {k} in v has invalid size: should be {b.shape} but got {a.shape}"
            )
    return v


def check_independent(found, strict: bool, output: int = 0) -> None:
    if strict:
        for k, g in enumerate(found):
            if g is None:
                raise RuntimeError(
                    f"Output {output} of the user-provided function is independent of input {k}. This is "
                    "not allowed in strict mode."
                )


def check_outputs(outputs, strict: bool) -> None:
    if strict:
        for k, o in enumerate(outputs):
            if not o.requires_grad:
                raise RuntimeError(
                    f"Output {k} of the user-provided function does not require gradients. The outputs must "
                    "be computed in a differentiable manner from the input when running in strict mode."
                )


def filled(found, inputs) -> tuple:
    return tuple([zeros(x) if g is None else g for g, x in zip(found, inputs)])


def pulled(outputs, inputs, v, create_graph: bool) -> tuple:
    """v^T J, with None where an input has no part in it."""
    pairs = [(o, g) for o, g in zip(outputs, v) if o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return gradient(
        [o for o, _ in pairs], inputs, [g for _, g in pairs], create_graph=create_graph, retain_graph=True, allow_unused=True
    )


# -- products


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v^T J). `v` may be left out where the output has one element."""
    with enable_grad():
        inputs, many = as_tuple(inputs, "inputs", "vjp")
        inputs = prepared(inputs, create_graph)
        outputs, many_out = as_tuple(func(*inputs), OUTPUTS, "vjp")
        check_outputs(outputs, strict)
        v = one_or_given(v, outputs, many_out, "vjp")
        found = pulled(outputs, inputs, v, create_graph)
        check_independent(found, strict)
        found = filled(found, inputs)
    return unpacked(finished(outputs, create_graph), many_out), unpacked(finished(found, create_graph), many)


def one_or_given(v, tensors, many: bool, function: str, told: str = "the user-provided function returns") -> tuple:
    """The vector of a product, for as many tensors; without one the only number is meant (`told`: what is to be a number)."""
    if v is not None:
        return check_vectors(v, tensors, many, function)
    if len(tensors) != 1 or tensors[0].numel() != 1:
        raise RuntimeError(f"The vector v can only be None if {told} a single Tensor with a single element.")
    return (ones_like(tensors[0]),)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), J v), by differentiating v^T J twice."""
    with enable_grad():
        inputs, many = as_tuple(inputs, "inputs", "jvp")
        inputs = prepared(inputs, create_graph)
        v = one_or_given(v, inputs, many, "jvp", "the input to the user-provided function is")
        outputs, many_out = as_tuple(func(*inputs), OUTPUTS, "jvp")
        check_outputs(outputs, strict)
        found = filled(pushed(outputs, inputs, v, create_graph, strict), outputs)
    return unpacked(finished(outputs, create_graph), many_out), unpacked(finished(found, create_graph), many_out)


def pushed(outputs, inputs, v, create_graph: bool, strict: bool) -> tuple:
    seeds = tuple([zeros(o).requires_grad_() for o in outputs])
    first = pulled(outputs, inputs, seeds, True)
    check_independent(first, strict)
    pairs = [(g, x) for g, x in zip(first, v) if g is not None and g.requires_grad]
    if not pairs:
        return (None,) * len(outputs)
    return gradient([g for g, _ in pairs], seeds, [x for _, x in pairs], create_graph=create_graph, allow_unused=True)


def single_value(outputs, many: bool, function: str) -> None:
    if many or len(outputs) != 1:
        raise RuntimeError(f"The function given to {function} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {function} should contain a single element")


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), H v) of a function with one value."""
    value, found = vector_hessian(func, inputs, v, create_graph, strict, "hvp")
    return value, found


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v^T H) of a function with one value."""
    return vector_hessian(func, inputs, v, create_graph, strict, "vhp")


def vector_hessian(func, inputs, v, create_graph: bool, strict: bool, name: str):
    """H is symmetric: both products are one more backward through the gradient."""
    with enable_grad():
        inputs, many = as_tuple(inputs, "inputs", name)
        inputs = prepared(inputs, create_graph)
        v = one_or_given(v, inputs, many, name, "the input to the user-provided function is")
        outputs, many_out = as_tuple(func(*inputs), OUTPUTS, name)
        single_value(outputs, many_out, name)
        check_outputs(outputs, strict)
        first = pulled(outputs, inputs, (ones_like(outputs[0]),), True)
        check_independent(first, strict)
        pairs = [(g, x) for g, x in zip(first, v) if g is not None and g.requires_grad]
        found = (
            (None,) * len(inputs)
            if not pairs
            else gradient([g for g, _ in pairs], inputs, [x for _, x in pairs], create_graph=create_graph, allow_unused=True)
        )
        check_independent(found, strict)
        found = filled(found, inputs)
    return unpacked(finished(outputs, create_graph), many_out), unpacked(finished(found, create_graph), many)


# -- matrices


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """All derivatives: for output `o` and input `x` a tensor of shape o.shape + x.shape; tuples of them where the
    function has several outputs or inputs. `vectorize` changes no result; strategy "forward-mode" takes `jvp`.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has '
            'more outputs than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to '
            'use "reverse-mode".'
        )
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `create_graph=True` is not implemented for strategy="forward-mode".'
        )
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `strategy="forward-mode"` is only implemented when `vectorize=True`.'
        )
    if strict and vectorize:
        raise RuntimeError("torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together.")
    with enable_grad():
        inputs, many = as_tuple(inputs, "inputs", "jacobian")
        inputs = prepared(inputs, create_graph)
        outputs, many_out = as_tuple(func(*inputs), OUTPUTS, "jacobian")
        check_outputs(outputs, strict)
        rows = [jacobian_of(o, k, inputs, create_graph, strict) for k, o in enumerate(outputs)]
    rows = [unpacked(finished(row, create_graph), many) for row in rows]
    return unpacked(tuple(rows), many_out)


def jacobian_of(output: Tensor, number: int, inputs, create_graph: bool, strict: bool) -> tuple:
    """Per input the tensor of output.shape + input.shape."""
    flat = OPS["view"](OPS["contiguous_copy"](output), (output.numel(),))
    columns = []
    for k in range(output.numel()):
        found = (None,) * len(inputs)
        if output.requires_grad:
            found = gradient(OPS["select"](flat, 0, k), inputs, create_graph=create_graph, retain_graph=True, allow_unused=True)
        check_independent(found, strict, number)
        columns.append(filled(found, inputs))
    return tuple([stacked([c[n] for c in columns], output, x) for n, x in enumerate(inputs)])


def stacked(rows, output: Tensor, x: Tensor) -> Tensor:
    sizes = tuple(output._fl_sizes) + tuple(x._fl_sizes)
    if not rows:
        return OPS["full"](sizes, 0, x._fl_dtype, x._fl_device)
    return OPS["view"](OPS["stack"](tuple(rows), 0), sizes)


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function with one value: per pair of inputs a tensor of both shapes."""
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise ValueError(
            f"Expected outer_jacobian_strategy to be either 'reverse-mode' or 'forward-mode', got {outer_jacobian_strategy!r}"
        )
    inputs, many = as_tuple(inputs, "inputs", "hessian")

    def first(*xs):
        outputs, many_out = as_tuple(func(*xs), OUTPUTS, "hessian")
        single_value(outputs, many_out, "hessian")
        check_outputs(outputs, strict)
        found = pulled(outputs, xs, (ones_like(outputs[0]),), True)
        check_independent(found, strict)
        return filled(found, xs)

    found = jacobian(first, inputs, create_graph, strict, vectorize)
    return found if many else found[0][0]
