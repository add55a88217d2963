"""Named log channels, switched on by FLAMBEAU_LOGS (a comma-separated list, or `all`); text goes to stderr."""

from __future__ import annotations

import sys

from .config import config

CHANNELS = {
    "breaks": "each graph break: reason, your line, what to do",
    "recompiles": "each recompilation: all failed guards with old and new value",
    "fallbacks": "what eager or the interpreter runs instead of generated code: the reason, once a process",
    "graph": "each captured graph as Python",
    "guards": "what a call is compared with before it may use what was compiled",
    "bytecode": "each captured frame's instructions, before and after",
    "joint": "forward and backward in one graph, before they are cut apart",
    "schedule": "each kernel: where it comes from, and why its parts were fused",
    "loops": "the loop IR after fusion",
    "memory": "order of calls, and where every buffer lies",
    "kernels": "the generated code of each graph",
    "cache": "artefacts found, built, stored, refused, removed",
    "perf": "how long each stage of each compilation took",
}
OF_PASSES = ("graph", "joint", "schedule", "loops", "memory", "kernels")  # not there where an earlier process's work is used


def enabled(name: str) -> bool:
    if name not in CHANNELS:
        raise KeyError(f"no log channel {name!r}; channels are: {', '.join(CHANNELS)}")
    if not config.logs:
        return False
    check_settings()
    return name in config.logs or "all" in config.logs


def of_passes() -> bool:
    """Whether a channel is on that only running passes can fill."""
    return bool(config.logs) and any(map(enabled, OF_PASSES))


def channel(name: str):
    """The writer of one channel: `channel("breaks")("text", key=value)` prints one record when the channel is on."""

    def write(message: str, **fields) -> None:
        if enabled(name):
            tail = "".join(f"\n    {key}: {value}" for key, value in fields.items())
            print(f"flambeau {name}: {message}{tail}", file=sys.stderr, flush=True)

    return write


def check_settings() -> None:
    """Raise for channels in FLAMBEAU_LOGS that do not exist."""
    unknown = [name for name in config.logs if name != "all" and name not in CHANNELS]
    if unknown:
        raise ValueError(f"FLAMBEAU_LOGS names no such channel: {', '.join(unknown)}; channels are: {', '.join(CHANNELS)}, all")


check_settings()
