"""torch.distributions.log_normal"""

from .derived import LogNormal  # noqa: F401
