"""TransformedDistribution: y = f(x) for x of a base distribution; and Independent, which makes batch dims event dims."""

from ..autograd import no_grad
from ..sizes import Size
from . import constraints
from .distribution import Distribution, of_library
from .transforms import ComposeTransform, Transform
from .utils import sum_rightmost


class Independent(Distribution):
    """Another distribution whose last batch dims are part of one event. `base_distribution`; `reinterpreted_batch_ndims`: how
    many dims move from the batch shape to the event shape."""

    arg_constraints = {}

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        kept = len(batch) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(batch[:kept], batch[kept:] + base_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        tail = self.base_dist.batch_shape[len(self.batch_shape) :]
        made = Independent(self.base_dist.expand(Size(batch_shape) + tail), self.reinterpreted_batch_ndims, validate_args=False)
        return self._fl_filled(Independent, made, _instance)

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    @property
    def support(self):
        inner, n = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(inner, n) if n else inner

    def sample(self, sample_shape=Size()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=Size()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self):
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """What transforms make of the draws of another distribution. `base_distribution`; `transforms`: one Transform, or several
    that are applied in turn."""

    arg_constraints = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError("transforms must be a Transform or list of Transforms, but was " + repr(transforms))
        shape = base_distribution.batch_shape + base_distribution.event_shape
        whole = ComposeTransform(self.transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got {shape}."
            )
        out_shape = Size(whole.forward_shape(shape))
        base = (
            base_distribution.expand(Size(whole.inverse_shape(out_shape))[: len(base_distribution.batch_shape)])
            if shape != Size(whole.inverse_shape(out_shape))
            else base_distribution
        )
        more = whole.domain.event_dim - len(base.event_shape)
        self.base_dist = Independent(base, more) if more > 0 else base
        event_dim = max(whole.codomain.event_dim, len(base.event_shape) + whole.codomain.event_dim - whole.domain.event_dim)
        cut = len(out_shape) - event_dim
        super().__init__(out_shape[:cut], out_shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(of_library(type(self)), _instance)
        new.transforms = self.transforms
        shape = Size(batch_shape) + self.event_shape
        for t in reversed(self.transforms):
            shape = Size(t.inverse_shape(shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        Distribution.__init__(new, Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        inner = self.transforms[-1].codomain
        more = len(self.event_shape) - inner.event_dim
        return constraints.independent(inner, more) if more > 0 else inner

    def sample(self, sample_shape=Size()):
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            for t in self.transforms:
                x = t(x)
            return x

    def rsample(self, sample_shape=Size()):
        x = self.base_dist.rsample(sample_shape)
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value):
        """The base's log density at f^-1(y), minus the log-determinants on the way."""
        self._fl_validate(value)
        event_dim, total, y = len(self.event_shape), 0.0, value
        for t in reversed(self.transforms):
            x = t.inv(y)
            event_dim += t.domain.event_dim - t.codomain.event_dim
            total = total - sum_rightmost(t.log_abs_det_jacobian(x, y), event_dim - t.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _fl_turned(self, value):
        sign = 1
        for t in self.transforms:
            sign = sign * t.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for t in reversed(self.transforms):
            value = t.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._fl_turned(self.base_dist.cdf(value))

    def icdf(self, value):
        value = self.base_dist.icdf(self._fl_turned(value))
        for t in self.transforms:
            value = t(value)
        return value
