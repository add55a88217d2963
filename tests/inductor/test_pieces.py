"""Sums over the steps of a loop, computed at once: gradients of slices become one `cat`, products of a few rows one
product, and only where that says the same."""

import collections

import pytest

from flambeau.inductor import driver
from flambeau.inductor.graph.decompose import decompose
from flambeau.inductor.graph.functionalize import functionalize
from flambeau.inductor.graph.partition import partition
from flambeau.inductor.graph.passes import tidy
from flambeau.inductor.graph.accumulated_gradients import join_products
from flambeau.inductor.pass_manager import Facts, run_phase

from .tools import capture, check, compiled, dtypes, leaf, ops, tensor


def backward_ops(f, *args, dynamic=False):
    """How often each op stands in the final backward of f."""
    functional = functionalize(capture(f, *args, dynamic=dynamic))
    joint = run_phase(driver.JOINT, functional, Facts(requires=tuple(getattr(x, "requires_grad", False) for x in args)))
    graph = decompose(partition(joint).backward)
    tidy(graph, across_grad=True)
    if join_products(graph):
        tidy(graph, across_grad=True)
    graph.lint()
    return collections.Counter(n.target.name for n in graph.calls if n.is_op)


cut_one = getattr(ops, "slice")


def cut(x, *places, dim=1):
    """Products of neighbouring slices of x with themselves and their number: gradients that differ."""
    ends = (*places, x.shape[dim])
    return [ops.mul(cut_one(x, dim, a, 1, b - a), float(k + 2)) for k, (a, b) in enumerate(zip(places, ends[1:]))]


def total(values):
    out = ops.sum(ops.square(values[0]), (0, 1), False)
    for v in values[1:]:
        out = ops.add(out, ops.sum(ops.square(v), (0, 1), False))
    return (out,)


COVERING = {
    "two": lambda x: total(cut(x, 0, 2)),
    "chunks": lambda x: total(cut(x, 0, 2, 4)),
    "in any order": lambda x: total(cut(x, 0, 1, 4)[::-1]),
    "rows": lambda x: total(cut(x, 0, 1, dim=0)),
    "with the whole": lambda x: (ops.add(total(cut(x, 0, 3))[0], ops.sum(ops.tanh(x), (0, 1), False)),),
}
OTHER = {
    "a gap": lambda x: total(cut(x, 1, 3)),
    "an overlap": lambda x: total([*cut(x, 0, 3), cut_one(x, 1, 2, 1, 2)]),
    "steps of two": lambda x: total([cut_one(x, 1, k, 2, 3) for k in (0, 1)]),
    "two dims": lambda x: total([*cut(x, 0, 3), *cut(x, 0, 1, dim=0)]),
}


@pytest.mark.parametrize("name", COVERING)
def test_slices_side_by_side_are_put_together(name):
    found = backward_ops(COVERING[name], leaf(3, 6))
    assert found["cat"] == 1 and found["slice_backward"] == 0
    check(COVERING[name], lambda: (leaf(3, 6),))


@pytest.mark.parametrize("name", OTHER)
def test_other_slices_are_added_up(name):
    found = backward_ops(OTHER[name], leaf(3, 6))
    assert found["cat"] == 0 and found["slice_backward"] >= 2
    check(OTHER[name], lambda: (leaf(3, 6),))


def test_slices_of_a_symbolic_size_stay():
    f = lambda x: total([cut_one(x, 0, 0, 1, 1), cut_one(x, 0, 1, 1, x.shape[0] - 1)])
    assert backward_ops(f, leaf(5, 6), dynamic=True)["cat"] == 0
    check(f, lambda: (leaf(5, 6),), dynamic=True, other=lambda: (leaf(7, 6),))


def test_no_size_is_asked_for():
    """Sums of symbolic sizes: the graph serves all of them."""
    f = lambda x, y: (ops.mul(ops.add(ops.tanh(x), y), ops.sin(x)),)
    check(f, lambda: (leaf(5, 6), leaf(5, 6)), dynamic=True, other=lambda: (leaf(7, 3), leaf(7, 3)))


def recurrence(steps, size):
    def f(x, w, b, h):
        for t in range(steps):
            h = ops.tanh(ops.add(ops.add(ops.matmul(h, w), b), ops.select(x, 0, t)))
        return (h,)

    return f, lambda: (tensor(steps, 2, size), leaf(size, size), leaf(size), leaf(2, size, seed=1))


def linear_recurrence(steps, size):
    def f(x, w, b, h):
        for t in range(steps):
            h = ops.tanh(ops.add(ops.linear(h, w, b), ops.select(x, 0, t)))
        return (h,)

    return f, lambda: (tensor(steps, 2, size), leaf(size, size), leaf(size), leaf(2, size, seed=1))


@pytest.mark.parametrize("make", [recurrence, linear_recurrence])
def test_products_of_all_steps_are_one(make):
    f, inputs = make(6, 16)
    found = backward_ops(f, *inputs())
    assert found["gemm"] == 6 + 1 and found["sum"] == 1  # one per step for the state, one for the weight
    check(f, inputs)


def test_two_weights_that_read_the_same_rows():
    """Their sums meet the steps in other orders."""

    def f(h, u, v):
        first, second = [], []
        for t in range(5):
            row = cut_one(h, 0, 2 * t, 1, 2)
            first.append(ops.tanh(ops.matmul(row, u)))
            second.insert(0, ops.sin(ops.matmul(row, v)))
        return (ops.add(total(first)[0], total(second)[0]),)

    inputs = lambda: (tensor(10, 16), leaf(16, 12), leaf(16, 12, seed=1))
    assert backward_ops(f, *inputs())["gemm"] == 2
    check(f, inputs)


def test_few_steps_and_large_rows_stay_apart():
    f, inputs = linear_recurrence(2, 16)
    assert backward_ops(f, *inputs())["cat"] == 0
    f, _ = linear_recurrence(4, 16)
    inputs = tensor(4, 64, 16), leaf(16, 16), leaf(16), leaf(64, 16)
    found = backward_ops(f, *inputs)
    assert found["cat"] == 0 and found["gemm"] == 4 + 4


@pytest.mark.parametrize("kind", [dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.int64, dtypes.bool, dtypes.uint8])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_many_parts_are_moved(kind, dim):
    sizes = lambda k: tuple(1 + k % 3 if d == dim else n for d, n in enumerate((3, 2, 4)))
    parts = [tensor(*sizes(k), seed=k, dtype=kind, high=None if kind.is_floating_point else 2) for k in range(7)]
    f = lambda *xs: (ops.cat(xs, dim),)
    text = compiled(f, *parts, backend="inductor").forward.source
    assert text.count("/* move */") == 7
    check(f, lambda: tuple(parts), backend="inductor")


def test_parts_of_any_memory_and_size():
    f = lambda *xs: (ops.tanh(ops.cat(tuple(ops.permute(x, (1, 0)) for x in xs), 0)),)
    check(f, lambda: tuple(leaf(4, 3, seed=k) for k in range(6)), backend="inductor")
    check(
        f,
        lambda: tuple(leaf(4, 3, seed=k) for k in range(6)),
        backend="inductor",
        dynamic=True,
        other=lambda: tuple(leaf(5, 2, seed=k) for k in range(6)),
    )
