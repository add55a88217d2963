"""Composites become the ops they are written with.

In: a pure graph. Out: the same program of Map, Reduce, Scan, Scatter, View, Random and Extern nodes, and of composites
for which the runtime has a kernel (their `calls` rule). The idea: run it on meta tensors under the recorder, which does
not record a composite but runs its decomposition; origins, draws and tags are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...capture.graph.graph import Graph
from ...eager.op.op import Kind, Op
from ..loops.extern_kernels import has_kernel
from . import passes
from .functionalize import FunctionalGraph
from .retrace import run_on_fakes, retrace


def decompose(graph: Graph, takes: Callable[[tuple], bool] | None = None) -> Graph:
    """`takes`: which calls of the runtime's kernels the target can print (None: all)."""
    if not any(n.is_op and n.target.kind is Kind.COMPOSITE for n in graph.calls):
        return graph
    return retrace(graph, lambda op, args: is_composite(op, args, takes))


def is_composite(op: Op, args: tuple, takes: Callable[[tuple], bool] | None = None) -> bool:
    if op.kind is not Kind.COMPOSITE:
        return False
    return op.call_rule is None or not has_kernel(op, args, run_on_fakes(op, args), takes)


def open_for(functional: FunctionalGraph, opens: Callable[[Op, tuple], bool] | None) -> FunctionalGraph | None:
    """What a target wants opened before gradients are taken, `opens(op, args)`, is: its parts are nodes of their own then. None:
    there is none. Masks of dropout that attention alone reads are tagged, as in a checkpointed region: the backward draws them
    again."""
    if opens is None or not any(n.is_op and opens(n.target, n.args) for n in functional.graph.calls):
        return None
    graph = retrace(functional.graph, opens)
    passes.tidy(graph)
    for node in graph.calls:
        if node.is_op and node.target.kind is Kind.RANDOM and len(node.users) == 1:
            (user,) = node.users
            if user.is_op and user.target.template == "attention":
                node.tag = user.tag or f"drawn for {user.name}"
    return replace(functional, graph=graph)
