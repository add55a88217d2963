"""ContinuousBernoulli: the density p^x (1-p)^(1-x) on [0, 1], normalised (Loaiza-Ganem and Cunningham, 2019).

Between `lims` the formulas divide by what vanishes at 1/2: there they are their Taylor series.
"""

import math

from .. import api
from ..nn import functional as F
from ..sizes import Size
from . import constraints
from .bernoulli import ProbsOrLogits
from .distribution import ExponentialFamily
from .utils import broadcast_all, clamp_probs, open_uniform


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """Draws in [0, 1] with densities proportional to `probs**x * (1 - probs)**(1 - x)`. `probs` or `logits`: of the batch shape;
    `lims`: probs between them count as 0.5, where the formula loses its digits."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support, has_rsample = constraints.unit_interval, True

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        if probs is not None and logits is None:
            (probs,) = broadcast_all(probs)
            valid = self.arg_constraints["probs"].check(probs)
            if validate_args and not bool(valid.all()):
                raise ValueError("The parameter probs has invalid values")
            probs = clamp_probs(probs)
        self._lims = lims
        self._fl_take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        new._lims = self._lims
        return new

    def _fl_far(self):
        """(whether away from 1/2, probabilities that are nowhere near it, the distance from 1/2)"""
        probs = self.probs
        far = (probs <= self._lims[0]) | (probs > self._lims[1])
        return far, api.where(far, probs, self._lims[0]), probs - 0.5

    def _log_normalizer(self):
        far, p, x = self._fl_far()
        exact = ((1 - p).log() - p.log()).abs().log() - (1 - 2 * p).abs().log()
        return api.where(far, exact, math.log(2.0) + (4 / 3 + 104 / 45 * x * x) * x * x)

    @property
    def mean(self):
        far, p, x = self._fl_far()
        exact = p / (2 * p - 1) + 1 / (api.log1p(-p) - p.log())
        return api.where(far, exact, 0.5 + (1 / 3 + 16 / 45 * x * x) * x)

    @property
    def variance(self):
        far, p, x = self._fl_far()
        exact = p * (p - 1) / (1 - 2 * p).square() + 1 / (api.log1p(-p) - p.log()).square()
        return api.where(far, exact, 1 / 12 - (1 / 15 - 128 / 945 * x * x) * x * x)

    def rsample(self, sample_shape=Size()):
        return self.icdf(open_uniform(self._extended_shape(sample_shape), self.probs))

    def log_prob(self, value):
        self._fl_validate(value)
        logits, value = broadcast_all(self.logits, value)
        return self._log_normalizer() - F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value):
        self._fl_validate(value)
        far, p, _ = self._fl_far()
        inside = api.where(far, (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1), value)
        return api.where(value <= 0, 0.0, api.where(value >= 1, 1.0, inside))

    def icdf(self, value):
        far, p, _ = self._fl_far()
        return api.where(far, (api.log1p(-p + value * (2 * p - 1)) - api.log1p(-p)) / (p.log() - api.log1p(-p)), value)

    def entropy(self):
        none, one = api.log1p(-self.probs), self.probs.log()
        return self.mean * (none - one) - self._log_normalizer() - none
