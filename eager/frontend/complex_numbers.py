"""Complex tensors: parts, construction, conjugates. `real`, `imag`, `view_as_real` and `view_as_complex` are views."""

import math

from .. import dtypes
from ..ops import arithmetic as a, complex_numbers as c, elementary as e
from ..ops.creation import full
from . import public
from .arguments import give, takes_out


def _complex(x, name):
    if not x.dtype.is_complex:
        raise RuntimeError(f"{name} is not implemented for tensors with non-complex dtypes.")
    return x


@public.function
def real(input):
    return c.real(input) if input.dtype.is_complex else input


@public.function
def imag(input):
    return c.imag(_complex(input, "imag"))


@public.function
def view_as_real(input):
    if not input.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return c.view_as_real(input)


@public.function
def view_as_complex(input):
    if input.dtype not in (dtypes.float32, dtypes.float64, dtypes.float16):
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of "
            f"scalar type: {input.dtype.name.capitalize()}"
        )
    if not input.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if input.stride(-1) != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if input.dtype.itemsize < 4:
        raise TypeError(f"view_as_complex: there is no complex type of {input.dtype.name} parts; convert to float32 first")
    if any(step % 2 for n, step in list(zip(input.shape, input.stride()))[:-1] if n != 1) or input.storage_offset() % 2:
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return c.view_as_complex(input)


@public.function
@takes_out
def complex(real, imag):
    _check_parts(real, imag)
    from .shapes import broadcast_tensors

    return c.complex_of(*(broadcast_tensors(real, imag) if real.shape != imag.shape else (real, imag)))


def _check_parts(real, imag):
    if real.dtype is not imag.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {real.dtype.name.capitalize()} but got scalar type "
            f"{imag.dtype.name.capitalize()} for second argument"
        )
    if real.dtype not in (dtypes.float32, dtypes.float64, dtypes.float16):
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{real.dtype.name.capitalize()} and {imag.dtype.name.capitalize()}"
        )


@public.function
@takes_out
def polar(abs, angle):
    _check_parts(abs, angle)
    return complex(a.mul(abs, e.cos(angle)), a.mul(abs, e.sin(angle)))


@public.both
@takes_out
def angle(input):
    """In radians; of real numbers 0 or pi (NaN stays)."""
    if input.dtype.is_complex:
        return c.angle(input)
    x = input if input.dtype.category >= 2 else input.to(dtypes.get_default_dtype())
    return a.where(e.isnan(x), x, a.where(a.lt(x, 0), full((), math.pi, x.dtype, x.device), 0.0))


@public.both
def conj(input):
    return c.conj(input) if input.dtype.is_complex else input


@public.both
@public.in_place
@public.in_place_function
@takes_out
def conj_physical(input):
    return conj(input)


@public.both
def resolve_conj(input):
    return input


@public.both
def resolve_neg(input):
    return input


@public.both
def is_conj(input):
    return False


@public.both
def is_neg(input):
    return False


@public.both
def adjoint(input):
    if input.ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return conj(input).transpose(-2, -1) if input.ndim else conj(input)


@public.both
def isreal(input):
    if not input.dtype.is_complex:
        return full(tuple(input.shape), True, dtypes.bool, input.device)
    return a.eq(c.imag(input), 0)


@public.both
@public.in_place
def sgn(input, *, out=None):
    if input.dtype is dtypes.bool:
        return give(input.clone(), out)
    return give(c.sgn(input) if input.dtype.is_complex else a.sign(input), out)


@public.both
def vdot(input, other, *, out=None):
    from .products import dot

    return dot(conj(input), other, out=out)


public.methods(
    real=property(real, lambda self, value: real(self).copy_(value)),
    imag=property(imag, lambda self, value: imag(self).copy_(value)),
    mH=property(adjoint),
)
