"""Op records that only the compiler writes: the value of an unrecorded in-place write, and a change of layout."""

from __future__ import annotations

from ..eager.op import indexed, pointwise
from ..eager.meta import Spec


@pointwise(promote="first")
def with_value(s, x, y):
    """`y`, with the gradient history of `x`: what an in-place write outside of recording does."""
    return y


@with_value.grad("x")
def _(g):
    return g


with_value.samples(lambda make: [(make(3, 4), make(3, 4)), (make(0, 2), make(0, 2))])


@indexed(meta=lambda x, strides: Spec(tuple(x.shape), strides=tuple(strides)), promote="keep", recompute=True)
def restride(s, i, x, strides: "size"):
    """`x` in fresh memory with these strides."""
    return x(*i)


@restride.grad("x")
def _(g):
    return g
