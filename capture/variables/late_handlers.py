"""Handlers of a library that few programs of one line have: they are registered from when the program has it."""

from __future__ import annotations

import sys

OPERATORS = f"{__name__.partition('.')[0]}.eager.compat.operators"  # torch.ops


def know_libraries() -> None:
    """Asked before a frame is traced, and behind an import in it. `logging` is 2 ms of a first compilation."""
    if "logging" in sys.modules:
        from . import loggers  # noqa: F401
    if OPERATORS in sys.modules:
        from . import custom_ops  # noqa: F401
