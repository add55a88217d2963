"""With dynamic=False every size is compiled anew, until the limit."""

import flambeau as torch


@torch.compile(dynamic=False)
def f(x):
    return torch.softmax(x, -1)


def run():
    for n in range(2, 12):
        f(torch.ones(n, 4))
