"""What code this is: one hash over the package's sources, its extensions and the Python that runs it.

Whatever is stored for other processes is stored under this hash, so that another version, or an edit of any file, finds
nothing.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterator

import numpy

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("runtime", "eager", "capture", "inductor")
PIECE = 100_000  # bytes: more than nearly every file has, less than what the C library maps anew each time


@functools.cache
def fingerprint() -> str:
    """Texts of Python files and headers are read (7 ms); extensions count by size and time."""
    parts = [f"{sys.implementation.cache_tag} {sys.version} numpy {numpy.__version__}".encode()]
    for top in FOLDERS:
        for path in sorted(_files(os.path.join(ROOT, top))):
            parts += (path[len(ROOT) :].encode(), _content(path))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".h", ".so")):
                yield entry.path
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _files(entry.path)


def _content(path: str) -> bytes:
    if path.endswith(".so"):
        status = os.stat(path)
        return f"{status.st_size} {status.st_mtime_ns}".encode()
    handle = os.open(path, os.O_RDONLY)
    try:
        pieces = [os.read(handle, PIECE)]
        while len(pieces[-1]) == PIECE:
            pieces.append(os.read(handle, PIECE))
    finally:
        os.close(handle)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
