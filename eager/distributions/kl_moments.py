"""Divergences between kinds of distributions: KL(p || q) = -H(p) - E log q, where E log q takes moments of p.

In: a family of p with its moments (E x, the variance, E log x, E exp(-x / s), E |x - m|), a family of q with its log density in
them. Out: `register_kl` of each pair. Where q has no density on all of p's support, the divergence is infinite. The formulas
are those of the densities; the pairs are PyTorch's (torch.distributions.kl).
"""

import math

from .. import api
from .bernoulli import Bernoulli
from .continuous_bernoulli import ContinuousBernoulli
from .counts import Binomial, Poisson
from .derived import EULER, Gumbel, Pareto
from .dirichlet import Beta
from .gamma import Gamma
from .kl import register_kl
from .normal import Normal
from .simple import Exponential, Laplace
from .uniform import Uniform

# -- moments of p that are no property of it

E_LOG = {  # E log x
    Beta: lambda p: api.digamma(p.concentration1) - api.digamma(p.concentration1 + p.concentration0),
    Exponential: lambda p: -EULER - p.rate.log(),
    Gamma: lambda p: api.digamma(p.concentration) - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: (api.xlogy(p.high, p.high) - api.xlogy(p.low, p.low)) / (p.high - p.low) - 1,
}
E_DECAY = {  # E exp(-x / s)
    Exponential: lambda p, s: p.rate / (p.rate + s.reciprocal()),
    Gamma: lambda p, s: (p.rate / (p.rate + s.reciprocal())) ** p.concentration,
    Normal: lambda p, s: api.exp(0.5 * (p.scale / s).square() - p.loc / s),
    Uniform: lambda p, s: s * (api.exp(-p.low / s) - api.exp(-p.high / s)) / (p.high - p.low),
}


def _e_log_complement(p):
    """E log(1 - x) of a uniform p."""
    low, high = 1 - p.high, 1 - p.low
    return (api.xlogy(high, high) - api.xlogy(low, low)) / (p.high - p.low) - 1


# -- E log q


def _exponential(p, q):
    return q.rate.log() - q.rate * p.mean


def _gamma(p, q):
    shape = q.concentration
    return shape * q.rate.log() - api.lgamma(shape) + (shape - 1) * E_LOG[type_of(p)](p) - q.rate * p.mean


def _normal(p, q):
    square = p.variance + (p.mean - q.loc).square()
    return -0.5 * (math.log(2 * math.pi) + square / q.scale.square()) - q.scale.log()


def _pareto(p, q):
    return q.alpha.log() + api.xlogy(q.alpha, q.scale) - (q.alpha + 1) * E_LOG[type_of(p)](p)


def _gumbel(p, q):
    return -q.scale.log() - (p.mean - q.loc) / q.scale - api.exp(q.loc / q.scale) * E_DECAY[type_of(p)](p, q.scale)


def _laplace(p, q):
    """Of a normal p: E |x - m|."""
    gap = p.loc - q.loc
    away = p.scale * math.sqrt(2 / math.pi) * api.exp(-0.5 * (gap / p.scale).square()) + gap * api.erf(
        gap / (p.scale * math.sqrt(2))
    )
    return -(2 * q.scale).log() - away / q.scale


def _beta(p, q):
    """Of a uniform p."""
    a, b = q.concentration1, q.concentration0
    whole = api.lgamma(a + b) - api.lgamma(a) - api.lgamma(b)
    return whole + (a - 1) * E_LOG[Uniform](p) + (b - 1) * _e_log_complement(p)


def _uniform(p, q):
    return -(q.high - q.low).log()


def _poisson(p, q):
    """Of p on 0 and 1, whose factorials are 1."""
    return api.xlogy(p.probs, q.rate) - q.rate


# -- the pairs

ALWAYS = ((Beta, Normal, _normal), (Bernoulli, Poisson, _poisson), (Exponential, Gamma, _gamma), (Exponential, Normal, _normal))
ALWAYS += ((Exponential, Gumbel, _gumbel), (Gamma, Exponential, _exponential), (Gamma, Normal, _normal), (Gamma, Gumbel, _gumbel))
ALWAYS += ((Gumbel, Normal, _normal), (Laplace, Normal, _normal), (Normal, Gumbel, _gumbel), (Normal, Laplace, _laplace))
ALWAYS += ((Beta, Exponential, _exponential), (Beta, Gamma, _gamma), (Uniform, Gumbel, _gumbel), (Uniform, Normal, _normal))
ALWAYS += ((ContinuousBernoulli, Exponential, _exponential), (ContinuousBernoulli, Normal, _normal))
PARTLY = (  # where the divergence is infinite
    (Beta, Uniform, _uniform, lambda p, q: (q.low > 0) | (q.high < 1)),
    (ContinuousBernoulli, Uniform, _uniform, lambda p, q: (q.low > 0) | (q.high < 1)),
    (Pareto, Exponential, _exponential, lambda p, q: p.alpha <= 1),
    (Pareto, Gamma, _gamma, lambda p, q: p.alpha <= 1),
    (Pareto, Normal, _normal, lambda p, q: p.alpha <= 2),
    (Pareto, Pareto, _pareto, lambda p, q: p.scale < q.scale),
    (Uniform, Exponential, _exponential, lambda p, q: p.low < 0),
    (Uniform, Gamma, _gamma, lambda p, q: p.low < 0),
    (Uniform, Beta, _beta, lambda p, q: (p.high > 1) | (p.low < 0)),
    (Uniform, Pareto, _pareto, lambda p, q: p.low < q.scale),
)
NEVER = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def type_of(p):
    """The family of p, which may be a subclass's."""
    return next(kind for kind in type(p).__mro__ if kind in E_LOG or kind in E_DECAY)


def _pair(kind_p, kind_q, e_log_q, infinite=None):
    def divergence(p, q):
        found = -p.entropy() - e_log_q(p, q)
        return found if infinite is None else api.where(infinite(p, q), math.inf, found)

    register_kl(kind_p, kind_q)(divergence)


def _infinite(p, q):
    return api.full(api.broadcast_shapes(p.batch_shape, q.batch_shape), math.inf, dtype=p.mean.dtype)


for _row in (*ALWAYS, *PARTLY):
    _pair(*_row)
for _kind, _others in NEVER.items():
    for _other in _others:
        register_kl(_kind, _other)(_infinite)


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    """Of as many trials; of fewer than p's the divergence is infinite. NotImplementedError where q has more."""
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    found = p.total_count * (p.probs * (p.logits - q.logits) + api.log1p(-p.probs) - api.log1p(-q.probs))
    return api.where(p.total_count > q.total_count, math.inf, found)
