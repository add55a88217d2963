"""Functions of the library that mean something of their own while a program is captured: checkpointed regions, and the
state that an optimizer makes at its first step.

The nodes of a checkpointed call carry a tag; the partitioner computes what is inside again instead of saving it.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

from ...eager.asserts import holds
from ...eager.optim.optimizer import Optimizer, number_of
from ...eager.utils.checkpoint import checkpoint, noop_context_fn
from ...eager.state import no_modes, setting
from ..breaks import unsupported
from ..shapes.expr import const
from ..shapes.relations import Relation
from ..shapes.symbolic_shapes import SymInt
from .base import Variable
from .builtins import handles
from .functions import UserFunctionVariable
from .tensor import TensorVariable

OPTIONS = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop")
_numbers = itertools.count()


@handles(holds)
def _holds(tx: Any, condition: Variable, /) -> Variable:
    """Yes, and a read that checks it when the data is there."""
    number = tx.run(lambda fake: fake.all().long().item(), condition.plain())
    if isinstance(number, SymInt) and tx.tracer.env.known(told := Relation("<=", const(1), number.expr)) is None:
        tx.tracer.env.assumed.append(told)
        tx.tracer.env.learn(told)
        return tx.constant(True)
    return tx.constant(bool(number))


@handles(checkpoint)
def _checkpoint(tx: Any, function: Variable, /, *args: Variable, **kwargs: Variable) -> Variable:
    options = {name: kwargs[name].plain() for name in OPTIONS if name in kwargs}
    named = {name: value for name, value in kwargs.items() if name not in OPTIONS}
    if options.get("context_fn", noop_context_fn) is not noop_context_fn:
        raise unsupported("call", "checkpoint() with a context_fn")
    reentrant = options.get("use_reentrant")
    if reentrant is None:
        warnings.warn("torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly.", stacklevel=2)
    if reentrant in (None, True):
        refuse_reentrant(tx, args, named, options)
    outer, tx.tracer.tag = tx.tracer.tag, tx.tracer.tag or f"checkpoint {next(_numbers)}"
    try:
        return tx.call(function, list(args), named)
    finally:
        tx.tracer.tag = outer


def refuse_reentrant(tx: Any, args: Any, named: Any, options: Any) -> None:
    """With reentry the region is recorded only if one of its arguments needs a gradient; other mistakes raise."""
    recorded = any(isinstance(a, TensorVariable) and a.fake.requires_grad for a in args)
    if named or options.get("debug") or tx.grad_mode() and not recorded:
        raise unsupported(
            "call", "checkpoint(use_reentrant=True) without an argument that requires a gradient, or with keyword arguments"
        )


@handles(Optimizer._fl_prepare)
def _prepare(tx: Any, owner: Variable, group: Variable, /) -> Variable:
    """The state is made here and now, as the eager step would do next: then the first step and all others are one entry.
    Where the traced code has already looked at the state, the function is inlined."""
    real, which = getattr(owner, "value", None), group.outside if hasattr(group, "outside") else None
    if real is None or which is None or tx.effects.attributes.get(owner) or tx.known(real.state) is not None:
        return tx.inline(UserFunctionVariable(Optimizer._fl_prepare), [owner, group], {})
    with no_modes(), setting(grad=False):
        for p in which["params"]:
            if has_gradient(tx, p) and not real.state[p]:
                tx.run_outside(real._fl_make_state, p, which)
    return tx.constant(None)


@handles(number_of)
def _number_of(tx: Any, x: Variable, /) -> Variable:
    """Not read: a step's number is data of the graph, one entry for all steps."""
    return x.call_method(tx, "double", [], {}) if isinstance(x, TensorVariable) else x


def has_gradient(tx: Any, p: Any) -> bool:
    """Whether the parameter has one at this point of the traced program."""
    variable = tx.known(p)
    stored = None if variable is None else tx.effects.stored(variable, "grad")
    return p.grad is not None if stored is None else isinstance(stored.realize(), TensorVariable)
