"""torch.mps, torch.xpu, torch.accelerator, torch.mtia: devices that do not exist here; the questions have answers."""

import types

from ..amp import cpu as cpu_amp
from . import missing


def _absent(name):
    module = types.ModuleType(f"flambeau.{name}", f"torch.{name}: no such device here.")
    module.is_available = lambda: False
    module.device_count = lambda: 0
    module.is_initialized = lambda: False
    module.empty_cache = module.manual_seed = module.manual_seed_all = lambda *args: None
    for function in ("synchronize", "current_device", "set_device", "current_stream", "get_device_name"):
        setattr(module, function, missing.function(f"torch.{name}.{function}", f"there is no {name} device here"))
    return module


mps, xpu, mtia, accelerator = map(_absent, ("mps", "xpu", "mtia", "accelerator"))
accelerator.current_accelerator = lambda check_available=False: None
cpu = _absent("cpu")
cpu.is_available = lambda: True
cpu.device_count = lambda: 1
cpu.amp = cpu_amp
cpu.synchronize = lambda device=None: None
cpu.current_device = lambda: "cpu"
