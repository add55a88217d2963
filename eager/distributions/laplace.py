"""torch.distributions.laplace"""

from .simple import Laplace  # noqa: F401
