"""Kernels of the user's own, in graphs: new values for the tensors that a kernel writes.

In: the tensors that a kernel is called with, and the call (a `KernelCall`, which knows the kernel, its grid and its other
arguments). Out: for each tensor that is written, its value afterwards. Whoever records a call copies these back, so that the
writing is as visible as any other.
"""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ...runtime.dataclass import data
from ..op.op import extern, Out, static, tensors
from .rearrange import like


_launchers: list[Callable[[], ModuleType]] = []


def register_launcher(load: Callable[[], ModuleType]) -> None:
    """Say who launches kernels: `load()` imports and gives the module. There is one; a second one is refused."""
    if _launchers:
        raise RuntimeError("the launcher of user kernels is registered already")
    _launchers.append(load)


def launcher() -> ModuleType:
    """The module that wraps and launches kernels, imported when there is one."""
    if not _launchers:
        raise RuntimeError("no module has registered that it launches kernels: import the whole package")
    return _launchers[0]()


class WrappedKernel:
    """A kernel that takes tensors; the launcher's own class is below this one."""


@data
class KernelCall:
    """`run(kernel, grid, arguments)` launches on arrays; `arguments`: (name, number of the tensor or None, other value);
    `written`: numbers of the tensors that change."""

    kernel: Any
    grid: tuple
    arguments: tuple
    written: tuple
    run: Callable

    def __call__(self, arrays: list) -> None:
        self.run(self.kernel, self.grid, {name: value if at is None else arrays[at] for name, at, value in self.arguments})


def same_memory(a):
    """A copy with the same strides, which a kernel may have been told."""
    if a.flags.c_contiguous or a.size == 0 or min(a.strides) < 0:
        return a.copy()
    extent = sum((n - 1) * s for n, s in zip(a.shape, a.strides)) // a.itemsize + 1
    flat = np.lib.stride_tricks.as_strided(a, (extent,), (a.itemsize,)).copy()
    return np.lib.stride_tricks.as_strided(flat, a.shape, a.strides)


@functools.cache
def user_kernel_op(count: int):
    """The op for kernels that write this many tensors."""

    def user_kernel(operands: tensors, call: static):
        arrays = [same_memory(a) if k in call.written else a for k, a in enumerate(operands)]
        call(arrays)
        made = tuple(arrays[k] for k in call.written)
        return made[0] if len(made) == 1 else made

    def meta(operands, call):
        made = tuple(like(operands[k]) for k in call.written)
        return made[0] if len(made) == 1 else made

    return extern(
        name=f"user_kernel_{count}", meta=meta, outputs=tuple(Out(f"new_{k}", differentiable=False) for k in range(count))
    )(user_kernel)
