"""Triton as a target of the driver, and the backend "triton".

In: a final graph. Out: an executable that runs generated Triton kernels: on a GPU for tensors there, in triton's interpreter
for tensors in host memory.
Composites are opened; a call that no kernel can do well runs eagerly between launches, which is counted, noted and told why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...capture.frontend.backends import Backend
from ...capture.graph.graph import Graph
from ...eager.tensor import Tensor
from ...runtime import compile_log
from ...runtime.kernel_calls import ConvCall
from ...runtime.errors import BackendError
from .. import driver, targets
from ..graph import dump
from ..pass_manager import Facts, Pass, Phase, Target
from ..runtime.runtime_wrapper import OutputAssembler, CompiledGraph, Executable, FunctionExecutable
from ..schedule.reinplace import write_inputs
from ..loops.ir import Program
from ..schedule.memory_planning import plan
from ..schedule.scheduler import schedule
from ..schedule.loop_nest import Parallelism
from . import aot, fallbacks
from .attention import has_template
from .codegen import Writer, generate
from .device import DeviceGraph, GpuDevice
from .philox_dropout import draw_inside
from .interpret import InterpretedGraph


REPLAYED, TUNED = ("reduce-overhead", "max-autotune"), ("max-autotune", "max-autotune-no-cudagraphs")
GPU = Parallelism(points=256, elements=1 << 12, parts=256, columns=32)  # about two programs for each of its processors


def takes(calls: tuple) -> bool:
    """Of the runtime's kernels convolutions and attention have templates here."""
    return all(isinstance(call, ConvCall) or has_template(call) for call in calls)


def opens(op: Any, args: tuple) -> bool:
    """Attention with dropout: its mask becomes a draw of its own, which the backward draws again."""
    if op.template != "attention" or op.draws is None or type(args[op.names["p"]]) not in (int, float):
        return False
    return op.draws(*args) > 0


SCHEDULE = Phase(  # in place of the driver's: other loops, and each kernel writes one place
    "schedule",
    (
        Pass("schedule", lambda program, facts: schedule(program, GPU)),
        Pass("draw inside", lambda program, facts: draw_inside(program)),
        Pass("write inputs", lambda program, facts: write_inputs(program, facts.writes)),
        Pass("plan memory", lambda program, facts: plan(program, facts.donated)),
    ),
    dump=dump.scheduled,
    check=lambda program: program.verify(),
)
PHASES = (driver.LOWER, SCHEDULE)


def interpreted(program: Program, facts: Facts) -> Executable:
    """Kernels in triton's interpreter."""
    made = note_fallbacks(InterpretedGraph(program), facts.name)
    dump.triton(facts.name, made.source)
    return made


INTERPRETED = Target("triton's interpreter", interpreted, opens, takes, PHASES)


def note_fallbacks(made: Any, name: str) -> Any:
    """The record says which calls have no kernel."""
    for _, number in made.generated.pauses:
        compile_log.current().note(f"{name}: {fallbacks.fallback_note(made.program.kernels[number])}")
    return made


def on_device(place: Any) -> Target:
    """Kernels that a GPU runs."""

    def emit(program: Program, facts: Facts) -> Executable:
        made = note_fallbacks(DeviceGraph(program, place), facts.name)
        dump.triton(facts.name, made.source)
        return made

    return Target("triton", emit, opens, takes, PHASES)


def dry(capability: int) -> Target:
    """Kernels compiled for a chip that need not be there, and dumped; the calls are run by generated C++."""

    def compiled(program: Program, facts: Facts) -> Executable:
        generated = generate(program)
        made = aot.compile_program(program, capability, generated=generated)
        compile_log.current().note(f"{facts.name}: {len(made)} launches of Triton kernels for sm_{capability}")
        dump.triton(facts.name, generated.text, "\n".join(dict.fromkeys(binary.ptx for binary in made)))
        return FunctionExecutable(lambda *_: [])

    shown = Target("triton, compiled alone", compiled, takes=takes, phases=PHASES)

    def emit(graph: Graph, facts: Facts) -> Executable:
        driver.emit(graph, replace(facts, target=shown))
        return driver.emit(graph, replace(facts, target=targets.CPP))

    return Target("triton dry run", emit, takes=takes, phases=())


def place_of(inputs: Sequence, replay: bool, tunes: bool = False) -> GpuDevice | None:
    """The GPU that the tensors are on; None: the host's memory."""
    found = {x.device for x in inputs if isinstance(x, Tensor)}
    gpus = {d for d in found if d.type == "cuda"}
    if not gpus:
        return None
    if len(found) > 1:
        raise BackendError(f"one graph is given tensors on {', '.join(sorted(map(str, found)))}", "move them to one device")
    return GpuDevice(gpus.pop(), replay, tunes)


def triton_backend(graph: Graph, example_inputs: Sequence, options: dict | None = None, mode: str | None = None) -> Callable:
    """Triton kernels, on the GPU that the inputs are on; for tensors in the host's memory, in triton's interpreter.
    options={"dry_run": 90} compiles them for sm_90 instead. mode="reduce-overhead": launches whose addresses come again are
    replayed as a CUDA graph. mode="max-autotune": blocks of kernels are measured, and launches are replayed."""
    capability = (options or {}).get("dry_run")
    if capability is not None and capability not in aot.CAPABILITIES:
        known = ", ".join(map(str, aot.CAPABILITIES))
        raise BackendError(f"sm_{capability} is not a chip that kernels are generated for", f"dry_run takes one of {known}")
    if capability is not None:
        return driver.compile_graph(graph, example_inputs, options, dry(capability))
    tunes = mode in TUNED or bool((options or {}).get("max_autotune"))
    place = place_of(example_inputs, mode in REPLAYED, tunes)
    return driver.compile_graph(graph, example_inputs, options, INTERPRETED if place is None else on_device(place))


def describe(graph: Graph, compiled: Callable) -> tuple:
    """What a report tells of a graph that this backend compiled."""
    from ..tools import report

    language = report.Language(drafted, INTERPRETED, "Triton kernels are not timed for reports.")
    programs, texts, note = report.describe(graph, compiled, language)
    tuned = tuned_text(compiled)
    if tuned:
        texts["tuned.txt"] = tuned
        note += " Their blocks were measured: tuned.txt."
    return programs, texts, note


def tuned_text(compiled: Any) -> str:
    """What was tried for the kernels of a compiled graph, and what was chosen."""
    found = []
    for run in report_runs(compiled):
        for sizes, tuned in run.tuned.items() if isinstance(run, DeviceGraph) else ():
            shown = ", ".join(f"{k}={n}" for k, n in sizes)
            found += [f"{run.program.name}{' at ' + shown if shown else ''}", *(t.text() for t in tuned.trials)]
    return "\n".join(found) + "\n" if found else ""


def report_runs(compiled: Any) -> list:
    """What runs the graphs of a compiled one: forward, then every backward."""
    if not isinstance(compiled, CompiledGraph):
        return []
    training = compiled.training
    found = [compiled.forward, *([back for _, back in training.made.values()] if training is not None else [])]
    return [run.run if isinstance(run, OutputAssembler) else run for run in found]


def drafted(program: Program, facts: Facts) -> tuple:
    """The functions of a program's code, and which one a kernel launches."""
    writer = Writer(program)
    dump.triton(facts.name, writer.generate().text)
    return list(zip(writer.functions.values(), writer.printed)), writer.called


TRITON = Backend("triton", triton_backend, takes_options=True, takes_mode=True, describe=describe)
