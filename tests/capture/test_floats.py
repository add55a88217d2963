"""Floats from outside: known at the first value, inputs of the graph from the second on; comparisons are guarded as such."""

import flambeau as fb
import pytest
from flambeau.nn import functional as F
from flambeau.runtime import counters


@pytest.fixture(params=["eager", "inductor"])
def backend(request):
    return request.param


def compiled_times(fn, calls, backend):
    """How many graphs a sequence of calls needs; each result is compared with the plain function's."""
    compiled = fb.compile(fn, backend=backend)
    before = counters.snapshot()["graphs"]
    for args in calls:
        got, expected = compiled(*args), fn(*args)
        for a, b in zip(got if isinstance(got, tuple) else (got,), expected if isinstance(expected, tuple) else (expected,)):
            same = a.dtype == b.dtype and fb.allclose(a, b, atol=1e-5) if isinstance(a, fb.Tensor) else a == b
            assert same, (args, a, b)
    return counters.snapshot()["graphs"] - before


X = fb.arange(4.0).reshape(2, 2)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, v: x * v + v**2 - 1 / v,
        lambda x, v: (x.sum() + v, v * 2, v),
        lambda x, v: fb.clamp(x, -v, v),
        lambda x, v: F.layer_norm(x, (2,), eps=v),
        lambda x, v: fb.full((2,), v),
        lambda x, v: x.masked_fill(x > 1, v),
        lambda x, v: fb.tensor([[v, 2], [1, v + 1]]) * x,
        lambda x, v: fb.tensor(v),
        lambda x, v: x.half() * v,
        lambda x, v: fb.addcmul(x, x, x, value=v),
        lambda x, v: x.lerp(x + 1, v),
    ],
    ids=range(11),
)
def test_one_graph_serves_every_further_value(fn, backend):
    assert compiled_times(fn, [(X, 0.25 + 0.37 * i) for i in range(12)], backend) == 2


def test_gradients(backend):
    w = fb.ones(2, requires_grad=True)
    compiled = fb.compile(lambda w, v: (w * v).sum(), backend=backend)
    for i in range(5):
        w.grad = None
        compiled(w, 0.5 + i).backward()
        assert w.grad.tolist() == [0.5 + i] * 2


def test_what_is_only_compared_is_guarded_as_compared(backend):
    def step(a, b, previous):
        w2 = a if previous < 5.0 else b
        return (w2 * 2).sum()

    assert compiled_times(step, [(X, X + 1, float(i % 11) + 0.125 * i) for i in range(500)], backend) == 2


def test_branches_on_a_symbolic_float(backend):
    def step(a, v):
        return (a * v if 2 * v > 3.0 else a - v), v * 2

    assert compiled_times(step, [(X, 0.3 * i) for i in range(50)], backend) == 3


@pytest.mark.parametrize(
    "compare",
    [
        lambda v: v < 1.0,
        lambda v: 1.0 < v,
        lambda v: v <= 1.0,
        lambda v: 1.0 >= v,
        lambda v: v == 1.0,
        lambda v: v != 1.0,
        lambda v: bool(v),
        lambda v: not v,
        lambda v: 0.0 < v < 2.0,
        lambda v: v is None or v > 1.0,
    ],
    ids=range(10),
)
def test_every_comparison(compare, backend):
    values = [0.0, -0.0, 0.5, 1.0, 1.5, float("nan"), float("inf"), -1.0, 2.0, 3]
    for order in (values, values[::-1], values[3:] + values[:3]):
        compiled = fb.compile(lambda x, v: x + 1 if compare(v) else x - 1, backend=backend)
        for v in order:
            assert compiled(X, v).tolist() == (X + 1 if compare(v) else X - 1).tolist(), v


def test_attributes_that_the_program_changes(backend):
    class Holder:
        rate, count = 1.0, 3

    def step(x, holder):
        rate, count = holder.rate, holder.count
        holder.rate, holder.count = rate * 0.5, count + 1
        holder.kept = rate + count
        return x * rate, rate, count

    holder = Holder()
    holder.rate, holder.count = 1.0, 3
    compiled = fb.compile(step, backend=backend)
    for i in range(12):
        rate, count = 0.5**i, 3 + i
        x, seen, number = compiled(X, holder)
        assert x.tolist() == (X * rate).tolist() and (seen, number) == (rate, count)
        assert (holder.rate, holder.count, holder.kept) == (rate * 0.5, count + 1, rate + count)


def test_types_are_told_apart(backend):
    compiled = fb.compile(lambda x, v: (x * v).dtype if v < 2 else x, backend=backend)
    integers = fb.arange(3)
    assert [compiled(integers, v) for v in (1, 1.0, 1.5, True, 0.5)] == [fb.int64, fb.float32, fb.float32, fb.int64, fb.float32]


def test_values_that_are_asked_for_are_settled(backend):
    def step(x, v):
        return x * 2 if f"{v:.1f}" == "0.5" else x * int(v)

    assert compiled_times(step, [(X, v) for v in (0.5, 1.5, 2.5, 0.5, 1.5, 2.5)], backend) == 3


def test_dynamic_waits_for_a_second_value():
    compiled = fb.compile(lambda x, v: x * v, backend="eager", dynamic=True)
    before = counters.snapshot()["graphs"]
    for v in (0.5, 1.5, 2.5):
        assert compiled(X, v).tolist() == (X * v).tolist()
    assert counters.snapshot()["graphs"] - before == 2
