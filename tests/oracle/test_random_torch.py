"""`FLAMBEAU_RANDOM=torch`: every draw is PyTorch's, bit by bit where its code is plain, and the next draw agrees as well."""

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch")

SIZES = (0, 1, 7, 8, 15, 16, 17, 31, 33, 1000, 4097, 100003)
FLOATS = ("float32", "float64", "float16", "bfloat16")
WHOLE = ("int64", "int32", "int16", "int8", "uint8", "bool")


@pytest.fixture(autouse=True)
def numbers_of_torch():
    flambeau.random.use("torch")
    yield
    flambeau.random.use("philox")


def values(x):
    """Tensors of either library as arrays; nested results as lists of them."""
    if isinstance(x, (tuple, list)):
        return [values(each) for each in x]
    if isinstance(x, (int, float, bool)):
        return np.asarray(x)
    x = x.detach()
    return (x.float() if "float16" in str(x.dtype) else x).numpy().copy()


def both(draw, seed=12, ulps=0):
    """`draw(module)` of both, and what they draw next. `ulps`: of the largest of each row of numbers that may be off by that much,
    where sums and products come after the draw."""
    found = []
    for module in (torch, flambeau):
        module.manual_seed(seed)
        result = draw(module)
        found.append((values(result), values(module.randn(3)), values(module.rand(2))))
    (wanted, normals, uniforms), (got, own_normals, own_uniforms) = found
    agree(got, wanted, ulps)
    np.testing.assert_array_equal(own_normals, normals, "the next normal numbers")
    np.testing.assert_array_equal(own_uniforms, uniforms, "the next uniform numbers")


def agree(got, wanted, ulps):
    if isinstance(wanted, list):
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted):
            agree(a, b, ulps)
        return
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    if ulps and got.dtype.kind in "fc" and got.size:
        eps = np.finfo(got.dtype).eps
        np.testing.assert_allclose(got, wanted, rtol=ulps * eps, atol=ulps * eps * np.abs(wanted).max())
    else:
        np.testing.assert_array_equal(got, wanted)


