"""torch.distributions.pareto"""

from .derived import Pareto  # noqa: F401
