"""The closed set of scalar primitives that formulas of op records are written in, and the combines of reductions.

Each primitive's meaning is its numpy function; a code generator has one cell per primitive. `NumpyVocabulary` is the
handler `s` of eager execution: arrays in, arrays out. Values of every vocabulary support Python's operators.
"""

from __future__ import annotations

import builtins
import math
from functools import lru_cache
from typing import Any
from collections.abc import Callable

import numpy as np

from ...runtime import copy_gather, elementwise
from ...runtime.dataclass import data
from .. import _call, dtypes


# Python's operators on values of a formula, by the primitives that they mean; those that have a reflected form, and all
REFLECTED = {name: name for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")}
REFLECTED |= {"lshift": "shl", "rshift": "shr", "xor": "bit_xor"}
OPERATORS = REFLECTED | {name: name for name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "abs")}
OPERATORS |= {"and": "bit_and", "or": "bit_or", "invert": "bit_not"}


@data
class Prim:
    """`result`: "same" (as the operands), "bool", "float" (integers compute in the default floating type), or a
    function of the operands' types.
    """

    name: str
    arity: int
    result: Any
    numpy: Callable


def cast(x, dtype):
    """`x` in `dtype`; truth for bool, truncation toward zero for integers."""
    if isinstance(x, (np.ndarray, np.generic)):
        if isinstance(x, np.ndarray) and {x.dtype.itemsize, dtype.itemsize} == {2, 4}:  # numpy converts halves one by one
            found = copy_gather.converted(x, dtype.numpy)
            if found is not NotImplemented:
                return found
        return x if x.dtype == dtype.numpy else x.astype(dtype.numpy)
    return np.asarray(x, dtype.numpy)


def rsqrt(x):
    return np.reciprocal(np.sqrt(x))


@lru_cache(None)
def _erf_series(kind: str):
    """Chebyshev coefficients, fitted to math.erf: erf(x)/x in x*x on [0, 4], and erfc(x)*exp(x*x)*x in 1/(x*x) on [2,
    6.5].
    """
    near: Any = lambda t: np.array([_near(v) for v in 2 * (t + 1)])
    far: Any = lambda t: np.array([_far(v) for v in _unscale(t)])
    return np.polynomial.chebyshev.chebinterpolate(*((near, 26) if kind == "near" else (far, 24)))


def _near(square):
    x = math.sqrt(square)
    return math.erf(x) / x if x > 1e-8 else 2 / math.sqrt(math.pi)


def _unscale(t):
    low, high = 1 / 6.5**2, 1 / 4
    return low + (t + 1) * (high - low) / 2


def _far(inverse):
    x = 1 / math.sqrt(inverse)
    return math.erfc(x) * math.exp(x * x) * x


def erf(x):
    """The error function, to about one unit in the last place of float64; computed in float64."""
    x = np.asarray(x)
    kind = x.dtype if x.dtype.kind == "f" else np.dtype(np.float32)
    v = x.astype(np.float64)
    size = np.minimum(np.abs(v), 6.5)
    square = size * size
    near = v * np.polynomial.chebyshev.chebval(np.minimum(square, 4.0) / 2 - 1, _erf_series("near"))
    low, high = 1 / 6.5**2, 1 / 4
    inverse = 1 / np.maximum(square, 4.0)
    far = 1 - np.polynomial.chebyshev.chebval((inverse - low) * 2 / (high - low) - 1, _erf_series("far")) * np.exp(
        -square
    ) / np.maximum(size, 2.0)
    return np.where(size < 2.0, near, np.copysign(far, v)).astype(kind)


_M0, _M1, _W0, _W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85


def philox_words(seed: int, ordinal: int, index) -> tuple:
    """The four 32-bit words of Philox4x32-10 at each element index, as uint64 arrays (0 .. 2**32-1)."""
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    index = np.asarray(index).astype(np.uint64)
    seed, ordinal = int(seed) & (2**64 - 1), int(ordinal) & (2**64 - 1)
    c0, c1 = index & low, index >> shift
    c2, c3 = np.uint64(ordinal & 0xFFFFFFFF), np.uint64(ordinal >> 32)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = c0 * np.uint64(_M0), c2 * np.uint64(_M1)
        c0, c1, c2, c3 = (p1 >> shift) ^ c1 ^ np.uint64(k0), p1 & low, (p0 >> shift) ^ c3 ^ np.uint64(k1), p0 & low
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return c0, c1, c2, c3


def philox(seed, ordinal, index, word):
    """One word of Philox4x32-10: key = seed, counter = (index, ordinal), each as (low, high) halves."""
    return np.asarray(philox_words(seed, ordinal, index)[word]).astype(np.int64)


def _cast_type(*types):
    return types[-1]


def _where_type(_condition, a, b):
    return a if a is b else dtypes.float64 if dtypes.float64 in (a, b) else a


_TABLE = """
add same | sub same subtract | mul same multiply | truediv float true_divide | floordiv same floor_divide
mod same remainder | neg same negative | abs same absolute | sign same
exp float | log float | log2 float | log1p float | expm1 float | sqrt float
sin float | cos float | tan float | tanh float | pow same power
floor same | ceil same | round same rint | trunc same | maximum same | minimum same
lt bool less | le bool less_equal | gt bool greater | ge bool greater_equal | eq bool equal | ne bool not_equal
logical_and bool | logical_or bool | logical_not bool | isnan bool | isinf bool
bit_and same bitwise_and | bit_or same bitwise_or | bit_xor same bitwise_xor | bit_not same invert
shl same left_shift | shr same right_shift
"""


def _numpy_prims():
    for line in _TABLE.replace("\n", "|").split("|"):
        name, result, *numpy_name = line.split() or ("", "")
        if name:
            function = getattr(np, numpy_name[0] if numpy_name else name)
            yield Prim(name, function.nin, result, function)


