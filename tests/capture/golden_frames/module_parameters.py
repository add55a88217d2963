"""A module with parameters, a submodule and a buffer."""

import flambeau as torch


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 2)
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x):
        y = self.inner(x) * self.scale
        return y.tanh() if self.training else y


def run(compile):
    model = Scaled()
    torch.nn.init.ones_(model.inner.weight)
    torch.nn.init.zeros_(model.inner.bias)
    return compile(model)(torch.ones(4, 3))
