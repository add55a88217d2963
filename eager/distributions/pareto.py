"""torch.distributions.pareto"""

from .derived import Pareto
