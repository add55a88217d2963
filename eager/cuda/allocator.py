"""Blocks of a GPU's memory under tensors, and how many bytes of them there are.

In: byte counts, or cupy arrays that nobody else holds. Out: storages. cupy's pool keeps freed blocks for the next request;
what is counted here are the bytes that tensors hold.
"""

from __future__ import annotations

import weakref

import numpy as np

from .. import device as devices
from ..device import device
from ..storage import UntypedStorage
from .find_cupy import cupy

BYTE = np.dtype(np.uint8)


class OutOfMemoryError(RuntimeError):
    """The GPU has no such block left."""


class Counts:
    """Bytes that tensors hold on one GPU: now, at most, and since the start of the process (given out, given back)."""

    def __init__(self):
        self.now = self.peak = self.given = self.back = self.blocks = self.pool_peak = self.refused = 0

    def add(self, nbytes: int) -> None:
        self.now += nbytes
        self.given += nbytes
        self.blocks += 1
        self.peak = max(self.peak, self.now)

    def resize(self, more: int) -> None:
        self.now += more
        self.given += max(more, 0)
        self.back += max(-more, 0)
        self.peak = max(self.peak, self.now)

    def drop(self, nbytes: int) -> None:
        self.now -= nbytes
        self.back += nbytes
        self.blocks -= 1


_counts: dict[int, Counts] = {}


def counts(index: int) -> Counts:
    return _counts.setdefault(index, Counts())


class on:
    """`with on(index):` cupy works on this GPU."""

    __slots__ = ("entered", "index")

    def __init__(self, index: int):
        self.index, self.entered = index, None

    def __enter__(self):
        if cupy().cuda.runtime.getDevice() != self.index:
            self.entered = cupy().cuda.Device(self.index)
            self.entered.__enter__()

    def __exit__(self, *error):
        if self.entered is not None:
            self.entered.__exit__(*error)


def allocated(nbytes: int, index: int):
    """A fresh block; after an empty pool has not helped, an error with the numbers."""
    with on(index):
        try:
            return cupy().empty(nbytes, BYTE)
        except cupy().cuda.memory.OutOfMemoryError as error:
            raise OutOfMemoryError(refused(index, error)) from None


def refused(index: int, error) -> str:
    """What is told when the pool has no block: the driver's and our numbers."""
    counts(index).refused += 1
    free, total = cupy().cuda.runtime.memGetInfo()
    return (
        f"CUDA out of memory ({error}). GPU {index} has a total capacity of {readable(total)} of which {readable(free)} is "
        f"free. {readable(counts(index).now)} are held by tensors; torch.cuda.empty_cache() gives back what the pool holds."
    )


def readable(nbytes: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} bytes"


class CudaStorage(UntypedStorage):
    """A block of a GPU's memory, a flat uint8 cupy array; it goes back to the pool with the storage."""

    __slots__ = ("block", "last")
    runtime = None  # set by runtime.py

    def __init__(self, nbytes: int, place: device, block=None):
        super().__init__(None, nbytes, place)
        self.block = allocated(nbytes, place.index) if block is None else block
        self.last = None
        counts(place.index).add(nbytes)

    def __del__(self):
        if getattr(self, "block", None) is not None:
            _counts[self.device.index].drop(self.count)

    @classmethod
    def holding(cls, array, place: device, span: int | None = None) -> CudaStorage:
        """The memory of an array: without gaps, or (`span`) so many bytes from its first element on."""
        nbytes = array.nbytes if span is None else span
        flat = cupy().ndarray((nbytes,), BYTE, array.data) if nbytes else cupy().empty(0, BYTE)
        return cls(nbytes, place, flat)

    def data_ptr(self) -> int:
        return self.block.data.ptr if self.count else 0

    def clone(self) -> CudaStorage:
        with on(self.device.index):
            return CudaStorage(self.count, self.device, self.block.copy())

    def _held(self):
        with on(self.device.index):
            return self.block.get()

    def __getitem__(self, key):
        if isinstance(key, slice):
            part = self.block[key]
            return CudaStorage(part.nbytes, self.device, part)
        return int(self.block[key].item())

    def __setitem__(self, key, value) -> None:
        with on(self.device.index):
            if isinstance(value, CudaStorage):
                self.block[key] = value.block
            elif isinstance(value, UntypedStorage):
                self.block[key] = cupy().asarray(value.bytes)
            else:
                self.block[key] = value
        self.data_version += 1

    def resize_(self, size: int) -> CudaStorage:
        fresh = allocated(size, self.device.index)
        kept = min(size, self.count)
        with on(self.device.index):
            fresh.fill(0)
            fresh[:kept] = self.block[:kept]
        counts(self.device.index).resize(size - self.count)
        self.block, self.count = fresh, size
        self.data_version += 1
        return self

    def __reduce_ex__(self, protocol):
        return uploaded, (self._held(), str(self.device))

    def cpu(self) -> UntypedStorage:
        return UntypedStorage(self._held())

    def cuda(self, device=None, non_blocking=False):
        return self

    def share_memory_(self):
        return self

    def is_shared(self) -> bool:
        return True


def uploaded(host: np.ndarray, place: str) -> CudaStorage:
    """What a pickled storage is made of again."""
    d = devices.resolve_device(place)
    return devices.runtimes["cuda"].upload(UntypedStorage(host), d)


class Pending:
    """Memory that the GPU may still use although nobody holds it: (event, what to keep), dropped when the event is over."""

    waiting: list = []

    @classmethod
    def keep(cls, thing, stream=None) -> None:
        """Until what is in a stream (None: the current one) now is done."""
        cls.waiting = [(event, kept) for event, kept in cls.waiting if not event.done]
        event = cupy().cuda.Event(disable_timing=True)
        event.record(stream if stream is not None else cupy().cuda.get_current_stream())
        cls.waiting.append((event, thing))


_pinned: weakref.WeakSet = weakref.WeakSet()


def pinned_copy(array: np.ndarray) -> np.ndarray:
    """The same numbers in memory that a GPU copies from without the processor."""
    import cupyx

    fresh = cupyx.empty_pinned(array.nbytes, BYTE).view(array.dtype) if array.nbytes else np.empty(0, array.dtype)
    fresh = fresh.reshape(array.shape)
    fresh[...] = array
    return fresh


def mark_pinned(storage: UntypedStorage) -> None:
    _pinned.add(storage)


def is_pinned(storage) -> bool:
    return storage is not None and storage in _pinned
