"""Values that go through numpy leave the graph."""

import flambeau as torch


@torch.compile
def f(x):
    y = (x * 2).numpy()
    return torch.from_numpy(y) + 1


def run():
    f(torch.ones(8))
