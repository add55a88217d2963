"""One compiled function for every length: sizes become symbols, and what depends on them is a guard.

    python examples/dynamic_shapes.py

A classifier of sequences is trained on batches of 20 different lengths; counters tell that it was compiled at most twice. Then
what was asked about the sizes is printed: comparisons, not numbers.
"""

import common
import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

SYMBOLS, WIDTH = 8, 24


class Majority(nn.Module):
    """Which symbol is the most frequent one? Attention with one query over embedded symbols."""

    def __init__(self):
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, WIDTH)
        self.query = nn.Parameter(torch.randn(1, WIDTH))
        self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, SYMBOLS))

    def forward(self, tokens):
        x = self.symbols(tokens)
        batch, length, width = x.shape
        mixed = F.scaled_dot_product_attention(self.query.expand(batch, 1, width), x, x)
        return self.head(mixed.squeeze(1) * length**0.5)


def sequences(count, length):
    """Tokens and the most frequent one; the winner is made clear."""
    winners = torch.randint(0, SYMBOLS, (count,))
    tokens = torch.randint(0, SYMBOLS, (count, length))
    chosen = torch.rand(count, length) < 0.4
    return torch.where(chosen, winners[:, None], tokens), winners


def main(arguments=None):
    options = common.options(__doc__, arguments, steps=400)
    torch.manual_seed(6)
    model = Majority()
    step = model if options.eager else torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    lengths, losses = [5 + k % 20 for k in range(options.steps)], []
    before = torch.compiler.counters()
    for length in lengths:
        tokens, winners = sequences(64, length)
        loss = F.cross_entropy(step(tokens), winners)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    after = torch.compiler.counters()
    graphs = after["graphs"] - before["graphs"]
    right = []
    with torch.no_grad():
        for length in (16, 40, 77):
            tokens, winners = sequences(200, length)
            right.append((step(tokens).argmax(1) == winners).float().mean().item())
    told = torch.compiler.explain(model, backend="eager", dynamic=True)(sequences(4, 9)[0])
    print("\n".join(f"  guard: {line}" for line in told.guards if "tokens" in line))
    claims = [
        ("lengths share their code", f"{graphs} graphs for {len(set(lengths))} lengths", graphs <= 2),
        ("the loss falls", f"{losses[0]:.2f} -> {losses[-1]:.2f}", options.short or losses[-1] < losses[0]),
    ]
    if not options.short:
        claims.append(("lengths that were never trained on work", ", ".join(f"{r:.0%}" for r in right), min(right) > 0.8))
    return common.check(claims)


if __name__ == "__main__":
    main()
