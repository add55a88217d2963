"""Tensors and records for the tests of the core: no public spelling is needed."""

import numpy as np

from flambeau.eager import dtypes
from flambeau.eager.op.op import OPS
from flambeau.eager.tensor import Tensor


def T(values, grad=False, dtype=None):
    """A tensor (float32 for floats) of these values."""
    array = np.array(values)
    if dtype is None and array.dtype == np.float64:
        dtype = dtypes.float32
    if dtype is not None:
        array = array.astype(dtype.numpy)
    t = Tensor._fl_from_array(array, dtypes.from_numpy(array.dtype))
    return t.requires_grad_() if grad else t


def V(t):
    """The values as nested lists."""
    return t._fl_array.tolist()


def op(name):
    return OPS[name]


def total(x):
    return OPS["sum"](x, tuple(range(x.ndim)), False)
