"""torch.distributions.von_mises"""

from .simple import VonMises  # noqa: F401
