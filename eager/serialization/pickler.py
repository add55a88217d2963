"""Objects to pickles in PyTorch's names: tensors as geometry over storages, storages as references by key.

In: any picklable object. Out: the bytes, and the storages by key in the order in which they were met. Python's own
pickler writes the rest; the C one insists on importing what it names, and `torch._utils` is not here.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from types import FunctionType
from typing import Any

from .. import device as devices, dtypes
from ..nn.parameter import Buffer, Parameter
from ..storage import UntypedStorage
from ..memory_formats import layout
from ..sparse import SparseBase, rebuilt
from ..tensor import Tensor
from ..typed_storage import LEGACY, STORAGE_NAMES, TypedStorage
from . import rebuild
from .locations import location_tag
from .names import EAGER, NAMES, name_of

_Python: Any = pickle._Pickler
_OWN_REDUCERS = (Tensor.__reduce_ex__, Parameter.__reduce_ex__)


class Pickler(_Python):
    """`legacy` storage references carry a sixth field, as files before the zip format do."""

    def __init__(self, file, protocol: int = 2, legacy: bool = False):
        super().__init__(file, protocol=protocol)
        self.legacy, self.storages, self.keys, self.types = legacy, {}, {}, {}

    # -- storages

    def persistent_id(self, obj):
        if isinstance(obj, TypedStorage):
            return self.reference(obj._untyped_storage, obj.dtype)
        if isinstance(obj, UntypedStorage):
            return self.reference(obj, None)
        return None

    def reference(self, storage, dtype):
        """What stands in the pickle for a storage; types without an old name refer to the bytes."""
        dtype = dtype if dtype in STORAGE_NAMES else None
        known = self.types.setdefault(id(storage), dtype or dtypes.uint8)
        if known is not (dtype or dtypes.uint8):
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        key = self.keys.get(id(storage))
        if key is None:
            key = self.keys[id(storage)] = str(id(storage) if self.legacy else len(self.storages))
            self.storages[key] = storage, dtype
        kind = LEGACY[STORAGE_NAMES[dtype]] if dtype else UntypedStorage
        count = storage.nbytes() // (dtype.itemsize if dtype else 1)
        return ("storage", kind, key, location_tag(storage), count, *((None,) if self.legacy else ()))

    # -- names and reductions

    def save_global(self, obj, name=None):
        known = NAMES.get(id(obj))
        if known is None and not (getattr(obj, "__module__", None) or "").startswith(EAGER):
            return super().save_global(obj, name)
        module, name = known or name_of(obj, name)
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    dispatch = {**_Python.dispatch, FunctionType: save_global}

    def reducer_override(self, obj):
        if isinstance(obj, SparseBase):
            return rebuilt, (obj.layout, obj.parts())
        if isinstance(obj, Tensor):
            return reduce_tensor(obj) if type(obj).__reduce_ex__ in _OWN_REDUCERS else NotImplemented
        kind = type(obj)
        if kind is dtypes.dtype:
            return obj.name
        if kind is devices.device:
            return devices.device, (obj.type,) if obj.index is None else (obj.type, obj.index)
        if kind is layout:
            return rebuild.get_layout, (repr(obj),)
        return NotImplemented


def reduce_tensor(t: Tensor):
    """(function, arguments) for a tensor of any class."""
    if isinstance(t, Parameter):
        return reduce_parameter(t)
    function, arguments = reduce_plain(t)
    state = dict(t.__dict__)
    if isinstance(t, Buffer):
        state["_is_buffer"] = True
    if type(t) in (Tensor, Buffer) and not state:
        return function, arguments
    kind = Tensor if isinstance(t, Buffer) else type(t)
    return rebuild.rebuild_from_type_v2, (function, kind, arguments, state)


def reduce_parameter(t: Parameter):
    arguments = (_data(t), t.requires_grad, OrderedDict())
    if t.__dict__:
        return rebuild.rebuild_parameter_with_state, (*arguments, dict(t.__dict__))
    return rebuild.rebuild_parameter, arguments


def _data(t):
    """The same memory as a plain tensor."""
    data = t.detach()
    data.__class__ = Tensor
    return data


def reduce_plain(t: Tensor):
    sizes, strides = tuple(t._fl_sizes), tuple(t._fl_strides)
    if t._fl_device.type == "meta":
        return rebuild.rebuild_meta_tensor_no_storage, (t._fl_dtype, sizes, strides, t.requires_grad)
    t._values("save()")
    typed = TypedStorage(wrap_storage=t._fl_ensure_storage(), dtype=t._fl_dtype)
    arguments = (typed, t.storage_offset(), sizes, tuple(t._fl_strides), t.requires_grad, OrderedDict())
    if t._fl_dtype in STORAGE_NAMES:
        return rebuild.rebuild_tensor_v2, arguments
    return rebuild.rebuild_tensor_v3, (*arguments, t._fl_dtype)
