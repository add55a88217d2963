"""An attribute that counts the calls is a new fact in each."""

import flambeau as torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.name = "call 0"
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * len(self.name)


model = Model()
f = torch.compile(model)


def run():
    for call in range(12):
        model.name = "c" * (call + 1)
        f(torch.ones(2, 4))
