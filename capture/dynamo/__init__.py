"""torch._dynamo and torch._inductor: the few names that people use, on this compiler."""

from ...runtime.counters import snapshot
from . import config, eval_frame, utils
from ..compile import compile, reset
from ..explain import explain
from ..module import CompiledModule as OptimizedModule
from ..state import disable, is_compiling, mark_dynamic, mark_static

maybe_mark_dynamic = mark_dynamic
optimize = compile


@disable
def graph_break(msg=""):
    """Ends the graph here: the code before and after is captured apart."""


def allow_in_graph(fn):
    """Returns the function: every function is captured through or called at a break."""
    return fn


def assume_constant_result(fn):
    """Returns the function: what it reads is guarded, so its result holds as long as that."""
    return fn


def mark_static_address(t, guard=True):
    """Nothing to mark: addresses are never part of a graph."""


def is_dynamo_supported():
    return True


def counters():
    return snapshot()


__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "compile", "config", "counters", "disable",
           "eval_frame", "explain", "graph_break", "is_compiling", "is_dynamo_supported", "mark_dynamic", "mark_static",
           "mark_static_address", "maybe_mark_dynamic", "optimize", "reset"]
