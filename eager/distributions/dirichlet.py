"""Dirichlet(concentration): points of the simplex; Beta is its case of two."""

from .. import api
from ..frontend.shapes import one_hot
from . import constraints
from .distribution import ExponentialFamily
from .utils import broadcast_all


def draw(concentration):
    gammas = api._standard_gamma(concentration)
    return gammas / gammas.sum(-1, keepdim=True)


class Dirichlet(ExponentialFamily):
    """Points of the simplex. `concentration`: (*batch, k), positive; the event shape is (k,)."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support, has_rsample = constraints.simplex, True

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def rsample(self, sample_shape=()):
        return draw(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._fl_validate(value)
        a = self.concentration
        return api.xlogy(a - 1.0, value).sum(-1) + api.lgamma(a.sum(-1)) - api.lgamma(a).sum(-1)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))

    @property
    def mode(self):
        m = (self.concentration - 1).clamp(min=0.0)
        mode = m / m.sum(-1, True)
        flat = (self.concentration < 1).all(-1, keepdim=True)
        top = one_hot(mode.argmax(-1), self.concentration.shape[-1]).to(mode)
        return api.where(flat, top, mode)

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self):
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        return api.lgamma(a).sum(-1) - api.lgamma(total) - (k - total) * api.digamma(total) - ((a - 1.0) * api.digamma(a)).sum(-1)


class Beta(ExponentialFamily):
    """Draws in (0, 1) with densities proportional to `x**(concentration1 - 1) * (1 - x)**(concentration0 - 1)`; both
    positive, broadcast to the batch shape."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support, has_rsample = constraints.unit_interval, True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self._dirichlet = Dirichlet(api.stack(broadcast_all(concentration1, concentration0), -1), validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        return new

    def _fl_parameters(self):
        return ()

    concentration1 = property(lambda self: self._dirichlet.concentration[..., 0])
    concentration0 = property(lambda self: self._dirichlet.concentration[..., 1])
    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    mode = property(lambda self: self._dirichlet.mode[..., 0])

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        self._fl_validate(value)
        return self._dirichlet.log_prob(api.stack([value, 1.0 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()
