"""Calls of runtime kernels that do not depend on each other are made at once.

In: a program whose optimizer steps are one call a parameter. Out: neighbouring calls as one, each of whose rounds is one
parallel run over all of them: a hundred small parameters keep all threads busy and start them once.
"""

from __future__ import annotations

from typing import TypeGuard

from ...runtime.kernel_calls import RuntimeCall
from ..loops.ir import ExternCall, Kernel, Program, buffers_read, buffers_written


def combine_calls(program: Program) -> Program:
    made: list[Kernel] = []
    group: list[ExternCall] = []
    touched: set = set()
    written: set = set()
    for kernel in (*program.kernels, None):
        if kernel is not None and is_elementwise_call(kernel):
            mine, stores = (
                {b.name for b in (*buffers_read(kernel), *buffers_written(kernel))},
                {b.name for b in buffers_written(kernel)},
            )
            if group and (mine & written or stores & touched or len(kernel.calls or ()) != len(group[0].calls or ())):
                made.append(merge_calls(group))
                group, touched, written = [], set(), set()
            group.append(kernel)
            touched |= mine
            written |= stores
            continue
        if group:
            made.append(merge_calls(group))
            group, touched, written = [], set(), set()
        if kernel is not None:
            made.append(kernel)
    return program if len(made) == len(program.kernels) else program.with_kernels(made)


def is_elementwise_call(kernel: Kernel) -> TypeGuard[ExternCall]:
    """Is this a call of jobs that write each element by itself?"""
    return (
        isinstance(kernel, ExternCall)
        and bool(kernel.calls)
        and all(isinstance(c, RuntimeCall) and c.same and not c.alone for c in kernel.calls)
    )


def merge_calls(group: list[ExternCall]) -> ExternCall:
    """One call whose calls go by rounds: the first of each member, then the second of each."""
    first = group[0]
    if len(group) == 1:
        return first
    rounds = tuple(call for turn in zip(*(member.calls or () for member in group)) for call in turn)
    return ExternCall(
        first.name,
        first.op,
        tuple(m.args for m in group),
        tuple(b for m in group for b in m.outputs),
        None,
        tuple(dict.fromkeys(o for m in group for o in m.origins)),
        (*first.notes, f"{len(group)} calls at once"),
        rounds,
        tuple(group),
    )
