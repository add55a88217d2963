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
    for x, y in zip(
        fl.autograd.grad(got.square().sum(), (a, b), allow_unused=True),
        fl.autograd.grad(want.square().sum(), (a, b), allow_unused=True),
    ):
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
    pairs = fl.compile(lambda x: associative_scan(steps, (x, x), 1)[1], backend="eager", fullgraph=True)
    assert fl.allclose(pairs(x), associative_scan(steps, (x, x), 1)[1])


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
    assert fl.autograd.grad(y.sum(), x)[0].tolist() == [12, 12] and fl.compiler.counters()["breaks"] == {"branch-on-data": 1}


@pytest.mark.parametrize(
    "cond, body, carried, text",
    [
        (3, lambda n: n, (0,), "Expect cond_fn and body_fn to be callable"),
        (lambda n: True, lambda n: n, 0, "tuple or list"),
        (lambda n: True, lambda n: n, ("a",), "tensors and ints"),
        (lambda x: x, lambda x: x, (fl.ones(2),), "scalar"),
        (lambda x: True, lambda x: (x, x), (fl.ones(2),), "same number of outputs"),
        (lambda x: True, lambda x: x[:1], (fl.ones(2),), "sizes and types"),
        (lambda x: True, lambda x: x.double(), (fl.ones(2),), "sizes and types"),
    ],
)
def test_refused_loops(cond, body, carried, text):
    with pytest.raises(RuntimeError, match=text):
        fl.while_loop(cond, body, carried)


def halves(x, y):
    return x * 0.5, {"both": x + y}


def squares(x, y):
    return x * x, {"both": x * y}


def test_cond_calls_one_branch():
    x, y = fl.tensor([1.0, 3.0], requires_grad=True), fl.tensor([2.0, 2.0])
    for pred, taken in ((True, halves), (0, squares), (fl.tensor([[2.0]]), halves), (fl.tensor(False), squares)):
        got, want = fl.cond(pred, halves, squares, (x, y)), taken(x, y)
        assert fl.equal(got[0], want[0]) and fl.equal(got[1]["both"], want[1]["both"])
        for a, b in zip(fl.autograd.grad(got[0].sum(), x), fl.autograd.grad(want[0].sum(), x)):
            assert fl.equal(a, b)
    assert fl.cond(fl.tensor(True), lambda: y + 1, lambda: y).tolist() == [3.0, 3.0]


def test_cond_refuses():
    x, yes = fl.ones(2), fl.tensor(True)
    for given, words in (
        (("a", fl.sin, fl.cos, (x,)), "bool or tensor, but got a"),
        ((None, fl.sin, fl.cos, (x,)), "bool or tensor"),
        ((x, fl.sin, fl.cos, (x,)), "single-element tensor"),
        ((yes, fl.sin, 3, (x,)), "Expect both branches to be callable"),
        ((yes, fl.sin, fl.cos, x), "Expect operands"),
        ((yes, fl.add, fl.sub, (x, 2)), "tensor leaves"),
    ):
        with pytest.raises(RuntimeError, match=words):
            fl.cond(*given)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_cond_compiled(backend):
    def by_size(x):
        return fl.cond(x.shape[0] > 3, lambda x: x + 1, lambda x: x - 1, (x,)) * 2

    def by_data(x):
        y = x.sin()
        return fl.cond(y.sum() > 0, lambda x: x + 1, lambda x: x * x, (y,)) * 2

    fl.compiler.reset()
    fixed = fl.compile(by_size, backend=backend, fullgraph=True, dynamic=True)
    for n in (2, 3, 4, 5, 2):
        x = fl.rand(n)
        assert fl.allclose(fixed(x), by_size(x))
    counted = fl.compiler.counters()
    assert counted["breaks"] == {} and counted["graphs"] == 2
    free = fl.compile(by_data, backend=backend)
    for sign in (1, -1, 1):
        x = sign * fl.rand(4, requires_grad=True)
        x.retain_grad()
        got = free(x)
        assert fl.allclose(got, by_data(x))
        assert fl.allclose(fl.autograd.grad(got.sum(), x)[0], fl.autograd.grad(by_data(x).sum(), x)[0])
    assert fl.compiler.counters()["breaks"] == {"branch-on-data": 1}
    with pytest.raises(Exception, match="asks for the truth"):
        fl.compile(by_data, backend=backend, fullgraph=True)(fl.rand(4))
