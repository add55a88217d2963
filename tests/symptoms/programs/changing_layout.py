"""Inputs in several layouts of memory."""

import flambeau as torch


@torch.compile
def f(x):
    return x.sum(-1)


def run():
    f(torch.ones(6, 6))
    f(torch.ones(6, 6).t())
