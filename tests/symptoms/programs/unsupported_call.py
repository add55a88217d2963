"""A function without bytecode that the compiler does not know."""

import time

import flambeau as torch


@torch.compile
def f(x):
    y = x * 2
    seed = time.perf_counter_ns() % 2
    return y + seed * 0


def run():
    f(torch.ones(8))
