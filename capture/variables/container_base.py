"""What tuples, lists, dictionaries, sets and slices have in common as Variables.

Structure is plain Python (a list of variables, a dict from hashable stand-ins to pairs), so a program's own `append` or
slice is one Python operation here. Containers that came from outside and were changed are told to `tx.effects`, which
replays their final contents after the graph. The kinds: sequences.py, dicts.py, sets.py.
"""

from __future__ import annotations

from typing import Any

from ..breaks import unsupported
from .arguments import fits, call_error
from .base import Variable
from .constant import PlainMethod


class ContainerVariable(Variable):
    """Methods are Python methods named `method_<name>`; anything else is a graph break."""

    def __init__(self, source: Any = None):
        super().__init__(source)

    def get_attr(self, tx: Any, name: str) -> Variable:
        if name == "__class__":
            return tx.wrap_type(self.python_type())
        if not hasattr(self.python_type(), name):
            tx.raise_error(AttributeError, f"{self.python_type().__name__!r} object has no attribute {name!r}")
        return PlainMethod(self, name)

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        method = getattr(self, "method_" + name.strip("_"), None)
        if method is None:
            raise unsupported("builtin", f"method {self.python_type().__name__}.{name}")
        if not fits(method.__func__, args, kwargs, own=2):
            raise call_error(f"{self.python_type().__name__}.{name}")
        return method(tx, *args, **kwargs)

    def changed(self, tx: Any) -> None:
        tx.effects.mutate(self)

    def truth(self, tx: Any) -> bool:
        return self.length(tx).plain() != 0

    def method_len(self, tx: Any) -> Variable:
        return self.length(tx)

    def method_iter(self, tx: Any) -> Variable:
        return self.iterate(tx)

    def method_getitem(self, tx: Any, key: Variable) -> Variable:
        return self.get_item(tx, key)

    def method_setitem(self, tx: Any, key: Variable, value: Variable) -> Variable:
        self.set_item(tx, key, value)
        return tx.constant(None)

    def method_delitem(self, tx: Any, key: Variable) -> Variable:
        self.del_item(tx, key)
        return tx.constant(None)

    def method_contains(self, tx: Any, member: Variable) -> Variable:
        return tx.constant(self.contains(tx, member))
