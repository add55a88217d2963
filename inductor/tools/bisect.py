"""Which stage, node and kernel computes something else: every stage of a compilation on its real inputs, then the parts
of the first that differs.

In: a captured graph and the inputs of its first call. Out: None, or a `Difference` with a smaller program that shows the same
alone. The idea: a stage before the code generators is compared by what a call shows (outputs, written inputs, gradients);
behind it, forward and backward are compared apart, value by value, on the inputs that they really got: the first kernel
whose results differ had right ones to work with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...capture.frontend.backends import Backend
from ...capture.graph.graph import Graph, Node, bind_symbols, evaluate_number
from ...eager import dtypes
from ...eager.state import recording
from ...eager.tensor import Tensor
from ...runtime import toolchain
from ...runtime.errors import CheckFailed, Unsupported
from .. import driver, targets
from . import repro, minifier
from ..pass_manager import Facts, Target
from ..runtime import compare_stages
from ..runtime.runtime_wrapper import Executable, FunctionExecutable
from ..graph import verify
from ..graph.decompose import decompose
from ..loops.body import Buffer
from ..cpp.codegen import generate
from ..cpp.async_compile import load
from ..graph.functionalize import FunctionalGraph
from ..loops.interpreter import Machine
from ..loops.ir import Kernel, Program, buffers_read, buffers_written
from ..loops.lower import lower
from ..schedule.scheduler import schedule

STAGES = {
    "functional": "functionalize",
    "decomposed": "joint graph, partition, decompose and passes",
    "loops": "loop IR",
    "compiled": "C++",
}


@dataclass(frozen=True)
class Difference:
    """`stage`: in words; `graph`: forward or backward; `kernel`, `node`, `line`: the first that differs (or empty);
    `problem`: how; `code`: of the kernel; `repro`: a file that fails alone, or why there is none (`no_repro`)."""

    stage: str
    problem: str
    graph: str = ""
    kernel: str = ""
    node: str = ""
    line: str = ""
    code: str = ""
    repro: str = ""
    no_repro: str = ""

    def text(self) -> str:
        rows = [
            ("stage", self.stage),
            ("graph", self.graph),
            ("kernel", self.kernel),
            ("node", self.node),
            ("line", self.line),
            ("problem", self.problem),
            ("repro", self.no_repro),
        ]
        return "\n".join(f"{name:8} {value}" for name, value in rows if value)


class DifferenceFound(BaseException):
    """Ends the program in which a compiled graph differs; no `except Exception` of the program takes it."""

    def __init__(self, finding: Difference):
        super().__init__(finding.text())
        self.finding = finding


class ComparingBackend(Backend):
    """The default backend, which compares all stages of each graph on the inputs of its first `calls` calls, and raises
    `DifferenceFound` where one differs."""

    def __init__(self, calls: int = 1):
        super().__init__("inductor", self.compared, takes_options=True)
        self.calls, self.graphs = calls, 0

    def compared(self, graph: Graph, example_inputs: Sequence, options: dict | None = None) -> Callable:
        self.graphs += 1
        finding = examine(graph, list(example_inputs))
        if finding is not None:
            raise DifferenceFound(finding)
        options = {k: v for k, v in (options or {}).items() if k != "verify"}
        compiled = driver.compile_graph(graph, example_inputs, options)
        return compiled if self.calls == 1 else ComparedGraph(graph, compiled, self.calls)


class ComparedGraph:
    """A compiled graph whose first calls are compared with eager's; those of the very first were when it was compiled."""

    def __init__(self, graph: Graph, compiled: Callable, calls: int):
        self.graph, self.compiled, self.calls, self.seen = graph, compiled, calls, 0

    def __call__(self, *inputs: Any) -> Any:
        self.seen += 1
        if 1 < self.seen <= self.calls:
            self.compare(inputs)
        return self.compiled(*inputs)

    def compare(self, inputs: Sequence) -> None:
        try:
            expected = compare_stages.observe(compare_stages.captured_run(self.graph), inputs)
        except Exception:
            return  # an error of the program's own, which the call will raise as well
        problem = observed_difference(expected, self.compiled, list(inputs))
        if problem:
            raise DifferenceFound(
                examine(self.graph, list(inputs)) or Difference("C++", problem, no_repro="none: not in a fresh compilation")
            )


