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
