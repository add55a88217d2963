"""torch.distributions.binomial"""

from .counts import Binomial
