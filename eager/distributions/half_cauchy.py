"""torch.distributions.half_cauchy"""

from .simple import HalfCauchy  # noqa: F401
