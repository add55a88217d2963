"""torch.cuda.amp.autocast_mode"""

from .scoped import autocast, custom_bwd, custom_fwd  # noqa: F401
