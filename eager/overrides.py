"""Operands of other classes: the `__torch_function__` protocol, and subclasses of Tensor.

In: a record's call with an operand whose class is not one of the library's plain ones. A class with
`__torch_function__` gets the call, with the public function of the record's name; results of other subclasses of Tensor
are of the subclass.
Only calls that leave the native path come here, so ordinary calls do not pay for it.
"""

from __future__ import annotations

import numpy as np

from .device import device
from .dtypes import dtype
from .op import OPS
from .sizes import Size, SymFloat, SymInt
from .state import state
from .tensor import Tensor

plain = {Tensor, int, float, bool, complex, type(None), tuple, list, str, Size, dtype, device, SymInt, SymFloat,
         np.ndarray, slice, type(...)}
namespaces: list = []  # where public functions are looked up by a record's name, best first


def plain_tensors(*classes) -> None:
    """Subclasses whose results are plain tensors."""
    plain.update(classes)


def foreign_classes(args) -> tuple:
    """The classes among the operands (also inside tuples) that are not plain, subclasses before their bases."""
    found = []
    for a in args:
        kind = a.__class__
        if kind not in plain:
            found.append(kind)
        elif kind is tuple or kind is list:
            found.extend(x.__class__ for x in a if x.__class__ not in plain)
    return tuple(sorted(dict.fromkeys(found), key=lambda kind: -len(kind.__mro__))) if found else ()


def handlers(classes) -> tuple:
    """Those with a `__torch_function__` of their own."""
    return tuple(k for k in classes if own_handler(k) is not None)


def own_handler(kind):
    handler = getattr(kind, "__torch_function__", None)
    default = Tensor.__torch_function__
    return None if handler is None or getattr(handler, "__func__", handler) is default.__func__ else handler


def public(op):
    """The public function of a record's name; the record itself where there is none."""
    for space in namespaces:
        found = getattr(space, op.name, None)
        if callable(found):
            return found
    return op


def overridden(op, args, run):
    """A call with foreign operands, or NotImplemented if they are nothing special; `run(op, args)` is the call."""
    classes = foreign_classes(args)
    if not classes:
        return NotImplemented
    asked = handlers(classes) if not state.plain_calls else ()
    for kind in asked:
        answer = kind.__torch_function__(public(op), asked, tuple(args), {})
        if answer is not NotImplemented:
            return answer
    if asked:
        names = ", ".join(k.__name__ for k in asked)
        raise TypeError(
            f"no implementation found for '{op.name}' on types that implement __torch_function__: [{names}]"
        )
    kind = next((k for k in classes if issubclass(k, Tensor)), None)
    return NotImplemented if kind is None else as_kind(run(op, args), kind, args)


def as_kind(result, kind, args=()):
    """Results that are tensors, and none of the operands, as tensors of a subclass."""
    if isinstance(result, tuple):
        made = [as_kind(r, kind, args) for r in result]
        return type(result)(*made) if hasattr(result, "_fields") else type(result)(made)
    if type(result) is Tensor and not any(result is a for a in args):
        result.__class__ = kind
    return result


class plain_calls:
    """Inside, `__torch_function__` is not asked."""

    def __enter__(self):
        self.previous, state.plain_calls = state.plain_calls, True

    def __exit__(self, *_):
        state.plain_calls = self.previous


def default_handler(cls, func, types, args=(), kwargs=None):
    """What a subclass without its own does: the call, with results of the subclass."""
    if not all(issubclass(cls, t) or t in plain for t in types):
        return NotImplemented
    with plain_calls():
        result = func(*args, **(kwargs or {}))
    return as_kind(result, cls, args)


def as_subclass(self, cls):
    """The same tensor, with its history, as an instance of a subclass."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass(): {cls!r} is no subclass of Tensor")
    made = OPS["alias"](self)
    made.__class__ = cls
    return made


def make_subclass(cls, data, require_grad=False):
    """`Tensor._make_subclass`: the memory of `data` as a leaf of the subclass."""
    if not isinstance(data, Tensor):
        raise TypeError(f"_make_subclass(): argument 'data' must be Tensor, not {type(data).__name__}")
    made = data._alias()
    made.__class__ = cls
    return made.requires_grad_(require_grad)


Tensor.__torch_function__ = classmethod(default_handler)
Tensor.as_subclass = as_subclass
Tensor._make_subclass = staticmethod(make_subclass)
