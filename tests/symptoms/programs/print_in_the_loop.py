"""A print in a loop cuts the graph in every turn."""

import flambeau as torch


@torch.compile
def f(x):
    for step in range(3):
        x = x * 2
        print("step", step)
    return x


def run():
    f(torch.ones(8))
