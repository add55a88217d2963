"""torch.distributions.multinomial"""

from .counts import Multinomial  # noqa: F401
