"""Categorical with one-hot events; the second form passes gradients straight to the probabilities."""

from .. import api
from ..frontend.shapes import one_hot
from ..sizes import Size
from . import constraints
from .categorical import Categorical
from .distribution import Distribution


class OneHotCategorical(Distribution):
    """Rows with a 1 at the drawn category. `probs` or `logits`: (*batch, k); the event shape is (k,)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support, has_enumerate_support = constraints.one_hot, True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    _param = property(lambda self: self._categorical._param)
    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))
    param_shape = property(lambda self: self._categorical.param_shape)
    mode = property(lambda self: self._fl_one_hot(self.probs.argmax(-1)))

    def _fl_parameters(self):
        return ()

    def _fl_one_hot(self, index):
        return one_hot(index, self._event_shape[0]).to(self._param.dtype)

    def sample(self, sample_shape=Size()):
        return self._fl_one_hot(self._categorical.sample(Size(sample_shape)))

    def log_prob(self, value):
        self._fl_validate(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        n = self._event_shape[0]
        values = api.eye(n, dtype=self._param.dtype).reshape((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n,) + tuple(self._batch_shape) + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose `rsample` passes gradients straight on to `probs`. `probs` or `logits`: (*batch, k)."""

    has_rsample = True

    def rsample(self, sample_shape=Size()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
