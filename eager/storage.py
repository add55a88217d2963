"""Storage: the bytes that tensors share. Its identity is what aliasing means, with bytes or (for fakes) without.

Two counters: `_version` moves with writes that autograd must see, `data_version` with every write of the library, so
that values derived from the bytes (packed weights, folded constants) can tell whether they are stale.
"""

from __future__ import annotations

import gc
import sys
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from . import device as devices
from .device import cpu
from .shared_memory import SharedFile

BYTE = np.dtype(np.uint8)
_EMPTY = np.empty(0, BYTE)


class UntypedStorage:
    """`bytes`: one flat uint8 array over the memory, or None. `views`: weak references to the tensors that are
    recorded views of one base, in creation order (an in-place write gives all of them a new history).

    `UntypedStorage(n)` is n fresh bytes, `UntypedStorage(sequence)` has the sequence's values.
    """

    __slots__ = (
        "bytes",
        "_version",
        "data_version",
        "foreign",
        "views",
        "pruned",
        "count",
        "device",
        "shared",
        "lent",
        "__weakref__",
    )
    bytes: np.ndarray | Any
    count: Any  # a symbolic int, of a traced program's
    device: devices.device
    shared: SharedFile | Any  # None while the memory is of this process alone
    views: list | None
    is_sparse = is_sparse_csr = False
    runtime: Any = None  # of the device whose memory it is (plugin.py)

    if TYPE_CHECKING:  # what only the storages of devices have
        block: Any
        get: Any
        put: Any

    def __init__(self, flat: np.ndarray | None = _EMPTY, count=0, device=None, foreign: bool = False):
        if flat is not None and type(flat) is not np.ndarray:
            flat = fresh_bytes(flat)
        self.bytes, self.count, self.device, self.foreign = flat, count, device or cpu, foreign
        self._version = self.data_version = 0
        self.lent = False  # the memory is numpy's, or of a file: it does not grow
        self.views = self.shared = None

    def bump(self) -> None:
        self._version += 1
        self.data_version += 1

    def add_view(self, tensor) -> None:
        """Remember a view; dead references are dropped as the list doubles."""
        if self.views is None:
            self.views, self.pruned = [], 32
        elif len(self.views) > self.pruned:
            self.views = [ref for ref in self.views if ref() is not None]
            self.pruned = 2 * len(self.views) + 32
        self.views.append(weakref.ref(tensor))

    def live_views(self) -> list:
        return [v for ref in self.views or () if (v := ref()) is not None]

    # -- geometry

    def nbytes(self):
        return self.count if self.bytes is None else self.bytes.nbytes

    __len__ = size = nbytes

    def untyped(self) -> UntypedStorage:
        return self

    def element_size(self) -> int:
        return 1

    def data_ptr(self) -> int:
        if self.bytes is None:
            return 0
        self.foreign = True
        return address(self.bytes)

    @property
    def _cdata(self) -> int:
        return id(self)

    is_cuda = property(lambda self: self.device.type == "cuda")
    filename = property(lambda self: None)

    def get_device(self) -> int:
        return -1 if self.device.index is None else self.device.index

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def __repr__(self):
        shown = " ...\n" if self.bytes is None else "".join(f" {v}\n" for v in self.bytes.tolist())
        return f"{shown}[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"

    # -- values

    def _held(self) -> np.ndarray:
        if self.bytes is None:
            raise NotImplementedError(f"a storage on {self.device} has no bytes to read or write")
        return self.bytes

    def tolist(self) -> list:
        return self._held().tolist()

    def __iter__(self):
        return iter(self.tolist())

    def __getitem__(self, key):
        """A byte, or for a slice a storage over the same memory."""
        found = self._held()[key]
        return UntypedStorage(found) if isinstance(key, slice) else int(found)

    def __setitem__(self, key, value) -> None:
        self._held()[key] = value.bytes if isinstance(value, UntypedStorage) else value
        self.data_version += 1

    def fill_(self, value: int) -> UntypedStorage:
        self[:] = value
        return self

    def copy_(self, source, non_blocking=None) -> UntypedStorage:
        if source.nbytes() != self.nbytes():
            raise RuntimeError(f"copy_() of {source.nbytes()} bytes into a storage of {self.nbytes()}")
        self[:] = source
        return self

    def clone(self) -> UntypedStorage:
        return UntypedStorage(None if self.bytes is None else self.bytes.copy(), self.count, self.device)

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo) -> UntypedStorage:
        """One copy per storage, under the key that tensors use as well."""
        return copied(self, memo)

    def __reduce_ex__(self, protocol):
        return storage_of, (self._held(),)

    def byteswap(self, dtype) -> None:
        """Reverses the bytes of every element of a type."""
        self._held().view(dtype.numpy if not dtype.is_complex else dtype.to_real().numpy).byteswap(inplace=True)
        self.data_version += 1

    def cpu(self) -> UntypedStorage:
        self._held()
        return self

    def cuda(self, device=None, non_blocking=False):
        place = devices.resolve_device("cuda" if device is None else device)
        return devices.runtimes["cuda"].upload(self, place)

    def pin_memory(self, device="cuda"):
        return self.clone()

    def is_pinned(self, device="cuda") -> bool:
        return False

    # -- other memory under the same tensors

    def is_shared(self) -> bool:
        return self.shared is not None

    def share_memory_(self) -> UntypedStorage:
        """Moves the bytes to memory that other processes can map. Arrays exported before keep the old memory."""
        if self.shared is None:
            shared = SharedFile.create(self.nbytes())
            flat = shared.array()
            flat[:] = self._held()
            self.replace(flat)
            self.shared, self.foreign = shared, True
        return self

    def replace(self, flat: np.ndarray) -> None:
        """Other bytes under this storage and under every tensor over it (found by the garbage collector's links)."""
        old, self.bytes = self.bytes, flat
        if sys.getrefcount(self) > 2 and old is not None:
            for holder in gc.get_referrers(self):
                if getattr(holder, "_fl_storage", None) is self and holder._fl_array is not None:
                    sizes, strides, offset = holder._fl_geometry
                    if holder._fl_array.size:
                        holder._fl_array = strided(flat, holder._fl_array.dtype, sizes, holder._fl_strides, offset)
        self.data_version += 1

    def resize_(self, size: int) -> UntypedStorage:
        """So many bytes, the old ones kept; the tensors over it must fit."""
        flat = np.zeros(size, BYTE)
        kept = min(size, self.nbytes())
        flat[:kept] = self._held()[:kept]
        self.replace(flat)
        return self

    @classmethod
    def from_buffer(cls, buffer, byte_order="native", *, count=-1, offset=0, dtype=None) -> UntypedStorage:
        """A copy of `count` elements of `dtype` (default: bytes) of a buffer, from byte `offset` on; `byte_order` is theirs."""
        size = 1 if dtype is None else dtype.itemsize
        rows = np.frombuffer(buffer, f"V{size}", count, offset).view(BYTE).reshape(-1, size)
        return cls((rows if byte_order in ("native", sys.byteorder) else rows[:, ::-1]).reshape(-1).copy())

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0) -> UntypedStorage:
        """The bytes of a file: a private copy, or (shared) the file's memory, which is made as long as asked."""
        mode = "c" if not shared else "r+" if _length(filename) >= nbytes else "w+"
        return cls(np.asarray(np.memmap(filename, BYTE, mode, shape=(nbytes,))), foreign=shared)


