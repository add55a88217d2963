"""Normal: N(loc, scale^2)."""

import math

from .. import api
from ..sizes import Size
from .distribution import ExponentialFamily, LocationScale


class Normal(LocationScale, ExponentialFamily):
    """The normal distribution. `loc` (the mean) and `scale` (the standard deviation, positive): broadcast to the batch shape."""

    mean = mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale.pow(2))

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        return self.loc + api.randn(shape, dtype=self.loc.dtype) * self.scale

    def log_prob(self, value):
        self._fl_validate(value)
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value):
        self._fl_validate(value)
        return 0.5 * (1 + api.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value):
        return self.loc + self.scale * api.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + api.log(self.scale)
