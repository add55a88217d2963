"""Storage: the bytes that tensors share. Its identity is what aliasing means, with bytes or (for fakes) without.

Two counters: `_version` moves with writes that autograd must see, `data_version` with every write of the library, so
that values derived from the bytes (packed weights, folded constants) can tell whether they are stale.
"""

from __future__ import annotations

import weakref

import numpy as np

BYTE = np.dtype(np.uint8)


class Storage:
    """`bytes`: one flat uint8 array over the memory, or None. `views`: weak references to the tensors that are
    recorded views of one base, in creation order (an in-place write gives all of them a new history).
    """

    __slots__ = (
        "bytes",
        "_version",
        "data_version",
        "foreign",
        "views",
        "pruned",
        "whole",
        "size",
        "device",
        "__weakref__",
    )

    def __init__(self, flat: np.ndarray | None, size=0, device=None, foreign: bool = False):
        self.bytes, self.size, self.device, self.foreign = flat, size, device, foreign
        self._version = self.data_version = 0
        self.views = self.whole = None

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

    def nbytes(self):
        return self.size if self.bytes is None else self.bytes.nbytes

    __len__ = nbytes

    def data_ptr(self) -> int:
        return address(self.bytes) if self.bytes is not None else 0

    def tolist(self) -> list:
        return self.bytes.tolist()

    @property
    def _cdata(self) -> int:
        return id(self)

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def flat_bytes(array: np.ndarray) -> np.ndarray:
    """The memory from the first to the last element of `array` as a flat uint8 array that keeps it alive."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(BYTE)
    if array.size == 0:
        return np.empty(0, BYTE)
    step = array.itemsize
    if any(s < 0 or s % step for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with "
            "array.copy().)"
        )
    span = 1 + sum((n - 1) * (s // step) for n, s in zip(array.shape, array.strides))
    return np.lib.stride_tricks.as_strided(array, (span,), (step,)).view(BYTE)


def strided(flat: np.ndarray, dtype: np.dtype, sizes, strides, offset: int) -> np.ndarray:
    """The array with this geometry (in elements) over flat bytes."""
    step = dtype.itemsize
    return np.ndarray(sizes, dtype, flat, offset * step, tuple([s * step for s in strides]))
