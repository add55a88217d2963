"""A vision transformer on scikit-learn's digits: 16 patches of 2 x 2, attention, one compiled function per step.

python examples/vit.py               # 400 steps; validates at 92% or more
"""

import common
import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
        x = x + self.out(mixed)
        return x + self.mlp(self.norms[1](x))


class ViT(nn.Module):
    def __init__(self, width=48, layers=3, heads=4):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 2, stride=2)
        self.positions = nn.Parameter(0.5 * torch.randn(16, width))
        self.layers = nn.Sequential(*[Layer(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.layers(x)).mean(dim=1))


def main(arguments=None):
    options = common.options(__doc__, arguments, steps=400)
    torch.manual_seed(2)
    train, (images, labels) = common.digits()
    model = ViT()

    def loss_of(x, y):
        return F.cross_entropy(model(x), y)

    compiled = loss_of if options.eager else torch.compile(loss_of, fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=options.steps)
    losses = []
    for x, y in common.batches(train, 64, options.steps):
        loss = compiled(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    found = common.accuracy(model, images, labels)
    claims = [("the loss falls", f"{losses[0]:.2f} -> {losses[-1]:.2f}", losses[-1] < losses[0])]
    if not options.short:
        claims.append(("92% of 360 held-out digits are right", f"{found:.1%}", found >= 0.92))
    return common.check(claims)


if __name__ == "__main__":
    main()
