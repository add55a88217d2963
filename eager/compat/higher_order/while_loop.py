"""A loop as a call: in a condition, a body and what they work on, out what the body made last.

It runs as Python does, so gradients are those of the steps that were taken; in compiled code the condition is a break.
"""

from ...tensor import Tensor
from .. import pytree


def while_loop(cond_fn, body_fn, carried_inputs):
    """While `cond_fn(*carried)` (a bool, or a tensor of one) holds: `carried = body_fn(*carried)`, of the same structure, sizes
    and types."""
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple or list, but got {type(carried_inputs).__name__}")
    carried = tuple(carried_inputs)
    if not all(isinstance(x, (Tensor, int)) for x in pytree.tree_leaves(carried)):
        raise RuntimeError(f"carried_inputs must be tensors and ints in tuples, lists and dictionaries, but got {carried_inputs}")
    found = carried
    while _holds(cond_fn(*carried)):
        found = body_fn(*carried)
        carried = _checked(carried, found)
    return found


def _holds(answer):
    if isinstance(answer, Tensor) and answer.numel() != 1:
        raise RuntimeError(f"cond_fn must return a bool or a scalar tensor, but got a tensor of size {list(answer.shape)}")
    return bool(answer)


def _checked(before, found):
    after = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    (old, old_tree), (new, new_tree) = pytree.tree_flatten(before), pytree.tree_flatten(after)
    if old_tree != new_tree:
        raise RuntimeError(
            f"Expected body_fn_output and carried_inputs to have same number of outputs and structure, but got "
            f"{new_tree} and {old_tree}"
        )
    for a, b in zip(old, new):
        if isinstance(a, Tensor) and (not isinstance(b, Tensor) or a.shape != b.shape or a.dtype is not b.dtype):
            told = f"{tuple(b.shape)} of {b.dtype}" if isinstance(b, Tensor) else type(b).__name__
            raise RuntimeError(f"body_fn must keep sizes and types: {tuple(a.shape)} of {a.dtype} became {told}")
    return after
