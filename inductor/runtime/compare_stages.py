"""`options={"verify": True}`: every stage of one compilation runs on the real inputs, and the first that differs is
named.

In: the captured graph, its functional form, the first call's inputs. Out: nothing, or InternalError with stage, node
and user line. The idea: what a call shows is its outputs, its inputs afterwards and its gradients; each stage must
show the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...capture.graph.graph import Graph, Interpreter
from ...eager import autograd, random
from ...eager.op.op import find
from ...eager.state import recording, state
from ...eager.tensor import Tensor
from ...runtime.errors import InternalError
from .runtime_wrapper import CompiledGraph, FunctionExecutable
from ..graph.functionalize import FunctionalGraph, tensors
from ..graph.verify import differs


@dataclass
class Observation:
    """What one call shows."""

    outputs: object
    inputs: list
    gradients: list | None


def observe(run: Callable, inputs: Sequence) -> Observation:
    """Run on copies of the inputs, from the generator's present state, which is put back."""
    before = random.default_generator.get_state()
    try:
        leaves, copies = copy_inputs(inputs)
        outputs = run(*copies)
        gradients = gradients_or_none(tensors_in(outputs) + [c for c in copies if isinstance(c, Tensor)], leaves)
        return Observation(outputs, copies, gradients)
    finally:
        random.default_generator.set_state(before)


def copy_inputs(inputs: Sequence) -> tuple[list, list]:
    """(leaves, arguments): equal tensors in memory of their own; one that was computed is computed again, from a leaf."""
    leaves, copies = [], []
    for x in inputs:
        if not isinstance(x, Tensor):
            copies.append(x)
            continue
        with recording(False):
            leaf = own_copy(x)
        leaf.requires_grad_(x.requires_grad)
        leaves.append(leaf)
        copies.append(leaf if x.is_leaf else own_view(leaf))
    return leaves, copies


def own_copy(x: Tensor) -> Tensor:
    """The same values under the same strides."""
    span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride())) if x.numel() else 0
    block = np.empty(span, x.dtype.numpy)
    array = np.lib.stride_tricks.as_strided(block, tuple(x.shape), tuple(s * x.dtype.itemsize for s in x.stride()))
    array[...] = x._fl_array
    return Tensor._fl_from_array(array, x.dtype)


def own_copy_of(x: Any) -> Any:
    """The same of tensors inside tuples and lists; anything else is itself."""
    if isinstance(x, (tuple, list)):
        return type(x)(map(own_copy_of, x))
    return own_copy(x) if isinstance(x, Tensor) else x


def own_view(leaf: Tensor) -> Tensor:
    with recording(True):
        return find("clone")(leaf)


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, dict):
        value = list(value.values())
    return tensors(value) if not isinstance(value, (tuple, list)) else [t for v in value for t in tensors_in(v)]


def gradients_of(outputs: list[Tensor], leaves: list[Tensor]) -> list:
    """Gradients of the outputs, weighed with fixed numbers, for the leaves that require them."""
    wanted = [x for x in leaves if x.requires_grad]
    reached = [t for t in dict.fromkeys(outputs) if t.grad_fn is not None]
    if not wanted or not reached:
        return []
    return list(autograd.grad(reached, wanted, [tangent(t) for t in reached], allow_unused=True))


def gradients_or_none(outputs: list[Tensor], leaves: list[Tensor]) -> list | None:
    """None where eager refuses the backward (a saved value was overwritten): then there is nothing to compare."""
    try:
        return gradients_of(outputs, leaves)
    except RuntimeError:
        return None


def tangent(t: Tensor) -> Tensor:
    values = np.cos(np.arange(t.numel(), dtype=np.float64)).reshape(tuple(t.shape))
    return Tensor._fl_from_array(values.astype(t.dtype.numpy), t.dtype)


def compare(expected: Observation, actual: Observation) -> str | None:
    """Where two observations differ, in words."""
    for what in ("outputs", "inputs", "gradients") if expected.gradients is not None else ("outputs", "inputs"):
        problem = differs(getattr(expected, what), getattr(actual, what))
        if problem:
            return f"{what}: {problem}"
    return None


def compare_runs(stages: Sequence[tuple[str, Callable]], inputs: Sequence, locate: Callable[[str], str]) -> None:
    """Run the stages in order; raise for the first that shows something else than the first stage."""
    (_, first), *others = stages
    expected = observe(first, inputs)
    for name, run in others:
        problem = compare(expected, observe(run, inputs))
        if problem:
            raise InternalError(f"stage {name!r} differs from the captured graph in {problem}\n{locate(name)}")


def captured_run(graph: Graph) -> Callable:
    return lambda *inputs: Interpreter(graph).run(*inputs)


class FunctionalUnderGrad(CompiledGraph):
    """The functional graph run by eager, with eager's own recording."""

    def __call__(self, *given: Any) -> Any:
        inputs = [*given, *self.constants]
        seed, base = random.default_generator.reserve(self.draws) if self.draws else (0, 0)
        with recording(state.grad):
            inner = list(Interpreter(self.functional.graph).run(*inputs, seed=seed, base=base))
        self._commit(inputs, inner)
        return self._rebuild(inputs, inner, self._symbols(inputs))


def functional_run(functional: FunctionalGraph, constants: Sequence) -> Callable:
    return FunctionalUnderGrad(functional, FunctionExecutable(lambda *_: []), None, constants)
