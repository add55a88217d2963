"""Numbers as people read them."""

from __future__ import annotations


def seconds(value: float | None) -> str:
    """1.2 ms, 3.4 us; nothing for None."""
    if value is None:
        return ""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= scale:
            return f"{three(value / scale)} {unit}"
    return f"{value * 1e9:.0f} ns"


def amount(value: float | None, unit: str = "B") -> str:
    """12.3 MB, 4.56 GFLOP; powers of a thousand."""
    if value is None:
        return ""
    for scale, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{three(value / scale)} {letter}{unit}"
    return f"{value:.0f} {unit}"


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f}%"


def three(value: float) -> str:
    """Three digits that count."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
