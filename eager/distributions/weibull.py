"""torch.distributions.weibull"""

from .derived import Weibull  # noqa: F401
