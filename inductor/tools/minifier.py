"""A graph that compiled code gets wrong, made smaller until nothing more can be left out.

In: a graph, the inputs that it got, the nodes that are suspected. Out: the text of a file that fails alone (repro.py). The
idea: the suspected nodes alone, with what they read as inputs; then outputs and nodes are taken away one by one, as long as
the compiled program still differs from eager. A node that goes becomes an input with its right value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...capture.graph.graph import Graph, Interpreter, Node, bind_symbols
from ...capture.shapes.symbolic_shapes import ShapeEnv
from ...eager.state import recording
from ...eager.tensor import Tensor
from ...runtime.config import config
from ...runtime.errors import FlambeauError
from .. import driver
from ..graph import passes
from . import repro
from ..runtime import compare_stages
from ..graph.verify import differs

TRIES = 60  # programs that are compiled on the way, each a fraction of a second
REFUSED = (FlambeauError, RuntimeError, ValueError, TypeError, IndexError, KeyError, ArithmeticError)


@dataclass(frozen=True)
class FailingProgram:
    """A graph over known sizes (or with `dynamic` over symbols), its inputs, and what shows the fault: all passes with
    gradients, the loop interpreter, or C++."""

    graph: Graph
    inputs: tuple
    dynamic: bool = False
    gradients: bool = False
    loops: bool = False

    def fault(self) -> str | None:
        """How its compiled form differs, in words; None where it agrees, or cannot be run."""
        try:
            with config.patch(verify=False, strict=True):
                if self.gradients:
                    return repro.whole_difference(self.graph, self.inputs)
                return repro.difference(self.graph, self.inputs, self.loops)
        except REFUSED:
            return None


def code_differs(graph: Graph, inputs: Sequence, seed: int, base: int) -> str | None:
    """How the C++ of a graph as it stands differs from eager."""
    with recording(False):
        expected = Interpreter(graph).run(*map(compare_stages.own_copy_of, inputs), seed=seed, base=base)
        run, given = driver.compile_alone(graph), [compare_stages.own_copy_of(x) for x in inputs]
        repro.dirty(repro.flat(expected))
        actual = run(given, seed, base)
    return differs(repro.flat(expected), list(actual))


def minify(graph: Graph, inputs: Sequence, seed: int, base: int, suspects: Sequence[str], **shows: bool) -> FailingProgram | None:
    """The smallest program found that has the fault; None where none has it. `shows`: gradients or loops of Program."""
    values = repro.every_value(graph, inputs, seed, base)
    for names in growing(graph, suspects):
        for dynamic in (False, True):
            program = extract_part(graph, inputs, values, names, FailingProgram(graph, (), dynamic, **shows))
            problem = program.fault() if program is not None else None
            if program is not None and problem:
                return reduce_program(program, problem)
    return None


def growing(graph: Graph, suspects: Sequence[str]) -> Iterator[set[str]]:
    """Sets of nodes to try: the suspects, then with what they read and who reads them, then all."""
    everything = {n.name for n in graph.calls}
    names = {name for name in suspects if name in everything}
    if names:
        yield names
        near = {x.name for n in graph.nodes if n.name in names for x in (*n.inputs, *n.users)}
        yield (names | near) & everything
    yield everything


def extract_part(
    graph: Graph, inputs: Sequence, values: dict[str, Any], names: set[str], like: FailingProgram
) -> FailingProgram | None:
    """The nodes of these names as a program of its own, like another in the rest: what they read from outside are its inputs."""
    chosen = [n for n in graph.calls if n.name in names]
    given = {n.name: x for n, x in zip(graph.inputs, inputs)}
    if like.gradients:  # cut nowhere: a gradient flows through the whole
        outside = [n for n in graph.nodes if n.op in ("placeholder", "get_attr")]
    else:
        outside = [x for x in dict.fromkeys(x for n in chosen for x in n.inputs) if x not in set(chosen)]
    results = [n for n in chosen if isinstance(n.value, Tensor) and is_result(n, names)]
    arguments = [given[n.name] if n.name in given else values[n.name] for n in outside]
    if not results or any(isinstance(x, (tuple, list)) for x in arguments):
        return None

    recorder = repro.DrawNumbering(Graph(ShapeEnv()))

    def function(*tensors: Tensor) -> tuple:
        return run(chosen, results, dict(zip(outside, tensors)), graph, recorder)

    try:
        traced = repro.graph_of(function, arguments, like.dynamic, recorder)
        return replace(like, graph=traced, inputs=tuple(map(compare_stages.own_copy_of, arguments)))
    except REFUSED:
        return None


def is_result(node: Node, names: set[str]) -> bool:
    """Read from outside of the part, or by nothing."""
    return not node.users or any(user.name not in names for user in node.users)


def run(
    chosen: Sequence[Node], results: Sequence[Node], known: dict[Node, Any], graph: Graph, recorder: repro.DrawNumbering
) -> tuple:
    """The nodes' values, from those of what they read."""
    player = Interpreter(graph)
    player.seed, player.base = None, 0
    player.values = dict(known)
    for node, value in known.items():
        bind_symbols(node.value, value, player.symbols)
    for node in chosen:
        player.values[node] = value = call(player, node, recorder)
        bind_symbols(node.value, value, player.symbols)
    return tuple(player.values[n] for n in results)


