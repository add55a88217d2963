"""The verifier between stages, and the comparison of stages on real inputs.

`check(graph, stage)` raises when a graph is not well-formed for its stage: lint, no mutation after functionalize, no
composites after decompose, and every node's value equal to what the op's own meta rule says. `first_difference` runs a
graph node by node and against an executable, and names the first node whose values differ beyond the tolerance of its
type.
"""

from __future__ import annotations

from typing import Any
from collections.abc import Callable

import numpy as np

from ...capture.graph.graph import Graph, Interpreter, Node, describe, map_args
from ...capture.shapes.symbolic_shapes import SymInt, expr_of
from ...eager import dtypes
from ...eager.op.op import Kind
from ...eager.state import recording
from ...eager.tensor import Tensor
from ...runtime.errors import InternalError
from .retrace import fresh_fake, run_on_fakes

TOLERANCE = {
    "float64": (1e-9, 1e-9),
    "float32": (2e-4, 2e-5),
    "float16": (1e-2, 1e-3),
    "bfloat16": (4e-2, 1e-2),
    "complex64": (2e-4, 2e-5),
    "complex128": (1e-9, 1e-9),
}  # type -> (relative, absolute)


def check(graph: Graph, stage: str) -> Graph:
    """Raise InternalError naming stage and node unless the graph is well-formed; stages: captured, pure, decomposed."""
    graph.lint()
    for node in graph.calls:
        problem = _problem(node, stage)
        if problem:
            raise InternalError(
                f"{stage} graph {graph.name}, node {node.name} ({node.where() or 'no user line'}): {problem}\n{graph}"
            )
    return graph


def _problem(node: Node, stage: str) -> str | None:
    if not node.is_op:
        return None
    if stage != "captured" and node.target.mutates:
        return f"{node.target.name} writes its argument after functionalize"
    if stage == "decomposed" and node.target.kind is Kind.COMPOSITE and node.target.call_rule is None:
        return f"{node.target.name} is a composite after decompose"
    return None if stage == "captured" else _wrong_meta(node)


def _wrong_meta(node: Node) -> str | None:
    """What the op's meta rule says, compared with the value that the graph claims."""
    fakes = map_args(node.args, lambda v: _as_fake(v.value) if isinstance(v, Node) else v)
    with recording(False):
        result = run_on_fakes(node.target, fakes)
    expected, actual = _facts(result), _facts(node.value)
    if expected != actual and not _unbacked(node.value) and not _surely_same(result, node.value):
        return f"its value is {describe(node.value)} but {node.target.name} gives {describe(result)}"
    return None


def _surely_same(a: Any, b: Any) -> bool:
    """Whether what is guarded makes sizes equal that are written otherwise."""
    if isinstance(a, (tuple, list)) or not isinstance(a, Tensor):
        return isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) == len(b) and all(map(_surely_same, a, b))
    return (
        isinstance(b, Tensor)
        and a.dtype is b.dtype
        and len(a.shape) == len(b.shape)
        and all(
            (n == m) is True and ((n == 1) is True or (s == t) is True)
            for n, m, s, t in zip(a.shape, b.shape, a.stride(), b.stride())
        )
    )


def _as_fake(value: Any) -> Any:
    return tuple(map(_as_fake, value)) if isinstance(value, tuple) else fresh_fake(value)


def _facts(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(map(_facts, value))
    if not isinstance(value, Tensor):
        return value
    sizes = tuple(map(expr_of, value.shape))
    strides = tuple(s for n, s in zip(sizes, map(expr_of, value.stride())) if n != 1)  # a stride along one element says nothing
    return value.dtype, sizes, strides if 0 not in sizes else ()


def _unbacked(value: Any) -> bool:
    """Each run of the meta rule makes a new unbacked size: nothing to compare."""
    if isinstance(value, (tuple, list)):
        return any(map(_unbacked, value))
    return isinstance(value, Tensor) and any(isinstance(s, SymInt) and s.hint is None for s in value.shape)


# -- values ---------------------------------------------------------------------------------------------------------


def differs(expected: Any, actual: Any) -> str | None:
    """In words, how a value differs from the expected one beyond the tolerance of its type; None when it does not."""
    if isinstance(expected, dict):
        return differs(list(expected.values()), list(actual.values())) if expected.keys() == actual.keys() else "other keys"
    if isinstance(expected, (tuple, list)):
        if len(expected) != len(actual):
            return f"{len(actual)} values instead of {len(expected)}"
        return next((f"item {k}: {p}" for k, p in enumerate(map(differs, expected, actual)) if p), None)
    if expected is None or actual is None:
        return None if expected is actual else f"{_brief(actual)} instead of {_brief(expected)}"
    if not isinstance(expected, Tensor):
        return None if expected == actual or abs(expected - actual) <= 1e-6 * abs(expected) else f"{actual} instead of {expected}"
    return _tensor_differs(expected, actual)


def _brief(value: Any) -> str:
    return "no tensor" if value is None else describe(value)


def _tensor_differs(expected: Tensor, actual: Tensor) -> str | None:
    if expected.dtype is not actual.dtype or tuple(expected.shape) != tuple(actual.shape):
        return f"{describe(actual)} instead of {describe(expected)}"
    a, b = as_array(expected), as_array(actual)
    relative, absolute = TOLERANCE.get(expected.dtype.name, (0, 0))
    wrong = ~np.isclose(b, a, rtol=relative, atol=absolute * max(1.0, _scale(a)), equal_nan=True)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} elements differ, first at {at}: {b[at]} instead of {a[at]}"


def as_array(t: Tensor) -> np.ndarray:
    """The values in a type that numpy can compare."""
    array = t._fl_array
    if t.dtype.is_complex:
        return array
    return array.astype(np.float64) if t.dtype.is_floating_point else array.astype(np.int64) if t.dtype is dtypes.bool else array


def _scale(a: np.ndarray) -> float:
    finite = np.abs(a[np.isfinite(a)]) if a.size else a
    return float(finite.max()) if finite.size else 1.0


def first_difference(graph: Graph, make: Callable[[Graph], Callable], inputs: list, seed: int, base: int) -> str | None:
    """Compile a copy of the graph that returns every tensor it makes; the first node that differs, in words."""
    copy, table = graph.copy()
    nodes = [table[n] for n in graph.nodes if n.op == "call_function" and isinstance(n.value, Tensor)]
    copy.set_output(tuple(nodes))
    with recording(False):
        expected = Interpreter(copy).run(*inputs, seed=seed, base=base)
        actual = make(copy)(inputs, seed, base)
    for node, a, b in zip(nodes, expected, actual):
        problem = differs(a, b)
        if problem:
            return f"node {node.name} ({node.target}, {node.where() or 'no user line'}): {problem}"
    return None
