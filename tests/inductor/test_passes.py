"""Graph passes: what merges, what never does, what is a no-op, what stays because it is returned; decompose keeps
marks."""

import math

import pytest

import flambeau

from flambeau.capture.graph.graph import Interpreter, leaves
from flambeau.eager.op.op import Kind
from flambeau.inductor.graph import passes
from flambeau.inductor.graph.decompose import decompose
from flambeau.inductor.graph.functionalize import functionalize
from flambeau.inductor.graph.verify import check as verified, differs, first_difference
from flambeau.runtime.errors import InternalError

from .tools import capture, dtypes, leaf, no_grad, ops, tensor


def pure(fn, *args, dynamic=False):
    return functionalize(capture(fn, *args, dynamic=dynamic)).graph


def names(graph):
    return [n.target.name for n in graph.calls if n.is_op]


def after(fn, *args, across_grad=False, dynamic=False):
    """Op names left after the passes, which must not change the values."""
    graph = pure(fn, *args, dynamic=dynamic)
    before = Interpreter(graph).run(*args)
    passes.tidy(graph, across_grad)
    graph.lint()
    assert differs(list(before), list(Interpreter(graph).run(*args))) is None
    return names(graph)


def test_common_subexpressions_merge():
    def f(x, y):
        return (ops.mul(ops.exp(ops.add(x, y)), ops.exp(ops.add(x, y))),)

    assert after(f, tensor(3), tensor(3)) == ["add", "exp", "mul"]


def test_grad_marks_do_not_merge_before_joint():
    def f(x):
        a = ops.exp(x)
        with no_grad():
            b = ops.exp(x)
        return (ops.mul(a, b),)

    assert after(f, tensor(3)) == ["exp", "exp", "mul"]
    assert after(f, tensor(3), across_grad=True) == ["exp", "mul"]


def test_different_draws_do_not_merge():
    def f(x):
        return (ops.sub(ops.uniform(x, 0.0, 1.0, None), ops.uniform(x, 0.0, 1.0, None)),)

    graph = pure(f, tensor(3))
    passes.tidy(graph, True)
    assert names(graph) == ["uniform", "uniform", "sub"] and [n.draw for n in graph.calls][:2] == [0, 1]


def test_negative_zero_and_bool_are_not_zero_and_one():
    def f(x):
        return ops.add(x, 0.0), ops.add(x, -0.0), ops.mul(x, 2), ops.mul(x, 2.0)

    assert after(f, tensor(3)).count("add") == 2

    def inside(x):
        signs = ops.sub(ops.exp(ops.mul(x, 0.0)), ops.exp(ops.mul(x, -0.0)))
        return (ops.add(signs, ops.sub(ops.exp(ops.mul(x, 3)), ops.exp(ops.mul(x, 3.0)))),)

    assert after(inside, tensor(3)).count("mul") == 4


def test_two_outputs_stay_two_tensors():
    def f(x):
        return ops.exp(x), ops.exp(x)

    assert after(f, tensor(3)) == ["exp", "exp"]


def test_dead_nodes_go():
    def f(x):
        ops.exp(x)
        ops.max_dim(x, (0,), False)
        return (ops.sin(x),)

    assert after(f, tensor(3)) == ["sin"]


def test_noops_go():
    def f(x):
        y = ops.exp(x)
        y = ops.permute(ops.view(y, (3, 4)), (0, 1))
        y = ops.mul(ops.cast(ops.clone(y), dtypes.float32), 1.0)
        return (ops.sin(ops.expand(y, (3, 4))),)

    assert after(f, tensor(3, 4), across_grad=True) == ["exp", "sin"]


def test_noops_of_symbolic_sizes_go():
    def f(x):
        return (ops.sin(ops.expand(ops.view(ops.exp(x), tuple(x.shape)), tuple(x.shape))),)

    assert after(f, tensor(3, 4), across_grad=True, dynamic=True) == ["exp", "sin"]


def test_what_looks_like_a_noop_but_is_none():
    def f(x, n):
        return (ops.mul(n, 1.0), ops.exp(ops.cast(n, dtypes.float32)), ops.add(x, 0.0), ops.sin(ops.permute(x, (1, 0))))

    assert after(f, tensor(3, 3), tensor(3, dtype=dtypes.int64, high=4), across_grad=True) == [
        "mul",
        "cast",
        "exp",
        "add",
        "permute",
        "sin",
    ]


def test_a_returned_copy_stays_a_copy():
    def f(x):
        y = ops.exp(x)
        return ops.clone(x), y, ops.clone(y)

    assert after(f, tensor(3), across_grad=True) == ["exp", "clone", "clone"]


