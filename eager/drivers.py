"""Devices that need a package: how they are found and started. The public package imports this; nothing in this layer does."""

from . import device


def cuda_is_found() -> bool:
    from .cuda import find_cupy

    return find_cupy.found()[0] is not None


def start_cuda() -> None:
    from .cuda import runtime

    runtime.start()


device.register_driver("cuda", cuda_is_found, start_cuda)
