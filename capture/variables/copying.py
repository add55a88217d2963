"""copy.copy and copy.deepcopy of traced values: containers and objects of plain classes are rebuilt, constants are themselves."""

from __future__ import annotations

import copy
import types
from typing import Any

from ...eager.tensor import Tensor
from ..breaks import unsupported
from .base import Variable
from .builtins import BuiltinVariable, handles
from .constant import ConstantVariable, SymVariable
from .dicts import DictVariable
from .functions import UserFunctionVariable
from .python_module import NamespaceVariable
from .objects import ClassVariable, UserObjectVariable, lookup_defined, lookup
from .sequences import ListVariable, SliceVariable, TupleVariable
from .sets import SetVariable
from .tensor import TensorVariable

ATOMS = (ConstantVariable, SymVariable, ClassVariable, BuiltinVariable, UserFunctionVariable, NamespaceVariable, SliceVariable)
HOOKS = (
    "__copy__",
    "__deepcopy__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__getnewargs__",
    "__getnewargs_ex__",
)


@handles(copy.copy)
def _copy(tx: Any, x: Variable) -> Variable:
    value = x
    if isinstance(value, (*ATOMS, TupleVariable)):
        return value
    if isinstance(value, (ListVariable, DictVariable, SetVariable)):
        return value if getattr(value, "cls", None) is frozenset else value.method_copy(tx)
    own = lookup(value.python_type(), "__copy__")
    if own is not None and isinstance(own[1], types.FunctionType) and isinstance(value, UserObjectVariable):
        return tx.call(tx.bind(own, value, "__copy__"), [], {})
    return copied_object(tx, value, lambda part: part)


@handles(copy.deepcopy)
def _deepcopy(tx: Any, x: Variable, memo: Variable | None = None, _nil: Variable | None = None) -> Variable:
    if memo is not None or _nil is not None:
        raise unsupported("builtin", "copy.deepcopy() with a memo")
    return deep(tx, x, {})


def deep(tx: Any, value: Variable, memo: dict) -> Variable:
    """The deep copy; `memo`: variable -> its copy, for what is met twice."""
    value = value.realize()
    if isinstance(value, ATOMS):
        return value
    if value not in memo:
        memo[value] = deep_copied(tx, value, memo)
    return memo[value]


def deep_copied(tx: Any, value: Any, memo: Any) -> Variable:
    if isinstance(value, TupleVariable):
        parts = [deep(tx, part, memo) for part in value.unpack(tx)]
        same = all(new is old for new, old in zip(parts, value.items))
        return value if same else TupleVariable(parts, cls=value.cls)
    if isinstance(value, ListVariable):
        made = memo[value] = value.method_copy(tx)
        made.items = [deep(tx, part, memo) for part in value.unpack(tx)]
        return made
    if isinstance(value, DictVariable):
        made = memo[value] = value.method_copy(tx)
        for stand, (key, _) in list(made.entries.items()):
            made.entries[stand] = deep(tx, key, memo), deep(tx, made.at(stand), memo)
        return made
    if (
        isinstance(value, SetVariable)
        and value.is_constant()
        or isinstance(value, SetVariable)
        and all(member.is_constant() for member in value.members.values())
    ):
        return value if value.cls is frozenset else value.method_copy(tx)
    if isinstance(value, UserObjectVariable):
        return copied_object(tx, value, lambda part: deep(tx, part, memo), memo)
    if isinstance(value, TensorVariable):
        return copied_tensor(tx, value, memo)
    raise unsupported("builtin", f"copy.deepcopy() of {value}")


def copied_tensor(tx: Any, value: Any, memo: Any) -> Any:
    """A tensor with the memory all to itself. Python copies the whole memory of a part, and one memory for all that share it."""
    fake, real = value.fake, value.real
    alone = not any(isinstance(other, TensorVariable) and other.fake._fl_storage is fake._fl_storage for other in memo)
    whole = fake.is_contiguous() and (tx.run(is_all, fake) if real is None else real.nbytes == real._fl_storage.nbytes())
    if (
        fake.requires_grad
        or value.cls is not Tensor
        or not (alone and whole)
        or getattr(real, "__dict__", None)
        or tx.effects.names(value)
    ):
        raise unsupported("builtin", f"copy.deepcopy() of {value}")
    return tx.fresh(tx.run(lambda: fake.clone()))


def is_all(t: Any) -> bool:
    """Whether a tensor of the trace covers the memory it is in."""
    return t._base is None or bool(t._base.numel() == t.numel())


def copied_object(tx: Any, value: Any, part: Any, memo: Any = None) -> Any:
    """A new object of the same class with the (copied) attributes of the old one."""
    plain = (
        isinstance(value, UserObjectVariable)
        and not isinstance(value, TensorVariable)
        and all((found := lookup(value.cls, name)) is None or found[0] is object for name in HOOKS)
    )
    if not plain or lookup_defined(value.cls, "__new__")[0] is not object or getattr(value.cls, "__slots__", None) is not None:
        raise unsupported("builtin", f"copying {value}")
    made = tx.object_variable(value.cls)
    if memo is not None:
        memo[value] = made
    if value.source is not None:
        value.dictionary(tx)  # guards which attributes it has
    for name, field in value.fields(tx).items():
        tx.effects.store_attr(made, name, part(field.realize()))
    return made
