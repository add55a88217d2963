"""torch._higher_order_ops: prefixes of associative operations."""

import pytest

import flambeau as fl
from flambeau._higher_order_ops.associative_scan import associative_scan


def steps(left, right):
    (a, b), (c, d) = left, right
    return a * c, c * b + d


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_prefixes_and_their_gradients(count, reverse):
    a, b = fl.rand(2, count, 3, requires_grad=True), fl.rand(2, count, 3, requires_grad=True)
    _, got = associative_scan(steps, (a, b), 1, reverse=reverse, combine_mode="generic")
    state, want = fl.zeros(2, 3), []
    for k in reversed(range(count)) if reverse else range(count):
        state = a[:, k] * state + b[:, k]
        want.append(state)
    want = fl.stack(want[::-1] if reverse else want, 1)
    assert fl.allclose(got, want)
    for x, y in zip(fl.autograd.grad(got.square().sum(), (a, b), allow_unused=True),
                    fl.autograd.grad(want.square().sum(), (a, b), allow_unused=True)):
        assert fl.allclose(x if x is not None else fl.zeros_like(a), y, atol=1e-5)


def test_refusals():
    x = fl.ones(2, 3)
    with pytest.raises(ValueError, match="pointwise"):
        associative_scan(steps, (x, x), 0, combine_mode="other")
    with pytest.raises(IndexError):
        associative_scan(steps, (x, x), 2)
    with pytest.raises(ValueError, match="same size"):
        associative_scan(steps, (x, x[:1]), 0)


def test_captured_whole():
    x = fl.rand(3, 6)
    scanned = fl.compile(lambda x: associative_scan(fl.add, x, 1), backend="eager", fullgraph=True)
    assert fl.allclose(scanned(x), x.cumsum(1))


def doubled(x, limit=3):
    return fl.while_loop(lambda i, y: i < limit, lambda i, y: (i + 1, y * 2), (fl.tensor(0), x * 1.5))


def test_while_loop():
    x = fl.ones(2, requires_grad=True)
    count, y = doubled(x)
    assert count.item() == 3 and y.tolist() == [12, 12] and fl.autograd.grad(y.sum(), x)[0].tolist() == [12, 12]
    assert doubled(x, 0)[1].tolist() == [1.5, 1.5]
    assert fl.while_loop(lambda n: n < 3, lambda n: n + 1, (0,)) == 3
    assert fl.while_loop(lambda d: d["i"] < 3, lambda d: ({"i": d["i"] + 1},), ({"i": fl.tensor(0)},))[0]["i"].item() == 3
    fl.compiler.reset()
    y = fl.compile(doubled)(x)[1]
    assert fl.autograd.grad(y.sum(), x)[0].tolist() == [12, 12] and fl.compiler.counters()["breaks"] == {"call": 1}


@pytest.mark.parametrize("cond, body, carried, text", [
    (3, lambda n: n, (0,), "Expect cond_fn and body_fn to be callable"),
    (lambda n: True, lambda n: n, 0, "tuple or list"),
    (lambda n: True, lambda n: n, ("a",), "tensors and ints"),
    (lambda x: x, lambda x: x, (fl.ones(2),), "scalar"),
    (lambda x: True, lambda x: (x, x), (fl.ones(2),), "same number of outputs"),
    (lambda x: True, lambda x: x[:1], (fl.ones(2),), "sizes and types"),
    (lambda x: True, lambda x: x.double(), (fl.ones(2),), "sizes and types")])
def test_refused_loops(cond, body, carried, text):
    with pytest.raises(RuntimeError, match=text):
        fl.while_loop(cond, body, carried)
