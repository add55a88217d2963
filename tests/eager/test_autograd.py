"""The engine: values of gradients, hooks and their order, retained graphs, higher orders, unused outputs, custom
functions.
"""

import gc
import weakref

import numpy as np
import pytest

from flambeau.eager import autograd, dispatch, dtypes
from flambeau.eager.op.op import OPS
from flambeau.eager.tensor import fake_tensor

from .core_support import T, V, total  # noqa: E402


add, mul, exp, cast, expand, permute, select = (OPS[n] for n in ("add", "mul", "exp", "cast", "expand", "permute", "select"))


def test_product_and_broadcast():
    x, w, b = T([[1.0, 2.0], [3.0, 4.0]], True), T([10.0, 20.0], True), T(5.0, True)
    y = add(mul(x, w), b)
    total(y).backward()
    assert V(x.grad) == [[10.0, 20.0], [10.0, 20.0]] and V(w.grad) == [4.0, 6.0] and V(b.grad) == 4.0
    assert b.grad.shape == ()


def test_numbers_on_either_side():
    x = T([1.0, 2.0], True)
    total(add(mul(2.0, x), mul(x, 3))).backward()
    assert V(x.grad) == [5.0, 5.0]


def test_accumulates_and_sums_uses():
    x = T([1.0, 2.0], True)
    total(mul(x, x)).backward()
    total(mul(x, x)).backward()
    assert V(x.grad) == [4.0, 8.0]


def test_gradients_are_cast_to_the_input_type():
    h = T([1.0, 2.0], True, dtypes.float16)
    total(mul(h, T([3.0, 4.0], dtype=dtypes.float32))).backward()
    assert h.grad.dtype is dtypes.float16 and V(h.grad) == [3.0, 4.0]


def test_second_backward_raises_unless_retained():
    x = T([1.0, 2.0], True)
    y = total(mul(x, x))
    y.backward(retain_graph=True)
    y.backward()
    assert V(x.grad) == [4.0, 8.0]
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    z = total(add(x, 1.0))  # saves nothing: may run twice
    z.backward()
    z.backward()


