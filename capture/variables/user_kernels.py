"""The user's own Triton kernels in captured code: `kernel[grid](...)` is one node of the graph.

In: a function that `triton.jit` made, or one that `torch.library.wrap_triton` gave. Out: a Variable whose item is the launch.
On a GPU a launch is a graph break: the kernel runs between two graphs.
"""

from __future__ import annotations

from typing import Any

from ...eager.ops.user_kernels import WrappedKernel, launcher
from ..breaks import unsupported
from .base import Variable
from .dicts import DictVariable
from .tensor import TensorVariable

KERNELS = {("triton.runtime.jit", "JITFunction"), ("triton.runtime.interpreter", "InterpretedFunction")}


def is_kernel(cls: type) -> bool:
    return issubclass(cls, WrappedKernel) or (cls.__module__, cls.__name__) in KERNELS


class KernelVariable(Variable):
    """A kernel; it is the same one whenever the code runs."""

    def __init__(self, value: Any, source: Any = None):
        super().__init__(source)
        self.value = value
        self.kernel = value.kernel if issubclass(type(value), WrappedKernel) else value

    def python_type(self) -> type:
        return type(self.value)

    def plain(self) -> Any:
        return self.value

    def get_item(self, tx: Any, key: Variable) -> LaunchVariable:
        return LaunchVariable(self.kernel, key)


class LaunchVariable(Variable):
    """A kernel with its grid."""

    def __init__(self, kernel: Any, grid: Variable):
        super().__init__(None)
        self.kernel, self.grid = kernel, grid

    def python_type(self) -> type:
        return type(launcher().launch)

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        if any(isinstance(a, TensorVariable) and a.fake.is_cuda for a in (*args, *kwargs.values())):
            raise unsupported("call", f"a Triton kernel of the program's own ({self.kernel.fn.__name__}) on a GPU")
        launch, kernel = launcher().launch, self.kernel
        grid = self.shape(tx, args, kwargs)
        return tx.fresh(tx.run_variables(lambda *given, **named: launch(kernel, grid, *given, **named), args, kwargs))

    def shape(self, tx: Any, args: list, kwargs: dict) -> tuple:
        """The grid's numbers; a function of the arguments is called with them by name."""
        grid = self.grid.realize()
        if grid.python_type() not in (tuple, list, int):
            given, _ = launcher().bind_arguments(self.kernel, tuple(args), kwargs)
            named = [(tx.constant(name), v if isinstance(v, Variable) else tx.fresh(v)) for name, v in given.items()]
            grid = tx.call(grid, [DictVariable(named)], {})
        return grid.plain()
