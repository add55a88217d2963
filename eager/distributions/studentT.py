"""torch.distributions.studentT"""

from .simple import StudentT