def spread(module, n, dtype, layout):
    """A tensor of about n elements to fill."""
    dtype = getattr(module, dtype)
    if layout == "flat":
        return module.zeros(n, dtype=dtype)
    rows = max(1, n // 5)
    if layout == "transposed":
        return module.zeros(5, rows, dtype=dtype).t()
    if layout == "strided":
        return module.zeros(rows, 10, dtype=dtype)[:, ::2]
    return module.zeros(2, 3, max(1, n // 24), 4, dtype=dtype).permute(0, 3, 1, 2)


LAYOUTS = ("flat", "transposed", "strided", "permuted")
FILLS = {
    "uniform": lambda x: x.uniform_(),
    "uniform between": lambda x: x.uniform_(-0.3, 0.7),
    "normal": lambda x: x.normal_(),
    "normal of a mean": lambda x: x.normal_(0.5, 2.3),
    "exponential": lambda x: x.exponential_(1.7),
    "cauchy": lambda x: x.cauchy_(0.3, 1.7),
    "log_normal": lambda x: x.log_normal_(0.3, 0.7),
    "geometric": lambda x: x.geometric_(0.3),
    "bernoulli": lambda x: x.bernoulli_(0.3),
    "random": lambda x: x.random_(),
    "random to": lambda x: x.random_(100),
    "random between": lambda x: x.random_(3, 90),
}
FILLS_OF_WHOLE = ("bernoulli", "random")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FILLS)
def test_fills(name, dtype, layout):
    for n in SIZES:
        both(lambda m: FILLS[name](spread(m, n, dtype, layout)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("name", FILLS_OF_WHOLE)
def test_fills_of_whole_numbers(name, dtype, layout):
    for n in SIZES:
        both(lambda m: FILLS[name](spread(m, n, dtype, layout)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_new_tensors(dtype):
    for n in SIZES:
        both(lambda m: m.rand(n, dtype=getattr(m, dtype)))
        both(lambda m: m.randn(n, dtype=getattr(m, dtype)))
        both(lambda m: m.randint(-5, 100, (n,), dtype=getattr(m, dtype)))
    both(lambda m: m.rand(3, 5, 7, dtype=getattr(m, dtype)))
    both(lambda m: m.randn(3, 5, 7, dtype=getattr(m, dtype)))


@pytest.mark.parametrize("high", [1, 10, 2**20 + 1, 2**28 - 1, 2**28, 2**31 - 1, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1])
def test_whole_numbers_below_a_bound(high):
    for n in (0, 1, 17, 1000):
        both(lambda m: m.randint(0, high, (n,)))
        both(lambda m: m.randint(-7, high, (n,)))
        both(lambda m: m.zeros(n, dtype=m.float64).random_(0, high))
        if high < 2**31:
            both(lambda m: m.randint(0, high, (n,), dtype=m.int32))


@pytest.mark.parametrize(
    "dtype, low, high",
    [("float32", 0, 2**24), ("float16", 0, 65504), ("float16", -3000, 3001), ("bfloat16", 0, 3000), ("bfloat16", 257, 999)],
)
def test_bounds_that_a_floating_type_does_not_hold(dtype, low, high):
    both(lambda m: m.zeros(1000, dtype=getattr(m, dtype)).random_(low, high))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_like_another_tensor(dtype, layout):
    for n in (1, 15, 16, 100, 1000):
        both(lambda m: m.rand_like(spread(m, n, dtype, layout)))
        both(lambda m: m.randn_like(spread(m, n, dtype, layout)))
        both(lambda m: m.randint_like(spread(m, n, dtype, layout), 3, 99))
        both(lambda m: m.randn_like(spread(m, n, dtype, layout), dtype=m.float32, memory_format=m.contiguous_format))
    both(lambda m: m.randn_like(m.zeros(2, 3, 4, 5, dtype=getattr(m, dtype)), memory_format=m.channels_last))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers(dtype):
    for n in (1, 7, 8, 9, 100):
        both(lambda m: m.rand(n, dtype=getattr(m, dtype)))
        both(lambda m: m.randn(n, dtype=getattr(m, dtype)), ulps=2)


def test_orders():
    for n in (0, 1, 2, 5, 1000, 40000, 100003):
        both(lambda m: m.randperm(n))
        both(lambda m: m.randperm(n, dtype=m.int32))


@pytest.mark.parametrize("dtype", FLOATS)
def test_probabilities_per_element(dtype):
    def given(m, n):
        return (m.arange(n, dtype=m.float32) / max(n, 1)).to(getattr(m, dtype))

    for n in SIZES:
        both(lambda m: m.bernoulli(given(m, n)))
        both(lambda m: m.zeros(n).bernoulli_(given(m, n)))
    both(lambda m: m.bernoulli(given(m, 60).reshape(5, 12).t()))
    both(lambda m: m.zeros(5, 12).t().bernoulli_(given(m, 60).reshape(12, 5)))
    both(lambda m: m.zeros(5, 12).t().bernoulli_(given(m, 5)))
    both(lambda m: m.bernoulli(given(m, 40), 0.2))


def test_means_and_deviations():
    def given(m, n):
        return m.arange(n, dtype=m.float32) / 7

    for n in (1, 15, 16, 17, 100):
        both(lambda m: m.normal(given(m, n), given(m, n) + 1))
        both(lambda m: m.normal(given(m, n), 2.5))
        both(lambda m: m.normal(1.5, given(m, n)))
        both(lambda m: m.normal(1.5, 0.3, (n,)))
        both(lambda m: m.normal(1.5, 0.3, (n, 3), dtype=m.float64))
    both(lambda m: m.normal(given(m, 12).reshape(3, 4).t(), given(m, 12).reshape(4, 3)))
    both(lambda m: m.normal(given(m, 5), given(m, 20).reshape(4, 5)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_choices(dtype):
    def given(m, rows, n):
        return ((m.arange(rows * n, dtype=getattr(m, dtype)) * 7 % 13) + 0.5).reshape(rows, n)

    for rows, n in ((1, 5), (3, 50), (2, 1000)):
        for count in (1, 2, 5):
            for replacement in (False, True):
                both(lambda m: m.multinomial(given(m, rows, n), count, replacement))
                both(lambda m: m.multinomial(given(m, rows, n)[0], count, replacement))
    both(lambda m: m.multinomial(given(m, 1, 30)[0], 10000, True))
    both(lambda m: m.multinomial(m.tensor([0.0, 1.0, 0.0, 3.0]), 2))


@pytest.mark.parametrize("rate", [0.0, 0.3, 3.0, 9.99, 10.0, 47.0, 3000.0])
def test_numbers_of_events(rate):
    for dtype in ("float32", "float64"):
        both(lambda m: m.poisson(m.full((200,), rate, dtype=getattr(m, dtype))))


@pytest.mark.parametrize("shape", [0.1, 0.7, 1.0, 2.5, 30.0])
def test_gamma_and_what_is_made_of_it(shape):
    d = lambda m: m.distributions  # noqa: E731
    for dtype in ("float32", "float64"):
        given = lambda m: m.full((200,), shape, dtype=getattr(m, dtype))  # noqa: E731
        both(lambda m: m._standard_gamma(given(m)))
        both(lambda m: d(m).Gamma(given(m), 2.0).sample(), ulps=8)
        both(lambda m: d(m).Chi2(given(m)).sample((3,)), ulps=8)
    both(lambda m: d(m).Dirichlet(m.full((3, 5), shape)).sample(), ulps=8)
    both(lambda m: d(m).Beta(m.full((7,), shape), 2.0).sample(), ulps=8)
    both(lambda m: d(m).StudentT(m.full((7,), shape + 1)).sample(), ulps=4)


DISTRIBUTIONS = {
    "Normal": lambda d, m: d.Normal(m.tensor([0.5, 1.5]), 2.0),
    "Uniform": lambda d, m: d.Uniform(m.tensor([0.5, 1.5]), 2.0),
    "Bernoulli": lambda d, m: d.Bernoulli(m.tensor([0.2, 0.7])),
    "Categorical": lambda d, m: d.Categorical(m.tensor([[0.2, 0.7, 0.1], [0.5, 0.3, 0.2]])),
    "Exponential": lambda d, m: d.Exponential(m.tensor([0.5, 2.0])),
    "Laplace": lambda d, m: d.Laplace(m.tensor([0.5, 2.0]), 1.5),
    "Gumbel": lambda d, m: d.Gumbel(m.tensor([0.5, 2.0]), 1.5),
    "Cauchy": lambda d, m: d.Cauchy(m.tensor([0.5, 2.0]), 1.5),
    "HalfNormal": lambda d, m: d.HalfNormal(m.tensor([0.5, 2.0])),
    "HalfCauchy": lambda d, m: d.HalfCauchy(m.tensor([0.5, 2.0])),
    "LogNormal": lambda d, m: d.LogNormal(m.tensor([0.5, 2.0]), 0.5),
    "Geometric": lambda d, m: d.Geometric(m.tensor([0.2, 0.7])),
    "Poisson": lambda d, m: d.Poisson(m.tensor([0.2, 20.0])),
    "Multinomial": lambda d, m: d.Multinomial(10, m.tensor([0.2, 0.7, 0.1])),
    "OneHotCategorical": lambda d, m: d.OneHotCategorical(m.tensor([0.2, 0.7, 0.1])),
    "MultivariateNormal": lambda d, m: d.MultivariateNormal(m.zeros(3), m.eye(3)),
    "Weibull": lambda d, m: d.Weibull(m.tensor([0.5, 2.0]), 1.5),
    "Pareto": lambda d, m: d.Pareto(m.tensor([0.5, 2.0]), 1.5),
    "Kumaraswamy": lambda d, m: d.Kumaraswamy(m.tensor([0.5, 2.0]), 1.5),
    "RelaxedBernoulli": lambda d, m: d.RelaxedBernoulli(m.tensor(0.5), m.tensor([0.2, 0.7])),
    "ContinuousBernoulli": lambda d, m: d.ContinuousBernoulli(m.tensor([0.2, 0.7])),
    "NegativeBinomial": lambda d, m: d.NegativeBinomial(m.tensor([3.0, 7.0]), m.tensor([0.2, 0.7])),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name):
    for shape in ((), (3,), (40,)):
        both(lambda m: DISTRIBUTIONS[name](m.distributions, m).sample(shape), ulps=30)


LAYERS = {
    "Linear": lambda nn: nn.Linear(13, 7),
    "Bilinear": lambda nn: nn.Bilinear(3, 4, 5),
    "Conv1d": lambda nn: nn.Conv1d(3, 5, 3),
    "Conv2d": lambda nn: nn.Conv2d(4, 6, 3, groups=2),
    "Conv3d": lambda nn: nn.Conv3d(2, 3, 2),
    "ConvTranspose2d": lambda nn: nn.ConvTranspose2d(3, 5, 3),
    "Embedding": lambda nn: nn.Embedding(10, 7, padding_idx=2),
    "EmbeddingBag": lambda nn: nn.EmbeddingBag(10, 7),
    "RNN": lambda nn: nn.RNN(3, 5, 2),
    "LSTM": lambda nn: nn.LSTM(3, 5, 2, bidirectional=True),
    "GRU": lambda nn: nn.GRU(3, 5),
    "LSTMCell": lambda nn: nn.LSTMCell(3, 5),
    "GRUCell": lambda nn: nn.GRUCell(3, 5),
    "MultiheadAttention": lambda nn: nn.MultiheadAttention(8, 2),
    "MultiheadAttention of sizes": lambda nn: nn.MultiheadAttention(8, 2, kdim=6, vdim=4, add_bias_kv=True),
    "TransformerEncoderLayer": lambda nn: nn.TransformerEncoderLayer(8, 2, 16),
    "TransformerDecoderLayer": lambda nn: nn.TransformerDecoderLayer(8, 2, 16),
    "Transformer": lambda nn: nn.Transformer(8, 2, 1, 1, 16),
    "Sequential": lambda nn: nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_first_values_of_layers(name):
    both(lambda m: list(LAYERS[name](m.nn).parameters()))


INITIALISERS = {
    "uniform": lambda i, x: i.uniform_(x, -1, 2),
    "normal": lambda i, x: i.normal_(x, 1, 2),
    "xavier_uniform": lambda i, x: i.xavier_uniform_(x, 1.3),
    "xavier_normal": lambda i, x: i.xavier_normal_(x, 1.3),
    "kaiming_uniform": lambda i, x: i.kaiming_uniform_(x, nonlinearity="relu"),
    "kaiming_normal": lambda i, x: i.kaiming_normal_(x, mode="fan_out"),
    "trunc_normal": lambda i, x: i.trunc_normal_(x, std=0.02),
    "trunc_normal wide": lambda i, x: i.trunc_normal_(x, 0.0, 1.0, -0.5, 1.0),
    "trunc_normal narrow": lambda i, x: i.trunc_normal_(x, 0.0, 1.0, 1.0, 1.5),
    "sparse": lambda i, x: i.sparse_(x, 0.3),
}


@pytest.mark.parametrize("name", INITIALISERS)
def test_initialisers(name):
    for sizes in ((3, 4), (20, 33)):
        both(lambda m: INITIALISERS[name](m.nn.init, m.empty(sizes)))


def test_orthogonal():
    both(lambda m: m.nn.init.orthogonal_(m.empty(7, 5)).abs().sum(), ulps=64)


DROPOUTS = {
    "dropout": lambda f, x: f.dropout(x, 0.3),
    "dropout of all": lambda f, x: f.dropout(x, 1.0),
    "dropout1d": lambda f, x: f.dropout1d(x[0], 0.3),
    "dropout2d": lambda f, x: f.dropout2d(x, 0.3),
    "dropout3d": lambda f, x: f.dropout3d(x, 0.3),
    "alpha_dropout": lambda f, x: f.alpha_dropout(x, 0.3, training=True),
    "feature_alpha_dropout": lambda f, x: f.feature_alpha_dropout(x, 0.3, training=True),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropouts(name):
    for sizes in ((2, 3, 4, 5), (2, 3, 17, 40)):
        for change in (lambda x: x, lambda x: x.permute(0, 2, 3, 1), lambda x: x.requires_grad_()):
            both(lambda m: DROPOUTS[name](m.nn.functional, change(m.ones(sizes))), ulps=3)


def test_dropout_in_attention():
    def run(m):
        q = (m.arange(2 * 3 * 6 * 4, dtype=m.float32) % 11 / 11).reshape(2, 3, 6, 4)
        return m.nn.functional.scaled_dot_product_attention(q, q + 1, q - 1, dropout_p=0.4, is_causal=True)

    both(run, ulps=64)


MODELS = {
    "LSTM": lambda nn: nn.LSTM(8, 8, 2, dropout=0.4),
    "GRU": lambda nn: nn.GRU(8, 8, 3, dropout=0.4, batch_first=True),
    "MultiheadAttention": lambda nn: nn.MultiheadAttention(8, 2, dropout=0.4),
    "TransformerEncoderLayer": lambda nn: nn.TransformerEncoderLayer(8, 2, 16, 0.3),
    "TransformerDecoderLayer": lambda nn: nn.TransformerDecoderLayer(8, 2, 16, 0.3, batch_first=True),
    "Dropout in place": lambda nn: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3, inplace=True), nn.AlphaDropout(0.2)),
}


@pytest.mark.parametrize("name", MODELS)
def test_dropouts_inside_of_layers(name):
    def run(m):
        model, x = MODELS[name](m.nn), m.arange(5 * 3 * 8, dtype=m.float32).reshape(5, 3, 8) % 11 / 11
        out = model(*[x] * {"MultiheadAttention": 3, "TransformerDecoderLayer": 2}.get(name, 1))
        return out[0] if isinstance(out, tuple) else out

    both(run, ulps=64)


def test_slopes_of_rrelu():
    for n in (0, 5, 40):
        both(lambda m: m.nn.functional.rrelu(m.arange(-n, n, dtype=m.float32).reshape(2, n), training=True), ulps=2)
        both(lambda m: m.nn.functional.rrelu(m.arange(-n, n, dtype=m.float64), 0.2, 0.7, training=True), ulps=2)


def test_gumbel_softmax():
    both(lambda m: m.nn.functional.gumbel_softmax(m.arange(40.0).reshape(4, 10), hard=True))


def test_own_generators():
    def run(m):
        g = m.Generator().manual_seed(2**40 + 5)
        h = m.Generator()
        return [
            m.rand(5, generator=g),
            m.randn(20, generator=g),
            m.randperm(9, generator=h),
            m.tensor(h.initial_seed()),
            m.rand(3),
        ]

    both(run)


@pytest.mark.parametrize("seed", [0, 1, -1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
def test_seeds(seed):
    both(lambda m: m.rand(5), seed)


def test_states_are_exchanged():
    torch.manual_seed(3), flambeau.manual_seed(4)
    torch.randn(5)
    flambeau.set_rng_state(flambeau.tensor(torch.get_rng_state().numpy()))
    assert torch.equal(torch.get_rng_state(), torch.tensor(flambeau.get_rng_state().numpy()))
    np.testing.assert_array_equal(flambeau.randn(5).numpy(), torch.randn(5).numpy())
    torch.set_rng_state(torch.tensor(flambeau.get_rng_state().numpy()))
    np.testing.assert_array_equal(flambeau.rand(700).numpy(), torch.rand(700).numpy())
    assert flambeau.initial_seed() == torch.initial_seed() == 3


def test_loaders_and_splits():
    def run(m):
        data = m.utils.data.TensorDataset(m.arange(23))
        loader = m.utils.data.DataLoader(data, batch_size=4, shuffle=True)
        found = [batch[0] for _ in range(2) for batch in loader]
        found += [m.tensor(list(part.indices)) for part in m.utils.data.random_split(data, [10, 13])]
        d = m.utils.data
        g = m.Generator().manual_seed(3)
        found += [
            m.tensor(list(d.RandomSampler(range(10), generator=g))),
            m.tensor(list(d.RandomSampler(range(10), generator=g))),
        ]
        found += [m.tensor(list(d.RandomSampler(range(10), True, 70, generator=g))), m.rand(2, generator=g)]
        found += [m.tensor(list(d.WeightedRandomSampler([0.1, 0.9, 0.4, 3.0], 20)))]
        return found + [m.tensor(list(d.SubsetRandomSampler(range(9))))]

    both(run)


class Seeds:
    def __len__(self):
        return 4

    def __getitem__(self, k):
        import random

        return k * 0 + np.random.randint(2**31), random.randrange(2**31), int(self.module.randint(0, 2**31, ()))


def test_seeds_of_workers():
    def run(m):
        data = Seeds()
        data.module = m
        loader = m.utils.data.DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context="fork")
        return [m.tensor([int(x) for x in row]) for row in loader]

    both(run)


def train(m, compiled=None):
    m.manual_seed(1)
    data = m.utils.data.TensorDataset(m.randn(64, 10), m.randint(0, 3, (64,)))
    loader = m.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    model = m.nn.Sequential(m.nn.Linear(10, 32), m.nn.ReLU(), m.nn.Dropout(0.3), m.nn.Linear(32, 3))
    step = model if compiled is None else m.compile(model, backend=compiled)
    opt, losses = m.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
    for _ in range(3):
        for x, y in loader:
            loss = m.nn.functional.cross_entropy(step(x), y)
            opt.zero_grad(), loss.backward(), opt.step()
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager", "loops", "inductor"])
def test_a_training_program(backend):
    np.testing.assert_allclose(train(flambeau, backend), train(torch), rtol=1e-5, atol=1e-5)
