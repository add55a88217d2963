"""A number read from a tensor after a write cuts the graph."""

import flambeau as torch


@torch.compile
def f(x, scale):
    scale.mul_(0.5)
    return x * scale.item()


def run():
    f(torch.ones(8), torch.ones(()))
