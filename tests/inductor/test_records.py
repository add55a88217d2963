"""The records that only the compiler writes, through the programs that make it write them."""

import numpy as np
import pytest

import flambeau
from flambeau import compiler
from flambeau.inductor.graph.compiler_ops import restride, with_value

BACKENDS = ["aot_eager", "loops", "inductor"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("strides", [(1, 3), (4, 1)])
def test_restride(backend, strides):
    x = flambeau.randn(3, 4, requires_grad=True)
    out = flambeau.compile(lambda x: restride(x, strides) * 1, backend=backend, fullgraph=True)(x)
    made = flambeau.compile(lambda x: restride(x, strides), backend=backend, fullgraph=True)(x)
    assert tuple(made.stride()) == strides and flambeau.equal(made, x) and flambeau.equal(out, x)
    made.backward(flambeau.arange(12.0).view(3, 4))
    assert flambeau.equal(x.grad, flambeau.arange(12.0).view(3, 4))


def test_restride_in_fresh_memory():
    x = flambeau.randn(3, 4)
    assert restride(x, (1, 3)).untyped_storage() is not x.untyped_storage()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_unrecorded_write_keeps_the_history_of_what_it_overwrote(backend):
    """`with_value`: the new bytes with the old gradient path, as eager's write under no_grad leaves them."""

    def f(x):
        y = x * 3
        with flambeau.no_grad():
            y.fill_(7.0)
        return y * 2

    x = flambeau.randn(4, requires_grad=True)
    compiler.reset()
    compiled = flambeau.compile(f, backend=backend)(x)
    plain = f(x)
    assert compiler.counters()["graphs"] == 1
    assert flambeau.equal(compiled, plain) and float(compiled.detach()[0]) == 14.0
    (wanted,) = flambeau.autograd.grad(plain.sum(), [x])
    (got,) = flambeau.autograd.grad(compiled.sum(), [x])
    assert flambeau.equal(got, wanted)
    np.testing.assert_array_equal(got.numpy(), np.full(4, 6.0, np.float32))


def test_with_value_alone():
    x, y = flambeau.randn(3, requires_grad=True), flambeau.randn(3)
    out = with_value(x, y)
    assert flambeau.equal(out, y)
    out.sum().backward()
    assert flambeau.equal(x.grad, flambeau.ones(3))
