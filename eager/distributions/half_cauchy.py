"""torch.distributions.half_cauchy"""

from .simple import HalfCauchy
