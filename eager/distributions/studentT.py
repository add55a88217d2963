"""torch.distributions.studentT"""

from .simple import StudentT  # noqa: F401
