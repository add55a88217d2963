"""torch.storage: storages seen as elements of one type, and the old names FloatStorage, LongStorage, ...

A TypedStorage is a type and an UntypedStorage; it owns nothing. It is what `Tensor.storage()` gives and what files
name when they tell the type of a tensor's storage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .storage import UntypedStorage
from .tensor import install_methods


class TypedStorage:
    """`TypedStorage(n, dtype=)`, `TypedStorage(values, dtype=)`, or `wrap_storage=` an UntypedStorage (shared)."""

    _dtype: dtypes.dtype  # of the old names' classes

    def __init__(self, data=None, *, wrap_storage=None, dtype=None, device=None, _internal=False):
        self.dtype = dtype or getattr(type(self), "_dtype", None) or dtypes.get_default_dtype()
        if wrap_storage is None:
            made = (
                np.empty(data or 0, self.dtype.numpy)
                if isinstance(data, (int, type(None)))
                else np.array(data).astype(self.dtype.numpy)
            )
            wrap_storage = UntypedStorage(made.reshape(-1).view(np.uint8))
        elif not isinstance(wrap_storage, UntypedStorage):
            raise TypeError(f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
        self._untyped_storage = wrap_storage

    def _array(self) -> np.ndarray:
        held = self._untyped_storage._held()
        return held[: self._size() * self.dtype.itemsize].view(self.dtype.numpy)

    def untyped(self) -> UntypedStorage:
        return self._untyped_storage

    def _size(self) -> int:
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = size = _size
    device = property(lambda self: self._untyped_storage.device)
    is_cuda = property(lambda self: False)
    is_sparse = False
    _cdata = property(lambda self: self._untyped_storage._cdata)

    def nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def pickle_storage_type(self) -> str:
        return STORAGE_NAMES[self.dtype]

    # -- values

    def tolist(self) -> list:
        return [_plain(v) for v in self._array().tolist()]

    def __iter__(self):
        return iter(self.tolist())

    def __getitem__(self, k):
        if isinstance(k, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return _plain(self._array()[k].item())

    def __setitem__(self, k, value) -> None:
        self._array()[k] = value._array() if isinstance(value, TypedStorage) else value
        self._untyped_storage.data_version += 1

    def fill_(self, value) -> TypedStorage:
        self[:] = value
        return self

    def copy_(self, source, non_blocking=None) -> TypedStorage:
        self[:] = source
        return self

    def clone(self) -> TypedStorage:
        return self._like(self._untyped_storage.clone())

    def _like(self, untyped: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=untyped, dtype=self.dtype)

    def type(self, dtype=None, non_blocking=False):
        """The old name of the type, or a converted copy."""
        if dtype is None:
            return f"torch.{self.pickle_storage_type()}"
        return TypedStorage(self._array(), dtype=dtype if isinstance(dtype, dtypes.dtype) else dtype._dtype)

    def cpu(self) -> TypedStorage:
        return self._like(self._untyped_storage.cpu())

    def cuda(self, device=None, non_blocking=False, **_):
        return self._untyped_storage.cuda(device)

    def pin_memory(self, device="cuda") -> TypedStorage:
        return self.clone()

    def is_pinned(self, device="cuda") -> bool:
        return False

    def is_shared(self) -> bool:
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        self._untyped_storage.share_memory_()
        return self

    def resize_(self, size: int) -> None:
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def __eq__(self, other):
        return isinstance(other, TypedStorage) and other._untyped_storage is self._untyped_storage

    def __hash__(self):
        return hash(self._untyped_storage)

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo) -> TypedStorage:
        return self._like(self._untyped_storage.__deepcopy__(memo))

    def __reduce_ex__(self, protocol):
        return _rebuild, (self._untyped_storage, self.dtype)

    def __repr__(self):
        shown = " ...\n" if self._untyped_storage.bytes is None else "".join(f" {v}\n" for v in self.tolist())
        return f"{shown}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self._size()}]"

    __str__ = __repr__

    @classmethod
    def from_buffer(cls, buffer, byte_order="native", *, count=-1, offset=0, dtype=None, device=None) -> TypedStorage:
        """A copy of a buffer's elements; `byte_order` is "native", "little" or "big"."""
        d = dtype or cls._dtype
        order: Any = {"native": "=", "little": "<", "big": ">"}[byte_order]
        values = np.frombuffer(buffer, d.numpy if d.itemsize == 1 else d.numpy.newbyteorder(order), count, offset)
        return cls(values, dtype=d)

    @classmethod
    def from_file(cls, filename, shared=False, size=0) -> TypedStorage:
        d = getattr(cls, "_dtype", None) or dtypes.get_default_dtype()
        return cls(wrap_storage=UntypedStorage.from_file(filename, shared, size * d.itemsize), dtype=d)


def _converter(dtype):
    def method(self) -> TypedStorage:
        return self.type(dtype)

    return method


for _dtype in dtypes.LEGACY:
    setattr(TypedStorage, _dtype.scalar_type.lower().replace("complex", "complex_"), _converter(_dtype))


def _plain(value):
    return value if type(value) in (float, int, bool, complex) else float(value)


def _rebuild(untyped, dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=untyped, dtype=dtype)


LEGACY: dict[str, type[TypedStorage]] = {
    f"{d.scalar_type}Storage": type(f"{d.scalar_type}Storage", (TypedStorage,), {"_dtype": d, "__module__": __name__})
    for d in dtypes.LEGACY
}
STORAGE_NAMES = {cls._dtype: name for name, cls in LEGACY.items()}  # types without one are named in files by themselves
globals().update(LEGACY)


def is_storage(obj) -> bool:
    """True for untyped and typed storages."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


def storage(self) -> TypedStorage:
    """The tensor's storage as elements of its type."""
    return TypedStorage(wrap_storage=self._fl_ensure_storage(), dtype=self._fl_dtype)


install_methods({"storage": storage, "_typed_storage": storage})
