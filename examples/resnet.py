"""A residual network on scikit-learn's digits: convolutions, batch norms and a cosine schedule, compiled.

python examples/resnet.py            # 300 steps, a few seconds; validates at 97% or more
"""

import common
import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


class Block(nn.Module):
    """Two 3 x 3 convolutions around a shortcut, which is a 1 x 1 convolution where sizes change."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.shortcut = nn.Identity() if (before, stride) == (after, 1) else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.Sequential(Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2))
        self.head = nn.Linear(4 * width, 10)

    def forward(self, images):
        return self.head(self.blocks(self.stem(images)).mean(dim=(2, 3)))


def main(arguments=None):
    options = common.options(__doc__, arguments, steps=300)
    torch.manual_seed(1)
    train, (images, labels) = common.digits()
    model = ResNet()
    step = model if options.eager else torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    losses = []
    for x, y in common.batches(train, 64, options.steps):
        loss = F.cross_entropy(step(x), y, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    model.eval()
    found = common.accuracy(model, images, labels)
    claims = [("the loss falls", f"{losses[0]:.2f} -> {losses[-1]:.2f}", losses[-1] < losses[0])]
    if not options.short:
        claims.append(("97% of 360 held-out digits are right", f"{found:.1%}", found >= 0.97))
    return common.check(claims)


if __name__ == "__main__":
    main()
