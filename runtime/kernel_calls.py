"""Calls of the runtime's kernels as data: what compiled code prints for an op that has no loop.

In: what a record's `calls` rule says of memory regions whose sizes and strides are ints or symbolic expressions. Out:
a `ConvCall` or a `RuntimeCall`, which a code generator turns into a filled struct of `csrc/abi.h` and a call through the table.
A region has `shape`, `strides` (in elements) and `dtype`.
"""

from __future__ import annotations

from typing import Any

from .dataclass import data
from . import _native, kernels

TYPES = {dtype.name: number for dtype, number in kernels.TYPES.items()}
NUMBERS = _native.jobs()
PLAIN, TRANSPOSED, WEIGHT = "FB_CONV_PLAIN", "FB_CONV_TRANSPOSED", "FB_CONV_WEIGHT"


@data(eq=False)
class ConvCall:
    """A convolution of x (N, C, *sizes) with the row-major `weight`, or (form WEIGHT) the gradient of that weight, which
    is written then, while `out` (row-major) is read. `bias` is a region or None. `tiles`: the kernel can hand out
    finished tiles to what follows."""

    form: str
    x: Any
    weight: Any
    bias: Any
    out: Any
    stride: tuple
    padding: tuple
    dilation: tuple
    groups: int
    tiles: bool = False


@data(eq=False)
class RuntimeCall:
    """A threaded kernel by name: `units` of about `work` elements each. Arrays are regions or None; numbers are ints or
    expressions, reals floats or symbolic floats. `same`: pairs (position of a result, of an operand) of arrays that may be
    one memory, because each element is read where it is written, and by nothing else. `alone`: it shares itself out among
    threads, so that no other runs beside it. Other targets may have a kernel of this name, too; `native`: whether the runtime
    has it for this type. `flops`: what its products multiply and add; None: it has no products, and nobody counts the rest."""

    name: str
    type: int
    units: Any
    work: Any
    arrays: tuple
    numbers: tuple = ()
    reals: tuple = ()
    same: tuple = ()
    alone: bool = False
    native: bool = True
    flops: Any = None


@data(eq=False)
class NumberTable:
    """Numbers known when code is made, as an array among those of a `RuntimeCall`: whole numbers of 64 bits, or of the type in
    which `dtype` computes."""

    numbers: tuple
    dtype: Any = None


def is_native(calls: tuple) -> bool:
    """Whether the runtime itself has all of these kernels."""
    return all(isinstance(call, ConvCall) or call.native for call in calls)


def along_last(c: Any, region: Any) -> Any:
    """The region with elements of its last dim next to each other, copied if need be."""
    return region if region is None or region.strides[-1] == 1 or region.shape[-1] == 1 else c.rows(region)


def is_rows(*regions) -> bool:
    """Whether all regions lie row-major."""
    for x in regions:
        step = 1
        for n, stride in zip(reversed(x.shape), reversed(x.strides)):
            if n != 1 and stride != step:
                return False
            step = step * n
    return True


def product(sizes):
    n = 1
    for each in sizes:
        n = n * each
    return n


def rows_of(c, *regions):
    return [None if x is None else c.rows(x) for x in regions]
