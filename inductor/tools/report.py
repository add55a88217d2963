"""What a report says of one compiled graph: its stages as text, its kernels and its memory plan.

In: a captured graph and what was compiled from it. Out: the fields of `capture.report.data.Graph` that a backend
knows. The idea: a call keeps nothing for this. The passes run once more, under the guards there are, and give the same
programs; times are taken from the code that really runs.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...capture.shapes import expr as E
from ...capture.shapes.expr import Expr, ExprLike
from ...capture.graph.graph import Graph, Node
from ...runtime import compile_log
from ...runtime.kernel_calls import TRANSPOSED, RuntimeCall
from ...runtime.config import config
from ...runtime.errors import FlambeauError
from ...capture.report import data, timeline
from .. import driver, targets
from ..runtime.output_aliases import assemble_outputs, split_outputs
from ..graph import dump
from ..pass_manager import Facts, Target
from ..runtime.runtime_wrapper import OutputAssembler, CompiledGraph, Executable, FunctionExecutable
from ..loops.body import Buffer
from ..cpp.codegen import Writer
from ..cpp.launch import CppExecutable
from ..cpp.kernel_writer import headline
from ..loops.ir import (
    ExternCall,
    GemmKernel,
    Kernel,
    LoopKernel,
    Program,
    ScatterKernel,
    outer_axes,
    buffers_read,
    steps,
    buffers_written,
)
from .kernel_timing import KernelTimer
from ..source_text import shape_text

KINDS = {LoopKernel: "loops", ScatterKernel: "scatter"}
MOVES = frozenset(("load", "index", "const", "acc", "scalar", "indirect", "cast"))  # values that compute nothing


@dataclass
class Sketch:
    """One program as the passes leave it: its final graph and its code."""

    name: str
    graph: Graph
    program: Program
    printed: list[tuple[str, str]]  # functions of the code: name, text
    called: dict[str, str]  # kernel -> its function
    hints: dict[str, Any]
    results: frozenset[int]  # which of its outputs the caller gets; the others are kept for the backward

    def number(self, e: ExprLike) -> int:
        return int(e.evaluate(self.hints)) if isinstance(e, Expr) else int(e)

    def bytes_of(self, buffer: Buffer) -> int:
        return self.number(buffer_bytes(buffer))


def buffer_bytes(buffer: Buffer) -> ExprLike:
    return buffer.extent() * buffer.dtype.itemsize


def cpp(program: Program, facts: Facts) -> tuple:
    writer = Writer(program)
    dump.native(facts.name, writer.generate().text, program)
    return writer.printed, writer.called


@dataclass(frozen=True)
class Language:
    """Kernels of one kind: `draft` gives (functions, which one a kernel calls) of a program; `target`: whose programs these are;
    untimed: why there are no times."""

    draft: Callable[[Program, Facts], tuple]
    target: Target
    untimed: str = ""


CPP = Language(cpp, targets.CPP)


def describe(graph: Graph, compiled: Any, language: Language = CPP) -> tuple[list[data.Program], dict[str, str], str]:
    """(programs, texts of the stages, why something is missing)."""
    record = compile_log.CompileRecord("report", graph.name)
    with (
        config.patch(dump=None, logs=()),
        compile_log.reading(),
        compile_log.active(record),
    ):  # nothing is compiled: no files, no logs
        try:
            sketches, again = passes(graph, language)
        except FlambeauError as reason:
            return [], record.texts, f"the passes could not be run again for this report: {reason}"
    programs = [program_of(sketch, graph, again) for sketch in sketches]
    if language.untimed:
        return programs, record.texts, language.untimed
    trial = KernelTimer(compiled)
    notes = [measure_times(program, sketch, run, trial) for program, sketch, run in zip(programs, sketches, runs_of(compiled))]
    return programs, record.texts, " ".join(dict.fromkeys(filter(None, notes)))


def passes(graph: Graph, language: Language) -> tuple[list[Sketch], CompiledGraph]:
    """Everything but the C++ compiler, once more; questions that were never asked before raise."""
    found: list[Sketch] = []
    hints = {} if graph.env is None else graph.env.examples()

    def emit(final: Graph, facts: Facts) -> Executable:
        results = frozenset(n for n in final.output.args[0][:inner] if isinstance(n, Node))
        positions = frozenset(k for k, n in enumerate(split_outputs(final)[1]) if n in results)

        def build(computed: Graph, writes: tuple) -> Executable:
            inner_facts = replace(facts, target=language.target, writes=writes)
            program = driver.loop_program(computed, inner_facts)
            printed, called = language.draft(program, inner_facts)
            found.append(Sketch(facts.name, computed, program, printed, called, hints, positions))
            return FunctionExecutable(lambda *_: [])

        return assemble_outputs(final, build, facts.writes)

    target = replace(language.target, emit=emit, phases=())
    with graph.env.sealed() if graph.env is not None else contextlib.nullcontext():
        functional, constants = driver.functionalize_graph(graph)
        inner = len(functional.graph.output.args[0])
        values = [*(n.value for n in graph.inputs), *constants]  # the captured ones know which gradients are wanted
        return found, driver.assemble(functional, values, constants, target)


def runs_of(compiled: Any) -> list[CppExecutable | None]:
    """The code that calls run, in the order of the programs: forward, backward."""
    if not isinstance(compiled, CompiledGraph):
        return [None, None]
    training = compiled.training
    found = [compiled.forward] + ([training.made[training.all_reached][1]] if training is not None else [])
    found = [run.run if isinstance(run, OutputAssembler) else run for run in found]
    return [run if isinstance(run, CppExecutable) else None for run in found if run is not None]


# -- kernels


def program_of(sketch: Sketch, captured: Graph, compiled: CompiledGraph) -> data.Program:
    kernels = Kernels(sketch, captured).all()
    functions = [text for _, text in sketch.printed]
    arena = sketch.number(sketch.program.arena_size)
    program = data.Program(sketch.name, kernels, functions, list(blocks(sketch, compiled)), arena)
    program.held = timeline.held(program)
    return program


class Kernels:
    """Kernels of a program as data, each with the captured nodes that it comes from: a node of a later graph has the very
    stack of the node that it was made of."""

    def __init__(self, sketch: Sketch, captured: Graph):
        self.sketch = sketch
        self.final = {n.name: n for n in sketch.graph.nodes}
        self.by_name: dict[str, int] = {}
        self.by_stack: dict[int, list[int]] = {}
        for k, node in enumerate(captured.operations):
            self.by_name[node.name] = k
            self.by_stack.setdefault(id(node.stack), []).append(k)
        self.functions = {name: k for k, (name, _) in enumerate(sketch.printed)}
        made = {origin.node.split(" ")[0] for kernel in sketch.program.kernels for origin in kernel.origins}
        self.lies = made | {buffer.name for buffer in sketch.program.buffers}  # nodes that a kernel makes, or has made

    def all(self) -> list[data.Kernel]:
        return [self.kernel(kernel) for kernel in self.sketch.program.kernels]

    def kernel(self, kernel: Kernel) -> data.Kernel:
        number = self.sketch.number
        cost = cost_of(kernel)
        origins = [n for origin in kernel.origins if (n := self.final.get(origin.node.split(" ")[0])) is not None]
        nodes = sorted({k for n in origins for k in self.nodes(n)})
        inlined = sorted({k for n in self.inlined(origins) for k in self.nodes(n)} - set(nodes))
        text = lambda b: f"{b.name} {shape_text(b.dtype, b.sizes)}"
        function = self.sketch.called.get(kernel.name)
        return data.Kernel(
            kernel.name,
            kind_of(kernel),
            kernel_description(kernel),
            nodes,
            inlined,
            sorted({n.stack[-1][:2] for n in origins if n.stack}),
            list(kernel.notes),
            list(map(text, buffers_read(kernel))),
            list(map(text, buffers_written(kernel))),
            number(cost.moved),
            None if cost.work is None else number(cost.work),
            cost,
            None if function is None else self.functions.get(function),
        )

    def inlined(self, origins: list[Node]) -> list[Node]:
        """What a kernel computes on the way, because nobody else needs it in memory: views, and cheap values."""
        found: dict[Node, None] = {}
        waiting = [m for n in origins for m in n.inputs]
        while waiting:
            node = waiting.pop()
            if node.op == "call_function" and node.name not in self.lies and node not in found:
                found[node] = None
                waiting += node.inputs
        return list(found)

    def nodes(self, node: Node) -> list[int]:
        same = self.by_stack.get(id(node.stack), [])
        own = self.by_name.get(node.name)
        return [own] if own in same else same


def kind_of(kernel: Kernel) -> str:
    if isinstance(kernel, GemmKernel):
        return "convolution" if kernel.template == "conv" else "product"
    if isinstance(kernel, ExternCall):
        return "eager" if kernel.calls is None else "runtime"
    return KINDS[type(kernel)]


def kernel_description(kernel: Kernel) -> str:
    if isinstance(kernel, ExternCall):
        return f"{kernel.op.name}: " + ("a call back into eager" if kernel.calls is None else "a kernel of the runtime")
    if isinstance(kernel, LoopKernel) and not kernel.outer:
        ranges = [", ".join(f"{axis.name} < {axis.extent}" for axis in step.axes) for step in kernel.steps]
        return "over " + "; ".join(dict.fromkeys(filter(None, ranges))) if any(ranges) else "one value"
    return headline(kernel)


# -- arithmetic


def cost_of(kernel: Kernel) -> data.Cost:
    """In the sizes of the graph, which the loops' ranges are written in."""
    return data.Cost(work_of(kernel), E.int_if_const(sum(map(buffer_bytes, (*buffers_read(kernel), *buffers_written(kernel))))))


