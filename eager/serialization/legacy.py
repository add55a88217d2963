"""The sequential format from before the zip files: pickles of a magic number, version, system and object, then
storages.

In: an object, or the bytes of a file. Out: the file, or the object. Each storage is a count of elements and its
bytes.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys

import numpy as np

from .. import dtypes
from ..storage import UntypedStorage
from ..typed_storage import TypedStorage
from .locations import restorer
from .pickler import Pickler
from .rebuild import check, storage_type

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


def save(obj, file, protocol: int) -> None:
    system = dict(protocol_version=PROTOCOL, little_endian=sys.byteorder == "little", type_sizes=dict(short=2, int=4, long=4))
    for head in (MAGIC, PROTOCOL, system):
        pickle.dump(head, file, protocol=protocol)
    body = io.BytesIO()
    pickler = Pickler(body, protocol, legacy=True)
    pickler.dump(obj)
    file.write(body.getvalue())
    keys = sorted(pickler.storages)
    pickle.dump(keys, file, protocol=protocol)
    for key in keys:
        storage, dtype = pickler.storages[key]
        size = dtype.itemsize if dtype else 1
        file.write(struct.pack("<q", storage.nbytes() // size))
        file.write(memoryview(storage._held()))


class Sequence:
    """Reads one pickle after the other with a machine, then the storages that the object named."""

    def __init__(self, data: memoryview, machine, map_location):
        self.data, self.position, self.machine, self.restore = data, 0, machine, restorer(map_location)
        self.storages = {}

    def next(self, persistent_load=None):
        value, self.position = self.machine(self.data, self.position, persistent_load)
        return value

    def load(self):
        if self.next() != MAGIC:
            raise RuntimeError("Invalid magic number; corrupt file?")
        version = self.next()
        if version != PROTOCOL:
            raise RuntimeError(f"Invalid protocol version: {version}")
        system = self.next()
        check(isinstance(system, dict), "no description of the system that wrote the file")
        result = self.next(self.persistent_load)
        keys = self.next()
        if not isinstance(keys, list) or not all(key in self.storages for key in keys):
            raise RuntimeError("the file's list of storages does not fit its object; corrupt file?")
        for key in keys:
            self.fill(*self.storages[key], swapped=system.get("little_endian", True) != (sys.byteorder == "little"))
        return result

    def persistent_load(self, pid):
        """A storage whose bytes come later; views of storages are views of the whole here."""
        check(isinstance(pid, tuple) and len(pid) == 6 and pid[0] == "storage", "an unknown persistent id")
        _, kind, key, location, count, view = pid
        dtype = storage_type(kind) or dtypes.uint8
        check(isinstance(key, str) and isinstance(location, str) and type(count) is int and count >= 0, "a malformed storage")
        if key not in self.storages:
            if count * dtype.itemsize > len(self.data):
                raise RuntimeError(f"storage {key} of {count} elements is larger than the file")
            flat = np.zeros(count * dtype.itemsize, np.uint8)
            self.storages[key] = self.restore(UntypedStorage(flat), location), flat, dtype
        untyped = self.storages[key][0]
        if view is not None:
            check(isinstance(view, tuple) and len(view) == 3 and all(type(n) is int and n >= 0 for n in view[1:]), "a view")
            untyped = UntypedStorage(untyped._held()[view[1] * dtype.itemsize : (view[1] + view[2]) * dtype.itemsize])
        return TypedStorage(wrap_storage=untyped, dtype=dtype)

    def fill(self, untyped, flat, dtype, swapped: bool) -> None:
        raw = self.data[self.position : self.position + 8]
        count = struct.unpack("<q" if not swapped else ">q", raw)[0] if len(raw) == 8 else -1
        start, end = self.position + 8, self.position + 8 + flat.nbytes
        if count * dtype.itemsize != flat.nbytes or end > len(self.data):
            raise RuntimeError(
                f"unexpected end or size of a storage: {count} elements, {flat.nbytes} bytes expected; corrupt file?"
            )
        flat[:] = np.frombuffer(self.data[start:end], np.uint8)
        if swapped:
            UntypedStorage(flat).byteswap(dtype)
        self.position = end
