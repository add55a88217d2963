"""A loop program run by Triton's interpreter, on host memory: what checks generated kernels where there is no GPU.

In: a `Program`. Out: `InterpretedGraph`, called with inputs, seed and first random ordinal as every executable. Blocks are made
larger than a GPU likes them, as the interpreter pays by the block, unless `large` is False.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...eager.state import recording
from ...eager.tensor import Tensor
from ...runtime import counters
from ...runtime.config import config
from ...runtime.errors import CheckFailed
from ..loops.body import Buffer
from ..loops.interpreter import Machine, garbage
from ..loops.ir import Program
from ..schedule.memory_planning import overwritten
from . import fallbacks, triton_api
from .codegen import TritonSource, generate
from .triton_text import held_type

LARGE = 1 << 15  # elements of a block that costs the interpreter little more than a small one
GROW = ("XBLOCK",)


class InterpretedGraph:
    """A compiled graph whose kernels triton's interpreter runs."""

    def __init__(self, program: Program, large: bool = True):
        self.program, self.large = program, large
        self.generated = generate(program)
        self.source = self.generated.text
        self.overwrites = overwritten(program)
        counters.add("kernels", amount=len(self.generated.kernels))
        self.namespace = triton_api.load(self.source, interpreted=True)
        self.own = [program.inputs.index(b) if isinstance(b, Buffer) and b in program.inputs else None for b in program.outputs]

    def __call__(self, inputs: Sequence[Any], seed: int = 0, base: int = 0) -> list[Any]:
        machine = Machine(self.program, {"seed": seed, "base": base})
        with recording(False):
            machine.bind(inputs)
            launcher = Launcher(self.generated, machine, self.namespace, self.large)
            with triton_api.interpreting(launcher.arrays() if config.verify else ()) as found:
                launcher.run(found)
            values = [machine.output(o) for o in self.program.outputs]
        return [as_tensor(v, o) if k is None else inputs[k] for k, v, o in zip(self.own, values, self.program.outputs)]


def as_tensor(value: Any, output: Any) -> Any:
    return Tensor._fl_from_array(value, output.dtype) if isinstance(value, np.ndarray) else value


class Launcher:
    """What a file's `run` is given: `launch`, and `t`, whose attributes are arrays and numbers."""

    def __init__(self, generated: TritonSource, machine: Machine, namespace: dict, large: bool):
        self.generated, self.machine, self.namespace, self.large = generated, machine, namespace, large
        self.tl = importlib.import_module("triton.language")
        self.error_word = np.zeros(1, np.int32)
        self.memory = {generated.names[b.name]: (m, held_type(b.dtype)) for b, m in machine.memory.items()}
        self.memory |= {
            name: (garbage(machine.size(elements) * dtype.itemsize), held_type(dtype))
            for name, (dtype, elements) in generated.rows.items()
        }
        self.memory["error"] = self.error_word, "i32"
        self.sizes = {s.name: machine.env[s.name] for s in machine.program.symbols}

    def arrays(self) -> list[np.ndarray]:
        """All memory that kernels may touch."""
        return [array for array, _ in self.memory.values()]

    def run(self, found: Any) -> None:
        self.found = found
        self.namespace["run"](self.launch, self, **self.sizes)

    # -- `t`

    def __getattr__(self, name: str) -> Any:
        if name in self.memory:
            array, element = self.memory[name]
            return triton_api.address(self.found, self.tl, array.ctypes.data, element)
        if name in self.machine.scalars:
            value = self.machine.scalars[name]
            kind = "i64" if name in ("seed", "base") else "fp64"
            value = (value + 2**63) % 2**64 - 2**63 if kind == "i64" else value  # seeds are unsigned
            return triton_api.number(self.found, self.tl, value, kind)
        raise AttributeError(name)

    def eager(self, number: int) -> None:
        """A call of the program that eager runs."""
        kernel: Any = self.machine.program.kernels[number]
        counters.add("fallbacks", f"triton: {fallbacks.call_text(kernel)}: {fallbacks.fallback_reason(kernel)}")
        self.machine.run_eagerly(kernel)

    # -- `launch`

    def launch(self, kernel: Any, grid: Callable, *arguments: Any, **blocks: Any) -> None:
        names = list(kernel.arg_names)
        if self.large:
            blocks = self.larger(grid, blocks)
        shape = grid(blocks)
        blocks = {key: value for key, value in blocks.items() if key in names}
        if blocks.get("DOT") is self.tl.bfloat16:
            blocks["DOT"] = self.tl.float32  # the interpreter's products of bfloat16 are wrong
        given = dict(zip(names, (triton_api.plain_number(self.found, self.tl, a) for a in arguments))) | blocks
        if math.prod(shape):
            triton_api.run_grid(self.found, kernel, shape, given)
        failed = int(self.error_word[0])
        if failed:
            raise CheckFailed(self.machine.program.checks[failed - 1].text)

    def larger(self, grid: Callable, blocks: dict) -> dict:
        """The same launch with fewer, larger blocks."""
        tile = math.prod(v for k, v in blocks.items() if k.endswith("BLOCK") and isinstance(v, int))
        for name in GROW:
            while name in blocks and tile < LARGE and math.prod(grid(blocks)) > 1:
                blocks, tile = {**blocks, name: 2 * blocks[name]}, 2 * tile
        return blocks
