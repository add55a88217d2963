"""Op records that only the compiler writes: the value of an unrecorded in-place write, a change of layout, halves as memory
holds them."""

from __future__ import annotations

import numpy as np

from ...eager.op.op import indexed, pointwise, size
from ...eager.op.meta import Spec


@pointwise(promote="first")
def with_value(s, x, y):
    """`y`, with the gradient history of `x`: what an in-place write outside of recording does."""
    return y


@with_value.grad("x")
def _(g):
    return g


@indexed(meta=lambda x, strides: Spec(tuple(x.shape), x.dtype, tuple(strides)), promote="keep", recompute=True)
def restride(s, i, x, strides: size):
    """`x` in fresh memory with these strides."""
    return x(*i)


@restride.numpy
def _(x, strides):
    span = 1 + sum((n - 1) * step for n, step in zip(x.shape, strides)) if x.size else 0
    block = np.empty(span, x.dtype)
    out = np.lib.stride_tricks.as_strided(block, x.shape, tuple(step * x.itemsize for step in strides))
    out[...] = x
    return out


@restride.grad("x")
def _(g):
    return g


def _same_layout(x):
    return Spec(tuple(x.shape), x.dtype, tuple(x.stride()))


@indexed(meta=_same_layout, promote="keep", recompute=True)
def rounded(s, i, x):
    """A half with its rounding, wherever it is computed."""
    return s.held(x(*i))


@indexed(meta=_same_layout, promote="keep", template="kept")
def kept(s, i, x):
    """The same, computed once: all who read it read the same number."""
    return s.held(x(*i))


for _op in (rounded, kept):
    _op.numpy(lambda x: x.copy(order="K"))
