"""What a compiled graph needs at its calls, as plain data: how results alias, what crosses to the backward, how native
code is launched.

The passes make these, the boundary and the launcher read them, `runtime/graph_cache.py` writes them to files. Nothing here needs
the passes themselves, so that a process which finds its graph compiled imports none of them.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any
from collections.abc import Callable

from ...capture.graph.graph import Graph
from ...eager.op.op import Op
from ...eager.tensor import Tensor
from ...runtime.dataclass import data


@data
class ViewStep:
    """One view op of a chain: op(x, *args); `grad`: made while gradients were recorded."""

    op: Op
    args: tuple
    grad: bool
    stack: tuple = ()


@data
class Fresh:
    """Inner output number `index`, as it is."""

    index: int


@data
class IsInput:
    """The very tensor passed as input `index`."""

    index: int


@data
class ViewOfInput:
    index: int
    chain: tuple[ViewStep, ...]


@data
class ViewOfOutput:
    """A view of inner output `index` (which need not itself be returned); an empty chain is the same tensor again."""

    index: int
    chain: tuple[ViewStep, ...]


Output = Fresh | IsInput | ViewOfInput | ViewOfOutput


@data
class Mutation:
    """Input `input` gets the value of inner output `output`; `recorded`: by a copy_ that autograd sees."""

    input: int
    output: int
    recorded: bool


@data
class OutputSlot:
    """In the structure of the result: the place of output number `index`."""

    index: int


@data
class Outline:
    """Of a functional graph: random draws, number of inner outputs, names of inputs, and for each symbol (name, input,
    "size" | "stride" | "value", dim)."""

    draws: int
    inner: int
    names: tuple[str, ...]
    sources: tuple[tuple[str, int, str, int], ...]


def outline(graph: Graph) -> Outline:
    sources = tuple((name, *source) for name, source in graph.symbol_sources().items())
    return Outline(graph.draws, len(graph.output.args[0]), tuple(n.name for n in graph.inputs), sources)


@data
class Crossing:
    """What a backward takes, in this order: `saved` values (those in `saved_inputs` are graph inputs of that number, the
    others results of the forward), `sizes` (symbols), `tangents` (numbers of inner outputs).

    gradients: input number -> position among its outputs, or None; strides: of each of its inputs, None for a number;
    hidden: saved results that are no outputs for the caller.
    """

    saved: tuple[str, ...]
    saved_inputs: dict[str, int]
    sizes: tuple[str, ...]
    tangents: tuple[int, ...]
    gradients: dict[int, int | None]
    strides: tuple[tuple | None, ...]
    hidden: frozenset[str]


def strides_of(graph: Graph) -> tuple[tuple | None, ...]:
    """Of each input of a graph; None for a number."""
    return tuple(tuple(n.value.stride()) if isinstance(n.value, Tensor) else None for n in graph.inputs)


@data
class Launch:
    """How the native launcher calls one shared object.

    library: its content key; inputs: per graph input None (a number) or (dtype, sizes, strides, written), -1 where
    symbolic; outputs: (dtype, dimensions, number of the input whose memory it takes, or -1); results: (kind, number);
    externs: EagerCalls; `timed`: the code keeps times of kernels; overwrites: inputs whose bytes the code uses; title: what
    was compiled, for profiles; lines, regions: of each kernel the user's lines that it came from, and the names of the
    `record_function` blocks around them.
    """

    library: str
    inputs: tuple
    symbols: tuple
    floats: tuple[int, ...]
    outputs: tuple
    results: tuple
    plan_size: int
    checks: tuple[str, ...]
    kernels: tuple[str, ...]
    timed: bool
    overwrites: frozenset
    constants: tuple = ()
    externs: tuple = ()
    title: str = ""
    lines: tuple[tuple[str, ...], ...] = ()
    regions: tuple[tuple[str, ...], ...] = ()


@data
class TensorSpec:
    """A tensor argument or result of an eager call: its element type and number of dimensions."""

    dtype: Any
    rank: int


@data
class ScalarSpec:
    """A symbolic argument of an eager call: native code passes its value, the bits of a double if it is `real`."""

    real: bool = False


@data
class EagerCall:
    """An op between native kernels: its arguments with a Region for every tensor and a Number for every symbolic size."""

    op: Op
    args: tuple
    outputs: tuple[TensorSpec, ...]
    draw: int | None = None


@data
class CachedFunctional:
    """Stands for a functional graph whose passes were run by an earlier process; `remake` runs them when the graph
    itself is needed (double backward, a new pattern of gradients)."""

    outline: Outline
    mutated: list[Mutation]
    outputs: list[Output]
    structure: Any
    remake: Callable[[], Graph] = field(repr=False)
    made: Graph | None = field(default=None, repr=False)

    @property
    def graph(self) -> Graph:
        if self.made is None:
            self.made = self.remake()
        return self.made


def constant_names(graph: Graph) -> list[str]:
    """The constants of a captured graph in the order in which they become inputs."""
    return list(dict.fromkeys(n.target for n in reversed(graph.nodes) if n.op == "get_attr"))
