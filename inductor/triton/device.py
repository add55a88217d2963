"""A loop program on a GPU: memory for a call's results, addresses, and one launch of all kernels.

In: a `Program`, and a `GpuDevice` (a GPU's driver, its stream, how tensors are made there). Out: `DeviceGraph`, called with
inputs, seed and first random ordinal as every executable. Kernels are compiled at the first call of each set of sizes, for the
place's chip; where one asks for more shared memory than the chip has, it is compiled again with smaller blocks. Checks that a
kernel found failing are told at the end of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...capture.shapes.expr import Expr, ExprLike, evaluate
from ...eager import dtypes
from ...eager.frontend import creation
from ...eager.state import recording
from ...eager.tensor import Tensor
from ...runtime import counters
from ...runtime.errors import BackendError, CheckFailed, InternalError
from ..loops.body import Buffer
from ..loops.interpreter import argument, call_eagerly
from ..loops.ir import Program, Symbol, View, buffers_written
from ..schedule.memory_planning import overwritten
from . import aot, fallbacks
from .codegen import generate

KEPT = 32  # sets of sizes whose launches are kept
ALIGNED = 16  # bytes: kernels are told that arrays begin at a multiple, and load several elements at once


class GpuDevice:
    """One GPU. `replay`: whether launches are recorded as CUDA graphs; `tunes`: whether blocks of kernels are measured."""

    tunes = False

    def __init__(self, device: Any, replay: bool = False, tunes: bool = False):
        from . import launch

        self.device, self.replay, self.tunes = device, replay, tunes
        self.driver = launch.driver(device.index or 0)
        self.chip, self.most_shared = chip_of(self.driver.capability), self.driver.most_shared

    def prepare(self, binaries: list) -> Callable:
        from . import launch

        return (launch.CudaGraphLaunches if self.replay else launch.PreparedLaunches)(self.driver, binaries)

    def stream(self) -> int:
        from ...eager import cuda

        return cuda.current_stream(self.device).cuda_stream

    def empty(self, elements: int, dtype: Any) -> Tensor:
        return creation.empty((elements,), dtype=dtype, device=self.device)

    def zeros(self, elements: int, dtype: Any) -> Tensor:
        return creation.zeros((elements,), dtype=dtype, device=self.device)


def chip_of(capability: int) -> int:
    """The chip that kernels are compiled for: code for 8.0 runs on all of 8, what is for 9.0 runs there alone."""
    found = {8: 80, 9: 90}.get(capability // 10)
    if found is None or capability < found:
        known = ", ".join(f"sm_{c}" for c in aot.CAPABILITIES)
        raise BackendError(f"this GPU is sm_{capability}: kernels are generated for {known}", "run eagerly, or on another GPU")
    return found


class DeviceGraph:
    """A compiled graph whose kernels a GPU runs."""

    def __init__(self, program: Program, place: GpuDevice):
        self.program, self.place = program, place
        self.generated = generate(program)
        self.source = self.generated.text
        self.overwrites = overwritten(program)
        self.prepared: dict[tuple, list[Callable | int]] = {}
        self.constants = {b.name: program.constants[b.name].to(place.device) for b in program.buffers if b.kind == "const"}
        self.own = [program.inputs.index(b) if isinstance(b, Buffer) and b in program.inputs else None for b in program.outputs]
        self.error = place.zeros(1, dtypes.int32) if program.checks else None
        self.tuned: dict[tuple, Any] = {}  # sizes -> autotune.Tuned
        counters.add("kernels", amount=len(self.generated.kernels))

    def __call__(self, inputs: Sequence[Any], seed: int = 0, base: int = 0) -> list[Any]:
        with recording(False):
            env = {s.name: symbol_value(s, inputs[s.input]) for s in self.program.symbols}
            scalars = {s.name: float(inputs[s.input]) for s in self.program.floats}
            scalars |= {"seed": signed(seed), "base": signed(base)}
            tensors = self.tensors(inputs, env)
            addresses = self.addresses(tensors, env)
            stream = self.place.stream()
            for part in self.ready(env, addresses, inputs, scalars):
                if isinstance(part, int):
                    self.run_eagerly(part, tensors, env, scalars)
                else:
                    part(addresses, stream, scalars)
            self.look()
            return [self.output(k, o, inputs, tensors, env) for k, o in zip(self.own, self.program.outputs)]

    # -- memory

    def tensors(self, inputs: Sequence[Any], env: Mapping[str, int]) -> dict[str, Tensor]:
        """What the call owns or was given, by the name of a buffer: inputs, constants, results, the arena, rows."""
        p, size = self.program, lambda e: size_of(e, env)
        found = dict(self.constants)
        for buffer, given in zip(p.inputs, inputs, strict=True):
            if isinstance(buffer, Buffer):
                self.check_input(buffer, given, env)
                found[buffer.name] = given
        if p.arena and size(p.arena_size):
            found[" arena"] = self.place.empty(size(p.arena_size), dtypes.uint8)
        for buffer in p.buffers:
            if buffer.name not in found and buffer.name not in p.arena:
                found[buffer.name] = self.place.empty(size(buffer.extent()), buffer.dtype)
        for name, (dtype, elements) in self.generated.rows.items():
            found[aot.row(name)] = self.place.empty(size(elements), dtype)
        if self.error is not None:
            found["error"] = self.error
        return found

    def addresses(self, tensors: Mapping[str, Tensor], env: Mapping[str, int]) -> dict[str, int]:
        return {name: t.data_ptr() for name, t in tensors.items()} | self.inside(tensors, env)

    def inside(self, tensors: Mapping[str, Tensor], env: Mapping[str, int]) -> dict[str, int]:
        """Addresses of what lies in the arena, or in an input whose memory may be used."""
        found = {}
        for name, start in self.program.arena.items():
            block = tensors.get(self.program.homes.get(name, " arena"))
            found[name] = 0 if block is None else block.data_ptr() + size_of(start, env)
        return found

    def check_input(self, buffer: Buffer, given: Tensor, env: Mapping[str, int]) -> None:
        """Its type, place and geometry must be those that the program was made for."""
        sizes, strides = (tuple(size_of(e, env) for e in es) for es in (buffer.sizes, buffer.strides))
        moved = any(n > 1 and s != t for n, s, t in zip(sizes, strides, given.stride()))
        if given.dtype is not buffer.dtype or tuple(given.shape) != sizes or moved or given.device != self.place.device:
            raise InternalError(
                f"{buffer.text()} was given {given.dtype}{list(given.shape)} with strides {given.stride()} on {given.device}"
            )

    def output(
        self, own: int | None, output: Any, inputs: Sequence[Any], tensors: Mapping[str, Tensor], env: Mapping[str, int]
    ) -> Any:
        if own is not None:
            return inputs[own]
        if not isinstance(output, Buffer):
            return size_of(output, env) if isinstance(output, Expr) else output
        sizes, strides = (tuple(size_of(e, env) for e in es) for es in (output.sizes, output.strides))
        return tensors[output.name].as_strided(sizes, strides, size_of(output.offset, env))

    # -- kernels

    def ready(
        self, env: Mapping[str, int], addresses: Mapping[str, int], inputs: Sequence[Any], scalars: Mapping[str, Any]
    ) -> list[Callable | int]:
        """The launches at these sizes and alignments, compiled at the first use, and numbers of the calls between them."""
        unaligned = frozenset(name for name, place in addresses.items() if place % ALIGNED)
        key = (*env.values(), unaligned)
        found = self.prepared.get(key)
        if found is None:
            configs = self.configs(env, inputs, scalars, unaligned) if self.place.tunes else {}
            binaries = aot.compile_program(
                self.program, self.place.chip, env, self.generated, self.place.most_shared, configs, unaligned
            )
            if len(self.prepared) >= KEPT:
                del self.prepared[next(iter(self.prepared))]
            found = self.prepared[key] = self.parts(binaries)
        return found

    def parts(self, binaries: list) -> list[Callable | int]:
        found: list[Callable | int] = []
        for before, number in self.generated.pauses:
            now = [b for b in binaries if b.launched.number < before]
            binaries = binaries[len(now) :]
            found += [self.place.prepare(now), number] if now else [number]
        return [*found, self.place.prepare(binaries)] if binaries else found

    def run_eagerly(self, number: int, tensors: Mapping[str, Tensor], env: Mapping[str, int], scalars: Mapping[str, Any]) -> None:
        """A call that has no kernel, on tensors over the buffers' memory."""
        kernel: Any = self.program.kernels[number]
        counters.add("fallbacks", f"triton: {fallbacks.call_text(kernel)}: {fallbacks.fallback_reason(kernel)}")
        region = lambda view: self.region(view, tensors, env)
        args = tuple(argument(a, region, env, scalars) for a in kernel.args)
        for buffer, value in zip(kernel.outputs, call_eagerly(kernel, args, scalars), strict=True):
            region(View(buffer, buffer.sizes, buffer.strides, buffer.offset)).copy_(value)

    def region(self, view: View, tensors: Mapping[str, Tensor], env: Mapping[str, int]) -> Tensor:
        """A tensor over a part of a buffer, which may lie in the arena or in an input whose memory may be used."""
        sizes, strides = (tuple(size_of(e, env) for e in es) for es in (view.sizes, view.strides))
        name, dtype = view.buffer.name, view.buffer.dtype
        if 0 in sizes:
            return self.place.empty(0, dtype).reshape(sizes)
        held = tensors.get(name)
        if held is None:
            block, start = tensors[self.program.homes.get(name, " arena")], size_of(self.program.arena[name], env)
            flat = block.as_strided((span(block),), (1,), block.storage_offset()).view(dtypes.uint8)
            held = flat[start : start + size_of(view.buffer.extent(), env) * dtype.itemsize].view(dtype)
        return held.as_strided(sizes, strides, held.storage_offset() + size_of(view.offset, env))

    def configs(
        self, env: Mapping[str, int], inputs: Sequence[Any], scalars: Mapping[str, Any], unaligned: frozenset
    ) -> dict[int, dict]:
        """Blocks of launches as the device likes them: measured on copies of the inputs that the program writes to."""
        from . import autotune

        def memory() -> tuple:
            used = {b.name for kernel in self.program.kernels for b in buffers_written(kernel)} | set(self.program.homes.values())
            given = zip(self.program.inputs, inputs)
            tensors = self.tensors([self.copied(x) if isinstance(b, Buffer) and b.name in used else x for b, x in given], env)
            if self.error is not None:
                tensors["error"] = self.place.zeros(1, dtypes.int32)
            return self.addresses(tensors, env), scalars, lambda k: self.run_eagerly(k, tensors, env, scalars)

        found = self.tuned[tuple(env.items())] = autotune.tune_program(
            self.program, self.generated, self.place, env, memory, unaligned
        )
        return found.configs

    def copied(self, x: Tensor) -> Tensor:
        """The same numbers, sizes and strides in memory of its own."""
        return self.place.empty(span(x), x.dtype).as_strided(x.shape, x.stride()).copy_(x)

    def look(self) -> None:
        """Raise for the first check that failed."""
        if self.error is not None and (failed := int(self.error.item())):
            self.error.zero_()
            raise CheckFailed(self.program.checks[failed - 1].text)


def span(x: Tensor) -> int:
    """The elements from the first to the last."""
    return 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride())) if x.numel() else 0


def size_of(e: ExprLike, env: Mapping[str, int]) -> int:
    return e if type(e) is int else int(evaluate(e, env))


def signed(n: int) -> int:
    """An unsigned number of 64 bits as kernels take it."""
    return (n + 2**63) % 2**64 - 2**63


def symbol_value(symbol: Symbol, given: Any) -> int:
    if symbol.what == "value":
        return int(given)
    return given.shape[symbol.dim] if symbol.what == "size" else given.stride(symbol.dim)


__all__ = ["DeviceGraph", "GpuDevice", "chip_of"]
