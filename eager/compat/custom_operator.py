"""One operator of `torch.library`: the functions that were registered for it, and its calls.

On values an operator is its function, below autograd (torch.library.custom_op), with the gradient that was registered. On fakes,
and so in captured graphs, it is one node (`ops/custom_calls.py`).
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from ...runtime.errors import Unsupported
from .. import device as devices, dtypes, overrides
from ..autograd import Function
from ..ops import custom_calls
from ..sizes import SymBool, SymFloat, SymInt
from ..state import recording, state
from ..tensor import Tensor
from . import missing


signature_of = functools.lru_cache(None)(inspect.signature)


class Operator:
    """One operator: its function (None until registered), schema, shape function and gradient. `built_in`: the function is made
    of this package's records, which have their gradients, and stands for the operator itself. `composite`: the function is
    written with PyTorch's operations and stands for them. `closed`: it was made by `custom_op`, whose function is not looked into
    by autograd. `mutates`: names of the tensors that it writes, None for all of them."""

    def __init__(self, name, schema=None):
        self.name, self.schema = name, schema
        self.built_in = self.composite = self.closed = False
        self.function: Any = None
        self.fake = self.backward = None
        self.mutates: tuple | None = ()
        space, _, own = name.rpartition("::")
        self.__name__ = self.__qualname__ = own
        self.__module__ = f"torch.ops.{space}"

    def __call__(self, *args, **kwargs):
        kinds = overrides.asked_classes((*args, *kwargs.values()))
        if any(map(overrides.own_handler, kinds)):
            return overrides.answers(self, kinds, args, kwargs)
        if self.function is None:
            raise missing.error(
                f"torch.ops.{self.name.replace('::', '.')}",
                "no kernel is registered for it (C++ extensions of PyTorch cannot be loaded)",
            )
        if self.composite or not (self.closed or self.backward or self.fake):
            return self.function(*args, **kwargs)
        given = self.bound(args, kwargs)
        if state.grad and any(t.requires_grad for t in _tensors(given)) and (self.backward or self.closed and not self.writes()):
            return _apply(self.gradient, given)
        return self.run(*given)

    def bound(self, args, kwargs):
        """The positional arguments of a call, defaults included."""
        signature = signature_of(self.function)
        found = signature.bind(*args, **kwargs)
        found.apply_defaults()
        return (*found.args, *found.kwargs.values())

    def writes(self):
        """Whether the operator writes tensors that it is given."""
        return self.mutates is None or bool(self.mutates)

    def written(self, args):
        """The positions of the arguments that are written."""
        names = list(signature_of(self.function).parameters)
        return [k for k, (name, _) in enumerate(zip(names, args)) if self.mutates is None or name in self.mutates]

    def shape_function(self, *args):
        """Results without bytes, as `register_fake` says."""
        if self.fake is not None:
            return self.by_position(self.fake, args)
        if self.writes() and signature_of(self.function).return_annotation in (None, "None"):
            return None
        raise Unsupported(
            "call", f"{self.name} has no shape function", f"register one: @torch.library.register_fake({self.name!r})"
        )

    def by_position(self, function, args):
        """Calls one of the operator's functions, whose last arguments may be keywords, with positional arguments."""
        kinds = [p.kind for p in signature_of(self.function).parameters.values()]
        named = [k for k, kind in enumerate(kinds) if kind is inspect.Parameter.KEYWORD_ONLY and k < len(args)]
        if not named:
            return function(*args)
        names = list(signature_of(self.function).parameters)
        return function(*args[: named[0]], **{names[k]: args[k] for k in named})

    def run(self, *args):
        """The operator below autograd: its function on values, one node of the graph on fakes."""
        operands = _tensors(args)
        if any(t._fl_array is None and getattr(t._fl_storage, "block", None) is None for t in operands):
            return self.traced(args)
        if not self.closed:
            return self.by_position(self.function, args)
        with recording(False):
            made = self.by_position(self.function, args)
        self.check_apart(operands, made)
        for k in self.written(args):
            for t in _tensors(args[k : k + 1]):
                t.untyped_storage().bump()
        return made

    def check_apart(self, operands, made):
        """RuntimeError where a result is, or shares memory with, an argument or another result (as torch.library.custom_op)."""
        seen = {id(t.untyped_storage()) for t in operands}
        for k, t in enumerate(custom_calls.as_tuple(made)):
            if not isinstance(t, Tensor):
                raise TypeError(f"{self.name} gave a {type(t).__name__} as result {k}; custom operators give tensors")
            if id(t.untyped_storage()) in seen:
                raise RuntimeError(
                    f"{self.name}: result {k} of the custom operator is one of its arguments, or shares memory with one or with "
                    "another result; return a clone of it"
                )
            seen.add(id(t.untyped_storage()))

    def traced(self, args):
        """One call of the operator's record; what it writes is copied back."""
        operands, numbers, written, layout = [], [], [], []
        changed = self.written(args)
        for k, value in enumerate(args):
            start = len(operands)
            layout.append(_laid_out(self, value, operands, numbers))
            written += range(start, len(operands)) if k in changed else ()
        call = custom_calls.OperatorCall(self, tuple(layout), tuple(written))
        told = custom_calls.shapes(call, operands, numbers)
        results = len(custom_calls.as_tuple(told))
        if not results and not written:
            raise Unsupported(
                "call", f"{self.name} gives nothing and writes nothing", "leave it outside of the compiled function"
            )
        made = custom_calls.operator_record(self.name, results, len(written))(tuple(operands), tuple(numbers), call)
        made = made if isinstance(made, tuple) else (made,)
        with recording(False):
            for k, value in zip(written, made[results:]):
                operands[k].copy_(value)
        return type(told)(made[:results]) if isinstance(told, (tuple, list)) else made[0] if results else None

    @property
    def gradient(self):
        """The autograd.Function of the operator: `backward` and `setup_context` as they were registered."""
        return _gradient_class(self, self.backward)

    @property
    def default(self):
        return self

    def __repr__(self):
        return f"<operator {self.name}>"


