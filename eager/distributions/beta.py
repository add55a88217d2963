"""torch.distributions.beta"""

from .dirichlet import Beta  # noqa: F401
