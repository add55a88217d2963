"""PyTorch's numbers: draws from the Mersenne Twister of its CPU generator. Loaded where they are asked for (`random.use`).

In: a generator and what is to be drawn. Out: a numpy array, and the generator as PyTorch's would be. The idea: the numbers of a
draw come one after the other and fill a tensor in the order of its memory, so a draw depends on all draws before it. The words
that each distribution takes are those of aten/src/ATen/native/cpu/DistributionTemplates.h and
aten/src/ATen/core/DistributionsHelper.h of PyTorch 2.13; the loops are in csrc/twister.cpp. The state is kept as
`torch.get_rng_state()` lays it out, so states can be exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _call, dtypes
from .sizes import contiguous_strides

BYTES = 5056
_ORDINAL = 627  # the word of a state that PyTorch does not read: here the next ordinal of Philox


class Like(NamedTuple):
    """What a draw has to know of the tensor that it fills."""

    sizes: tuple
    strides: tuple
    dtype: Any

    @property
    def contiguous(self) -> bool:
        wanted = contiguous_strides(self.sizes)
        return 0 in self.sizes or all(n == 1 or a == b for n, a, b in zip(self.sizes, self.strides, wanted))


def of_tensor(t: Any) -> Like:
    return Like(tuple(t._fl_sizes), tuple(t._fl_strides), t._fl_dtype)


# -- states


def seeded(seed: int) -> np.ndarray:
    """The state behind `manual_seed(seed)`."""
    state = np.empty(BYTES, np.uint8)
    _call.mersenne_seed(state, seed)
    return state


def with_ordinal(state: np.ndarray, ordinal: int) -> np.ndarray:
    """A copy that tells the next ordinal as well."""
    state = state.copy()
    state.view(np.uint64)[_ORDINAL] = ordinal
    return state


def numbers_of(state: np.ndarray) -> tuple[int, int]:
    """(seed, next ordinal) of a state; its counts of words must fit."""
    numbers, (left, begun) = state.view(np.uint64), state.view(np.int32)[2:4].tolist()
    if not begun or left < 1 or left + int(numbers[2]) > 625:
        raise RuntimeError("Invalid mt19937 state")
    return int(numbers[0]), int(numbers[_ORDINAL])


# -- draws


class Stream:
    """The draws of one generator. Each method but the last ones gives an array of like's sizes and type."""

    def __init__(self, generator: Any):
        self.generator = generator

    def sized(self, sizes: tuple, dtype: Any) -> Like:
        """A tensor without gaps."""
        sizes = tuple(map(int, sizes))
        return Like(sizes, contiguous_strides(sizes), dtype)

    def fill(self, kind: str, out: np.ndarray, *more: Any) -> np.ndarray:
        with self.generator._lock:
            _call.mersenne(self.generator.mersenne, kind, out, *more)
        return out

    def laid(self, like: Like, kind: str, numpy_type: Any, *more: Any) -> np.ndarray:
        """Numbers in the order in which the elements lie in memory."""
        order = sorted(range(len(like.sizes)), key=lambda d: -like.strides[d])
        out = self.fill(kind, np.empty([like.sizes[d] for d in order], numpy_type), *more)
        return out.transpose(np.argsort(order)) if order else out

    def uniform(self, like: Like, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        found = self.laid(like, "uniform", np.float64 if like.dtype is dtypes.float64 else np.float32, low, high)
        if like.dtype.itemsize >= 4:
            return found
        found, (low, high) = _cast(found, like.dtype), _cast(np.array([low, high]), like.dtype)
        found[found == high] = low  # what was rounded up to the bound
        return found

    def doubles(self, like: Like) -> np.ndarray:
        """Uniform numbers of 53 bits, whatever the type."""
        return self.laid(like, "uniform", np.float64)

    def normal(self, like: Like, mean: float = 0.0, std: float = 1.0) -> np.ndarray:
        """In blocks of 16 where there are as many in one piece, else in pairs."""
        if math.prod(like.sizes) < 16 or not like.contiguous:
            return _cast(self.laid(like, "normal", np.float64, mean, std), like.dtype)
        if like.dtype.itemsize >= 4:
            return self.fill("normal_fill", np.empty(like.sizes, like.dtype.numpy), mean, std)
        return _cast(self.fill("half_fill", np.empty(like.sizes, np.float32), mean, std), like.dtype)

    def of_kind(self, kind: str, like: Like, a: float, b: float = 1.0) -> np.ndarray:
        """Drawn in doubles: "exponential", "cauchy", "geometric", "log_normal"."""
        return _cast(self.laid(like, kind, np.float64, a, b), like.dtype)

    def bernoulli(self, like: Like, p: float) -> np.ndarray:
        return (self.doubles(like) < p).astype(like.dtype.numpy)

    def integers(self, like: Like, low: int, high: int | None) -> np.ndarray:
        """From `low` to below `high`; without it what `random_()` draws."""
        if high is None:
            return self.any_integers(like)
        low, high = int(low), int(high)
        if like.dtype.is_floating_point:
            low, high = _lowest(low, like.dtype), _end(high, like.dtype)
        return _cast(self.laid(like, "integers", np.int64, 0.0, 1.0, high - low, low), like.dtype)

    def any_integers(self, like: Like) -> np.ndarray:
        """The numbers of a type from 0 on: all, or those that a floating type holds exactly."""
        wide = like.dtype in (dtypes.int64, dtypes.float64)
        words = self.laid(like, "pairs" if wide else "words", np.int64)
        if like.dtype.is_floating_point:
            return _cast((words.view(np.uint64) % (2 ** _digits(like.dtype) + 1)).astype(np.int64), like.dtype)
        return (words & (1 if like.dtype is dtypes.bool else dtypes.iinfo(like.dtype).max)).astype(like.dtype.numpy)

    def permutation(self, n: int, dtype: Any) -> np.ndarray:
        return self.fill("permutation", np.empty(n, np.int64)).astype(dtype.numpy, copy=False)

    def transformed(self, kind: str, values: np.ndarray) -> np.ndarray:
        """In doubles: "poisson" of rates, "gamma" of shapes."""
        return self.fill(kind, np.array(values, np.float64, order="C"), float(values.dtype.itemsize < 8))

    def multinomial(self, weights: np.ndarray, count: int, replacement: bool) -> np.ndarray:
        """Places along the last dim; weights of (n,) or (rows, n) in the type in which PyTorch has them."""
        if not replacement or count == 1:
            kind = dtypes.from_numpy(weights.dtype)
            clocks = weights / self.of_kind("exponential", self.sized(weights.shape, kind), 1.0)
            if count == 1:
                return np.argmax(clocks, -1, keepdims=True)
            return np.argsort(-clocks.astype(np.float64), -1, kind="stable")[..., :count]
        rows = weights.reshape(-1, weights.shape[-1])
        rows = rows if rows.dtype.itemsize >= 4 else rows.astype(np.float32)
        found = np.empty((len(rows), count), np.int64)
        for row, out in zip(rows, found):
            edges = np.add.accumulate(row)
            edges = edges / edges[-1]
            edges[-1] = 1
            out[:] = np.searchsorted(edges.astype(np.float64), self.fill("uniform", np.empty(count)), "left")
        return found.reshape(*weights.shape[:-1], count)


def _cast(values: np.ndarray, dtype: Any) -> np.ndarray:
    """To narrow floating types by way of float32."""
    with np.errstate(all="ignore"):
        if dtype.itemsize < 4 and dtype.is_floating_point:
            values = values.astype(np.float32, copy=False)
        return values.astype(dtype.numpy, copy=False)


def _digits(dtype: Any) -> int:
    return {"float16": 11, "bfloat16": 8, "float32": 24}.get(dtype.name, 53)


def _held(number: int, dtype: Any) -> int:
    return int(float(_cast(np.array(number), dtype)))


def _step(number: int, dtype: Any) -> int:
    """The distance between numbers of a floating type near this one."""
    return 1 << (abs(number).bit_length() - _digits(dtype)) if abs(number).bit_length() > _digits(dtype) else 0


def _lowest(low: int, dtype: Any) -> int:
    """The lower bound as a number of the type, not below it."""
    held = _held(low + 1, dtype)
    return low if held >= low else held + _step(low + 1, dtype)


def _end(high: int, dtype: Any) -> int:
    """The upper bound, so that what is below it is no more than that in the type."""
    held = _held(high - 1, dtype)
    return high if held < high or held >= 2**63 else held - _step(high - 1, dtype)  # (which int64_t does not hold)


# -- records


def draw(op: Any, args: tuple, generator: Any, like: Callable = of_tensor) -> np.ndarray:
    """What a record that draws gives for these arguments (without its generator); `like` tells of a tensor among them."""
    if op.ordered is None:
        raise NotImplementedError(f"{op.name}() does not draw PyTorch's numbers (FLAMBEAU_RANDOM=torch)")
    given = [like(a) if hasattr(a, "_fl_sizes") else a for a in args]
    return op.ordered(Stream(generator), *given)
