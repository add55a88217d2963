"""Automatic mixed precision: autocast, GradScaler, and the decorators for autograd Functions."""

from ..lazy_import import submodules as _submodules
from . import autocast_mode
from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available

__getattr__ = _submodules(__name__, "grad_scaler", GradScaler="grad_scaler")
