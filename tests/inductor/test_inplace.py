"""New values of inputs are written where the inputs lie, exactly when nothing can see the difference."""

import numpy as np
import pytest

import flambeau
from flambeau.inductor import driver
from flambeau.inductor.schedule.reinplace import write_inputs, write_temps
from flambeau.inductor.schedule.memory_planning import plan
from flambeau.inductor.graph.decompose import decompose
from flambeau.inductor.graph.functionalize import functionalize
from flambeau.inductor.loops.ir import ExternCall
from flambeau.inductor.loops.lower import lower
from flambeau.inductor.schedule.scheduler import schedule
from flambeau.runtime.config import config

from .tools import Tensor, capture, check, compiled, dtypes, leaf, ops, tensor


def program(fn, *args):
    functional = functionalize(capture(fn, *args))
    pairs = [(m.input, m.output) for m in functional.mutated]
    result = write_inputs(schedule(lower(decompose(functional.graph), "forward")), pairs)
    result.verify()
    return result, [result.outputs[out] is result.inputs[at] for at, out in pairs]


def step(p, g, m):
    ops.mul_(m, 0.9)
    ops.add_(m, g)
    ops.sub_(p, ops.mul(m, 0.1))
    return ()


def test_an_optimizer_step_writes_in_place():
    args = tensor(30, 4), tensor(30, 4, seed=1), tensor(30, 4, seed=2)
    result, inplace = program(step, *args)
    assert inplace == [True, True] and len(result.kernels) == 1
    check(step, lambda: (tensor(30, 4), tensor(30, 4, seed=1), tensor(30, 4, seed=2)), backend="loops")


def test_only_what_is_written_behind_the_last_check_lies_in_place():
    def f(x, y, rows):
        ops.add_(x, 1.0)
        ops.add_(y, ops.sum(ops.matmul(ops.index_select(x, 0, rows), ops.transpose(x, 0, 1)), (1,), False))
        return ()

    args = tensor(6, 4), tensor(2, seed=1), Tensor._fl_from_array(np.array([1, 5]), dtypes.int64)
    result, inplace = program(f, *args)
    assert result.checks and inplace == [False, True]


def test_a_cache_is_not_copied():
    def f(cache, row):
        ops.copy_(ops.slice(cache, 0, 2, 1, 1), row)
        return (ops.sum(cache, (0,), False),)

    result, inplace = program(f, tensor(16, 4), tensor(1, 4))
    assert inplace == [True]
    assert all(16 not in axes(kernel) for kernel in result.kernels if result.inputs[0] in written(kernel))
    check(f, lambda: (tensor(16, 4), tensor(1, 4)), backend="loops")


def axes(kernel):
    return [a.extent for a in (*getattr(kernel, "axes", ()), *getattr(kernel, "outer", ()))] + (
        [16] if getattr(kernel, "init", None) is not None and kernel.init != kernel.target else []
    )


def written(kernel):
    return [s.buffer for s in kernel.stores()]


def test_a_later_reader_of_the_old_value_prevents_it():
    def f(x):
        old = ops.sum(x, (0,), False)
        ops.mul_(x, 2.0)
        return (ops.sub(old, ops.sum(x, (0,), False)),)

    check(f, lambda: (tensor(16, 4),), backend="loops")


def test_a_transposed_reader_prevents_it():
    def f(x):
        ops.add_(x, ops.clone(ops.permute(x, (1, 0))))
        return ()

    _, inplace = program(f, tensor(5, 5))
    assert inplace == [False]
    check(f, lambda: (tensor(5, 5),), backend="loops")


def test_swapped_inputs_are_both_right():
    def f(x, y):
        z = ops.clone(x)
        ops.copy_(x, y)
        ops.copy_(y, z)
        return ()

    check(f, lambda: (tensor(3, 4), tensor(3, 4, seed=1)), backend="loops")


def test_a_program_that_may_fail_writes_beside():
    def f(x, index, table):
        ops.add_(x, 1.0)
        return (ops.embedding(table, index),)

    index = Tensor._fl_from_array(np.array([1, 2]), dtypes.int64)
    _, inplace = program(f, tensor(3, 4), index, tensor(5, 4))
    assert inplace == [False]


