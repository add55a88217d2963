"""torch.distributions.independent"""

from .transformed_distribution import Independent  # noqa: F401
