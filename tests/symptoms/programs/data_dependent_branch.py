"""A branch that the data decides cuts the graph."""

import flambeau as torch


@torch.compile
def f(x):
    y = torch.sin(x)
    if y.sum() > 0:
        return y * 2
    return y - 1


def run():
    f(torch.ones(8))
