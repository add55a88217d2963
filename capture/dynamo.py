"""torch._dynamo and torch._inductor: the few names that people use, on this compiler.

`config` accepts any setting and remembers it: the compiler's own settings are in `flambeau.runtime.config`.
"""

from types import SimpleNamespace

from ..runtime.counters import snapshot
from .compile import compile, reset
from .explain import explain
from .state import disable, is_compiling, mark_dynamic, mark_static

config = SimpleNamespace(suppress_errors=False, verbose=False, cache_size_limit=8, recompile_limit=8,
                         automatic_dynamic_shapes=True, assume_static_by_default=True, capture_scalar_outputs=False,
                         optimize_ddp=False)
maybe_mark_dynamic = mark_dynamic
optimize = compile


@disable
def graph_break(msg=""):
    """Ends the graph here: the code before and after is captured apart."""


def allow_in_graph(fn):
    """Returns the function: every function is captured through or called at a break."""
    return fn


def is_dynamo_supported():
    return True


def counters():
    return snapshot()


__all__ = ["allow_in_graph", "compile", "config", "counters", "disable", "explain", "graph_break", "is_compiling",
           "is_dynamo_supported", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "optimize", "reset"]
