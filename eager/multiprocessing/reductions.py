"""How tensors travel between processes: the descriptor of their storage's shared memory, and their geometry.

In: a tensor or storage that multiprocessing pickles. Out: in the other process, a tensor over the same memory. One
descriptor that arrives twice is one storage: its file's identity is the key.
"""

from __future__ import annotations

import os
import weakref
from multiprocessing import reduction

import numpy as np


from ..nn.parameter import Buffer, Parameter
from ..shared_memory import SharedFile
from ..storage import UntypedStorage
from ..tensor import Tensor
from ..typed_storage import LEGACY, TypedStorage

_storages: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # (device, inode) of the file -> storage here


def _identity(fd: int) -> tuple:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def reduce_storage(storage: UntypedStorage):
    if storage.bytes is None:
        raise RuntimeError("a storage on the device meta has no bytes to send")
    if storage.nbytes() == 0:
        return UntypedStorage, ()
    fd = storage.share_memory_().shared.fd
    _storages[_identity(fd)] = storage
    return rebuild_storage, (reduction.DupFd(fd), storage.nbytes())


def rebuild_storage(sent, nbytes: int) -> UntypedStorage:
    fd = sent.detach()
    key = _identity(fd)
    known = _storages.get(key)
    if known is not None:
        os.close(fd)
        return known
    shared = SharedFile(fd, nbytes)
    storage = UntypedStorage(shared.array(), foreign=True)
    storage.shared = shared
    _storages[key] = storage
    return storage


def reduce_tensor(t: Tensor):
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not "
            "support crossing process boundaries.  If you just want to transfer the data, call detach() on "
            "the tensor before serializing (e.g., putting it on the queue)."
        )
    if t._fl_device.type == "meta":
        return t.__reduce_ex__(2)
    storage = t._fl_ensure_storage()
    geometry = tuple(t._fl_sizes), tuple(t._fl_strides), t.storage_offset()
    return rebuild_tensor, (type(t), storage, t._fl_dtype, *geometry, t._fl_requires_grad, dict(t.__dict__))


def rebuild_tensor(cls, storage, dtype, sizes, strides, offset, requires_grad, attributes) -> Tensor:
    if storage.nbytes() == 0:
        t = Tensor._fl_from_array(np.empty(sizes, dtype.numpy), dtype, cls)
    else:
        t = Tensor._fl_over(storage, dtype, sizes, strides, offset, cls)
    t._fl_requires_grad = requires_grad
    t.__dict__.update(attributes)
    return t


def reduce_typed(storage: TypedStorage):
    return _typed, (storage._untyped_storage, storage.dtype)


def _typed(untyped, dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=untyped, dtype=dtype)


def init_reductions() -> None:
    """Tells multiprocessing's pickler."""
    for cls in (Tensor, Parameter, Buffer):
        reduction.ForkingPickler.register(cls, reduce_tensor)
    for cls in (TypedStorage, *LEGACY.values()):
        reduction.ForkingPickler.register(cls, reduce_typed)
    reduction.ForkingPickler.register(UntypedStorage, reduce_storage)
