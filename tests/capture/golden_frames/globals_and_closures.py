"""A global number, a global tensor, a function of this module and a value of a closure."""

import flambeau as torch

SCALE = 3
OFFSET = torch.ones(3)


def shifted(x):
    return x + OFFSET


def make(power):
    def f(x):
        return shifted(x * SCALE) ** power

    return f


def run(compile):
    return compile(make(2))(torch.ones(2, 3))
