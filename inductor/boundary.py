"""What stands between a program and its compiled graphs at every call.

In: a FunctionalGraph, an executable for its forward, and how to get one for its backward. Out: a callable with the
captured graph's inputs and result. The idea: a call is a transaction. Draws are reserved, the forward runs on fresh
memory (a failed check raises here, before anything was written), one autograd node is hung on the outputs, then
mutated inputs take their new values and aliases are rebuilt by eager view ops.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from collections.abc import Callable, Sequence

import numpy as np

from ..capture.graph import Interpreter, evaluate_number, map_args
from ..eager import autograd, random
from ..eager._call import written
from ..eager.op import find
from ..eager.state import recording, state
from ..eager.tensor import Tensor
from ..runtime import counters, locks
from ..runtime.errors import CheckFailed, Unsupported
from .facts import Crossing, Fresh, IsInput, KeptFunctional, Slot, ViewOfInput, ViewOfOutput
from .records import restride

if TYPE_CHECKING:
    from .functionalize import FunctionalGraph

Executable = Callable[[list, int, int], list]           # (inputs, seed, base) -> outputs


@dataclass
class Training:
    """The backward of one compiled forward: one executable per set of outputs that receive a gradient.

    `requires`: numbers of the inputs that need a gradient; `reached`: inner outputs that can receive one; `make`:
    compiles the backward of a set of these; `shown`: saved results whose bytes the caller sees, or another saved one.
    """

    first: Crossing
    requires: list[int]
    reached: list[int]
    make: Callable[[frozenset], tuple[Crossing, Executable]]
    made: dict[frozenset, tuple[Crossing, Executable]] = field(default_factory=dict)
    keep_inputs: bool = False
    shown: frozenset | None = None
    lock: Any = field(default_factory=locks.fresh)

    def __post_init__(self):
        first = self.first
        self.places = [(name, first.saved_inputs.get(name)) for name in first.saved]
        self.numbers = {name for name, strides in zip(first.saved, first.strides) if strides is None}
        self.tensors = [name for name in first.saved if name not in self.numbers]
        self.all_reached = frozenset(self.reached)
        self.strides: dict[int, tuple | None] = {}          # id of a crossing -> fixed strides of its tangents, or None

    def look(self, results: list, seen: list) -> None:
        """Which saved results share memory with what the caller has: the same in every call, so the first one tells."""
        names = [name for name, at in self.places if at is None]
        arrays = {name: t._array for name, t in zip(names, results) if isinstance(t, Tensor)}
        seen = [t._array for t in seen if isinstance(t, Tensor)]
        self.shown = frozenset(
            name for name, a in arrays.items()
            if any(np.may_share_memory(a, b) for b in (*seen, *(x for n, x in arrays.items() if n != name)))
        )

    def backward(self, present: frozenset) -> tuple[Crossing, Executable]:
        found = self.made.get(present)
        if found is None:
            with self.lock:
                if present not in self.made:
                    self.made[present] = self.make(present)
                found = self.made[present]
        return found

    def tangents(self, part: Crossing) -> tuple | None:
        """The strides in which a backward takes its gradients, where they are numbers."""
        if id(part) not in self.strides:
            strides = part.strides[len(part.strides) - len(part.tangents):]
            fixed = all(type(s) is int for each in strides for s in each)
            self.strides[id(part)] = strides if fixed else None
        return self.strides[id(part)]


class Around:
    """A target computes each value once and never returns an input: outputs that are inputs, or the same value again, are
    put in here. places: per output (made by `run`?, its number there or among the inputs); `run` is None where nothing
    is computed."""

    def __init__(self, run: Executable | None, places: Sequence[tuple[bool, int]]):
        self.run, self.places, self.overwrites = run, tuple(places), getattr(run, "overwrites", frozenset())

    def __call__(self, given: list, seed: int, base: int) -> list:
        values = () if self.run is None else self.run(given, seed, base)
        return [values[k] if made else given[k] for made, k in self.places]


class CompiledGraph:
    """Call it with the captured graph's inputs."""

    def __init__(
        self, functional: FunctionalGraph | KeptFunctional, forward: Executable, training: Training | None = None,
        constants: tuple = ()
    ):
        self.functional, self.forward, self.training, self.constants = functional, forward, training, list(constants)
        outline = functional.outline
        self.draws, self.inner, self.names, self.sources = outline.draws, outline.inner, outline.names, outline.sources
        self.mutated = tuple((m.input, m.output) for m in functional.mutated)
        self.simple = self._simple_structure()
        self.plain = self.simple and training is None and not self.draws and not self.constants

    def _simple_structure(self) -> bool:
        """The result is a flat tuple of fresh tensors, and nothing is written: the common case needs no rebuilding."""
        functional = self.functional
        slots = (
            [s.index if isinstance(s, Slot) else None for s in functional.structure]
            if type(functional.structure) is tuple
            else None
        )
        fresh = [o.index if isinstance(o, Fresh) else None for o in functional.outputs]
        return not functional.mutated and slots == fresh == list(range(self.inner))

    @property
    def native_call(self) -> Any:
        """(inputs, seed, base) -> outputs without Python in between, where a call is nothing but a launch; else None.
        """
        return getattr(self.forward, "launcher", None) if self.plain else None

    def __call__(self, *inputs):
        if self.plain:
            return tuple(self.forward(list(inputs), 0, 0))
        inputs = [*inputs, *self.constants]
        seed, base, values = self._run(inputs)
        inner = values[:self.inner]
        if self.training is not None and state.grad:
            Call(self, inputs, seed, base, self._symbols(inputs)).attach(inner, values[self.inner:])
        if self.simple:
            return tuple(inner)
        self._commit(inputs, inner)
        return self._rebuild(inputs, inner, self._symbols(inputs))

    def _run(self, inputs: list) -> tuple[int, int, list]:
        """(seed, first ordinal, outputs of the forward)."""
        if not self.draws:
            return 0, 0, self.forward(inputs, 0, 0)
        generator = random.default_generator
        before = generator.get_state()
        seed, base = generator.reserve(self.draws)
        try:
            return seed, base, self.forward(inputs, seed, base)
        except CheckFailed:
            generator.set_state(before)                         # eager starts again from the same state
            raise

    def _symbols(self, inputs: list) -> dict[str, Any]:
        """Symbol -> its value in this call."""
        return {name: read_symbol(inputs[k], what, dim) for name, k, what, dim in self.sources} if self.sources else {}

    def _commit(self, inputs: list, inner: list) -> None:
        """Copy what the kernels did not write where it lies."""
        for k in written(inputs, inner, self.mutated):
            m = self.functional.mutated[k]
            with recording(state.grad and m.recorded):
                find("copy_")(inputs[m.input], inner[m.output])

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
        return map_args(
            self.functional.structure,
            lambda v: outputs[v.index] if isinstance(v, Slot) else evaluate_number(v, symbols),
        )


