"""Automatic mixed precision: autocast, GradScaler, and the decorators for autograd Functions."""

from . import autocast_mode, grad_scaler
from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler
