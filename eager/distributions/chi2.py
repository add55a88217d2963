"""torch.distributions.chi2"""

from .gamma import Chi2  # noqa: F401