def replay(spec: ViewOfInput | ViewOfOutput, base: Tensor, symbols: dict) -> Tensor:
    """The view that eager would have made."""
    for step in spec.chain:
        with recording(state.grad and step.grad):
            base = step.op(base, *map_args(step.args, lambda v: evaluate_number(v, symbols)))
    return base


def read_symbol(value, what: str, dim: int):
    return value if what == "value" else value._sizes[dim] if what == "size" else value._strides[dim]


class Call:
    """One call's facts that its backward needs. Inputs are held as eager would: leaves, and what was saved; others
    weakly, unless a double backward has asked for more."""

    __slots__ = ("graph", "inputs", "versions", "seed", "base", "symbols")

    def __init__(self, graph: CompiledGraph, inputs: list, seed: int, base: int, symbols: dict[str, Any]):
        self.graph, self.inputs, self.seed, self.base, self.symbols = graph, inputs, seed, base, symbols
        self.versions = [x._version if isinstance(x, Tensor) else None for x in inputs]

    def attach(self, inner: list, results: list) -> None:
        """Hang one autograd node on the outputs. It saves what the partition chose, with versions as of now."""
        training, inputs, extra = self.graph.training, self.inputs, iter(results)
        numbers = {}
        tensors = []
        if training.shown is None:
            training.look(results, [*inner, *inputs])
        for name, at in training.places:
            value = next(extra) if at is None else inputs[at]
            if name in training.numbers:
                numbers[name] = value
            else:
                tensors.append(value)
        own_outputs(inner, training.reached, inputs)

        def backward(*grads, needs, saved, private):
            return self.backward(grads, needs, dict(zip(training.tensors, saved)) | numbers, private)

        autograd.attach([inner[k] for k in training.reached], [inputs[k] for k in training.requires], backward, tensors,
                        "CompiledBackward", with_saved=True)
        if not training.keep_inputs:
            self.inputs = [
                weakref.ref(x) if isinstance(x, Tensor) and (not x._requires_grad or x._grad_fn is not None) else x
                for x in inputs
            ]

    def backward(self, grads: tuple, needs: tuple, saved: dict, private: bool) -> list:
        """Gradients of the inputs that need one: the compiled backward of this pattern, or the recorded forward again.
        `private`: nobody will look at the saved values after this.
        """
        training = self.graph.training
        present = training.all_reached
        if any([g is None for g in grads]):
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
        strides = training.tangents(part) or [self.numbers_of(s) for s in part.strides[len(arguments):]]
        arguments += [fitted(given[k], wanted) for k, wanted in zip(part.tangents, strides)]
        for k in getattr(run, "overwrites", ()):
            if not private or part.saved[k] in training.shown:
                arguments[k] = restride(arguments[k], self.numbers_of(part.strides[k]))
        try:
            values = run(arguments, self.seed, self.base)
        except CheckFailed as failed:                           # no call that could be discarded: it is an error of this one
            raise RuntimeError(failed.check) from None
        found = (part.gradients[k] for k in training.requires)
        return [values[at] if at is not None and need else None for at, need in zip(found, needs)]

    def numbers_of(self, strides: tuple) -> tuple:
        return tuple(evaluate_number(s, self.symbols) for s in strides)

    # -- through the recorded forward --------------------------------------------------------------------------------
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
                raise RuntimeError(
                    f"a double backward runs the compiled forward again, and its input {names[k]} is gone. Calls from "
                    "now on keep their inputs: run the forward again."
                )
            if isinstance(tensor, Tensor) and tensor._version != self.versions[k]:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"input {names[k]} of a compiled graph, {list(tensor.shape)}, is at version {tensor._version}; "
                    f"expected version {self.versions[k]} instead (a double backward runs the forward again)"
                )
            inputs.append(tensor)
        return inputs


def fitted(grad: Tensor, strides: tuple) -> Tensor:
    """The gradient in the strides that the backward was compiled for."""
    own = grad._strides
    if own == strides or all(a == b or n == 1 for a, b, n in zip(own, strides, grad._sizes)):
        return grad
    return restride(grad, strides)


def own_outputs(inner: list, reached: list[int], inputs: list) -> None:
    """An output that autograd will hang its node on must be a tensor object of its own."""
    taken = {id(x) for x in inputs}
    for k in reached:
        if id(inner[k]) in taken:
            inner[k] = inner[k]._alias()
        taken.add(id(inner[k]))
