"""Distributions that are transforms of simpler ones: log-normal, Gumbel, Weibull, Pareto, Kumaraswamy, relaxed ones."""

import math

from .. import api
from ..sizes import Size
from . import constraints
from .bernoulli import ProbsOrLogits
from .categorical import Categorical, OverCategories
from .distribution import Distribution, LocationScale
from .normal import Normal
from .simple import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform, PowerTransform, SigmoidTransform
from .uniform import Uniform
from .utils import broadcast_all, clamp_probs, open_uniform

EULER = 0.57721566490153286060


def _log(x):
    return math.log(x) if isinstance(x, (int, float)) else x.log()


class LogNormal(TransformedDistribution):
    """The exponential of a normal variable with mean `loc` and standard deviation `scale`: both broadcast to the batch shape."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support, has_rsample = constraints.positive, True

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: (self.loc + self.scale.pow(2) / 2).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())
    variance = property(lambda self: api.expm1(self.scale.pow(2)) * (2 * self.loc + self.scale.pow(2)).exp())

    def entropy(self):
        return self.base_dist.entropy() + self.loc


class Gumbel(LocationScale):
    """The largest of many draws. `loc` (the mode) and `scale` (positive): broadcast to the batch shape."""

    mean = property(lambda self: self.loc + self.scale * EULER)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: math.pi / math.sqrt(6) * self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def rsample(self, sample_shape=Size()):
        u = open_uniform(self._extended_shape(sample_shape), self.loc)
        return self.loc - self.scale * (-u.log()).log()

    def log_prob(self, value):
        self._fl_validate(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def cdf(self, value):
        return (-(-(value - self.loc) / self.scale).exp()).exp()

    def icdf(self, value):
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self):
        return self.scale.log() + (1 + EULER)


class Weibull(TransformedDistribution):
    """Times to failure. `scale` and `concentration` (the shape), both positive: broadcast to the batch shape."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support, has_rsample = constraints.positive, True

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(api.ones_like(self.scale), validate_args=validate_args)
        parts = [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)]
        super().__init__(base, parts, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        made = Weibull(self.scale.expand(batch_shape), self.concentration.expand(batch_shape), validate_args=False)
        return self._fl_filled(Weibull, made, _instance)

    def _fl_moment(self, k):
        return api.exp(api.lgamma(1 + k * self.concentration.reciprocal()))

    mean = property(lambda self: self.scale * self._fl_moment(1))
    variance = property(lambda self: self.scale.pow(2) * (self._fl_moment(2) - self._fl_moment(1).pow(2)))
    mode = property(lambda self: self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration.reciprocal())

    def entropy(self):
        inverse = self.concentration.reciprocal()
        return EULER * (1 - inverse) + api.log(self.scale * inverse) + 1


class Pareto(TransformedDistribution):
    """A power law above `scale`. `scale` and `alpha` (the exponent), both positive: broadcast to the batch shape."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        made = Pareto(self.scale.expand(batch_shape), self.alpha.expand(batch_shape), validate_args=False)
        return self._fl_filled(Pareto, made, _instance)

    mode = property(lambda self: self.scale)

    @property
    def mean(self):
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def variance(self):
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    def entropy(self):
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(TransformedDistribution):
    """Draws in (0, 1) with the cumulative function `1 - (1 - x**concentration1)**concentration0`; both positive, broadcast to
    the batch shape."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support, has_rsample = constraints.unit_interval, True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(api.zeros_like(self.concentration0), api.ones_like(self.concentration0), validate_args=False)
        parts = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(base, parts, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        made = Kumaraswamy(self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape), False)
        return self._fl_filled(Kumaraswamy, made, _instance)

    def _fl_moment(self, n):
        a = 1 + n / self.concentration1
        log = api.lgamma(a) + api.lgamma(self.concentration0) - api.lgamma(a + self.concentration0)
        return self.concentration0 * log.exp()

    mean = property(lambda self: self._fl_moment(1))
    variance = property(lambda self: self._fl_moment(2) - self.mean.pow(2))

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        inside = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return api.where((a < 1) | (b < 1), float("nan"), inside)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        harmonic = api.digamma(b + 1) + EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class LogitRelaxedBernoulli(ProbsOrLogits, Distribution):
    """Logits of RelaxedBernoulli. `temperature`: positive; `probs` or `logits`: of the batch shape."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        self._fl_take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(api.rand(shape, dtype=probs.dtype))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value):
        self._fl_validate(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return _log(self.temperature) + difference - 2 * difference.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A differentiable Bernoulli with draws in (0, 1). `temperature`: positive, near 0 for draws near 0 and 1; `probs` or
    `logits`: of the batch shape."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support, has_rsample = constraints.unit_interval, True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)


class ExpRelaxedCategorical(OverCategories):
    """Logarithms of RelaxedOneHotCategorical. `temperature`: positive; `probs` or `logits`: (*batch, k)."""

    _fl_own = "temperature"
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support, has_rsample = constraints.real_vector, True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._categorical, self.temperature = Categorical(probs, logits), temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def rsample(self, sample_shape=Size()):
        u = clamp_probs(api.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value):
        k = self._event_shape[0]
        self._fl_validate(value)
        logits, value = broadcast_all(self.logits, value)
        scale = math.lgamma(k) + (k - 1) * _log(self.temperature)
        score = logits - value * self.temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """A differentiable OneHotCategorical with draws in the simplex. `temperature`: positive; `probs` or `logits`: (*batch,
    k), the event shape is (k,)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support, has_rsample = constraints.simplex, True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits), ExpTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)
