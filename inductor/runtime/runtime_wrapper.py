"""What stands between a program and its compiled graphs at every call.

In: a FunctionalGraph, an executable for its forward, and how to get one for its backward. Out: a callable with the
captured graph's inputs and result. The idea: a call is a transaction. Draws are reserved, the forward runs on fresh
memory (a failed check raises here, before anything was written), one autograd node is hung on the outputs, then
mutated inputs take their new values and aliases are rebuilt by eager view ops.
"""

from __future__ import annotations

import weakref
from dataclasses import field
from typing import TYPE_CHECKING, Any
from collections.abc import Callable, Sequence

import numpy as np

from ...capture.graph.graph import Interpreter, evaluate_number, map_args
from ...capture.state import preserve_thread_state
from ...eager import autograd, random
from ...eager._call import Passage, passages, remember, repeated, written
from ...eager.autograd.function import SavedList
from ...eager.dispatch import check_leaf
from ...eager.op.op import find
from ...eager.state import recording, state
from ...eager.tensor import Tensor
from ...runtime import counters, locks
from ...runtime.dataclass import data
from ...runtime.errors import CheckFailed, Unsupported
from ..cpp.launch import CppExecutable
from ..graph.schemas import Crossing, Fresh, IsInput, CachedFunctional, OutputSlot, ViewOfInput, ViewOfOutput
from ..graph.compiler_ops import restride
from ..pass_manager import Executable

if TYPE_CHECKING:
    from ..graph.functionalize import FunctionalGraph


@data(eq=False)
class FunctionExecutable:
    """An executable that is a function."""

    run: Callable[[list, int, int], list]
    overwrites: frozenset[int] = frozenset()

    def __call__(self, inputs: list, seed: int, base: int) -> list:
        return self.run(inputs, seed, base)


Backward = tuple[Crossing, Executable]
BackwardSource = Callable[[frozenset], Backward]  # gives the backward for the outputs that receive a gradient


@data
class CompiledBackward:
    """The backward of one compiled forward: one executable per set of outputs that receive a gradient.

    `requires`: numbers of the inputs that need a gradient; `reached`: inner outputs that can receive one; `steps`: of each of
    them, as bits, the eager steps on its way that save something; `made`: the backwards there are, the one for all of `reached`
    among them; `source`: is asked for others; `shown`: saved results whose bytes the caller sees, or another saved one, once the
    first call was `looked` at.
    """

    first: Crossing
    requires: list[int]
    reached: list[int]
    steps: Sequence[int]
    made: dict[frozenset, Backward]
    source: BackwardSource
    keep_inputs: bool = False
    shown: frozenset = frozenset()
    looked: bool | None = None
    lock: Any = field(default_factory=locks.fresh)

    def __post_init__(self):
        first, self.reached = self.first, list(self.reached)
        self.places = [(name, first.saved_inputs.get(name)) for name in first.saved]
        self.numbers = {name for name, strides in zip(first.saved, first.strides) if strides is None}
        self.tensors = [name for name in first.saved if name not in self.numbers]
        self.all_reached = frozenset(self.reached)
        self.plain = not self.numbers and not first.saved_inputs  # what is saved is what the forward gave for it
        made = iter(range(len(self.places)))
        self.origins = None if self.numbers else [(at is not None, next(made) if at is None else at) for _, at in self.places]
        self.ways: dict[frozenset, BackwardDispatch] = {}

    def look(self, results: list, seen: list) -> None:
        """Which saved results share memory with what the caller has: the same in every call, so the first one tells."""
        names = [name for name, at in self.places if at is None]
        arrays = {name: t._fl_array for name, t in zip(names, results) if isinstance(t, Tensor)}
        seen = [t._fl_array for t in seen if isinstance(t, Tensor)]
        self.shown = frozenset(
            name
            for name, a in arrays.items()
            if any(np.may_share_memory(a, b) for b in (*seen, *(x for n, x in arrays.items() if n != name)))
        )
        self.looked = True

    def backward(self, present: frozenset) -> Backward:
        found = self.made.get(present)
        if found is None:
            with self.lock:
                if present not in self.made:
                    self.made[present] = self.source(present)
                found = self.made[present]
        return found

    def dispatch_for(self, present: frozenset) -> BackwardDispatch:
        """The backward for outputs that receive a gradient, and how calls go to it."""
        found = self.ways.get(present)
        if found is None:
            found = self.ways[present] = preserve_thread_state(lambda: BackwardDispatch(self, *self.backward(present)))
        return found


