"""An LSTM that reads digits row by row: sequences of different lengths in one packed batch, and a compiled step.

python examples/lstm.py              # 300 steps; validates at 90% or more
"""

import common
import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.nn.utils.rnn import pack_padded_sequence


class Reader(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.rows = nn.LSTM(8, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        _, (hidden, _) = self.rows(images.squeeze(1))
        return self.head(hidden[-1])

    def read(self, images, lengths):
        """Only the first `lengths` rows of each image, as a packed batch."""
        packed = pack_padded_sequence(images.squeeze(1), lengths, batch_first=True, enforce_sorted=False)
        _, (hidden, _) = self.rows(packed)
        return self.head(hidden[-1])


def main(arguments=None):
    options = common.options(__doc__, arguments, steps=300)
    torch.manual_seed(3)
    train, (images, labels) = common.digits()
    model = Reader()
    step = model if options.eager else torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for x, y in common.batches(train, 64, options.steps):
        loss = F.cross_entropy(step(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        whole = model.read(images, torch.full((len(images),), 8))
        apart = (whole - model(images)).abs().max().item()
        half = (model.read(images, 4 + torch.arange(len(images)) % 5).argmax(1) == labels).float().mean().item()
    found = common.accuracy(model, images, labels)
    claims = [
        ("the loss falls", f"{losses[0]:.2f} -> {losses[-1]:.2f}", losses[-1] < losses[0]),
        ("a packed batch of whole images gives the same", f"worst difference {apart:.1e}", apart < 1e-4),
    ]
    if not options.short:
        claims += [
            ("90% of 360 held-out digits are right", f"{found:.1%}", found >= 0.9),
            ("with 4 to 8 rows fewer are", f"{half:.1%}", half < found),
        ]
    return common.check(claims)


if __name__ == "__main__":
    main()
