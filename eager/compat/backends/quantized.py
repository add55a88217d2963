"""torch.backends.quantized: there is no quantised engine."""

import sys
from types import ModuleType

engine = "none"
supported_engines = ["none"]


class _Engines(ModuleType):
    """Refuses engines that do not exist when `engine` is set."""

    def __setattr__(self, name, value):
        if name == "engine" and value not in self.supported_engines:
            raise RuntimeError(
                f"torch.backends.quantized.engine = {value!r}: there is no quantized engine here (supported: "
                f"{self.supported_engines})"
            )
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Engines
