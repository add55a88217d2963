"""An input that sometimes requires gradients."""

import flambeau as torch


@torch.compile
def f(x):
    return torch.exp(x).sum()


def run():
    f(torch.ones(8))
    f(torch.ones(8, requires_grad=True))
