"""Modules that a compiled function makes, slices, registers and returns: captured with no break, and the world as Python leaves it."""

import copy

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.runtime import counters
from flambeau.runtime.config import config

from .matrix import digest


class Scaled(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale, self.act = scale, nn.ReLU()
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x):
        return self.act(x) * self.scale + self.shift


class Growing(nn.Module):
    """Its first call registers a buffer, a module under two names, and drops an attribute."""

    def __init__(self):
        super().__init__()
        self.inner, self.note = nn.Linear(4, 4), 1

    def forward(self, x):
        if not hasattr(self, "made"):
            self.register_buffer("made", torch.ones(4), persistent=False)
            self.act, self.again = nn.Tanh(), self.inner
            del self.note
        self.made = self.made + 1
        return self.act(self.again(x)) * self.made, list(self._modules)


NET = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Tanh())


def activation(x):
    return nn.ReLU()(x) + nn.Softmax(dim=-1)(nn.Dropout(0.0)(x))


def children(x):
    return nn.Sequential(*list(NET.children())[:-1])(x)


def slices(x):
    return NET[1:](x), NET[:2][0](x), len(NET[1:3]), len(NET + NET[:1])


def returned(x):
    made = nn.Sequential(nn.ReLU(), Scaled(3))
    made.eval()
    return made(x), made, [name for name, _ in made.named_modules()], list(made.named_buffers()), made.training


def lists(x):
    blocks = nn.ModuleList([nn.ReLU(), NET[0]])
    blocks.append(nn.ModuleDict({"a": NET[2], "b": nn.Tanh()}))
    for block in blocks[:2]:
        x = block(x)
    return blocks[2]["b"](blocks[2]["a"](x)), list(blocks[2].keys()), [type(m).__name__ for m in blocks]


def loss(x):
    return nn.CrossEntropyLoss(label_smoothing=0.1)(x, torch.zeros(x.shape[0], dtype=torch.int64))


def replaced(x):
    made = nn.Sequential(nn.ReLU(), nn.Tanh())
    made[0] = NET[0]
    made.extra = nn.Identity()
    del made[1]
    return made(x), list(made._modules), type(made[1]).__name__, hasattr(made, "extra")


@pytest.mark.parametrize("fn", [activation, children, slices, returned, lists, loss, replaced], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_module_made_inside_is_captured(fn, dynamic):
    counters.reset()
    compiled = torch.compile(fn, backend="eager", dynamic=dynamic, fullgraph=True)
    with config.patch(strict=True):
        for rows in (2, 3, 5):
            x = torch.randn(rows, 4)
            assert digest(compiled(x)) == digest(fn(x))
    seen = counters.snapshot()
    assert seen["breaks"] == {} and seen["fallbacks"] == {} and seen["graphs"] <= 2


def test_gradients_reach_the_modules_that_exist():
    x = torch.randn(3, 4)
    for fn in (children, torch.compile(children)):
        NET.zero_grad()
        fn(x).sum().backward()
        if fn is children:
            expected = [p.grad.clone() for p in NET[:3].parameters()]
    assert all(torch.allclose(p.grad, g) for p, g in zip(NET[:3].parameters(), expected))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_what_forward_registers_is_registered(backend):
    counters.reset()
    plain = Growing()
    other = copy.deepcopy(plain)
    compiled = torch.compile(other, backend=backend)
    with config.patch(strict=True):
        for _ in range(3):
            x = torch.randn(2, 4)
            (expected, names), (found, same) = plain(x), compiled(x)
            assert torch.allclose(expected, found) and names == same
    assert list(plain.state_dict()) == list(other.state_dict()) and "made" not in other.state_dict()
    assert torch.equal(plain.made, other.made) and other.again is other.inner and not hasattr(other, "note")
    assert counters.snapshot()["breaks"] == {} and counters.snapshot()["graphs"] == 2


def test_a_module_with_new_parameters_breaks_and_is_right():
    def fn(x):
        y = nn.Linear(4, 2)(x + 1)
        return y * 2

    counters.reset()
    x, compiled = torch.randn(3, 4), torch.compile(fn, backend="eager")
    results = []
    for f in (fn, compiled, compiled):
        torch.manual_seed(0)
        results.append(f(x))
    assert results[0].requires_grad and all(torch.equal(r, results[0]) and r.requires_grad for r in results)
    assert set(counters.snapshot()["breaks"]) >= {"call"} and counters.snapshot()["fallbacks"] == {}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.skip = nn.Conv2d(8, 8, 3, 1, 1, groups=2), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 1)

    def forward(self, x):
        return (self.norm(self.conv(x)) + self.skip(x)).relu()


def test_sizes_that_are_solved_stay_bound_where_they_are_read():
    """The groups say that a size is twice another; later weights of that size are still read and guarded as themselves."""
    counters.reset()
    block = Block().eval()
    compiled = torch.compile(block, dynamic=True, backend="eager")
    with config.patch(strict=True):
        for shape in ((3, 8, 8, 9), (4, 8, 6, 7), (5, 8, 8, 8)):
            x = torch.randn(*shape)
            assert torch.allclose(compiled(x), block(x), 1e-4, 1e-5)
    assert counters.snapshot()["fallbacks"] == {}


class Indexed(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.inner, self.number = nn.Linear(4, 4), number

    def forward(self, x, cache=None):
        y = self.inner(x)
        if cache is not None and cache[self.number] is not None:
            cache[self.number] = y
        return y.relu()


def test_modules_that_take_turns():
    """Blocks of one kind share an entry; where their index is read each has its own, beyond the limit of one module."""
    blocks, x = [Indexed(n) for n in range(12)], torch.randn(2, 4)
    for cache, entries in ((None, 1), ({}, 12)):
        counters.reset()
        compiled = torch.compile(lambda block, x, cache: block(x, cache), backend="eager", fullgraph=True)
        with torch.no_grad():
            if cache is not None:
                cache.update((n, x.clone()) for n in range(12))
            for _ in range(3):
                for block in blocks:
                    assert torch.equal(compiled(block, x, cache), block(x))
                    assert cache is None or torch.equal(cache[block.number], block.inner(x))
        seen = counters.snapshot()
        assert seen["graphs"] == entries and seen["fallbacks"] == {}


def test_one_module_still_has_a_limit():
    block, x = Indexed(0), torch.randn(2, 4)
    compiled = torch.compile(lambda block, x: x * len(block.kind), backend="eager")
    counters.reset()
    with config.patch(recompile_limit=3), pytest.warns(RuntimeWarning, match="compiled 3 times"):
        for kind in ("a", "bc", "def", "g", "hi", "jkl", "mnop"):
            block.kind = kind
            assert torch.equal(compiled(block, x), x * len(kind))
    assert counters.snapshot()["fallbacks"] == {"recompile limit": 1}


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nn.LazyLinear(3),
        lambda: torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.ReLU(), torch.nn.LazyLinear(2)),
    ],
)
def test_lazy_modules_take_their_sizes_in_the_first_call(make):
    x, outcomes = torch.randn(2, 5), []
    for how in (lambda m: m, lambda m: torch.compile(m, backend="eager")):
        torch.manual_seed(1)
        module = make()
        called = how(module)
        with config.patch(strict=True):
            outcomes.append([called(x) for _ in range(3)])
        assert not any("Lazy" in type(m).__name__ for m in module.modules())
    assert all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))
    before = counters.snapshot()["frames"]
    called(x)
    assert counters.snapshot()["frames"] == before
