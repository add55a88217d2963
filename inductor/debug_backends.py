"""Backends that stop at an earlier stage: the captured graph, the final graphs or the loop IR are run as they are.

In: (graph, example inputs, options). Out: a callable with the graph's inputs and result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..capture.frontend.backends import Backend
from ..capture.graph.graph import Graph, Interpreter
from . import driver, targets
from .pass_manager import Facts, run_phase


def eager(graph: Graph, example_inputs: Sequence, options: dict | None = None) -> Callable:
    """The captured graph, run node by node by eager."""
    run_phase(driver.CAPTURED, graph, Facts())
    return lambda *inputs: Interpreter(graph).run(*inputs)


def aot_eager(graph: Graph, example_inputs: Sequence, options: dict | None = None) -> Callable:
    """Functional forward and backward graphs, run node by node by eager."""
    return driver.compile_graph(graph, example_inputs, options, targets.INTERPRETED)


def loops(graph: Graph, example_inputs: Sequence, options: dict | None = None) -> Callable:
    """The loop IR, run by its interpreter on numpy."""
    return driver.compile_graph(graph, example_inputs, options, targets.LOOPS)


EAGER = Backend("eager", eager, takes_options=True, takes_reads=True)
AOT_EAGER = Backend("aot_eager", aot_eager, takes_options=True)
LOOPS = Backend("loops", loops, takes_options=True)
