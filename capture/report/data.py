"""What a report says, as plain data: frames, graphs, kernels, memory, time.

Sizes are bytes, times seconds. Numbers of symbolic sizes are those of the first call. A node is known by its position among
its graph's nodes, a kernel by (program, position), a line by (file, number).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..shapes.expr import Expr, ExprLike, evaluate, free_vars, int_if_const, substitute, var


@dataclass
class Guard:
    """A fact that a call must meet, in words; `line`: the user's line that needs it, where there is one."""

    text: str
    line: str = ""


@dataclass
class Break:
    """Where a frame left the compiler: counted reason, what happened, what to do. `plain`: the whole frame runs in Python."""

    code: str
    text: str
    file: str
    line: int
    source: str
    fix: str
    plain: bool


@dataclass
class Span:
    """One stage of a compilation, `start` seconds after its beginning, inside of `depth` others."""

    name: str
    start: float
    seconds: float
    depth: int


@dataclass
class Frame:
    """One conversion of one frame. kind: function, resume (behind a break) or nested; failed: for each earlier version, the
    guards that the call did not meet, which made this one; graphs: numbers of graphs; cached: found in the store; version:
    its number among the conversions of this function; left: why compiled code could do no better than the function's own."""

    number: int
    version: int
    function: str
    file: str
    line: int
    kind: str
    seconds: float
    guards: list[Guard]
    breaks: list[Break]
    failed: list[str]
    graphs: list[int]
    spans: list[Span]
    cached: bool
    left: str = ""


@dataclass
class Node:
    """One operation of a captured graph; inputs: nodes that it reads; kernels: (program, position) of those that compute it."""

    name: str
    op: str
    args: str
    shape: str
    module: str
    file: str
    line: int
    inputs: list[int]
    kernels: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Input:
    """role: parameter, buffer, argument, number or constant."""

    name: str
    source: str
    shape: str
    role: str
    bytes: int


@dataclass
class Symbol:
    """A size or number that may differ from call to call; `places`: where it is read; `hint`: at the first call; `takes`: the
    values for which this code runs, where its guards say it of this symbol alone."""

    name: str
    places: str
    hint: str
    takes: str = ""


@dataclass
class Cost:
    """What is computed and moved as formulas in a graph's sizes. `work`, `moved`: as the passes write them; None where nobody
    counts the operations, which adds nothing to the sum of a graph."""

    work: ExprLike | None
    moved: ExprLike

    @property
    def flops(self) -> Any:
        """Operations on numbers, a sympy expression: an Integer where no size is symbolic, None where nobody counts them."""
        return None if self.work is None else sympy_of(self.work)

    @property
    def bytes(self) -> Any:
        """Bytes read and written, a sympy expression."""
        return sympy_of(self.moved)

    @property
    def symbols(self) -> dict[str, Any]:
        """The sizes that the formulas name, for `subs` and `lambdify`."""
        found = self.bytes.free_symbols | (set() if self.work is None else self.flops.free_symbols)
        return {symbol.name: symbol for symbol in sorted(found, key=str)}

    def at(self, **sizes: int) -> tuple[int | None, int]:
        """(operations, bytes) where the symbols have these values: `cost.at(s0=32, s1=128)`."""
        return (None if self.work is None else evaluate(self.work, sizes)), evaluate(self.moved, sizes)

    def renamed(self, name: Callable[[str], str]) -> Cost:
        return Cost(None if self.work is None else with_names(self.work, name), with_names(self.moved, name))


def sympy_of(e: ExprLike) -> Any:
    from ..shapes import sympy_bridge

    return sympy_bridge.to_sympy(e)


def with_names(e: ExprLike, name: Callable[[str], str]) -> ExprLike:
    return substitute(e, {v: var(name(v.name), v.atom.args[1]) for v in free_vars(e)})


def total(costs: Iterable[Cost]) -> Cost:
    costs = list(costs)
    return Cost(int_if_const(sum(c.work for c in costs if c.work is not None)), int_if_const(sum(c.moved for c in costs)))


@dataclass
class Kernel:
    """nodes: the operations whose results it makes; inlined: views and cheap operations that it computes on the way.
    kind: loops, product, convolution, scatter, runtime (a kernel of the runtime) or eager (a call back into eager).

    bytes and flops are those of the first call, `cost` has them as formulas. flops is None where nobody knows, and `seconds`
    where it was not measured; `bound`: the least time that this machine's memory and arithmetic allow; `code`: number of its
    function among the program's.
    """

    name: str
    kind: str
    headline: str
    nodes: list[int]
    inlined: list[int]
    lines: list[tuple[str, int]]
    why: list[str]
    reads: list[str]
    writes: list[str]
    bytes: int
    flops: int | None
    cost: Cost
    code: int | None
    seconds: float | None = None
    bound: float | None = None

    @property
    def share(self) -> float | None:
        """How much of the roofline it reaches; more than 1 where its data is in the caches."""
        return self.bound / self.seconds if self.seconds and self.bound is not None else None


