"""torch.distributions.kumaraswamy"""

from .derived import Kumaraswamy
