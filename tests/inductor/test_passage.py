"""Recorded calls of compiled graphs: without Python in between and through Python, with equal results, errors and gradients."""

import gc
import weakref

import numpy as np
import pytest

import flambeau as fb
from flambeau.eager.autograd.function import AttachedNode
from flambeau.inductor.runtime import runtime_wrapper

FUNCTIONS = {
    "saves its argument": lambda x, y: (x * y).sin(),
    "saves its result": lambda x, y: x.exp() + 0 * y,
    "gives the gradient back": lambda x, y: x + y,
    "has two results": lambda x, y: (x.exp() * y, x - y.tanh()),
    "has a result without a gradient": lambda x, y: (x * y, x > y),
    "uses one argument": lambda x, y: x.tanh(),
    "adds up": lambda x, y: (x * y).sum(0),
}
NATIVE, PYTHON = True, False


def arguments():
    make = lambda seed: fb.from_numpy(np.random.default_rng(seed).standard_normal((5, 7)).astype(np.float32)).requires_grad_()
    return make(0), make(1)


@pytest.fixture(params=[NATIVE, PYTHON], ids=["native", "python"])
def way(request, monkeypatch):
    if request.param is PYTHON:
        monkeypatch.setattr(runtime_wrapper.CompiledGraph, "_passage", lambda self: None)
    return request.param


def count(monkeypatch):
    """Calls of the method that native runs go past."""
    calls, run = [], AttachedNode.run
    monkeypatch.setattr(AttachedNode, "run", lambda self, *args: calls.append(1) or run(self, *args))
    return calls


def outputs(out):
    return [t for t in (out if isinstance(out, tuple) else (out,)) if t.requires_grad]


def gradients(f, x, y, **settings):
    outs = outputs(f(x, y))
    return fb.autograd.grad(outs, (x, y), [fb.full_like(t, 1.5) for t in outs], allow_unused=True, **settings)


def same(ours, plain):
    for a, b in zip(ours, plain, strict=True):
        assert (a is None) == (b is None)
        assert a is None or fb.allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name, way, monkeypatch):
    f, (x, y) = FUNCTIONS[name], arguments()
    compiled, wanted = fb.compile(f), gradients(FUNCTIONS[name], *arguments())
    for _ in range(3):
        same(gradients(compiled, x, y), wanted)
    calls = count(monkeypatch)
    same(gradients(compiled, x, y), wanted)
    outs = outputs(compiled(x, y))
    fb.autograd.backward(outs, [fb.ones_like(t) for t in outs])
    assert way is PYTHON or not calls
    for leaf, g in zip((x, y), gradients(f, *arguments())):
        assert (leaf.grad is None) == (g is None) and (g is None or fb.allclose(leaf.grad * 1.5, g, rtol=1e-5, atol=1e-6))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_not_plain(name, way):
    """Second order, a second run, gradients of any strides, missing ones, for one argument, hooks, without recording."""
    f, (x, y) = FUNCTIONS[name], arguments()
    compiled = fb.compile(f)
    for _ in range(2):
        gradients(compiled, x, y)
    for g in (compiled, f):
        outs = outputs(g(x, y))
        ones = [fb.ones_like(t) for t in outs]
        twice = [fb.autograd.grad(outs, (x, y), ones, retain_graph=True, allow_unused=True) for _ in range(2)]
        same(*twice)
        turned = [fb.ones(tuple(reversed(t.shape))).permute(*reversed(range(t.dim()))) for t in outs]
        same(fb.autograd.grad(outs, (x, y), turned, retain_graph=True, allow_unused=True), twice[0])
        spread = [fb.ones(()).expand(t.shape) for t in outs]
        same(fb.autograd.grad(outs, (x, y), spread, retain_graph=True, allow_unused=True), twice[0])
        same(fb.autograd.grad(outs, (x,), ones, retain_graph=True, allow_unused=True), twice[0][:1])
        seen = []
        handle = x.register_hook(lambda g: seen.append(g.clone()))
        fb.autograd.grad(outs, (x, y), ones, allow_unused=True)
        handle.remove()
        same(seen, twice[0][:1])
        if name not in ("gives the gradient back", "adds up"):  # where nothing is saved, eager may run again
            with pytest.raises(RuntimeError, match="second time"):
                fb.autograd.grad(outs, (x, y), ones, allow_unused=True)
    a, b = (gradients(g, *arguments(), create_graph=True) for g in (compiled, f))
    same([None if t is None else t.detach() for t in a], [None if t is None else t.detach() for t in b])
    first = (outputs(g(x, y))[0] for g in (compiled, f))
    same(*(fb.autograd.grad(t, (x, y), fb.ones_like(t), allow_unused=True) for t in first))
    with fb.no_grad():
        assert not any(t.requires_grad for t in outputs(compiled(x, y)))


def test_second_order(way):
    f = lambda x: (x * x.exp()).sum()
    x = fb.rand(4).requires_grad_()
    compiled = fb.compile(f)
    for g in (f, compiled, compiled, compiled):
        (first,) = fb.autograd.grad(g(x), x, create_graph=True)
        (second,) = fb.autograd.grad(first.sum(), x)
        assert fb.allclose(second, (x + 2) * x.exp(), rtol=1e-5)


def test_what_was_saved_may_not_change(way):
    x, y = arguments()
    for f, changes_result in ((lambda x, y: x * y, False), (lambda x, y: (x + y).exp(), True)):
        compiled = fb.compile(f)
        for _ in range(3):
            fb.autograd.backward(compiled(x, y), fb.ones(5, 7))
        out = compiled(x, y)
        with fb.no_grad():  # what the backward reads
            (out if changes_result else y).add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_what_was_saved_is_seen_by_hooks(way):
    x, y = arguments()
    compiled = fb.compile(lambda x, y: (x * y).exp())
    for _ in range(3):
        compiled(x, y).sum().backward()
    kept = []
    with fb.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or len(kept) - 1, lambda k: kept[k] * 2):
        fb.autograd.grad(compiled(x, y).sum(), x)
    assert kept


def test_nothing_is_kept_alive(way):
    """The result and the argument go with the last reference; a backward gives up what was saved."""
    compiled = fb.compile(lambda x: x.exp() * 2)
    for _ in range(3):
        compiled(fb.rand(4, 4).requires_grad_()).sum().backward()
    x = fb.rand(4, 4).requires_grad_()
    out = compiled(x)
    ends = [weakref.ref(t) for t in (x, out)]
    out.sum().backward()
    gc.disable()
    try:
        del x, out
        assert [end() for end in ends] == [None, None]
    finally:
        gc.enable()


def test_a_gradient_for_what_lies_between(way):
    """Inputs of `grad` that are results themselves, and the same one twice."""
    x, y = arguments()
    compiled = fb.compile(lambda x, y: (x * y).sin())
    for f in (compiled, lambda x, y: (x * y).sin()):
        for _ in range(3):
            middle = x * 2
            out = f(middle, y) + middle
            found = fb.autograd.grad(out.sum(), (middle, x, y, x), retain_graph=True)
            assert fb.equal(found[1], found[0] * 2) and fb.equal(found[1], found[3])
            assert fb.equal(fb.autograd.grad(out.sum(), (x,))[0], found[1])
