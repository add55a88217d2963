"""Between which numbers a symbolic float lies, and whether it is a finite number for sure.

In: the tree of a SymFloat and the environment of its sizes. Out: ends that hold for all sizes the code is used with. Rounding
is monotone, so what holds of the ends' own roundings holds of all values between them. Inputs may be any float, NaN as well.
"""

from __future__ import annotations

import math
from typing import Any

ALL = (-math.inf, math.inf)
WITHIN_ONE = ("sin", "cos", "tanh")
LARGEST = 1e100  # of a constant in a finite number: a few of them and of int64 stay far from the largest float


def float_range(env: Any, tree: tuple) -> tuple[float, float]:
    """(least, greatest); infinite where nothing is known."""
    kind, *parts = tree
    if kind == "int":
        low, high = env.bounds().interval(env.canonical(parts[0]))
        return (float(low) if low > -LARGEST else -math.inf), (float(high) if high < LARGEST else math.inf)
    if kind == "const":
        return (float(parts[0]), float(parts[0])) if parts[0] == parts[0] else ALL
    if kind in WITHIN_ONE:
        return (-1.0, 1.0) if finite(env, parts[0]) else ALL
    rule = RULES.get(kind)
    return ALL if rule is None or not finite(env, tree) else rule(*(float_range(env, part) for part in parts))


def finite(env: Any, tree: tuple) -> bool:
    """Whether it is a number, and no infinite one, whatever the sizes are."""
    kind, *parts = tree
    if kind == "int":
        return True
    if kind == "const":
        return abs(parts[0]) <= LARGEST
    if kind not in RULES and kind not in WITHIN_ONE or not all(finite(env, part) for part in parts):
        return False
    if kind == "exp":
        return float_range(env, parts[0])[1] < 700
    if kind == "sqrt":
        return float_range(env, parts[0])[0] >= 0
    low, high = float_range(env, parts[1]) if kind == "truediv" else (1.0, 1.0)
    return low >= 1 / LARGEST or high <= -1 / LARGEST


def _times(a: tuple, b: tuple) -> tuple[float, float]:
    ends = [x * y if x and y else 0.0 for x in a for y in b]  # (no value is infinite: 0 of whatever is 0)
    return min(ends), max(ends)


def _over(a: tuple, b: tuple) -> tuple[float, float]:
    ends = [0.0 if math.isinf(y) else x / y for x in a for y in b]
    return min(ends), max(ends)


RULES = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _times,
    "truediv": _over,
    "neg": lambda a: (-a[1], -a[0]),
    "abs": lambda a: (0.0 if a[0] <= 0 <= a[1] else min(map(abs, a)), max(map(abs, a))),
    "exp": lambda a: (math.exp(a[0]), math.exp(a[1])),
    "sqrt": lambda a: (math.sqrt(a[0]), math.sqrt(a[1])),
}
