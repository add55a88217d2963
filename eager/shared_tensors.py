"""Tensor.share_memory_ and is_shared: bytes in memory that other processes map."""

from __future__ import annotations

import importlib

from .errors import DataDependent
from .tensor import Tensor, install_methods


def share_memory_(self) -> Tensor:
    """Moves the bytes to memory that other processes can map; every tensor over the storage moves along."""
    importlib.import_module(f"{__package__}.multiprocessing")  # from now on processes are sent descriptors, not copies
    _real(self, "share_memory_()")._fl_ensure_storage().share_memory_()
    return self


def is_shared(self) -> bool:
    """True where the bytes lie in such memory."""
    return _real(self, "is_shared()")._fl_ensure_storage().is_shared()


def _real(tensor, what: str) -> Tensor:
    """The tensor; a trace, whose tensors on the CPU have no bytes, breaks here."""
    if tensor._fl_array is None and tensor._fl_device.type == "cpu":
        raise DataDependent(what)
    return tensor


install_methods({"share_memory_": share_memory_, "is_shared": is_shared})
