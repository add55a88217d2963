"""Kernels on a GPU: what a record means, run on cupy arrays, by its kind.

In: a pure record, canonical arguments, and its outputs as tensors that have sizes only. Out: one array per output, in the
type in which kernels hold it. A record with an explicit loop runs that loop over index grids; some have a kernel of their
own (`special_kernels.py`), externs and a few others the copy of their numpy kernel (`numpy_ports.py`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..op.loop_rules import Draw, argument, cast_results, computation, finish, operands
from ..op.meta import broadcast_shapes, cached_computation, tensors_of
from ..random import draw
from ..sizes import is_number
from ..tensor import Tensor
from . import narrow_floats
from .arrays import array_of, loaded
from .find_cupy import cupy
from .numpy_ports import ported
from .prims import CUPY, accumulate, combine
from .array_module import XP, is_array


def run(op, args, outs) -> tuple:
    """The values of the outputs; None if there is no kernel."""
    from . import special_kernels

    kernel = special_kernels.KERNELS.get(op.name)
    found = kernel(op, args, outs) if kernel is not None else NotImplemented
    if found is NotImplemented:
        found = _BY_KIND[op.kind.name](op, args, outs)
    return found if isinstance(found, tuple) else (found,)


def number(a):
    return a.item() if isinstance(a, np.generic) else a


# -- Map


def operand_arrays(op, args, compute) -> list:
    """Arrays in the computation type; numbers stay weak."""
    kind = None if compute is None else narrow_floats.kernel_type(compute)
    found = []
    for p, a in zip(op.params, args):
        kept = kind is None or not p.promotes
        if isinstance(a, Tensor):
            found.append(loaded(a) if kept else converted(loaded(a), kind))
        elif p.role == "tensors" and a is not None:
            found.append(tuple(loaded(x) if kept else converted(loaded(x), kind) for x in a))
        else:
            found.append(number(a))
    return found


def converted(x, kind):
    return x.astype(kind, copy=False) if is_array(x) else kind.type(x)


def run_map(op, args, outs):
    if op.explicit_loop or op.meta_rule is not None:
        return run_loop(op, args, outs)
    compute, types = cached_computation(op, args)
    arrays = operand_arrays(op, args, compute)
    if not tensors_of(op, args):
        arrays = [CUPY.const(a, compute or types[0]) if p.is_tensor and is_number(a) else a for p, a in zip(op.params, arrays)]
    return op.fn(CUPY, *arrays)


# -- explicit loops over index grids


class GridLoader:
    """A tensor as a loader: broadcastable index arrays in, values out."""

    def __init__(self, t: Tensor):
        self.array, self.shape, self.dtype = loaded(t), tuple(t._fl_sizes), t._fl_dtype

    def __call__(self, *index, mask=None, other=0):
        if mask is None:
            return self.array[tuple(index)]
        mask = XP.asarray(mask)
        other = self.array.dtype.type(other)
        if not self.array.size:
            shape = np.broadcast_shapes(mask.shape, *[np.shape(i) if not is_array(i) else i.shape for i in index])
            return cupy().full(shape, other, self.array.dtype)
        inside = tuple(cupy().where(mask, i, 0) for i in index)
        return cupy().where(mask, self.array[inside], other)


class WholeLoader:
    """A tensor as a loader that ignores the index: cupy broadcasts."""

    def __init__(self, t: Tensor):
        self.array, self.shape, self.dtype = loaded(t), tuple(t._fl_sizes), t._fl_dtype

    def __call__(self, *index, mask=None, other=0):
        return self.array


def loaders(op, args, kind: Callable = GridLoader) -> list:
    return [
        kind(a) if isinstance(a, Tensor) else tuple(map(kind, a)) if p.role == "tensors" and a is not None else number(a)
        for p, a in zip(op.params, args)
    ]


def grid(sizes, before: int = 0, after: int = 0) -> tuple:
    """Broadcastable int64 index arrays over `sizes`, among `before` + len + `after` dimensions."""
    ndim = before + len(sizes) + after
    return tuple(
        cupy().arange(n, dtype=np.int64).reshape(tuple(-1 if k == before + d else 1 for k in range(ndim)))
        for d, n in enumerate(sizes)
    )


def run_loop(op, args, outs):
    return op.loop(CUPY, grid(tuple(outs[0]._fl_sizes)), (), *loaders(op, args))


# -- Reduce, Scan


def run_reduce(op, args, outs):
    if op.explicit_loop or op.meta_rule is not None:
        return run_windows(op, args, outs)
    compute, _ = cached_computation(op, args)
    dims = tuple(argument(op, args, "dim"))
    arrays = [a for p, a in zip(op.params, operand_arrays(op, args, compute)) if p.name not in ("dim", "keepdim")]
    value = cupy().broadcast_to(XP.asarray(op.fn(CUPY, *arrays)), tuple(args[0]._fl_sizes))
    acc = combine(op.combine, value, dims)
    return finish(op, CUPY, acc[0] if len(acc) == 1 else acc, args)


def run_windows(op, args, outs):
    """A reduction with its own loop: values over (output index, reduction index), combined over the latter."""
    sizes, extents = tuple(outs[0]._fl_sizes), tuple(op.ranges(*args))
    n, m = len(sizes), len(extents)
    value = op.loop(CUPY, grid(sizes, 0, m), grid(extents, n, 0), *loaders(op, args))
    acc = combine(op.combine, cupy().broadcast_to(value, sizes + extents), tuple(range(n, n + m)))
    return finish(op, CUPY, acc[0] if len(acc) == 1 else acc, args)


def run_scan(op, args, outs):
    compute, types = cached_computation(op, args)
    arrays = operand_arrays(op, args, compute)
    values = accumulate(op.combine, XP.asarray(op.fn(CUPY, *arrays[:-1])), argument(op, args, "dim"))
    return cast_results(CUPY, values, types)


# -- Scatter


def run_scatter(op, args, outs):
    base = args[0]
    out = (
        loaded(base).copy()
        if isinstance(base, Tensor)
        else cupy().zeros(tuple(outs[0]._fl_sizes), narrow_floats.kernel_type(outs[0]._fl_dtype))
    )
    view = op.cache.get("view")
    if view is not None:
        return written_through(view, out, args)
    sizes = tuple(op.ranges(*args))
    index, value = op.loop(CUPY, grid(sizes), (), *loaders(op, args))
    if 0 in sizes:
        return out
    index = tuple(cupy().broadcast_to(XP.asarray(i), sizes) for i in index)
    value = cupy().broadcast_to(XP.asarray(value), sizes).astype(out.dtype)
    if op.mode == "set":
        out[index] = value
    else:
        getattr(XP, COMBINED[op.mode]).at(out, index, value)
    return out


COMBINED = {"add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}


def written_through(view, out, args):
    """A copy of the base, with a value assigned to the view of it."""
    base, value = args[:2]
    step = out.dtype.itemsize
    sizes, strides, offset = view.fn(tuple(base._fl_sizes), tuple(s // step for s in out.strides), *args[2:])
    dtype = out.dtype
    if view.promote != "keep":
        dtype = narrow_floats.kernel_type(view.types(base, *args[2:])[1])
        offset = offset * step // dtype.itemsize
    if 0 not in sizes:
        target = cupy().ndarray(
            tuple(sizes), dtype, out.data + offset * dtype.itemsize, tuple(s * dtype.itemsize for s in strides)
        )
        value = loaded(value) if isinstance(value, Tensor) else value
        target[...] = value.astype(dtype, copy=False) if is_array(value) else value
    return out


# -- Random


def run_random(op, args, outs):
    sizes = tuple(outs[0]._fl_sizes)
    compute, types = computation(op, args)
    inner = types[0].compute if types[0].is_floating_point else compute or _single()
    count = int(np.prod(sizes, dtype=np.int64))
    index = cupy().arange(count, dtype=np.int64).reshape(sizes)
    rng = Draw(CUPY, *draw(args[-1]), index, inner)
    values = list(operands(op, CUPY, sizes, loaders(op, args[:-1], WholeLoader), compute, inner))
    return cast_results(CUPY, op.fn(CUPY, rng, *values), types)


def _single():
    from .. import dtypes

    return dtypes.float32


# -- Extern, Composite


def run_ported(function, args):
    """A numpy kernel of the package, its operands as kernels hold them."""
    return ported(function)(*map(array_of, args))


def run_extern(op, args, outs):
    return run_ported(op.fn, args)


_BY_KIND = {
    "MAP": run_map,
    "REDUCE": run_reduce,
    "SCAN": run_scan,
    "SCATTER": run_scatter,
    "RANDOM": run_random,
    "EXTERN": run_extern,
}
__all__ = ["broadcast_shapes", "run"]
