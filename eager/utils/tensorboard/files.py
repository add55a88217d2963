"""Event files: records with lengths and masked checksums, appended by one writer; and how they are read.

A record is the length (64 bits), the length's checksum, the bytes, their checksum. Checksums are CRC-32C, rotated and
shifted by a constant so that a checksum of data that holds checksums is no weaker. Each event (one message) is a record.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

from . import protobuf as pb

POLYNOMIAL, MASK, DELTA = 0x82F63B78, 0xFFFFFFFF, 0xA282EAD8
_numbers = itertools.count()  # two files that this process begins in one second are two


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


def _tables() -> list[list[int]]:
    """Eight tables: the k-th one moves a byte's checksum over k further bytes."""
    tables = [_table()]
    for _ in range(7):
        tables.append([tables[0][c & 255] ^ c >> 8 for c in tables[-1]])
    return tables


T0, T1, T2, T3, T4, T5, T6, T7 = _tables()


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum, eight bytes a step."""
    crc, whole = MASK, len(data) & ~7
    for (word,) in struct.iter_unpack("<Q", data[:whole]):
        word ^= crc
        crc = (
            T7[word & 255]
            ^ T6[word >> 8 & 255]
            ^ T5[word >> 16 & 255]
            ^ T4[word >> 24 & 255]
            ^ T3[word >> 32 & 255]
            ^ T2[word >> 40 & 255]
            ^ T1[word >> 48 & 255]
            ^ T0[word >> 56]
        )
    for byte in data[whole:]:
        crc = T0[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ MASK


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + DELTA) & MASK)


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def event(step: int | None = None, wall_time: float | None = None, **content: bytes | str) -> bytes:
    """An Event message with one of `summary`, `graph` (bytes), `version` (text) or `session` (bytes)."""
    out = pb.double(1, time.time() if wall_time is None else wall_time) + pb.integer(2, 0 if step is None else step)
    for name, value in content.items():
        number = {"version": 3, "graph": 4, "summary": 5, "session": 7}[name]
        out += pb.text(number, value) if isinstance(value, str) else pb.message(number, value)
    return out


class EventFile:
    """One file of events, which this process appends to. Written out when `queue` events wait or `seconds` have passed
    since the last time, on `flush` and on `close`."""

    def __init__(self, folder: str, queue: int = 10, seconds: float = 120, suffix: str = ""):
        os.makedirs(folder, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}{suffix}"
        self.path, self.queue, self.seconds = os.path.join(folder, name), queue, seconds
        self.waiting: list[bytes] = []
        self.lock, self.written = threading.Lock(), time.monotonic()
        self.file = open(self.path, "ab")
        self.add(event(version="brain.Event:2"))
        self.flush()

    def add(self, data: bytes) -> None:
        with self.lock:
            if self.file.closed:
                raise ValueError(f"{self.path} is closed: nothing more can be added")
            self.waiting.append(framed(data))
            late = time.monotonic() - self.written > self.seconds
        if late or len(self.waiting) > self.queue:
            self.flush()

    def flush(self) -> None:
        with self.lock:
            if not self.file.closed:
                self.file.write(b"".join(self.waiting))
                self.file.flush()
                self.waiting, self.written = [], time.monotonic()

    def close(self) -> None:
        self.flush()
        self.file.close()


def read_records(path: str) -> Iterator[bytes]:
    """The records of a file. Raises ValueError where a checksum is wrong or a record is cut off."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            raise ValueError(f"{path}: a record is cut off at byte {at}")
        size = struct.unpack_from("<Q", data, at)[0]
        body = data[at + 12 : at + 12 + size]
        if masked(data[at : at + 8]) != data[at + 8 : at + 12] or masked(body) != data[at + 12 + size : at + 16 + size]:
            raise ValueError(f"{path}: a checksum is wrong or a record is cut off at byte {at}")
        yield body
        at += 16 + size