def call(player: Interpreter, node: Node, recorder: repro.DrawNumbering) -> Any:
    """One node under the recorder, which keeps its name and the user's line; draws are numbered anew."""
    args = player.fetch(node.args)
    if node.is_getitem:
        return args[0][args[1]]
    recorder.stack, recorder.wanted = node.stack, (node.target, node.name)
    return node.target(*args)


# -- taking away -------------------------------------------------------------------------------------------------------


def reduce_program(program: FailingProgram, problem: str) -> FailingProgram:
    """Take away parts as long as the fault stays: other values, or an error."""
    tried, progress = set(), True
    while progress and len(tried) < TRIES:
        progress = False
        for candidate in candidates(program):
            text = candidate.graph.print_python()
            if text in tried or len(tried) >= TRIES:
                continue
            tried.add(text)
            if same_kind(problem, candidate.fault()):
                program, progress = candidate, True
                break
    return program


def same_kind(problem: str, other: str | None) -> bool:
    return bool(other) and problem.startswith(repro.RAISES) == other.startswith(repro.RAISES)


def candidates(program: FailingProgram) -> Iterator[FailingProgram]:
    """Programs with an output or a node less."""
    outputs = list(program.graph.output.args[0])
    for k in range(len(outputs) if len(outputs) > 1 else 0):
        rest = outputs[:k] + outputs[k + 1 :]
        yield change_copy(program, lambda graph, table, rest=rest: graph.set_output(tuple(table[n] for n in rest)))
    yield from earlier(program, outputs)
    for node in program.graph.calls:
        yield from bypass_candidates(program, node)
    for node in program.graph.calls if not program.gradients else ():
        made = without(program, node.name)
        if made is not None:
            yield made


def earlier(program: FailingProgram, outputs: list) -> Iterator[FailingProgram]:
    """The last node goes: what it read is the output."""
    if len(outputs) > 1:
        return
    for read in outputs[0].inputs:
        if read.op == "call_function" and isinstance(read.value, Tensor):
            yield change_copy(program, lambda graph, table, read=read: graph.set_output((table[read],)))


def bypass_candidates(program: FailingProgram, node: Node) -> Iterator[FailingProgram]:
    """Who reads a node reads what it reads, where that has the same geometry."""
    for read in node.inputs if isinstance(node.value, Tensor) else ():
        if isinstance(read.value, Tensor) and described(read.value) == described(node.value) and read.op != "get_attr":
            yield change_copy(program, lambda graph, table, read=read: bypass(graph, table[node], table[read]))


def described(value: Tensor) -> tuple:
    return str(value.dtype), tuple(map(str, value.shape)), tuple(map(str, value.stride()))


def bypass(graph: Graph, node: Node, read: Node) -> None:
    graph.replace_all_uses(node, read)
    graph.erase(node)


def change_copy(program: FailingProgram, change: Callable) -> FailingProgram:
    """A copy of the program after a change, without what nothing needs any more."""
    graph, table = program.graph.copy()
    change(graph, table)
    return tidied(replace(program, graph=graph))


def tidied(program: FailingProgram) -> FailingProgram:
    passes.remove_dead(program.graph)
    kept = [
        (n, x) for n, x in zip(program.graph.inputs, program.inputs) if n.users or not isinstance(x, Tensor) or program.dynamic
    ]
    for node in program.graph.inputs:
        if all(node is not n for n, _ in kept):
            program.graph.erase(node)
    return replace(program, inputs=tuple(x for _, x in kept))


def without(program: FailingProgram, name: str) -> FailingProgram | None:
    """The node's right value as an input in its place."""
    graph, _ = program.graph.copy()
    node = graph.find(name)
    outputs = graph.output.args[0]
    if not isinstance(node.value, Tensor) or any(node is n for n in outputs):
        return None
    value = repro.every_value(program.graph, program.inputs, repro.SEED, repro.BASE)[name]
    given = graph.placeholder(name, node.value)
    graph.replace_all_uses(node, given)
    graph.erase(node)
    return tidied(replace(program, graph=graph, inputs=(*program.inputs, value)))


# -- the file ----------------------------------------------------------------------------------------------------------


def text_of(program: FailingProgram, about: Sequence[str]) -> str:
    """A file that fails alone, with drawn inputs where they show the fault too."""
    drawn = replace(program, inputs=tuple(repro.drawn_inputs(program.inputs)))
    plain = bool(drawn.fault())
    clean(program.graph)
    inputs = drawn.inputs if plain else program.inputs
    return repro.text_of(
        program.graph, inputs, about, plain, gradients=program.gradients, loops=program.loops, dynamic=program.dynamic
    )


def clean(graph: Graph) -> None:
    """No marks of recording in the text: the file runs its program without gradients, or with all."""
    for node in graph.calls:
        node.grad = True
