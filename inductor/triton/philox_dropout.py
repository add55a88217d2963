"""Masks of dropout drawn where attention uses them: they never lie in memory.

In: a scheduled program. Out: the same, without the kernels that only draw such a mask; the calls that read it hold a `PhiloxDraw`
in the mask's place, whose value their kernels compute for each block of weights, forward and backward from the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...capture.shapes.expr import int_if_const
from ..loops.body import Buffer
from ..loops.ir import Axis, ExternCall, LoopKernel, Program, Step, View, leaves, buffers_read, buffers_written
from .attention import has_template, mask_place


@dataclass(frozen=True)
class PhiloxDraw:
    """A value at every weight. `step` computes it; its `axes`, in row-major order, run over all weights."""

    step: Step
    axes: tuple[Axis, ...]


def draw_inside(program: Program) -> Program:
    readers: dict[Buffer, list] = {}
    for kernel in program.kernels:
        for buffer in buffers_read(kernel):
            readers.setdefault(buffer, []).append(kernel)
    returned = {b for b in program.outputs if isinstance(b, Buffer)}
    found = {}
    for kernel in program.kernels:
        made, written = as_philox_draw(kernel), buffers_written(kernel)
        if made is not None and written[0] not in returned and all(map(is_mask(written[0]), readers.get(written[0], ()))):
            found[written[0]] = made
    if not found:
        return program
    kept = [k for k in program.kernels if not (isinstance(k, LoopKernel) and found.keys() & set(buffers_written(k)))]
    return program.with_kernels([with_drawn(k, found) for k in kept])


def as_philox_draw(kernel: Any) -> PhiloxDraw | None:
    """What a kernel draws, if it reads nothing and writes one value at every point."""
    if not isinstance(kernel, LoopKernel) or len(kernel.steps) != 1 or buffers_read(kernel) or len(kernel.stores()) != 1:
        return None
    (step,) = kernel.steps
    (store,) = step.stores
    axes, flat = (*kernel.outer, *step.axes), 0
    for axis in axes:
        flat = flat * axis.extent + axis.var
    in_order = int_if_const(store.buffer.linear(store.index) - flat) == 0 and store.mode == "set"
    simple = in_order and not step.reduces and not step.index_values()
    return PhiloxDraw(step, axes) if simple and any(v.op == "philox" for v in step.values()) else None


def is_mask(buffer: Buffer) -> Any:
    """Whether a kernel reads a buffer as a mask of dropout only."""

    def answer(kernel: Any) -> bool:
        if not isinstance(kernel, ExternCall) or not kernel.calls or not has_template(kernel.calls[0]):
            return False
        (call,) = kernel.calls
        at = mask_place(call)
        others = [a for k, a in enumerate(call.arrays) if k != at]
        keep = call.arrays[at]
        return keep is not None and keep.buffer == buffer and all(a is None or a.buffer != buffer for a in others)

    return answer


def with_drawn(kernel: Any, found: dict[Buffer, PhiloxDraw]) -> Any:
    views = [v for v in leaves(kernel.args, View) if v.buffer in found] if isinstance(kernel, ExternCall) else []
    if not views:
        return kernel
    call = kernel.call
    at = mask_place(call)
    arrays = (*call.arrays[:at], found[call.arrays[at].buffer], *call.arrays[at + 1 :])
    args = tuple(None if isinstance(a, View) and a.buffer in found else a for a in kernel.args)
    return replace(kernel, args=args, calls=(replace(call, arrays=arrays),))
