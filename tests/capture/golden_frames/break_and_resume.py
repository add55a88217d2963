"""A graph break in the middle: two graphs, and a resume function with guards of its own."""

import flambeau as torch


def f(x, scale):
    y = x * scale["by"]
    if y.sum() > 0:
        y = y.sin()
    return y + x


def run(compile):
    return compile(f)(torch.ones(3), {"by": 2})
