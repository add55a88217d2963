"""Plain arithmetic of tensors."""

import flambeau as torch


def f(x, y):
    z = x * 2 + y
    return z.relu() @ z.t(), z.sum(0)


def run(compile):
    return compile(f)(torch.ones(4, 3), torch.ones(3))
