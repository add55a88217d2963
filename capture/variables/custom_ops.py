"""Operators of `torch.library` in captured code: a call is one node of the graph.

An operator that is written with PyTorch's operations is looked into; one whose gradient is asked for is an autograd.Function,
whose backward is traced. Without a shape function a call is a graph break, as is one on a GPU.
"""

from __future__ import annotations

import inspect
from typing import Any
from collections.abc import Sequence

from ...eager.autograd import Function
from ...eager.compat.custom_operator import Operator
from ...eager.compat.library import CustomOp
from ...eager.compat.operators import AtenOperator
from ..breaks import unsupported
from .base import Variable
from .builder import MAKERS_BY_CLASS
from .builtins import BuiltinVariable
from .constant import PlainVariable
from .sequences import ListVariable, TupleVariable
from .tensor import TensorVariable


class OperatorVariable(PlainVariable):
    """An operator, by its identity; its overloads are operators as well."""

    def get_attr(self, tx: Any, name: str) -> Variable:
        return tx.fresh(tx.run(getattr, self.value, name))

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        return tx.call(self.get_attr(tx, name), args, kwargs)

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        if isinstance(self.value, AtenOperator):
            return tx.fresh(tx.run_variables(self.value, args, kwargs, what=str(self.value)))
        return call_operator(tx, getattr(self.value, "_operator", self.value), args, kwargs)


OPERATORS = (Operator, CustomOp, AtenOperator)
for _class in OPERATORS:
    MAKERS_BY_CLASS[_class] = OperatorVariable


def call_operator(tx: Any, operator: Operator, args: list, kwargs: dict) -> Variable:
    function = operator.function
    if function is None:
        raise unsupported("call", f"{operator.name} has no kernel")
    if operator.composite or operator.built_in:
        return tx.call(tx.wrap_pinned(function, operator.name), args, kwargs)
    given = bound(tx, function, args, kwargs)
    tensors = [t for a in given for t in tensors_in(tx, a)]
    if any(t.fake.is_cuda for t in tensors):
        raise unsupported("call", f"{operator.name}, an operator of the program's own, on a GPU")
    if operator.fake is None and not operator.writes():
        raise unsupported(
            "call", f"{operator.name} has no shape function", f"register one: @torch.library.register_fake({operator.name!r})"
        )
    if operator.writes() or not (tx.grad_mode() and any(t.fake.requires_grad for t in tensors)):
        return tx.fresh(tx.run_variables(operator.run, given, what=operator.name))
    if operator.backward is None and not operator.closed:
        raise unsupported("call", f"{operator.name} has no gradient of its own: autograd looks into its function")
    if any(not isinstance(a, TensorVariable) and tensors_in(tx, a) for a in given):
        raise unsupported("call", f"{operator.name} is given a list of tensors that require gradients")
    return tx.call(BuiltinVariable(Function.apply.__func__), [tx.wrap_type(operator.gradient), *given], {})


def bound(tx: Any, function: Any, args: Sequence, kwargs: dict) -> list:
    """The positional arguments of a call, defaults included."""
    try:
        found = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        return tx.raise_error(TypeError, str(error))
    found.apply_defaults()
    return [a if isinstance(a, Variable) else tx.constant(a) for a in (*found.args, *found.kwargs.values())]


def tensors_in(tx: Any, argument: Variable) -> list:
    """The tensor that an argument is, or those in a list."""
    argument = argument.realize()
    if isinstance(argument, TensorVariable):
        return [argument]
    members = argument.unpack(tx) if isinstance(argument, (ListVariable, TupleVariable)) else ()
    return [m for m in (x.realize() for x in members) if isinstance(m, TensorVariable)]
