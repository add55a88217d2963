"""torch.cuda.amp: the names with the device type fixed to "cuda"."""

from . import autocast_mode, grad_scaler
from .scoped import GradScaler, autocast, custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "autocast_mode", "grad_scaler"]
