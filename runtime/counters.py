"""What the compiler did, as numbers that tests and users may rely on.

Plain counts (`frames`, `graphs`, `recompiles`, `kernels`, `cache_hits`, `compile_seconds`) and counts by reason
(`breaks`, `fallbacks`, and `left`: frames that compiled code could not make faster). Safe under threads: one lock,
taken only when something is compiled or falls back.
"""

from __future__ import annotations

from typing import Any

from . import locks, log

PLAIN = ("frames", "graphs", "recompiles", "kernels", "cache_hits", "compile_seconds")
BY_REASON = ("breaks", "fallbacks", "left")

_lock = locks.fresh()
_plain: dict[str, float] = {}
_by_reason: dict[str, dict[str, int]] = {}


def reset() -> None:
    """Set every counter to zero."""
    with _lock:
        _plain.update({name: 0 for name in PLAIN})
        _by_reason.update({name: {} for name in BY_REASON})


def add(name: str, reason: str | None = None, amount: float = 1) -> None:
    """Count `amount` under `name`; those kept by reason need one."""
    with _lock:
        if name in _by_reason:
            if reason is None:
                raise ValueError(f"counter {name!r} is kept by reason: give one")
            first = reason not in _by_reason[name]
            _by_reason[name][reason] = _by_reason[name].get(reason, 0) + int(amount)
        else:
            _plain[name] += amount
            return
    if first and name == "fallbacks":
        log.channel("fallbacks")(reason)


def snapshot() -> dict[str, Any]:
    """A copy of all counters."""
    with _lock:
        return {**_plain, **{name: dict(reasons) for name, reasons in _by_reason.items()}}


reset()
