"""A generator is compiled itself, instead of the function that calls it."""

import flambeau as torch


@torch.compile
def f(x):
    yield x + 1
    yield x + 2


def run():
    list(f(torch.ones(8)))
