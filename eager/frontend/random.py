"""Random tensors. `generator=None` draws from the default generator."""

import math

import numpy as np

from .. import dtypes, random
from ..memory_formats import contiguous_format, preserve_format
from ..ops import creation, random as r
from ..ops.arithmetic import cast, lt
from ..ops.complex_numbers import view_as_complex
from ..ops.checks import check_within
from ..tensor import Tensor
from . import public
from .arguments import c_name, device_of, dtype_of, give
from ..op.meta import broadcast_shapes
from .creation import _factory_options, _in_likeness, _sizes, empty_like, finished


@public.small
@public.function
def rand(*size, generator=None, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False):
    dtype, device = _factory_options(dtype, device)
    return finished(_drawn(r.rand, _sizes(size), dtype, device, generator), requires_grad, out, pin_memory, layout)


@public.small
@public.function
def randn(*size, generator=None, dtype=None, device=None, requires_grad=False, out=None, layout=None, pin_memory=False):
    dtype, device = _factory_options(dtype, device)
    return finished(_drawn(r.randn, _sizes(size), dtype, device, generator), requires_grad, out, pin_memory, layout)


def _drawn(record, size, dtype, device, generator):
    """Floating numbers; complex ones have parts that are drawn apart (of a normal one each has half of the variance)."""
    if dtype.is_complex:
        parts = record((*size, 2), dtype.to_real(), device, generator)
        return view_as_complex(parts * 0.5**0.5 if record is r.randn else parts)
    if not dtype.is_floating_point:
        raise RuntimeError(f"{record.name}: dtype must be a floating point type, got {dtype}")
    return record(size, dtype, device, generator)


def _filled_like(input, dtype, device, memory_format, layout, pin_memory):
    """A tensor to fill in place, where what PyTorch draws depends on how it lies in memory; else None."""
    if random.in_order is None or dtype_of(dtype, input.dtype).is_complex:
        return None
    if input.is_contiguous() and memory_format in (None, preserve_format, contiguous_format):
        return None
    return empty_like(input, dtype=dtype, device=device, memory_format=memory_format, layout=layout, pin_memory=pin_memory)


def _drawn_like(draw, fill, input, dtype, device, requires_grad, memory_format, generator, layout, pin_memory):
    """What `draw` gives in input's likeness, or `fill` with the parameters 0 and 1 where memory order counts."""
    made = _filled_like(input, dtype, device, memory_format, layout, pin_memory)
    if made is not None:
        return fill.inplace(made, 0.0, 1.0, generator).requires_grad_(requires_grad)

    def make(size, d, where):
        return _drawn(draw, size, d, where, generator)

    return _in_likeness(input, dtype, device, make, requires_grad, pin_memory, layout, memory_format)


@public.function
def rand_like(
    input, *, dtype=None, device=None, requires_grad=False, memory_format=None, generator=None, layout=None, pin_memory=False
):
    return _drawn_like(r.rand, r.uniform, input, dtype, device, requires_grad, memory_format, generator, layout, pin_memory)


@public.function
def randn_like(
    input, *, dtype=None, device=None, requires_grad=False, memory_format=None, generator=None, layout=None, pin_memory=False
):
    return _drawn_like(r.randn, r.normal, input, dtype, device, requires_grad, memory_format, generator, layout, pin_memory)


@public.small
@public.function
def randint(
    low=0,
    high=None,
    size=None,
    *,
    generator=None,
    dtype=None,
    device=None,
    requires_grad=False,
    out=None,
    layout=None,
    pin_memory=False,
):
    """randint(high, size), randint(low, high, size)."""
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    dtype, device = _factory_options(dtype or dtypes.int64, device)
    _check_range(low, high, dtype)
    return finished(r.randint(low, high, _sizes((size,)), dtype, device, generator), requires_grad, out, pin_memory, layout)


def _check_range(low, high, dtype):
    """Whole numbers from `low` to below `high` exist, and the type holds them."""
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    least, most = _limits(dtype)
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if type(bound) is int and not least <= bound <= most:
            raise RuntimeError(f"{name} is out of bounds for {dtype.c_name}")


def _limits(dtype):
    if dtype is dtypes.bool:
        return 0, 1
    limits = dtypes.finfo(dtype) if dtype.is_floating_point else dtypes.iinfo(dtype)
    return limits.min, limits.max


@public.function
def randint_like(
    input, low=None, high=None, *, dtype=None, device=None, generator=None, requires_grad=False, memory_format=None, layout=None
):
    if low is None and high is None:
        raise TypeError("randint_like() missing 1 required argument: 'high'")
    low, high = (0, low) if high is None else (low or 0, high)
    _check_range(low, high, dtype_of(dtype, input.dtype))
    return _in_likeness(
        input,
        dtype,
        device,
        lambda size, d, where: r.randint(low, high, size, d, where, generator),
        requires_grad,
        False,
        layout,
        memory_format,
    )


def _elsewhere(device):
    """A device that is not the host's, or None."""
    place = device_of(device)
    return None if place.type == "cpu" else place


@public.small
@public.function
def randperm(n, *, generator=None, dtype=None, device=None, out=None, requires_grad=False, layout=None, pin_memory=False):
    return finished(
        r.randperm(_sizes((n,))[0], dtype_of(dtype, dtypes.int64), _elsewhere(device), generator),
        requires_grad,
        out,
        pin_memory,
        layout,
    )


