"""A branch on a Python number: one version for each side; a number that changes becomes an input."""

import flambeau as torch


def f(x, n):
    if n > 3:
        return x * n
    return x - n


def run(compile):
    compiled = compile(f)
    return [compiled(torch.ones(3), n) for n in (5, 6, 2)]
