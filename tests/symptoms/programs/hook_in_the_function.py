"""A hook on a tensor inside the compiled function."""

import flambeau as torch

weight = torch.ones(8, requires_grad=True)


@torch.compile
def f(x):
    y = weight * x
    y.register_hook(lambda g: g * 2)
    return y.sum()


def run():
    f(torch.ones(8)).backward()
