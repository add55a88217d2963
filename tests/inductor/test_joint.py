"""Gradients: compiled forward and backward equal eager autograd, for models, None gradients, no_grad regions, draws,
sizes."""

import pytest

import flambeau
from flambeau.eager import autograd, random
from flambeau.eager.op.op import Kind
from flambeau.inductor.graph.functionalize import functionalize
from flambeau.inductor.graph.joint_graph import build_joint
from flambeau.inductor.graph.verify import differs
from flambeau.runtime import counters
from flambeau.runtime.config import config
from flambeau.runtime.errors import Unsupported

from tests.semantics.test_storage import WRITTEN

from .tools import capture, check, compiled, computed, dtypes, leaf, no_grad, ops, tensor

MODELS = {}


def model(make, other=None):
    def add(fn):
        MODELS[fn.__name__] = (fn, make, other)
        return fn

    return add


@model(
    lambda: (tensor(5, 4), leaf(4, 6), leaf(6), leaf(6, 2, seed=1)),
    lambda: (tensor(9, 4), leaf(4, 6), leaf(6), leaf(6, 2, seed=1)),
)
def mlp(x, w, b, v):
    hidden = ops.maximum(ops.add(ops.matmul(x, w), b), 0.0)
    return (ops.tanh(ops.matmul(hidden, v)),)


@model(lambda: (tensor(5, 8), leaf(8), leaf(8, seed=1)), lambda: (tensor(3, 8), leaf(8), leaf(8, seed=1)))
def normalised(x, w, b):
    return (ops.layer_norm(x, 1, w, b, 1e-5)[0],)


@model(lambda: (leaf(5, 8),), lambda: (leaf(7, 8),))
def softmax_entropy(x):
    p = ops.softmax(x, 1)
    return (ops.sum(ops.mul(p, ops.log_softmax(x, 1)), (1,), False),)


@model(lambda: (leaf(2, 5, 8), leaf(2, 5, 8, seed=1)))
def products_of_batches(q, k):
    scores = ops.matmul(q, ops.permute(k, (0, 2, 1)))
    return (ops.matmul(ops.softmax(scores, 2), k),)


@model(lambda: (tensor(6, 1, dtype=dtypes.int64, high=10), leaf(10, 4)))
def embedded(index, table):
    rows = ops.embedding(table, ops.view(index, (2, 3)))
    return (ops.sum(ops.exp(rows), (1,), False),)


@model(lambda: (leaf(3, 4), leaf(4, seed=1), leaf(3, 1, seed=2)))
def broadcast_everywhere(a, b, c):
    return ops.mul(ops.add(a, b), c), ops.sub(ops.mul(b, b), 1.0)


@model(lambda: (leaf(3, 4), tensor(3, 4, seed=1)))
def views_and_cats(a, x):
    t = ops.permute(a, (1, 0))
    joined = ops.cat((ops.slice(t, 0, 1, 1, 3), ops.permute(x, (1, 0))), 0)
    return (ops.mul(joined, 2.0), ops.view(a, (2, 6)))


@model(lambda: (leaf(3, 4), leaf(3, 4, seed=1)))
def one_input_unused(a, b):
    return (ops.exp(a),)


@model(lambda: (leaf(3, 4), leaf(3, 4, seed=1)))
def region_without_gradient(a, b):
    with no_grad():
        scale = ops.sum(ops.mul(a, b), (), False)
        same = ops.mul(a, b)
    return ops.mul(a, scale), ops.add(same, ops.mul(a, b))


@model(lambda: (leaf(3, 4),))
def detached_in_the_middle(a):
    y = ops.exp(a)
    return (ops.mul(ops.detach(y), a),)


@model(lambda: (leaf(3, 4), tensor(3, 4, seed=1, dtype=dtypes.int64, high=5)))
def integers_beside(a, n):
    return ops.mul(a, n), ops.add(n, 1)


@model(lambda: (leaf(4, 6),))
def largest_values(a):
    values, at = ops.max_dim(a, (1,), False)
    return values, at


@model(lambda: (computed(4, 6), leaf(6)))
def computed_inputs(x, w):
    return (ops.sin(ops.mul(x, w)),)


@model(lambda: (leaf(4, 6), leaf(6, seed=1)))
def shared_subexpressions(x, w):
    a = ops.exp(ops.mul(x, w))
    b = ops.exp(ops.mul(x, w))
    return a, b, ops.add(a, b)


@pytest.mark.parametrize("backend", ["aot_eager", "loops"])
@pytest.mark.parametrize("name", MODELS)
def test_model(name, backend):
    fn, make, _ = MODELS[name]
    check(fn, make, backend=backend)


@pytest.mark.parametrize("backend", ["aot_eager", "loops"])
@pytest.mark.parametrize("name", MODELS)
def test_model_with_symbolic_sizes(name, backend):
    fn, make, other = MODELS[name]
    check(fn, make, backend=backend, dynamic=True, other=other)


