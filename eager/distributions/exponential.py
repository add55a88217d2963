"""torch.distributions.exponential"""

from .simple import Exponential  # noqa: F401
