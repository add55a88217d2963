"""`FLAMBEAU_RANDOM=torch`: numbers that PyTorch 2.13 printed, states, the switch, and compiled programs that draw the same.

(tests/oracle/test_random_torch.py compares with PyTorch itself.)
"""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import flambeau as fl
from flambeau.nn import functional as F

BACKENDS = ("eager", "aot_eager", "loops", "inductor")


@pytest.fixture(autouse=True)
def numbers_of_torch():
    fl.random.use("torch")
    yield
    fl.random.use("philox")


WEIGHTS = fl.tensor([0.1, 0.2, 0.3, 0.4])
PRINTED = [  # by PyTorch 2.13 on an x86 CPU, after manual_seed(0)
    (lambda: fl.rand(3), [0.4962566, 0.7682218, 0.0884774]),
    (lambda: fl.rand(2, dtype=fl.float64), [0.970053, 0.7078199]),
    (lambda: fl.rand(3, dtype=fl.bfloat16), [0.4960938, 0.7695312, 0.0883789]),
    (lambda: fl.randn(5), [1.5409961, -0.2934289, -2.1787894, 0.5684313, -1.0845224]),
    (lambda: fl.randn(17)[-3:], [0.9462984, -0.8436767, 0.9318266]),
    (lambda: fl.randn(16, dtype=fl.float64)[:3], [-2.3104118, -0.3732509, -1.0608167]),
    (lambda: fl.randn(17, dtype=fl.bfloat16)[:3], [-1.125, -1.3515625, -1.6953125]),
    (lambda: fl.empty(8, 2).t().normal_()[:, :2], [1.5409961, -2.1787894, -0.2934289, 0.5684313]),
    (lambda: fl.randint(0, 10, (6,)), [4, 9, 3, 0, 3, 9]),
    (lambda: fl.randint(0, 2**40, (2,)), [741280623151, 506137267392]),
    (lambda: fl.randint(0, 2**28, (2,)), [130329135, 136432832]),
    (lambda: fl.randint(0, 2**28 - 1, (2,)), [209652404, 130329144]),
    (lambda: fl.empty(2, dtype=fl.int64).random_(), [900450186894289455, 3969543146641149120]),
    (lambda: fl.randperm(7), [4, 0, 5, 3, 2, 6, 1]),
    (lambda: (fl.randperm(5), fl.rand(1))[1], [0.3074228]),
    (lambda: fl.bernoulli(fl.full((6,), 0.3)), [0, 0, 1, 1, 0, 0]),
    (lambda: fl.empty(3).exponential_(2.0), [1.7541631, 0.6151924, 0.3075221]),
    (lambda: fl.multinomial(WEIGHTS, 3), [2, 1, 3]),
    (lambda: fl.multinomial(WEIGHTS, 6, True), [3, 3, 2, 3, 3, 3]),
    (lambda: F.dropout(fl.ones(8), 0.5), [0, 0, 2, 0, 0, 0, 2, 2]),
    (lambda: fl.nn.Linear(2, 2).weight, [-0.005294, 0.3793229, -0.5819808, -0.5203875]),
    (lambda: fl.normal(fl.zeros(3), fl.ones(3) * 2), [3.0819921, -0.5868578, -4.3575788]),
    (lambda: fl.poisson(fl.full((5,), 4.0)), [7, 3, 5, 4, 6]),
    (lambda: fl._standard_gamma(fl.full((2,), 0.5)), [0.0007894, 0.0441509]),
    (lambda: fl.nn.init.trunc_normal_(fl.empty(3), std=0.02), [0.0308199, -0.0058686, -0.0435758]),
]


@pytest.mark.parametrize("number", range(len(PRINTED)))
def test_numbers_that_pytorch_printed(number):
    draw, wanted = PRINTED[number]
    fl.manual_seed(0)
    found = draw().detach().flatten()
    if found.is_floating_point():
        np.testing.assert_allclose(found.double().numpy(), wanted, rtol=1e-6, atol=6e-8)
    else:
        assert found.tolist() == wanted


def test_an_order_of_batches():
    fl.manual_seed(0)
    data = fl.utils.data.TensorDataset(fl.arange(7))
    assert [x for (b,) in fl.utils.data.DataLoader(data, 2, shuffle=True) for x in b.tolist()] == [0, 4, 1, 5, 2, 6, 3]


# -- states


