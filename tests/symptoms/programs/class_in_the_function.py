"""A class statement inside the compiled function."""

import flambeau as torch


@torch.compile
def f(x):
    class Options:
        scale = 2

    return x * Options.scale


def run():
    f(torch.ones(8))
