"""torch.distributions.exponential"""

from .simple import Exponential
