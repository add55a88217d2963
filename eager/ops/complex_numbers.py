"""Complex numbers: their parts as views, their making, angle and conjugate.

Gradients follow PyTorch's convention: for a real loss L of z = x + iy the gradient is dL/dx + i dL/dy. Formulas of
holomorphic records are written as for real numbers; `Formula` conjugates around them. The records here say themselves
what theirs are (`explicit`).
"""

import numpy as np

from ...runtime import native
from ..op.gradient import _conjugate, explicit
from ..op.op import extern, view, write_in_order
from .arithmetic import absolute, add, cast, div, eq, mul, neg, where
from .creation import full
from .views import contiguous


def _real_type(x):
    return None, x.dtype.to_real()


def _complex_type(x):
    return None, x.dtype.to_complex()


def zeros_like(g):
    return full(tuple(g.shape), 0, g.dtype.to_real(), g.device)


@view(promote=_real_type)
def view_as_real(shape, strides):
    """(*, ) complex as (*, 2) real over the same memory."""
    return (*shape, 2), (*[2 * s for s in strides], 1), 0


@view(promote=_complex_type)
def view_as_complex(shape, strides):
    """(*, 2) real as (*,) complex over the same memory; the last stride is 1 and the others are even."""
    return tuple(shape[:-1]), tuple([s // 2 for s in strides[:-1]]), 0


write_in_order(view_as_complex, contiguous)


@view(name="real", promote=_real_type)
def real(shape, strides):
    return tuple(shape), tuple([2 * s for s in strides]), 0


@view(name="imag", promote=_real_type)
def imag(shape, strides):
    return tuple(shape), tuple([2 * s for s in strides]), 1


@extern(name="complex", meta=lambda re, im: re.shape, promote=lambda re, im: (None, re.dtype.to_complex()))
def complex_of(re, im):
    """re + i * im, of equal sizes and types."""
    kind = np.dtype(np.complex128 if re.dtype.itemsize > 4 else np.complex64)
    out = native.empty(np.broadcast_shapes(re.shape, im.shape), kind)
    out.real, out.imag = re, im
    return out


@complex_of.grad("re")
@explicit
def _(g):
    return real(g)


@complex_of.grad("im")
@explicit
def _(g):
    return imag(g)


@extern(meta=lambda x: x.shape)
def conj(x):
    """The conjugate, as a copy."""
    return np.conjugate(x)


conj.numpy(np.conjugate)


_conjugate.append(conj)


@conj.grad("x")
@explicit
def _(g):
    return conj(g)


@extern(meta=lambda x: x.shape, promote=_real_type)
def angle(x):
    """The argument of a complex number, in radians."""
    return np.asarray(np.angle(x), x.real.dtype)


@angle.grad("x")
@explicit
def _(g, x):
    """d angle = (x dy - y dx) / |z|^2: i z / |z|^2, and 0 at 0."""
    size = absolute(x)
    scale = where(eq(size, 0), 0.0, div(g, mul(size, size)))
    return complex_of(neg(mul(imag(x), scale)), mul(real(x), scale))


@extern(meta=lambda x: x.shape)
def sgn(x):
    """z / |z|, and 0 at 0. Denormal numbers are made larger first: their sizes have no reciprocals."""
    size = np.abs(x)
    small = (size < np.finfo(size.dtype).tiny) & (size > 0)
    if np.any(small):
        x = np.where(small, x * 2.0**64, x)
        size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size)).astype(x.dtype)


@sgn.grad("x")
@explicit
def _(g, x, out):
    """(g - Re(g conj(s)) s) / |z|"""
    size = absolute(x)
    along = cast(real(mul(g, conj(out))), g.dtype)
    rest = div(add(g, neg(mul(along, out))), where(eq(size, 0), 1.0, size))
    return where(eq(size, 0), 0.0, rest)


def _with_zero(g, first):
    """g as the real (or imaginary) part of a complex tensor."""
    return complex_of(g, zeros_like(g)) if first else complex_of(zeros_like(g), g)


real.grads.clear(), imag.grads.clear(), view_as_real.grads.clear(), view_as_complex.grads.clear()
real.grad("x")(explicit(lambda g: _with_zero(g, True)))
imag.grad("x")(explicit(lambda g: _with_zero(g, False)))
view_as_real.grad("x")(explicit(lambda g: view_as_complex(contiguous(g))))
view_as_complex.grad("x")(explicit(lambda g: view_as_real(g)))


for _op in (view_as_real, view_as_complex):  # which show all there is
    _op.put.grad("base")(lambda g: full(tuple(g.shape), 0, g.dtype, g.device))
for _op in (view_as_real, view_as_complex, real, imag):  # writes through these views
    for _formula in _op.put.grads.values():
        _formula.explicit = True


def _pairs(make):
    return make(3, 4, 2), make(2, 2), make(2)


# The four views have no samples: a loop's loads cannot give half of an element. tests/eager/test_complex.py has them.
complex_of.samples(lambda make: [(make(3, 4), make(3, 4)), (make(), make())])
for _op in (conj, angle, sgn):
    _op.samples(lambda make: [(view_as_complex(x),) for x in _pairs(make)])
