"""torch.distributions.half_normal"""

from .simple import HalfNormal  # noqa: F401