def work_of(kernel: Kernel) -> ExprLike | None:
    """Operations on numbers, each primitive counted as one; None where only the runtime's kernel knows."""
    if isinstance(kernel, ExternCall):
        return runtime_work(kernel)
    outer = list(outer_axes(kernel))
    total: ExprLike = 0
    if isinstance(kernel, GemmKernel):
        outer = [*kernel.batch, kernel.m, kernel.n]
        total = 2 * math.prod(axis.extent for axis in (*outer, kernel.k))
    for step in steps(kernel):
        axes = {axis.name: axis.extent for axis in (*outer, *step.axes)}
        own = () if isinstance(kernel, GemmKernel) else step.axes
        total += operations(step, axes, frozenset(axes) - {axis.name for axis in own})
    return E.int_if_const(total)


def operations(step: Any, axes: dict[str, ExprLike], given: frozenset[str]) -> ExprLike:
    """A value is computed once for every point of the axes that it depends on; `given`: those of what an earlier step, or
    the product, has computed."""
    needs: dict[int, frozenset] = {}
    named: dict[str, frozenset] = {}
    everything = frozenset(axes)
    total: ExprLike = 0
    for value in step.values():
        mine = frozenset().union(*(needs[a.id] for a in value.args)) | names_in(value, named)
        if value.op == "acc":
            mine = given
        if value.op == "indirect":
            named[value.attrs.name] = mine
        needs[value.id] = mine
        if value.op not in MOVES:
            total += math.prod(axes[name] for name in mine & everything)
    points = math.prod(axes.values())
    return total + points * sum(len(reduce.names) for reduce in step.reduces)