@dataclass
class Block:
    """A buffer of the memory plan: alive from kernel `start` to kernel `end`; kind: saved, output, gradient or temp; `place`:
    the arena, memory of its own, or the buffer whose bytes it takes over."""

    name: str
    shape: str
    kind: str
    bytes: int
    start: int
    end: int
    place: str
    offset: int


@dataclass
class Program:
    """What runs at one launch: forward or backward. calls and seconds are those of real calls so far; `measured`: seconds of
    one call with made-up inputs, kernel by kernel."""

    name: str
    kernels: list[Kernel]
    functions: list[str]
    blocks: list[Block]
    arena: int
    calls: int = 0
    seconds: float = 0.0
    measured: float | None = None
    held: int = 0

    @property
    def cost(self) -> Cost:
        """Of one call: the sum of its kernels."""
        return total(kernel.cost for kernel in self.kernels)


@dataclass
class Graph:
    """A captured graph and what became of it; texts: file name -> the text of a stage; `note`: why something is missing."""

    number: int
    name: str
    inputs: list[Input]
    nodes: list[Node]
    outputs: list[str]
    symbols: list[Symbol]
    programs: list[Program] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def cost(self) -> Cost:
        """Of one call, forward and backward."""
        return total(program.cost for program in self.programs)


@dataclass
class Line:
    """status: graph (operations were captured here), break, python (runs in Python), or none (nothing to run, or decided
    while tracing)."""

    number: int
    text: str
    status: str
    nodes: list[tuple[int, int]] = field(default_factory=list)
    breaks: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Source:
    """A function whose lines were captured; nodes of a line as (graph, position), breaks as (frame, position)."""

    file: str
    function: str
    lines: list[Line]


@dataclass
class Moment:
    """Bytes in use while one kernel runs, and what is allocated for all of them."""

    graph: int
    program: int
    kernel: int
    label: str
    activations: int
    gradients: int
    held: int


@dataclass
class Plain:
    """A function that is not compiled (any more) where no version fits; reason: recompile limit, generator, not compiled."""

    function: str
    file: str
    line: int
    reason: str


@dataclass
class Memory:
    """The parts of memory: parameters and buffers, their gradients, the optimizer's state, and activations: the most bytes
    that one call has in use. `peak`: all of them at the worst moment. allocator: the allocator's own numbers."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    peak: int
    timeline: list[Moment]
    allocator: dict[str, int]


@dataclass
class Machine:
    """What this machine reaches: measured floating point operations and bytes a second, with `threads` threads."""

    threads: int
    isa: str
    flops: float
    bandwidth: float


@dataclass
class Facts:
    """Everything about one compiled function; `face.Report` shows it."""

    title: str
    version: str
    backend: str
    machine: Machine
    frames: list[Frame]
    graphs: list[Graph]
    sources: list[Source]
    memory: Memory
    plain: list[Plain]
    notes: list[str] = field(default_factory=list)

    @property
    def breaks(self) -> list[Break]:
        """Each once, however many versions of a function have it."""
        found: dict[tuple, Break] = {}
        for one in (one for frame in self.frames for one in frame.breaks):
            found.setdefault((one.file, one.line, one.code, one.plain), one)
        return list(found.values())

    @property
    def recompiles(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.failed]

    @property
    def kernels(self) -> list[Kernel]:
        return [kernel for graph in self.graphs for program in graph.programs for kernel in program.kernels]

    @property
    def cost(self) -> Cost:
        """Of all graphs, each called once; symbol s0 of graph k is s0_k where there are several graphs."""
        if len(self.graphs) == 1:
            return self.graphs[0].cost
        return total(graph.cost.renamed(lambda name: f"{name}_{graph.number}") for graph in self.graphs)

    @property
    def compile_seconds(self) -> float:
        return sum(frame.seconds for frame in self.frames)

    def to_dict(self) -> dict[str, Any]:
        """The same as dictionaries, lists and numbers; formulas as text."""
        return dataclasses.asdict(self, dict_factory=lambda pairs: {k: str(v) if isinstance(v, Expr) else v for k, v in pairs})

    def to_json(self) -> str:
        return json.dumps(self.to_dict())
