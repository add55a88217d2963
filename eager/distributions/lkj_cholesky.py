"""LKJCholesky(dim, concentration): Cholesky factors of correlation matrices with densities det^(concentration - 1)
(Lewandowski, Kurowicka and Joe, 2009; draws by their onion: each row is a direction and a length)."""

import math

from .. import api
from ..autograd import no_grad
from ..sizes import Size
from . import constraints
from .dirichlet import Beta
from .distribution import Distribution
from .utils import broadcast_all


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices. `dim`: how many rows, at least 2; `concentration` (positive, 1 is uniform):
    of the batch shape; the event shape is (dim, dim)."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.size(), (dim, dim), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        new.dim = self.dim
        return new

    def _fl_lengths(self):
        """Of the squared lengths of the rows, from the second on."""
        rows = api.arange(1, self.dim, dtype=self.concentration.dtype)
        rest = self.concentration.unsqueeze(-1) + (self.dim - 1 - rows) / 2
        return Beta((rows / 2).expand(rest.shape), rest)

    def sample(self, sample_shape=Size()):
        with no_grad():
            shape = self._extended_shape(sample_shape)
            directions = api.tril(api.randn(shape, dtype=self.concentration.dtype), -1)[..., 1:, :]
            directions = directions / directions.norm(dim=-1, keepdim=True)
            squares = self._fl_lengths().sample(sample_shape).unsqueeze(-1)
            below = api.cat([api.zeros((*shape[:-2], 1, self.dim), dtype=directions.dtype), squares.sqrt() * directions], -2)
            tiny = api.finfo(below.dtype).tiny
            return below + api.diag_embed((1 - below.square().sum(-1)).clamp(min=tiny).sqrt())

    def log_prob(self, value):
        """By the factor's diagonal; the normaliser is a product of beta functions."""
        self._fl_validate(value)
        n, c = self.dim, self.concentration
        orders = 2 * (c.unsqueeze(-1) - 1) + n - api.arange(2, n + 1, dtype=c.dtype)
        density = (orders * value.diagonal(dim1=-1, dim2=-2)[..., 1:].log()).sum(-1)
        alpha = c + (n - 1) / 2
        return density - (n - 1) / 2 * math.log(math.pi) - api.mvlgamma(alpha - 0.5, n - 1) + api.lgamma(alpha) * (n - 1)