def gradients(run, inputs, chosen):
    """Gradients of the chosen outputs alone."""
    outputs = run(*inputs)
    wanted = [x for x in inputs if getattr(x, "requires_grad", False)]
    picked = [outputs[k] for k in chosen]
    return autograd.grad(picked, wanted, [ops.mul(ops.detach(t), 0.5) for t in picked], allow_unused=True)


def three_heads(x, w, v):
    hidden = ops.exp(ops.mul(x, w))
    return ops.mul(hidden, v), ops.sin(hidden), ops.mul(v, 2.0)


@pytest.mark.parametrize("backend", ["aot_eager", "loops"])
@pytest.mark.parametrize("chosen", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_gradients_of_unused_outputs_are_none(chosen, backend):
    make = lambda: (leaf(3, 4), leaf(4, seed=1), leaf(4, seed=2))
    run = compiled(three_heads, *make(), backend=backend)
    expected, actual = gradients(three_heads, make(), chosen), gradients(run, make(), chosen)
    assert [g is None for g in actual] == [g is None for g in expected]
    assert differs(list(expected), list(actual)) is None


def test_a_backward_is_compiled_once_per_pattern():
    make = lambda: (leaf(3, 4), leaf(4, seed=1), leaf(4, seed=2))
    run = compiled(three_heads, *make())
    assert set(run.training.made) == {frozenset((0, 1, 2))}
    for _ in range(2):
        gradients(run, make(), (1,))
    assert set(run.training.made) == {frozenset((0, 1, 2)), frozenset((1,))}


def test_weights_without_a_gradient_stay_untouched():
    """An unused head gives None, so an optimizer leaves its weight alone."""
    x, w, v = leaf(3, 4), leaf(4, seed=1), leaf(4, seed=2)
    ops.sum(compiled(three_heads, x, w, v)(x, w, v)[1], (0, 1), False).backward()
    assert v.grad is None and w.grad is not None and x.grad is not None


def dropped(x, w):
    y = ops.dropout(ops.mul(x, w), 0.5)[0]
    return (ops.mul(y, ops.dropout(x, 0.25)[0]), ops.mul(y, 1.0))


@pytest.mark.parametrize("backend", ["aot_eager", "loops"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_dropout_draws_what_eager_draws(backend, dynamic):
    check(dropped, lambda: (leaf(6, 8), leaf(8, seed=1)), backend=backend, dynamic=dynamic)


@pytest.mark.parametrize("backend", ["aot_eager", "loops"])
def test_two_equal_dropouts_are_two_draws(backend):
    def f(x):
        return (ops.sub(ops.dropout(x, 0.5)[0], ops.dropout(x, 0.5)[0]),)

    check(f, lambda: (leaf(6, 8),), backend=backend)
    assert compiled(f, leaf(6, 8), backend=backend)(leaf(6, 8))[0]._fl_array.any()


def test_each_call_draws_anew_and_moves_the_generator_as_eager_does():
    x, w = tensor(6, 8), tensor(8, seed=1)
    run = compiled(dropped, x, w)
    random.default_generator.manual_seed(3)
    eager = [dropped(x, w)[0], dropped(x, w)[0]]
    random.default_generator.manual_seed(3)
    ours = [run(x, w)[0], run(x, w)[0]]
    assert differs(eager, ours) is None and differs(ours[0], ours[1]) is not None


def test_gradients_of_gradients():
    def f(x, w):
        return (ops.mul(ops.sin(ops.mul(x, w)), x),)

    def penalty(run, x, w):
        (y,) = run(x, w)
        (g,) = autograd.grad([y], [x], [ops.full((3, 4), 1.0, dtypes.float32, None)], create_graph=True)
        return autograd.grad([ops.mul(g, g)], [x, w], [ops.full((3, 4), 1.0, dtypes.float32, None)])

    make = lambda: (leaf(3, 4), leaf(4, seed=1))
    run = compiled(f, *make())
    assert differs(list(penalty(f, *make())), list(penalty(run, *make()))) is None


def test_gradients_of_gradients_see_the_same_draws():
    def penalty(run, x, w):
        random.default_generator.manual_seed(5)
        (y, _) = run(x, w)
        (g,) = autograd.grad([y], [x], [ops.full((6, 8), 1.0, dtypes.float32, None)], create_graph=True)
        return autograd.grad([ops.mul(g, g)], [x, w], [ops.full((6, 8), 1.0, dtypes.float32, None)])

    make = lambda: (leaf(6, 8), leaf(8, seed=1))
    run = compiled(dropped, *make())
    assert differs(list(penalty(dropped, *make())), list(penalty(run, *make()))) is None


def test_a_double_backward_whose_input_is_gone_says_so_and_keeps_it_from_then_on():
    def f(x, w):
        return (ops.exp(ops.add(x, w)),)  # saves its output: nothing holds x

    def penalty(run, w):
        (y,) = run(ops.mul(w, 2.0), w)
        (g,) = autograd.grad([y], [w], [ops.detach(y)], create_graph=True)
        return autograd.grad([g], [w], [ops.detach(g)])[0]

    run = compiled(f, computed(4), leaf(4))
    with pytest.raises(RuntimeError, match="input arg0 is gone"):
        penalty(run, leaf(4))
    assert differs(penalty(f, leaf(4)), penalty(run, leaf(4))) is None


def test_a_double_backward_after_its_input_was_written_raises():
    x, w = tensor(4), leaf(4)
    (y,) = compiled(lambda x, w: (ops.exp(ops.add(x, w)),), x, w)(x, w)
    ops.add_(x, 1.0)
    with pytest.raises(RuntimeError, match="input arg0 of a compiled graph.*is at version 1"):
        autograd.grad([y], [w], [ops.detach(y)], create_graph=True)


def test_a_backward_that_needs_a_late_guard_runs_the_recorded_forward():
    """A pattern compiled after the guards were made may not add one: eager's engine gives the gradient, counted."""
    make = lambda: (leaf(3, 4), leaf(4, seed=1), leaf(4, seed=2))
    run = compiled(three_heads, *make(), dynamic=True)

    def late(present):
        with run.functional.graph.env.sealed():
            raise Unsupported("late guard", "s0 < 5")

    run.training.source = late
    before = counters.snapshot()["fallbacks"].get("backward: late guard", 0)
    expected, actual = gradients(three_heads, make(), (1,)), gradients(run, make(), (1,))
    assert differs(list(expected), list(actual)) is None
    assert counters.snapshot()["fallbacks"]["backward: late guard"] == before + 1


def test_second_backward_needs_retain_graph():
    run = compiled(mlp, *MODELS["mlp"][1]())
    (y,) = run(*MODELS["mlp"][1]())
    total = ops.sum(y, (0, 1), False)
    total.backward(retain_graph=True)
    total.backward()
    with pytest.raises(RuntimeError, match="second time"):
        total.backward()


def test_inputs_saved_for_backward_are_version_checked():
    x, w = tensor(3, 4), leaf(4)
    (y,) = compiled(lambda x, w: (ops.mul(x, w),), x, w)(x, w)
    ops.add_(x, 1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward(ops.full((3, 4), 1.0, dtypes.float32, None))


def test_inputs_that_no_formula_names_may_be_written_before_backward():
    """y = exp(x) saves y, not x: eager allows the write, and so do we."""
    f = lambda x, w: (ops.exp(ops.add(x, w)),)

    def go(run):
        x, w = tensor(3, 4), leaf(4)
        (y,) = run(x, w)
        ops.mul_(x, 7.0)
        return autograd.grad([y], [w], [ops.full((3, 4), 1.0, dtypes.float32, None)])[0]

    run = compiled(f, tensor(3, 4), leaf(4))
    assert differs(go(f), go(run)) is None
    assert not set(run.training.first.saved_inputs.values())


def test_without_recording_nothing_is_attached():
    x, w = tensor(3, 4), leaf(4)
    run = compiled(lambda x, w: (ops.mul(x, w),), x, w)
    with no_grad():
        (y,) = run(x, w)
    assert not y.requires_grad


def test_joint_graph_is_forward_then_backward():
    functional = functionalize(capture(mlp, *MODELS["mlp"][1]()))
    joint = build_joint(functional, (False, True, True, True))
    joint.graph.lint()
    assert [n.name for n in joint.tangents.values()] == ["tangent_tanh"] and list(joint.gradients) == [1, 2, 3]
    backward = [n for n in joint.graph.calls if n not in joint.forward]
    assert backward and not any(n.grad for n in backward)
    assert all(n.target.kind is not Kind.COMPOSITE or n.target.grads for n in joint.graph.calls if n in joint.forward and n.is_op)


def test_user_lines_reach_the_backward():
    graph = capture(lambda x, w: (ops.exp(ops.mul(x, w)),), leaf(3, 4), leaf(4))
    for number, node in enumerate(graph.calls):
        node.stack = (("model.py", 10 + number, "y = ...", "forward"),)
    joint = build_joint(functionalize(graph), (True, True))
    lines = {n.name: n.where() for n in joint.graph.calls if n not in joint.forward}
    assert set(lines.values()) == {"model.py:10", "model.py:11"}


@pytest.mark.parametrize("name", [name for name in WRITTEN if "strided" not in name])
def test_gradients_of_writes_into_views_in_any_layout(name):
    """Those of `as_strided` over gaps are breaks."""

    def f(x, w):
        y = x * w
        WRITTEN[name](flambeau, y).mul_(2.5)
        return y

    x, w = leaf(4, 6), leaf(4, 6, seed=1)
    for g in (tensor(4, 6), tensor(6, 4).t(), flambeau.ones(()).expand(4, 6)):
        with config.patch(strict=True):
            found = autograd.grad(flambeau.compile(f, backend="loops")(x, w), (x, w), g)
        for a, b in zip(found, autograd.grad(f(x, w), (x, w), g)):
            assert not differs(a, b)
