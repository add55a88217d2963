"""From a loop program to a callable: compile the C++ text, load it, and bind it to Tensors through the native
launcher.

In: a `Program` and optionally its generated text. Out: `Compiled`: `run(inputs, seed, base) -> outputs`, its source
and its statistics. Inputs are Tensors (or numpy arrays), ints for symbolic numbers and floats for scalar inputs.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any
from collections.abc import Sequence

import numpy as np

from ...capture.expr import Expr
from ...eager import dtypes
from ...eager.tensor import Tensor
from ...runtime import counters, log, native, toolchain
from ...runtime.config import config
from ...runtime.errors import CheckFailed, InternalError
from ..body import Buffer
from ..memory import overwritten
from ..interpret import call_eagerly
from ..loops import ExternCall, Program, View, leaves, writes
from .codegen import Generated, generate

WHAT = {"size": 0, "stride": 1, "value": 2}
FROM_OUTPUT, FROM_INPUT, FROM_NUMBER, FROM_NOTHING = range(4)


class Compiled:
    """One compiled graph. Call it with the inputs, the seed and the first random ordinal."""

    def __init__(self, program: Program, generated: Generated, path: str, launcher: Any):
        self.source, self.kernels, self.path, self.launcher = generated.text, generated.kernels, path, launcher
        self.overwrites = overwritten(program)

    def __call__(self, inputs: Sequence[Any], seed: int = 0, base: int = 0) -> list[Any]:
        return self.launcher(inputs, seed, base)

    def statistics(self) -> dict[str, Any]:
        """Calls, nanoseconds in native code, and nanoseconds by kernel when `config.kernel_times` was set at
        compile time.
        """
        found = self.launcher.statistics()
        found["kernel_ns"] = dict(zip(self.kernels, found["kernel_ns"]))
        return found


def load(program: Program, wrap: bool = True) -> Compiled:
    """Compile and bind; with `wrap` False outputs are numpy arrays instead of Tensors."""
    generated = generate(program)
    path = toolchain.build(generated.sources)
    counters.add("kernels", amount=len(generated.kernels))
    log.channel("kernels")(generated.text)
    library = ctypes.CDLL(path)
    if wrap:
        _bind_tensor()
    return Compiled(program, generated, path, _launcher(program, generated, library, wrap))


@functools.cache
def _bind_tensor() -> None:
    """Show the launcher what a fresh tensor looks like."""
    native.bind_tensor(Tensor, Tensor._from_array(np.zeros(()), dtypes.float64))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value


def _launcher(program: Program, generated: Generated, library: Any, wrap: bool) -> Any:
    numbers = {b.name: k for k, b in enumerate(program.inputs) if isinstance(b, Buffer)}
    homes = [numbers.get(program.homes.get(b.name), -1) for b in generated.outputs]
    outputs = tuple((b.dtype.numpy, b.dtype, len(b.sizes), home) for b, home in zip(generated.outputs, homes))
    return native.Launcher(
        run=_address(library.fb_run),
        plan=_address(library.fb_plan),
        inputs=_inputs(program),
        constants=_constants(program),
        symbols=tuple(map(_symbol, program.symbols)),
        floats=_floats(program),
        outputs=outputs,
        results=_results(program, generated),
        plan_size=2 + sum(2 * len(b.sizes) for b in generated.outputs) + len(generated.numbers),
        checks=tuple(check.text for check in sorted(program.checks, key=lambda check: check.ident)),
        error=CheckFailed,
        externs=tuple(_extern(kernel) for kernel in generated.externs),
        extern_function=Externs(generated.externs),
        kernels=len(generated.kernels) if config.kernel_times else 0,
        wrap=wrap,
        keepalive=library,
    )


def _inputs(program: Program) -> tuple:
    """Per graph input None (a number), or the geometry that the code was made for; -1 where it is symbolic."""
    written = {b.name for kernel in program.kernels for b in writes(kernel)} | set(program.homes.values())
    fixed = lambda exprs: tuple(e if isinstance(e, int) else -1 for e in exprs)
    return tuple(
        None if isinstance(b, str) else (b.dtype.numpy, fixed(b.sizes), fixed(b.strides), b.name in written)
        for b in program.inputs
    )


def _constants(program: Program) -> tuple:
    return tuple(program.constants[b.name]._array for b in program.buffers if b.kind == "const")


def _symbol(symbol: Any) -> tuple[int, int, int]:
    if symbol.what not in WHAT:
        raise InternalError(
            f"symbol {symbol.name} comes from the {symbol.what} of input {symbol.input}, which the launcher cannot read"
        )
    return symbol.input, WHAT[symbol.what], symbol.dim


def _floats(program: Program) -> tuple[int, ...]:
    """The inputs that give the float scalars: numbers or 0-dim tensors."""
    odd = [s.name for s in program.floats if s.what != "value"]
    if odd:
        raise InternalError(f"floats {odd} of program {program.name} are not values of inputs")
    return tuple(symbol.input for symbol in program.floats)


def _results(program: Program, generated: Generated) -> tuple[tuple[int, int], ...]:
    numbers = iter(range(len(generated.numbers)))
    fresh = {b.name: k for k, b in enumerate(generated.outputs)}
    inputs = {b.name: k for k, b in enumerate(program.inputs) if isinstance(b, Buffer)}

    def result(o: Any) -> tuple[int, int]:
        if o is None:
            return FROM_NOTHING, 0
        if not isinstance(o, Buffer):
            return FROM_NUMBER, next(numbers)
        if o.name in fresh:
            return FROM_OUTPUT, fresh[o.name]
        if o.name in inputs:
            return FROM_INPUT, inputs[o.name]
        raise InternalError(f"output {o.text()} of program {program.name} is neither fresh nor an input")

    return tuple(map(result, program.outputs))


# -- ops without a template, run eagerly between native kernels


def _extern(kernel: ExternCall) -> tuple:
    """((numpy type, dimensions) of each region, number of symbolic arguments), in the order of the generated call."""
    regions = [(v.buffer.dtype.numpy, len(v.sizes)) for v in leaves(kernel.args, View)]
    return (*regions, *((b.dtype.numpy, len(b.sizes)) for b in kernel.outputs)), sum(
        1 for _ in leaves(kernel.args, Expr)
    )


class Externs:
    """Called from native code: number of the call, arrays over its regions, values of its symbolic arguments."""

    def __init__(self, kernels: list[ExternCall]):
        self.kernels = kernels

    def __call__(self, number: int, arrays: tuple, numbers: tuple, seed: int, base: int) -> None:
        kernel = self.kernels[number]
        counters.add("fallbacks", kernel.op.name)
        rest, values = iter(arrays), iter(numbers)
        args = tuple(_filled(x, rest, values) for x in kernel.args)
        for tensor in call_eagerly(kernel, args, {"seed": seed, "base": base}):
            next(rest)[...] = tensor._array


def _filled(x: Any, arrays: Any, values: Any) -> Any:
    """The argument with tensors for views and numbers for expressions."""
    if isinstance(x, View):
        return Tensor._from_array(next(arrays), x.buffer.dtype)
    if isinstance(x, (tuple, list)):
        return type(x)(_filled(item, arrays, values) for item in x)
    return next(values) if isinstance(x, Expr) else x


__all__ = ["Compiled", "load"]
