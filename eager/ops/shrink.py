"""Activations that shrink towards zero, and those with a slope of their own below it."""

import numpy as np

from ..op.op import pointwise, scalar
from .activations import leaky_relu
from .arithmetic import absolute, gt, le, mul, where


@pointwise(fast=True)
def hardshrink(s, x, lambd: scalar):
    """x where |x| > lambd, else 0; nan stays."""
    return s.where(s.le(s.abs(x), lambd), s.mul(x, 0), x)


@hardshrink.grad("x")
def _(g, x, lambd):
    return where(le(absolute(x), lambd), 0.0, g)


@pointwise(fast=True)
def softshrink(s, x, lambd: scalar):
    """x moved towards 0 by lambd, and 0 within."""
    return s.where(x > lambd, x - lambd, s.where(s.neg(x) > lambd, x + lambd, s.mul(x, 0)))


@softshrink.grad("x")
def _(g, x, lambd):
    return where(le(absolute(x), lambd), 0.0, g)


@pointwise
def prelu(s, x, weight):
    """x, times `weight` (broadcast) where it is not positive."""
    return s.where(x > 0, x, x * weight)


@prelu.native
def _(x, weight):
    """One weight for all elements."""
    if not isinstance(weight, np.ndarray) or weight.size != 1 or weight.dtype != x.dtype or weight.ndim > x.ndim:
        return NotImplemented
    return leaky_relu.kernels["native"](x, float(weight.reshape(())))


@prelu.grad("x")
def _(g, x, weight):
    return where(gt(x, 0), g, mul(g, weight))


@prelu.grad("weight")
def _(g, x):
    return where(gt(x, 0), 0.0, mul(g, x))


for _op in (hardshrink, softshrink):
    _op.samples(lambda make: [(make(3, 4), 0.5), (make(5), 0.1), (make(0, 2), 0.5)])
prelu.samples(lambda make: [(make(3, 4), make(4)), (make(2, 3, 4), make(1, 3, 1)), (make(5), make(1))])
