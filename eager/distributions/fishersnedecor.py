"""torch.distributions.fishersnedecor"""

from .simple import FisherSnedecor
