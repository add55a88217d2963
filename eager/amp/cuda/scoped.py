"""autocast and GradScaler with the device type fixed to "cuda"."""

import functools

from .. import autocast_mode as base, grad_scaler as scalers
from ... import dtypes


class autocast(base.autocast):
    def __init__(self, enabled=True, dtype=dtypes.float16, cache_enabled=True):
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(scalers.GradScaler):
    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


custom_fwd = functools.partial(base.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(base.custom_bwd, device_type="cuda")