def names_in(value: Any, named: dict[str, frozenset]) -> frozenset:
    """Axes that a value names itself, directly or by way of an index that was read."""
    if value.op == "load":
        parts = value.attrs.index
    elif value.op == "index":
        parts = (value.attrs,)
    else:
        return frozenset()
    names = frozenset().union(*(e.free_names() for e in parts if isinstance(e, Expr)))
    return names.union(*(named[name] for name in names if name in named))


def runtime_work(kernel: ExternCall) -> ExprLike | None:
    """The work of the runtime's kernels, where they say it."""
    works = [call_work(call) for call in kernel.calls or ()]
    told = [each for each in works if each is not None]
    return E.int_if_const(sum(told)) if works and len(told) == len(works) else None


def call_work(call: Any) -> ExprLike | None:
    """A convolution multiplies every window with the weights of its channel; a job has products or says nothing."""
    if isinstance(call, RuntimeCall):
        return call.flops
    over = call.x if call.form == TRANSPOSED else call.out
    return E.floordiv(2 * math.prod(over.shape) * math.prod(call.weight.shape), call.weight.shape[0])


# -- memory


def blocks(sketch: Sketch, compiled: CompiledGraph) -> Iterator[data.Block]:
    """Every buffer that the launch allocates or was given to use, with its life."""
    program, last = sketch.program, len(sketch.program.kernels) - 1
    life: dict[str, tuple[int, int]] = {}
    for at, kernel in enumerate(program.kernels):
        for buffer in (*buffers_read(kernel), *buffers_written(kernel)):
            life[buffer.name] = life.get(buffer.name, (at, at))[0], at
    backward, kept = sketch.name != "forward", saved_names(compiled)
    results = {b.name for k, b in enumerate(program.outputs) if isinstance(b, Buffer) and k in sketch.results}
    for buffer in program.buffers:
        if buffer.name not in life:
            continue
        start, end = life[buffer.name]
        if buffer.kind == "temp":
            place = program.homes.get(buffer.name, "arena")
            yield block(sketch, buffer, "temp", start, end, place, sketch.number(program.arena.get(buffer.name, 0)))
        elif buffer.kind == "output":
            kind = "gradient" if backward else "output" if buffer.name in results else "saved"
            yield block(sketch, buffer, kind, start, last, program.homes.get(buffer.name, "own"))
        elif backward and buffer.name in kept:
            yield block(sketch, buffer, "saved", 0, end if buffer.name in program.homes.values() else last, "own")


def saved_names(compiled: CompiledGraph) -> frozenset[str]:
    """Results of the forward that are kept for the backward."""
    if compiled.training is None:
        return frozenset()
    first = compiled.training.first
    return frozenset(name for name in first.saved if name not in first.saved_inputs)


def block(sketch: Sketch, buffer: Buffer, kind: str, start: int, end: int, place: str, offset: int = 0) -> data.Block:
    shape = shape_text(buffer.dtype, buffer.sizes)
    return data.Block(buffer.name, shape, kind, sketch.bytes_of(buffer), start, end, place, offset)


# -- time


def measure_times(program: data.Program, sketch: Sketch, run: CppExecutable | None, trial: KernelTimer) -> str:
    """Fill in calls and seconds; says what could not be measured."""
    if run is None:
        return f"{program.name} does not run as C++ on this machine, so there are no times."
    found = run.statistics()
    program.calls, program.seconds = found["calls"], found["ns"] / 1e9
    total, seconds, note = trial.measured(run, sketch.graph, sketch.hints)
    program.measured = total
    for kernel in program.kernels:
        kernel.seconds = seconds.get(kernel.name)
    return note
