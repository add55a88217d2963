"""Draws from further distributions: gamma, Dirichlet, Poisson, binomial, and in-place fills with geometric, log-normal
and Cauchy numbers."""

import numpy as np

from .. import dtypes, random
from ..ops import arithmetic as a, elementary as e, sampling as s
from ..random import draw
from ..tensor import Tensor
from . import public
from .host_fallback import on_host
from .random import rand_like


def _in_order(kind, like, generator, *numbers):
    """PyTorch's draws of a kind into `like`, or None where Philox draws. A capture breaks here."""
    if random.in_order is None or like._fl_device.type != "cpu":
        return None
    like._values(f"{kind} numbers of PyTorch")
    stream = random.in_order.Stream(generator or random.default_generator)
    return like.copy_(Tensor._fl_from_array(stream.of_kind(kind, random.in_order.of_tensor(like), *numbers), like.dtype))


def _transformed(kind, input, generator, least=0.0):
    """PyTorch's draws with a parameter per element, in doubles, or None where Philox draws."""
    if random.in_order is None or input._fl_device.type != "cpu":
        return None
    stream = random.in_order.Stream(generator or random.default_generator)
    return np.maximum(stream.transformed(kind, input._values(f"{kind} numbers of PyTorch").astype(np.float64)), least)


def _standard_gamma(input, generator=None):
    if random.in_order is not None and input._fl_device.type == "cpu":
        input._values("gamma numbers of PyTorch")
        return s.gamma_draw(input, random.in_order.Stream(generator or random.default_generator), None)
    return s.gamma_draw(input, *draw(generator))


def _sample_dirichlet(input, generator=None):
    found = _transformed("gamma", input, generator, np.finfo(np.float64).tiny)
    if found is not None:
        return Tensor._fl_from_array((found / found.sum(-1, keepdims=True)).astype(input.dtype.numpy), input.dtype)
    gammas = s.gamma_draw(input.detach(), *draw(generator))
    return a.div(gammas, gammas.sum(-1, keepdim=True))


@public.small
@public.function
@on_host
def poisson(input, generator=None):
    """Draws with these rates, in input's type."""
    rates = input._values("poisson()")
    if rates.size and rates.min() < 0:
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    values = _transformed("poisson", input, generator)
    if values is None:
        values = s.numpy_generator(*draw(generator)).poisson(rates.astype(np.float64))
    return Tensor._fl_from_array(np.asarray(values).astype(rates.dtype), input.dtype)


@public.function
@on_host
def binomial(count, prob, generator=None):
    n, p = count._values("binomial()"), prob._values("binomial()")
    values = s.numpy_generator(*draw(generator)).binomial(n.astype(np.int64), p.astype(np.float64))
    return Tensor._fl_from_array(np.asarray(values).astype(n.dtype), count.dtype)


def _inside(self, generator):
    """Uniform numbers in (0, 1), of a floating type."""
    like = self if self.dtype.is_floating_point else self.new_empty(self.shape, dtype=dtypes.float32)
    return rand_like(like.detach(), generator=generator).clamp(min=dtypes.finfo(like.dtype).tiny)


@public.method
@public.small
def geometric_(self, p, *, generator=None):
    """How many trials with success probability p it takes."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    found = _in_order("geometric", self, generator, p)
    if found is not None:
        return found
    return self.copy_(e.ceil(a.div(e.log(_inside(self, generator)), float(np.log1p(-p)))).clamp(min=1))


@public.method
def log_normal_(self, mean=1, std=2, *, generator=None):
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    found = _in_order("log_normal", self, generator, mean, std)
    if found is not None:
        return found
    return self.copy_(e.exp(self.new_empty(self.shape).normal_(mean, std, generator=generator)))


@public.method
@public.small
def cauchy_(self, median=0, sigma=1, *, generator=None):
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    found = _in_order("cauchy", self, generator, median, sigma)
    if found is not None:
        return found
    return self.copy_(a.add(a.mul(e.tan(a.mul(a.sub(_inside(self, generator), 0.5), np.pi)), sigma), median))
