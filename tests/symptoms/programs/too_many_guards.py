"""A long list of numbers that is read element by element."""

import flambeau as torch

WEIGHTS = [k / 7 for k in range(1000)]


@torch.compile
def f(x):
    for weight in WEIGHTS:
        x = x if weight >= 0 else -x
    return x * 2


def run():
    f(torch.ones(8))
