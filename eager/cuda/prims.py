"""The scalar primitives of formulas, and the combines of reductions and scans, on cupy arrays.

In: the tables of `prims.py`. Out: `CUPY`, the handler `s` of formulas on a GPU, `combine`, `accumulate`. Each cell is numpy's own
of that table with cupy in numpy's place; error function, casts and index checks are made here.
"""

from __future__ import annotations

import functools

import numpy as np

from ..op.prims import COMBINES, PRIMS
from . import narrow_floats
from .find_cupy import cupy
from .numpy_ports import port
from .array_module import XP, is_array


def cast(x, dtype):
    """`x` in the type in which kernels hold `dtype`."""
    kind = narrow_floats.kernel_type(dtype)
    if is_array(x):
        if x.dtype == kind:
            return x
        return x.real.astype(kind) if x.dtype.kind == "c" and kind.kind not in "cb" else x.astype(kind)
    return np.asarray(x).astype(kind)[()]


def erf(x):
    from cupyx.scipy.special import erf as function

    x = XP.asarray(x)
    return function(x).astype(x.dtype, copy=False) if x.dtype.kind == "f" else function(x.astype(np.float32))


class Checks:
    """Conditions of the past on the GPU, looked at when numbers are read: (what must be False, the text of the error)."""

    waiting: list = []

    @classmethod
    def add(cls, bad, text: str) -> None:
        cls.waiting.append((bad, text))
        if len(cls.waiting) > 256:
            cls.look()

    @classmethod
    def look(cls) -> None:
        """Raises for the first that failed; all are forgotten."""
        waiting, cls.waiting = cls.waiting, []
        for bad, text in waiting:
            if bad.item():
                raise IndexError(text)


# cupy's text of a kernel per element; `philox_words` of prims.py in C
_PHILOX = """
    unsigned int c0 = (unsigned int)element, c1 = (unsigned int)((unsigned long long)element >> 32);
    unsigned int c2 = (unsigned int)ordinal, c3 = (unsigned int)(ordinal >> 32);
    unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        unsigned long long p0 = c0 * 0xD2511F53ull, p1 = c2 * 0xCD9E8D57ull;
        c0 = (unsigned int)(p1 >> 32) ^ c1 ^ k0; c1 = (unsigned int)p1;
        c2 = (unsigned int)(p0 >> 32) ^ c3 ^ k1; c3 = (unsigned int)p0;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    out = word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
"""


@functools.lru_cache(None)
def _philox_kernel():
    return cupy().ElementwiseKernel(
        "uint64 seed, uint64 ordinal, int64 element, int32 word", "int64 out", _PHILOX, "flambeau_philox"
    )


def philox(seed, ordinal, index, word):
    """One word of Philox4x32-10 per element, 0 .. 2**32 - 1, in one kernel."""
    mask = 2**64 - 1
    index = XP.asarray(index)
    return _philox_kernel()(
        np.uint64(int(seed) & mask), np.uint64(int(ordinal) & mask), index.astype(np.int64, copy=False), np.int32(word)
    )


class CupyVocabulary:
    """Index expressions are ints or broadcastable int64 arrays."""

    cast = staticmethod(cast)
    erf = staticmethod(erf)
    philox = staticmethod(philox)

    def const(self, number, dtype):
        return narrow_floats.kernel_type(dtype).type(number)

    def index(self, expr):
        return expr.astype(np.int64, copy=False) if is_array(expr) else np.int64(expr)

    def indirect(self, value, size, check=True):
        """An integer array as an index; that every value lies in [0, size) is looked at later (cupy wraps others around, so
        no memory is touched that is not the tensor's).
        """
        value = XP.asarray(value)
        if check and value.size:
            text = check if isinstance(check, str) else f"index out of range for a dimension of size {size}"
            Checks.add(cupy().any((value < 0) | (value >= size)), text)
        return value.astype(np.int64, copy=False)


def _bound(prim):
    def cell(*args):
        return port(prim.numpy)(*args)

    cell.__name__ = prim.name
    return staticmethod(cell)


for _prim in PRIMS.values():
    if _prim.name not in vars(CupyVocabulary):
        setattr(CupyVocabulary, _prim.name, _bound(_prim))
CUPY = CupyVocabulary()


def combine(name, x, axes) -> tuple:
    """The reduction of an array over axes: the accumulators."""
    return port(COMBINES[name].reduce)(x, axes)


_SCANS = {
    "sum": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
    "logsumexp": "logaddexp",
}


def accumulate(name, x, dim):
    if not x.ndim:
        return x
    if name in ("argmax", "argmin"):
        return running_extreme(name, x, dim)
    return getattr(XP, _SCANS[name]).accumulate(x, dim)


def running_extreme(name, x, dim):
    """Running extreme and where it stands; of equals the last."""
    best = accumulate(name[3:], x, dim)
    steps = cupy().arange(x.shape[dim], dtype=np.int64).reshape(tuple(-1 if d == dim else 1 for d in range(x.ndim)))
    hit = (x == best) | (x != x)
    return best, XP.maximum.accumulate(cupy().where(hit, steps, 0), dim)
