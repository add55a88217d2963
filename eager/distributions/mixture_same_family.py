"""MixtureSameFamily: components along the last batch dim, weighted by a Categorical."""

from .. import api
from ..autograd import no_grad
from ..sizes import Size
from .categorical import Categorical
from .distribution import Distribution


class MixtureSameFamily(Distribution):
    """A mixture. `mixture_distribution`: a Categorical over k, of the batch shape; `component_distribution`: with the batch shape
    (*batch, k), whose last dim is chosen from."""

    arg_constraints = {}

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        if mixture_distribution.logits.shape[-1] != component_distribution.batch_shape[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({mixture_distribution.logits.shape[-1]}) does not equal "
                "`component_distribution.batch_shape[-1]` "
                f"({component_distribution.batch_shape[-1]})"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        super().__init__(component_distribution.batch_shape[:-1], component_distribution.event_shape, validate_args)

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)
    support = property(lambda self: self._component_distribution.support)

    def expand(self, batch_shape, _instance=None):
        count = tuple(self._component_distribution.batch_shape[-1:])
        made = MixtureSameFamily(
            self._mixture_distribution.expand(batch_shape),
            self._component_distribution.expand(tuple(batch_shape) + count),
            validate_args=False,
        )
        return self._fl_filled(MixtureSameFamily, made, _instance)

    def _fl_weights(self):
        probs = self._mixture_distribution.probs
        return probs.reshape(tuple(probs.shape) + (1,) * len(self._event_shape))

    def _fl_over(self):
        return -1 - len(self._event_shape)

    @property
    def mean(self):
        return (self._fl_weights() * self._component_distribution.mean).sum(self._fl_over())

    @property
    def variance(self):
        weights, means = self._fl_weights(), self._component_distribution.mean
        inner = (weights * self._component_distribution.variance).sum(self._fl_over())
        return inner + (weights * (means - self.mean.unsqueeze(self._fl_over())).pow(2)).sum(self._fl_over())

    def _pad(self, x):
        return x.unsqueeze(self._fl_over())

    def log_prob(self, value):
        self._fl_validate(value)
        scores = self._component_distribution.log_prob(self._pad(value))
        return (scores + api.log_softmax(self._mixture_distribution.logits, -1)).logsumexp(-1)

    def cdf(self, value):
        return (self._component_distribution.cdf(self._pad(value)) * self._mixture_distribution.probs).sum(-1)

    def sample(self, sample_shape=Size()):
        with no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            d = drawn.dim() - 1 - len(self._event_shape)
            index = chosen.reshape(tuple(chosen.shape) + (1,) * (len(self._event_shape) + 1))
            return drawn.gather(d, index.expand(tuple(chosen.shape) + (1,) + tuple(self._event_shape))).squeeze(d)
