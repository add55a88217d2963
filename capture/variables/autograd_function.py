"""autograd.Function inside of captured programs: forward and backward are traced, and one node ties them together.

The forward is inlined as it stands, unrecorded. The backward is traced right behind it, with the `ctx` that the forward left,
into a graph of its own: what that graph reads of the outer one is what the call saves.
"""

from __future__ import annotations

from typing import Any
from collections.abc import Callable

from ...eager.autograd import function as library
from ...eager.ops.custom import MOST, custom_gradient, custom_gradient_of_results
from ...eager.tensor import fake_tensor
from ..breaks import UserRaise, unsupported
from ..graph.autograd_function import BackwardRule
from ..graph.data_dependent import missing_symbols
from ..shapes.symbolic_shapes import SymFloat
from ..guards.source import DictAttr
from .base import Variable
from .builtins import handles
from .functions import UserFunctionVariable
from .sequences import TupleVariable
from .tensor import TensorVariable

Function = library.Function
_once: Any = library.once_differentiable(lambda: None)
ONCE = _once.__code__


@handles(Function.apply.__func__)
def _apply(tx: Any, cls: Variable, /, *given: Variable, **kwargs: Variable) -> Variable:
    inputs = [a.fake for a in given if isinstance(a, TensorVariable)]
    needs = [isinstance(a, TensorVariable) and bool(a.fake.requires_grad) for a in given]
    recorded = tx.grad_mode() and any(needs)
    ctx = tx.call(tx.wrap_type(library.FunctionCtx), [TupleVariable(map(tx.constant, needs))], {})
    known = {id(t._fl_storage) for t, _ in tx.tracer.nodes.values()}
    out = unrecorded(tx, lambda: forward(tx, cls, ctx, given, kwargs))
    if field(tx, ctx, "dirty_tensors"):
        raise unsupported("backward", f"{cls} marks an argument as dirty")
    outs = out.unpack(tx) if isinstance(out, TupleVariable) else [out]
    silent = {id(t.fake) for t in field(tx, ctx, "non_differentiable")}
    chosen = [
        k for k, o in enumerate(outs) if isinstance(o, TensorVariable) and id(o.fake) not in silent and o.fake.dtype.category >= 2
    ]
    if not recorded:
        outs = [unalias_argument(tx, o) if any(o is a for a in given) else o for o in outs]
        return TupleVariable(outs) if isinstance(out, TupleVariable) else outs[0]
    if not chosen:
        return out
    return connect_results(tx, cls, ctx, given, inputs, outs, chosen, known, isinstance(out, TupleVariable))


def unalias_argument(tx: Any, value: Variable) -> Any:
    """What eager gives for an argument that comes back as it was, from a call that is not recorded."""
    return tx.fresh(tx.run(library.apart, value.fake)) if isinstance(value, TensorVariable) else value


def unrecorded(tx: Any, run: Callable) -> Variable:
    before = tx.grad_mode()
    tx.set_grad_mode(False)
    try:
        return run()
    finally:
        tx.set_grad_mode(before)


def forward(tx: Any, cls: Variable, ctx: Variable, given: tuple, kwargs: dict) -> Variable:
    run = tx.get_attr(cls, "forward")
    if cls.plain().setup_context is Function.setup_context:
        return tx.call(run, [ctx, *given], kwargs)
    out = tx.call(run, given, kwargs)
    tx.call(tx.get_attr(cls, "setup_context"), [ctx, TupleVariable(given), out], {})
    return out


def field(tx: Any, ctx: Variable, name: str) -> list:
    """Members of a tuple that the forward left on its context."""
    return tx.get_attr(ctx, name).unpack(tx)


def connect_results(
    tx: Any, cls: Any, ctx: Any, given: tuple, inputs: list, outs: list, chosen: list, known: set, several: bool
) -> Any:
    """The results behind a node whose gradient is the traced backward."""
    # an argument that is a result has a history, which is none of the result's
    results = tuple(unalias_argument(tx, outs[k]).fake if outs[k].fake.requires_grad else outs[k].fake for k in chosen)
    shared = [k for k in chosen if id(outs[k].fake._fl_storage) in known]
    if shared and not tx.assumptions.aliases_unseen:
        raise unsupported("hidden alias", f"a result of {cls} shares memory with its argument")
    if len(chosen) > MOST:
        raise unsupported("backward", f"{cls} has more than {MOST} results")
    rule, saved, numbers = traced_backward(tx, cls, ctx, given, outs, chosen)
    record = custom_gradient_of_results if any(kind == "result" for kind, _ in rule.wanted) else custom_gradient
    made = tx.run(record, results, tuple(inputs), saved, numbers, rule)
    shared += [k for k in chosen if k not in shared and in_common(outs, k)]
    for k, new in zip(chosen, made if isinstance(made, tuple) else (made,)):
        if k in shared:  # a copy does, unless one of them is written or seen outside
            tx.tracer.copied.update((id(s), s) for s in (outs[k].fake._fl_storage, new._fl_storage))
        outs[k] = tx.fresh(new)
    return TupleVariable(outs) if several else outs[0]


