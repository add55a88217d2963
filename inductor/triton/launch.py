"""All kernels of a graph in one native call: what `launcher.cpp` needs, laid out once.

In: binaries in launch order. Out: `PreparedLaunches`, called with the addresses of arrays and a stream. Addresses change from
call to call and stand in one table; grids, sizes and block shapes are those of the binaries. The driver is opened at the first
use; what it refuses raises, naming the kernel and what to do. `CudaGraphLaunches` records the launches of a table that comes
again, and replays them as one; any other table is launched as usual.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...eager.cuda.allocator import OutOfMemoryError
from ...runtime import toolchain
from ...runtime.errors import BackendError, FlambeauError
from ...runtime.locks import cached_property
from .aot import Binary, LaunchArgument

LIBRARY = "libcuda.so.1"
OUT_OF_MEMORY, TOO_LARGE, NO_IMAGE = 2, 1, 209
LOST = {46, 100, 700, 702, 714, 715, 716, 717, 718, 719, 999}  # behind these the device or its context is of no use
TOO_MUCH = {1, 701}  # invalid value, out of resources
MOST_GRAPHS, PATIENCE = 8, 64  # recorded graphs a `PreparedLaunches`; calls without a known table before it gives up
PACKED = {"i32": "=iI", "i64": "=q", "fp32": "=fI", "fp64": "=d"}  # a number in the eight bytes of its slot


class LaunchError(FlambeauError):
    """The driver refused a launch, or an earlier kernel failed: results of this call are not valid."""


class OutOfMemory(OutOfMemoryError, MemoryError):
    """`torch.cuda.OutOfMemoryError`, from the driver."""


class OutOfResources(LaunchError):
    """The chip has not what one launch asks for (registers, threads, shared memory); others are not concerned."""


class DeviceLost(LaunchError):
    """The device, or this program's context on it, can no longer be used: nothing of it can be read or computed."""


class CLaunch(ctypes.Structure):
    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint),
        ("shared", ctypes.c_uint),
        ("cluster", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
    ]


class Driver:
    """NVIDIA's driver on one device, through the launcher."""

    def __init__(self, path: str = LIBRARY, device: int = 0):
        text = Path(__file__).with_name("launcher.cpp").read_text()
        self.library = library = ctypes.CDLL(toolchain.build([text]))
        library.fb_cuda_error.restype = ctypes.c_char_p
        facts = (ctypes.c_int * 3)()
        self.device = device
        code = library.fb_cuda_open(path.encode(), device, facts)
        self.capability, self.most_shared = facts[0] * 10 + facts[1], facts[2]
        if code < 0:
            why = "cannot be opened" if code == -1 else "lacks functions that CUDA 12 has"
            raise BackendError(f"{path} {why}", "install NVIDIA's driver (525 or newer) on a machine with a GPU")
        self.check(code, "the device cannot be used")

    @cached_property
    def name(self) -> str:
        """What the device is called."""
        text = ctypes.create_string_buffer(256)
        self.check(self.library.fb_cuda_name(self.device, text, len(text)), "the device has no name")
        return text.value.decode()

    def check(self, code: int, what: str) -> None:
        if code == 0:
            return
        text = self.library.fb_cuda_error(code).decode()
        if code == OUT_OF_MEMORY:
            raise OutOfMemory(f"CUDA: {what}: {text}; free tensors, or use a smaller batch")
        if code in LOST:
            raise DeviceLost(
                f"CUDA error {code}: {what}: {text}; the device is lost to this program: start it again. With "
                'FLAMBEAU_VERIFY=1 and backend="triton" on the CPU a kernel\'s wrong accesses are found'
            )
        raise (OutOfResources if code in TOO_MUCH else LaunchError)(f"CUDA error {code}: {what}: {text}")

    def load(self, binary: Binary) -> int:
        """The function of a kernel. One that does not fit in the chip's shared memory is refused here, not launched."""
        function = ctypes.c_void_p()
        name, shared = binary.facts["name"], binary.facts["shared"]
        code = self.library.fb_cuda_load(self.device, binary.cubin, name.encode(), shared, ctypes.byref(function))
        if code == TOO_LARGE:
            raise BackendError(
                f"{name} needs {shared:,} bytes of shared memory, more than this chip has", "compile it with smaller blocks"
            )
        if code == NO_IMAGE and binary.cubin[:4] == b"\x7fELF":
            raise BackendError(f"{name} was compiled for another chip than this one (sm_{self.capability})", "compile it again")
        self.check(code, f"{name} cannot be loaded")
        return function.value or 0


@functools.cache
def driver(device: int = 0) -> Driver:
    return Driver(device=device)


