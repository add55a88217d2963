"""`report(f)`: everything about a compiled function that has run, gathered into `capture.report.data`.

In: what `compile` returned. Out: a `Report`. The idea: conversions leave plain records (`runtime/compile_log.py`) with the
compiled object; graphs are turned into text only here, and each backend is asked to describe what it made of them.
"""

from __future__ import annotations

import gc
import linecache
import re
import sys
from typing import Any
from collections.abc import Callable, Iterable

from ...eager.nn.modules.module import Module
from ...eager.nn.parameter import Parameter
from ...eager.optim.optimizer import Optimizer
from ...eager.tensor import Tensor
from ...runtime import native, compile_log
from ..report import data, roofline, timeline
from ..report.report import Report
from ..shapes import solutions
from .api import living
from .backends import Backend
from ..graph.graph import Graph, Node, constant_text, describe, evaluate_number
from ..graph.source_map import sources_of
from .module import doors_of
from ..graph.data_dependent import Subgraph, SplitGraph

RESUME = re.compile(r"<resume (.+) at (\d+)>")
KINDS = {"wrapper": "function", "resume": "resume", "frame": "nested"}


def report(f: Callable) -> Report:
    """What the compiler made of `f`, which `compile` returned and which has been called: source lines, graphs, guards,
    breaks, recompiles, kernels with their times, memory. It prints (`str`, `.show()`), converts (`.to_dict()`) and draws
    itself (`.html(path)`). Kernels are timed with made-up inputs."""
    owner = compiled_of(f)
    if owner is None:
        raise TypeError(f"report() takes what compile() returned, not {type(f).__name__}: compile it, call it, then ask")
    return ReportBuilder(owner, f).report()


def last_reports() -> list[Report]:
    """Reports of all compiled functions that are alive and have been called, in the order of their first call."""
    owners = [owner for owner in living() if owner.records]
    return [ReportBuilder(owner).report() for owner in sorted(owners, key=lambda owner: owner.records[0].ident)]


def compiled_of(f: Any) -> Any:
    """The Compiled object behind a compiled function or module, one compiled in place too."""
    found = doors_of(f)
    if found is None and isinstance(f, Module):
        found = doors_of(f.__dict__.get("forward"))
    return found


class ReportBuilder:
    """One report in the making."""

    def __init__(self, owner: Any, f: Any = None):
        self.owner, self.f, self.records = owner, f, list(owner.records)
        self.graphs: list[data.Graph] = []
        self.nodes: list[list[Node]] = []  # of each graph, as `Graph.nodes` there
        self.notes: list[str] = []

    def report(self) -> Report:
        frames = [self.frame(number, record) for number, record in enumerate(self.records)]
        plain = [
            data.Plain(name_of(door.code), door.code.co_filename, door.code.co_firstlineno, door.plain)
            for door in self.owner.all_doors()
            if door.plain
        ]
        if not frames and not plain:
            self.notes.append("It has not been called yet, so nothing is compiled.")
        return Report(
            self.title(),
            version(),
            self.owner.settings.backend_name,
            roofline.roofline(self.kernels()),
            frames,
            self.graphs,
            sources_of(self.records, self.nodes),
            self.memory(),
            plain,
            list(dict.fromkeys(self.notes)),
        )

    def kernels(self) -> list[data.Kernel]:
        return [kernel for graph in self.graphs for program in graph.programs for kernel in program.kernels]

    def title(self) -> str:
        if isinstance(self.f, Module):
            return type(self.f).__name__
        wrapper = self.owner.wrapper()
        code = wrapper.code if wrapper is not None else self.records[0].function if self.records else None
        return name_of(code) if code is not None else "a function"

    # -- frames

    def frame(self, number: int, record: compile_log.CompileRecord) -> data.Frame:
        code = record.function
        graphs = [k for made in record.graphs for k in self.described(*made)]
        self.notes += [note for note in record.notes if "loop interpreter" in note]
        start = min((span.start for span in record.spans), default=0.0)
        spans = sorted(
            (data.Span(s.name, s.start - start, s.end - s.start, s.depth) for s in record.spans),
            key=lambda span: (span.start, span.depth),
        )
        seconds = max((span.start + span.seconds for span in spans), default=0.0)
        breaks = [data.Break(b.code, b.text, b.file, b.line, source_line(b.file, b.line), b.fix, b.plain) for b in record.breaks]
        guards = [guard_of(line) for line in record.texts.get("guards.txt", "").splitlines() if line.strip()]
        version = sum(other.function is code for other in self.records[:number])
        kind = KINDS.get(record.door, record.door)
        return data.Frame(
            number,
            version,
            name_of(code),
            code.co_filename,
            code.co_firstlineno,
            kind,
            seconds,
            guards,
            breaks,
            record.failed,
            graphs,
            spans,
            record.cached,
            record.left,
        )

    # -- graphs

    def described(self, graph: Graph, backend: Backend, compiled: Any) -> Iterable[int]:
        """Numbers of the graphs: one, or one for each piece between reads of data."""
        if isinstance(compiled, SplitGraph):
            for step in compiled.steps:
                if isinstance(step, Subgraph) and step.compiled is not None:
                    yield self.add(step.graph, backend, step.compiled)
        else:
            yield self.add(graph, backend, compiled)

    def add(self, graph: Graph, backend: Backend, compiled: Any) -> int:
        number = len(self.graphs)
        calls = graph.operations
        place = {node: k for k, node in enumerate(calls)}
        place.update((n, place[n.args[0]]) for n in graph.calls if n.is_getitem)
        made = data.Graph(
            number,
            f"graph {number}",
            inputs_of(graph),
            [node_data(n, place) for n in calls],
            [describe(n.value) for n in graph.output.inputs],
            symbols_of(graph),
        )
        made.texts["graph.py"] = graph.print_python()
        if backend.describe is None:
            made.note = "The backend says nothing of what it made."
        else:
            made.programs, texts, made.note = backend.describe(graph, compiled)
            made.texts.update(texts)
        for p, program in enumerate(made.programs):
            for k, kernel in enumerate(program.kernels):
                for node in (*kernel.nodes, *kernel.inlined):
                    made.nodes[node].kernels.append((p, k))
        self.graphs.append(made)
        self.nodes.append(calls)
        return number

    # -- memory

    def memory(self) -> data.Memory:
        given = {id(t): t for record in self.records for ref in record.inputs if ref is not None and (t := ref()) is not None}
        if isinstance(self.f, Module):
            given.update((id(t), t) for t in (*self.f.parameters(), *self.f.buffers()))
        lasting = [t for t in given.values() if isinstance(t, Parameter) or t.requires_grad and t.is_leaf or self.owns(t)]
        gradients = [t.grad for t in lasting if t.grad is not None]
        moments = timeline.moments(self.graphs)
        in_call = max((m.activations + m.gradients for m in moments), default=0)
        kept, given_back, states = (sum(map(size, tensors)) for tensors in (lasting, gradients, states_of(lasting)))
        fresh = max((m.gradients for m in moments), default=0)  # gradients that a call makes become those that are kept
        return data.Memory(
            kept,
            given_back,
            states,
            max((m.activations for m in moments), default=0),
            kept + states + in_call + max(0, given_back - fresh),
            moments,
            dict(native.memory()),
        )

    def owns(self, tensor: Tensor) -> bool:
        return isinstance(self.f, Module) and any(tensor is buffer for buffer in self.f.buffers())


