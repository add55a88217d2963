"""torch.distributions.cauchy"""

from .simple import Cauchy
