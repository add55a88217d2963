"""Triton as a target of the driver, and the backend "triton".

In: a final graph. Out: an executable that runs generated Triton kernels in triton's interpreter, on tensors in host memory.
Composites are opened and every op must have a kernel: what has none raises, naming the op, its shapes and the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...capture.graph import Graph
from ...runtime import records
from ...runtime.calls import Conv
from ...runtime.config import config
from .. import driver, dump
from ..boundary import Executable
from ..inplace import write_inputs
from ..loops import Program
from ..lower import lower
from ..memory import plan
from ..schedule import schedule
from .interpret import Interpreted


def takes(calls: tuple) -> bool:
    """Of the runtime's kernels convolutions have a template here."""
    return all(isinstance(call, Conv) for call in calls)


def loop_program(graph: Graph, name: str, writes: tuple = (), donated: frozenset = frozenset()) -> Program:
    record = records.current()
    with record.stage("lower"):
        lowered = lower(graph, name, takes)
    with record.stage("schedule"):
        program = plan(write_inputs(schedule(lowered), writes), donated)
    dump.loops(name, lowered, program)
    if config.verify:
        program.verify()
    return program


def interpreted(graph: Graph, name: str, writes: tuple = (), donated: frozenset = frozenset()) -> Executable:
    """Kernels in triton's interpreter."""
    def build(computed: Graph, pairs: tuple) -> Executable:
        made = Interpreted(loop_program(computed, name, pairs, donated))
        dump.triton(name, made.source)
        return made
    return driver.around_outputs(graph, build, writes)


interpreted.takes = takes


def triton_backend(graph: Graph, example_inputs: Sequence, options: dict | None = None) -> Callable:
    """Triton kernels; without a GPU, in triton's interpreter."""
    return driver.compile_graph(graph, example_inputs, options, interpreted)


triton_backend.takes_options = True
