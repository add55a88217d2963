"""GradScaler: losses times a factor so that float16 gradients do not vanish; steps with infinite gradients are skipped.

`scale(loss).backward(); step(optimizer); update()`. The factor grows after `growth_interval` good steps and shrinks
after a bad one. Made for a device type without a runtime here, it warns and is off: every method passes through.
"""

import enum
import warnings
from collections import defaultdict
from typing import Any

from .. import api, device as devices
from ..autograd import no_grad
from ..tensor import Tensor


class OptState(enum.Enum):
    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh():
    return {"stage": OptState.READY, "found_inf": None}


class GradScaler:
    def __init__(
        self, device="cuda", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True
    ):
        self._device, self._enabled = device, enabled
        if enabled and not devices.usable(device):
            warnings.warn(
                f"torch.{device}.amp.GradScaler is enabled, but {device.upper()} is not available.  Disabling.", stacklevel=2
            )
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._growth_factor, self._backoff_factor = init_scale, growth_factor, backoff_factor
        self._growth_interval, self._init_growth_tracker = growth_interval, 0
        self._scale: Any = None  # tensors from the first use on
        self._growth_tracker: Any = None
        self._per_optimizer_states = defaultdict(_fresh)

    def _start(self):
        if self._scale is None:
            self._scale = api.full((), self._init_scale, dtype=api.float32)
            self._growth_tracker = api.full((), self._init_growth_tracker, dtype=api.int32)

    def scale(self, outputs):
        """Tensors (nested in lists and tuples) times the factor."""
        if not self._enabled:
            return outputs
        self._start()
        if isinstance(outputs, Tensor):
            return outputs * self._scale.to(outputs.dtype) if outputs.ndim == 0 else outputs * self._scale
        if isinstance(outputs, (list, tuple)) or hasattr(outputs, "__iter__"):
            made = [self.scale(each) for each in outputs]
            return type(outputs)(made) if isinstance(outputs, (list, tuple)) else iter(made)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    @no_grad()
    def unscale_(self, optimizer):
        """Divides the gradients by the factor and notes whether one is infinite or NaN."""
        if not self._enabled:
            return
        if self._scale is None:
            raise AssertionError(
                "Attempted unscale_ but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        known = self._per_optimizer_states[id(optimizer)]
        if known["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if known["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        known["found_inf"] = self._unscale_grads(optimizer)
        known["stage"] = OptState.UNSCALED

    def _unscale_grads(self, optimizer):
        inverse = 1.0 / self._scale.item()
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    bad = bad or not bool(api.isfinite(p.grad).all())
                    p.grad.mul_(inverse)
        return bad

    def step(self, optimizer, *args, **kwargs):
        """`optimizer.step(...)`, unless a gradient is infinite or NaN; returns what the step returns."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        known = self._per_optimizer_states[id(optimizer)]
        if known["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if known["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not any(p.grad is not None for group in optimizer.param_groups for p in group["params"]):
            raise AssertionError("No inf checks were recorded for this optimizer.")
        known["stage"] = OptState.STEPPED
        return None if known["found_inf"] else optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """Grow or shrink the factor, or set it."""
        if not self._enabled:
            return
        if self._scale is None:
            raise AssertionError("Attempted update but _scale is None.")
        if new_scale is not None:
            self._scale.fill_(new_scale.item() if isinstance(new_scale, Tensor) else new_scale)
        else:
            found = [known["found_inf"] for known in self._per_optimizer_states.values() if known["found_inf"] is not None]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(any(found))
        self._per_optimizer_states = defaultdict(_fresh)

    def _adapt(self, bad):
        if bad:
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker.fill_(0)
            return
        good = self._growth_tracker.item() + 1
        if good == self._growth_interval:
            grown = self._scale * self._growth_factor
            if bool(api.isfinite(grown)):
                self._scale.copy_(grown)
            good = 0
        self._growth_tracker.fill_(good)

    # -- settings

    def get_scale(self):
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self):
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def is_enabled(self):
        return self._enabled

    def state_dict(self):
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict):
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale, self._growth_factor = state_dict["scale"], state_dict["growth_factor"]
        self._backoff_factor, self._growth_interval = state_dict["backoff_factor"], state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)
