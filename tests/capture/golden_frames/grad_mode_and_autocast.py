"""Regions without gradients and with autocast; the parameter asks for a gradient."""

import flambeau as torch


def f(x, weight):
    with torch.no_grad():
        scale = weight.abs().sum()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ weight
    return y.float() / scale


def run(compile):
    weight = torch.ones(3, 2, requires_grad=True)
    return compile(f)(torch.ones(4, 3), weight)
