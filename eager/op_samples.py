"""What the samples of records are made with: `make(*shape)` gives normal floats; and the kinds of tensor that they name.

In: a seed. Out: tensors, the same ones for the same seed. Tests, and the command that shows a record, call `op.samples` with it.
"""

from __future__ import annotations

import numpy as np

from . import api  # noqa: F401  (samples use the methods of tensors)
from . import dtypes
from .tensor import Tensor


class Fixed(int):
    """A size that stays as it is where samples are made larger."""


class Samples:
    """The argument `make` of `op.samples` rules."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def wrap(self, array, kind=None):
        array = np.asarray(array) if kind is None else np.asarray(array).astype(kind)
        return Tensor._fl_from_array(np.ascontiguousarray(array).reshape(array.shape), dtypes.from_numpy(array.dtype))

    def __call__(self, *shape, dtype=None):
        return self.wrap(self.rng.standard_normal(shape), np.float32 if dtype is None else dtype.numpy)

    def fixed(self, n):
        """A size that nothing but itself fits: numbers of a place, of a complex number."""
        return Fixed(n)

    def positive(self, *shape):
        return self.wrap(self.rng.random(shape) + 0.5, np.float32)

    def uniform(self, *shape):
        return self.wrap(self.rng.random(shape) * 1.8 - 0.9, np.float32)

    def probabilities(self, *shape):
        return self.wrap(self.rng.random(shape) * 0.98 + 0.01, np.float32)

    def ints(self, high, *shape):
        return self.wrap(self.rng.integers(0, high, shape), np.int64)

    def permutation(self, n, *shape):
        """A permutation of range(n) along the first dim of that size."""
        return self.wrap(np.argsort(self.rng.random(shape), shape.index(n)), np.int64)

    def bools(self, *shape):
        return self.wrap(self.rng.random(shape) > 0.5)

    def special(self, n):
        return self.wrap(np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])[:n], np.float32)

    def scalar(self):
        return 1.5