class BackwardDispatch:
    """One backward, and how a call goes to it. saved: for each value it reads, its number among the saved tensors; grads: of each
    tangent among the gradients; strides: of each tangent; tangents: the same, where they are numbers; found: per input that needs
    a gradient its place among the results; plain: it takes nothing but these tensors; overwrites: numbers of the values whose
    bytes it uses; lie: in which strides it takes these."""

    __slots__ = ("part", "run", "overwrites", "lie", "saved", "grads", "strides", "tangents", "found", "plain")

    def __init__(self, training: CompiledBackward, part: Crossing, run: Executable):
        self.part, self.run, self.overwrites = part, native_of(run), tuple(run.overwrites)
        self.lie = {k: strides for k in run.overwrites if (strides := part.strides[k]) is not None}
        self.plain = not part.sizes and not training.numbers
        self.saved = [training.tensors.index(name) for name in part.saved] if self.plain else []
        self.grads = [training.reached.index(k) for k in part.tangents]
        tangents = part.strides[len(part.strides) - len(part.tangents) :]
        self.strides = tuple(each for each in tangents if each is not None)
        fixed = all(type(s) is int for each in self.strides for s in each)
        self.tangents = self.strides if fixed else None
        if not part.saved and any(training.steps):  # it counts which steps have run: nothing that was saved can tell
            self.tangents = None  # (so that no passage is taught)
        self.found = [part.gradients[k] for k in training.requires]


def native_of(run: Executable) -> Executable:
    """Its launcher, where that is all it calls."""
    return run.launcher if isinstance(run, CppExecutable) else run


class OutputAssembler:
    """A target computes each value once and never returns an input: outputs that are inputs, views of them or of what it
    computes, or the same value again, are put in here. places: per output (made by `run`?, its number there, or among the
    inputs and, behind them, the views); `run` is None where nothing is computed."""

    def __init__(
        self, run: Executable | None, places: Sequence[tuple[bool, int]], views: Sequence[ViewOfInput | ViewOfOutput] = ()
    ):
        self.run, self.places, self.views = run, tuple(places), tuple(views)
        self.overwrites = frozenset() if run is None else run.overwrites

    def __call__(self, given: list, seed: int, base: int) -> list:
        values = () if self.run is None else self.run(given, seed, base)
        bases = [(given if isinstance(view, ViewOfInput) else values)[view.index] for view in self.views]
        given = [*given, *(replay(view, base, {}) for view, base in zip(self.views, bases))]
        return [values[k] if made else given[k] for made, k in self.places]


def views_of(run: Executable) -> tuple[tuple[int, tuple], ...]:
    """What is made around an executable without computing: (number of what it gives, or -2 - that of an input; (op, args) of
    each step)."""
    return tuple(
        (-2 - view.index if isinstance(view, ViewOfInput) else view.index, tuple((step.op, step.args) for step in view.chain))
        for view in (run.views if isinstance(run, OutputAssembler) else ())
    )


def unwrap_outputs(run: Executable) -> tuple[Executable | None, list | None]:
    """(what computes, or None; of each output its number there, or -2 - that of an input or view; None: as they come)."""
    if not isinstance(run, OutputAssembler):
        return native_of(run), None
    return run.run and native_of(run.run), [k if made else -2 - k for made, k in run.places]


