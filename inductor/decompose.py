"""Composites become the ops they are written with.

In: a pure graph. Out: the same program of Map, Reduce, Scan, Scatter, View, Random and Extern nodes. The idea: run it
on meta tensors under the recorder, which does not record a composite but runs its decomposition; origins, draws and
tags are kept.
"""

from __future__ import annotations

from ..capture.graph import Graph
from ..eager.op import Kind, Op
from .tracing import retrace


def decompose(graph: Graph) -> Graph:
    if not any(n.is_op and n.target.kind is Kind.COMPOSITE for n in graph.calls):
        return graph
    return retrace(graph, is_composite)


def is_composite(op: Op, args: tuple) -> bool:
    return op.kind is Kind.COMPOSITE
