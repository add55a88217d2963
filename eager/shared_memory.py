"""Memory that other processes can map: an unlinked file in memory, known by its descriptor.

In: a byte count, or a descriptor that another process sent. Out: a flat uint8 array over the mapping. The memory lives
as long as any process holds the descriptor or a mapping, and needs no clean-up.
"""

from __future__ import annotations

import mmap
import os

import numpy as np


class SharedFile:
    """A descriptor that is closed with the object."""

    def __init__(self, fd: int, nbytes: int):
        self.fd, self.nbytes = fd, nbytes

    @classmethod
    def create(cls, nbytes: int) -> SharedFile:
        """A new file of zeros."""
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("flambeau", os.MFD_CLOEXEC)
        else:
            import tempfile

            fd, path = tempfile.mkstemp(prefix="flambeau-")
            os.unlink(path)
        os.ftruncate(fd, nbytes)
        return cls(fd, nbytes)

    def array(self) -> np.ndarray:
        """The file's memory."""
        if self.nbytes == 0:
            return np.empty(0, np.uint8)
        if os.fstat(self.fd).st_size < self.nbytes:
            raise ValueError(f"a shared file of {os.fstat(self.fd).st_size} bytes, {self.nbytes} expected")
        return np.frombuffer(mmap.mmap(self.fd, self.nbytes), np.uint8)

    def __del__(self):
        os.close(self.fd)
