"""Keywords, defaults and what is gathered by stars."""

import flambeau as torch


def f(x, *rest, factor=2, bias=None, **named):
    y = x * factor
    if bias is not None:
        y = y + bias
    return y + rest[0] - named["less"]


def run(compile):
    return compile(f)(torch.ones(3), torch.ones(3), bias=torch.ones(1), less=torch.ones(3))
