"""torch.distributions.poisson"""

from .counts import Poisson  # noqa: F401
