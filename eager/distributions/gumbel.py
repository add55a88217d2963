"""torch.distributions.gumbel"""

from .derived import Gumbel  # noqa: F401
