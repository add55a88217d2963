"""Repetition: whole tensors, or each element, several times."""

import numpy as np

from ...runtime import copy_gather
from ..op.gradient import Meta
from ..op.op import indexed, size, static
from .reduce import extent, sum as sum_dims
from .views import reshape


@indexed(meta=lambda x, times: tuple(n * t for n, t in zip(x.shape, times)))
def repeat(s, i, x, times: size):
    """The whole tensor, `times[d]` times along each dim."""
    return x(*(at if _once(t) else at % n for at, n, t in zip(i, x.shape, times)))


def _once(t):
    return type(t) is int and t == 1


@repeat.numpy
def _(x, times):
    if not x.size:  # (np.tile gives out x's own memory)
        return np.empty([n * t for n, t in zip(x.shape, times)], x.dtype)
    return copy_gather.repeated(x, times) if x.size * extent(times, range(len(times))) > copy_gather.SMALL else np.tile(x, times)


@repeat.grad("x")
def _(g, x: Meta, times):
    pairs = tuple(n for pair in zip(times, x.shape) for n in pair)
    return sum_dims(reshape(g, pairs), tuple(range(0, len(pairs), 2)), False)


repeat.samples(lambda make: [(make(2, 3), (2, 1)), (make(3), (4,)), (make(2, 2), (3, 2)), (make(1, 2), (0, 2))])


@indexed(meta=lambda x, times, dim: (*x.shape[:dim], x.shape[dim] * times, *x.shape[dim + 1 :]))
def repeat_interleave(s, i, x, times: size, dim: static):
    """Each element `times` times in a row."""
    return x(*i[:dim], i[dim] // times, *i[dim + 1 :])


@repeat_interleave.numpy
def _(x, times, dim):
    return np.repeat(x, times, dim)


@repeat_interleave.grad("x")
def _(g, x: Meta, times, dim):
    return sum_dims(reshape(g, (*x.shape[: dim + 1], times, *x.shape[dim + 1 :])), (dim + 1,), False)


repeat_interleave.samples(lambda make: [(make(2, 3), 2, 0), (make(2, 3), 3, 1), (make(4), 1, 0)])
