"""Gradients that only show what comes in, or repeat what is computed, are views of it in compiled code, as in eager."""

import pytest

import flambeau
from flambeau.compiler import report
from flambeau.runtime.config import config

BACKENDS = ("loops", "inductor")

CASES = {
    "sum": (lambda x, y: x.sum(), 1),
    "sum of rows": (lambda x, y: x.sum(1), 1),
    "mean": (lambda x, y: x.mean(), 1),
    "mean of columns, kept": (lambda x, y: x.mean(0, keepdim=True), 1),
    "cat": (lambda x, y: flambeau.cat([x, y], 1), 2),
    "stack": (lambda x, y: flambeau.stack([x, y], 2), 2),
    "diag_embed": (lambda x, y: flambeau.diag_embed(x, 1), 1),
    "transposed": (lambda x, y: x.t().clone(), 1),
    "a part of a sum": (lambda x, y: (x + y)[1:].sum(0), 2),
    "negated": (lambda x, y: (-x).sum(0), 1),
    "two outputs": (lambda x, y: (x.sum(0), flambeau.cat([x * y, y])), 2),
    "expanded": (lambda x, y: x[:, :1].expand(4, 6).clone(), 1),
}


def gradients(f, inputs, count):
    outs = f(*inputs)
    outs = outs if isinstance(outs, tuple) else (outs,)
    coming = [flambeau.empty_like(out).copy_(flambeau.arange(out.numel()).reshape(out.shape) + 1) for out in outs]
    return coming, flambeau.autograd.grad(outs, inputs[:count], coming)


def fresh(dtype=flambeau.float32, shape=(4, 6)):
    return [flambeau.randn(*shape, dtype=dtype).requires_grad_() for _ in range(2)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_they_lie_as_eagers_do(name, backend):
    f, count = CASES[name]
    compiled = flambeau.compile(f, backend=backend)
    for _ in range(3):  # the third backward goes without Python
        inputs = fresh()
        coming, wanted = gradients(f, inputs, count)
        given, found = gradients(compiled, inputs, count)
        for a, b in zip(wanted, found):
            assert (a == b).all() and a.stride() == b.stride()
        shared = [[a.untyped_storage().data_ptr() == c.untyped_storage().data_ptr() for c in coming] for a in wanted]
        assert shared == [[b.untyped_storage().data_ptr() == c.untyped_storage().data_ptr() for c in given] for b in found]


@pytest.mark.parametrize("dtype", (flambeau.float64, flambeau.bfloat16, flambeau.complex64), ids=str)
@pytest.mark.parametrize("name", ("mean", "cat", "diag_embed"))
def test_other_types(name, dtype):
    f, count = CASES[name]
    compiled = flambeau.compile(f)
    for _ in range(3):
        inputs = fresh(dtype)
        (_, wanted), (_, found) = gradients(f, inputs, count), gradients(compiled, inputs, count)
        assert all((a == b).all() and a.stride() == b.stride() for a, b in zip(wanted, found))


def test_empty_tensors_and_sizes_that_change():
    f = flambeau.compile(CASES["cat"][0])
    for rows in (4, 0, 3, 5):
        inputs = fresh(shape=(rows, 2))
        (_, wanted), (_, found) = gradients(CASES["cat"][0], inputs, 2), gradients(f, inputs, 2)
        assert all((a == b).all() for a, b in zip(wanted, found))


@pytest.mark.parametrize("name", ("sum", "mean", "cat", "two outputs"))
def test_leaves_own_what_they_accumulate(name):
    f, count = CASES[name]
    compiled = flambeau.compile(f)
    inputs, plain = fresh(), None
    plain = [x.detach().clone().requires_grad_() for x in inputs]
    for _ in range(3):
        for g, xs in ((f, plain), (compiled, inputs)):
            outs = g(*xs)
            outs = outs if isinstance(outs, tuple) else (outs,)
            coming = [flambeau.full_like(out, 2.0) for out in outs]
            flambeau.autograd.backward(outs, coming)
            assert all((c == 2).all() for c in coming)
    for a, b in zip(plain[:count], inputs[:count]):
        assert (a.grad == b.grad).all() and a.grad.stride() == b.grad.stride()
        b.grad.zero_()  # writes its own elements alone
        assert (a.grad != 0).any()


def test_both_gradients_of_one_may_be_written():
    f = flambeau.compile(lambda x, y: (x + y).sum(0))
    for _ in range(3):
        x, y = fresh()
        f(x, y).backward(flambeau.ones(6))
        x.grad.add_(1)
        assert (x.grad == 2).all() and (y.grad == 1).all()


def test_a_gradient_that_a_node_goes_on_with():
    f = flambeau.compile(lambda x, y: flambeau.cat([x, y], 0).sum(1))
    for _ in range(3):
        x, y = fresh()
        (f(x * 3, y * y) * 2).sum().backward()
        assert (x.grad == 6).all() and flambeau.allclose(y.grad, 4 * y)


def test_only_some_outputs_get_a_gradient():
    f = flambeau.compile(CASES["two outputs"][0])
    for _ in range(2):
        x, y = fresh()
        f(x, y)[0].backward(flambeau.arange(6.0))
        assert (x.grad == flambeau.arange(6.0)).all() and (y.grad is None or (y.grad == 0).all())


def test_a_second_derivative():
    f = flambeau.compile(lambda x: (x * x).mean(1))
    x = fresh(flambeau.float64)[0]
    for _ in range(2):
        (g,) = flambeau.autograd.grad(f(x).sum(), x, create_graph=True)
        (h,) = flambeau.autograd.grad(g.sum(), x)
        assert flambeau.allclose(h, flambeau.full_like(x, 2 / 6))


def test_the_store_keeps_them(tmp_path):
    f, _ = CASES["cat"]
    with config.patch(cache_dir=str(tmp_path)):
        for _ in range(2):
            compiled = flambeau.compile(f)
            for _ in range(2):
                inputs = fresh()
                coming, found = gradients(compiled, inputs, 2)
                assert [g.stride() for g in found] == [(12, 1), (12, 1)]
                assert found[0].untyped_storage().data_ptr() == coming[0].untyped_storage().data_ptr()
            flambeau.compiler.reset()


def test_a_report_of_such_a_graph():
    f = flambeau.compile(CASES["two outputs"][0])
    gradients(f, fresh(), 2)
    assert "backward" in str(report(f))
