"""`inspect.signature` of the program's functions, which libraries ask before they pass arguments on.

In: a function, or a method bound to an object. Out: the Signature, a constant: asked while tracing, and guarded by what it was
read from. Its `parameters` are a read-only view of a dictionary.
"""

from __future__ import annotations

import inspect
import types
from typing import Any

from ..breaks import unsupported
from ..guards.source import Attr, Pinned
from .base import Variable
from .builtins import BuiltinVariable, handles
from .constant import ConstantVariable
from .dicts import DictVariable
from .functions import BoundMethodVariable, UserFunctionVariable

READ = ("__code__", "__defaults__", "__kwdefaults__", "__wrapped__")


@handles(inspect.signature)
def _signature(tx: Any, obj: Variable, /, **options: Variable) -> Variable:
    asked = obj.function.realize() if isinstance(obj, BoundMethodVariable) else obj
    if isinstance(asked, BuiltinVariable) and asked is obj:
        return tx.fresh(tx.run_variables(inspect.signature, [obj], options))
    if options or not isinstance(asked, UserFunctionVariable) or asked.fn is None or asked.attrs:
        raise unsupported("builtin", f"inspect.signature() of {obj}")
    guard_signature(tx, asked.fn, asked.source)
    fn = types.MethodType(asked.fn, ()) if asked is not obj else asked.fn
    return ConstantVariable(tx.run_outside(inspect.signature, fn))


def guard_signature(tx: Any, fn: Any, source: Any) -> None:
    """What it depends on stays: of this function, and of those that it wraps."""
    while True:
        for name in (*READ, "__signature__"):
            if hasattr(fn, name):
                tx.guard(Attr(source, name), "is", getattr(fn, name))
            else:
                tx.guard(source, "no_attr", name)
        fn = getattr(fn, "__wrapped__", None)
        if not isinstance(fn, types.FunctionType):
            return
        source = Pinned(fn, fn.__qualname__)


class ReadOnlyDict(DictVariable):
    """A `mappingproxy`."""

    def python_type(self) -> type:
        return types.MappingProxyType

    def set_item(self, tx: Any, key: Variable, value: Variable) -> None:
        tx.raise_error(TypeError, "'mappingproxy' object does not support item assignment")

    def del_item(self, tx: Any, key: Variable) -> None:
        tx.raise_error(TypeError, "'mappingproxy' object does not support item deletion")

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        if not hasattr(types.MappingProxyType, name):
            tx.raise_error(AttributeError, f"'mappingproxy' object has no attribute {name!r}")
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(types.MappingProxyType, [DictVariable(self.entries.values())])
