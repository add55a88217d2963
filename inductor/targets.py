"""Targets of the driver: what becomes of a final graph, or of its loop program.

`INTERPRETED` runs the final graph node by node, `LOOPS` the loop program on numpy, `CPP` generated C++. All of them mean the
same, which is how a stage that is wrong is found (`stages_until`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..capture.graph.graph import Graph, Interpreter
from ..eager import dtypes
from ..eager.state import recording
from ..eager.tensor import Tensor
from ..runtime import compile_log, counters, locks, toolchain
from ..runtime.config import config
from ..runtime.errors import CheckFailed, FlambeauError, Unsupported
from .cpp.async_compile import AsyncCompile
from .graph import dump
from .graph.compiler_ops import restride
from .loops.body import Buffer
from .loops.ir import Program
from .pass_manager import Facts, Target
from .runtime.runtime_wrapper import OutputAssembler, Executable, FunctionExecutable
from .schedule.memory_planning import overwritten

# -- the final graph


def interpreted(graph: Graph, facts: Facts) -> Executable:
    """The Interpreter on the final graph. A forward that fails has written nothing yet: the call is given to eager."""

    def run(inputs: list, seed: int, base: int) -> list:
        try:
            with recording(False):
                return unalias_results(Interpreter(graph).run(*inputs, seed=seed, base=base), inputs)
        except (IndexError, RuntimeError, ValueError) as error:
            if facts.name != "forward" or isinstance(error, FlambeauError):
                raise
            raise CheckFailed(str(error)) from error

    return FunctionExecutable(run)


def unalias_results(values: Sequence, inputs: Sequence) -> list:
    """Results that are inputs, or lie in memory of their own, as kernels make them: eager's views, and what rested on a copy
    that the passes took out, share it. None is a view of a temporary: made without recording, it would refuse writes."""
    given = {id(x) for x in inputs}
    taken = {id(x._fl_ensure_storage()) for x in inputs if isinstance(x, Tensor)}
    found = []
    for x in values:
        if isinstance(x, Tensor) and id(x) not in given:
            shared = id(x._fl_ensure_storage()) in taken
            x = restride(x, tuple(x.stride())) if shared else x if x._fl_view is None else x._fl_alias()
            taken.add(id(x._fl_ensure_storage()))
        found.append(x)
    return found


# -- the loop program


def interpret_loops(program: Program, facts: Facts | None = None) -> Executable:
    """The loop interpreter on one program."""
    with locks.importing:
        from .loops.interpreter import run as run_program  # few programs are run so
    own = [program.inputs.index(b) if isinstance(b, Buffer) and b in program.inputs else None for b in program.outputs]

    def run(inputs: list, seed: int, base: int) -> list:
        with recording(False):
            values = run_program(program, inputs, {"seed": seed, "base": base})
        return [as_tensor(v) if k is None else inputs[k] for k, v in zip(own, values)]

    return FunctionExecutable(run, overwritten(program))


def as_tensor(value: Any) -> Any:
    """What the loop interpreter gives, as a Tensor."""
    return Tensor._fl_from_array(value, dtypes.from_numpy(value.dtype)) if isinstance(value, np.ndarray) else value


# -- generated code


def start_compiler(program: Program, facts: Facts) -> Executable:
    """Generated C++ that is being compiled (`wait_for_compiler` ends it); the loop interpreter where the machine has no (working)
    compiler or the code generator lacks a type."""
    if toolchain.compiler() is None:
        counters.add("fallbacks", "no C++ compiler")
        compile_log.current().note(f"{program.name} is run by the loop interpreter: no C++ compiler was found")
        tell_slow("missing", "no C++ compiler was found (CXX, g++, clang++, c++): install g++")
        return interpret_loops(program)
    try:
        return AsyncCompile(program)
    except Unsupported as lack:
        counters.add("fallbacks", f"kernel: {lack.code}")
        compile_log.current().note(f"{program.name} is run by the loop interpreter: {lack}")
        return interpret_loops(program)


def wait_for_compiler(run: Executable) -> Executable:
    """The executable, when the C++ compiler has made it or failed at it."""
    if isinstance(run, OutputAssembler):
        run.run = run.run and wait_for_compiler(run.run)
    if not isinstance(run, AsyncCompile):
        return run
    try:
        compiled = run.finish()
    except toolchain.CompilerError as failure:
        if config.strict:
            raise
        counters.add("fallbacks", "C++ compiler failed")
        compile_log.current().note(f"{run.program.name} is run by the loop interpreter: {failure}")
        tell_slow("failed", str(failure))
        return interpret_loops(run.program)
    dump.native(run.program.name, compiled.source, run.program)
    return compiled


_told: set[str] = set()


def tell_slow(kind: str, reason: str) -> None:
    """Once a process and kind: results are right, but slower than eager's."""
    if kind not in _told:
        _told.add(kind)
        warnings.warn(
            f"compiled functions run in flambeau's loop interpreter, slower than eager: {reason}", RuntimeWarning, stacklevel=3
        )


INTERPRETED = Target("interpreted", interpreted, phases=())
LOOPS = Target("loops", interpret_loops)
CPP = Target("C++", start_compiler)


def stages_until(target: Target) -> dict[str, Target]:
    """The targets by stage, up to this one."""
    found = {"decomposed": INTERPRETED, "loops": LOOPS}
    return found if target in found.values() else found | {"compiled": target}
