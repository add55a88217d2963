"""torch.distributions.negative_binomial"""

from .counts import NegativeBinomial  # noqa: F401
