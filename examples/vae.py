"""A variational autoencoder of digits: random draws inside of the compiled step, and pictures made from noise.

python examples/vae.py               # 600 steps; held-out images cost fewer nats than under independent pixels
"""

import common
import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

SHADES = " .:-=+*#%@"


class VAE(nn.Module):
    def __init__(self, hidden=128, latent=8):
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(nn.Linear(64, hidden), nn.SiLU(), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.SiLU(), nn.Linear(hidden, 64))

    def forward(self, x):
        """Nats per image: the reconstruction's cross entropy and the divergence of its code from a normal one."""
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        code = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        told = F.binary_cross_entropy_with_logits(self.decoder(code), x, reduction="none").sum(-1)
        apart = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum(-1)
        return (told + apart).mean()

    def sample(self, count):
        with torch.no_grad():
            return torch.sigmoid(self.decoder(torch.randn(count, self.latent)))


def picture(images):
    """Images of 8 x 8 side by side, as text."""
    rows = (images.view(-1, 8, 8).clamp(0, 0.999) * len(SHADES)).long().transpose(0, 1).tolist()
    return "\n".join("   ".join("".join(2 * SHADES[v] for v in row) for row in line) for line in rows)


def main(arguments=None):
    options = common.options(__doc__, arguments, steps=600)
    torch.manual_seed(4)
    (train, _), (held_out, _) = common.digits()
    train, held_out = train.flatten(1), held_out.flatten(1)
    model = VAE()
    step = model if options.eager else torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for (x,) in common.batches((train,), 128, options.steps):
        loss = step(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        found = model(held_out).item()
        alone = F.binary_cross_entropy(train.mean(0).clamp(1e-3, 1 - 1e-3).expand_as(held_out), held_out, reduction="none")
    torch.manual_seed(5)
    first = step(train[:64]).item()
    torch.manual_seed(5)
    again = model(train[:64]).item()
    print(picture(model.sample(6)))
    claims = [
        ("the loss falls", f"{losses[0]:.1f} -> {losses[-1]:.1f} nats", losses[-1] < losses[0]),
        ("compiled and eager draw the same numbers", f"{first:.4f}, {again:.4f}", abs(first - again) < 1e-3),
    ]
    if not options.short:
        baseline = alone.sum(-1).mean().item()
        claims.append(
            ("held-out images cost fewer nats than independent pixels", f"{found:.1f} < {baseline:.1f}", found < baseline)
        )
    return common.check(claims)


if __name__ == "__main__":
    main()
