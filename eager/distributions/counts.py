"""Distributions of counts: geometric, Poisson, binomial, negative binomial, multinomial."""

import math

from .. import api
from ..autograd import no_grad
from ..asserts import holds
from ..sizes import Size
from . import constraints
from .bernoulli import ProbsOrLogits, binary_entropy
from .categorical import Categorical, OverCategories
from .distribution import Distribution, ExponentialFamily
from .gamma import gamma_draws
from .utils import broadcast_all, log_softplus, open_uniform


class Geometric(ProbsOrLogits, Distribution):
    """Failures before the first success. `probs` (of a success, in (0, 1]) or `logits`: of the batch shape."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._fl_take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None and not holds(self.probs > 0):
            raise ValueError(
                f"Expected parameter probs of distribution {self!r} to be positive but found invalid values:\n{self.probs}"
            )

    mean = property(lambda self: 1.0 / self.probs - 1.0)
    mode = property(lambda self: api.zeros_like(self.probs))
    variance = property(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    def sample(self, sample_shape=Size()):
        with no_grad():
            u = open_uniform(self._extended_shape(sample_shape), self.probs)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        self._fl_validate(value)
        value, probs = broadcast_all(value, self.probs)
        certain = (probs == 1) & (value == 0)
        return value * (-api.where(certain, 0, probs)).log1p() + self.probs.log()

    def entropy(self):
        return binary_entropy(self.logits, self.probs) / self.probs


class Poisson(ExponentialFamily):
    """Counts of events. `rate` (their mean, not negative): of the batch shape."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())

    def sample(self, sample_shape=Size()):
        with no_grad():
            return api.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._fl_validate(value)
        rate, value = broadcast_all(self.rate, value)
        return api.xlogy(value, rate) - rate - api.lgamma(value + 1)


class Binomial(ProbsOrLogits, Distribution):
    """Successes in `total_count` trials. `total_count`, and `probs` (of a success) or `logits`: broadcast to the batch shape."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        given = probs if logits is None else logits
        if given is not None:
            self.total_count, given = broadcast_all(total_count, given)
            self.total_count = self.total_count.to(given.dtype)
        self._fl_take(
            given if logits is None else None,
            given if logits is not None and probs is None else (logits if probs is not None else None),
        )
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return api.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        self._fl_validate(value)
        n = self.total_count
        choose = api.lgamma(n + 1) - api.lgamma(value + 1) - api.lgamma(n - value + 1)
        return choose + value * self.logits - n * log_softplus(self.logits)

    def enumerate_support(self, expand=True):
        n = int(self.total_count.max())
        if not int(self.total_count.min()) == n:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = api.arange(1 + n, dtype=self._param.dtype).reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values

    def entropy(self):
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)


class NegativeBinomial(ProbsOrLogits, Distribution):
    """Successes before `total_count` failures. `total_count`, and `probs` (of a success, in [0, 1)) or `logits`: broadcast to
    the batch shape."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self.total_count, given = broadcast_all(total_count, probs if logits is None else logits)
        self.total_count = self.total_count.to(given.dtype)
        self._fl_take(given if logits is None else None, given if probs is None else None)
        super().__init__(self._param.size(), validate_args=validate_args)

    mean = property(lambda self: self.total_count * api.exp(self.logits))
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = property(lambda self: self.mean / api.sigmoid(-self.logits))

    def sample(self, sample_shape=Size()):
        with no_grad():
            return api.poisson(gamma_draws(self.total_count, api.exp(-self.logits), self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._fl_validate(value)
        n = self.total_count
        plain = -n * log_softplus(self.logits) - value * log_softplus(-self.logits)
        choose = -api.lgamma(n + value) + api.lgamma(1.0 + value) + api.lgamma(n)
        return plain - api.where(n + value == 0.0, 0.0, choose)


class Multinomial(OverCategories):
    """Counts of each of k categories in `total_count` draws. `total_count`: an int; `probs` or `logits`: (*batch, k), the
    event shape is (k,)."""

    _fl_own = "total_count"
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count, self._categorical = total_count, Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    def sample(self, sample_shape=Size()):
        with no_grad():
            drawn = self._categorical.sample(Size((self.total_count,)) + Size(sample_shape))
            drawn = drawn.permute(*range(1, drawn.dim()), 0)
            counts = api.zeros((*drawn.shape[:-1], self._event_shape[0]), dtype=drawn.dtype, device=drawn.device)
            return api.scatter_add(counts, -1, drawn, api.ones_like(drawn)).to(self.probs.dtype)

    def log_prob(self, value):
        self._fl_validate(value)
        logits, value = broadcast_all(self.logits, value)
        logits = api.where((value == 0) & (logits == -float("inf")), 0.0, logits)
        return api.lgamma(value.sum(-1) + 1) - api.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)

    def entropy(self):
        """n H(p) - log n!, plus the expected log factorials, which are binomial in each coordinate."""
        n, p = self.total_count, self.probs
        counts = api.arange(1, n + 1, dtype=p.dtype).reshape((-1,) + (1,) * p.dim())
        weights = Binomial(n, probs=p, validate_args=False).log_prob(counts).exp()
        return n * self._categorical.entropy() - math.lgamma(n + 1) + (weights * api.lgamma(counts + 1)).sum((0, -1))
