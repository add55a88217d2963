"""A choice between two functions of the same operands, by a number or by a tensor with one element."""

from ...tensor import Tensor
from .. import pytree


def cond(pred, true_fn, false_fn, operands=()):
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`. With a tensor as `pred` the operands must be trees of
    tensors (RuntimeError otherwise); both functions should then give alike results: only the one that is called is looked at.
    Compiled, a number is guarded; a tensor is a graph break, since only the data knows it."""
    if not isinstance(pred, (bool, int, float)):
        _check(pred, true_fn, false_fn, operands)
    if pred:
        return true_fn(*operands)
    return false_fn(*operands)


def _check(pred, true_fn, false_fn, operands):
    if not isinstance(pred, Tensor):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not all(isinstance(x, Tensor) for x in pytree.tree_leaves(operands)):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor "
            f"leaves, but got {operands}."
        )
