"""torch.distributions.laplace"""

from .simple import Laplace
