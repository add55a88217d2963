"""torch.distributions.cauchy"""

from .simple import Cauchy  # noqa: F401
