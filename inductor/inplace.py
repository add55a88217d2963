"""New values of mutated inputs are written where the inputs lie, instead of beside them.

In: a scheduled program, and which output is the new value of which input. Out: the same program with those outputs'
buffers replaced by the inputs' own, as far as that is safe. The idea: a program that cannot fail may write an input
when every kernel that reads the old value runs before the write, or reads each element at the point that writes it. A
cache is then never copied.
"""

from __future__ import annotations

from dataclasses import replace
from collections.abc import Sequence

from .body import Buffer, Rewriter, Value
from .loops import ExternCall, GemmKernel, Kernel, LoopKernel, Program, ScatterKernel, Step, Store, View, reads, writes
from .memory import in_place


def write_inputs(program: Program, pairs: Sequence[tuple[int, int]]) -> Program:
    """`pairs`: (number of the input, number of the output that is its new value)."""
    for at_input, at_output in pairs if not program.checks else ():
        old, new = program.inputs[at_input], program.outputs[at_output]
        if may_overwrite(program, old, new):
            program = substituted(program, new, old)
    return program


def may_overwrite(program: Program, old: Buffer | str, new) -> bool:
    if not (isinstance(old, Buffer) and isinstance(new, Buffer) and new.kind == "output" and same_geometry(old, new)):
        return False
    if [b for b in program.outputs if isinstance(b, Buffer)].count(new) != 1 or old in program.outputs:
        return False
    kernels = program.kernels
    writing = [k for k, kernel in enumerate(kernels) if new in writes(kernel)]
    if len(writing) != 1 or isinstance(kernels[writing[0]], ExternCall):
        return False
    at = writing[0]
    if any(old in reads(kernel) or old in writes(kernel) for kernel in kernels[at + 1 :]) or any(
        old in writes(k) for k in kernels
    ):
        return False
    return old not in reads(kernels[at]) or in_place(kernels[at], old, new)


def same_geometry(a: Buffer, b: Buffer) -> bool:
    return (a.dtype, a.sizes, a.strides, a.offset) == (b.dtype, b.sizes, b.strides, b.offset)


def substituted(program: Program, new: Buffer, old: Buffer) -> Program:
    """Every use of `new` is one of `old`."""
    swap = lambda b: (
        replace(b, name=old.name, kind=old.kind, origin=old.origin) if isinstance(b, Buffer) and b == new else b
    )
    changed = [_kernel(k, swap) if new in reads(k) or new in writes(k) else k for k in program.kernels]
    return replace(
        program,
        outputs=tuple(old if b is new or (isinstance(b, Buffer) and b == new) else b for b in program.outputs),
        buffers=tuple(b for b in program.buffers if b != new),
    ).with_kernels(changed)


def _kernel(kernel: Kernel, swap) -> Kernel:
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


def _step(step: Step, swap) -> Step:
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
    stores = tuple(
        Store(swap(s.buffer), tuple(map(rewrite.expr, s.index)), values[s.value.id], s.mode) for s in step.stores
    )
    reduces = tuple(replace(r, values=tuple(values[v.id] for v in r.values)) for r in step.reduces)
    return replace(step, stores=stores, reduces=reduces)


def _args(value, swap):
    if isinstance(value, View):
        return replace(value, buffer=swap(value.buffer))
    if isinstance(value, dict):
        return {name: _args(v, swap) for name, v in value.items()}
    return type(value)(_args(v, swap) for v in value) if isinstance(value, (tuple, list)) else value
