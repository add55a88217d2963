"""torch.distributions.fishersnedecor"""

from .simple import FisherSnedecor  # noqa: F401
