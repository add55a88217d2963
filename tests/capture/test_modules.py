"""Modules: forward is inlined, parameters and buffers are inputs, attributes are guarded, hooks run."""

import pytest

import flambeau as torch
import flambeau.nn as nn
from flambeau.runtime import counters

from .harness import Recording, captured, check, same  # noqa: F401

torch.manual_seed(1)
X = torch.randn(2, 3)


def run(module, *args, graphs=1, breaks=0):
    """Compile a module, compare two calls with plain ones, and give the backend and the compiled module back."""
    counters.reset()
    backend = Recording()
    compiled = torch.compile(module, backend=backend)
    for _ in range(2):
        torch.manual_seed(0)
        expected = module(*args)
        torch.manual_seed(0)
        assert same(expected, compiled(*args))
    seen = counters.snapshot()
    assert seen["graphs"] == graphs and sum(seen["breaks"].values()) == breaks and seen["recompiles"] == 0, seen
    assert seen["fallbacks"] == {}
    return backend, compiled


def test_linear():
    backend, _ = run(nn.Linear(3, 4), X)
    assert {n.source for n in backend.graphs[0].inputs} == {"input", "self.weight", "self.bias"}


def test_sequential():
    backend, _ = run(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), X)
    assert backend.ops == 3 and len(backend.graphs[0].inputs) == 5


class Block(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.norm, self.lin = nn.LayerNorm(width), nn.Linear(width, width)
        self.drop, self.scale = nn.Dropout(0.5), 2.0
        self.register_buffer("shift", torch.ones(width))

    def forward(self, x, *, extra=None):
        y = self.drop(self.lin(self.norm(x))) * self.scale + self.shift
        return x + y if extra is None else x + y + extra


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.heads = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 1)})
        self.own = nn.Parameter(torch.ones(3))

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x, extra=x if i == 1 else None)
        x = x * self.own
        return {name: head(x) for name, head in self.heads.items()}, self.blocks[0](x), len(self.blocks)


def test_model_in_eval():
    run(Model().eval(), X)


def test_model_in_training_with_dropout():
    run(Model(), X)


def test_training_flag_is_guarded():
    block = Block()
    _, compiled = run(block, X)
    block.eval()
    assert same(block(X), compiled(X)) and counters.snapshot()["recompiles"] == 1
    assert same(block(X), compiled(X)) and counters.snapshot()["graphs"] == 2


def test_attribute_change_is_guarded():
    block = Block().eval()
    _, compiled = run(block, X)
    block.scale = 5.0
    assert same(block(X), compiled(X)) and counters.snapshot()["recompiles"] == 1


def test_parameter_values_are_inputs():
    lin = nn.Linear(3, 3)
    _, compiled = run(lin, X)
    with torch.no_grad():
        lin.weight.mul_(2)
    lin.bias = nn.Parameter(torch.ones(3))
    assert same(lin(X), compiled(X)) and counters.snapshot()["recompiles"] == 0


def test_replaced_submodule_is_guarded():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    _, compiled = run(model, X)
    model[1] = nn.Hardtanh()
    assert same(model(X), compiled(X)) and counters.snapshot()["recompiles"] == 1


def test_replaced_forward_is_guarded():
    block = Block().eval()
    _, compiled = run(block, X)
    block.lin.forward = lambda v: v * 0
    assert same(block(X), compiled(X))


def test_replaced_class_method_is_guarded():
    class Own(nn.Module):
        def forward(self, v):
            return v + 1

    holder = nn.Sequential(Own())
    _, compiled = run(holder, X)
    Own.forward = lambda self, v: v + 2
    assert same(X + 2, compiled(X))


def test_buffer_is_updated():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))
            self.calls = 0

        def forward(self, v):
            self.seen.add_(1)
            self.calls += 1
            return v + self.seen

    module = Counter()
    compiled = torch.compile(module, backend=Recording())
    first, second = compiled(X), compiled(X)
    assert module.calls == 2 and module.seen.item() == 2
    assert same(first, X + 1) and same(second, X + 2)


def test_buffer_is_replaced():
    class Replacer(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(2, 3))

        def forward(self, v):
            old, self.last = self.last, v * 2
            return v + old

    module = Replacer()
    compiled = torch.compile(module, backend=Recording())
    assert same(compiled(X), X + 0) and same(module.last, X * 2) and same(compiled(X), X + X * 2)


def test_forward_hooks_run():
    log = []
    lin = nn.Linear(3, 3)
    model = nn.Sequential(lin)
    handle = lin.register_forward_hook(lambda m, args, out: log.append(len(args)) or out * 2)
    expected = model(X)
    compiled = torch.compile(model, backend=Recording())
    assert same(expected, compiled(X)) and len(log) == 2
    handle.remove()
    assert same(model(X), compiled(X)) and len(log) == 2


def test_hook_added_later_is_guarded():
    lin = nn.Linear(3, 3)
    model = nn.Sequential(lin)
    compiled = torch.compile(model, backend=Recording())
    assert same(model(X), compiled(X))
    lin.register_forward_hook(lambda m, args, out: out * 2)
    assert same(model(X), compiled(X))


def test_twelve_layers_with_a_print():
    class Chatty(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(3, 3)

        def forward(self, v):
            v = self.lin(v)
            print("layer")
            return v * 2

    class Tower(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Chatty() for _ in range(12)])

        def forward(self, v):
            for layer in self.layers:
                v = layer(v)
            return v

    tower = Tower()
    counters.reset()
    compiled = torch.compile(tower, backend=Recording())
    expected = tower(X)
    assert same(expected, compiled(X)) and same(expected, compiled(X))
    assert counters.snapshot()["fallbacks"] == {}


def test_modules_as_arguments_and_globals():
    lin = nn.Linear(3, 3)

    def fn(module, a):
        return module(a) + sum(p.sum() for p in module.parameters()) if False else module(a) + lin(a)

    check(fn, nn.Linear(3, 3), X)


def test_parameters_of_a_module_are_iterated():
    lin = nn.Linear(3, 3)

    def fn(a):
        total = a.sum()
        for name, p in lin.named_parameters():
            total = total + p.sum()
        return total

    check(fn, X, ops=5)


def test_requires_grad_flows():
    lin = nn.Linear(3, 3)
    out = torch.compile(lin, backend=Recording())(X)
    out.sum().backward()
    assert lin.weight.grad is not None and lin.weight.grad.shape == lin.weight.shape


def test_missing_attribute_raises_as_eager():
    class Bad(nn.Module):
        def forward(self, v):
            return v + self.nothing

    with pytest.raises(AttributeError, match="'Bad' object has no attribute 'nothing'"):
        torch.compile(Bad(), backend="eager")(X)
