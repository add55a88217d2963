"""torch.distributions.geometric"""

from .counts import Geometric  # noqa: F401
