"""torch.distributions.geometric"""

from .counts import Geometric