class PreparedLaunches:
    """The launches of one graph at one set of sizes. `names`: arrays in the order of their addresses."""

    def __init__(self, on: Driver, binaries: Sequence[Binary]):
        self.on, self.binaries = on, list(binaries)
        given = [g for b in binaries for _, g in b.launched.arguments]
        self.names = list(dict.fromkeys(g.name for g in given if g.kind[0] == "*"))
        self.scalars = list(dict.fromkeys(g.name for g in given if g.kind[0] != "*" and g.value is None))
        places = {name: k for k, name in enumerate([*self.names, *self.scalars])}
        numbers = [g for g in given if g.kind[0] != "*" and g.value is not None]
        self.table = (ctypes.c_uint64 * (len(places) + len(numbers) + 1))()  # the last stays 0: triton's own pointers
        self.kinds = {g.name: g.kind for g in given}
        self.functions: dict[bytes, int] = {}
        self.kept: list[Any] = []
        free = iter(range(len(places), len(places) + len(numbers)))
        self.launches = (CLaunch * len(self.binaries))(*(self.launch(b, places, free) for b in self.binaries))
        self.done = ctypes.c_int()

    def launch(self, binary: Binary, places: Mapping[str, int], free: Any) -> CLaunch:
        facts, launched = binary.facts, binary.launched
        if facts.get("global_scratch_size") or facts.get("profile_scratch_size"):
            raise BackendError(f"{launched.kernel} asks for scratch memory of triton's own", "compile it with fewer stages")
        slots = [self.slot(g, places, free) for _, g in launched.arguments]
        slots += [len(self.table) - 1] * 2
        start = ctypes.addressof(self.table)
        parameters = (ctypes.c_void_p * len(slots))(*(start + 8 * s for s in slots))
        self.kept.append(parameters)
        function = self.functions.get(binary.cubin)
        if function is None:
            function = self.functions[binary.cubin] = self.on.load(binary)
        grid = (ctypes.c_uint * 3)(*launched.grid, *(1,) * (3 - len(launched.grid)))
        return CLaunch(
            function, grid, 32 * facts["num_warps"], facts["shared"], facts.get("num_ctas", 1), ctypes.addressof(parameters)
        )

    def slot(self, given: LaunchArgument, places: Mapping[str, int], free: Any) -> int:
        if given.name in places:
            return places[given.name]
        at = next(free)
        self.table[at] = packed(given.kind, given.value)
        return at

    def fill(self, addresses: Mapping[str, int], scalars: Mapping[str, Any] | None) -> None:
        for k, name in enumerate(self.names):
            self.table[k] = addresses[name]
        for k, name in enumerate(self.scalars, len(self.names)):
            self.table[k] = packed(self.kinds[name], (scalars or {})[name])

    def __call__(self, addresses: Mapping[str, int], stream: int = 0, scalars: Mapping[str, Any] | None = None) -> None:
        """Launch everything on a stream, in order. `scalars`: seed, base and floats by name."""
        self.fill(addresses, scalars)
        self.launch_all(stream)

    def launch_all(self, stream: int) -> None:
        code = self.on.library.fb_cuda_run(
            self.on.device, self.launches, len(self.binaries), ctypes.c_void_p(stream), ctypes.byref(self.done)
        )
        if code:
            self.refused(code)

    def timed(self, addresses: Mapping[str, int], stream: int, scalars: Mapping[str, Any], repeats: int) -> float:
        """Microseconds that one round of all launches takes on the device, over `repeats` rounds."""
        self.fill(addresses, scalars)
        found = ctypes.c_float()
        code = self.on.library.fb_cuda_time(
            self.on.device, self.launches, len(self.binaries), ctypes.c_void_p(stream), repeats, ctypes.byref(found)
        )
        self.on.check(code, f"{self.binaries[0].launched.kernel} was not timed")
        return 1000 * found.value / repeats

    def refused(self, code: int) -> None:
        at = min(self.done.value, len(self.binaries) - 1)
        self.on.check(code, f"{self.binaries[at].launched.kernel} was not launched")


class CudaGraphLaunches(PreparedLaunches):
    """Launches that are recorded as a CUDA graph when the same addresses and numbers come a second time in a row, and replayed
    whenever they come again. Addresses that keep changing cost nothing but the launches."""

    def __init__(self, on: Driver, binaries: Sequence[Binary]):
        super().__init__(on, binaries)
        self.graphs: dict[bytes, int | None] = {}
        self.last, self.misses, self.replays = b"", 0, 0

    def __call__(self, addresses: Mapping[str, int], stream: int = 0, scalars: Mapping[str, Any] | None = None) -> None:
        self.fill(addresses, scalars)
        if self.misses > PATIENCE:
            return self.launch_all(stream)
        table = bytes(self.table)
        graph = self.graphs.get(table)
        if graph is None and table == self.last and len(self.graphs) < MOST_GRAPHS:
            graph = self.graphs[table] = self.capture()
        if graph is None:
            self.last, self.misses = table, self.misses + 1
            return self.launch_all(stream)
        self.misses, self.replays = 0, self.replays + 1
        code = self.on.library.fb_cuda_replay(self.on.device, ctypes.c_void_p(graph), ctypes.c_void_p(stream))
        if code:
            self.on.check(code, f"the graph of {self.binaries[0].launched.kernel} and what follows was not launched")

    def capture(self) -> int | None:
        made = ctypes.c_void_p()
        code = self.on.library.fb_cuda_record(
            self.on.device, self.launches, len(self.binaries), ctypes.byref(made), ctypes.byref(self.done)
        )
        if code:
            self.refused(code)
        return made.value

    def __del__(self) -> None:
        graphs = self.__dict__.get("graphs", {})
        while graphs:
            self.on.library.fb_cuda_forget(self.on.device, ctypes.c_void_p(graphs.popitem()[1]))


def packed(kind: str, value: Any) -> int:
    """A number as the eight bytes of its slot."""
    form = PACKED[kind]
    return int.from_bytes(struct.pack(form, value, *(0,) * (len(form) - 2)), "little")
