"""CUDA as a device of eager: what runs records on tensors in a GPU's memory.

In: records with canonical arguments, outputs that have sizes only (dispatch.run_fake). Out: outputs with memory and values.
What has no kernel runs on the host: operands are copied there and results back, which is counted, logged and told by
`flambeau.cuda.host_runs()`; nothing else leaves the GPU unasked.
"""

from __future__ import annotations

import numpy as np

from ...runtime import counters
from .. import device as devices, dtypes
from ..device import device
from ..op.op import OPS, Kind
from ..plugin import answered, move, on_host, transfer
from ..sizes import contiguous_strides
from ..state import no_modes, recording, setting
from ..tensor import Tensor, fake_tensor
from . import narrow_floats, kernels, find_cupy
from .arrays import from_host, give_memory, loaded, memory, stored
from .allocator import CudaStorage, OutOfMemoryError, Pending, is_pinned, mark_pinned, on, pinned_copy, refused
from .numpy_ports import NotOnDevice
from .prims import Checks
from .array_module import is_array


class CudaRuntime:
    """The one runtime of all GPUs. `ran` op -> calls on a GPU, `on_host` op -> calls that the host ran."""

    name = "cuda"

    def __init__(self):
        self.ran: dict[str, int] = {}
        self.hosted: dict[str, int] = {}
        self.reasons: dict[str, str] = {}

    @property
    def count(self) -> int:
        return find_cupy.cupy().cuda.runtime.getDeviceCount()

    def place(self, d: device) -> device:
        """The device with its number; that of the present GPU if none is given."""
        if d.index is None:
            return device("cuda", find_cupy.cupy().cuda.runtime.getDevice())
        if d.index >= self.count:
            raise RuntimeError(f"CUDA error: invalid device ordinal: {d}, and {self.count} GPUs are here")
        return d

    # -- tensors

    def pointer(self, t: Tensor) -> int:
        """The address of the first element."""
        return t._fl_storage.data_ptr() + t.storage_offset() * t._fl_dtype.itemsize if t.numel() else 0

    def give_memory(self, t: Tensor) -> None:
        with on(t._fl_device.index):
            give_memory(t)

    def read(self, t: Tensor) -> np.ndarray:
        """A copy on the host, row-major; waits for the GPU, and tells what went wrong there before."""
        with on(t._fl_device.index):
            Checks.look()
            host = memory(t).get()
        return (
            np.ascontiguousarray(host).reshape(host.shape).view(t._fl_dtype.numpy)
            if host.ndim
            else np.asarray(host).reshape(1).view(t._fl_dtype.numpy).reshape(())
        )

    def write(self, t: Tensor, value: np.ndarray) -> None:
        """Numbers of the host into a tensor."""
        if t.numel() == 0:
            return
        kind = narrow_floats.memory_type(t._fl_dtype)
        sizes = tuple(t._fl_sizes)
        host = np.ascontiguousarray(np.broadcast_to(value, sizes).astype(t._fl_dtype.numpy, copy=False))
        host = host.reshape(-1).view(kind).reshape(sizes)
        with on(t._fl_device.index):
            target = memory(t)
            if target.flags.c_contiguous:
                target.set(host)
            else:
                target[...] = find_cupy.cupy().asarray(host)

    def upload(self, storage, place: device) -> CudaStorage:
        """The bytes of a storage of the host."""
        made = CudaStorage(storage.nbytes(), place)
        with on(place.index):
            made.block.set(storage._held())
        return made

    def copy(self, target: Tensor, source: Tensor) -> None:
        """The values of a tensor into another, with the target's type."""
        with on(target._fl_device.index):
            if source._fl_dtype is target._fl_dtype and source._fl_array is None:
                memory(target)[...] = memory(source)
                return
            value = loaded(source)
            kind = narrow_floats.memory_type(target._fl_dtype)
            memory(target)[...] = (
                narrow_floats.encoded(value, target._fl_dtype)
                if target._fl_dtype in narrow_floats.BITS
                else value
                if value.dtype == kind
                else value.astype(kind)
            )

    # -- ops

    def fill(self, op, args: tuple, outs: tuple) -> None:
        """The values of outputs that have sizes only."""
        if op is transfer:
            self.transfer(args[0], outs[0])
            return
        place = next(t._fl_device for t in outs if t._fl_device.type == "cuda")
        with on(place.index):
            try:
                if op.kind is Kind.COMPOSITE and op.name not in _own():
                    self.decompose(op, args, outs)
                elif not self.run(op, args, outs):
                    self.run_on_host(op, args, outs)
            except find_cupy.cupy().cuda.memory.OutOfMemoryError as error:
                raise OutOfMemoryError(refused(place.index, error)) from None

    def run(self, op, args, outs) -> bool:
        """Whether there was a kernel."""
        try:
            values = kernels.run(op, args, outs)
        except (NotOnDevice, AttributeError, NotImplementedError) as error:
            if op.kind is not Kind.EXTERN:
                raise
            self.reasons[op.name] = str(error)
            return False
        held = {id(t._fl_storage.block.data.mem): t._fl_storage.block.data.mem for t in _tensors(args) if t._fl_array is None}
        for t, value in zip(outs, values):
            stored(t, value, held.values())
        self.ran[op.name] = self.ran.get(op.name, 0) + 1
        return True

    def decompose(self, op, args, outs) -> None:
        """A composite's results become its outputs; an operand that comes back is copied."""
        with recording(False), no_modes(), setting(fake=False):
            made = op.fn(*args)
        made = made if isinstance(made, tuple) else (made,)
        shared = [t._fl_storage for t in _tensors(args)]
        for t, value in zip(outs, made):
            if t._fl_device.type == "cpu":  # a number that an optimizer counts on the host
                t._fl_array, t._fl_storage = value._fl_array, None
                continue
            fits = value._fl_array is None and tuple(value._fl_strides) == tuple(t._fl_strides) and value.storage_offset() == 0
            if fits and value._fl_dtype is t._fl_dtype and not any(value._fl_storage is s for s in shared):
                t._fl_storage = value._fl_storage
            else:
                give_memory(t)
                self.copy(t, value)

    # -- memory that is shared with others

    def pinned(self, t: Tensor) -> Tensor:
        made = Tensor._fl_from_array(pinned_copy(t.detach()._fl_array), t._fl_dtype)
        mark_pinned(made._fl_ensure_storage())
        return made

    def is_pinned(self, t: Tensor) -> bool:
        return is_pinned(t._fl_storage)

    def keep(self, t: Tensor, stream) -> None:
        """The memory of a tensor lives until a stream's present work is done."""
        with on(t._fl_device.index):
            Pending.keep(t._fl_storage.block, stream.inner)

    def imported(self, source) -> Tensor:
        """A tensor over memory that somebody else shows by `__cuda_array_interface__`."""
        array = find_cupy.cupy().asarray(source)
        step = array.itemsize
        t = fake_tensor(
            array.shape, [s // step for s in array.strides], dtypes.from_numpy(array.dtype), device("cuda", array.device.id)
        )
        span = 0 if array.size == 0 else sum((n - 1) * s for n, s in zip(array.shape, array.strides)) + step
        t._fl_storage = CudaStorage.holding(array, t._fl_device, span)
        return t

    def interface(self, t: Tensor) -> dict:
        kind = narrow_floats.memory_type(t._fl_dtype)
        step = kind.itemsize
        strides = None if t.is_contiguous() else tuple(s * step for s in t._fl_strides)
        return {
            "typestr": kind.str,
            "shape": tuple(t._fl_sizes),
            "strides": strides,
            "data": (self.pointer(t), False),
            "version": 2,
        }

    def answer(self, what: str, t: Tensor, *more):
        """What the values of a tensor decide: positions are found on the GPU, the rest on the host."""
        if what == "item":
            return on_host(t).item()
        if what == "nonzero":
            with on(t._fl_device.index):
                return self.positions(t)
        if what != "classes":
            self.count_host(what)
        return answered(what, t, *more)

    def positions(self, t: Tensor) -> Tensor:
        """(elements that are not zero, dims)"""
        value = loaded(t)
        found = find_cupy.cupy().stack(find_cupy.cupy().nonzero(value), axis=1)
        made = fake_tensor(found.shape, None, dtypes.int64, t._fl_device)
        stored(made, found.astype(np.int64, copy=False))
        return made

    def run_on_host(self, op, args: tuple, outs: tuple) -> None:
        self.count_host(op.name)
        with recording(False), no_modes(), setting(fake=False):
            made = op(*[on_host(a) for a in args])
        for t, value in zip(outs, made if isinstance(made, tuple) else (made,)):
            give_memory(t)
            self.write(t, value._fl_array)

    def count_host(self, name: str) -> None:
        self.hosted[name] = self.hosted.get(name, 0) + 1
        counters.add("fallbacks", f"cuda has no kernel for {name}: it ran on the host")

    def transfer(self, source: Tensor, target: Tensor) -> None:
        """To, from and between GPUs."""
        if target._fl_device.type != "cuda" or source._fl_device.type != "cuda":
            move(source, target)
            if is_pinned(source._fl_storage):  # the copy may go on behind the call: the memory lives as long
                Pending.keep(source._fl_array)
            return
        with on(target._fl_device.index):
            give_memory(target)
            memory(target)[...] = memory(source).copy()  # cupy copies to the GPU that is current


def _own() -> dict:
    from . import special_kernels

    return special_kernels.KERNELS


def _tensors(args):
    for a in args:
        if isinstance(a, Tensor):
            yield a
        elif type(a) in (tuple, list):
            yield from (x for x in a if isinstance(x, Tensor))


def start() -> CudaRuntime:
    """Makes `cuda` a device on which tensors can be made; raises where there is no CUDA."""
    runtime = devices.runtimes.get("cuda")
    if runtime is None:
        find_cupy.cupy()
        runtime = CudaStorage.runtime = CudaRuntime()
        devices.runtimes["cuda"] = runtime
    return runtime


__all__ = ["OPS", "contiguous_strides", "from_host", "is_array", "start"]
