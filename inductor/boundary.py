"""What stands between a program and its compiled graphs at every call.

In: a FunctionalGraph, an executable for its forward, and how to get one for its backward. Out: a callable with the captured
graph's inputs and result. The idea: a call is a transaction. Draws are reserved, the forward runs on fresh memory (a failed
check raises here, before anything was written), one autograd node is hung on the outputs, then mutated inputs take their new
values and aliases are rebuilt by eager view ops.
"""

from __future__ import annotations

import threading
import weakref
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
            call.attach(inner, values[self.inner:])
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
    """One call's facts that its backward needs. Inputs are held weakly: eager would not keep them either."""

    graph: CompiledGraph
    inputs: list
    seed: int
    base: int
    symbols: dict[str, Any]
    versions: tuple = ()

    def __post_init__(self):
        self.versions = tuple(x._version if isinstance(x, Tensor) else None for x in self.inputs)

    def loosen(self) -> None:
        """Keep the inputs only as weak references, unless a double backward has asked for more."""
        if not self.graph.training.keep_inputs:
            self.inputs = [weakref.ref(x) if isinstance(x, Tensor) else x for x in self.inputs]

    def attach(self, inner: list, results: list) -> None:
        """Hang one autograd node on the outputs. It saves what the partition chose, with versions as of now."""
        training, pair, extra = self.graph.training, self.graph.training.first, iter(results)
        saved = {name: self.inputs[pair.saved_inputs[name]] if name in pair.saved_inputs else next(extra) for name in pair.saved}
        numbers = {name: v for name, v in saved.items() if not isinstance(v, Tensor)}
        names = [name for name in saved if name not in numbers]
        own_outputs(inner, training.reached, self.inputs)
        wanted = [self.inputs[k] for k in training.requires]
        tensors = [saved[name] for name in names]

        def backward(*grads, needs, saved):
            return self.backward(grads, needs, dict(zip(names, saved)) | numbers)

        autograd.attach([inner[k] for k in training.reached], wanted, backward, tensors, "CompiledBackward", with_saved=True)
        self.loosen()

    def backward(self, grads: tuple, needs: tuple, saved: dict) -> list:
        """Gradients of the inputs that need one: the compiled backward of this pattern, or the recorded forward again."""
        training = self.graph.training
        present = frozenset(k for k, g in zip(training.reached, grads) if g is not None)
        if not present:
            return [None] * len(needs)
        if state.grad:
            return self.again(grads, needs, saved, create_graph=True)
        try:
            part, run = training.backward(present)
        except Unsupported as late:
            counters.add("fallbacks", f"backward: {late.code}")
            return self.again(grads, needs, saved, create_graph=False)
        given = dict(zip(training.reached, grads))
        arguments = [saved[name] for name in part.saved] + [self.symbols[name] for name in part.sizes]
        places = part.backward.inputs[len(arguments):]
        arguments += [self.fitted(given[k], node.value) for k, node in zip(part.tangents, places)]
        values = run(arguments, self.seed, self.base)
        found = (part.gradients[k] for k in training.requires)
        return [values[at] if at is not None and need else None for at, need in zip(found, needs)]

    def fitted(self, grad: Tensor, like: Tensor) -> Tensor:
        """The gradient in the strides that the backward was compiled for."""
        strides = tuple(evaluate_number(s, self.symbols) for s in like.stride())
        if all(a == b or n == 1 for a, b, n in zip(grad.stride(), strides, grad.shape)):
            return grad
        return restride(grad, strides)

    # -- through the recorded forward ----------------------------------------------------------------------------
    def again(self, grads: tuple, needs: tuple, saved: dict, create_graph: bool) -> list:
        """Run the functional forward under recording, with the same draws, and differentiate that."""
        training, functional = self.graph.training, self.graph.functional
        inputs = self.primal_inputs(saved)
        with recording(True):
            inputs = [find("alias")(x) if isinstance(x, Tensor) and x.requires_grad else x for x in inputs]
            outputs = Interpreter(functional.graph).run(*inputs, seed=self.seed, base=self.base)
        roots = [(outputs[k], g) for k, g in zip(training.reached, grads) if g is not None and outputs[k].requires_grad]
        wanted = [k for k, need in zip(training.requires, needs) if need]
        if not roots or not wanted:
            return [None] * len(needs)
        found = autograd.grad([t for t, _ in roots], [inputs[k] for k in wanted], [g for _, g in roots],
                              create_graph=create_graph, allow_unused=True)
        by_input = dict(zip(wanted, found))
        return [by_input.get(k) for k in training.requires]

    def primal_inputs(self, saved: dict) -> list:
        names = self.graph.names
        inputs = []
        for k, x in enumerate(self.inputs):
            tensor = x() if isinstance(x, weakref.ref) else x
            tensor = saved.get(names[k]) if tensor is None else tensor
            if tensor is None:
                self.graph.training.keep_inputs = True
                raise RuntimeError(f"a double backward runs the compiled forward again, and its input {names[k]} is gone. Calls from "
                                   "now on keep their inputs: run the forward again.")
            if isinstance(tensor, Tensor) and tensor._version != self.versions[k]:
                raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace operation: "
                                   f"input {names[k]} of a compiled graph, {list(tensor.shape)}, is at version {tensor._version}; expected "
                                   f"version {self.versions[k]} instead (a double backward runs the forward again)")
            inputs.append(tensor)
        return inputs


def own_outputs(inner: list, reached: list[int], inputs: list) -> None:
    """An output that autograd will hang its node on must be a tensor object of its own."""
    taken = {id(x) for x in inputs}
    for k in reached:
        if id(inner[k]) in taken:
            inner[k] = inner[k]._alias()
        taken.add(id(inner[k]))
