"""What code this is: one hash over the package's sources, its extensions and the Python that runs it.

Whatever is stored for other processes is stored under this hash, so that another version, or an edit of any file, finds
nothing.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys

import numpy

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("runtime", "eager", "capture", "inductor")


@functools.cache
def fingerprint() -> str:
    """Texts of Python files and headers are read (10 ms); extensions count by size and time."""
    found = hashlib.sha256(f"{sys.implementation.cache_tag} {sys.version} numpy {numpy.__version__}".encode())
    for path in sorted(_files()):
        found.update(f"\0{os.path.relpath(path, ROOT)}\0".encode())
        found.update(_content(path))
    return found.hexdigest()


def _files():
    for top in FOLDERS:
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            yield from (os.path.join(folder, name) for name in names if name.endswith((".py", ".h", ".so")))


def _content(path: str) -> bytes:
    if path.endswith(".so"):
        status = os.stat(path)
        return f"{status.st_size} {status.st_mtime_ns}".encode()
    with open(path, "rb") as file:
        return file.read()