def name_of(code: Any) -> str:
    """A function's name within the one that defines it; what goes on behind a graph break says where."""
    return RESUME.sub(r"\1, behind line \2", code.co_qualname).split("<locals>.")[-1]


def version() -> str:
    return getattr(sys.modules.get(__name__.partition(".")[0]), "__version__", "")


def size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.dtype.itemsize


def states_of(parameters: Iterable[Tensor]) -> list[Tensor]:
    """Tensors that living optimizers keep for these parameters."""
    known = {id(t) for t in parameters}
    optimizers = [o for o in gc.get_objects() if isinstance(o, Optimizer)]
    return [
        value
        for o in optimizers
        for parameter, state in o.state.items()
        if id(parameter) in known
        for value in state.values()
        if isinstance(value, Tensor)
    ]


def guard_of(line: str) -> data.Guard:
    text, _, where = line.partition("   # ")
    return data.Guard(text.strip(), where.strip())


def source_line(file: str, line: int) -> str:
    return linecache.getline(file, line).strip()


# -- one graph


def node_data(node: Node, place: dict[Node, int]) -> data.Node:
    file, line = node.stack[-1][:2] if node.stack else ("", 0)
    args = ", ".join(map(constant_text, node.args))
    name = getattr(node.target, "name", None) or getattr(node.target, "__name__", str(node.target))
    return data.Node(
        node.name,
        name,
        args,
        describe(node.value),
        getattr(node.stack, "module", ""),
        file,
        line,
        sorted({place[n] for n in node.inputs if n in place}),
    )


def inputs_of(graph: Graph) -> list[data.Input]:
    hints = {} if graph.env is None else graph.env.examples()
    return [data.Input(n.name, n.source or "", describe(n.value), role(n), bytes_of(n.value, hints)) for n in graph.inputs]


def role(node: Node) -> str:
    if not isinstance(node.value, Tensor):
        return "number"
    if node.value.requires_grad and node.value.is_leaf:
        return "parameter"
    return "argument" if (node.source or "").isidentifier() else "buffer"


def bytes_of(value: Any, hints: dict) -> int:
    if not isinstance(value, Tensor):
        return 0
    total = value.dtype.itemsize
    for n in value.shape:
        total *= evaluate_number(n, hints)
    return total


def symbols_of(graph: Graph) -> list[data.Symbol]:
    if graph.env is None:
        return []
    env = graph.env
    return [
        data.Symbol(
            s.name, ", ".join(s.sources), "only the data knows" if s.hint is None else str(s.hint), values_of(env, s.name)
        )
        for s in env.symbols.values()
    ]


def values_of(env: Any, name: str) -> str:
    """Which values this code takes."""
    found = None if env.symbols[name].kind == "float" else solutions.accepted_values(env, name)
    return "" if found is None else found.text(name)
