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
from ...runtime.errors import BackendError
from .. import driver, dump
from ..boundary import Executable
from ..inplace import write_inputs
from ..loops import Program
from ..lower import lower
from ..memory import plan
from ..schedule import schedule
from . import ahead
from .attention import has_template
from .codegen import generate
from .interpret import Interpreted


def takes(calls: tuple) -> bool:
    """Of the runtime's kernels convolutions and attention have templates here."""
    return all(isinstance(call, Conv) or has_template(call) for call in calls)


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


def dry(capability: int) -> driver.Target:
    """Kernels compiled for a chip that need not be there, and dumped; the calls are run by generated C++."""
    def target(graph: Graph, name: str, writes: tuple = (), donated: frozenset = frozenset()) -> Executable:
        def build(computed: Graph, pairs: tuple) -> None:
            program = loop_program(computed, name, pairs, donated)
            generated = generate(program)
            made = ahead.compile_program(program, capability, generated=generated)
            records.current().note(f"{name}: {len(made)} launches of Triton kernels for sm_{capability}")
            dump.triton(name, generated.text, "\n".join(dict.fromkeys(binary.ptx for binary in made)))
        driver.around_outputs(graph, build, writes)
        return driver.native(graph, name, writes, donated)
    target.takes = takes
    return target


def triton_backend(graph: Graph, example_inputs: Sequence, options: dict | None = None) -> Callable:
    """Triton kernels; without a GPU, in triton's interpreter. options={"dry_run": 90} compiles them for sm_90 instead."""
    capability = (options or {}).get("dry_run")
    if capability is not None and capability not in ahead.CAPABILITIES:
        known = ", ".join(map(str, ahead.CAPABILITIES))
        raise BackendError(f"sm_{capability} is not a chip that kernels are generated for", f"dry_run takes one of {known}")
    return driver.compile_graph(graph, example_inputs, options, interpreted if capability is None else dry(capability))


triton_backend.takes_options = True
