"""Bernoulli and the parameters by probability or log-odds that several distributions share."""

from .. import api
from ..autograd import no_grad
from ..sizes import Size
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution, ExponentialFamily, own_names
from .utils import broadcast_all, lazy_property, log_softplus, logits_to_probs, probs_to_logits


class ProbsOrLogits(Distribution):
    """`probs` or `logits`, the other one computed when it is asked for."""

    _fl_binary = True

    def _fl_take(self, probs, logits):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._by_probs = probs is not None
        (value,) = broadcast_all(probs if self._by_probs else logits)
        setattr(self, "probs" if self._by_probs else "logits", value)

    @property
    def _param(self):
        return self.__dict__["probs" if "probs" in self.__dict__ and self.__dict__.get("_by_probs", True) else "logits"]

    def _fl_parameters(self):
        return own_names(self)

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        new._by_probs = self._by_probs
        return new

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, self._fl_binary)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, self._fl_binary)

    @property
    def param_shape(self):
        return self._param.size()


def binary_entropy(logits, probs):
    """log(1 + exp(l)) - l * p"""
    return log_softplus(logits) - logits * probs


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """Draws of 0 and 1. `probs` (of a 1) or `logits`: numbers or tensors, whose shape is the batch shape."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support, has_enumerate_support = constraints.boolean, True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._fl_take(probs, logits)
        scalar = not isinstance(probs if logits is None else logits, Tensor)
        super().__init__(Size() if scalar else self._param.size(), validate_args=validate_args)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self):
        half = (self.probs >= 0.5).to(self.probs.dtype)
        return api.where(self.probs == 0.5, float("nan"), half)

    def sample(self, sample_shape=Size()):
        with no_grad():
            return api.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._fl_validate(value)
        logits, value = broadcast_all(self.logits, value)
        return value * logits - log_softplus(logits)

    def entropy(self):
        return binary_entropy(self.logits, self.probs)

    def enumerate_support(self, expand=True):
        values = api.arange(2, dtype=self._param.dtype).reshape((2,) + (1,) * len(self._batch_shape))
        return values.expand((2,) + tuple(self._batch_shape)) if expand else values
