"""torch.distributions.gumbel"""

from .derived import Gumbel
