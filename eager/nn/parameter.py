"""Parameter and Buffer: tensors that a Module registers when they are assigned to it.

In: a tensor (its memory is shared, its history is cut off). Out: a leaf of the subclass.
"""

import copy
from typing import TYPE_CHECKING, Any

from .. import _call
from ..overrides import plain_tensors
from .. import dtypes
from ..dispatch import set_data
from ..ops.creation import empty
from ..tensor import Tensor


class Parameter(Tensor):
    """A leaf tensor that requires grad by default and is found by `Module.parameters()`."""

    def __new__(cls, data=None, requires_grad=True):
        return _leaf(cls, data).requires_grad_(requires_grad)

    def __init__(self, *args, **kwargs):
        """`__new__` has read the arguments; a subclass whose `__new__` takes others needs no `__init__`."""

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
            _copy_attributes(self, memo[id(self)], memo)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return _rebuild, (type(self), self.detach(), self.requires_grad, self.__dict__)

    def __repr__(self):
        return "Parameter containing:\n" + Tensor.__repr__(self)


class Buffer(Tensor):
    """A tensor that becomes a buffer of the module it is assigned to; `persistent` puts it into the state_dict."""

    def __new__(cls, data=None, *, persistent=True):
        t = _leaf(cls, data)
        t.persistent = persistent
        return t

    def __init__(self, *args, **kwargs):
        """`__new__` has read the arguments; a subclass whose `__new__` takes others needs no `__init__`."""


plain_tensors(Parameter, Buffer)
_call.plain(Parameter, Buffer)  # results of ops on these are plain tensors


_UNKNOWN = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
    "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` to "
    "initialize the parameters before accessing their attributes."
)


if TYPE_CHECKING:
    _Unsized = Tensor  # or Parameter, that the mixin stands before
else:
    _Unsized = object


class UninitializedTensorMixin(_Unsized):
    """A tensor without sizes yet; `materialize` gives it sizes and makes it one of `cls_to_become`."""

    cls_to_become: type[Tensor]

    def materialize(self, shape, device=None, dtype=None):
        """Uninitialised memory of these sizes; the tensor object stays the same."""
        t: Any = self
        set_data(t, empty(tuple(shape), dtype or t.dtype, device or t.device))
        t.__class__ = self.cls_to_become

    def _fl_no_sizes(self, *args, **kwargs):
        raise RuntimeError(_UNKNOWN)

    def detach(self):
        return self

    shape = property(_fl_no_sizes)
    size = dim = ndimension = numel = stride = share_memory_ = _fl_no_sizes

    def __repr__(self):
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            kind: Any = type(self)
            memo[id(self)] = kind(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return type(self), (self.requires_grad, self.device, self.dtype)


def is_lazy(param):
    """True of parameters and buffers whose sizes are not known yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose sizes the first input will tell."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return _unsized(cls, device, dtype).requires_grad_(requires_grad)

    def __init__(self, *args, **kwargs):
        """`__new__` has read the arguments; a subclass whose `__new__` takes others needs no `__init__`."""


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose sizes the first input will tell."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        t = _unsized(cls, device, dtype).requires_grad_(requires_grad)
        t.persistent = persistent
        return t

    def __init__(self, *args, **kwargs):
        """`__new__` has read the arguments; a subclass whose `__new__` takes others needs no `__init__`."""


def _unsized(cls, device, dtype) -> Any:
    return _leaf(cls, empty((0,), dtype or dtypes.get_default_dtype(), device))


def _leaf(cls, data) -> Any:
    t = Tensor() if data is None else data.detach()
    t.__class__ = cls
    return t


def _copy_attributes(old, new, memo):
    new.__dict__.update((k, copy.deepcopy(v, memo)) for k, v in old.__dict__.items())
    if old.grad is not None:
        new.grad = copy.deepcopy(old.grad, memo)


def _rebuild(cls, data, requires_grad, attributes):
    param = cls(data, requires_grad)
    param.__dict__.update(attributes)
    return param
