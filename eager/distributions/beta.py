"""torch.distributions.beta"""

from .dirichlet import Beta