def examine(graph: Graph, inputs: list) -> Difference | None:
    """Compare the stages of one captured graph on the inputs of its first call; with a program that fails alone."""
    found = first_difference(graph, inputs)
    return None if found is None else with_repro(*found)


def first_difference(graph: Graph, inputs: list) -> tuple[Difference, GraphCall, dict] | None:
    """What differs first, the graph and inputs in which it does, and what shows it (as for shrink.smaller)."""
    functional, constants = driver.functionalize_graph(graph)
    everything = [*inputs, *constants]
    runs = {"functional": compare_stages.functional_run(functional, constants)}
    for name, target in targets.stages_until(targets.CPP).items():
        runs[name] = lambda *given, target=target: driver.assemble(functional, everything, constants, target)(*given)
    expected = compare_stages.observe(compare_stages.captured_run(graph), inputs)
    for name, run in runs.items():
        problem = observed_difference(expected, run, inputs)
        if problem:
            inner = compare_programs(functional, everything, constants) if name in ("loops", "compiled") else None
            return inner or (
                compare_graphs(functional, everything, name, problem),
                GraphCall(graph, "", tuple(inputs), 0, 0),
                {"gradients": True},
            )
    return None


def observed_difference(expected: compare_stages.Observation, run: Callable, inputs: list) -> str | None:
    """How a stage differs in what it shows; what it cannot do at all is for whoever captured the graph."""
    repro.dirty([*compare_stages.tensors_in(expected.outputs), *compare_stages.tensors_in(expected.gradients or [])])
    try:
        return compare_stages.compare(expected, compare_stages.observe(run, inputs))
    except (Unsupported, CheckFailed):
        raise
    except Exception as error:
        return repro.raised(error)


# -- stages before the loop IR -----------------------------------------------------------------------------------------


def compare_graphs(functional: FunctionalGraph, inputs: list, name: str, problem: str) -> Difference:
    """The first node whose value is not that of the node of the same name in the functional graph."""
    node = None
    if name == "decomposed":
        final = decompose(functional.graph)
        known, made = (repro.every_value(each, inputs, 0, 0) for each in (functional.graph, final))
        node = next((n for n in final.calls if n.name in known and verify.differs(known[n.name], made[n.name])), None)
    return Difference(
        STAGES[name],
        problem,
        "forward" if node is not None else "",
        node=node.name if node is not None else "",
        line=user_line(node),
    )


def user_line(node: Node | None) -> str:
    """The user's line of a node."""
    if node is None or not node.stack:
        return ""
    return f"{node.where()}: {node.stack[-1][2].strip()}"


# -- loops and code ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GraphCall:
    """One call of a graph, with the inputs that it got; `name`: forward or backward."""

    graph: Graph
    name: str
    inputs: tuple
    seed: int
    base: int


def recording_target(calls: list[GraphCall]) -> Target:
    """A target that runs final graphs by eager and notes the calls."""

    def emit(graph: Graph, facts: Facts) -> Executable:
        run = targets.interpreted(graph, facts)

        def call(inputs: list, seed: int, base: int) -> list:
            calls.append(GraphCall(graph, facts.name, with_graph_strides(graph, inputs), seed, base))
            return run(inputs, seed, base)

        return FunctionExecutable(call)

    return replace(targets.INTERPRETED, emit=emit)


def with_graph_strides(graph: Graph, inputs: Sequence) -> tuple:
    """Copies in the strides that the graph has for its inputs: eager's own saved values may be views where compiled code writes
    rows."""
    symbols: dict[str, Any] = {}
    for node, x in zip(graph.inputs, inputs):
        bind_symbols(node.value, x, symbols)
    strides = [
        tuple(evaluate_number(s, symbols) for s in node.value.stride()) if isinstance(x, Tensor) else None
        for node, x in zip(graph.inputs, inputs)
    ]
    fits = [step is None or step == tuple(x.stride()) for x, step in zip(inputs, strides)]
    return tuple(
        compare_stages.own_copy_of(x) if fit else repro.laid_out(x._fl_array, x.dtype, step, False)
        for x, step, fit in zip(inputs, strides, fits)
    )


