"""Parameter and Buffer: tensors that a Module registers when they are assigned to it.

In: a tensor (its memory is shared, its history is cut off). Out: a leaf of the subclass.
"""

import copy

from .. import _call
from ..tensor import Tensor


class Parameter(Tensor):
    """A leaf tensor that requires grad by default and is found by `Module.parameters()`."""

    def __new__(cls, data=None, requires_grad=True):
        return _leaf(cls, data).requires_grad_(requires_grad)

    def __init__(self, data=None, requires_grad=True):
        pass

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

    def __init__(self, data=None, *, persistent=True):
        pass


_call.plain(Parameter, Buffer)  # results of ops on these are plain tensors


def _leaf(cls, data):
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
