"""kl_divergence(p, q), by pairs of types; `register_kl` adds pairs."""

import functools
import math

from .. import api
from .bernoulli import Bernoulli
from .categorical import Categorical
from .continuous_bernoulli import ContinuousBernoulli
from .counts import Geometric, Poisson
from .derived import EULER, Gumbel
from .dirichlet import Beta, Dirichlet
from .gamma import Gamma
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .simple import Cauchy, Exponential, HalfNormal, Laplace
from .transformed_distribution import Independent, TransformedDistribution
from .uniform import Uniform
from .utils import log_softplus, sum_rightmost

_REGISTERED = {}


def register_kl(type_p, type_q):
    """A decorator for f(p, q) of distributions of these types (and of their subclasses). Classes of other libraries may stand
    for theirs, as in PyTorch."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError(f"Expected type_p and type_q to be Distribution subclasses but got {kind}")

    def decorate(fn):
        _REGISTERED[type_p, type_q] = fn
        _found.cache_clear()
        return fn

    return decorate


@functools.lru_cache(None)
def _found(type_p, type_q):
    """The registered pair that is nearest in both orders of inheritance."""
    pairs = [
        (type_p.__mro__.index(a) + type_q.__mro__.index(b), a, b)
        for a, b in _REGISTERED
        if issubclass(type_p, a) and issubclass(type_q, b)
    ]
    return _REGISTERED[min(pairs, key=lambda each: each[0])[1:]] if pairs else None


def kl_divergence(p, q):
    """The integral of p log(p / q), per batch element."""
    fn = _found(type(p), type(q))
    if fn is None:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")
    return fn(p, q)


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    t1 = p.probs * (log_softplus(-q.logits) - log_softplus(-p.logits))
    t2 = (1 - p.probs) * (log_softplus(q.logits) - log_softplus(p.logits))
    t1 = api.where(p.probs == 0, 0.0, api.where(q.probs == 0, math.inf, t1))
    return t1 + api.where(p.probs == 1, 0.0, api.where(q.probs == 1, math.inf, t2))


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    t = p.probs * (p.logits - q.logits)
    t = api.where(q.probs == 0, math.inf, t)
    return api.where(p.probs == 0, 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(Beta, Beta)
def _beta(p, q):
    total_p, total_q = (d.concentration1 + d.concentration0 for d in (p, q))
    t1 = api.lgamma(q.concentration1) + api.lgamma(q.concentration0) + api.lgamma(total_p)
    t2 = api.lgamma(p.concentration1) + api.lgamma(p.concentration0) + api.lgamma(total_q)
    return (
        t1
        - t2
        + (p.concentration1 - q.concentration1) * api.digamma(p.concentration1)
        + (p.concentration0 - q.concentration0) * api.digamma(p.concentration0)
        + (total_q - total_p) * api.digamma(total_p)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    total = p.concentration.sum(-1)
    t1 = api.lgamma(total) - api.lgamma(q.concentration.sum(-1))
    t2 = (api.lgamma(p.concentration) - api.lgamma(q.concentration)).sum(-1)
    t3 = p.concentration - q.concentration
    return t1 - t2 + (t3 * (api.digamma(p.concentration) - api.digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    return (
        q.concentration * (p.rate / q.rate).log()
        + api.lgamma(q.concentration)
        - api.lgamma(p.concentration)
        + (p.concentration - q.concentration) * api.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, gap = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + gap / q.scale + ratio * api.exp(-gap / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    t1 = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return t1 - (4 * p.scale * q.scale).log()


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - api.log1p(-q.probs) / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    ratio, gap = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -ratio.log() - gap + ratio * EULER + api.exp(gap + api.lgamma(1 + ratio)) - (1 + EULER)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    outside = (q.low > p.low) | (q.high < p.high)
    return api.where(outside, math.inf, ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate_normal(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be computed")
    trace = sum(q._fl_squares(root) for root in p._fl_roots())
    distance = q._fl_squares((q.loc - p.loc).unsqueeze(-1))
    return q._fl_half_log_det() - p._fl_half_log_det() + 0.5 * (trace + distance - p.event_shape[0])


# -- the continuous Bernoulli


def _cross(mean, q):
    """-E log q of a distribution on [0, 1] with this mean."""
    return -mean * q.logits - api.log1p(-q.probs) - q._log_normalizer()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
@register_kl(Beta, ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    return _cross(p.mean, q) - p.entropy()


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p, q):
    outside = (p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)
    return api.where(outside, math.inf, _continuous_bernoulli(p, q))


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of Independent distributions with different numbers of event dims")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if [type(t) for t in p.transforms] != [type(t) for t in q.transforms] or p.event_shape != q.event_shape:
        raise NotImplementedError("KL of distributions with different transforms")
    return kl_divergence(p.base_dist, q.base_dist)
