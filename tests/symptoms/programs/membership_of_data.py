"""A result whose values only the data knows."""

import flambeau as torch


@torch.compile
def f(x):
    keep = torch.isin(x, torch.tensor([1.0, 2.0]))
    return x * keep


def run():
    f(torch.ones(8))