def in_common(outs: list, k: int) -> bool:
    """Whether a result shares memory with another one."""
    return any(
        isinstance(o, TensorVariable) and o.fake._fl_storage is outs[k].fake._fl_storage for o in (*outs[:k], *outs[k + 1 :])
    )


def traced_backward(tx: Any, cls: Variable, ctx: Variable, given: tuple, outs: list, chosen: list) -> tuple:
    """(rule, the tensors of the outer graph that it reads, the numbers that it needs)."""
    materialize = tx.truth(tx.get_attr(ctx, "materialize_grads"))
    if not materialize and len(outs) > 1:
        raise unsupported("backward", f"{cls} wants to be told which gradients did not come")
    effects, tracer = len(tx.effects.order), tx.tracer
    with tracer.inside() as graph:
        grads = [gradient(tx, o, k in chosen, materialize) for k, o in enumerate(outs)]
        wanted = [("grad", k) for k in range(len(chosen))]
        found, once = backward(tx, cls, ctx, grads)
        graph.set_output(tuple(tracer.argument(g) for g in check_gradients(cls, given, found)))
        lifted = list(tracer.lifted.values())
        names = sorted(missing_symbols(graph))
        numbers = tuple(SymFloat(tx.env, ("var", n)) if tx.env.symbols[n].kind == "float" else tx.env.sym(n) for n in names)
        for name, number in zip(names, numbers):
            graph.placeholder(name, number)
    if any(tx.effects.is_visible(*step) for step in tx.effects.order[effects:]):
        raise unsupported("backward", f"the backward of {cls} has side effects")
    arguments = {id(a.fake) for a in given if isinstance(a, TensorVariable)}  # one that comes back stays the argument
    results, saved = {id(outs[k].fake): n for n, k in enumerate(chosen) if id(outs[k].fake) not in arguments}, []
    for t in lifted:
        if id(t) in results:
            wanted.append(("result", results[id(t)]))
        else:
            wanted.append(("saved", len(saved)))
            saved.append(t)
    wanted += [("number", k) for k in range(len(numbers))]
    return BackwardRule(cls.plain().__name__, graph, tuple(wanted), once), tuple(saved), numbers


def gradient(tx: Any, out: Variable, chosen: bool, materialize: bool) -> Variable:
    """What backward is given for one result."""
    if not isinstance(out, TensorVariable) or not (chosen or materialize):
        return tx.constant(None)
    t = out.fake
    if chosen:
        return tx.fresh(tx.tracer.placeholder("grad", fake_tensor(t._fl_sizes, None, t.dtype, t.device)))
    return tx.fresh(tx.run(lambda: t.new_zeros(tuple(t.shape))))


def backward(tx: Any, cls: Variable, ctx: Variable, grads: list) -> tuple:
    """(what the user's backward returns, whether it is differentiable once)."""
    name = cls.plain()._fl_backward().__name__
    run = tx.get_attr(cls, "vjp" if cls.plain().vjp is not Function.vjp else "backward")
    once = isinstance(run, UserFunctionVariable) and run.code is ONCE
    try:
        if not once:
            return tx.call(run, [ctx, *grads], {}), False
        function: Any = run.fn
        inner = tx.wrap(function.__wrapped__, DictAttr(run.known_source, "__wrapped__"))
        return unrecorded(tx, lambda: tx.call(inner, [ctx, *grads], {})), True
    except UserRaise as error:
        raise unsupported("backward", f"{name} of {cls} raises: {error}") from error


def check_gradients(cls: Any, given: Any, found: Any) -> list:
    """A gradient or None per tensor among the arguments; what eager refuses is left to it."""
    found = list(found.items) if isinstance(found, TupleVariable) else [found]
    found = [f.realize() for f in found]
    empty = [f.is_constant() and f.plain() is None for f in found]
    while len(found) > len(given) and empty[len(found) - 1]:
        found.pop()
    fits = len(found) == len(given) and all(
        isinstance(g, TensorVariable) and isinstance(a, TensorVariable) or none for g, a, none in zip(found, given, empty)
    )
    if not fits:
        raise unsupported("backward", f"the backward of {cls} returns what autograd refuses")
    return [None if none else g.fake for g, a, none in zip(found, given, empty) if isinstance(a, TensorVariable)]