def test_non_scalar_and_no_graph():
    x = T([1.0, 2.0], True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        mul(x, 2.0).backward()
    mul(x, 2.0).backward(T([1.0, 10.0]))
    assert V(x.grad) == [2.0, 20.0]
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        T(1.0).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        mul(x, 2.0).backward(T([1.0]))


def test_grad_function():
    x, y = T([1.0, 2.0], True), T([3.0, 4.0], True)
    z = mul(x, y)
    gx, gy = autograd.grad(total(z), (x, y), retain_graph=True)
    assert V(gx) == [3.0, 4.0] and V(gy) == [1.0, 2.0] and x.grad is None
    (gz,) = autograd.grad(total(mul(z, z)), z)
    assert V(gz) == [6.0, 16.0]
    u = T([1.0], True)
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        autograd.grad(total(mul(x, 2.0)), u)
    assert autograd.grad(total(mul(x, 2.0)), (u, x), allow_unused=True)[0] is None
    assert V(autograd.grad(total(mul(x, 2.0)), u, materialize_grads=True)[0]) == [0.0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        autograd.grad(total(x), T([1.0]))


def test_grad_runs_only_what_leads_to_the_inputs():
    x, y = T([1.0], True), T([2.0], True)
    ran = []
    side = mul(y, 3.0)
    side.register_hook(lambda g: ran.append("side"))
    out = total(add(mul(x, 2.0), side))
    autograd.grad(out, x)
    assert ran == []


def test_create_graph_gives_higher_orders():
    x = T([2.0, 3.0], True)
    y = mul(mul(x, x), x)
    (g,) = autograd.grad(total(y), x, create_graph=True)
    assert V(g) == [12.0, 27.0]
    (h,) = autograd.grad(total(g), x, create_graph=True)
    assert V(h) == [12.0, 18.0]
    (k,) = autograd.grad(total(h), x)
    assert V(k) == [6.0, 6.0]


def test_backward_with_create_graph_leaves_a_differentiable_grad():
    x = T([2.0], True)
    total(mul(x, x)).backward(create_graph=True)
    assert x.grad.requires_grad
    (h,) = autograd.grad(total(x.grad), x)
    assert V(h) == [2.0]


def test_leaves_do_not_share_gradients():
    x, y = T([1.0, 2.0], True), T([3.0, 4.0], True)
    total(add(x, y)).backward()
    assert x.grad is not y.grad and not np.shares_memory(x.grad._fl_array, y.grad._fl_array)
    seed = T([1.0, 1.0])
    add(x, y).backward(seed)
    mul(T([5.0], True), 1.0).backward(s := T([7.0]))
    assert V(seed) == [1.0, 1.0] and V(s) == [7.0]


def test_given_gradient_is_not_adopted():
    x, seed = T([1.0, 2.0], True), T([3.0, 4.0])
    add(x, 0.0).backward(seed)
    OPS["mul"].inplace(x.grad, 10.0)
    assert V(seed) == [3.0, 4.0]


def test_inputs_restrict_accumulation():
    x, y = T([1.0], True), T([2.0], True)
    z = mul(x, y)
    total(z).backward(inputs=[x])
    assert V(x.grad) == [2.0] and y.grad is None


# -- hooks


def test_tensor_hooks_replace_and_order():
    seen = []
    x = T([1.0, 2.0], True)
    y = mul(x, 3.0)
    y.register_hook(lambda g: seen.append(("first", V(g))))
    y.register_hook(lambda g: mul(g, 2.0))
    y.register_hook(lambda g: seen.append(("third", V(g))))
    y.retain_grad()
    x.register_hook(lambda g: seen.append(("leaf", V(g))))
    total(y).backward()
    assert seen == [("first", [1.0, 1.0]), ("third", [2.0, 2.0]), ("leaf", [6.0, 6.0])]
    assert V(x.grad) == [6.0, 6.0] and V(y.grad) == [2.0, 2.0] and y.retains_grad


def test_hook_removal_and_errors():
    x = T([1.0], True)
    handle = x.register_hook(lambda g: mul(g, 100.0))
    handle.remove()
    total(x).backward()
    assert V(x.grad) == [1.0]
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        T([1.0]).register_hook(print)


def test_leaf_hook_runs_once_on_the_sum():
    seen = []
    x = T([1.0], True)
    x.register_hook(lambda g: seen.append(V(g)))
    total(add(mul(x, 2.0), mul(x, 3.0))).backward()
    assert seen == [[5.0]]


def test_post_accumulate_hook():
    x = T([1.0], True)
    x.register_post_accumulate_grad_hook(lambda t: setattr(t, "grad", None))
    total(mul(x, 2.0)).backward()
    assert x.grad is None
    with pytest.raises(RuntimeError, match="non-leaf"):
        mul(x, 2.0).register_post_accumulate_grad_hook(print)


def test_node_hooks():
    x, y = T([1.0], True), T([2.0], True)
    z = mul(x, y)
    seen = []
    z.grad_fn.register_prehook(lambda grads: (mul(grads[0], 10.0),))
    z.grad_fn.register_hook(lambda gi, go: seen.append((V(gi[0]), V(gi[1]), V(go[0]))))
    z.grad_fn.register_hook(lambda gi, go: (gi[0], mul(gi[1], 0.0)))
    total(z).backward()
    assert seen == [([20.0], [10.0], [10.0])]
    assert V(x.grad) == [20.0] and V(y.grad) == [0.0]


def test_accumulate_grad_nodes():
    x = T([1.0], True)
    z = mul(x, 2.0)
    (node, number), *_ = z.grad_fn.next_functions
    assert node.name() == "torch::autograd::AccumulateGrad" and node.variable is x and number == 0
    assert z.grad_fn.next_functions[0][0] == mul(x, 3.0).grad_fn.next_functions[0][0]


def test_multi_grad_hook():
    x, y = T([1.0], True), T([2.0], True)
    seen = []
    handle = autograd.graph.register_multi_grad_hook((x, y), lambda grads: seen.append([V(g) for g in grads]))
    total(mul(x, y)).backward()
    assert seen == [[[2.0], [1.0]]]
    handle.remove()


# -- modes


def test_grad_modes():
    x = T([1.0], True)
    with autograd.no_grad():
        assert not mul(x, 2.0).requires_grad and not autograd.is_grad_enabled()
        with autograd.enable_grad():
            assert mul(x, 2.0).requires_grad
    with autograd.set_grad_enabled(False):
        assert not mul(x, 2.0).requires_grad
    with autograd.inference_mode():
        assert not mul(x, 2.0).requires_grad and autograd.is_inference_mode_enabled()
    assert mul(x, 2.0).requires_grad
    autograd.set_grad_enabled(False)
    assert not autograd.is_grad_enabled()
    autograd.set_grad_enabled(True)


def test_modes_decorate():
    x = T([1.0], True)

    @autograd.no_grad()
    def plain(t):
        return mul(t, 2.0)

    @autograd.no_grad
    def bare(t):
        return mul(t, 2.0)

    @autograd.no_grad()
    def items(t):
        while True:
            t = yield mul(t, 2.0)

    assert not plain(x).requires_grad and not bare(x).requires_grad and plain.__name__ == "plain"
    generator = items(x)
    assert not next(generator).requires_grad and autograd.is_grad_enabled()
    assert not generator.send(x).requires_grad and autograd.is_grad_enabled()


def test_mode_attributes_for_the_tracer():
    manager = autograd.no_grad()
    manager.__enter__()
    assert manager.prev is True and manager.mode is False
    manager.__exit__(None, None, None)


def test_detached_and_integer_results_do_not_require_grad():
    x = T([1.0, 2.0], True)
    assert not OPS["gt"](x, 1.0).requires_grad
    assert not cast(x, dtypes.int64).requires_grad
    with pytest.raises(RuntimeError, match="only Tensors of floating point and complex dtype can require gradients"):
        T([1, 2]).requires_grad_()
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        mul(x, 2.0).requires_grad_(False)


# -- versions


def test_saved_input_changed_in_place_raises():
    x = T([1.0, 2.0], True)
    b = mul(x, 1.0)
    c = mul(b, b)
    OPS["add"].inplace(b, 1.0)
    with pytest.raises(
        RuntimeError,
        match=r"modified by an inplace operation: \[torch.FloatTensor \[2\]\].*is at version 1; expected "
        "version 0 instead",
    ):
        total(c).backward()


def test_changing_what_was_not_saved_is_legal():
    x = T([1.0, 2.0], True)
    b = mul(x, 1.0)
    c = exp(b)  # saves its result
    OPS["add"].inplace(b, 1.0)
    total(c).backward()
    np.testing.assert_allclose(x.grad._fl_array, np.exp([1.0, 2.0]), rtol=1e-6)


def test_saved_output_changed_in_place_raises():
    x = T([1.0, 2.0], True)
    c = exp(x)
    OPS["mul"].inplace(c, 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*output 0 of Exp,"):
        total(c).backward()


def test_only_what_is_needed_is_saved():
    x, w = T([1.0, 2.0], True), T([3.0, 4.0])
    z = mul(x, w)
    x._fl_array[:] = 100  # w's gradient is not needed, so x was not saved
    assert z.grad_fn.args[0] is None and z.grad_fn.args[1] is w


def test_graph_is_freed_without_the_garbage_collector():
    gc.disable()
    try:
        x = T([1.0, 2.0], True)
        y = exp(exp(x))
        ref = weakref.ref(y.grad_fn)
        del y
        assert ref() is None
    finally:
        gc.enable()


def test_saved_output_survives_its_tensor():
    x = T([0.0, 1.0], True)
    z = mul(exp(x), 2.0)  # the exp's tensor is gone, its node lives
    (g,) = autograd.grad(total(z), x, create_graph=True)
    (h,) = autograd.grad(total(g), x)
    np.testing.assert_allclose(h._fl_array, 2 * np.exp([0.0, 1.0]), rtol=1e-6)


# -- custom functions


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return mul(mul(mul(x, x), x), scale)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return mul(g, mul(mul(mul(x, x), 3.0), ctx.scale)), None


def test_custom_function_and_its_second_derivative():
    x = T([1.0, 2.0], True)
    y = Cube.apply(x, 2.0)
    assert y.grad_fn.name() == "CubeBackward"
    (g,) = autograd.grad(total(y), x, create_graph=True)
    assert V(g) == [6.0, 24.0]
    assert V(autograd.grad(total(g), x)[0]) == [12.0, 24.0]


def test_setup_context_and_materialised_gradients():
    class Two(autograd.Function):
        @staticmethod
        def forward(x):
            return mul(x, 2.0), mul(x, 3.0)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output[0])

        @staticmethod
        def backward(ctx, a, b):
            assert V(b) == [0.0]
            return add(a, b)

    x = T([1.0], True)
    total(Two.apply(x)[0]).backward()
    assert V(x.grad) == [1.0]


def test_gradients_may_stay_none():
    class Two(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return mul(x, 2.0), mul(x, 3.0)

        @staticmethod
        def backward(ctx, a, b):
            assert b is None
            return a

    x = T([1.0], True)
    total(Two.apply(x)[0]).backward()


def test_wrong_number_of_gradients():
    class Bad(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return mul(x, 2.0)

        @staticmethod
        def backward(ctx, g):
            return g, g

    with pytest.raises(RuntimeError, match="returned an incorrect number of gradients .expected 1, got 2"):
        total(Bad.apply(T([1.0], True))).backward()


def test_mark_dirty_and_non_differentiable():
    class Double(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            OPS["mul"].inplace(x, 2.0)
            ctx.mark_dirty(x)
            count = T([1.0])
            ctx.mark_non_differentiable(count)
            return x, count

        @staticmethod
        def backward(ctx, g, _):
            return mul(g, 2.0)

    w = T([1.0, 2.0], True)
    x = mul(w, 1.0)
    y, count = Double.apply(x)
    assert y is x and not count.requires_grad
    total(y).backward()
    assert V(w.grad) == [2.0, 2.0]


def test_input_returned_unchanged_is_another_tensor():
    class Same(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return mul(g, -1.0)

    x = T([1.0], True)
    y = Same.apply(x)
    assert y is not x and x.is_leaf
    total(y).backward()
    assert V(x.grad) == [-1.0]


def test_once_differentiable():
    class Once(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return mul(x, x)

        @staticmethod
        @autograd.once_differentiable
        def backward(ctx, g):
            return mul(g, mul(ctx.saved_tensors[0], 2.0))

    x = T([3.0], True)
    (g,) = autograd.grad(total(Once.apply(x)), x, create_graph=True)
    assert V(g) == [6.0]
    seed = T([1.0], True)
    (g,) = autograd.grad(Once.apply(x), x, seed, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        total(g).backward()


# -- compiled calls


def test_attach():
    x, w = T([1.0, 2.0], True), T([3.0, 4.0])
    with autograd.no_grad():
        out, aux = mul(x, w), mul(x, 2.0)
    calls = []

    def backward(*grads, needs):
        calls.append(([None if g is None else V(g) for g in grads], needs))
        return mul(grads[0], w), None

    node = autograd.attach([out, aux], [x, w], backward, (x,), "Compiled")
    assert out.grad_fn is node and aux.output_nr == 1 and node.name() == "Compiled"
    total(out).backward()
    assert calls == [([[1.0, 1.0], None], (True, False))] and V(x.grad) == [3.0, 4.0]
    with pytest.raises(RuntimeError, match="second time"):
        total(aux).backward()


def test_attach_checks_versions():
    x = mul(T([1.0, 2.0], True), 1.0)
    with autograd.no_grad():
        out = mul(x, 2.0)
    autograd.attach([out], [x], lambda g, needs: (g,), (x,))
    OPS["add"].inplace(x, 1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total(out).backward()


def test_attach_records_nothing_without_need():
    out = T([1.0])
    assert autograd.attach([out], [T([1.0])], lambda g, needs: (g,)) is None and out.grad_fn is None


# -- saved-tensor hooks, anomaly mode


def test_saved_tensor_hooks():
    packed = []
    with autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or len(packed) - 1, lambda k: packed[k]):
        x = T([1.0, 2.0], True)
        y = mul(x, x)
        z = exp(y)
    assert len(packed) == 3
    total(z).backward()
    np.testing.assert_allclose(x.grad._fl_array, 2 * np.array([1.0, 2.0]) * np.exp([1.0, 4.0]), rtol=1e-6)


def test_anomaly_mode_names_the_forward_line():
    x = T([-1.0], True)
    with autograd.detect_anomaly():
        y = OPS["sqrt"](x)
        with pytest.raises(RuntimeError, match="SqrtBackward0' returned nan values in its 0th output"):
            total(y).backward()
    assert not autograd.is_anomaly_enabled()

    class Fails(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return mul(x, 2.0)

        @staticmethod
        def backward(ctx, g):
            raise ValueError("broken")

    total(x)


# -- numeric checks and fakes


def test_gradcheck_finds_wrong_gradients():
    class Wrong(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return mul(x, 2.0)

        @staticmethod
        def backward(ctx, g):
            return g

    x = T([1.0, 2.0], True, dtypes.float64)
    assert autograd.gradcheck(lambda x: mul(exp(x), x), x) and autograd.gradgradcheck(lambda x: mul(exp(x), x), x)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        autograd.gradcheck(Wrong.apply, x)
    assert not autograd.gradcheck(Wrong.apply, x, raise_exception=False)


def test_engine_runs_on_fakes_under_a_mode():
    seen = []

    class Tracer(dispatch.Mode):
        def dispatch(self, op, args):
            seen.append(op.name)
            with dispatch.no_modes():
                return dispatch.execute(op, args)

    x = fake_tensor((2, 3), requires_grad=True)
    with Tracer():
        y = total(mul(exp(x), 2.0))
        (g,) = autograd.grad(y, x, T(1.0))
    assert seen[:3] == ["exp", "mul", "sum"] and "mul" in seen[3:] and g._fl_fake and g.shape == (2, 3)


def test_gradients_through_views():
    x = T(np.arange(6.0).reshape(2, 3), True)
    y = select(permute(x, (1, 0)), 0, 1)
    total(mul(y, y)).backward()
    assert V(x.grad) == [[0.0, 2.0, 0.0], [0.0, 8.0, 0.0]]


def test_threads_have_their_own_mode():
    import threading

    seen = []
    with autograd.no_grad():
        thread = threading.Thread(target=lambda: seen.append(mul(T([1.0], True), 2.0).requires_grad))
        thread.start()
        thread.join()
    assert seen == [True]


def test_deep_graphs_do_not_recurse():
    x = T([1.0], True)
    y = x
    for _ in range(5000):
        y = add(y, 1.0)
    total(y).backward()
    assert V(x.grad) == [1.0]
    del y


def test_gradients_lie_as_their_leaf_does():
    dense = T(np.zeros((4, 3)))._fl_array.T  # a leaf with strides (1, 3)
    x = T(np.zeros((3, 4)), True)
    x._fl_array, x._fl_requires_grad = dense, True
    weights = T(np.arange(12.0).reshape(3, 4))
    mul(x, weights).backward(T(np.ones((3, 4))))
    assert x.stride() == x.grad.stride() == (1, 3) and V(x.grad) == V(weights)
    y = T(np.zeros((3, 1)), True)
    y._fl_array = np.broadcast_to(y._fl_array, (3, 4))  # no dense leaf: row-major
    permute(mul(y, weights), (1, 0)).backward(T(np.ones((4, 3))))
    assert y.grad.stride() == (4, 1)
