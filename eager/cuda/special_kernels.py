"""Kernels of single records on a GPU, where the one that their kind gives would be slow or is none.

In: (record, arguments, outputs with sizes only). Out: values, or NotImplemented for the kind's own.
"""

from __future__ import annotations

import numpy as np

from .. import dtypes
from ..op.op import OPS
from ..state import no_modes, recording
from ..tensor import Tensor
from . import blas, narrow_floats
from .arrays import from_host, loaded, memory
from .find_cupy import cupy

KERNELS: dict = {}


def kernel(*names):
    def add(function):
        KERNELS.update(dict.fromkeys(names, function))
        return function

    return add


def raw(t: Tensor):
    """The elements as they lie in memory; None for tensors of the host."""
    return memory(t) if t._fl_array is None else None


def same_type(outs, *tensors) -> bool:
    return all(t._fl_array is None and t._fl_dtype is outs[0]._fl_dtype for t in tensors)


@kernel("clone", "contiguous_copy")
def _copy(op, args, outs):
    return memory(args[0]).copy(order="K" if op.name == "clone" else "C") if args[0]._fl_array is None else NotImplemented


@kernel("full")
def _full(op, args, outs):
    t = outs[0]
    value = args[1]
    if isinstance(value, Tensor):
        return NotImplemented
    if t._fl_dtype in narrow_floats.BITS:
        value = np.asarray(value, t._fl_dtype.numpy).reshape(1).view(narrow_floats.BITS[t._fl_dtype])[0]
    return cupy().full(
        tuple(t._fl_sizes),
        np.asarray(value).astype(narrow_floats.memory_type(t._fl_dtype))[()],
        narrow_floats.memory_type(t._fl_dtype),
    )


@kernel("empty")
def _empty(op, args, outs):
    return cupy().empty(tuple(outs[0]._fl_sizes), narrow_floats.memory_type(outs[0]._fl_dtype))


@kernel("cat")
def _cat(op, args, outs):
    tensors, dim = args[0], args[1]
    if not same_type(outs, *tensors):
        return NotImplemented
    return cupy().concatenate([memory(t) for t in tensors], axis=dim)


@kernel("gemm")
def _gemm(op, args, outs):
    a, b = args
    if a._fl_dtype is dtypes.bfloat16 and same_type(outs, a, b):
        return blas.bfloat16_product(memory(a), memory(b))
    return blas.product(loaded(a), loaded(b))


@kernel("grouped_mm")
def _grouped_mm(op, args, outs):
    """A product a group; where groups end is read from the GPU."""
    a, b, ends = map(loaded, args)
    out, start = cupy().zeros(tuple(outs[0]._fl_sizes), a.dtype), 0
    for k, end in enumerate(ends.get().tolist()):
        part = slice(start, end)
        if a.ndim == b.ndim:
            out[k] = blas.product(a[:, part], b[part]) if end > start else 0
        elif end > start and a.ndim == 2:
            out[part] = blas.product(a[part], b[k])
        elif end > start:
            out[:, part] = blas.product(a[k], b[:, part])
        start = max(start, end)
    return out


# -- order


def sorted_places(x, dim, descending):
    """Positions in stable order, NaN as the largest."""
    if not descending:
        return cupy().argsort(x, axis=dim, kind="stable")
    last = x.shape[dim] - 1
    return cupy().flip(last - cupy().argsort(cupy().flip(x, axis=dim), axis=dim, kind="stable"), axis=dim)


@kernel("sort")
def _sort(op, args, outs):
    x, (_, dim, descending) = loaded(args[0]), args
    if x.ndim == 0 or x.size == 0:
        return x.copy(), cupy().zeros(x.shape, np.int64)
    places = sorted_places(x, dim, descending)
    return cupy().take_along_axis(x, places, axis=dim), places


@kernel("topk")
def _topk(op, args, outs):
    x, (_, k, dim, largest, _) = loaded(args[0]), args
    if x.ndim == 0 or x.size == 0:
        sizes = tuple(outs[0]._fl_sizes)
        return x.copy() if x.ndim == 0 else cupy().zeros(sizes, x.dtype), cupy().zeros(sizes, np.int64)
    places = sorted_places(x, dim, largest)[(slice(None),) * dim + (slice(0, k),)]
    return cupy().take_along_axis(x, places, axis=dim), places


# -- composites whose halves are rounded once, as on the host


@kernel("attention", "attention_backward")
def _in_float32(op, args, outs):
    wide = [OPS["cast"](a, dtypes.float32) if isinstance(a, Tensor) and a._fl_dtype in _HALVES else a for a in args]
    with recording(False), no_modes():
        made = op.fn(*wide)
    return tuple([loaded(t) for t in (made if isinstance(made, tuple) else (made,))])


_HALVES = (dtypes.float16, *narrow_floats.BITS)


# -- functions that cupyx has


_SPECIAL = {
    "lgamma": "gammaln",
    "digamma": "digamma",
    "zeta": "zeta",
    "igamma": "gammainc",
    "igammac": "gammaincc",
    "i0": "i0",
    "i0e": "i0e",
    "i1": "i1",
    "i1e": "i1e",
    "erfcx": "erfcx",
    "erfinv": "erfinv",
    "polygamma": "polygamma",
}


@kernel(*_SPECIAL)
def _special(op, args, outs):
    from cupyx.scipy import special

    kind = np.dtype(np.float64) if outs[0]._fl_dtype is dtypes.float64 else np.dtype(np.float32)
    function = getattr(special, _SPECIAL[op.name])
    arrays = [loaded(a).astype(kind, copy=False) if isinstance(a, Tensor) else a for a in args]
    return function(cupy().full((), arrays[1], np.int64), arrays[0]) if op.name == "polygamma" else function(*arrays)


@kernel("atan2")
def _atan2(op, args, outs):
    kind = narrow_floats.kernel_type(outs[0]._fl_dtype)
    return cupy().arctan2(*[loaded(a).astype(kind, copy=False) for a in args])


@kernel("complex")
def _complex(op, args, outs):
    re, im = map(loaded, args)
    kind = outs[0]._fl_dtype.numpy
    return re.astype(kind) + im.astype(kind) * kind.type(1j)


__all__ = ["from_host"]
