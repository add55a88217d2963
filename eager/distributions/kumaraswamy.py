"""torch.distributions.kumaraswamy"""

from .derived import Kumaraswamy  # noqa: F401