def test_states():
    fl.manual_seed(5)
    fl.randn(3)  # (a fourth number waits)
    state = fl.get_rng_state()
    assert state.shape == (5056,) and state.dtype is fl.uint8
    first = fl.randn(3).tolist()
    fl.set_rng_state(state)
    assert fl.randn(3).tolist() == first and fl.initial_seed() == 5
    with fl.random.fork_rng():
        fl.manual_seed(9)
        fl.rand(700)
    second = fl.rand(3).tolist()
    fl.set_rng_state(state)
    assert (fl.randn(3).tolist(), fl.rand(3).tolist()) == (first, second)
    with pytest.raises(RuntimeError, match="5056"):
        fl.set_rng_state(state[:16])
    for place in (8, 9, 16, 17):  # counts of words that do not fit
        bad = state.clone()
        bad[place] = 255
        with pytest.raises(RuntimeError, match="mt19937"):
            fl.set_rng_state(bad)


def test_generators():
    g = fl.Generator().manual_seed(7)
    fl.rand(3, generator=g)
    h, k = g.clone_state(), pickle.loads(pickle.dumps(g))
    wanted = fl.randn(20, generator=g).tolist()
    assert fl.randn(20, generator=h).tolist() == fl.randn(20, generator=k).tolist() == wanted


# -- the switch


def test_the_default_is_philox():
    fl.random.use("philox")
    assert fl.random.used() == "philox"
    fl.manual_seed(0)
    ours, state = fl.rand(3).tolist(), fl.get_rng_state()
    assert state.shape == (16,)
    fl.random.use("torch")
    fl.rand(3)
    fl.random.use("philox")
    fl.manual_seed(0)
    assert fl.rand(3).tolist() == ours != PRINTED[0][1]
    with pytest.raises(ValueError, match="'philox' or 'torch'"):
        fl.random.use("numpy")


def test_each_compiled_program_is_for_its_numbers():
    f = fl.compile(lambda x: x + fl.rand(3))
    found = {}
    for numbers in ("torch", "philox", "torch", "philox"):
        fl.random.use(numbers)
        fl.manual_seed(0)
        found.setdefault(numbers, []).append(f(fl.zeros(3)).tolist())
        fl.manual_seed(0)
        assert found[numbers][-1] == fl.rand(3).tolist()
    assert found["torch"][0] == found["torch"][1] != found["philox"][0] == found["philox"][1]


def run(text, **environ):
    import os

    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env={**os.environ, **environ})
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


PRINT = "torch.manual_seed(0); print([round(x, 4) for x in torch.rand(3).tolist()])"


def test_the_environment_and_the_alias_switch():
    wanted = "[0.4963, 0.7682, 0.0885]"
    assert run(f"import flambeau as torch; {PRINT}", FLAMBEAU_RANDOM="torch") == wanted
    alias = "import flambeau; flambeau.alias_torch(); flambeau.alias_torch(random='torch')"
    assert run(f"{alias}; import torch; {PRINT}") == wanted
    assert "expected philox or torch" in run("import flambeau", FLAMBEAU_RANDOM="numpy")
    assert "'philox' or 'torch'" in run("import flambeau; flambeau.alias_torch(random='numpy')")


