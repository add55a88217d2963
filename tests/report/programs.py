"""Programs that the tests of reports compile: a small network that is trained, and functions with breaks and versions."""

import flambeau as torch
import flambeau.nn as nn
import flambeau.nn.functional as F

WIDTH, CLASSES = 16, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        h = F.gelu(self.up(self.norm(x)))
        return x + self.down(h)


class Net(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(layers)])
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, targets):
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x), targets)


def trained(steps=2):
    """(compiled module, optimizer) after some steps; gradients are kept."""
    torch.manual_seed(0)
    net = Net()
    compiled, optimizer = torch.compile(net), torch.optim.AdamW(net.parameters(), lr=1e-2)
    x, targets = torch.randn(32, WIDTH), torch.randint(0, CLASSES, (32,))
    for _ in range(steps):
        optimizer.zero_grad()
        compiled(x, targets).backward()
        optimizer.step()
    return compiled, optimizer


def helper(x, k):
    y = x * k
    print("between")
    return y.sum()


def broken(x, k=2.0):
    if x.shape[0] > 100:
        x = x[:100]
    total = helper(x.relu(), k)
    if total > 3:
        return total * 2
    return (x + total).softmax(-1)


def picked(x):
    rows = x[x.sum(-1) > 0]
    return rows.exp() + 1


def text_like_markup(x):
    y = x + 1  # </script><b>
    return y.relu()
