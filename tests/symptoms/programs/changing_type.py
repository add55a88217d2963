"""Inputs of several types."""

import flambeau as torch


@torch.compile
def f(x):
    return torch.relu(x) + 1


def run():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        f(torch.ones(8, dtype=dtype))
