"""The store of compiled artefacts: files under a content hash, owned by the user, mode 0700, written atomically.

Shared objects are code, so a folder that others own or may write to is refused. A folder that cannot be used is told
once and replaced by a private temporary one for the life of the process; one that may only be read is still read.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import stat
import time
import warnings

from . import atomic_files, locks, log, cache_eviction
from .config import config
from .atomic_files import write_atomically

_lock = locks.fresh()
_folders: dict[str, str] = {}
_readable: dict[str, str] = {}  # temporary folder -> the one that it stands for, where that may only be read


def _refusal(folder: str) -> str | None:
    """Why nothing may be read from `folder`, or None."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.stat(folder)
    except OSError as error:
        return f"it cannot be created: {error.strerror}"
    if status.st_uid != os.getuid():
        return "it belongs to another user"
    if stat.S_IMODE(status.st_mode) & 0o077:
        return f"others have access to it (mode {stat.S_IMODE(status.st_mode):o}); chmod 700 makes it usable"
    return None


def _write_refusal(folder: str) -> str | None:
    """Whether a file can really be made there: permission bits do not tell (root, read-only mounts, full disks)."""
    try:
        path = atomic_files.unused(folder, ".try-")
        os.close(atomic_files.make(path))
        os.unlink(path)
    except OSError as error:
        return f"it cannot be written to: {error.strerror}"
    return None


def folder() -> str:
    """The usable cache folder: the configured one, or a private temporary one after a warning."""
    wanted = config.cache_dir
    with _lock:
        if wanted not in _folders:
            refused = _refusal(wanted)
            reason = refused or _write_refusal(wanted)
            _folders[wanted] = wanted if reason is None else _temporary(wanted, reason)
            if reason is not None and refused is None:
                _readable[_folders[wanted]] = wanted
        return _folders[wanted]


def _temporary(wanted: str, reason: str) -> str:
    import shutil

    replacement = atomic_files.scratch("flambeau-")
    atexit.register(shutil.rmtree, replacement, ignore_errors=True)
    warnings.warn(
        f"the cache folder {wanted} is not used: {reason}. Compiled kernels go to {replacement} and are "
        f"lost at exit; set FLAMBEAU_CACHE_DIR to a folder of your own.",
        RuntimeWarning,
        stacklevel=4,
    )
    return replacement


def path(key: str, suffix: str) -> str:
    """Where the artefact with this content hash lives (whether or not it exists)."""
    return os.path.join(folder(), key[:2], key + suffix)


def get(key: str, suffix: str) -> str | None:
    """The path of a stored artefact that belongs to this user and is whole, else None."""
    return _found(key, suffix)[0]


def empty() -> bool:
    """Whether nothing is stored, so that nobody needs to know what to look for."""
    try:
        return folder() not in _readable and all(len(name) != 2 for name in os.listdir(folder()))
    except OSError:  # it was removed
        return True


def read(key: str, suffix: str) -> bytes | None:
    """The bytes of a stored artefact that belongs to this user and is whole, else None."""
    return _found(key, suffix)[1]


def _found(key: str, suffix: str) -> tuple[str, bytes] | tuple[None, None]:
    own = folder()
    for place in (own, _readable[own]) if own in _readable else (own,):
        found = os.path.join(place, key[:2], key + suffix)
        data = _whole(found)
        if data is not None:
            cache_eviction.used(found)
            return found, data
    return None, None


def _whole(found: str) -> bytes | None:
    try:
        with open(found, "rb") as file:
            foreign, data = os.fstat(file.fileno()).st_uid != os.getuid(), file.read()
    except OSError:
        return None
    if foreign or seal(os.path.basename(found), data[:-SEAL]) != data[-SEAL:]:
        log.channel("cache")(f"refused {found}: {'foreign' if foreign else 'damaged'}")
        if not foreign:
            with contextlib.suppress(OSError):
                os.unlink(found)
        return None
    return data[:-SEAL]


SEAL = 32


def seal(name: str, data: bytes) -> bytes:
    """The last bytes of a stored file (loaders of shared objects do not mind them): loading half a file may kill, and so may a
    whole one under another's name."""
    made = hashlib.sha256(name.encode() + b"\0")
    made.update(data)
    return made.digest()


def put(key: str, suffix: str, data: bytes) -> str:
    """Store bytes under a content hash; a full disk falls back to a temporary folder with a warning."""
    target, data = path(key, suffix), data + seal(key + suffix, data)
    try:
        write_atomically(target, data)
    except OSError as error:
        with _lock:
            _folders[config.cache_dir] = _temporary(config.cache_dir, f"a file could not be written: {error.strerror}")
        target = path(key, suffix)
        write_atomically(target, data)
    cache_eviction.wrote(folder(), len(data))
    return target


PATIENCE = 60.0  # seconds that a process waits for another one's compilation


class Claim:
    """What is made under a key, held against other processes. `first`: nobody held it before, so it is still to be made.
    The lock goes with the process that holds it."""

    def __init__(self, key: str, patience: float):
        self.handle, self.first = _opened(key), True
        if self.handle is not None and not _locked(self.handle, patience):
            self.first = False

    def release(self) -> None:
        if self.handle is not None:
            import fcntl

            fcntl.flock(self.handle, fcntl.LOCK_UN)  # also where a forked child has the file open
            os.close(self.handle)
            self.handle = None


def claim(key: str) -> Claim | None:
    """A claim where nobody holds one, without waiting."""
    found = Claim(key, 0.0)
    if found.first:
        return found
    found.release()
    return None


@contextlib.contextmanager
def claimed(key: str):
    """Hold what is made under this key, as long as other processes have patience. Gives whether nobody held it before."""
    found = Claim(key, PATIENCE)
    try:
        yield found.first
    finally:
        found.release()


def _opened(key: str) -> int | None:
    try:
        return os.open(os.path.join(folder(), f"lock-{key[:2]}"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _locked(handle: int, patience: float) -> bool:
    """Take the lock, or give up after a while. Whether it was free."""
    import fcntl

    deadline = time.monotonic() + patience
    free = True
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return free
        except OSError:
            free = False
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)


def forget() -> None:
    """Look at the configured folder anew (tests change it)."""
    with _lock:
        _folders.clear()