def test_the_callers_memory_is_what_is_written():
    x = tensor(30, 4)
    memory, version = x._fl_array, x._version
    expected = memory + 1.0
    compiled(lambda x: (ops.add_(x, 1.0),), tensor(30, 4), backend="loops")(x)
    assert x._fl_array is memory and np.allclose(memory, expected) and x._version == version + 1


@pytest.mark.parametrize("backend", ["loops", "inductor"])
def test_what_the_backward_needs_is_not_overwritten_by_the_next_call(backend):
    """What is saved is made of the state's new value: a second forward must not change it."""

    def f(w, state):
        ops.add_(state, 1.0)
        return (ops.mul(w, ops.exp(ops.mul(state, 0.5))),)

    def gradient_of_the_first(run):
        w, state = tensor(30, 4).requires_grad_(), tensor(30, 4, seed=1)
        first = run(w, state)[0]
        run(w, state)
        ops.sum(first, (0, 1), False).backward()
        return w.grad._fl_array

    run = compiled(f, tensor(30, 4).requires_grad_(), tensor(30, 4, seed=1), backend=backend)
    np.testing.assert_allclose(gradient_of_the_first(run), gradient_of_the_first(f), rtol=1e-5)


@pytest.mark.parametrize("backend", ["loops", "inductor"])
def test_a_new_value_that_is_saved_has_memory_of_its_own(backend):
    """Eager keeps the state itself and refuses the backward behind a second call; compiled code kept the value."""

    def f(w, state):
        ops.add_(state, 1.0)
        return (ops.mul(w, state),)

    run = compiled(f, tensor(30, 4).requires_grad_(), tensor(30, 4, seed=1), backend=backend)
    w, state = tensor(30, 4).requires_grad_(), tensor(30, 4, seed=1)
    expected = state._fl_array + 1
    first = run(w, state)[0]
    run(w, state)
    ops.sum(first, (0, 1), False).backward()
    np.testing.assert_allclose(w.grad._fl_array, expected, rtol=1e-6)


@pytest.mark.parametrize("backend", ["inductor"])
def test_compiled_code_writes_in_place_too(backend):
    from flambeau.runtime import toolchain

    if toolchain.compiler() is None:
        pytest.skip("no C++ compiler")
    with config.patch(verify=True):
        run = driver.compile_graph(capture(step, tensor(30, 4), tensor(30, 4), tensor(30, 4)), [tensor(30, 4)] * 3)
    p, g, m = tensor(30, 4), tensor(30, 4, seed=1), tensor(30, 4, seed=2)
    expected_m = m._fl_array * 0.9 + g._fl_array
    expected_p = p._fl_array - 0.1 * expected_m
    memory = p._fl_array
    run(p, g, m)
    assert (
        p._fl_array is memory and np.allclose(memory, expected_p, atol=1e-6) and np.allclose(m._fl_array, expected_m, atol=1e-6)
    )


# -- what a recurrent layer keeps lies where its products were


def late(x, result):
    """Reads x when the result is there."""
    return ops.mul(x, ops.sum(result, tuple(range(result.ndim)), False))


def layer(kind, keep=False):
    """Products of all steps, a layer over them; with `keep`, the products are read behind the layer as well."""

    def lstm(x, w, b, u, h, c):
        made = ops.linear(x, w, b)
        out = ops.lstm_sequence(made, h, c, u, None, None, False)
        return (*out[:1], *out[3:], late(made, out[0])) if keep else (*out[:1], *out[3:])

    def plain(x, w, b, u, h, c):
        made = ops.linear(x, w, b)
        out = ops.rnn_sequence(made, h, u, None, False, False)
        return (*out, late(made, out[0])) if keep else out

    gates = {"lstm": 4, "plain": 1}[kind]
    inputs = lambda: (
        tensor(9, 3, 5),
        leaf(gates * 20, 5),
        leaf(gates * 20),
        leaf(gates * 20, 20),
        leaf(3, 20),
        leaf(3, 20, seed=1),
    )
    return {"lstm": lstm, "plain": plain}[kind], inputs


def scheduled(f, *args):
    return schedule(lower(decompose(functionalize(capture(f, *args)).graph), "forward"))


