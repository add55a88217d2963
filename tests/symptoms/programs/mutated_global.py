"""A global that changes from call to call is a guard that fails."""

import flambeau as torch

MODE = "warmup"


@torch.compile
def f(x):
    return x * 2 if MODE == "warmup" else x * 3


def run():
    global MODE
    for MODE in ("warmup", "train", "test"):
        f(torch.ones(8))
