"""Draws from further distributions: gamma, Dirichlet, Poisson, binomial, and in-place fills with geometric, log-normal
and Cauchy numbers."""

import numpy as np

from .. import dtypes
from ..ops import arithmetic as a, elementary as e, sampling as s
from ..random import draw
from ..tensor import Tensor
from . import public
from .host_fallback import on_host
from .random import rand_like


def _standard_gamma(input, generator=None):
    return s.gamma_draw(input, *draw(generator))


def _sample_dirichlet(input, generator=None):
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
    return self.copy_(e.ceil(a.div(e.log(_inside(self, generator)), float(np.log1p(-p)))).clamp(min=1))


@public.method
def log_normal_(self, mean=1, std=2, *, generator=None):
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return self.copy_(e.exp(self.new_empty(self.shape).normal_(mean, std, generator=generator)))


@public.method
@public.small
def cauchy_(self, median=0, sigma=1, *, generator=None):
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return self.copy_(a.add(a.mul(e.tan(a.mul(a.sub(_inside(self, generator), 0.5), np.pi)), sigma), median))
