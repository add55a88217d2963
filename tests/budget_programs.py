"""Ten typical programs whose compiled form has a budget (`test_budgets.py`).

Each function makes one program: (what `compile` returned, a function of the number of a call that makes this call, how many
calls come before it is warm).
"""

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


def mlp_step():
    """A whole training step, with the gradients and Adam in it."""
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x, y = torch.randn(8, 16), torch.randn(8, 4)

    @torch.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda k: step(x, y), 4


def transformer_block():
    """Forward in one graph, backward by the caller."""
    block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
    compiled, x = torch.compile(block), torch.randn(2, 8, 16)
    return compiled, lambda k: compiled(x).sum().backward(), 3


def norm_softmax():
    weight, bias, x = torch.randn(32), torch.randn(32), torch.randn(8, 32)

    @torch.compile
    def f(x):
        return torch.softmax(F.layer_norm(x, (32,), weight, bias) * 2 + x, -1)

    return f, lambda k: f(x), 3


def convolution_stage():
    """Convolution, normalisation over the batch, activation; trained."""
    stage = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    compiled, x = torch.compile(stage), torch.randn(2, 3, 8, 8)
    return compiled, lambda k: compiled(x).mean().backward(), 3


def embedding_loss():
    table, head = nn.Embedding(20, 8), nn.Linear(8, 20)
    words, wanted = torch.randint(0, 20, (4, 6)), torch.randint(0, 20, (24,))

    @torch.compile
    def loss(words, wanted):
        return F.cross_entropy(head(table(words)).reshape(-1, 20), wanted)

    return loss, lambda k: loss(words, wanted).backward(), 3


def growing_cache():
    """Attention of one new row over all rows so far: the cache is one longer in every call."""
    weights = [torch.randn(16, 16) for _ in range(3)]
    kept = [torch.randn(2, 3, 16), torch.randn(2, 3, 16)]

    @torch.compile
    def decode(x, keys, values):
        q, k, v = (x @ w for w in weights)
        keys, values = torch.cat([keys, k], 1), torch.cat([values, v], 1)
        scores = torch.softmax(q @ keys.transpose(1, 2) / 4.0, -1)
        return scores @ values, keys, values

    def call(k):
        out, *kept[:] = decode(torch.ones(2, 1, 16), *kept)

    return decode, call, 4


def lstm_loop():
    cell, x = nn.LSTMCell(8, 8), torch.randn(3, 2, 8)

    @torch.compile
    def unrolled(x):
        h = c = torch.zeros(2, 8)
        for step in range(3):
            h, c = cell(x[step], (h, c))
        return h

    return unrolled, lambda k: unrolled(x).sum().backward(), 3


def dropout_residual():
    linear, x = nn.Linear(16, 16), torch.randn(4, 16)

    @torch.compile
    def f(x):
        return x + F.dropout(F.gelu(linear(x)), 0.25, training=True)

    return f, lambda k: f(x).sum().backward(), 3


def branch_on_data():
    """One break: which way the program goes is in the data."""
    x = torch.ones(8, 8)

    @torch.compile
    def f(x):
        y = torch.relu(x) * 2
        if y.sum() > 0:
            return y.sin() + 1
        return y - 1

    return f, lambda k: f(x), 3


def optimizer_step():
    """One call of AdamW over eight parameters."""
    parameters = [nn.Parameter(torch.randn(4, 3 + k)) for k in range(8)]
    for each in parameters:
        each.grad = torch.ones_like(each)
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, foreach=True)

    @torch.compile
    def step():
        optimizer.step()

    return step, lambda k: step(), 4


PROGRAMS = (
    mlp_step,
    transformer_block,
    norm_softmax,
    convolution_stage,
    embedding_loss,
    growing_cache,
    lstm_loop,
    dropout_residual,
    branch_on_data,
    optimizer_step,
)
