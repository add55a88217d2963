"""New values are written where old ones lie, instead of beside them: mutated inputs, and what a call alone still reads.

In: a scheduled program, and which output is the new value of which input. Out: the same program with those outputs'
buffers replaced by the inputs' own, as far as that is safe. The idea: behind the last kernel that can fail, a program may
write an input when every kernel that reads the old value runs before the write, or reads each element at the point that
writes it. A cache is then never copied, nor is a parameter at the end of a whole training step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...capture.shapes.expr import int_if_const, product
from ...runtime.kernel_calls import RuntimeCall
from ..loops.body import Buffer, Rewriter, Value
from ..loops.ir import (
    ExternCall,
    GemmKernel,
    Kernel,
    LoopKernel,
    Program,
    ScatterKernel,
    Step,
    Store,
    View,
    fallible,
    buffers_read,
    buffers_written,
)
from .memory_planning import buffer_of, call_can_reuse_memory, can_reuse_memory


def write_inputs(program: Program, pairs: Sequence[tuple[int, int]]) -> Program:
    """`pairs`: (number of the input, number of the output that is its new value)."""
    if not pairs:
        return program
    uses = Uses(program)
    chosen = [(program.inputs[i], program.outputs[o]) for i, o in pairs]
    both = [(old, new) for old, new in chosen if isinstance(old, Buffer) and isinstance(new, Buffer)]
    return substitute_buffers(program, {new: old for old, new in both if may_overwrite(uses, old, new)})


def write_temps(program: Program) -> Program:
    """Temps that a call of the runtime's may overwrite with an output, and that nothing reads later, are that output's
    memory from the start: what a recurrent layer keeps for its backward lies where its products were. What a scatter begins
    with is made where its result lies, rather than copied there; and what is only copied, since it has other sizes outside, is
    made where the copy lies."""
    places = [(kernel, pair) for kernel in program.kernels for pair in overwritable_pairs(kernel)]
    if not places:
        return program
    uses, chosen, copies = Uses(program), {}, set()
    for kernel, (new, old) in places:
        if old not in chosen and new not in chosen.values() and may_lie_in(uses, old, new, as_copy(kernel) is not None):
            chosen[old] = new
            if as_copy(kernel):
                copies.add(kernel.name)
    changed = substitute_buffers(program, {old: final_buffer(chosen, new) for old, new in chosen.items()})
    return changed.with_kernels([k for k in changed.kernels if k.name not in copies]) if copies else changed


def as_copy(kernel: Kernel) -> tuple[Buffer, Buffer] | None:
    """(the copy, what is copied) of a kernel that does nothing but copy all of one buffer to the same places of another."""
    if not isinstance(kernel, LoopKernel) or kernel.locals or len(kernel.steps) != 1:
        return None
    (step,) = kernel.steps
    if len(step.stores) != 1 or step.reduces or step.looks or step.stores[0].mode != "set" or step.stores[0].value.op != "load":
        return None
    new, load = step.stores[0].buffer, step.stores[0].value.attrs
    old, points = load.buffer, product(a.extent for a in (*kernel.outer, *step.axes))
    whole = all(int_if_const(n) == int_if_const(points) for n in (old.numel(), old.extent(), new.numel(), new.extent()))
    return (new, old) if whole and not load.masked and old != new and old.dtype == new.dtype else None


def final_buffer(chosen: dict[Buffer, Buffer], buffer: Buffer) -> Buffer:
    """Where a buffer that lies in another, which may lie in a third one, finally lies."""
    while buffer in chosen:
        buffer = chosen[buffer]
    return buffer


def overwritable_pairs(kernel: Kernel) -> Iterator[tuple[Buffer, Buffer]]:
    """(new, old) where a kernel may write the one over the other."""
    if isinstance(kernel, ScatterKernel) and kernel.init is not None and kernel.init != kernel.target:
        yield kernel.target, kernel.init
    if (pair := as_copy(kernel)) is not None:
        yield pair
    if (job := only_job(kernel)) is not None:
        for out, at in job.same:
            new, old = (job.arrays[k] for k in (out, at))
            if new is not None and old is not None:
                yield buffer_of(new), buffer_of(old)


def only_job(kernel: Kernel) -> RuntimeCall | None:
    """The job that a call is, if it is one."""
    calls = kernel.calls if isinstance(kernel, ExternCall) else None
    return calls[0] if calls is not None and len(calls) == 1 and isinstance(calls[0], RuntimeCall) else None


def may_lie_in(uses: Uses, old: Buffer, new: Buffer, reshaped: bool) -> bool:
    """Whether a temp may lie in an output, or in a later temp, from its first write to the kernel that fills that one;
    `reshaped`: which may have other sizes."""
    writers, makers, readers = uses.writers.get(new, ()), uses.writers.get(old, ()), uses.readers.get(new, ())
    if old.kind != "temp" or new.kind not in ("temp", "output") or len(writers) != 1 or not makers:
        return False
    if not reshaped and not same_geometry(old, new):
        return False
    (at,) = writers
    if max(makers) >= at or max(uses.readers[old]) > at or any(k <= at for k in readers):
        return False
    return can_reuse_memory(uses.kernels[at], old, new)


class Uses:
    """Which kernels read and write a buffer, and how often each is an output."""

    def __init__(self, program: Program):
        self.kernels = program.kernels
        self.last_check = max((k for k, kernel in enumerate(program.kernels) if can_fail(kernel)), default=-1)
        self.readers: dict[Buffer, list[int]] = {}
        self.writers: dict[Buffer, list[int]] = {}
        for k, kernel in enumerate(program.kernels):
            for buffer in buffers_read(kernel):
                self.readers.setdefault(buffer, []).append(k)
            for buffer in buffers_written(kernel):
                self.writers.setdefault(buffer, []).append(k)
        self.outputs = Counter(b for b in program.outputs if isinstance(b, Buffer))


def can_fail(kernel: Kernel) -> bool:
    """Whether the call may have to be discarded at this kernel: a check, or eager's own errors."""
    return kernel.calls is None if isinstance(kernel, ExternCall) else bool(fallible(kernel))


