"""Backwards of custom functions, traced: graphs that `custom_gradient` runs where autograd asks for gradients.

In: the graph of a backward over the gradients of the results, what it reads of the forward, and numbers. Out: a rule that eager,
the joint trace and a second differentiation call alike, because it runs ops.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ...eager.autograd.function import once_differentiable
from ...eager.op.gradient import Meta
from ...eager.op.op import OPS, zeros
from ...eager.tensor import Tensor
from ...runtime.dataclass import data
from .graph import Graph, Interpreter


def row_major(g: Tensor) -> Tensor:
    """A gradient in the strides that the backward was traced with."""
    return g if g.is_contiguous() else OPS["contiguous_copy"](g)


@data(eq=False)
class BackwardRule:
    """`wanted`: per input of the graph, what it is: ("grad", k), ("saved", k), ("result", k) or ("number", k).
    Gradients that did not come are zeros; `once`: a second differentiation raises."""

    name: str
    graph: Graph
    wanted: tuple
    once: bool

    def __call__(self, grads: list, saved: tuple, numbers: tuple, results: Any) -> tuple:
        grads = [zeros(Meta.of(r)) if g is None else row_major(g) for g, r in zip(grads, results)]
        values = {"grad": grads, "saved": saved, "number": numbers, "result": results}
        given = [values[kind][k] for kind, k in self.wanted]
        return self.run_once(grads, given) if self.once else self.run(given)

    def run(self, given: list) -> tuple:
        return Interpreter(self.graph).run(*given)

    def run_once(self, grads: list, given: list) -> tuple:
        """A second differentiation of what comes out raises."""
        return once_differentiable(lambda ctx, *grads: self.run(given))(None, *grads)

    def __repr__(self) -> str:
        text = hashlib.sha1(self.graph.print_python().encode())
        for constant in self.graph.constants.values():
            if isinstance(constant, Tensor) and not constant._fl_fake:
                text.update(constant.detach().contiguous().numpy().tobytes())
        return f"<backward of {self.name}, {text.hexdigest()[:16]}>"