@pytest.mark.parametrize("keep", [False, True], ids=["", "read later"])
@pytest.mark.parametrize("kind", ["lstm", "plain"])
@pytest.mark.parametrize("backend", ["loops", "inductor"])
def test_a_layer_writes_over_its_products(kind, keep, backend):
    f, inputs = layer(kind, keep)
    before = scheduled(f, *inputs())
    after = write_temps(before)
    after.verify()
    temps = lambda program: sum(b.kind == "temp" for b in program.buffers)
    assert temps(before) - temps(after) == (0 if keep else 1)
    check(f, inputs, backend=backend)


def scattered(x, places):
    return ops.scatter_add(ops.full((3, 8), 0, dtypes.float32, x.device), 1, places, x)


RESHAPED = {  # temps that are left
    "whole": (0, lambda x, p: (ops.view(scattered(x, p), (3, 2, 4)),)),
    "more dims of one": (0, lambda x, p: (ops.unsqueeze(scattered(x, p), 1),)),
    "called": (0, lambda x, p: (ops.view(ops.cumsum(x, 1), (12,)),)),
    "returned as it is, too": (0, lambda x, p: (y := scattered(x, p), ops.view(y, (24,)))),
    "read later": (1, lambda x, p: (ops.view(y := scattered(x, p), (24,)), late(y, ops.sum(y, (0, 1), False)))),
    "a part": (1, lambda x, p: (ops.add(ops.slice(scattered(x, p), 1, 0, 4, 1), 0.0),)),
    "another type": (1, lambda x, p: (ops.cast(ops.view(scattered(x, p), (24,)), dtypes.float64),)),
    "turned": (0, lambda x, p: (ops.clone(ops.transpose(scattered(x, p), 0, 1)),)),
    "turned into rows": (1, lambda x, p: (ops.contiguous_copy(ops.transpose(scattered(x, p), 0, 1)),)),
    "twice": (0, lambda x, p: (ops.view(y := scattered(x, p), (24,)), ops.view(y, (6, 4)))),
}


@pytest.mark.parametrize("backend", ["loops", "inductor"])
@pytest.mark.parametrize("name", RESHAPED)
def test_what_is_copied_for_other_sizes_alone_is_made_there(name, backend):
    left, f = RESHAPED[name]
    inputs = lambda: (tensor(3, 4), Tensor._fl_from_array(np.array([[1, 1, 0, 7], [2, 2, 2, 2], [7, 6, 5, 0]]), dtypes.int64))
    after = write_temps(scheduled(f, *inputs()))
    after.verify()
    assert sum(b.kind == "temp" for b in after.buffers) == left, after.text()
    check(f, inputs, backend=backend)


@pytest.mark.parametrize("keep", [False, True], ids=["", "read later"])
def test_gradients_of_products_lie_where_the_gates_were(keep):
    def f(g, gates, *rest):
        made = ops.lstm_sequence_backward(g, None, None, None, None, gates, *rest, None, None, False)[0]
        total = ops.sum(made, (0, 1), False)
        return (total, late(gates, total)) if keep else (total,)

    inputs = lambda: (tensor(9, 3, 20), tensor(9, 3, 80), tensor(9, 3, 20, seed=1), tensor(3, 20), tensor(80, 20))
    planned = plan(scheduled(f, *inputs()), {1})
    (extern,) = [k for k in planned.kernels if isinstance(k, ExternCall)]
    home = planned.homes.get(extern.outputs[0].name), planned.arena[extern.outputs[0].name]
    assert home == ((None, 0) if keep else (planned.inputs[1].name, 0))
    check(f, inputs, backend="inductor")


@pytest.mark.parametrize("backend", ["aot_eager", "loops", "inductor"])
@pytest.mark.parametrize("dtype", [flambeau.float16, flambeau.bfloat16, flambeau.float32], ids=str)
def test_what_was_read_before_a_write_is_returned_as_it_was(dtype, backend):
    """The interpreter took a view of memory for what it had read there, and a cast that changes nothing kept it one."""

    def f(x):
        before = x.double().to(x.dtype)
        x.copy_(x.cos())
        return (before * 1)[...], before, x

    x, y = (flambeau.arange(4.0).to(dtype) for _ in range(2))
    assert all(flambeau.equal(a, b) for a, b in zip(flambeau.compile(f, backend=backend)(x), f(y))) and flambeau.equal(x, y)