class CompiledGraph:
    """Call it with the captured graph's inputs."""

    def __init__(
        self,
        functional: FunctionalGraph | CachedFunctional,
        forward: Executable,
        training: CompiledBackward | None = None,
        constants: Sequence = (),
    ):
        self.functional, self.forward, self.training, self.constants = functional, forward, training, list(constants)
        self.run = native_of(forward)
        outline = functional.outline
        self.draws, self.inner, self.names, self.sources = outline.draws, outline.inner, outline.names, outline.sources
        self.mutated = np.array([(m.input, m.output) for m in functional.mutated], np.int64).tobytes()
        self.recorded = [m.input for m in functional.mutated if m.recorded]
        self.simple = self._simple_structure()
        self.plain = self.simple and training is None and not self.draws and not self.constants
        self.passage = self._passage()

    def _simple_structure(self) -> bool:
        """The result is a flat tuple of fresh tensors, and nothing is written: the common case needs no rebuilding."""
        functional = self.functional
        slots = (
            [s.index if isinstance(s, OutputSlot) else None for s in functional.structure]
            if type(functional.structure) is tuple
            else None
        )
        fresh = [o.index if isinstance(o, Fresh) else None for o in functional.outputs]
        return not functional.mutated and slots == fresh == list(range(self.inner))

    def _passage(self) -> Passage | None:
        """What launches and records calls without Python in between: all numbers are known."""
        training = self.training
        if training is None or not self.simple or training.origins is None or self.constants or self.sources:
            return None
        run, places = unwrap_outputs(self.forward)
        kept = [-2 - k if given else k for given, k in training.origins]
        return Passage(self, run, places, self.inner, training.reached, training.requires, kept, bool(self.draws))

    @property
    def native_call(self) -> Any:
        """(inputs, seed, base) -> outputs without Python in between, where a call is nothing but a launch, with a node on its
        results; else None.
        """
        if not self.plain:
            return self.passage
        return self.forward.launcher if isinstance(self.forward, CppExecutable) else None

    def attach(self, inputs: list, values: list, seed: int, base: int) -> list:
        """The forward's results with a node on them; these are all that the program sees."""
        inner = values[: self.inner]
        CallContext(self, inputs, seed, base, {}).attach(inner, values[self.inner :])
        return inner

    def reserve(self) -> tuple[int, int]:
        """(seed, first ordinal) of a call."""
        return random.default_generator.reserve(self.draws)

    def give_back(self, base: int) -> None:
        """The ordinals of a call that will be made again."""
        random.default_generator.give_back(base)

    def __call__(self, *given: Any) -> Any:
        if self.plain:
            return tuple(self.forward(list(given), 0, 0))
        inputs = [*given, *self.constants]
        for k in self.recorded if state.grad else ():
            check_leaf(inputs[k])  # what eager refuses has written nothing
        seed, base, values = self._run(inputs)
        inner = values[: self.inner]
        if self.training is not None and state.grad:
            CallContext(self, inputs, seed, base, self._symbols(inputs)).attach(inner, values[self.inner :])
        if self.simple:
            return tuple(inner)
        self._commit(inputs, inner)
        return self._rebuild(inputs, inner, self._symbols(inputs))

    def _run(self, inputs: list) -> tuple[int, int, list]:
        """(seed, first ordinal, outputs of the forward)."""
        if not self.draws:
            return 0, 0, self.run(inputs, 0, 0)
        seed, base = self.reserve()
        try:
            return seed, base, self.run(inputs, seed, base)
        except CheckFailed:
            self.give_back(base)  # eager starts again from the same state
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

    def _rebuild(self, inputs: list, inner: list, symbols: dict) -> Any:
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
            self.functional.structure, lambda v: outputs[v.index] if isinstance(v, OutputSlot) else evaluate_number(v, symbols)
        )


def replay(spec: ViewOfInput | ViewOfOutput, base: Tensor, symbols: dict) -> Tensor:
    """The view that eager would have made."""
    for step in spec.chain:
        with recording(state.grad and step.grad):
            base = step.op(base, *map_args(step.args, lambda v: evaluate_number(v, symbols)))
    return base


def read_symbol(value: Any, what: str, dim: int) -> Any:
    return value if what == "value" else value._fl_sizes[dim] if what == "size" else value._fl_strides[dim]


