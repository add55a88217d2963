"""Batches between processes: one pickle, and the tensors' bytes in one file of shared memory.

`pack` writes every large buffer of a batch into one file of the loader's folder (in /dev/shm where there is one);
`unpack` maps that file, removes its name and returns tensors over the mapping, without a copy. The mapping lives as long as
the tensors.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
from typing import Any

import numpy as np

from ...storage import Storage, flat_bytes
from ...tensor import Tensor

SMALL = 1 << 12  # shorter batches travel inside the pickle
ALIGN = 64


def folder():
    """A new private folder for one loader's batches."""
    import tempfile

    shared = "/dev/shm"
    return tempfile.TemporaryDirectory(prefix="flambeau-data-", dir=shared if os.access(shared, os.W_OK) else None)


class _Pickler(pickle.Pickler):
    """Tensors by their storage's bytes, out of band; tensors that share a storage still do."""

    def reducer_override(self, obj):
        if type(obj) is Tensor:
            return _reduce(obj)
        if type(obj) is Storage:
            flat: Any = obj.bytes
            return _storage, (pickle.PickleBuffer(flat),)
        return NotImplemented


def _reduce(t):
    if t.grad_fn is not None:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not "
            "support crossing process boundaries.  If you just want to transfer the data, call detach() "
            "on the tensor before serializing (e.g., putting it on the queue)."
        )
    if t._fl_array.flags.c_contiguous:  # a piece of a larger storage goes alone
        flat: Any = flat_bytes(t._fl_array)
        return _tensor, (pickle.PickleBuffer(flat), t.dtype, tuple(t.shape), t._fl_requires_grad)
    return _view, (t.untyped_storage(), t.dtype, tuple(t.shape), t.stride(), t.storage_offset(), t._fl_requires_grad)


def _tensor(raw, dtype, sizes, requires_grad):
    made = Tensor._fl_from_array(np.frombuffer(raw, np.uint8).view(dtype.numpy).reshape(sizes), dtype)
    return made.requires_grad_() if requires_grad else made


def _storage(raw):
    return np.frombuffer(raw, np.uint8)


def _view(raw, dtype, sizes, strides, offset, requires_grad):
    flat = Tensor._fl_from_array(raw[: raw.size // dtype.itemsize * dtype.itemsize].view(dtype.numpy), dtype)
    made = flat.as_strided(sizes, strides, offset)
    return made.requires_grad_() if requires_grad else made


def pack(value, where: str, name: str):
    """(pickle, file name or None, places of the buffers): what crosses the queue."""
    buffers, stream = [], io.BytesIO()
    _Pickler(stream, 5, buffer_callback=buffers.append).dump(value)
    raws = [b.raw() for b in buffers]
    total = sum(r.nbytes for r in raws)
    if total < SMALL:
        return stream.getvalue(), None, [bytes(r) for r in raws]
    return stream.getvalue(), *_write(raws, os.path.join(where, name))


def _write(raws, path):
    places, end = [], 0
    for raw in raws:
        places.append((end, raw.nbytes))
        end += -(-raw.nbytes // ALIGN) * ALIGN
    with open(path, "xb") as out:
        for (start, _), raw in zip(places, raws):
            out.seek(start)
            out.write(raw)
        out.truncate(max(end, 1))
    return path, places


def unpack(message):
    """The batch; the shared file has no name afterwards."""
    text, path, places = message
    if path is None:
        return pickle.loads(text, buffers=[bytearray(p) for p in places])
    with open(path, "r+b") as source:
        os.unlink(path)
        memory = memoryview(mmap.mmap(source.fileno(), 0))
    return pickle.loads(text, buffers=[memory[start : start + n] for start, n in places])