@public.small
@public.function
def normal(mean, std=1.0, size=None, *, generator=None, dtype=None, device=None, out=None, requires_grad=False):
    _check_std(std)
    if size is not None:
        dtype, device = _factory_options(dtype, device)
        if random.in_order is None or dtype.is_complex:
            made = r.randn(_sizes((size,)), dtype, device, generator) * std + mean
        else:
            made = r.normal(creation.empty(_sizes((size,)), dtype, device), mean, std, generator)
        made = give(made, out)
        return made.requires_grad_() if requires_grad else made
    if random.in_order is not None:
        return give(_normal_in_order(mean, std, generator), out)
    return give(r.normal_around(mean, std, generator), out)


def _normal_in_order(mean, std, generator):
    """Standard numbers, or those of a deviation that is a number, then what tensors do to them."""
    first = mean if isinstance(mean, Tensor) else std
    sizes = broadcast_shapes([tuple(t.shape) for t in (mean, std) if isinstance(t, Tensor)], "normal")
    plain = not isinstance(std, Tensor)
    made = r.normal(creation.empty(sizes, first.dtype, first.device), 0.0, std if plain else 1.0, generator)
    made = made if plain else made * std.detach()
    return made + (mean.detach() if isinstance(mean, Tensor) else mean)


def _check_std(std):
    if isinstance(std, Tensor):
        if not std.dtype.is_complex:
            check_within(std, 0, None, "normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")


def _plain(*numbers):
    """Numbers for those that are given as tensors of one element."""
    return [n.item() if isinstance(n, Tensor) else n for n in numbers]


@public.small
@public.both
def bernoulli(input, p=None, *, generator=None, out=None):
    if p is not None:
        _check_probability(p)
        return give(r.bernoulli_like(input, p, generator), out)
    _check_probabilities(input)
    if random.in_order is not None:
        return give(_below(r.rand(tuple(input.shape), _drawn_type(input), input.device, generator), input, input.dtype), out)
    return give(r.bernoulli(input, generator), out)


def _drawn_type(p):
    """The type of the uniform numbers that PyTorch compares with probabilities."""
    return dtypes.float64 if p.dtype is dtypes.float64 else dtypes.float32


def _below(u, p, dtype):
    return cast(lt(u, cast(p.detach(), u.dtype)), dtype)


def _check_probabilities(p):
    check_within(p, 0, 1, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.")


def _check_probability(p):
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")


@public.small
@public.both
def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {input.dtype}")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > input.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    r.check_weights(input, num_samples, replacement)
    return give(r.multinomial(input.detach(), num_samples, replacement, generator), out)


# -- in-place methods


@public.small
@public.method
def uniform_(self, a=0.0, b=1.0, *, generator=None, **names):
    a, b = _plain(*_bounds("uniform_", a, b, names))
    if self.dtype.category == 2:
        most = dtypes.finfo(self.dtype).max
        for name, bound in (("from", a), ("to", b)):
            if isinstance(bound, (int, float)) and math.isfinite(bound) and abs(bound) > most:
                raise RuntimeError(f"{name} is out of bounds for {c_name(self.dtype)}")
    return r.uniform.inplace(self, a, b, generator)


@public.small
@public.method
def normal_(self, mean=0.0, std=1.0, *, generator=None):
    mean, std = _plain(mean, std)
    _check_std(std)
    return r.normal.inplace(self, mean, std, generator)


@public.small
@public.method
def exponential_(self, lambd=1.0, *, generator=None):
    return r.exponential.inplace(self, *_plain(lambd), generator)


@public.small
@public.method
def bernoulli_(self, p=0.5, *, generator=None):
    if isinstance(p, Tensor):
        _check_probabilities(p)
        if random.in_order is not None:
            u = rand_like(self, dtype=_drawn_type(p), generator=generator)
            return self.copy_(_below(u, p.expand(*self.shape), self.dtype))
        return self.copy_(r.bernoulli(p.expand(*self.shape), generator))
    _check_probability(p)
    return r.bernoulli_like.inplace(self, p, generator)


def _bounds(name, low, high, names):
    """The bounds, which go by `from` (no name for a parameter in Python) and `to` as well."""
    for given in names.keys() - {"from", "to"}:
        raise TypeError(f"{name}() got an unexpected keyword argument '{given}'")
    return names.get("from", low), names.get("to", high)


@public.small
@public.method
def random_(self, low=None, high=None, *, generator=None, **names):
    """random_(to), random_(from, to); without bounds: all values that the type can hold exactly."""
    low, high = _plain(*_bounds("random_", low, high, names))
    if high is None:
        if low is None and random.in_order is not None:
            return r.random_integers.inplace(self, 0, None, generator)
        low, high = (0, low) if low is not None else (0, _span(self.dtype))
    _check_range(low, high, self.dtype)
    return r.random_integers.inplace(self, low, high, generator)


def _span(dtype):
    if dtype.is_floating_point:
        return 2 ** (np.finfo(dtype.compute.numpy).nmant + 1)
    return 2 if dtype is dtypes.bool else dtypes.iinfo(dtype).max
