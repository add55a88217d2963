"""Models as Triton kernels in the interpreter: results and gradients are eager's, with blocks as a GPU gets them and with larger ones."""

import pytest
import flambeau
from flambeau import compiler, nn
from flambeau.inductor.triton import interpret
from flambeau.inductor.triton.codegen import generate
from flambeau.nn import functional as F
from flambeau.runtime.config import config

from ..test_ops_compiled import flat, near


@pytest.fixture(autouse=True)
def strict():
    with config.patch(strict=True):
        yield


def check(model, *inputs, dynamic=None, gradients=True):
    """Loss and all gradients of two calls."""
    compiler.reset()
    compiled = flambeau.compile(model, backend="triton", dynamic=dynamic)
    parameters = list(model.parameters())
    found = []
    for call in (model, compiled):
        flambeau.manual_seed(7)
        for p in parameters:
            p.grad = None
        out = call(*inputs)
        if gradients:
            out.float().sum().backward()
        found.append([out.detach(), *(p.grad for p in parameters)])
    for k, (a, b) in enumerate(zip(*found)):
        near(b, a, f"value {k}", strided=False)
    seen = compiler.counters()
    assert not seen["breaks"] and not seen["fallbacks"]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.drop = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(0.1)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (a.view(b, t, self.heads, d // self.heads).transpose(1, 2) for a in self.qkv(self.first(x)).split(d, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.drop(self.out(y))
        return x + self.drop(self.down(F.gelu(self.up(self.second(x)))))


class GPT(nn.Module):
    def __init__(self, vocabulary=61, width=16, heads=2, layers=2, length=12):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens, wanted):
        x = self.token(tokens) + self.place(flambeau.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), wanted.flatten())


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
def test_gpt_trains(dynamic):
    flambeau.manual_seed(0)
    tokens = flambeau.randint(0, 61, (2, 13))
    check(GPT(), tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), dynamic=dynamic)


def test_mlp_trains():
    flambeau.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 33), nn.Tanh(), nn.Linear(33, 7))
    check(model, flambeau.randn(19, 20))


def test_convolutions_train():
    flambeau.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 6, 3, groups=2),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(6 * 2 * 2, 5),
    )
    check(model, flambeau.randn(3, 3, 12, 12))


def test_half_precision_rounds_as_eager():
    flambeau.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 16)).to(flambeau.bfloat16)
    check(model, flambeau.randn(9, 24, dtype=flambeau.bfloat16), gradients=False)


def test_blocks_as_a_gpu_gets_them(monkeypatch):
    """Many programs of small blocks: masks at the edges, rows that are walked, sums of parts."""
    monkeypatch.setattr(interpret, "LARGE", 0)

    def f(x, w, i):
        y = (x @ w).softmax(-1)
        return y.sum(0), x.var(1), (x + 1).t().contiguous(), x[i].argmax(-1), x.logsumexp(1), x.amax(), x.double().cumsum(1)

    flambeau.manual_seed(0)
    inputs = flambeau.randn(40, 4100), flambeau.randn(4100, 20), flambeau.tensor([3, -1, 39])
    for a, b in zip(flambeau.compile(f, backend="triton")(*inputs), f(*inputs)):
        near(a, b, "output", strided=False)


def test_an_index_out_of_range_raises_what_eager_raises():
    f = lambda table, i: table[i] * 2
    table = flambeau.randn(5, 3)
    compiled = flambeau.compile(f, backend="triton")
    near(compiled(table, flambeau.tensor([0, -5, 4])), f(table, flambeau.tensor([0, -5, 4])), "rows")
    with pytest.raises(IndexError):
        compiled(table, flambeau.tensor([0, 5, 4]))


def test_draws_are_those_of_eager():
    f = lambda x: F.dropout(x, 0.5) + flambeau.rand(4, 7) * flambeau.randn(4, 7)
    compiled, x = flambeau.compile(f, backend="triton"), flambeau.ones(4, 7)
    flambeau.manual_seed(3)
    wanted = [f(x), f(x), flambeau.rand(2)]
    flambeau.manual_seed(3)
    for a, b in zip([compiled(x), compiled(x), flambeau.rand(2)], wanted):
        near(a, b, "draws")


def test_long_reductions_are_split(programs):
    """Few points with much to add up would keep few of a GPU's processors busy: parts first, then their sums."""
    x, w = flambeau.randint(-9, 9, (100, 5001)).float(), flambeau.randint(-9, 9, (4100, 96)).float()  # sums are exact
    for f, given, launches in (
        (lambda x: (x.sum(), x.amax()), x, 2),
        (lambda w: (w * 2).sum(0), w, 2),
        (lambda x: x.sum(1), x[:, :4000].contiguous(), 1),
    ):
        found, wanted = flambeau.compile(f, backend="triton")(given), f(given)
        for a, b in zip(flat(found), flat(wanted)):
            near(a, b, "sum", strided=False)
        assert len(generate(programs[-1]).kernels) >= launches and (launches == 1) == (len(programs[-1].kernels) == 1)