Storage = UntypedStorage  # the short name that the rest of the library uses


def _length(filename) -> int:
    try:
        with open(filename, "rb") as f:
            return f.seek(0, 2)
    except FileNotFoundError:
        return -1


def fresh_bytes(data) -> np.ndarray:
    """Memory for a byte count or a sequence of byte values."""
    return np.empty(data, BYTE) if isinstance(data, int) else np.array(data, BYTE).reshape(-1)


def storage_of(array: np.ndarray) -> UntypedStorage:
    """What a pickled storage is made of again (arrays may come back read-only from out-of-band buffers)."""
    return UntypedStorage(array if array.flags.writeable else array.copy())


def copied(storage: UntypedStorage, memo: dict) -> UntypedStorage:
    """The copy of a storage in a deepcopy; the memo keeps the original alive."""
    key = ("storage", id(storage))
    if key not in memo:
        memo[key] = storage.clone()
        memo[("kept", id(storage))] = storage
    return memo[key]


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


NEGATIVE_STRIDES = (
    "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. "
    "(You can probably work around this by making a copy of your array with array.copy().)"
)


def flat_bytes(array: np.ndarray) -> np.ndarray:
    """The memory from the first to the last element of `array` as a flat uint8 array that keeps it alive."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(BYTE)
    if array.size == 0:
        return np.empty(0, BYTE)
    step = array.itemsize
    if any(s < 0 or s % step for s in array.strides):
        raise ValueError(NEGATIVE_STRIDES)
    span = 1 + sum((n - 1) * (s // step) for n, s in zip(array.shape, array.strides))
    if step <= 2:
        array = array.view(f"u{step}")  # numpy's interface has no name for float8
    return np.lib.stride_tricks.as_strided(array, (span,), (step,)).view(BYTE)


def strided(flat: np.ndarray, dtype: np.dtype, sizes, strides, offset: int) -> np.ndarray:
    """The array with this geometry (in elements) over flat bytes."""
    step = dtype.itemsize
    offset = 0 if 0 in sizes else offset  # numpy refuses an empty array that starts at the very end
    return np.ndarray(sizes, dtype, flat, offset * step, tuple([s * step for s in strides]))
