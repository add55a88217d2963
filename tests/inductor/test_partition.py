"""What is saved: the fewest bytes, never a graph input that no formula names, cheap work again, costly work once."""

import itertools
import random as python_random

import pytest

import flambeau
from flambeau.inductor.graph import max_flow
from flambeau.inductor.graph.functionalize import functionalize
from flambeau.inductor.graph.joint_graph import build_joint
from flambeau.inductor.graph.partition import partition

from .tools import capture, check, compiled, leaf, no_grad, ops, tensor


def cut(fn, *args, dynamic=False):
    functional = functionalize(capture(fn, *args, dynamic=dynamic))
    requires = tuple(getattr(a, "requires_grad", False) for a in args)
    pair = partition(build_joint(functional, requires))
    pair.forward.lint()
    pair.backward.lint()
    return pair


def names(graph):
    return [n.target.name for n in graph.calls if n.is_op]


def test_a_chain_of_maps_saves_one_tensor_and_computes_the_rest_again():
    def f(x, w):
        y = ops.matmul(x, w)
        return (ops.mul(ops.sin(ops.exp(ops.tanh(y))), 2.0),)

    pair = cut(f, tensor(8, 8), leaf(8, 8))
    results = [n for n in pair.saved if n not in pair.saved_inputs]
    assert len(results) == 1 and set(pair.saved_inputs) == {"arg0"}
    assert "tanh" in names(pair.backward)


def test_products_are_not_computed_again():
    def f(x, w, v):
        return (ops.matmul(ops.exp(ops.matmul(x, w)), v),)

    pair = cut(f, tensor(8, 8), leaf(8, 8), leaf(8, 8, seed=1))
    forward = set(names(pair.forward))
    assert "gemm" in forward or "matmul" in forward
    assert sum(n in ("gemm", "matmul") for n in names(pair.backward)) == 3  # dw, d(hidden), dv and no forward product


def test_an_input_is_saved_only_if_a_formula_names_it():
    pair = cut(lambda x, w: (ops.exp(ops.add(x, w)),), tensor(8, 8), leaf(8))
    assert pair.saved_inputs == {} and len(pair.saved) == 1
    pair = cut(lambda x, w: (ops.mul(x, w),), tensor(8, 8), leaf(8))
    assert set(pair.saved_inputs) == {"arg0"}


def test_an_input_seen_through_views_is_saved_as_itself():
    pair = cut(lambda x, w: (ops.mul(ops.permute(x, (1, 0)), w),), tensor(8, 6), leaf(8))
    assert set(pair.saved_inputs) == {"arg0"} and "permute" in names(pair.backward)


def test_a_mask_is_saved_as_bytes_not_drawn_again():
    pair = cut(lambda x: (ops.dropout(x, 0.5)[0],), leaf(16, 16))
    saved = [pair.backward.find(name).value.dtype.name for name in pair.saved]
    assert saved == ["bool"]


def test_small_before_large():
    """A row sum broadcast over a matrix is saved as the row."""

    def f(x):
        total = ops.sum(ops.exp(x), (1,), True)
        return (ops.mul(ops.expand(total, (16, 16)), ops.expand(total, (16, 16))),)

    pair = cut(f, leaf(16, 16))
    sizes = [tuple(pair.backward.find(n).value.shape) for n in pair.saved]
    assert (16, 1) in sizes and sizes.count((16, 16)) <= 1


def test_sizes_that_no_saved_tensor_shows_come_as_numbers():
    def f(x):
        return (ops.sum(x, (0,), False),)

    pair = cut(f, leaf(5, 4), dynamic=True)
    assert pair.sizes and all(n.startswith("s") for n in pair.sizes)
    check(f, lambda: (leaf(5, 4),), dynamic=True, other=lambda: (leaf(9, 4),))
    check(f, lambda: (leaf(5, 4),), backend="loops", dynamic=True, other=lambda: (leaf(9, 4),))


def test_a_tagged_region_is_computed_again():
    def f(x, w, v):
        return (ops.matmul(ops.exp(ops.matmul(ops.sin(x), w)), v),)

    def tagged(tag):
        graph = capture(f, *args)
        for node in graph.calls[1:3]:
            node.tag = tag
        pair = partition(build_joint(functionalize(graph), (True, True, True)))
        return pair, sum(n in ("matmul", "gemm") for n in names(pair.backward))

    args = leaf(8, 8), leaf(8, 8, seed=1), leaf(8, 8, seed=2)
    plain, kept = tagged(None)
    again, more = tagged("checkpoint 0")
    assert more == kept + 1
    assert not any("matmul" in name or "gemm" in name for name in again.saved)


