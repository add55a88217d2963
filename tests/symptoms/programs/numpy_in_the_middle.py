"""Arrays of numpy that are written leave the graph."""

import flambeau as torch


@torch.compile
def f(x):
    y = (x * 2).numpy()
    y[0] = 0
    return torch.from_numpy(y) + 1


def run():
    f(torch.ones(8))
