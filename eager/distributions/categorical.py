"""Categorical over 0 ... K-1: the last dim of probs or logits holds the K weights."""

from typing import Any

from .. import api
from ..autograd import no_grad
from ..sizes import Size
from . import constraints
from .distribution import Distribution, own_names
from .utils import lazy_property, logits_to_probs, probs_to_logits


class Categorical(Distribution):
    """Numbers of categories, 0 to k - 1. `probs` (scaled to the sum 1) or `logits` (unnormalised logarithms): (*batch, k)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args=None):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = probs if logits is None else logits
        if given.dim() < 1:
            raise ValueError(f"`{'probs' if logits is None else 'logits'}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = given - given.logsumexp(-1, keepdim=True)
        self._num_events = given.size(-1)
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        new._num_events = self._num_events
        return new

    def _fl_parameters(self):
        return own_names(self)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits)

    @property
    def _param(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self):
        return self._param.size()

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    mean = variance = property(lambda self: api.full(self._extended_shape(), float("nan"), dtype=self.probs.dtype))
    mode = property(lambda self: self.probs.argmax(-1))

    def sample(self, sample_shape=Size()):
        shape = Size(sample_shape)
        with no_grad():
            flat = self.probs.reshape(-1, self._num_events)
            drawn = api.multinomial(flat, shape.numel(), True).T
            return drawn.reshape(self._extended_shape(shape))

    def log_prob(self, value):
        self._fl_validate(value)
        value = value.long().unsqueeze(-1)
        value, log_pmf = api.broadcast_tensors(value, self.logits)
        return log_pmf.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        logits = self.logits.clamp(min=api.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        n = self._num_events
        values = api.arange(n, dtype=api.long).reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values


class OverCategories(Distribution):
    """What has a Categorical in `_categorical`, and one more parameter, whose name is `_fl_own`, that batches share."""

    _fl_own: str
    _categorical: Categorical

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        setattr(new, self._fl_own, getattr(self, self._fl_own))
        new._categorical = self._categorical.expand(batch_shape)
        return new

    def _fl_parameters(self):
        return ()

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)
