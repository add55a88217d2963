"""InverseGamma(concentration, rate): 1 / x for x of a Gamma."""

import math

from .. import api
from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform


class InverseGamma(TransformedDistribution):
    """The reciprocal of a Gamma variable. `concentration` and `rate`, both positive: broadcast to the batch shape."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support, has_rsample = constraints.positive, True

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-api.ones((), dtype=base.rate.dtype)), validate_args=validate_args)

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)
    mode = property(lambda self: self.rate / (self.concentration + 1))

    def _fl_where(self, least, formula):
        enough = self.concentration > least
        return api.where(enough, formula(api.where(enough, self.concentration, least + 1.0)), math.inf)

    mean = property(lambda self: self._fl_where(1, lambda a: self.rate / (a - 1)))
    variance = property(lambda self: self._fl_where(2, lambda a: self.rate.square() / ((a - 1).square() * (a - 2))))

    def entropy(self):
        a = self.concentration
        return a + self.rate.log() + api.lgamma(a) - (1 + a) * api.digamma(a)
