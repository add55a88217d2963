"""The zip container of checkpoint files: records stored without compression, each starting at a multiple of 64 bytes.

In: names and bytes, or an open file. Out: an archive that PyTorch's and every other zip reader opens, or the records
of one. The layout (padding field, data descriptors, zip64 end) is PyTorch's, byte for byte. Reading trusts nothing:
sizes and offsets are held against the file's length before any memory is asked for.
"""

from __future__ import annotations

import functools
import mmap
import os
import struct
import zipfile
import zlib
from typing import Any

import numpy as np

ALIGNMENT = 64
_LIMIT = 0xFFFFFFFF
_UTF8, _SIZES_FOLLOW = 0x0800, 0x0008  # records without bytes have no sizes behind them
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR = struct.Struct("<4sIQI")
_END = struct.Struct("<4sHHHHIIH")


def later(function, data: memoryview):
    """A call that gives function(data), which for large data runs beside what is done meanwhile."""
    if data.nbytes < 1 << 20:
        found = function(data)
        return lambda: found
    return _helper().submit(function, data).result


@functools.lru_cache(None)
def _helper():
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1, "flambeau-checksums")


os.register_at_fork(after_in_child=_helper.cache_clear)


class Writer:
    """Writes records to a binary file object; `close` adds the directory."""

    def __init__(self, file, prefix: str, checksums: bool = True):
        self.file, self.prefix, self.checksums = file, prefix, checksums
        self.entries, self.position = [], 0

    def put(self, data) -> None:
        self.file.write(data)
        self.position += data.nbytes if isinstance(data, memoryview) else len(data)

    def record(self, name: str, data) -> int:
        """Writes one record (bytes or a flat uint8 array); returns its checksum."""
        data = memoryview(data)
        path, start, size = f"{self.prefix}/{name}".encode(), self.position, data.nbytes
        checksum = later(zlib.crc32, data) if self.checksums else int
        wide = struct.pack("<HHQQ", 1, 16, size, size) if size >= _LIMIT else b""
        extra = wide + padding(start + _LOCAL.size + len(path) + len(wide))
        shown = _LIMIT if wide else 0
        self.put(_LOCAL.pack(b"PK\3\4", 45 if wide else 0, flags(size), 0, 0, 0, 0, shown, shown, len(path), len(extra)))
        self.put(path + extra)
        self.put(data)
        crc = checksum()
        if size:
            self.put(struct.pack("<4sIQQ" if wide else "<4sIII", b"PK\7\10", crc, size, size))
        self.entries.append((path, start, size, crc))
        return crc

    def close(self) -> None:
        start = self.position
        for entry in self.entries:
            self.put(central(*entry))
        length, end, count = self.position - start, self.position, len(self.entries)
        self.put(_END64.pack(b"PK\6\6", 44, 0x031E, 45, 0, 0, count, count, length, start))
        self.put(_LOCATOR.pack(b"PK\6\7", 0, end, 1))
        few = min(count, 0xFFFF)
        self.put(_END.pack(b"PK\5\6", 0, 0, few, few, min(length, _LIMIT), min(start, _LIMIT), 0))


def flags(size: int) -> int:
    return _UTF8 | _SIZES_FOLLOW if size else _UTF8


def padding(position: int) -> bytes:
    """An extra field after which the data is aligned."""
    length = ALIGNMENT - (position + 4) % ALIGNMENT
    return b"FB" + struct.pack("<H", length) + b"Z" * length


def central(path: bytes, start: int, size: int, crc: int) -> bytes:
    """The directory's line for a record."""
    values = [n for n in (size, size, start) if n >= _LIMIT]
    extra = struct.pack(f"<HH{len(values)}Q", 1, 8 * len(values), *values) if values else b""
    shown = min(size, _LIMIT)
    return (
        _CENTRAL.pack(
            b"PK\1\2",
            0,
            45 if extra else 0,
            flags(size),
            0,
            0,
            0,
            crc,
            shown,
            shown,
            len(path),
            len(extra),
            0,
            0,
            0,
            0,
            min(start, _LIMIT),
        )
        + path
        + extra
    )


class Reader:
    """The records of a seekable binary file; `whole` is the file's memory if it is mapped."""

    def __init__(self, file, mapped: bool = False, flags: int = mmap.MAP_PRIVATE):
        self.file, self.length = file, file.seek(0, os.SEEK_END)
        try:
            with zipfile.ZipFile(file) as directory:
                self.entries = {info.filename: info for info in directory.infolist()}
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            struct.error,
            ValueError,
            OverflowError,
            UnicodeError,
            EOFError,
            OSError,
        ) as error:
            raise corrupt(f"failed finding central directory ({error})") from None
        self.prefix = self.common_prefix()
        self.whole, self.pending = None, []
        if mapped:
            self.whole = np.frombuffer(mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ | mmap.PROT_WRITE), np.uint8)

    def common_prefix(self) -> str:
        """The archive's own folder: the one that holds data.pkl."""
        for name in self.entries:
            folder, slash, rest = name.partition("/")
            if slash and rest in ("data.pkl", "constants.pkl"):
                return folder + "/"
        raise corrupt("no data.pkl in it")

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self.entries

    def size(self, name: str) -> int:
        if name not in self:
            raise corrupt(f"file not found: {self.prefix}{name}")
        return self.entries[self.prefix + name].file_size

    def span(self, name: str) -> tuple[int, int]:
        """Where the record's bytes begin, and how many they are."""
        size, info = self.size(name), self.entries[self.prefix + name]
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != size or info.flag_bits & 1:
            raise corrupt(f"{info.filename} is compressed or encrypted: records must be stored as they are")
        if not 0 <= info.header_offset <= self.length - _LOCAL.size:
            raise corrupt(f"{info.filename} begins outside the file")
        self.file.seek(info.header_offset)
        fields = _LOCAL.unpack(self.file.read(_LOCAL.size))
        start = info.header_offset + _LOCAL.size + fields[-2] + fields[-1]
        if fields[0] != b"PK\3\4" or start + size > self.length:
            raise corrupt(f"{info.filename} ends outside the file or has no header")
        return start, size

    def read(self, name: str) -> np.ndarray:
        """The record's bytes as fresh memory, or of a mapped file as a private view of it."""
        start, size = self.span(name)
        if self.whole is not None:
            return self.whole[start : start + size]
        flat: Any = np.empty(size, np.uint8)
        self.file.seek(start)
        if read_into(self.file, flat) != size:
            raise corrupt(f"{self.prefix}{name} is cut off")
        crc = self.entries[self.prefix + name].CRC
        if crc:  # 0: written without checksums
            self.pending.append((name, crc, later(zlib.crc32, memoryview(flat))))
        return flat

    def verify(self) -> None:
        """Holds the checksums of all that was read against the directory."""
        for name, expected, found in self.pending:
            if found() != expected:
                raise corrupt(f"crc32 check of {self.prefix}{name} failed: the file was changed after it was written")
        self.pending.clear()


def read_into(file, flat: Any) -> int:
    """Fills the array from the file; the number of bytes that were there."""
    into, done = memoryview(flat), 0
    while done < flat.nbytes:
        if hasattr(file, "readinto"):
            count = file.readinto(into[done:])
        else:
            block = file.read(flat.nbytes - done)
            count = len(block)
            into[done : done + count] = block
        if not count:
            break
        done += count
    return done


def corrupt(what: str) -> RuntimeError:
    return RuntimeError(f"PytorchStreamReader failed reading zip archive: {what}")
