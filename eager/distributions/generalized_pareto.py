"""GeneralizedPareto(loc, scale, concentration): tails of exceedances; exponential for concentration 0."""

import math

from .. import api
from ..sizes import Size
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all


class GeneralizedPareto(Distribution):
    """Excesses over a threshold. `loc` (the threshold), `scale` (positive) and `concentration` (the shape): broadcast to the
    batch shape."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = self.loc - self.scale / api.where(self.concentration < 0, self.concentration, -1.0)
        return constraints.interval(self.loc, api.where(self.concentration < 0, end, math.inf))

    def _fl_shape(self):
        """(whether it is 0, the concentration with 1 in place of 0)"""
        zero = api.isclose(self.concentration, api.zeros_like(self.concentration))
        return zero, api.where(zero, 1.0, self.concentration)

    def rsample(self, sample_shape=Size()):
        return self.icdf(api.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def _fl_exceedance(self, value):
        """-log(1 - cdf)"""
        zero, c = self._fl_shape()
        y = (value - self.loc) / self.scale
        return api.where(zero, y - self.concentration * y * y / 2, api.log1p(c * y) / c)

    def log_prob(self, value):
        self._fl_validate(value)
        zero, c = self._fl_shape()
        y = (value - self.loc) / self.scale
        at_end = api.logical_and(c == -1, c * y == -1)  # (of the uniform distribution, whose density has no logarithm in it)
        log = api.log1p(api.where(at_end, 0.0, c * y))
        near = (1 + self.concentration) * (y - self.concentration * y * y / 2)
        return -self.scale.log() - api.where(zero, near, log + log / c)

    def log_survival_function(self, value):
        self._fl_validate(value)
        return -self._fl_exceedance(value)

    def log_cdf(self, value):
        return api.log1p(-self.log_survival_function(value).exp())

    def cdf(self, value):
        return self.log_cdf(value).exp()

    def icdf(self, value):
        zero, c = self._fl_shape()
        steps = -api.log1p(-value)
        return self.loc + self.scale * api.where(zero, steps + self.concentration * steps * steps / 2, api.expm1(c * steps) / c)

    @property
    def mean(self):
        c = self.concentration
        return api.where(c < 1, self.loc + self.scale / api.where(c < 1, 1 - c, 1.0), math.inf)

    @property
    def variance(self):
        c = self.concentration
        known = api.where(c < 0.5, c, 0.0)
        return api.where(c < 0.5, self.scale.square() / ((1 - known).square() * (1 - 2 * known)), math.inf)

    mode = property(lambda self: self.loc)

    def entropy(self):
        return self.scale.log() + self.concentration + 1