PRIMS: dict[str, Prim] = {
    p.name: p
    for p in (
        *_numpy_prims(),
        Prim("rsqrt", 1, "float", rsqrt),
        Prim("erf", 1, "float", erf),
        Prim("where", 3, _where_type, np.where),
        Prim("cast", 2, _cast_type, cast),
        Prim("philox", 4, lambda *_: dtypes.int64, philox),
    )
}


class NumpyVocabulary:
    """The vocabulary of eager execution. Index expressions are ints or broadcastable int64 arrays."""

    def const(self, number, dtype):
        return np.asarray(number, dtype.numpy)

    def index(self, expr):
        return np.asarray(expr, np.int64)

    def indirect(self, value, size, check=True):
        """An integer array as an index; with `check`, every value must lie in [0, size)."""
        value = np.asarray(value)
        if check and value.size and (value.min() < 0 or value.max() >= size):
            text = check if isinstance(check, str) else f"index out of range for a dimension of size {size}"
            raise IndexError(text)
        return value.astype(np.int64, copy=False)


def _by_native_map(name, function):
    """A function of floats by the native map that plans of records take (`ufunc_program.py`), so that both have the same bits."""

    def call(x):
        if type(x) in (np.ndarray, np.float32) and x.dtype == np.float32:
            found = elementwise.every(name, np.asarray(x))
            if found is not NotImplemented:
                return found
        return function(x)

    return call


_MAPS = {name: job for name, job in _call.own_loops().items() if job}  # "log1p f->f" -> the map of the runtime
for _prim in PRIMS.values():
    _job = _MAPS.get(f"{_prim.name} f->f")
    setattr(NumpyVocabulary, _prim.name, staticmethod(_by_native_map(_job, _prim.numpy) if _job else _prim.numpy))
NUMPY = NumpyVocabulary()


# -- combines of reductions


@data
class Combine:
    """How a reduction merges values. `reduce(array, axes)` -> tuple of `n_outputs` arrays without those axes."""

    name: str
    identity: Callable
    reduce: Callable
    n_outputs: int = 1


def _lowest(dtype):
    return -math.inf if dtype.is_floating_point else builtins.bool(0) if dtype is dtypes.bool else dtypes.iinfo(dtype).min


def _highest(dtype):
    return math.inf if dtype.is_floating_point else True if dtype is dtypes.bool else dtypes.iinfo(dtype).max


def _plain(ufunc, **keywords):
    def reduce(x, axes):
        return (np.asarray(ufunc.reduce(x, axis=axes, **keywords)),)

    return reduce


def _sum(x, axes):
    return (np.asarray(np.add.reduce(x, axis=axes, dtype=x.dtype)),)


def _prod(x, axes):
    return (np.asarray(np.multiply.reduce(x, axis=axes, dtype=x.dtype)),)


def _extreme(ufunc, start):
    """Maximum or minimum; NaN wins. Empty extents give the identity (the records refuse them where PyTorch does)."""

    def reduce(x, axes):
        extent = math.prod(x.shape[d] for d in axes)
        if extent == 0:
            return (np.asarray(ufunc.reduce(x, axis=axes, initial=start(dtypes.from_numpy(x.dtype)))),)
        return (np.asarray(ufunc.reduce(x, axis=axes)),)

    return reduce


def reduced_last(x, axes):
    """`x` with the reduced axes merged, in order, into one last axis."""
    kept = tuple(d for d in range(x.ndim) if d not in axes)
    extent = math.prod(x.shape[d] for d in axes)
    return np.transpose(x, kept + tuple(axes)).reshape(tuple(x.shape[d] for d in kept) + (extent,))


def _arg(which):
    """(value, position among the reduced elements in row-major order); the first of equals wins, NaN wins."""

    def reduce(x, axes):
        x = reduced_last(x, axes)
        where = np.asarray(which(x, axis=-1)).astype(np.int64)
        return np.take_along_axis(x, where[..., None], axis=-1)[..., 0], where

    return reduce


def _welford(x, axes):
    extent = math.prod(x.shape[d] for d in axes)
    mean = np.add.reduce(x, axis=axes, keepdims=True) / x.dtype.type(extent or 1)
    m2 = np.add.reduce(np.square(x - mean), axis=axes)
    if extent == 0:
        mean, m2 = np.full_like(mean, np.nan), np.full_like(m2, np.nan)
    return np.asarray(mean.reshape(np.shape(m2))), np.asarray(m2), np.full(np.shape(m2), extent, x.dtype)


def _logsumexp(x, axes):
    top = np.maximum.reduce(x, axis=axes, keepdims=True, initial=-np.inf)
    safe = np.where(np.isfinite(top), top, x.dtype.type(0))
    total = np.log(np.add.reduce(np.exp(x - safe), axis=axes))
    return (np.asarray(total + safe.reshape(np.shape(total))),)


COMBINES: dict[str, Combine] = {
    c.name: c
    for c in (
        Combine("sum", lambda d: 0, _sum),
        Combine("prod", lambda d: 1, _prod),
        Combine("max", _lowest, _extreme(np.maximum, _lowest)),
        Combine("min", _highest, _extreme(np.minimum, _highest)),
        Combine("any", lambda d: False, _plain(np.logical_or)),
        Combine("all", lambda d: True, _plain(np.logical_and)),
        Combine("argmax", lambda d: (_lowest(d), 0), _arg(np.argmax), 2),
        Combine("argmin", lambda d: (_highest(d), 0), _arg(np.argmin), 2),
        Combine("welford", lambda d: (0.0, 0.0, 0.0), _welford, 3),
        Combine("logsumexp", lambda d: -math.inf, _logsumexp),
    )
}
