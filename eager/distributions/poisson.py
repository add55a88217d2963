"""torch.distributions.poisson"""

from .counts import Poisson
