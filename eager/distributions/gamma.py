"""Gamma(concentration, rate) and Chi2."""

from .. import api
from ..sizes import Size
from . import constraints
from .distribution import ExponentialFamily
from .utils import broadcast_all


def gamma_draws(concentration, rate, shape):
    """Gamma's draws of a shape, without an object."""
    value = api._standard_gamma(concentration.expand(shape)) / rate.expand(shape)
    return value.clamp(min=api.finfo(value.dtype).tiny)


class Gamma(ExponentialFamily):
    """Sums of waiting times. `concentration` (the shape) and `rate` (1 / scale), both positive: broadcast to the batch shape."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support, has_rsample = constraints.nonnegative, True

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))

    def rsample(self, sample_shape=Size()):
        return gamma_draws(self.concentration, self.rate, self._extended_shape(sample_shape))

    def log_prob(self, value):
        value = value if hasattr(value, "dtype") else api.tensor(value, dtype=self.rate.dtype)
        self._fl_validate(value)
        return (
            api.xlogy(self.concentration, self.rate)
            + api.xlogy(self.concentration - 1, value)
            - self.rate * value
            - api.lgamma(self.concentration)
        )

    def entropy(self):
        a = self.concentration
        return a - api.log(self.rate) + api.lgamma(a) + (1.0 - a) * api.digamma(a)

    def cdf(self, value):
        self._fl_validate(value)
        return api.igamma(self.concentration, self.rate * value)


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal variables. `df` (positive): of the batch shape."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5 if not hasattr(df, "dtype") else api.full_like(0.5 * df, 0.5), validate_args)

    def _fl_parameters(self):
        return ("concentration", "rate")

    df = property(lambda self: self.concentration * 2)
