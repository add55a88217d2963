"""Calls of the runtime's kernels as lines of the entry point: one filled struct of abi.h and one call each.

In: an `ExternCall` with `calls`. Out: lines, and an estimate of the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...capture.expr import ExprLike, product
from ...runtime.calls import NUMBERS, TYPES, Conv, Job
from ..loops import View
from .text import cpp, factor

Pointer = Callable[[View], str]


def call_lines(call: Any, pointer: Pointer) -> list[str]:
    return LINES[type(call)](call, pointer)


def call_work(call: Any) -> str:
    """In units of four simple operations."""
    return WORK[type(call)](call)


# -- convolutions


def conv_lines(call: Conv, pointer: Pointer) -> list[str]:
    kernel = call.weight.sizes[2:]
    return [
        "FbConv c = {};",
        f"c.x = {pointer(call.x)};",
        f"c.w = {pointer(call.weight)};",
        f"c.bias = {pointer(call.bias) if call.bias is not None else 'nullptr'};",
        f"c.out = {pointer(call.out)};",
        *geometry_lines(call),
        *three("kernel", kernel),
        "rt->conv(&c);",
    ]


def geometry_lines(call: Conv) -> list[str]:
    """Everything but pointers and the kernel's sizes."""
    x, out = call.x, call.out
    return [
        f"c.type = {TYPES[x.dtype.name]}, c.form = {call.form};",
        f"c.batch = {cpp(x.sizes[0])}, c.groups = {call.groups}, c.channels = {cpp(x.sizes[1])}, c.made = {cpp(out.sizes[1])};",
        f"c.x_n = {cpp(x.strides[0])}, c.x_c = {cpp(x.strides[1])};",
        f"c.out_n = {cpp(out.strides[0])}, c.out_c = {cpp(out.strides[1])};",
        *three("in", x.sizes[2:]),
        *three("x_s", x.strides[2:], 0),
        *three("windows", out.sizes[2:]),
        *three("out_s", out.strides[2:], 0),
        *three("step", call.stride),
        *three("before", call.padding, 0),
        *three("spread", call.dilation),
    ]


def three(name: str, values: tuple, missing: int = 1) -> list[str]:
    """Numbers per dim; dims that are not there come first."""
    values = (missing,) * (3 - len(values)) + tuple(values)
    return [", ".join(f"c.{name}[{d}] = {cpp(v)}" for d, v in enumerate(values)) + ";"]


def conv_work(call: Conv) -> str:
    each = product(call.weight.sizes[1:])
    return f"{factor(product(call.out.sizes))} * {factor(each)} / 8 + 1"


# -- jobs


def job_lines(call: Job, pointer: Pointer) -> list[str]:
    arrays = [pointer(a) if a is not None else "nullptr" for a in call.arrays]
    return [
        f"void* const arrays[] = {{{', '.join(arrays)}}};",
        f"const i64 numbers[] = {{{', '.join([*map(number, call.numbers), '0'])}}};",
        f"const double reals[] = {{{', '.join([*map(real, call.reals), '0'])}}};",
        f"FbJobCall c = {{{NUMBERS[call.name]} /* {call.name} */, {cpp(call.units)}, {cpp(call.work)}, {call.type}, "
        f"{len(arrays)}, {len(call.numbers)}, {len(call.reals)}, arrays, numbers, reals}};",
        "rt->job(&c);",
    ]


def number(n: ExprLike) -> str:
    return cpp(int(n)) if isinstance(n, bool) else cpp(n)


def real(x: float) -> str:
    if x != x:
        return '__builtin_nan("")'
    return f"{'-' if x < 0 else ''}__builtin_inf()" if x in (float("inf"), float("-inf")) else repr(float(x))


def job_work(call: Job) -> str:
    return f"{factor(call.units)} * {factor(call.work)} / 4 + 1"


LINES = {Conv: conv_lines, Job: job_lines}
WORK = {Conv: conv_work, Job: job_work}
