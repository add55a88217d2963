"""Devices that a shared library brings: memory of their own and the ops that they run (runtime/include/flambeau_op.h).

In: a library's table of functions. Out: a device type that tensors can be moved to. A tensor there has no host
bytes: ops run as for fakes (sizes, types, views, gradients), and then the device fills the results. What it has no kernel
for runs on the host, copied there and back, and is counted as a fallback.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

import numpy as np

from ..runtime import counters, plugin_abi
from ..runtime.plugin_abi import KernelError
from . import device as devices
from .device import cpu, device
from .op.op import OPS, extern
from .op.meta import Spec
from .sizes import contiguous_strides
from .state import no_modes, recording, setting
from .storage import UntypedStorage, address, strided
from .tensor import Tensor, fake_tensor


class DeviceStorage(UntypedStorage):
    """A block of a device's memory; given back with the storage."""

    __slots__ = ("block", "index", "runtime")

    def __init__(self, runtime: Runtime, nbytes: int, place: device):
        super().__init__(None, nbytes, place)
        self.runtime, self.index = runtime, place.index or 0
        self.block = runtime.alloc(self.index, nbytes)

    def __del__(self):
        if getattr(self, "block", None):
            self.runtime.table.release(self.index, self.block)

    def clone(self) -> DeviceStorage:
        made = DeviceStorage(self.runtime, self.count, self.device)
        made.put(0, self.get(0, self.count))
        return made

    def get(self, start: int, count: int) -> np.ndarray:
        """Bytes [start, start + count) on the host."""
        host = np.empty(count, np.uint8)
        if count:
            self.runtime.table.download(self.index, self.block, start, address(host), count)
        return host

    def put(self, start: int, host: np.ndarray) -> None:
        if host.nbytes:
            self.runtime.table.upload(self.index, self.block, start, address(host), host.nbytes)


class _Table(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("count", ctypes.CFUNCTYPE(ctypes.c_int)),
        ("alloc", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_long)),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)),
        ("upload", ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p, ctypes.c_long)),
        ("download", ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p, ctypes.c_long)),
        (
            "run",
            ctypes.CFUNCTYPE(
                ctypes.c_void_p,
                ctypes.c_int,
                ctypes.c_char_p,
                ctypes.POINTER(plugin_abi.Tensor),
                ctypes.c_int,
                ctypes.POINTER(plugin_abi.Tensor),
                ctypes.c_int,
                ctypes.POINTER(ctypes.c_double),
                ctypes.c_int,
            ),
        ),
    ]


def load_device(source: str, flags=()) -> Runtime:
    """The device of a C++ text (`FLAMBEAU_DEVICE`), built and registered."""
    return register(plugin_abi.load(plugin_abi.build(source, flags)))


def register(library: ctypes.CDLL) -> Runtime:
    """Registers the device of a loaded library; its name is a device type from here on."""
    get = library.flambeau_device_table
    get.restype, get.argtypes = ctypes.POINTER(_Table), []
    table = get().contents
    name = table.name.decode()
    if table.abi != plugin_abi.ABI:
        raise RuntimeError(f"device {name!r} was built for version {table.abi} of flambeau_op.h, this is {plugin_abi.ABI}")
    runtime = Runtime(name, table, library)
    devices.add_type(name, runtime)
    return runtime


