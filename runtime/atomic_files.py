"""Files and folders that nobody else has: written whole or not at all, and scratch folders.

In: folders and bytes. Out: paths. Python's own module for this imports ten others, which is a tenth of the time that a first
small compilation needs besides the compiler.
"""

from __future__ import annotations

import contextlib
import os


def unused(folder: str, prefix: str) -> str:
    """A path that nobody has."""
    return os.path.join(folder, prefix + os.urandom(8).hex())


def make(path: str) -> int:
    """A new file of this user's, open for writing. Raises FileExistsError."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def write_atomically(path: str, data: bytes) -> None:
    """Write a file so that other processes see all of it or nothing."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    temporary = unused(folder, ".part-")
    handle = make(temporary)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def scratch(prefix: str) -> str:
    """A new folder of this user's in the place for temporary files."""
    try:
        made = unused(os.environ.get("TMPDIR") or "/tmp", prefix)
        os.mkdir(made, 0o700)
        return made
    except OSError:
        import tempfile  # looks for other places, and tells which ones

        return tempfile.mkdtemp(prefix=prefix)


def remove(folder: str) -> None:
    """Remove a scratch folder and the files in it, as far as that is possible."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
