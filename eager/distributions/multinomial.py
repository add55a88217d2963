"""torch.distributions.multinomial"""

from .counts import Multinomial
