"""torch.mps, torch.xpu, torch.accelerator, torch.mtia: devices that do not exist here; the questions have answers."""

import types
from typing import Any

from ..amp import cpu as cpu_amp
from . import missing


def _absent(name):
    module: Any = types.ModuleType(f"flambeau.{name}", f"torch.{name}: no such device here.")
    module.is_available = lambda: False
    module.device_count = lambda: 0
    module.is_initialized = lambda: False
    module.empty_cache = module.manual_seed = module.manual_seed_all = lambda *args: None
    advice = f"there is no {name} device here"
    vars(module).update(
        missing.functions(
            f"torch.{name}",
            """synchronize current_device set_device current_stream
        get_device_name get_device_properties get_device_capability memory_allocated max_memory_allocated memory_reserved
        reset_peak_memory_stats set_device_index current_device_index""",
            advice,
        )
    )
    vars(module).update(missing.kinds(f"torch.{name}", "Stream Event StreamContext device", advice))
    return module


mps, xpu, mtia, accelerator = map(_absent, ("mps", "xpu", "mtia", "accelerator"))
accelerator.current_accelerator = lambda check_available=False: None
cpu = _absent("cpu")
cpu.is_available = lambda: True
cpu.device_count = lambda: 1
cpu.amp = cpu_amp
cpu.synchronize = lambda device=None: None
cpu.current_device = lambda: "cpu"
