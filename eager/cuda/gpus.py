"""The GPUs of this machine: how many, which is current, what they are; waiting for them.

In: device indices, names, or devices. Out: numbers and names as PyTorch gives them. Questions about whether there is a GPU
are answered anywhere; all else raises where there is none, telling what to install.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

from .. import device as devices
from ..tensor import Tensor
from . import find_cupy
from .runtime import start
from .prims import Checks


def is_available() -> bool:
    return find_cupy.found()[0] is not None


def device_count() -> int:
    return find_cupy.cupy().cuda.runtime.getDeviceCount() if is_available() else 0


def is_initialized() -> bool:
    return "cuda" in devices.runtimes


def init() -> None:
    start()


def index_of(device=None) -> int:
    """The number of a GPU from an index, a device, a name, or None (the current one)."""
    start()
    if device is None:
        return current_device()
    if isinstance(device, int):
        device = devices.device("cuda", device)
    device = devices.device(device)
    if device.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return devices.resolve_device(device).index


def current_device() -> int:
    start()
    return find_cupy.cupy().cuda.runtime.getDevice()


def set_device(device) -> None:
    if not (isinstance(device, int) and device < 0):
        find_cupy.cupy().cuda.Device(index_of(device)).use()


class device(contextlib.AbstractContextManager):
    """A GPU is the current one inside; None or a negative index changes nothing."""

    def __init__(self, device):
        none = device is None or isinstance(device, int) and device < 0
        self.idx, self.prev_idx = -1 if none else index_of(device), -1

    def __enter__(self):
        if self.idx >= 0:
            self.prev_idx = current_device()
            find_cupy.cupy().cuda.Device(self.idx).use()
        return self

    def __exit__(self, *error):
        if self.idx >= 0:
            find_cupy.cupy().cuda.Device(self.prev_idx).use()
        return False


class device_of(device):
    """The GPU of a tensor is the current one inside; a tensor of the host changes nothing."""

    def __init__(self, obj):
        super().__init__(obj.device.index if isinstance(obj, Tensor) and obj.is_cuda else -1)


def synchronize(device=None) -> None:
    """Waits for all work on a GPU; raises what went wrong there (an index out of range, say)."""
    find_cupy.cupy().cuda.Device(index_of(device)).synchronize()
    Checks.look()


def get_device_properties(device=None):
    found = find_cupy.cupy().cuda.runtime.getDeviceProperties(index_of(device))
    name = found["name"].decode() if isinstance(found["name"], bytes) else found["name"]
    return SimpleNamespace(
        name=name,
        major=found["major"],
        minor=found["minor"],
        total_memory=found["totalGlobalMem"],
        multi_processor_count=found["multiProcessorCount"],
        warp_size=found["warpSize"],
        max_threads_per_multi_processor=found["maxThreadsPerMultiProcessor"],
        L2_cache_size=found["l2CacheSize"],
        shared_memory_per_block=found["sharedMemPerBlock"],
        regs_per_multiprocessor=found["regsPerMultiprocessor"],
        is_integrated=found["integrated"],
        is_multi_gpu_board=found["isMultiGpuBoard"],
    )


def get_device_name(device=None) -> str:
    return get_device_properties(device).name


def get_device_capability(device=None) -> tuple[int, int]:
    found = get_device_properties(device)
    return found.major, found.minor


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    return is_available() and get_device_capability()[0] >= 8


def can_device_access_peer(device, peer_device) -> bool:
    return bool(find_cupy.cupy().cuda.runtime.deviceCanAccessPeer(index_of(device), index_of(peer_device)))


def get_arch_list() -> list:
    return [f"sm_{''.join(map(str, get_device_capability(k)))}" for k in range(device_count())]


def get_gencode_flags() -> str:
    return " ".join(f"-gencode compute=compute_{a[3:]},code={a}" for a in get_arch_list())


def host_runs() -> dict:
    """Ops that had no kernel on the GPU and ran on the host instead: name -> calls, since the start of the process."""
    return dict(devices.runtimes["cuda"].hosted) if is_initialized() else {}
