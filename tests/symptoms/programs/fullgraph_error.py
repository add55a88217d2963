"""fullgraph=True makes a break an error."""

import flambeau as torch


@torch.compile(fullgraph=True)
def f(x):
    print("shape", x.shape)
    return x + 1


def run():
    f(torch.ones(8))
