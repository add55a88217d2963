"""What stands between a program and its compiled graphs at every call.

In: a FunctionalGraph, an executable for its forward, and how to get one for its backward. Out: a callable with the captured
graph's inputs and result. The idea: a call is a transaction. Draws are reserved, the forward runs on fresh memory (a failed
check raises here, before anything was written), one autograd node is hung on the outputs, then mutated inputs take their new
values and aliases are rebuilt by eager view ops.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Callable

from ..capture.graph import Interpreter, bind_symbols, evaluate_number, map_args
from ..eager import autograd, random
from ..eager.op import find
from ..eager.state import recording, state
from ..eager.tensor import Tensor
from ..runtime import counters
from ..runtime.errors import CheckFailed, Unsupported
from .functionalize import Fresh, FunctionalGraph, IsInput, Slot, ViewOfInput, ViewOfOutput
from .joint import JointGraph
from .partition import Partition
from .records import restride

Executable = Callable[[list, int, int], list]           # (inputs, seed, base) -> outputs


@dataclass
class Training:
    """The backward of one compiled forward: one executable per set of outputs that receive a gradient.

    `requires`: numbers of the inputs that need a gradient; `reached`: inner outputs that can receive one; `make`: compiles the
    backward of a set of these.
    """

    first: Partition
    requires: list[int]
    reached: list[int]
    make: Callable[[frozenset], tuple[Partition, Executable]]
    made: dict[frozenset, tuple[Partition, Executable]] = field(default_factory=dict)
    keep_inputs: bool = False
    lock: Any = field(default_factory=threading.Lock)

    def backward(self, present: frozenset) -> tuple[Partition, Executable]:
        with self.lock:
            if present not in self.made:
                self.made[present] = self.make(present)
            return self.made[present]


class CompiledGraph:
    """Call it with the captured graph's inputs."""

    def __init__(self, functional: FunctionalGraph, forward: Executable, training: Training | None = None, constants: tuple = ()):
        self.functional, self.forward, self.training, self.constants = functional, forward, training, tuple(constants)
        graph = functional.graph
        self.draws = graph.draws
        self.inner = len(graph.output.args[0])
        self.placeholders = graph.inputs
        self.names = [n.name for n in self.placeholders]
        self.symbolic = bool(graph.symbol_sources())
        self.simple = self._simple_structure()

    def _simple_structure(self) -> bool:
        """The result is a flat tuple of fresh tensors, and nothing is written: the common case needs no rebuilding."""
        result = self.functional.structure
        return (type(result) is tuple and not self.functional.mutated and all(isinstance(o, Fresh) for o in self.functional.outputs)
                and [s.index if isinstance(s, Slot) else None for s in result] == list(range(len(self.functional.outputs)))
                and [o.index for o in self.functional.outputs] == list(range(self.inner)))

    def __call__(self, *inputs):
        inputs = [*inputs, *self.constants]
        values, call = self._run(inputs)
        inner = values[:self.inner]
        if self.training is not None and state.grad:
            _attach(call, inner, values[self.inner:])
        if self.simple:
            return tuple(inner)
        self._commit(inputs, inner)
        return self._rebuild(inputs, inner, call.symbols)

    def _run(self, inputs: list) -> tuple[list, Call]:
        seed = base = 0
        before = None
        if self.draws:
            before = random.default_generator.get_state()
            seed, base = random.default_generator.reserve(self.draws)
        try:
            with recording(False):
                values = self.forward(inputs, seed, base)
        except CheckFailed:
            if before is not None:                          # eager starts again from the same state
                random.default_generator.set_state(before)
            raise
        return values, Call(self, inputs, seed, base, self._symbols(inputs))

    def _symbols(self, inputs: list) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if self.symbolic:
            for node, value in zip(self.placeholders, inputs):
                bind_symbols(node.value, value, values)
        return values

    def _commit(self, inputs: list, inner: list) -> None:
        copy_ = find("copy_")
        for m in self.functional.mutated:
            with recording(state.grad and m.recorded):
                copy_(inputs[m.input], inner[m.output])

    def _rebuild(self, inputs: list, inner: list, symbols: dict):
        outputs: list = []
        for spec in self.functional.outputs:
            if isinstance(spec, Fresh):
                outputs.append(inner[spec.index])
            elif isinstance(spec, IsInput):
                outputs.append(inputs[spec.index])
            else:
                base = inputs[spec.index] if isinstance(spec, ViewOfInput) else inner[spec.index]
                outputs.append(replay(spec, base, symbols))
        return map_args(self.functional.structure, lambda v: outputs[v.index] if isinstance(v, Slot) else evaluate_number(v, symbols))


def replay(spec: ViewOfInput | ViewOfOutput, base: Tensor, symbols: dict) -> Tensor:
    """The view that eager would have made."""
    for step in spec.chain:
        with recording(state.grad and step.grad):
            base = step.op(base, *map_args(step.args, lambda v: evaluate_number(v, symbols)))
    return base


@dataclass
class Call:
    """One call's facts that its backward needs."""

    graph: CompiledGraph
    inputs: list
    seed: int
    base: int
    symbols: dict[str, Any]
