"""The default backend: what an earlier process compiled from the same graph, else the driver.

The passes are imported only where they must run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..capture.graph import Graph
from ..eager.tensor import Tensor
from ..runtime import locks, log, records, toolchain
from ..runtime.errors import InternalError
from . import stored

SMALL = 24                  # nodes


def inductor(graph: Graph, example_inputs: Sequence, options: dict | None = None, mode: str | None = None) -> Callable:
    """Generated C++ (without a compiler on the machine, the loop interpreter); for tensors on a GPU, Triton kernels."""
    if any(isinstance(x, Tensor) and x.is_cuda for x in example_inputs):
        with locks.importing:
            from .triton import target
        return target.triton_backend(graph, example_inputs, options, mode)
    options = dict(options or {})
    if options.get("verify"):
        return verified(graph, example_inputs, options)
    with records.current().stage("look in the cache"):
        shelf = shelf_of(graph, example_inputs, options) if stored.usable(options) else None
        compiled = shelf and shelf.load()
    if compiled is None:
        compiled = by_passes(graph, example_inputs, options)
        if shelf is not None:
            shelf.keep(compiled)
    return compiled


def verified(graph: Graph, example_inputs: Sequence, options: dict) -> Callable:
    """`verify`: the stages are compared on the real inputs; where one differs, the kernel in it is named as well."""
    try:
        return by_passes(graph, example_inputs, options)
    except InternalError as error:
        with locks.importing:
            from . import bisect
        found = bisect.first_difference(graph, list(example_inputs))
        if found is None:
            raise
        raise InternalError(f"{error}\n\n{found[0].text()}\n\n{found[0].code}`python -m flambeau bisect SCRIPT` writes a small "
                            "program that fails alone.") from None


def by_passes(graph: Graph, example_inputs: Sequence, options: dict) -> Callable:
    """The driver's work; a graph that is likely one text has a compiler waiting for it."""
    if len(graph.nodes) <= SMALL:
        toolchain.prepare()
    try:
        with records.current().stage("import of the passes"), locks.importing:
            from . import driver
        return driver.compile_graph(graph, example_inputs, options)
    finally:
        toolchain.dismiss()


def describe(graph: Graph, compiled: Callable) -> tuple:
    """What a report says about one of its graphs: (programs, texts of stages, why something is missing)."""
    with locks.importing:
        from . import report
    if any(isinstance(n.value, Tensor) and n.value.is_cuda for n in graph.inputs):
        from .triton import target
        return target.describe(graph, compiled)
    return report.describe(graph, compiled)


inductor.takes_options = inductor.takes_mode = True
inductor.describe = describe


def shelf_of(graph: Graph, example_inputs: Sequence, options: dict) -> stored.Shelf | None:
    try:
        return stored.Shelf(graph, example_inputs, options)
    except stored.NotStored as reason:
        log.channel("cache")(f"{graph.name} is not stored: {reason}")
        return None
