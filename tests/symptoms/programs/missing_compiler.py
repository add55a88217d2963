"""Without a C++ compiler the loop interpreter runs."""

import os

import flambeau as torch


@torch.compile
def f(x):
    return torch.tanh(x) * 2


def run():
    before = os.environ.get("PATH", ""), os.environ.pop("CXX", None)
    os.environ["PATH"] = ""
    try:
        f(torch.ones(8))
    finally:
        os.environ["PATH"] = before[0]
        if before[1] is not None:
            os.environ["CXX"] = before[1]
