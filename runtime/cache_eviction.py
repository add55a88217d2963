"""The store's size limit: when files are written, the ones used longest ago make room.

In: the folder of `artefacts`, `config.cache_megabytes`. A file counts as used when it is found (its time is set then), and what
was used in the last minute stays, as a process may be about to load it. Files go one by one by `unlink`: whoever has one
open or loaded keeps it, whoever misses one makes it again. Only names that the store gives are looked at.
"""

from __future__ import annotations

import contextlib
import os
import re
import time

from . import locks, log
from .config import config

ROOM = 0.8  # of the limit stays, so that not every file that is written looks at all others
NAME = re.compile(r"[0-9a-f]{40}\.(so|graph)|\.part-\w+")
RECENT = 60.0  # seconds
STALE = 3600.0  # after which a half-written file is nobody's

_lock = locks.fresh()
_sizes: dict[str, int] = {}  # folder -> bytes when it was last looked at, and what this process wrote since


def wrote(folder: str, size: int) -> None:
    """Tell that a file was written; removes others where the folder has outgrown its limit."""
    limit = config.cache_megabytes * 1_000_000
    if not limit:
        return
    with _lock:
        known = _sizes.get(folder)
        _sizes[folder] = total(folder) if known is None else known + size
        if _sizes[folder] > limit:
            _sizes[folder] = shrink(folder, limit)


def used(path: str) -> None:
    """Tell that a file was found."""
    with contextlib.suppress(OSError):
        os.utime(path)


def files(folder: str) -> list[tuple[float, int, str]]:
    """(time of last use, bytes, path) of what the store wrote."""
    found = []
    for entry in _entries(folder):
        if len(entry.name) == 2 and entry.is_dir(follow_symlinks=False):
            for file in _entries(entry.path):
                if NAME.fullmatch(file.name):
                    with contextlib.suppress(OSError):
                        status = file.stat(follow_symlinks=False)
                        found.append((status.st_mtime, status.st_size, file.path))
    return found


def _entries(folder: str) -> list[os.DirEntry]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def total(folder: str) -> int:
    return sum(size for _, size, _ in files(folder))


def shrink(folder: str, limit: int) -> int:
    """Remove files, the one used longest ago first; gives the bytes that stay."""
    kept = files(folder)
    size = sum(each for _, each, _ in kept)
    if size <= limit:
        return size
    now = time.time()
    for used_at, each, path in sorted(kept):
        if size <= ROOM * limit:
            break
        if now - used_at < (STALE if os.path.basename(path).startswith(".part-") else RECENT):
            continue
        try:
            os.unlink(path)
        except FileNotFoundError:  # another process was sooner
            pass
        except OSError:
            continue
        size -= each
        log.channel("cache")(f"removed {path}: the store holds more than {limit // 1_000_000} MB")
    return size
