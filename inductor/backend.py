"""The default backend: what an earlier process compiled from the same graph, else the driver.

The passes are imported only where they must run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from ..capture.frontend.backends import Backend
from ..capture.graph.graph import Graph, Node
from ..eager.op.op import Kind
from ..eager.tensor import Tensor
from ..runtime import locks, log, compile_log, toolchain
from ..runtime.errors import InternalError
from .runtime import graph_cache
from .runtime.runtime_wrapper import CompiledGraph

SMALL = 24  # nodes


def inductor(graph: Graph, example_inputs: Sequence, options: dict | None = None, mode: str | None = None) -> Callable:
    """Generated C++ (without a compiler on the machine, the loop interpreter); for tensors on a GPU, Triton kernels."""
    if any(isinstance(x, Tensor) and x.is_cuda for x in example_inputs):
        with locks.importing:
            from .triton import target
        return target.triton_backend(graph, example_inputs, options, mode)
    options = dict(options or {})
    if options.get("verify"):
        return compile_and_compare(graph, example_inputs, options)
    with compile_log.current().stage("look in the cache"):
        shelf = cache_entry_of(graph, example_inputs, options) if graph_cache.usable(options) else None
        compiled = shelf and shelf.load()
    if compiled is None:
        compiled = compile_by_passes(graph, example_inputs, options, shelf)
        if shelf is not None:
            shelf.keep(compiled)
    return compiled


def compile_and_compare(graph: Graph, example_inputs: Sequence, options: dict) -> Callable:
    """`verify`: the stages are compared on the real inputs; where one differs, the kernel in it is named as well."""
    try:
        return compile_by_passes(graph, example_inputs, options)
    except InternalError as error:
        with locks.importing:
            from .tools import bisect
        found = bisect.first_difference(graph, list(example_inputs))
        if found is None:
            raise
        raise InternalError(
            f"{error}\n\n{found[0].text()}\n\n{found[0].code}`python -m flambeau bisect SCRIPT` writes a small "
            "program that fails alone."
        ) from None


def compile_by_passes(
    graph: Graph, example_inputs: Sequence, options: dict, shelf: graph_cache.GraphCacheEntry | None = None
) -> CompiledGraph:
    """The driver's work; a graph that is likely one text has a compiler waiting for it. `shelf`: where the graph will be kept."""
    if len(graph.nodes) <= SMALL:
        toolchain.prepare()
    try:
        with compile_log.current().stage("import of the passes"):
            driver = load_driver()
        return driver.compile_graph(graph, example_inputs, options, late=shelf and shelf.late)
    finally:
        toolchain.dismiss()


def load_driver() -> ModuleType:
    with locks.importing:
        from . import driver
    return driver


def describe(graph: Graph, compiled: Callable) -> tuple:
    """What a report says about one of its graphs: (programs, texts of stages, why something is missing)."""
    with locks.importing:
        from .tools import report
    if any(isinstance(n.value, Tensor) and n.value.is_cuda for n in graph.inputs):
        from .triton import target  # imported already: it has compiled the graph

        return target.describe(graph, compiled)
    return report.describe(graph, compiled)


def why_left_to_python(graph: Graph, example_inputs: Sequence, options: dict) -> str | None:
    """Why compiled code could not be faster than the frame's own: it makes views alone, or everything that it computes is
    called in eager from compiled code, too. None: it may."""
    nodes = [n for n in graph.calls if not n.is_getitem and not is_view(n)]
    if options.get("verify") or any(isinstance(x, Tensor) and x.is_cuda for x in example_inputs):
        return None
    if not nodes:
        return "it makes views and computes nothing"
    if not all(map(may_be_called, nodes)):
        return None
    with locks.importing:
        from .loops.extern_kernels import is_called_in_eager
    if not all(map(is_called_in_eager, nodes)):
        return None
    return f"what it computes is called in eager from compiled code, too: {', '.join(sorted({n.target.name for n in nodes}))}"


def is_view(node: Node) -> bool:
    return node.is_op and node.target.kind is Kind.VIEW and not node.target.mutates and node.draw is None


def may_be_called(node: Node) -> bool:
    """What `is_called_in_eager` asks first, without the passes."""
    return node.is_op and node.target.kind in (Kind.EXTERN, Kind.SCAN) and not node.target.mutates


INDUCTOR = Backend("inductor", inductor, takes_options=True, takes_mode=True, describe=describe, leaves=why_left_to_python)


def cache_entry_of(graph: Graph, example_inputs: Sequence, options: dict) -> graph_cache.GraphCacheEntry | None:
    try:
        return graph_cache.GraphCacheEntry(graph, example_inputs, options, load_driver)
    except graph_cache.NotStored as reason:
        log.channel("cache")(f"{graph.name} is not stored: {reason}")
        return None