def may_overwrite(uses: Uses, old: Buffer, new: Buffer) -> bool:
    if new.kind != "output" or not same_geometry(old, new):
        return False
    if uses.outputs[new] != 1 or uses.outputs[old] or uses.writers.get(old) or len(uses.writers.get(new, ())) != 1:
        return False
    (at,), readers = uses.writers[new], uses.readers.get(old, ())
    if at <= uses.last_check or any(k > at for k in readers):
        return False
    kernel = uses.kernels[at]
    if isinstance(kernel, ExternCall):
        return kernel.calls is not None and call_can_reuse_memory(kernel.calls, old, new)
    return at not in readers or can_reuse_memory(kernel, old, new)


def same_geometry(a: Buffer, b: Buffer) -> bool:
    return (a.dtype, a.sizes, a.strides, a.offset) == (b.dtype, b.sizes, b.strides, b.offset)


def substitute_buffers(program: Program, olds: dict[Buffer, Buffer]) -> Program:
    """Every use of a new value's buffer is one of the old value's."""
    if not olds:
        return program

    def swap(b: Any) -> Any:
        old = olds.get(b) if isinstance(b, Buffer) else None
        return b if old is None else replace(b, name=old.name, kind=old.kind, origin=old.origin)

    touched = lambda k: any(b in olds for b in (*buffers_read(k), *buffers_written(k)))
    changed = [_kernel(k, swap) if touched(k) else k for k in program.kernels]
    return replace(
        program,
        outputs=tuple(olds.get(b, b) if isinstance(b, Buffer) else b for b in program.outputs),
        buffers=tuple(b for b in program.buffers if b not in olds),
    ).with_kernels(changed)


def _kernel(kernel: Kernel, swap: Callable[[Any], Any]) -> Kernel:
    if isinstance(kernel, LoopKernel):
        return replace(kernel, steps=tuple(_step(s, swap) for s in kernel.steps))
    if isinstance(kernel, GemmKernel):
        return replace(
            kernel,
            a=replace(kernel.a, buffer=swap(kernel.a.buffer)),
            b=replace(kernel.b, buffer=swap(kernel.b.buffer)),
            epilogue=_step(kernel.epilogue, swap),
        )
    if isinstance(kernel, ScatterKernel):
        (store,) = _step(kernel.step, swap).stores
        return replace(kernel, init=swap(kernel.init), store=store)
    calls = None if kernel.calls is None else tuple(replace(c, **_args(vars(c), swap)) for c in kernel.calls)
    return replace(kernel, args=_args(kernel.args, swap), outputs=tuple(map(swap, kernel.outputs)), calls=calls)


def _step(step: Step, swap: Callable[[Any], Any]) -> Step:
    def leaf(value: Value) -> Value | None:
        if value.op != "load" or swap(value.attrs.buffer) is value.attrs.buffer:
            return None
        load = value.attrs
        return value.body.load(swap(load.buffer), load.index, value.args[0] if load.masked else None, load.other)

    roots = step.roots()
    if not roots:
        return step
    rewrite = Rewriter(roots[0].body, {}, leaf)
    values = {v.id: rewrite(v) for v in roots}
    stores = tuple(Store(swap(s.buffer), tuple(map(rewrite.expr, s.index)), values[s.value.id], s.mode) for s in step.stores)
    reduces = tuple(replace(r, values=tuple(values[v.id] for v in r.values)) for r in step.reduces)
    return replace(step, stores=stores, reduces=reduces, looks=tuple(values[v.id] for v in step.looks))


def _args(value: Any, swap: Callable[[Any], Any]) -> Any:
    if isinstance(value, Buffer):
        return swap(value)
    if isinstance(value, View):
        return replace(value, buffer=swap(value.buffer))
    if isinstance(value, dict):
        return {name: _args(v, swap) for name, v in value.items()}
    return type(value)(_args(v, swap) for v in value) if isinstance(value, (tuple, list)) else value
