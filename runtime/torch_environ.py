"""Environment variables of PyTorch that programs and their authors set: which settings here they mean.

In: TORCH_LOGS, TORCH_COMPILE_DEBUG. Out: channels of FLAMBEAU_LOGS, a folder for FLAMBEAU_DUMP. What means nothing here is told
once, by name (names: PyTorch's page torch._logging).
"""

from __future__ import annotations

import os
import warnings

CHANNELS = {
    "graph_breaks": ("breaks",),
    "recompiles": ("recompiles",),
    "recompiles_verbose": ("recompiles",),
    "guards": ("guards",),
    "bytecode": ("bytecode",),
    "graph": ("graph",),
    "graph_code": ("graph",),
    "graph_sizes": ("graph",),
    "aot_graphs": ("joint",),
    "aot_joint_graph": ("joint",),
    "aot": ("joint",),
    "ir_pre_fusion": ("loops",),
    "ir_post_fusion": ("loops",),
    "fusion": ("schedule",),
    "schedule": ("schedule",),
    "output_code": ("kernels",),
    "kernel_code": ("kernels",),
    "perf_hints": ("fallbacks",),
    "cudagraphs": ("fallbacks",),
    "dynamo": ("breaks", "recompiles", "graph"),
    "inductor": ("schedule", "fallbacks"),
    "dynamic": ("recompiles", "guards"),
    "all": ("all",),
}


def channels() -> tuple[str, ...]:
    """The log channels that TORCH_LOGS names, in its order; `+name` is more of it, `-name` is less."""
    names = filter(None, (n.strip() for n in os.environ.get("TORCH_LOGS", "").split(",")))
    return of_names([name.lstrip("+") for name in names if not name.startswith("-")], "TORCH_LOGS")


def of_names(names: list[str], asked: str) -> tuple[str, ...]:
    """The log channels of PyTorch's names; `asked`: where they stand, for the warning about unknown ones."""
    found: dict[str, None] = {}
    for name in names:
        if name not in CHANNELS:
            warnings.warn(f"{asked}: {name!r} prints nothing here; known are {', '.join(CHANNELS)}", RuntimeWarning, stacklevel=3)
        found.update(dict.fromkeys(CHANNELS.get(name, ())))
    return tuple(found)


def dump_folder() -> str | None:
    """Where TORCH_COMPILE_DEBUG=1 puts the stages of compilations."""
    return "torch_compile_debug" if os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1" else None