def test_identity_without_gradient_stays_before_joint():
    def f(x):
        return (ops.mul(ops.detach(x), x),)

    assert after(f, leaf(3)) == ["detach", "mul"]
    assert after(f, leaf(3), across_grad=True) == ["mul"]


def test_constants_become_numbers_where_types_allow():
    def f(x, n):
        two = ops.full((), 2.0, dtypes.float32, None)
        return ops.mul(x, two), ops.mul(n, two)

    assert after(f, tensor(3), tensor(3, dtype=dtypes.int64, high=4)) == ["mul", "mul"]

    def g(x):
        return (ops.mul(ops.cast(x, dtypes.float16), ops.full((), 2.0, dtypes.float64, None)),)

    assert after(g, tensor(3)) == ["cast", "mul"]


def test_decompose_leaves_no_composite_and_keeps_marks():
    graph = capture(lambda x: (ops.softmax(x, 1), ops.dropout(x, 0.5)[0]), tensor(3, 4))
    for node in graph.calls:
        node.stack = (("m.py", 5, "x", "f"),)
    flat = decompose(graph)
    verified(flat, "decomposed")
    assert all(n.target.kind is not Kind.COMPOSITE for n in flat.calls if n.is_op)
    assert {n.where() for n in flat.calls} == {"m.py:5"}
    draws = [n.draw for n in flat.calls if n.is_op and n.target.kind is Kind.RANDOM]
    assert draws == [0] and flat.draws == 1
    run = lambda g: Interpreter(g).run(tensor(3, 4), seed=3, base=0)
    assert differs(list(run(graph)), list(run(flat))) is None


def test_verifier_names_stage_and_node():
    graph = pure(lambda x: (ops.exp(ops.permute(x, (1, 0))),), tensor(3, 4))
    verified(graph, "pure")
    graph.find("exp").value = tensor(3, 4)
    with pytest.raises(
        InternalError, match=r"pure graph forward, node exp .*: its value is f32\[3, 4\] but exp gives f32\[4, 3\]"
    ):
        verified(graph, "pure")


def test_verifier_refuses_mutation_and_composites_where_they_are_over():
    graph = capture(lambda x: (ops.softmax(ops.add_(x, 1.0), 1),), tensor(3, 4))
    verified(graph, "captured")
    with pytest.raises(InternalError, match="add_ writes its argument after functionalize"):
        verified(graph, "pure")
    with pytest.raises(InternalError, match="softmax is a composite after decompose"):
        verified(pure(lambda x: (ops.softmax(x, 1),), tensor(3, 4)), "decomposed")


def test_first_difference_names_the_node_and_the_line():
    graph = pure(lambda x: (ops.exp(ops.sin(ops.mul(x, 2.0))),), tensor(3, 4))
    graph.find("sin").stack = (("m.py", 7, "y = sin", "f"),)

    def wrong(copy):
        def run(inputs, seed, base):
            values = [v for v in Interpreter(copy).run(*inputs)]
            at = [n.target.name for n in leaves(copy.output.args)].index("sin")
            values[at] = ops.mul(values[at], 1.01)
            return values

        return run

    found = first_difference(graph, wrong, [tensor(3, 4)], 0, 0)
    assert found.startswith("node sin (sin, m.py:7): 12 of 12 elements differ")


@pytest.mark.parametrize("backend", ["aot_eager", "loops"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_verifier_takes_sizes_that_a_guard_makes_equal(backend, dynamic):
    """An expansion that changes nothing for a guarded size is dropped; what read it is written with the size of its operand then."""

    def f(x, y):
        return x[::2].expand(2) * y, x[::2].expand([2]) + 1

    compiled, y = flambeau.compile(f, backend=backend, dynamic=dynamic, options={"verify": True}), flambeau.ones(2)
    for n in (4, 3, 2, 1, 2, 3):
        x = flambeau.arange(float(n))
        for a, b in zip(f(x, y), compiled(x, y)):
            assert flambeau.equal(a, b)


@pytest.mark.parametrize("backend", ["aot_eager", "loops", "inductor"])
def test_times_one_is_no_identity_of_infinite_complex_numbers(backend):
    parts = (0.0, 1.0, -2.0, math.inf, math.nan)
    x = flambeau.tensor([complex(a, b) for a in parts for b in parts])
    x, y = x.repeat(len(x)), x.repeat_interleave(len(x))
    for f in (lambda x, y: x * 1, lambda x, y: x / 1, lambda x, y: flambeau.addcdiv(x, x, y), lambda x, y: x - 0):
        found, wanted = (flambeau.view_as_real(g(x, y)) for g in (flambeau.compile(f, backend=backend), f))
        assert flambeau.equal(found.isnan(), wanted.isnan()) and flambeau.equal(found.nan_to_num(), wanted.nan_to_num())
