"""functorch.compile: how a compiled function takes its arguments."""

from __future__ import annotations

import functools
from typing import Any


def make_boxed_func(f: Any) -> Any:
    """`f(*args)` as a function of one list, which may forget what is in it."""

    def boxed(args: Any) -> Any:
        return f(*args)

    boxed._boxed_call = True
    return boxed


def make_boxed_compiler(compiler: Any) -> Any:
    """A compiler whose functions take their arguments in one list."""

    @functools.wraps(compiler)
    def boxed(graph: Any, example_inputs: Any) -> Any:
        return make_boxed_func(compiler(graph, example_inputs))

    return boxed


def nop(graph: Any, example_inputs: Any) -> Any:
    """A compiler that gives the graph back as it is."""
    return graph
