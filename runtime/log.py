"""Named log channels, switched on by FLAMBEAU_LOGS (a comma-separated list, or `all`); text goes to stderr."""

from __future__ import annotations

import sys

from .config import config

CHANNELS = {
    "breaks": "each graph break: reason, user line, what to do",
    "recompiles": "each recompilation: all failed guards with old and new value",
    "kernels": "each compiled kernel file and where it is",
    "graph": "each captured graph as Python",
    "guards": "the guards of each new entry",
    "schedule": "fusion decisions and their reasons",
    "cache": "artefacts found, built, refused",
}


def enabled(name: str) -> bool:
    if name not in CHANNELS:
        raise KeyError(f"no log channel {name!r}; channels are: {', '.join(CHANNELS)}")
    return name in config.logs or "all" in config.logs


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
