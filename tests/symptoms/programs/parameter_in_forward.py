"""A Parameter that is made in every call."""

import flambeau as torch


@torch.compile
def f(x):
    scale = torch.nn.Parameter(torch.ones(8))
    return x * scale


def run():
    f(torch.ones(8))
