"""What a guard on a tensor compares: the tensor at capture, and the fake that stands for it in the trace."""

from __future__ import annotations

from typing import Any

from ...eager.tensor import Tensor


class TensorFacts:
    """Payload of a tensor guard: the tensor at capture and its fake, whose symbolic sizes are not compared."""

    def __init__(self, real: Tensor, fake: Tensor):
        self.real, self.fake = real, fake
        self.no_hooks = self.no_gradient = False  # what the trace relies on besides

    def __str__(self) -> str:
        sizes, strides = (f"({', '.join(map(str, values))})" for values in (self.fake._fl_sizes, self.fake._fl_strides))
        grad = ", requires grad" if self.real.requires_grad else ""
        bare = (", no hooks" if self.no_hooks else "") + (", no gradient" if self.no_gradient else "")
        return f"{self.real.dtype} {type(self.real).__name__} of sizes {sizes}, strides {strides}{grad}{bare}"


def on_gpu(value: Any) -> bool:
    """A real tensor in a GPU's memory (a fake has no storage with bytes anywhere)."""
    gpu = isinstance(value, Tensor) and value._fl_array is None and value._fl_device.type == "cuda"
    return gpu and value._fl_storage.runtime is not None
