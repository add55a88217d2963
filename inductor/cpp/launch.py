"""A shared object bound to Tensors through the native launcher.

In: a `Launch` and where its library is. Out: `CppExecutable`: `run(inputs, seed, base) -> outputs`. Inputs are Tensors (or
numpy arrays), ints for symbolic numbers and floats for scalar inputs. Nothing here needs the code generator.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any
from collections.abc import Iterator, Sequence

import numpy as np

from ...capture.graph.graph import map_args
from ...eager.device import cpu
from ...eager.state import state
from ...eager.tensor import Tensor
from ...runtime import counters, native
from ...runtime.errors import CheckFailed
from ..graph.schemas import EagerCall, Launch, ScalarSpec, TensorSpec

WHAT = {"size": 0, "stride": 1, "value": 2}
FROM_OUTPUT, FROM_INPUT, FROM_NUMBER, FROM_NOTHING = range(4)


class CppExecutable:
    """One compiled graph. Call it with the inputs, the seed and the first random ordinal."""

    def __init__(self, launch: Launch, path: str, source: str, launcher: Any):
        self.launch, self.path, self.source, self.launcher = launch, path, source, launcher
        self.kernels, self.overwrites = launch.kernels, launch.overwrites

    def __call__(self, inputs: Sequence[Any], seed: int = 0, base: int = 0) -> list[Any]:
        return self.launcher(inputs, seed, base)

    def statistics(self) -> dict[str, Any]:
        """Calls, nanoseconds in native code, and nanoseconds by kernel when `config.kernel_times` was set at
        compile time.
        """
        found = self.launcher.statistics()
        found["kernel_ns"] = dict(zip(self.kernels, found["kernel_ns"]))
        return found


def bind(launch: Launch, path: str, source: str, wrap: bool = True) -> CppExecutable:
    """Load the shared object; with `wrap` False outputs are numpy arrays instead of Tensors."""
    library = ctypes.CDLL(path)
    if wrap:
        _bind_tensor()
    return CppExecutable(launch, path, source, launcher(launch, library, wrap))


@functools.cache
def _bind_tensor() -> None:
    """Show the launcher the class of tensors."""
    native.bind_tensor(Tensor, cpu)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def launcher(launch: Launch, library: Any, wrap: bool) -> Any:
    return native.Launcher(
        run=_address(library.fb_run),
        plan=_address(library.fb_plan),
        inputs=tuple(None if given is None else (given[0].numpy, *given[1:]) for given in launch.inputs),
        constants=launch.constants,
        symbols=launch.symbols,
        floats=launch.floats,
        outputs=tuple((dtype.numpy, dtype, rank, home) for dtype, rank, home in launch.outputs),
        results=launch.results,
        plan_size=launch.plan_size,
        checks=launch.checks,
        error=CheckFailed,
        externs=tuple(map(_extern, launch.externs)),
        extern_function=Externs(launch),
        kernels=len(launch.kernels) if launch.timed else 0,
        wrap=wrap,
        keepalive=library,
    )


# -- ops without a template, run eagerly between native kernels


def _extern(call: EagerCall) -> tuple:
    """((numpy type, dimensions) of each region, number of symbolic arguments), in the order of the generated call."""
    found = list(_leaves(call.args))
    regions = [x for x in found if isinstance(x, TensorSpec)] + list(call.outputs)
    return tuple((region.dtype.numpy, region.rank) for region in regions), sum(isinstance(x, ScalarSpec) for x in found)


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, (tuple, list, dict)):
        for item in x.values() if isinstance(x, dict) else x:
            yield from _leaves(item)
    else:
        yield x


class Externs:
    """Called from native code: number of the call, arrays over its regions, values of its symbolic arguments. It also names
    the launcher's kernels to whoever watches launches."""

    def __init__(self, launch: Launch):
        self.calls, self.title, self.kernels = launch.externs, launch.title, launch.kernels
        self.lines, self.regions = launch.lines, launch.regions
        self.functions: dict[int, Any] = {}  # of calls that are one numpy function

    def __call__(self, number: int, arrays: tuple, numbers: tuple, seed: int, base: int) -> None:
        call = self.calls[number]
        counters.add("fallbacks", call.op.name)
        rest, values = iter(arrays), iter(numbers)
        function = self.functions.get(number)
        if function is not None and not state.modes:
            operands = map_args(call.args, lambda x: next(rest) if isinstance(x, TensorSpec) else _filled(x, rest, values))
            state.run(function, *operands, out=next(rest))
            return
        args = map_args(call.args, lambda x: _filled(x, rest, values))
        self.run(number, call, args, tuple(rest), {"seed": seed, "base": base})

    def run(self, number: int, call: EagerCall, args: tuple, outputs: tuple, scalars: dict) -> None:
        from ..loops.interpreter import call_eagerly, function_of  # few graphs have eager calls

        for k, (array, tensor) in enumerate(zip(outputs, call_eagerly(call, args, scalars))):
            made = tensor._fl_array
            if made.shape != array.shape or call.op.effects and made.dtype != array.dtype:  # (own kernels may be wider)
                raise RuntimeError(
                    f"{call.op.name}: result {k} is {made.dtype}{list(made.shape)} where its shape function says "
                    f"{array.dtype}{list(array.shape)}"
                )
            array[...] = made
        if number not in self.functions:
            self.functions[number] = function_of(call, args)


def _filled(x: Any, arrays: Iterator, values: Iterator) -> Any:
    """The argument: a tensor for a region, a number for a symbolic one."""
    if isinstance(x, TensorSpec):
        return Tensor._fl_from_array(next(arrays), x.dtype)
    if not isinstance(x, ScalarSpec):
        return x
    value = next(values)
    return float(np.int64(value).view(np.float64)) if x.real else value