def test_children_draw_the_same_numbers(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing\n"
        "def child(queue):\n    import torch\n    torch.manual_seed(0)\n    queue.put(torch.rand(1).item())\n"
        "if __name__ == '__main__':\n"
        "    import flambeau\n    flambeau.alias_torch(random='torch')\n"
        "    for kind in ('spawn', 'fork'):\n"
        "        context = multiprocessing.get_context(kind)\n        queue = context.Queue()\n"
        "        process = context.Process(target=child, args=(queue,))\n        process.start()\n"
        "        print(round(queue.get(), 4), flush=True)\n        process.join()\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert done.stdout.split() == ["0.4963", "0.4963"], done.stderr


class Draws:
    def __len__(self):
        return 4

    def __getitem__(self, k):
        return fl.rand(1).item()


def test_workers_draw_the_same_numbers_however_they_start():
    def loaded(kind):
        fl.manual_seed(0)
        return list(fl.utils.data.DataLoader(Draws(), batch_size=None, num_workers=2, multiprocessing_context=kind))

    assert loaded("spawn") == loaded("fork")


def test_what_is_loaded_without_it():
    text = (
        "import sys, flambeau; flambeau.compile(lambda x: x + 1)(flambeau.ones(3)); flambeau.rand(3)\n"
        "print([m for m in sys.modules if m.endswith(('mersenne', 'functionalize_rng'))])"
    )
    assert run(text) == "[]"


# -- compiled programs


def many(x):
    a, b, c, p = fl.rand(3), fl.randn(20), fl.randint(0, 9, (4,)), fl.randperm(5)
    between = x.clone().t().uniform_(-1, 1)
    fl.rand(7)  # nobody reads it, and it counts
    chosen = fl.bernoulli(fl.sigmoid(x)), fl.normal(x, 2.0), fl.rand_like(x.t()), fl.randn_like(x, dtype=fl.float64)
    return x * a, b.sum() + b, c, p, between, F.dropout(x, 0.4), *chosen, F.alpha_dropout(x, 0.3, True), x.clone().exponential_()


def network(x, w):
    h = F.dropout(F.tanh(F.dropout(x @ w, 0.3) @ w), 0.5)
    return (h * fl.randn(h.shape)).sum()


def attention(q):
    return F.scaled_dot_product_attention(q, q, q, dropout_p=0.3).sum()


def sizes_from_data(x):
    k = int((x > 0.5).sum())
    return fl.rand(k).sum() + fl.multinomial(x.abs() + 0.1, 2).sum() + fl.randn(3).sum() + x.clone().cauchy_().sum()


def ramp(*sizes):
    return (fl.arange(float(np.prod(sizes))) % 7 / 7).reshape(sizes)


def drawn(f, *calls):
    """Results, gradients of these, and what is drawn next."""
    fl.manual_seed(3)
    found = []
    for sizes in calls:
        inputs = [ramp(*s).requires_grad_() for s in sizes]
        out = f(*inputs)
        out.backward()
        found += [out.detach().numpy(), *[x.grad.numpy() for x in inputs]]
    return [*found, fl.rand(2).numpy(), fl.randn(1).numpy()]


def same(found, wanted, rtol=2e-5):
    for a, b in zip(found, wanted, strict=True):  # (gradients are sums: their digits are those of the largest elements)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6 * np.abs(b).max(initial=1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_draws(backend):
    def call(f):
        fl.manual_seed(3)
        return [t.numpy() for _ in range(3) for t in f(ramp(3, 3))] + [fl.rand(2).numpy()]

    same(call(fl.compile(many, backend=backend, fullgraph=True)), call(many), 1e-6)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_training(backend, dynamic):
    for f, calls in (
        (network, [((4, 6), (6, 6)), ((9, 6), (6, 6)), ((4, 6), (6, 6))]),
        (attention, [((2, 2, 5, 4),), ((2, 2, 7, 4),)]),
    ):
        same(drawn(fl.compile(f, backend=backend, dynamic=dynamic, fullgraph=True), *calls), drawn(f, *calls))


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_sizes_that_only_data_knows(backend):
    def call(f):
        fl.manual_seed(3)
        return [f(fl.arange(float(n)) / n).numpy() for n in (5, 8, 9, 20)] + [fl.rand(2).numpy()]

    same(call(fl.compile(sizes_from_data, backend=backend)), call(sizes_from_data))


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_and_checkpoints(backend):
    def twice(f):
        fl.manual_seed(0)
        x = fl.arange(4.0).requires_grad_()
        (first,) = fl.autograd.grad(f(x), x, create_graph=True)
        return [first.detach().numpy(), fl.autograd.grad(first.sum(), x)[0].numpy(), fl.rand(1).numpy()]

    def function(x):
        return (F.dropout(x, 0.5) * x * fl.randn(4)).pow(2).sum()

    same(twice(fl.compile(function, backend=backend)), twice(function))

    def region(x):
        return fl.utils.checkpoint.checkpoint(
            lambda x: F.dropout(x.tanh(), 0.5) * fl.randn(x.shape), x, use_reentrant=False
        ).sum()

    same(drawn(fl.compile(region, backend=backend), ((3, 4),)), drawn(region, ((3, 4),)))


def test_a_failed_check_draws_nothing():
    def f(table, k):
        return fl.rand(3).sum() + table[k].sum()

    fast = fl.compile(f)
    fl.manual_seed(0)
    fast(fl.ones(4), fl.tensor([1]))
    with pytest.raises(IndexError):
        fast(fl.ones(4), fl.tensor([9]))
    after = fl.rand(2).tolist()
    fl.manual_seed(0)
    f(fl.ones(4), fl.tensor([1]))
    with pytest.raises(IndexError):
        f(fl.ones(4), fl.tensor([9]))
    assert fl.rand(2).tolist() == after
