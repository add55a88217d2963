"""Outputs of a final graph that no kernel needs to compute: inputs, views, and the same value again.

In: a final graph, and a function that makes an executable of one. Out: an executable of the whole. The idea: a target computes
each value once and never returns an input; `OutputAssembler` puts the rest in at every call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...capture.graph.graph import Graph, Node
from ...eager.op.op import Kind
from ..graph import passes
from ..graph.joint_graph import is_tangent
from ..graph.retrace import fresh_fake
from ..graph.schemas import ViewOfInput, ViewOfOutput, ViewStep
from .runtime_wrapper import OutputAssembler, Executable, replay


def assemble_outputs(graph: Graph, build: Callable[[Graph, tuple], Executable], writes: tuple) -> Executable:
    """Targets compute each value once and never return an input: outputs that are inputs, views of gradients that come
    in, or the same value again, are put in around them. A graph that computes and refuses nothing needs no target."""
    outputs = graph.output.args[0]
    given, computed, views = split_outputs(graph)
    places = [(False, given[n]) if n in given else (True, computed.index(n)) for n in outputs]
    if not computed and not any(n.refuses for n in graph.calls):
        return OutputAssembler(None, places, views)
    if list(outputs) == computed:
        return build(graph, writes)
    once = [place for place in places if place[0] and places.count(place) == 1]  # what is saved as well needs memory of its own
    writes = tuple((k, places[out][1]) for k, out in writes if places[out] in once)
    graph, table = graph.copy()
    graph.set_output(tuple(table[n] for n in computed))
    if views:
        passes.remove_dead(graph)
    return OutputAssembler(build(graph, writes), places, views)


def split_outputs(graph: Graph) -> tuple[dict[Node, int], list[Node], list[ViewOfInput | ViewOfOutput]]:
    """Of a graph's outputs: (the number of each that is given: of an input, or behind the inputs of a view; those that a
    target computes; the views, of inputs or of what it computes)."""
    given = {n: k for k, n in enumerate(graph.inputs)}
    inputs, computed = dict(given), []
    views: list[ViewOfInput | ViewOfOutput] = []
    for n in dict.fromkeys(n for n in graph.output.args[0] if isinstance(n, Node) and n not in given):
        base, steps = shown_gradient(n, graph)
        if not steps and n not in computed:
            computed.append(n)
        elif steps:
            if base not in inputs and base not in computed:
                computed.append(base)
            given[n] = len(inputs) + len(views)
            views.append(ViewOfInput(inputs[base], steps) if base in inputs else ViewOfOutput(computed.index(base), steps))
    return given, computed, views


def shown_gradient(node: Node, graph: Graph) -> tuple[Node, tuple[ViewStep, ...]]:
    """Of a result of a backward: what it shows, and by which steps. Eager's backward gives views of the gradients that come in,
    and repeats elements without copying them; kernels would write what they show. No steps: it is to be computed."""
    steps: list[ViewStep] = []
    base = node
    while base.is_op and base.target.kind is Kind.VIEW and all(map(known, base.args[1:])):
        steps.insert(0, ViewStep(base.target, tuple(base.args[1:]), False))
        base = base.args[0]
    if not steps or not (is_tangent(base) or is_expanded(node, base) and any(map(is_tangent, graph.inputs))):
        return node, ()
    shown = fresh_fake(base.value)
    for step in steps:
        if step.op.explicit_loop and not shown.is_contiguous():  # which elements it shows is a matter of memory
            return node, ()
        shown = replay(ViewOfInput(0, (step,)), shown, {})
    return base, tuple(steps)


def is_expanded(node: Node, base: Node) -> bool:
    counts = node.value.numel(), base.value.numel()
    return base.op == "call_function" and all(type(n) is int for n in counts) and counts[0] > counts[1]


def known(x: Any) -> bool:
    return all(map(known, x)) if isinstance(x, tuple) else x is None or type(x) in (int, bool)
