"""`node` of a symbolic number, as PyTorch's has it: its sympy expression, its environment, its value at capture.

In: a SymInt, SymFloat or SymBool. Out: what people and libraries ask of `size.node`. sympy is imported when `expr` is asked for.
"""

from __future__ import annotations

from typing import Any


class SymNode:
    """A look at one symbolic number; two of equal expressions have equal `expr`."""

    __slots__ = ("value", "pytype", "_convert")

    def __init__(self, value: Any, pytype: type, convert: str, *parts: Any):
        self.value, self.pytype, self._convert = value, pytype, (convert, parts)

    @property
    def expr(self) -> Any:
        """As sympy writes it: symbols are integers with the signs of their kinds, `//` and `%` are FloorDiv and Mod of
        sympy_bridge.py, floats are real numbers."""
        from . import sympy_bridge

        name, parts = self._convert
        return getattr(sympy_bridge, name)(*parts)

    @property
    def shape_env(self) -> Any:
        return self.value.env

    @property
    def hint(self) -> Any:
        """The value at capture; None where only the data knows it."""
        return self.value.hint

    def has_hint(self) -> bool:
        return self.hint is not None

    def is_symbolic(self) -> bool:
        return True

    def __repr__(self) -> str:
        return str(self.value)
