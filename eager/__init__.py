"""The tensor runtime: tensors, op records, autograd, nn, optim, data. `api` is its list of public names; importing that
defines every op. What imports of modules cannot say without a circle is said here, where all of them meet."""

from . import device


def _cuda_is_found() -> bool:
    from .cuda import find_cupy

    return find_cupy.found()[0] is not None


def _start_cuda() -> None:
    from .cuda import runtime

    runtime.start()


device.register_driver("cuda", _cuda_is_found, _start_cuda)
