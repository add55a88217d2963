"""The safetensors format: a length, a JSON header, and the tensors' bytes one after another. No code can be in it.

In: a dict of tensors and a path (or bytes). Out: the same back. Sizes in a header are held against the file before
memory is asked for; tensors of a loaded file are private views of its mapped memory or of one buffer.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from typing import Any

import numpy as np

from .. import dtypes
from ..device import device as device_type
from ..sizes import contiguous_strides
from ..storage import UntypedStorage
from ..tensor import Tensor
from .files import replacing

_NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "I32": "int32",
    "U32": "uint32",
    "I64": "int64",
    "U64": "uint64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "C64": "complex64",
}
_DTYPES = {name: dtypes.BY_NAME[ours] for name, ours in _NAMES.items()}
_CODES = {d: name for name, d in _DTYPES.items()}
_HEADER_LIMIT = 100_000_000


class SafetensorError(Exception):
    """The file is not a sound safetensors file."""


def save(tensors: dict, metadata: dict | None = None) -> bytes:
    """The file's content."""
    return b"".join(bytes(part) for part in _parts(tensors, metadata))


def save_file(tensors: dict, filename, metadata: dict | None = None) -> None:
    """Writes a file, whole or not at all. Tensors that share memory are refused (RuntimeError): save one of them."""
    parts = _parts(tensors, metadata)
    with replacing(os.fspath(filename)) as file:
        for part in parts:
            file.write(part)


def _parts(tensors, metadata):
    """Header and arrays; larger elements first, so that everything is aligned."""
    _check_sharing(tensors)
    header: dict[str, Any] = {"__metadata__": {str(k): str(v) for k, v in metadata.items()}} if metadata else {}
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    arrays, position = [], 0
    for name in order:
        t = tensors[name]
        if t.dtype not in _CODES:
            raise ValueError(f"{name}: safetensors files have no {t.dtype}")
        array: Any = np.ascontiguousarray(t.detach()._values("save_file()")).reshape(-1).view(np.uint8)
        header[name] = {"dtype": _CODES[t.dtype], "shape": list(t.shape), "data_offsets": [position, position + array.nbytes]}
        position += array.nbytes
        arrays.append(memoryview(array))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)) + text, *arrays]


def _check_sharing(tensors) -> None:
    holders: dict = {}
    for name, t in tensors.items():
        if not isinstance(t, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected a tensor but received {type(t)}")
        if t.numel():
            holders.setdefault(t.untyped_storage(), []).append(name)
    shared = [names for names in holders.values() if len(names) > 1]
    if shared:
        raise RuntimeError(
            f"Some tensors share memory, this will lead to duplicate memory on disk and potential differences "
            f"when loading them again: {shared}"
        )


def load(data: bytes, device="cpu") -> dict:
    """The tensors of a file's content."""
    return File(np.frombuffer(data, np.uint8).copy(), device).all()


def load_file(filename, device="cpu") -> dict:
    """The tensors of a file."""
    with safe_open(filename, device=device) as file:
        return file.all()


class File:
    """The header of a file over its bytes; tensors are made when asked for."""

    def __init__(self, flat: np.ndarray, device="cpu"):
        self.flat, self.device = flat, device_type(device)
        self.metadata_, self.entries, self.start = self.read_header()
        self.check_layout()

    def read_header(self):
        if self.flat.nbytes < 8:
            raise SafetensorError("header too small: the file has less than 8 bytes")
        length = struct.unpack("<Q", self.flat[:8].tobytes())[0]
        if length > min(_HEADER_LIMIT, self.flat.nbytes - 8):
            raise SafetensorError(f"invalid header length {length} in a file of {self.flat.nbytes} bytes")
        try:
            header = json.loads(self.flat[8 : 8 + length].tobytes().decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise SafetensorError(f"invalid header: {error}") from None
        if not isinstance(header, dict):
            raise SafetensorError("invalid header: no object")
        metadata = header.pop("__metadata__", None)
        return metadata, {name: self.entry(name, value) for name, value in header.items()}, 8 + length

    def entry(self, name, value):
        """(dtype, shape, first byte, end)."""
        try:
            dtype, shape, (first, end) = _DTYPES[value["dtype"]], value["shape"], value["data_offsets"]
            numbers = [first, end, *shape]
        except (KeyError, TypeError, ValueError) as error:
            raise SafetensorError(f"invalid entry {name!r}: {type(error).__name__} {error}") from None
        if not all(type(n) is int and 0 <= n < 1 << 62 for n in numbers):
            raise SafetensorError(f"invalid entry {name!r}: sizes and offsets are not natural numbers")
        count = 1
        for n in shape:
            count *= n
        if end - first != count * dtype.itemsize or len(shape) > 64:
            raise SafetensorError(f"invalid entry {name!r}: {end - first} bytes for {shape} of {dtype}")
        return dtype, tuple(shape), first, end

    def check_layout(self) -> None:
        """The tensors fill the file without gap or overlap."""
        position = 0
        for _, _, first, end in sorted(self.entries.values(), key=lambda e: e[2:]):
            if first != position:
                raise SafetensorError(f"invalid offsets: a tensor begins at {first}, {position} expected")
            position = end
        if self.start + position != self.flat.nbytes:
            raise SafetensorError(f"the tensors have {position} bytes, the file {self.flat.nbytes - self.start}")

    def metadata(self):
        return self.metadata_

    def keys(self) -> list:
        return sorted(self.entries)

    offset_keys = keys

    def get_tensor(self, name: str) -> Tensor:
        if name not in self.entries:
            raise SafetensorError(f"File does not contain tensor {name}")
        dtype, shape, first, end = self.entries[name]
        raw = self.flat[self.start + first : self.start + end]
        if raw.ctypes.data % dtype.itemsize:
            raw = raw.copy()
        t = Tensor._fl_over(UntypedStorage(raw), dtype, shape, contiguous_strides(shape), 0)
        return t if self.device.type == "cpu" else t.to(self.device)

    def get_slice(self, name: str):
        """An object that gives parts of the tensor when indexed."""
        return Slice(self.get_tensor(name))

    def all(self) -> dict:
        return {name: self.get_tensor(name) for name in self.entries}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Slice:
    """A tensor of a file that is read in parts."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    def get_shape(self) -> list:
        return list(self.tensor.shape)

    def get_dtype(self) -> str:
        return _CODES[self.tensor.dtype]

    def __getitem__(self, key) -> Tensor:
        return self.tensor[key]


def safe_open(filename, framework="pt", device="cpu") -> File:
    """The file's header over its mapped memory (private: writes to tensors do not reach the file)."""
    with open(filename, "rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            raise SafetensorError("header too small: the file is empty")
        return File(np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8), device)
