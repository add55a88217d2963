"""Overriding what functions mean: a type of one's own with `__torch_function__`, and a mode that watches all calls.

    python examples/override.py

`Quantity` carries a unit through public functions, methods and operators, and refuses sums of different units. `Calls` is a mode:
inside its `with`, each public function that is called goes through it.
"""

import collections

import common
import flambeau as torch
from flambeau.overrides import TorchFunctionMode

RULES = {}


def rule(*functions):
    """Decorator: what these public functions mean for quantities."""

    def register(make):
        RULES.update(dict.fromkeys(functions, make))
        return make

    return register


class Quantity:
    """A tensor with a unit: {"m": 1, "s": -1} is a speed."""

    def __init__(self, value, unit):
        self.value, self.unit = torch.as_tensor(value), {k: n for k, n in unit.items() if n}

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in RULES:
            return NotImplemented  # a TypeError that names the function
        return RULES[func](func, *args, **(kwargs or {}))

    __add__ = lambda self, other: torch.add(self, other)
    __mul__ = lambda self, other: torch.mul(self, other)
    __rmul__ = lambda self, other: torch.mul(other, self)
    __truediv__ = lambda self, other: torch.div(self, other)

    def __repr__(self):
        unit = " ".join(k if n == 1 else f"{k}^{n}" for k, n in self.unit.items())
        return f"{self.value.tolist()} {unit}"


def unit_of(x):
    return x.unit if isinstance(x, Quantity) else {}


def value_of(x):
    return x.value if isinstance(x, Quantity) else x


@rule(torch.add, torch.sub, torch.maximum)
def same_unit(func, a, b):
    if unit_of(a) != unit_of(b):
        raise TypeError(f"{func.__name__} of {a} and {b}: their units differ")
    return Quantity(func(value_of(a), value_of(b)), unit_of(a))


@rule(torch.mul, torch.div, torch.matmul, torch.Tensor.mul)
def product(func, a, b):
    sign = -1 if func is torch.div else 1
    units = collections.Counter(unit_of(a))
    for name, power in unit_of(b).items():
        units[name] += sign * power
    return Quantity(func(value_of(a), value_of(b)), units)


@rule(torch.sum, torch.mean, torch.abs)
def keeps_unit(func, x, *args, **kwargs):
    return Quantity(func(value_of(x), *args, **kwargs), unit_of(x))


class Calls(TorchFunctionMode):
    """Counts the public functions that are called inside."""

    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.counts[getattr(func, "__name__", str(func))] += 1
        return func(*args, **(kwargs or {}))


def refusal(call):
    try:
        return f"accepted: {call()}"
    except TypeError as error:
        return str(error)


def main(arguments=None):
    common.options(__doc__, arguments, steps=1)
    way = Quantity([3.0, 4.0], {"m": 1})
    time = Quantity([2.0, 8.0], {"s": 1})
    speed = way / time
    energy = 0.5 * Quantity(2.0, {"kg": 1}) * speed * speed
    wrong, missing = refusal(lambda: way + time), refusal(lambda: torch.exp(way))
    layer = torch.nn.Linear(4, 3)
    with Calls() as calls:
        torch.relu(layer(torch.ones(2, 4))).sum()
    claims = [
        ("units follow products", repr(speed), speed.unit == {"m": 1, "s": -1} and speed.value.tolist() == [1.5, 0.5]),
        ("and sums", repr(torch.sum(energy)), torch.sum(energy).unit == {"kg": 1, "m": 2, "s": -2}),
        ("different units are refused", wrong, "units differ" in wrong),
        ("functions without a rule are named", missing, "exp" in missing and "accepted" not in missing),
        ("a mode sees public functions", dict(calls.counts), calls.counts["linear"] == calls.counts["relu"] == 1),
    ]
    return common.check(claims)


if __name__ == "__main__":
    main()
