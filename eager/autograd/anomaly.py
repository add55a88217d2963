"""Anomaly mode: nodes remember where they were recorded, and backward looks for NaN.

In: a node that failed, or its results. Out: a warning with the stack of the call that recorded it (and of the node
whose gradient was being computed then), and the error for NaN.
"""

from __future__ import annotations

import warnings

import numpy as np

from ..state import state
from ..tensor import Tensor


class Stack(str):
    """The text of a stack; `parent`: the node that was running when it was taken."""

    parent = None


def present_stack() -> Stack:
    """The user's stack, without the frames of this package."""
    package = __name__.partition(".eager")[0].replace(".", "/")
    import traceback

    frames = [f for f in traceback.extract_stack() if f"/{package}/eager/" not in f.filename]
    stack = Stack("".join(traceback.format_list(frames)))
    stack.parent = state.node
    return stack


def tell(node) -> None:
    """Warn where the call was made whose gradient failed."""
    stack = node.stack
    if stack is None:
        text = (
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information."
        )
    else:
        text = f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{stack}"
    while stack is not None and (parent := getattr(stack, "parent", None)) is not None:
        stack = parent.stack
        text += f"\n\nPrevious calculation was induced by {parent.name()}. " + (
            "No forward pass information available."
            if stack is None
            else f"Traceback of forward call that induced the previous calculation:\n{stack}"
        )
    warnings.warn(text, stacklevel=2)


def check_nan(node, results) -> None:
    flat = [g for r in results for g in (r if isinstance(r, (list, tuple)) else (r,))]
    for k, g in enumerate(flat):
        if isinstance(g, Tensor) and g._fl_array is not None and g._fl_dtype.category >= 2 and np.isnan(g._fl_array).any():
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {k}th output.")