if TYPE_CHECKING:

    class Trained(CompiledGraph):
        """A compiled graph with a backward."""

        training: CompiledBackward


class CallContext:
    """One call's facts that its backward needs, of a graph that has one. Inputs are held as eager would: leaves, and what was
    saved; others weakly, unless a double backward has asked for more."""

    __slots__ = ("graph", "inputs", "versions", "numbers", "seed", "base", "symbols", "passage")
    graph: Trained
    passage: Any  # a `Passage`, or None where every call goes through Python

    def __init__(self, graph: CompiledGraph, inputs: list, seed: int, base: int, symbols: dict[str, Any]):
        self.graph = graph  # pyright: ignore[reportAttributeAccessIssue] (whoever makes a call has asked for `training`)
        self.inputs, self.seed, self.base, self.symbols = inputs, seed, base, symbols
        self.versions, self.numbers, self.passage = (), {}, graph.passage

    def attach(self, inner: list, results: list) -> None:
        """Hang one autograd node on the outputs. It saves what the partition chose, with versions as of now."""
        training, inputs = self.graph.training, self.inputs
        if training.looked is None:
            training.look(results, [*inner, *inputs])
        if repeated(inner, training.reached, inputs):
            own_outputs(inner, training.reached, inputs)
        tensors = results if training.plain else self._saved(results)
        autograd.attach(
            [inner[k] for k in training.reached],
            [inputs[k] for k in training.requires],
            self.backward,
            tensors,
            "CompiledBackward",
            with_saved=True,
            facts=self,
        )
        self.inputs, self.versions = remember(inputs, training.keep_inputs)

    def _saved(self, results: list) -> list:
        """The tensors that the backward reads; numbers among it stay here."""
        training, inputs = self.graph.training, self.inputs
        if training.origins is not None:
            return [inputs[k] if given else results[k] for given, k in training.origins]
        extra, tensors = iter(results), []
        for name, at in training.places:
            value = next(extra) if at is None else inputs[at]
            if name in training.numbers:
                self.numbers = {**self.numbers, name: value}
            else:
                tensors.append(value)
        return tensors

    def reads(self, grads: Sequence) -> set | None:
        """The numbers of the saved tensors that a backward without some of the gradients needs as they were; None: of all. A
        recorded one (`create_graph`) runs the forward again: it needs the inputs that are nowhere else."""
        training = self.graph.training
        present = frozenset([k for k, g in zip(training.reached, grads) if g is not None])
        if len(present) == len(grads):
            return None
        if state.grad:
            gone = {name for name, x in zip(self.graph.names, self.inputs) if isinstance(x, weakref.ref) and x() is None}
            return {k for k, name in enumerate(training.tensors) if name in gone}
        try:
            saved = training.dispatch_for(present).part.saved if present else ()
        except Unsupported:
            return None
        return {k for k, name in enumerate(training.tensors) if name in saved}

    def leads(self, grads: Sequence, needs: tuple) -> bool:
        """Whether a gradient that is asked for depends on one that is there: of other outputs it may be that alone."""
        training = self.graph.training
        present = frozenset([k for k, g in zip(training.reached, grads) if g is not None])
        if not present:
            return True
        try:
            found = training.dispatch_for(present).found
        except Unsupported:
            return True
        return any([need and at is not None for need, at in zip(needs, found)])

    def steps(self, grads: Sequence) -> tuple[int, list[int]]:
        """(The eager steps that save something and would run for these gradients, as bits; those of each output without one)."""
        present, others = 0, []
        for g, steps in zip(grads, self.graph.training.steps):
            if g is None:
                others.append(steps)
            else:
                present |= steps
        return present, others

    def backward(self, grads: Sequence, needs: tuple | None, saved: tuple, private: bool) -> list:
        """Gradients of the inputs that need one (`needs` None: all): the compiled backward of this pattern, or the recorded
        forward again. `private`: nobody will look at the saved values after this.
        """
        training = self.graph.training
        present = training.all_reached
        if any([g is None for g in grads]):
            present = frozenset([k for k, g in zip(training.reached, grads) if g is not None])
            if not present:
                return [None] * len(training.requires)
        if state.grad:
            return self.rerun_under_grad(grads, needs, saved, create_graph=True)
        try:
            way = training.dispatch_for(present)
        except Unsupported as late:
            counters.add("fallbacks", f"backward: {late.code}")
            return self.rerun_under_grad(grads, needs, saved, create_graph=False)
        if self.passage is not None and present is training.all_reached:
            self._teach(way)
        part = way.part
        arguments = [saved[k] for k in way.saved] if way.plain else self._arguments(part, saved)
        strides = way.tangents or [self.numbers_of(s) for s in way.strides]
        arguments += [restride_gradient(grads[k], wanted) for k, wanted in zip(way.grads, strides)]
        for k in way.overwrites:
            if not private or part.saved[k] in training.shown:
                arguments[k] = restride(arguments[k], self.numbers_of(way.lie[k]))
        try:
            values = way.run(arguments, self.seed, self.base)
        except CheckFailed as failed:  # no call that could be discarded: it is an error of this one
            raise RuntimeError(failed.check) from None
        if needs is None:
            return [None if at is None else values[at] for at in way.found]
        return [values[at] if at is not None and need else None for at, need in zip(way.found, needs)]

    def _teach(self, way: BackwardDispatch) -> None:
        """The next backward of this graph, and of its other calls, goes the same way without Python."""
        seen = self.graph.training.shown
        if way.plain and way.tangents is not None and not any(way.part.saved[k] in seen for k in way.overwrites):
            run, places = unwrap_outputs(way.run)
            found = way.found if places is None else [None if k is None else places[k] for k in way.found]
            self.passage.learn(run, way.saved, way.grads, way.tangents, found, bool(way.overwrites), views_of(way.run))

    def _arguments(self, part: Crossing, saved: tuple) -> list:
        """Of a backward that takes numbers."""
        values = self._named(saved)
        return [values[name] for name in part.saved] + [self.symbols[name] for name in part.sizes]

    def _named(self, saved: tuple) -> dict:
        return dict(zip(self.graph.training.tensors, saved)) | self.numbers

    def numbers_of(self, strides: tuple) -> tuple:
        return tuple(evaluate_number(s, self.symbols) for s in strides)

    # -- through the recorded forward --------------------------------------------------------------------------------
    def rerun_under_grad(self, grads: Sequence, needs: tuple | None, saved: tuple, create_graph: bool) -> list:
        """Run the functional forward under recording, with the same draws, and differentiate that."""
        training, functional = self.graph.training, self.graph.functional
        needs = (True,) * len(training.requires) if needs is None else needs
        inputs = self.primal_inputs(self._named(saved))
        with recording(True):
            inputs = [find("alias")(x) if isinstance(x, Tensor) and x.requires_grad else x for x in inputs]
            outputs = Interpreter(functional.graph).run(*inputs, seed=self.seed, base=self.base)
        roots = [(outputs[k], g) for k, g in zip(training.reached, grads) if g is not None and outputs[k].requires_grad]
        wanted = [k for k, need in zip(training.requires, needs) if need]
        if not roots or not wanted:
            return [None] * len(needs)
        found = autograd.grad(
            [t for t, _ in roots],
            [inputs[k] for k in wanted],
            [g for _, g in roots],
            create_graph=create_graph,
            allow_unused=True,
        )
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


def restride_gradient(grad: Tensor, strides: tuple) -> Tensor:
    """The gradient in the strides that the backward was compiled for."""
    own = grad._fl_strides
    if own == strides or all(a == b or n == 1 for a, b, n in zip(own, strides, grad._fl_sizes)):
        return grad
    return restride(grad, strides)


def own_outputs(inner: list, reached: list[int], inputs: list) -> None:
    """An output that autograd will hang its node on must be a tensor object of its own."""
    taken = {id(x) for x in inputs}
    for k in reached:
        if id(inner[k]) in taken:
            inner[k] = inner[k]._fl_alias()
        taken.add(id(inner[k]))


passages(CallContext, SavedList, CheckFailed)
