"""save and load: an object in a file, its tensors' storages as records of their own.

In: an object and a path or binary file. Out: a zip archive in PyTorch's layout, written whole or not at all; and
back: the object, with storages shared as they were. By default files are read by the machine of `unpickler.py`, which
runs no code.
"""

from __future__ import annotations

import contextlib
import io
import mmap as mmap_module
import os
import pickle
import pickletools
import sys
import threading
import zlib
from typing import Any
from collections.abc import Callable

import numpy as np

from .. import dtypes
from ..storage import UntypedStorage
from ..typed_storage import TypedStorage
from . import legacy
from .archive import Reader, Writer, corrupt
from .locations import restorer
from .names import SAFE, find, normal
from .pickler import Pickler
from .rebuild import Malformed, check, storage_type
from .unpickler import Machine, UnpicklingError, added, allowed_name

DEFAULT_PROTOCOL = 2


class Options(threading.local):
    """What the `set_...` functions of this module change."""

    checksums, mmap_flags = True, mmap_module.MAP_PRIVATE


options = Options()


# -- save


def save(
    obj,
    f,
    pickle_module=pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Writes an object to a path (through a file beside it, so that the path is whole or untouched) or binary file.

    Tensors that share a storage share it in the file. Raises RuntimeError if the folder does not exist, and pickle's
    errors for objects that cannot be pickled."""
    if pickle_module is not pickle:
        raise ValueError("save() writes with its own pickler: pickle_module must be Python's pickle")
    if _use_new_zipfile_serialization:

        def write(file, name):
            _save_zip(obj, file, name, pickle_protocol, _disable_byteorder_record)
    else:

        def write(file, name):
            legacy.save(obj, file, pickle_protocol)

    if isinstance(f, (str, os.PathLike)):
        with replacing(os.fspath(f)) as file:
            write(file, os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive")
    elif hasattr(f, "write"):
        write(f, "archive")
    else:
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")


@contextlib.contextmanager
def replacing(path: str):
    """A new file that takes the path's place when the block ends without an error; devices and pipes are written
    directly.
    """
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            yield file
        return
    part = f"{path}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        with open(part, "wb") as file:
            yield file
        if os.path.exists(path):
            os.chmod(part, os.stat(path).st_mode & 0o7777)
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


def _save_zip(obj, file, name, protocol, without_order) -> None:
    body = io.BytesIO()
    pickler = Pickler(body, protocol)
    pickler.dump(obj)
    writer = Writer(file, name, options.checksums)
    crcs = [
        writer.record("data.pkl", body.getvalue()),
        writer.record(".format_version", b"1"),
        writer.record(".storage_alignment", b"64"),
    ]
    if not without_order:
        crcs.append(writer.record("byteorder", sys.byteorder.encode()))
    for key, (storage, _) in pickler.storages.items():
        crcs.append(writer.record(f"data/{key}", storage._held()))
    crcs.append(writer.record("version", b"3\n"))
    names = "".join(path.decode() for path, *_ in writer.entries)
    identity = zlib.crc32(names.encode()) << 32 | zlib.crc32(np.array(crcs, "<u4").tobytes())
    writer.record(".data/serialization_id", f"{identity:040d}".encode())
    writer.close()


# -- load


def load(
    f, map_location=None, pickle_module=None, *, weights_only: bool | None = None, mmap: bool | None = None, **pickle_load_args
):
    """The object of a file that `save` or PyTorch wrote (path, or seekable binary file).

    map_location: a device, its name, a dict of locations, or `f(storage, location)`. weights_only (default True,
    unless a pickle_module is given): tensors and plain values only; other globals raise pickle.UnpicklingError, see
    `add_safe_globals`. mmap: storages are private views of the mapped file. Broken files raise RuntimeError or
    UnpicklingError.
    """
    if weights_only is None:
        weights_only = not _forced("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD") and pickle_module is None
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    encoding = pickle_load_args.pop("encoding", "utf-8")
    if isinstance(f, (str, os.PathLike)):
        shared = mmap and options.mmap_flags == mmap_module.MAP_SHARED
        with open(f, "r+b" if shared else "rb") as file:
            return _load(file, map_location, pickle_module, weights_only, bool(mmap), encoding, pickle_load_args)
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    for needed in ("read", "seek", "tell"):
        if not hasattr(f, needed):
            raise AttributeError(
                f"'{type(f).__name__}' object has no attribute '{needed}'. You can only torch.load from a "
                "file that is seekable. Please pre-load the data into a buffer like io.BytesIO and try to "
                "load from it instead."
            )
    return _load(f, map_location, pickle_module, weights_only, False, encoding, pickle_load_args)


def _forced(name) -> bool:
    return os.getenv(name, "0").lower() in ("1", "y", "yes", "true")


def _load(file, map_location, pickle_module, weights_only, mapped, encoding, rest):
    reader = machine(weights_only, pickle_module or pickle, encoding, rest)
    start = file.tell()
    head = file.read(4)
    file.seek(start)
    if not head:
        raise EOFError("Ran out of input: the file is empty")
    try:
        if head[:2] == b"PK":
            return _load_zip(_from(file, start), reader, map_location, mapped)
        return _load_old(file, reader, map_location, mapped)
    except Malformed as error:
        raise RuntimeError(f"the file is malformed: {error}") from None
    except UnpicklingError as error:
        raise _advised(error) if weights_only else error from None


def _from(file, start):
    """The file from its present position: an archive may follow other data."""
    return file if start == 0 else io.BytesIO(file.read())


def _load_old(file, reader, map_location, mapped):
    if mapped:
        raise RuntimeError(
            "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True)`, "
            "please torch.save your checkpoint with this option in order to use mmap."
        )
    start = file.tell()
    sequence = legacy.Sequence(memoryview(file.read()), reader, map_location)
    if b"ustar" in sequence.data[257:263].tobytes() or b"./pickle" in sequence.data[:100].tobytes():
        raise RuntimeError("the file is in PyTorch's old tar format (before 0.1.10), which is not read here")
    result = sequence.load()
    file.seek(start + sequence.position)  # several objects may follow each other in one file
    return result


def _load_zip(file, reader, map_location, mapped):
    archive = Reader(file, mapped, options.mmap_flags)
    if "constants.pkl" in archive:
        raise RuntimeError("the file is a TorchScript archive: it holds a program, not an object saved with torch.save")
    if "data.pkl" not in archive:
        raise corrupt("file not found: data.pkl")
    storages = Storages(archive, map_location)
    pickled: Any = archive.read("data.pkl")
    archive.verify()
    result, _ = reader(memoryview(pickled), 0, storages.load)
    archive.verify()
    return result


class Storages:
    """The storages of an archive by key, each read once."""

    def __init__(self, archive: Reader, map_location):
        self.archive, self.known = archive, {}
        self.restore: Callable[..., Any] = restorer(map_location)
        self.only_meta = str(map_location) == "meta"
        self.touched = callable(map_location)  # by the user, who may write to it
        order = archive.read("byteorder").tobytes().decode("ascii", "replace") if "byteorder" in archive else "little"
        if order not in ("little", "big"):
            raise ValueError(f"Unknown endianness type: {order}")
        self.swapped = order != sys.byteorder

    def load(self, pid) -> TypedStorage:
        check(
            isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage",
            f"Unknown typename for persistent_load, expected 'storage' but got {pid!r:.80}",
        )
        _, kind, key, location, count = pid
        check(isinstance(key, str) and isinstance(location, str) and type(count) is int, "a malformed storage")
        dtype = storage_type(kind)
        if key not in self.known:
            self.known[key] = self.read(key, dtype, location, count), dtype or dtypes.uint8
        untyped, before = self.known[key]
        check(before is (dtype or dtypes.uint8), f"storage {key} is named with two types")
        return TypedStorage(wrap_storage=untyped, dtype=dtype or dtypes.uint8)

    def read(self, key, dtype, location, count) -> UntypedStorage:
        name, nbytes = f"data/{key}", count * (dtype.itemsize if dtype else 1)
        if self.archive.size(name) != nbytes:
            raise corrupt(f"record {name} has {self.archive.size(name)} bytes, its storage {nbytes}")
        if self.only_meta:
            return self.restore(UntypedStorage(None, nbytes), "meta")
        flat = self.archive.read(name)
        if self.touched or self.swapped:
            self.archive.verify()
        if flat.ctypes.data % 64 and self.archive.whole is not None:
            flat = flat.copy()  # repacked by another program: kernels want aligned elements
        untyped = UntypedStorage(flat)
        if self.swapped:
            check(dtype is not None, "a storage of the other byte order without a type")
            untyped.byteswap(dtype)
        return self.restore(untyped, location)


def machine(weights_only, module, encoding, rest):
    """A function (bytes, position, persistent_load) -> (object, position behind it)."""
    if weights_only:

        def run_own(data, start, persistent_load):
            m = Machine(data, start, persistent_load, encoding)
            return m.load(), m.position

        return run_own

    class Unpickler(module.Unpickler):
        def find_class(self, name_of_module, name):
            if name_of_module == "torch" or name_of_module.startswith("torch."):
                return find(name_of_module, name)
            return super().find_class(normal(name_of_module), name)

    def run(data, start, persistent_load):
        file = io.BytesIO(data[start:])
        unpickler = Unpickler(file, encoding=encoding, **rest)
        if persistent_load is not None:
            unpickler.persistent_load = persistent_load
        return unpickler.load(), start + file.tell()

    return run


def _advised(error) -> UnpicklingError:
    return UnpicklingError(
        "Weights only load failed. The file names something that is not a tensor or a plain value. If you trust its "
        "source, either allow the global (see below) or pass weights_only=False, which lets the file run any code.\n"
        f"\tWeightsUnpickler error: {error}"
    )


# -- what else files may name


def add_safe_globals(safe_globals: list) -> None:
    """Allows classes and functions in files that are read with weights_only: objects, or (object, "module.name")."""
    added.table.update(map(allowed_name, safe_globals))


def get_safe_globals() -> list:
    return [*added.table.values()]


def clear_safe_globals() -> None:
    added.table.clear()


class safe_globals:
    """A context in which globals are allowed."""

    def __init__(self, safe_globals: list):
        self.entries = safe_globals

    def __enter__(self):
        self.before = dict(added.table)
        add_safe_globals(self.entries)

    def __exit__(self, *_):
        added.table.clear()
        added.table.update(self.before)


def get_unsafe_globals_in_checkpoint(f) -> list:
    """Names of what a zip file mentions beyond what `load` allows now ("module.name")."""
    opened = open(f, "rb") if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f)
    with opened as file:
        text = Reader(file).read("data.pkl").tobytes()
    known = {*SAFE, *added.table}
    return sorted({".".join(found) for found in mentioned(text)} - {".".join(entry) for entry in known})


def mentioned(text: bytes):
    """(module, name) of every global of a pickle."""
    strings = []
    argument: Any
    for opcode, argument, _ in pickletools.genops(text):
        if opcode.name == "GLOBAL":
            yield tuple(argument.split(" ", 1))
        elif opcode.name == "STACK_GLOBAL":
            yield tuple(strings[-2:])
        elif "UNICODE" in opcode.name:
            strings.append(argument)


def set_default_mmap_options(flags: int) -> None:
    """How `load(mmap=True)` maps: mmap.MAP_PRIVATE (writes stay here) or mmap.MAP_SHARED (writes reach the file)."""
    if flags not in (mmap_module.MAP_PRIVATE, mmap_module.MAP_SHARED):
        raise ValueError(
            f"Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
            f"but got {flags}"
        )
    options.mmap_flags = flags


def get_default_mmap_options() -> int:
    return options.mmap_flags


def set_crc32_options(compute_crc32: bool) -> None:
    """Whether `save` writes checksums (and other programs can verify the archive)."""
    options.checksums = compute_crc32


def get_crc32_options() -> bool:
    return options.checksums