def test_tagged_regions_give_the_same_gradients():
    from flambeau.inductor import debug_backends
    from flambeau.inductor.graph.verify import differs

    from .tools import show

    def f(x, w):
        hidden = ops.dropout(ops.exp(ops.matmul(ops.sin(x), w)), 0.5)[0]
        return (ops.matmul(ops.sin(hidden), w),)

    make = lambda: (leaf(8, 8), leaf(8, 8, seed=1))
    graph = capture(f, *make())
    for node in graph.calls[1:4]:
        node.tag = "checkpoint 0"
    run = debug_backends.aot_eager(graph, list(make()))
    expected, actual = show(f, make), show(run, make)
    assert differs(list(expected[0]), list(actual[0])) is None and differs(expected[2], actual[2]) is None


def test_nothing_to_differentiate_means_no_backward():
    assert compiled(lambda x, w: (ops.mul(x, 2.0),), tensor(3), leaf(3)).training is None

    def silent(x):
        with no_grad():
            return (ops.exp(x),)

    assert compiled(silent, leaf(3)).training is None


@pytest.mark.parametrize("seed", range(30))
def test_minimum_cut_against_all_cuts(seed):
    dice = python_random.Random(seed)
    count = 6
    edges = [
        (a, b, dice.choice([1, 2, 3, 7, max_flow.INFINITE]))
        for a in range(count)
        for b in range(a + 1, count)
        if dice.random() < 0.5
    ]
    price = lambda side: sum(c for a, b, c in edges if a in side and b not in side)
    sides = [{0, *extra} for n in range(count - 1) for extra in itertools.combinations(range(1, count - 1), n)]
    best = min(map(price, sides))
    net = max_flow.Network()
    for _ in range(count):
        net.vertex()
    for edge in edges:
        net.edge(*edge)
    if best >= max_flow.INFINITE:
        with pytest.raises(ValueError, match="no finite cut"):
            net.source_side(0, count - 1)
    else:
        assert price(net.source_side(0, count - 1)) == best


# -- what the caller may write between the two runs

WRITTEN = {
    "a copy of an input": (lambda x: (clamped(x.clone()),), lambda x, outs: x),
    "a copy of a view of an input": (lambda x: (clamped(x.t().clone()),), lambda x, outs: x),
    "a copy of a result": (lambda x: ((y := x * 2), clamped(y.clone())), lambda x, outs: outs[0]),
    "a result that decides": (lambda x: ((y := x.mul(1)), flambeau.where(y > 0.75, y, x)), lambda x, outs: outs[0]),
    "a result that is halved": (lambda x: ((y := x * 2), flambeau.where(y.mul(0.5) > 0.1, y, 0.0)), lambda x, outs: outs[0]),
}


def clamped(v):
    v.clamp_(max=0.5)
    return v


@pytest.mark.parametrize("backend", ("aot_eager", "loops", "inductor"))
@pytest.mark.parametrize("name", WRITTEN)
def test_what_eager_does_not_keep_may_be_written_before_the_backward(name, backend):
    f, written = WRITTEN[name]
    found = []
    for g in (f, flambeau.compile(f, backend=backend)):
        leaf = (flambeau.arange(12.0).reshape(3, 4) / 8 - 0.5).requires_grad_()
        x = leaf * 1
        outs = g(x)
        with flambeau.no_grad():
            written(x, outs).add_(3)
        outs[-1].sum().backward()
        found.append(leaf.grad)
    assert (found[0] == found[1]).all()


def test_what_eager_keeps_is_refused_alike():
    f = lambda x: (x.exp(),)
    for g in (f, flambeau.compile(f)):
        x = flambeau.ones(3, requires_grad=True)
        (y,) = g(x)
        with flambeau.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


EQUAL_CALLS = {
    "before": lambda x: (x.exp(), x.exp() * 2),
    "after": lambda x: (lambda saved, seen: (seen, saved))(x.exp() * 2, x.exp()),
    "view": lambda x: (lambda saved, seen: (seen, saved))(x.sigmoid().view(-1) * x.view(-1), x.sigmoid()),
    "made by the backward": lambda x: (flambeau.zeros_like(x), x.masked_fill(x > 1, 0.0).zero_()),
}


@pytest.mark.parametrize("name", EQUAL_CALLS)
@pytest.mark.parametrize("backend", ["aot_eager", "loops", "inductor"])
def test_one_of_two_equal_results_may_be_written(name, backend):
    """What eager saves is the other one; as one tensor the backward was refused."""
    found = []
    for f in (EQUAL_CALLS[name], flambeau.compile(EQUAL_CALLS[name], backend=backend)):
        x = (flambeau.arange(12.0).reshape(3, 4) / 8 - 0.5).requires_grad_()
        seen, out = f(x)
        seen.detach().mul_(3)
        out.sum().backward()
        found.append(x.grad)
    assert flambeau.allclose(*found, rtol=1e-5)