class Runtime:
    """One device type: `count` devices of it, `ran` op -> calls that the device ran itself."""

    def __init__(self, name: str, table: _Table, library: ctypes.CDLL):
        self.name, self.table, self.library = name, table, library
        self.ran: dict[str, int] = {}

    @property
    def count(self) -> int:
        return self.table.count()

    def alloc(self, index: int, nbytes: int) -> int:
        if index >= self.count:
            raise RuntimeError(f"there is no device {self.name}:{index}: {self.count} of this type are here")
        block = self.table.alloc(index, max(nbytes, 1))
        if not block:
            raise MemoryError(f"{self.name}:{index} has no {nbytes} bytes left")
        return block

    # -- tensors

    def give_memory(self, t: Tensor) -> None:
        """A block under a tensor that has none."""
        span = 0 if t.numel() == 0 else sum((n - 1) * step for n, step in zip(t._fl_sizes, t._fl_strides)) + 1
        t._fl_storage = DeviceStorage(self, span * t._fl_dtype.itemsize, t._fl_device)

    def read(self, t: Tensor) -> np.ndarray:
        """A copy on the host, with the same strides."""
        sizes, strides, offset = tuple(t._fl_sizes), tuple(t._fl_strides), t.storage_offset()
        if t.numel() == 0:
            return np.empty(sizes, t._fl_dtype.numpy)
        span = sum((n - 1) * step for n, step in zip(sizes, strides)) + 1
        flat = t._fl_storage.get(offset * t._fl_dtype.itemsize, span * t._fl_dtype.itemsize)
        return strided(flat, t._fl_dtype.numpy, sizes, strides, 0)

    def write(self, t: Tensor, value: np.ndarray) -> None:
        """Numbers of the host into a tensor; what lies between its elements stays."""
        if t.numel() == 0:
            return
        host = np.ascontiguousarray(np.broadcast_to(value, t._fl_sizes).astype(t._fl_dtype.numpy, copy=False))
        size = t._fl_dtype.itemsize
        if tuple(t._fl_strides) != contiguous_strides(tuple(t._fl_sizes)):
            old = self.read(t)
            old[...] = host
            host = old
            while host.base is not None:
                host = host.base
        t._fl_storage.put(t.storage_offset() * size, host.reshape(-1).view(np.uint8))

    def copy(self, target: Tensor, source: Tensor) -> None:
        """The values of a tensor into another, with the target's type: by the device's `copy`, or over the host."""
        if source._fl_dtype is not target._fl_dtype or not self.run(OPS["copy"], (target,), (target, source)):
            self.write(target, source._fl_storage.runtime.read(source))

    def answer(self, what: str, t: Tensor, *more):
        """What the values of a tensor decide (`unique`, `nonzero`, ...), as the host finds it."""
        self.count_host(what)
        return answered(what, t, *more)

    def struct(self, t: Tensor) -> plugin_abi.Tensor:
        return plugin_abi.struct(t._fl_storage.block, t._fl_dtype.name, t._fl_sizes, t._fl_strides, t.storage_offset())

    # -- ops

    def fill(self, op, args: tuple, outs: tuple) -> None:
        """The values of outputs that have sizes only."""
        if op is transfer:
            move(args[0], outs[0])
            return
        for t in outs:
            if t._fl_device.type == self.name:
                self.give_memory(t)
        if not self.run(op, outs, args):
            self.run_on_host(op, args, outs)

    def run(self, op, outs: tuple, args: tuple) -> bool:
        """Whether the device did it. Operands are tensors (a number in the place of one is a tensor without dims), then
        numbers; ops with other arguments are not asked about."""
        ins, numbers = [], []
        for p, a in zip(op.params, args):
            if isinstance(a, Tensor):
                ins.append(a)
            elif type(a) in (int, float, bool):
                (ins if p.is_tensor else numbers).append(self.number(a, outs[0]) if p.is_tensor else a)
            else:
                return False
        if not all(t._fl_device.type == self.name for t in (*ins, *outs)):
            return False
        index = outs[0]._fl_device.index or 0
        told = self.table.run(
            index,
            op.name.encode(),
            plugin_abi.structs([self.struct(t) for t in outs]),
            len(outs),
            plugin_abi.structs([self.struct(t) for t in ins]),
            len(ins),
            plugin_abi.doubles(numbers),
            len(numbers),
        )
        if told == plugin_abi.NO_KERNEL:
            return False
        if told:
            raise KernelError(f"{self.name}: {ctypes.string_at(told).decode()}")
        self.ran[op.name] = self.ran.get(op.name, 0) + 1
        return True

    def number(self, value, like: Tensor) -> Tensor:
        made = fake_tensor((), None, like._fl_dtype, like._fl_device)
        self.give_memory(made)
        self.write(made, np.asarray(value))
        return made

    def count_host(self, name: str) -> None:
        counters.add("fallbacks", f"{self.name} has no kernel for {name}: it ran on the host")

    def run_on_host(self, op, args: tuple, outs: tuple) -> None:
        self.count_host(op.name)
        with recording(False), no_modes(), setting(fake=False):
            made = op(*[on_host(a) for a in args])
        for t, value in zip(outs, made if isinstance(made, tuple) else (made,)):
            if t._fl_device.type == self.name:
                self.write(t, value._fl_array)
            else:
                t._fl_array, t._fl_storage = value._fl_array, None


def on_host(a) -> Any:
    """An argument with device tensors copied to the host."""
    if isinstance(a, Tensor):
        return a if a._fl_array is not None else Tensor._fl_from_array(a._fl_storage.runtime.read(a), a._fl_dtype)
    if isinstance(a, device):
        return cpu
    return type(a)(map(on_host, a)) if type(a) in (tuple, list) and any(isinstance(x, Tensor) for x in a) else a


def answered(what: str, t: Tensor, *more):
    """The public function on copies of the host; the results go to the tensor's device."""
    found = importlib.import_module(".frontend.host_fallback", __package__).READS[what](*map(on_host, (t, *more)))
    return placed(found, t._fl_device)


def placed(found, place: device):
    """Tensors of the host (and tuples of them) on a device."""
    if isinstance(found, tuple):
        kind: Any = type(found)
        parts = (placed(f, place) for f in found)
        return kind._make(parts) if hasattr(found, "_make") else tuple(parts)
    return OPS["transfer"](found, place) if isinstance(found, Tensor) and found._fl_device is cpu else found


def move(source: Tensor, target: Tensor) -> None:
    """The values of a tensor into one on another device."""
    values = source._fl_array if source._fl_array is not None else source._fl_storage.runtime.read(source)
    runtime = devices.runtimes.get(target._fl_device.type)
    if runtime is None:
        target._fl_array, target._fl_storage = np.array(values, order="K", copy=True), None
        target._fl_geometry = None
        return
    runtime.give_memory(target)
    runtime.write(target, values)


@extern(meta=lambda x, target: Spec(tuple(x.shape), x.dtype, x.stride(), target), roles={"target": "static"})
def transfer(x, target):
    """The same values on another device."""
    raise RuntimeError(f"transfer to {target}: there is no such device here")


@transfer.grad("x")
def _(g, x):
    return OPS["transfer"](g, x.device)


@transfer.samples
def _(make):
    return []