def _tensors(args):
    """The tensors among arguments and in lists of them."""
    found = []
    for a in args:
        if isinstance(a, Tensor):
            found.append(a)
        elif isinstance(a, (tuple, list)):
            found += [x for x in a if isinstance(x, Tensor)]
    return found


_PLAIN = (int, float, complex, bool, str, bytes, type(None))


def _laid_out(operator: Operator, value: Any, operands: list, numbers: list) -> tuple:
    """How one argument stands in a call (custom_calls.OperatorCall)."""
    if isinstance(value, Tensor):
        operands.append(value)
        return custom_calls.TENSOR, len(operands) - 1
    if isinstance(value, SymInt):
        numbers.append(value)
        return custom_calls.NUMBER, len(numbers) - 1
    if isinstance(value, (tuple, list)):
        members = tuple(_laid_out(operator, x, operands, numbers) for x in value)
        return custom_calls.SEVERAL, list if type(value) is list else tuple, members
    if isinstance(value, (SymFloat, SymBool)):  # (guarded)
        known: Any = value
        value = float(known) if isinstance(value, SymFloat) else bool(known)
    if not isinstance(value, (*_PLAIN, dtypes.dtype, devices.device)):
        raise Unsupported("call", f"{operator.name} is given a {type(value).__name__}", "pass tensors, numbers and texts")
    return custom_calls.VALUE, value


def _apply(function, args):
    """`function.apply`, with tensors in lists as arguments of their own, so that they have gradients."""
    if not any(isinstance(a, (tuple, list)) and any(isinstance(x, Tensor) for x in a) for a in args):
        return function.apply(*args)
    layout = [(type(a), len(a)) if isinstance(a, (tuple, list)) else None for a in args]
    flat = [x for a, each in zip(args, layout) for x in (a if each else (a,))]
    return _flattened(function, layout).apply(*flat)


def _flattened(function, layout):
    def grouped(flat):
        rest = iter(flat)
        return tuple([each[0](next(rest) for _ in range(each[1])) if each else next(rest) for each in layout])

    def backward(ctx, *grads):
        found = function.backward(ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        return tuple([x for g, each in zip(found, layout) for x in (([None] * each[1] if g is None else g) if each else (g,))])

    members = {
        "forward": staticmethod(lambda *flat: function.forward(*grouped(flat))),
        "setup_context": staticmethod(lambda ctx, flat, out: function.setup_context(ctx, grouped(flat), out)),
        "backward": staticmethod(backward),
    }
    return type(function.__name__, (Function,), members)


@functools.lru_cache(None)
def _gradient_class(operator, registered):
    def forward(*args):
        return operator.run(*args)

    def backward(ctx, *grads):
        raise RuntimeError(
            f"Trying to backward through {operator.name} but no autograd formula was registered. Please use register_autograd to "
            "add one."
        )

    def setup_context(ctx, inputs, output):
        pass

    given, setup = registered or (backward, None)
    members = {"forward": forward, "backward": given, "setup_context": setup or setup_context}
    return type(f"{operator.__name__}_function", (Function,), {name: staticmethod(f) for name, f in members.items()})
