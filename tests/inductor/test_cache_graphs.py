"""Compiled graphs from the store: the same results, gradients, aliases, writes and guards as from the passes."""

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn as nn
import flambeau.nn.functional as F
from flambeau.inductor import driver
from flambeau.inductor.runtime import graph_cache
from flambeau.runtime import counters
from flambeau.runtime.config import config


def leaf(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return torch.from_numpy(values).requires_grad_()


def plain(*shape, seed=0):
    return leaf(*shape, seed=seed).detach()


def shown(f, make):
    """What a caller can see: outputs, which of them share memory with what, inputs afterwards, gradients."""
    torch.manual_seed(3)
    inputs = make()
    result = f(*inputs)
    outputs = [t for t in (result if isinstance(result, (tuple, list)) else (result,))]
    tensors = [t for t in (*inputs, *outputs) if isinstance(t, torch.Tensor)]
    shared = [
        (i, j)
        for i, a in enumerate(tensors)
        for j, b in enumerate(tensors[:i])
        if a is b or np.may_share_memory(a.detach().numpy(), b.detach().numpy())
    ]
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    reached = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
    grads = torch.autograd.grad([(t * t).sum() for t in reached], leaves, allow_unused=True) if reached else []
    values = [t.detach().numpy().copy() if isinstance(t, torch.Tensor) else t for t in (*outputs, *inputs, *grads)]
    return values, shared


def assert_same(a, b):
    assert a[1] == b[1]
    for x, y in zip(a[0], b[0], strict=True):
        np.testing.assert_array_equal(x, y)


def written(x, y):
    x.add_(y.sum())
    return x * 2, y[1:].t(), x


def structured(x, y):
    return [x + 1, x.shape[0], y, 3.5]


def eager_inside(x):
    return torch.linalg.lu_factor(x @ x.t() + 3)[0].sum(0), x.relu()


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * x * w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * x * w * 3, grad * x  # not the derivative: so it shows which one is used


PROGRAMS = {
    "custom function": (lambda x, w: Squared.apply(x.sin(), w), lambda: [leaf(4), leaf(4, seed=1)]),
    "pointwise": (lambda x: x.sin() * 2 + 1, lambda: [plain(3, 5)]),
    "training": (lambda x, w: F.gelu(x @ w).sum(1), lambda: [plain(4, 3), leaf(3, 6)]),
    "shared outputs": (lambda x: (x.exp(), x.t(), x), lambda: [leaf(3, 4)]),
    "written": (written, lambda: [plain(3, 4), plain(5, 2, seed=1)]),
    "structured": (structured, lambda: [plain(3), plain(2)]),
    "random": (lambda x: F.dropout(x, 0.5) + torch.rand(4), lambda: [leaf(3, 4)]),
    "constant": (lambda x: x * torch.tensor([1.0, 2.0, 3.0]), lambda: [leaf(2, 3)]),
    "half": (lambda x: (x.half() * 3).softmax(1), lambda: [plain(3, 9)]),
    "nothing computed": (lambda x: (x, x.t(), x * 2)[:2], lambda: [plain(3, 4)]),
    "empty": (lambda x: x.sum() + 1, lambda: [plain(0, 4)]),
    "eager inside": (eager_inside, lambda: [plain(4, 4)]),
    "index": (lambda x, k: x[k] * 2, lambda: [leaf(5, 3), torch.tensor([4, 0, 4])]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_store_gives_is_what_was_compiled(name, store, passes):
    f, make = PROGRAMS[name]
    first = shown(torch.compile(f, fullgraph=True), make)
    made = len(passes)
    second = shown(torch.compile(f, fullgraph=True), make)
    assert made == len(passes) == 1
    assert_same(first, second)
    eager = shown(f, make)
    assert first[1] == eager[1]


def test_changing_sizes(store, passes):
    """The guards that the passes added are there again: both serve the same sizes, and refuse the same."""

    def f(x, y):
        return torch.cat([x, y]).reshape(-1, 2).sum(0) + x.mean() * x.shape[0]

    sizes = [(4, 6), (8, 6), (2, 2), (3, 5), (1, 1), (7, 9)]

    def run():
        before = counters.snapshot()["graphs"]
        g = torch.compile(f, dynamic=True)
        return [g(plain(a, 4), plain(b, 4, seed=1)).numpy() for a, b in sizes], counters.snapshot()["graphs"] - before

    (first, graphs), made = run(), len(passes)
    second, again = run()
    assert graphs == again == made == len(passes)
    for a, b, (n, m) in zip(first, second, sizes):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, f(plain(n, 4), plain(m, 4, seed=1)).numpy(), rtol=1e-5)


def guards_of(f, *args):
    """Compile and run; the texts of the guards."""
    g = torch.compile(f, dynamic=True)
    g(*args)
    return [record.texts["guards.txt"] for record in g.cache.records]


def test_guards_are_the_same(store, passes):
    def f(x, y):
        z = torch.cat([x, y])
        return (z.reshape(-1, 4) if z.shape[0] > 5 else z) + x.repeat(2, 1)[:1].sum()

    first = guards_of(f, plain(4, 4), plain(6, 4))
    assert guards_of(f, plain(4, 4), plain(6, 4)) == first
    assert len(passes) == 1


def three_heads(x, w, v):
    hidden = (x * w).exp()
    return hidden * v, hidden.sin(), v * 2.0


def test_another_pattern_of_gradients_is_stored_too(store, passes, monkeypatch):
    late = []
    late_backward = driver.compile_late_backward
    monkeypatch.setattr(driver, "compile_late_backward", lambda *args: late.append(args[3]) or late_backward(*args))
    make = lambda: [leaf(3, 4), leaf(4, seed=1), leaf(4, seed=2)]

    def some(f, chosen):
        inputs = make()
        outputs = f(*inputs)
        return torch.autograd.grad([outputs[k].sum() for k in chosen], inputs, allow_unused=True)

    for chosen in ((0, 1, 2), (1,), (0, 2)):
        expected = some(three_heads, chosen)
        for _ in range(2):
            found = some(torch.compile(three_heads), chosen)
            assert [g is None for g in found] == [g is None for g in expected]
            for a, b in zip(found, expected):
                assert a is None or np.allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6)
    assert late == [frozenset((1,)), frozenset((0, 2))] and len(passes) == 1


def test_double_backward_makes_the_graph_again(store, passes):
    def f(x, w):
        return (x * w).sin().sum()

    def second(g):
        x, w = leaf(3), leaf(3, seed=1)
        (first,) = torch.autograd.grad(g(x, w), [x], create_graph=True)
        return torch.autograd.grad(first.sum(), [w])[0].numpy()

    expected = second(f)
    for _ in range(2):
        np.testing.assert_allclose(second(torch.compile(f)), expected, rtol=1e-5)
    assert len(passes) == 1


def test_index_errors_are_eagers(store, passes):
    f = lambda x, k: x[k] + torch.rand(1)
    for _ in range(2):
        g = torch.compile(f)
        g(plain(5, 3), torch.tensor([0, 1]))
        torch.manual_seed(1)
        with pytest.raises(IndexError):
            g(plain(5, 3), torch.tensor([0, 7]))
        state = torch.rand(1).item()
        torch.manual_seed(1)
        assert torch.rand(1).item() == state
    assert len(passes) == 1


def test_settings_and_needs_are_part_of_the_key(store, passes):
    f = lambda x: x.bfloat16().exp() * 3
    torch.compile(f)(plain(4))
    for change in (
        dict(keep_half_rounding=not config.keep_half_rounding),
        dict(optimize=1),
        dict(isa="baseline"),
        dict(kernel_times=True),
    ):
        with config.patch(**change):
            torch.compile(f)(plain(4))
    torch.compile(f)(leaf(4))
    assert len(passes) == 6
    torch.compile(f)(plain(4))
    assert len(passes) == 6


def test_a_record_of_the_program_is_not_stored(store, passes):
    """Its name says nothing about what it will compute tomorrow."""
    from flambeau.eager.op.op import OPS, pointwise

    @pointwise
    def test_cache_graphs_shift(s, x):
        return x + 41.0

    try:
        for n in (1, 2):
            np.testing.assert_array_equal(
                torch.compile(lambda x: test_cache_graphs_shift(x))(plain(3)).numpy(), plain(3).numpy() + np.float32(41)
            )
            assert len(passes) == n
    finally:
        for name in [name for name in OPS if name.startswith("test_cache_graphs")]:
            del OPS[name]


def test_no_values_of_parameters_are_written(store):
    mark = np.float32(1234.56789)
    model = nn.Linear(4, 4)
    with torch.no_grad():
        model.weight.fill_(float(mark))
    torch.compile(lambda x: model(x) * torch.full((4,), float(mark)))(plain(2, 4))
    table = torch.tensor(np.full(7, mark))
    torch.compile(lambda x: x + table)(plain(7))
    files = [p for p in store.rglob("*") if p.is_file() and p.suffix == graph_cache.SUFFIX]
    assert len(files) >= 2
    for path in files:
        data = graph_cache.read(path.stem)
        assert np.full(2, mark).tobytes() not in repr(data).encode("latin-1", "replace") + __import__("marshal").dumps(data)


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped", "empty"])
@pytest.mark.parametrize("suffix", [".so", graph_cache.SUFFIX])
def test_damaged_files_are_made_again(damage, suffix, store, passes):
    f = lambda x: x.cos() - 2
    expected = torch.compile(f)(plain(6)).numpy()
    (path,) = store.rglob(f"*{suffix}")
    data = path.read_bytes()
    path.unlink()  # this process has the old file mapped
    if damage != "gone":
        path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "flipped": bytes([data[0] ^ 1]) + data[1:]}[damage])
    for runs in (2, 2):
        np.testing.assert_array_equal(torch.compile(f)(plain(6)).numpy(), expected)
        assert len(passes) == runs


def test_a_traced_backward_is_part_of_the_key(store, passes):
    """Functions that differ in the constants of their backward alone; and the same one again."""

    def gradient(factor, values):
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * factor + values

        x = leaf(3)
        torch.compile(lambda x: Scaled.apply(x.cos()))(x).sum().backward()
        return x.grad.numpy() / -np.sin(leaf(3).detach().numpy())

    cases = [(1.0, torch.zeros(3)), (5.0, torch.zeros(3)), (5.0, torch.ones(3)), (1.0, torch.zeros(3))]
    for factor, values in cases:
        np.testing.assert_allclose(gradient(factor, values), factor + values.numpy(), rtol=1e-5)
