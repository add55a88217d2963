"""A compiled call is a transaction: a failed check leaves inputs and generator as they were; stages compare; dumps are
written."""

import os

import numpy as np
import pytest

import flambeau
from flambeau.eager import random
from flambeau.inductor import debug_backends, driver, targets
from flambeau.inductor.cpp import launch
from flambeau.inductor.pass_manager import Target
from flambeau.inductor.runtime.runtime_wrapper import FunctionExecutable
from flambeau.runtime import compile_log
from flambeau.runtime.config import config
from flambeau.runtime.errors import CheckFailed, InternalError

from .tools import Tensor, capture, compiled, dtypes, leaf, ops, tensor


def bad_lookup(x, index, table):
    ops.add_(x, 1.0)
    drawn = ops.uniform(x, 0.0, 1.0, None)
    return ops.embedding(table, index), drawn


def indices(*values):
    return Tensor._fl_from_array(np.array(values, np.int64), dtypes.int64)


def quotients(x, y):
    return ops.floor_divide(x, y), ops.remainder(x, y), ops.sum(ops.trunc_divide(x, y), (0,), False)


@pytest.mark.parametrize("backend", ["loops", "inductor"])
def test_division_of_integers_by_zero_is_checked(backend):
    """Also in the lanes of a vector; elements that are not there divide by nothing."""
    x, good, bad = indices(*range(-9, 10)), indices(*range(1, 20)), indices(*range(18, -1, -1))
    run = compiled(quotients, x, good, backend=backend)
    for ours, plain in zip(run(x, good), quotients(x, good)):
        assert np.array_equal(ours.numpy(), plain.numpy())
    with pytest.raises(CheckFailed, match="ZeroDivisionError"):
        run(x, bad)
    run(x, good)


def test_a_failed_check_changes_nothing():
    x, table = tensor(3, 4), tensor(5, 4, seed=1)
    run = compiled(bad_lookup, x, indices(0, 4), table, backend="loops")
    before, version, state = x._fl_array.copy(), x._version, random.default_generator.get_state()
    with pytest.raises(CheckFailed):
        run(x, indices(0, 7), table)
    assert np.array_equal(x._fl_array, before) and x._version == version
    assert (
        np.array_equal(random.default_generator.get_state()._fl_array, state._fl_array)
        if isinstance(state, Tensor)
        else random.default_generator.get_state() == state
    )
    run(x, indices(0, 4), table)
    assert not np.array_equal(x._fl_array, before)


def test_stages_that_agree_pass():
    def f(x, w):
        y = ops.mul(x, w)
        ops.add_(x, 1.0)
        return (ops.softmax(y, 1),)

    args = tensor(3, 4), leaf(4)
    run = driver.compile_graph(capture(f, *args), list(args), {"verify": True}, targets.LOOPS)
    assert run(*args)[0].requires_grad

    def g(x, w):
        return ops.exp(ops.mul(x, w)), ops.dropout(w, 0.5)[0]

    driver.compile_graph(capture(g, *args), list(args), {"verify": True}, targets.LOOPS)


def test_the_first_stage_that_differs_is_named(monkeypatch):
    def f(x):
        return (ops.exp(ops.sin(x)),)

    args = (tensor(3, 4),)
    graph = capture(f, *args)
    for node in graph.calls:
        node.stack = (("m.py", 3, "y = exp(sin(x))", "f"),)

    def wrong(graph, facts):
        right = targets.interpreted(graph, facts)

        def run(inputs, seed, base):
            values = right(inputs, seed, base)
            for k, node in enumerate(graph.output.args[0]):
                if node.target.name in ("exp", "sin"):
                    values[k] = ops.add(values[k], 0.5)
            return values

        return FunctionExecutable(run)

    with pytest.raises(InternalError) as error:
        driver.compile_graph(graph, list(args), {"verify": True}, Target("wrong", wrong, phases=()))
    assert "stage 'compiled' differs" in str(error.value) and "first differing node sin (sin, m.py:3)" in str(error.value)


def test_every_stage_leaves_its_text(tmp_path):
    def f(x, w):
        y = ops.mul(x, w)
        ops.add_(x, 1.0)
        return (ops.exp(y),)

    args = tensor(3, 4), leaf(4)
    with config.patch(dump=str(tmp_path)), compile_log.active(compile_log.begin("f")) as record:
        debug_backends.loops(capture(f, *args), list(args))
    folder = tmp_path / record.ident
    written = {p.name for p in folder.iterdir()}
    assert {"graph.py", "functional.py", "joint.py", "forward.py", "backward.py", "loops.txt"} <= written
    assert "# input arg0 becomes inner output 0" in (folder / "functional.py").read_text()
    for name in ("graph.py", "joint.py", "forward.py", "backward.py"):
        compile((folder / name).read_text(), name, "exec")
    assert os.path.getsize(folder / "loops.txt") > 100


def test_constants_are_inputs_of_the_compiled_graph():
    constant = tensor(4)
    run = compiled(lambda x: (ops.mul(x, constant),), tensor(3, 4))
    assert np.allclose(run(tensor(3, 4))[0]._fl_array, tensor(3, 4)._fl_array * constant._fl_array)
    constant._fl_array[:] = 2.0
    assert np.allclose(run(tensor(3, 4))[0]._fl_array, tensor(3, 4)._fl_array * 2.0)


def test_a_first_compilation_in_inference_mode_leaves_later_outputs_ordinary():
    with flambeau.inference_mode():
        launch._bind_tensor.__wrapped__()
    compiled = flambeau.compile(lambda x: x * 2.0 + 1.0)
    assert not compiled(tensor(3)).is_inference()
    with flambeau.inference_mode():
        assert compiled(tensor(3)).is_inference()
    assert not compiled(tensor(3)).is_inference()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "loops", "inductor"])
def test_results_of_inference_mode_are_inference_tensors(backend):
    f = lambda x: (x * 2.0, x.reshape(-1), (x + 1.0).t(), x[0])
    x = tensor(2, 3)
    with flambeau.inference_mode():
        outs, wanted = flambeau.compile(f, backend=backend)(x), f(x)
    assert [t.is_inference() for t in outs] == [t.is_inference() for t in wanted]
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        outs[0] * flambeau.ones(2, 3, requires_grad=True)


def test_gradients_may_come_with_any_strides():
    def f(x, w):
        return (ops.mul(ops.exp(x), w),)

    for backend in ("aot_eager", "loops"):
        x, w = leaf(3, 4), leaf(4)
        (y,) = compiled(f, x, w, backend=backend)(x, w)
        ops.sum(y, (0, 1), False).backward()  # an expanded gradient: strides 0
        ones = x.grad
        x2 = leaf(3, 4)
        ops.sum(f(x2, w)[0], (0, 1), False).backward()
        assert np.allclose(ones._fl_array, x2.grad._fl_array)


def test_outputs_own_their_memory_between_calls():
    x = tensor(3, 4)
    run = compiled(lambda x: (ops.exp(x), ops.permute(ops.exp(x), (1, 0))), x, backend="loops")
    first = [t._fl_array.copy() for t in run(x)]
    kept = run(x)
    run(tensor(3, 4, seed=9))
    assert all(np.array_equal(a, b._fl_array) for a, b in zip(first, kept))
