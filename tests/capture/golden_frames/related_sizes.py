"""Sizes that may change, of which one is twice another."""

import flambeau as torch


def f(x, y):
    assert y.shape[0] == x.shape[0] * 2
    return torch.cat([x, x]) + y, x.reshape(-1, 2).sum(0)


def run(compile):
    compiled = compile(f, dynamic=True)
    return compiled(torch.ones(4, 3), torch.ones(8, 3))
