"""A device that this machine does not have."""

import flambeau as torch


@torch.compile
def f(x):
    y = x + 1
    return y.to("xpu")


def run():
    f(torch.ones(8))
