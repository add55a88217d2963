"""From a loop program to a callable: the C++ compiler works on its text, and the launcher is told how the code is called.

In: a `Program`. Out: `CppExecutable` (launch.py): `run(inputs, seed, base) -> outputs`, its source and its statistics.
"""

from __future__ import annotations

from typing import Any

from ...capture.shapes.expr import Expr
from ...capture.graph.graph import map_args
from ...capture.shapes.symbolic_shapes import SymFloat
from ...runtime import counters, log, compile_log, toolchain
from ...runtime.config import config
from ...runtime.errors import InternalError
from ..loops.body import Buffer
from ..graph.schemas import EagerCall, Launch, ScalarSpec, TensorSpec
from ..loops.ir import ExternCall, Program, View, buffers_written
from ..schedule.memory_planning import overwritten
from .codegen import CppSource, generate
from .launch import FROM_INPUT, FROM_NOTHING, FROM_NUMBER, FROM_OUTPUT, WHAT, CppExecutable, _bind_tensor, bind, launcher


def load(program: Program, wrap: bool = True) -> CppExecutable:
    """Compile and bind; with `wrap` False outputs are numpy arrays instead of Tensors."""
    return AsyncCompile(program).finish(wrap)


class AsyncCompile:
    """Generated code of which the C++ compiler makes a shared object while the passes go on."""

    def __init__(self, program: Program):
        generated = generate(program)
        self.program, self.source = program, generated.text
        self.building = toolchain.start(generated.sources)
        self.launch = launch_of(program, generated, self.building.key)
        self.overwrites = self.launch.overwrites

    def __call__(self, inputs: list, seed: int, base: int) -> list:
        """An executable that cannot be called yet: `targets.wait_for_compiler` puts what `finish` gives in its place."""
        raise InternalError(f"the code of program {self.program.name} is called before the C++ compiler has made it")

    def finish(self, wrap: bool = True) -> CppExecutable:
        """Wait for the compiler, and bind. Raises CompilerError."""
        path = self.building.path()
        counters.add("kernels", amount=len(self.launch.kernels))
        log.channel("kernels")(self.source)
        return bind(self.launch, path, self.source, wrap)


def _launcher(program: Program, generated: CppSource, library: Any, wrap: bool) -> Any:
    """The launcher over entry points that are loaded already."""
    return launcher(launch_of(program, generated, ""), library, wrap)


def launch_of(program: Program, generated: CppSource, key: str) -> Launch:
    numbers = {b.name: k for k, b in enumerate(program.inputs) if isinstance(b, Buffer)}
    homes = [numbers.get(program.homes.get(b.name, ""), -1) for b in generated.outputs]
    return Launch(
        library=key,
        inputs=_inputs(program),
        symbols=tuple(map(_symbol, program.symbols)),
        floats=_floats(program),
        outputs=tuple((b.dtype, len(b.sizes), home) for b, home in zip(generated.outputs, homes)),
        results=_results(program, generated),
        plan_size=2 + sum(2 * len(b.sizes) for b in generated.outputs) + len(generated.numbers),
        checks=tuple(check.text for check in sorted(program.checks, key=lambda check: check.ident)),
        kernels=tuple(generated.kernels),
        timed=config.kernel_times,
        overwrites=overwritten(program),
        constants=_constants(program),
        externs=tuple(map(_extern, generated.externs)),
        title=f"{program.name} of {compile_log.current().title}",
        lines=tuple(generated.lines),
        regions=tuple(generated.regions),
    )


def _inputs(program: Program) -> tuple:
    """Per graph input None (a number), or the geometry that the code was made for; -1 where it is symbolic."""
    written = {b.name for kernel in program.kernels for b in buffers_written(kernel)} | set(program.homes.values())
    fixed = lambda exprs: tuple(e if isinstance(e, int) else -1 for e in exprs)
    return tuple(
        None if isinstance(b, str) else (b.dtype, fixed(b.sizes), fixed(b.strides), b.name in written) for b in program.inputs
    )


def _constants(program: Program) -> tuple:
    return tuple(program.constants[b.name]._fl_array for b in program.buffers if b.kind == "const")


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


def _results(program: Program, generated: CppSource) -> tuple[tuple[int, int], ...]:
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


def _extern(kernel: ExternCall) -> EagerCall:
    """What is left of an eager call: native code passes regions and numbers in the order of its arguments."""

    def kept(x: Any) -> Any:
        symbolic = isinstance(x, (Expr, SymFloat))
        return _region(x) if isinstance(x, View) else ScalarSpec(isinstance(x, SymFloat)) if symbolic else x

    return EagerCall(kernel.op, map_args(kernel.args, kept), tuple(map(_region, kernel.outputs)), kernel.draw)


def _region(x: View | Buffer) -> TensorSpec:
    return TensorSpec(x.dtype, len(x.sizes))


__all__ = ["CppExecutable", "AsyncCompile", "_bind_tensor", "load"]
