"""torch.distributions.binomial"""

from .counts import Binomial  # noqa: F401