def compare_programs(functional: FunctionalGraph, inputs: list, constants: list) -> tuple[Difference, GraphCall, dict] | None:
    """The first kernel of forward or backward that differs."""
    calls: list[GraphCall] = []
    shown = inputs[: len(inputs) - len(constants)]
    compare_stages.observe(driver.assemble(functional, inputs, constants, recording_target(calls)), shown)
    for call in calls:
        found = compare_program(call)
        if found is not None:
            return found, call, {"loops": not found.stage.startswith("C++")}
    return None


def compare_program(call: GraphCall) -> Difference | None:
    """Compare eager's values with the loop IR before and after fusion, and with its C++."""
    with recording(False):
        known = arrays(repro.every_value(call.graph, call.inputs, call.seed, call.base))
        lowered = lower(call.graph, call.name)
        before = states_after_kernels(lowered, call)
        found = first_wrong_kernel(
            lowered, call.graph, lambda name, k: (known.get(name), before[k].get(name)), "loop IR, before fusion", call
        )
        if found is not None:
            return found
        fused = schedule(lowered)
        after = states_after_kernels(fused, call)
        alone = {name: array for state in before for name, array in state.items()}
        found = first_wrong_kernel(
            fused, call.graph, lambda name, k: (alone.get(name), after[k].get(name)), "loop IR, fusion", call
        )
        return found or compare_code(fused, after, call)


def arrays(found: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: x._fl_array for name, x in found.items() if isinstance(x, Tensor)}


def states_after_kernels(program: Program, call: GraphCall) -> list[dict[str, np.ndarray]]:
    """What the loop interpreter has in the buffers that each kernel wrote, right after it; every buffer has memory of its own."""
    machine = Machine(program, {"seed": call.seed, "base": call.base}, False)
    machine.bind([compare_stages.own_copy_of(x) for x in call.inputs])
    found = []
    with np.errstate(all="ignore"):
        for kernel in program.kernels:
            machine.kernel(kernel)
            found.append({b.name: machine.array(whole_buffer(program, b)).copy() for b in buffers_written(kernel)})
    return found


def whole_buffer(program: Program, buffer: Buffer) -> Buffer:
    """The buffer with the geometry that the program gives it (kernels name it flat as well)."""
    return next(b for b in program.buffers if b.name == buffer.name)


def first_wrong_kernel(program: Program, graph: Graph, pair: Callable, stage: str, call: GraphCall) -> Difference | None:
    """The first kernel that writes something else: `pair(buffer's name, kernel's number)` gives what is right, and what is."""
    for k, kernel in enumerate(program.kernels):
        for buffer in buffers_written(kernel):
            right, is_ = pair(buffer.name, k)
            problem = array_differs(right, is_, buffer)
            if problem:
                return make_difference(stage, problem, kernel, graph, call.name, buffer)
    return None


def array_differs(right: np.ndarray | None, made: np.ndarray | None, buffer: Buffer) -> str | None:
    if right is None or made is None or right.size != made.size:
        return None  # a value that only one of the stages has
    tensors = [Tensor._fl_from_array(np.asarray(a).reshape(made.shape), buffer.dtype) for a in (right, made)]
    return verify.differs(*tensors)


def make_difference(stage: str, problem: str, kernel: Kernel, graph: Graph, name: str, buffer: Buffer) -> Difference:
    nodes = {n.name: n for n in graph.nodes}
    origin = nodes.get(buffer.name) or next((nodes[o.node] for o in kernel.origins if o.node in nodes), None)
    return Difference(stage, problem, name, kernel.name, origin.name if origin is not None else buffer.name, user_line(origin))


