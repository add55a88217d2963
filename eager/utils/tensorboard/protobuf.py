"""Messages in protobuf's wire format, without a schema compiler: bytes out, and bytes in again for tests and readers.

A message is the concatenation of its fields: `text(1, "x") + integer(2, 5)`. Each field is a key (number and wire type)
and a value; fields of value 0 or "" are left out, as protobuf does for those without presence. `fields` reads any
message back as {number: [raw values]}.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; negative numbers as 64 bits of two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def key(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def integer(number: int, value: int) -> bytes:
    """int32, int64, bool and enum fields."""
    return key(number, VARINT) + varint(int(value)) if value else b""


def double(number: int, value: float, always: bool = False) -> bytes:
    return key(number, FIXED64) + struct.pack("<d", value) if value or always else b""


def single(number: int, value: float, always: bool = False) -> bytes:
    return key(number, FIXED32) + struct.pack("<f", value) if value or always else b""


def raw(number: int, value: bytes) -> bytes:
    """A field of bytes that is there even when it is empty."""
    return key(number, BYTES) + varint(len(value)) + value


message = raw


def text(number: int, value: str) -> bytes:
    return raw(number, value.encode()) if value else b""


def doubles(number: int, values: Iterable[float]) -> bytes:
    """A packed list."""
    return raw(number, np.asarray(list(values), "<f8").tobytes())


def mapping(number: int, items: dict[str, bytes]) -> bytes:
    """map<string, message>."""
    return b"".join(message(number, text(1, name) + message(2, value)) for name, value in sorted(items.items()))


# -- reading


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, position behind it)"""
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data: bytes) -> dict[int, list]:
    """{field number: values in order}: ints of varints, floats of fixed ones, bytes of the rest."""
    found: dict[int, list] = {}
    at = 0
    while at < len(data):
        head, at = read_varint(data, at)
        number, wire = head >> 3, head & 7
        if wire == VARINT:
            value, at = read_varint(data, at)
        elif wire == BYTES:
            size, at = read_varint(data, at)
            value, at = data[at : at + size], at + size
        elif wire in (FIXED32, FIXED64):
            code, size = ("<f", 4) if wire == FIXED32 else ("<d", 8)
            value, at = struct.unpack_from(code, data, at)[0], at + size
        else:
            raise ValueError(f"protobuf: wire type {wire} of field {number} at byte {at} is not known")
        found.setdefault(number, []).append(value)
    return found
