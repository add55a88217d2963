"""torch.distributions.chi2"""

from .gamma import Chi2
