"""Transforms of functions (`torch.func`, `autograd.functional`) inside of captured programs.

Their own code is inlined like a program's, and so is the function that they transform. What is here are the steps of theirs
that look at a history, at memory or at the random state: they run for real on fakes, or are answered from the trace. Loops over
examples and over rows of a Jacobian are unrolled up to a length.
"""

from __future__ import annotations

from typing import Any

from ...eager.autograd.api import ones_like
from ...eager.autograd.functional import jacobian_of
from ...eager.func.derivatives import own_input, detach_results
from ...eager.func.vmap import batch_size, draw_again, draws_now, example, has_drawn, joined
from ..breaks import unsupported
from ..guards.source import Pinned
from .base import Variable
from .builtins import HANDLERS, handles, runs
from .functions import UserFunctionVariable
from .tensor import TensorVariable

MOST_ROWS = 64


HANDLERS.update({fn: runs(fn) for fn in (ones_like, detach_results, example, joined)})


@handles(own_input)
def _own_input(tx: Any, given: Variable, /) -> Variable:
    """The caller's tensor as an input of the transform's own: a view where it has a history, else a new leaf."""
    return tx.fresh(tx.run(own_input, given.fake)) if isinstance(given, TensorVariable) else given


# -- loops -------------------------------------------------------------------------------------------------------------


@handles(jacobian_of)
def _jacobian_of(tx: Any, output: Any, /, *args: Any) -> Any:
    refuse_many(output.fake.numel(), "rows of a Jacobian")
    return tx.inline(UserFunctionVariable(jacobian_of, Pinned(jacobian_of, jacobian_of.__name__)), [output, *args], {})


@handles(batch_size)
def _batch_size(tx: Any, given: Variable, dims: Variable, /) -> Variable:
    found = tx.run_variables(batch_size, [given, dims])
    refuse_many(found, "examples of a vmap")
    return tx.fresh(found)


def refuse_many(n: Any, what: str) -> None:
    """A graph with many copies of the function takes long to compile: Python's loop calls one that is compiled once."""
    if n > MOST_ROWS:
        raise unsupported("long loop", f"{n} {what}")


# -- random numbers ----------------------------------------------------------------------------------------------------


@handles(draws_now)
def _draws_now(tx: Any, /) -> Variable:
    return tx.constant(tx.tracer.graph.draws)


@handles(has_drawn)
def _has_drawn(tx: Any, since: Variable, /) -> Variable:
    return tx.constant(tx.tracer.graph.draws != since.plain())


@handles(draw_again)
def _draw_again(tx: Any, since: Variable, /) -> Variable:
    if tx.tracer.graph.draws != since.plain():
        raise unsupported("builtin", "vmap() draws the same numbers for each example")
    return tx.constant(None)