def compare_code(program: Program, right: list[dict[str, np.ndarray]], call: GraphCall) -> Difference | None:
    """Run the C++ with all temps as results, and compare them with the loop interpreter's."""
    if toolchain.compiler() is None:
        return None
    shown = with_all_outputs(program)
    try:
        run, given = load(shown, wrap=False), [compare_stages.own_copy_of(x) for x in call.inputs]
        repro.dirty([*given, *(Tensor._fl_from_array(a, dtypes.from_numpy(a.dtype)) for state in right for a in state.values())])
        made = run(given, call.seed, call.base)
    except CheckFailed:
        raise
    except Exception as error:
        return Difference("C++", repro.raised(error), call.name)
    results = {b.name: np.asarray(x) for b, x in zip(shown.outputs, made) if isinstance(b, Buffer)}
    found = first_wrong_kernel(program, call.graph, lambda name, k: (last(right, name), results.get(name)), "C++", call)
    if found is None:
        return whole_code(program, call)
    return replace(found, code=function_of(generate(shown).text, found.kernel))


def last(states: list[dict[str, np.ndarray]], name: str) -> np.ndarray | None:
    return next((state[name] for state in reversed(states) if name in state), None)


def with_all_outputs(program: Program) -> Program:
    """The same program with every temp as an output: nothing shares memory."""
    shown = {b.name: replace(b, kind="output") if b.kind == "temp" else b for b in program.buffers}
    named = lambda o: shown[o.name] if isinstance(o, Buffer) else o
    outputs = tuple(dict.fromkeys([b for b in shown.values() if b.kind == "output"]))
    inputs = tuple(
        b
        for b in program.inputs
        if isinstance(b, Buffer) and any(w.name == b.name for k in program.kernels for w in buffers_written(k))
    )
    return replace(
        program, buffers=tuple(shown.values()), outputs=(*outputs, *map(named, inputs)), arena={}, arena_size=0, homes={}
    )


def whole_code(program: Program, call: GraphCall) -> Difference | None:
    """Each kernel alone is right: then what the memory plan or the entry point makes of them."""
    problem = minifier.code_differs(call.graph, call.inputs, call.seed, call.base)
    return Difference("C++: memory plan or entry point", problem, call.name) if problem else None


def function_of(text: str, kernel: str) -> str:
    """The C++ function of a kernel with the comment above it."""
    blocks = text.split("\n\n")
    for k, block in enumerate(blocks):
        if block.startswith(f"// {kernel}: "):
            end = next((j for j in range(k + 1, len(blocks)) if blocks[j].startswith(("// ", 'extern "C"'))), len(blocks))
            return "\n\n".join(blocks[k:end])
    return ""


# -- the smaller program -----------------------------------------------------------------------------------------------


def with_repro(found: Difference, call: GraphCall, shows: dict) -> Difference:
    """The finding with a file that shows it alone; the node is then the one that the small program ends with."""
    small = minifier.minify(call.graph, call.inputs, call.seed, call.base, nodes_of(call.graph, found.kernel), **shows)
    if small is None:
        return replace(found, no_repro="none: the fault does not show in a part of the graph alone")
    node = next((n for n in reversed(small.graph.calls) if n.stack), None)
    found = found if node is None else replace(found, node=node.name, line=user_line(node))
    about = [
        "Found by `python -m flambeau bisect`: a stage computes something else than eager.",
        "",
        found.text(),
        "",
        "Exit status 1 while the fault is there.",
    ]
    return replace(found, repro=minifier.text_of(small, about))


def nodes_of(graph: Graph, kernel: str) -> list[str]:
    """The nodes that a kernel of that name computes, of the fused or else of the lowered program: from what it writes back to
    what it reads."""
    if not kernel:
        return []
    lowered = lower(graph, "forward")
    every = [each for program in (schedule(lowered), lowered) for each in program.kernels if each.name == kernel]
    if not every:
        return []
    given = {b.name for b in buffers_read(every[0])}
    wanted = {*(o.node for o in every[0].origins), *(b.name for b in buffers_written(every[0]))} - given
    found: dict[str, None] = {}
    for node in reversed(graph.nodes):
        if node.name in wanted and node.op in ("call_function", "get_attr"):
            found[node.name] = None
            wanted.update(x.name for x in node.inputs if x.name not in given)
    return list(found)
