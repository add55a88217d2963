"""`Variable`, the older name of a tensor with history: calling it gives a tensor over the same bytes."""

from __future__ import annotations

from ..tensor import Tensor
from . import engine


class _Like(type):
    """Every tensor is an instance."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor)


class ExecutionEngine:
    """What `Variable._execution_engine` offers."""

    @staticmethod
    def queue_callback(callback) -> None:
        """`callback()` at the end of the backward that is under way."""
        engine.queue_callback(callback)


class Variable(metaclass=_Like):
    """`Variable(tensor, requires_grad=False)`: a leaf over the bytes of `tensor` (None: an empty one)."""

    _execution_engine = ExecutionEngine()

    def __new__(cls, data=None, requires_grad: bool = False, volatile: bool = False):
        if data is None:
            return Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
