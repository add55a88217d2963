"""torch.distributions.weibull"""

from .derived import Weibull
