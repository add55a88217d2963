"""Continuous distributions by one formula each: exponential, Laplace, Cauchy and the halves, Student's t, F, von Mises."""

import math
from collections.abc import Callable

from .. import api, special
from ..autograd import no_grad
from ..ops.sampling import numpy_generator
from .. import random
from ..random import draw
from ..sizes import Size
from . import constraints
from .distribution import Distribution, ExponentialFamily, LocationScale
from .gamma import Chi2, gamma_draws
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform
from .utils import broadcast_all, open_uniform


class Exponential(ExponentialFamily):
    """Waiting times. `rate` (1 / mean, positive): of the batch shape."""

    arg_constraints = {"rate": constraints.positive}
    support, has_rsample = constraints.nonnegative, True

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = stddev = property(lambda self: self.rate.reciprocal())
    mode = property(lambda self: api.zeros_like(self.rate))
    variance = property(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        return api.empty(shape, dtype=self.rate.dtype).exponential_() / self.rate

    def log_prob(self, value):
        self._fl_validate(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        self._fl_validate(value)
        return 1 - api.exp(-self.rate * value)

    def icdf(self, value):
        return -api.log1p(-value) / self.rate

    def entropy(self):
        return 1.0 - api.log(self.rate)


class Laplace(LocationScale):
    """Two exponential tails around `loc`. `loc` and `scale` (positive): broadcast to the batch shape."""

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale.pow(2))
    stddev = property(lambda self: 2**0.5 * self.scale)

    def rsample(self, sample_shape=Size()):
        u = open_uniform(self._extended_shape(sample_shape), self.loc) * 2 - 1
        return self.loc - self.scale * u.sign() * api.log1p(-u.abs().clamp(max=1 - api.finfo(u.dtype).eps / 2))

    def log_prob(self, value):
        self._fl_validate(value)
        return -api.log(2 * self.scale) - api.abs(value - self.loc) / self.scale

    def cdf(self, value):
        self._fl_validate(value)
        return 0.5 - 0.5 * (value - self.loc).sign() * api.expm1(-(value - self.loc).abs() / self.scale)

    def icdf(self, value):
        term = value - 0.5
        return self.loc - self.scale * term.sign() * api.log1p(-2 * term.abs())

    def entropy(self):
        return 1 + api.log(2 * self.scale)


class Cauchy(LocationScale):
    """A distribution without moments around `loc`. `loc` (the median) and `scale` (half the width at half the height, positive):
    broadcast to the batch shape."""

    mean = property(lambda self: api.full(self._extended_shape(), math.nan, dtype=self.loc.dtype))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: api.full(self._extended_shape(), math.inf, dtype=self.loc.dtype))

    def rsample(self, sample_shape=Size()):
        if random.in_order is not None:
            return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale
        u = open_uniform(self._extended_shape(sample_shape), self.loc)
        return self.loc + api.tan((u - 0.5) * math.pi) * self.scale

    def log_prob(self, value):
        self._fl_validate(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value):
        self._fl_validate(value)
        return api.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return api.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


class _Half(TransformedDistribution):
    """The absolute value of a symmetric distribution around 0."""

    symmetric: Callable
    arg_constraints = {"scale": constraints.positive}
    support, has_rsample = constraints.nonnegative, True

    def __init__(self, scale, validate_args=None):
        super().__init__(self.symmetric(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    scale = property(lambda self: self.base_dist.scale)
    mode = property(lambda self: api.zeros_like(self.scale))

    def log_prob(self, value):
        self._fl_validate(value)
        return api.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value):
        self._fl_validate(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal variable with mean 0 and standard deviation `scale`: of the batch shape."""

    symmetric = Normal
    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))


class HalfCauchy(_Half):
    """The absolute value of a Cauchy variable around 0. `scale` (positive): of the batch shape."""

    symmetric = Cauchy
    mean = property(lambda self: api.full(self._extended_shape(), math.inf, dtype=self.scale.dtype))
    variance = property(lambda self: self.base_dist.variance)


class StudentT(Distribution):
    """Student's t. `df` (degrees of freedom), `loc` and `scale` (df and scale positive): broadcast to the batch shape."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support, has_rsample = constraints.real, True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    mean = property(lambda self: api.where(self.df <= 1, math.nan, self.loc))
    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        return api.where(self.df > 2, finite, api.where(self.df > 1, math.inf, math.nan))

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        x = api.randn(shape, dtype=self.df.dtype) if random.in_order is not None else None  # (PyTorch draws it first)
        z = Chi2(self.df, validate_args=False).rsample(sample_shape)
        x = api.randn(shape, dtype=self.df.dtype) if x is None else x
        return self.loc + self.scale * x * api.rsqrt(z / self.df)

    def _fl_normaliser(self):
        return (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + api.lgamma(0.5 * self.df)
            - api.lgamma(0.5 * (self.df + 1.0))
        )

    def log_prob(self, value):
        self._fl_validate(value)
        y = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1.0) * api.log1p(y**2.0 / self.df) - self._fl_normaliser()

    def entropy(self):
        lbeta = api.lgamma(0.5 * self.df) + math.lgamma(0.5) - api.lgamma(0.5 * (self.df + 1))
        spread = api.digamma(0.5 * (self.df + 1)) - api.digamma(0.5 * self.df)
        return self.scale.log() + 0.5 * (self.df + 1) * spread + 0.5 * self.df.log() + lbeta


class FisherSnedecor(Distribution):
    """The ratio of two Chi2 variables over their degrees of freedom. `df1` and `df2`, both positive: broadcast to the batch
    shape."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support, has_rsample = constraints.positive, True

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    mean = property(lambda self: api.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan))
    mode = property(lambda self: api.where(self.df1 > 2, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), math.nan))

    @property
    def variance(self):
        n, m = self.df1, self.df2
        return api.where(m > 4, 2 * m.pow(2) * (n + m - 2) / (n * (m - 2).pow(2) * (m - 4)), math.nan)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        x1, x2 = (gamma_draws(half, half, shape) for half in (self.df1 * 0.5, self.df2 * 0.5))
        return x1 / x2.clamp(min=api.finfo(x2.dtype).tiny)

    def log_prob(self, value):
        self._fl_validate(value)
        a, b = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        return (
            api.lgamma(a + b)
            - api.lgamma(a)
            - api.lgamma(b)
            + a * ratio.log()
            + (a - 1) * value.log()
            - (a + b) * api.log1p(ratio * value)
        )


class VonMises(Distribution):
    """A circular distribution around loc; draws by rejection, without gradients. `loc` (an angle) and `concentration`
    (positive): broadcast to the batch shape."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self):
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)

    def log_prob(self, value):
        self._fl_validate(value)
        scaled = api.log(special.i0e(self.concentration)) + self.concentration
        return self.concentration * api.cos(value - self.loc) - math.log(2 * math.pi) - scaled

    def sample(self, sample_shape=Size()):

        with no_grad():
            shape = self._extended_shape(sample_shape)
            loc, kappa = (x.expand(shape).double().numpy() for x in (self.loc, self.concentration))
            return api.tensor(numpy_generator(*draw()).vonmises(loc, kappa), dtype=self.loc.dtype)
