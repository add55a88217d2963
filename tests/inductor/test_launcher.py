"""The launcher of compiled graphs: tensors in and out, refusals, scalars, eager calls inside, statistics, threads."""

import gc
import importlib.util
import pathlib
import sys
import threading
import weakref

import numpy as np
import pytest

import flambeau
from flambeau.eager import api  # noqa: F401  (records and methods)
from flambeau.eager.op.op import OPS
from flambeau.eager.tensor import Tensor
from flambeau.inductor.cpp.async_compile import load
from flambeau.inductor.loops.ir import ExternCall, Symbol, View
from flambeau.runtime import counters, native, toolchain
from flambeau.runtime.config import config
from flambeau.runtime.errors import CheckFailed

_spec = importlib.util.spec_from_file_location("cpp_programs", pathlib.Path(__file__).with_name("cpp_programs.py"))
tools = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tools)
Axis, Body, LoopKernel, Step, Store = tools.Axis, tools.Body, tools.LoopKernel, tools.Step, tools.Store
buffer, data, dtypes, map_program, program, var = (
    tools.buffer,
    tools.data,
    tools.dtypes,
    tools.map_program,
    tools.program,
    tools.var,
)

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")
F32 = dtypes.float32


def tensor(array):
    return Tensor._fl_from_array(array, dtypes.from_numpy(array.dtype))


@pytest.fixture(scope="module")
def plus_one():
    return load(map_program(lambda s, a: a + 1.0, [F32], F32, (5, 7)))


def test_outputs_are_whole_tensors(plus_one):
    x = tensor(data(F32, (5, 7)))
    (out,) = plus_one([x])
    assert type(out) is Tensor and out.dtype is dtypes.float32 and out.shape == (5, 7) and out.stride() == (7, 1)
    np.testing.assert_array_equal(out.numpy(), x.numpy() + 1)
    assert not out.requires_grad and out.grad_fn is None and out.grad is None and out.is_leaf and out.device == x.device
    out.add_(1.0)  # storage, version counter and autograd work as for any tensor
    assert out._version == 1
    out.requires_grad_()
    (out * 2.0).sum().backward()
    assert (out.grad.numpy() == 2).all()


def test_parameters_and_subclasses_are_inputs(plus_one):
    from flambeau.eager.nn import Parameter

    x = Parameter(tensor(data(F32, (5, 7))))
    np.testing.assert_array_equal(plus_one([x])[0].numpy(), x.detach().numpy() + 1)


def test_references_are_balanced(plus_one):
    array = data(F32, (5, 7))
    x = tensor(array)
    plus_one([x])
    settle()
    before = [sys.getrefcount(o) for o in (x, array, x.dtype, x.device, Tensor)]
    outs = [plus_one([x]) for _ in range(100)]
    alive = weakref.ref(outs[0][0])
    del outs
    gc.collect()
    assert alive() is None
    assert [sys.getrefcount(o) for o in (x, array, x.dtype, x.device, Tensor)] == before


def settle():
    """Collect until nothing is left of the tests before this one: what one round frees may make more unreachable."""
    while gc.collect():
        pass


def test_outputs_return_their_memory():
    compiled = load(map_program(lambda s, a: a + 1.0, [F32], F32, (300, 1000)))
    x = tensor(data(F32, (300, 1000)))
    compiled([x])
    gc.collect()
    before = native.memory()
    for _ in range(20):
        compiled([x])
    after = native.memory()
    assert after["current"] == before["current"] and after["system_calls"] <= before["system_calls"] + 1


def test_wrong_inputs_are_refused(plus_one):
    with pytest.raises(TypeError, match="2 inputs given, 1 expected"):
        plus_one([tensor(data(F32, (5, 7)))] * 2)
    with pytest.raises(TypeError, match="input 0 must be a tensor"):
        plus_one([3])
    for array in (
        data(F32, (5, 8)),
        data(F32, (7, 5)).T,
        data(dtypes.float64, (5, 7)),
        data(F32, (35,)),
        data(F32, (5, 7)).astype(">f4"),
    ):
        with pytest.raises(ValueError, match="compiled for another geometry"):
            plus_one([array])
    with pytest.raises(TypeError):
        plus_one()


def in_place_program():
    """x becomes x * 2, in place; the input itself is the output."""
    body = Body()
    x = buffer("x", F32, (6,))
    i = Axis("i", 6)
    return program(body, [LoopKernel("double", (), (Step((i,), (Store(x, (i.var,), body.load(x, (i.var,)) * 2.0),)),))], [x], [x])


def test_in_place_writes_and_read_only_memory():
    compiled = load(in_place_program())
    x = tensor(np.arange(6, dtype=np.float32))
    (out,) = compiled([x])
    assert out is x and (x.numpy() == np.arange(6) * 2).all()
    frozen = np.arange(6, dtype=np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        compiled([frozen])
    assert (frozen == np.arange(6)).all()


def test_numbers_symbols_and_floats():
    body, s0 = Body(), var("s0")
    x, out = buffer("x", F32, (s0, 3), strides=(var("s1"), 1)), buffer("out", F32, (s0, 3), "output")
    i, j = Axis("i", s0), Axis("j", 3)
    value = body.load(x, (i.var, j.var)) * body.cast(body.scalar("lr", dtypes.float64), F32) + body.cast(
        body.index(var("n")), F32
    )
    p = program(
        body,
        [LoopKernel("scale", (), (Step((i, j), (Store(out, (i.var, j.var), value),)),))],
        [x, "n", "lr"],
        [out, s0 * var("n"), None],
        symbols=(Symbol("s0", 0, "size", 0), Symbol("s1", 0, "stride", 0), Symbol("n", 1, "value")),
    )
    p = type(p)(**{**p.__dict__, "floats": (Symbol("lr", 2, "value"),)})
    compiled = load(p)
    wide = data(F32, (8, 10))
    for rows, n, lr in ((4, 5, 0.5), (8, -2, 3.0)):
        got, product, nothing = compiled([tensor(wide[:rows, :3]), n, lr])
        np.testing.assert_allclose(got.numpy(), wide[:rows, :3] * np.float32(lr) + n, rtol=1e-6)
        assert product == rows * n and nothing is None
    got, *_ = compiled([tensor(wide[:4, :3]), 1, tensor(np.array(2.0))])  # a 0-dim tensor is a number too
    np.testing.assert_allclose(got.numpy(), wide[:4, :3] * 2 + 1, rtol=1e-6)
    with pytest.raises(TypeError):
        compiled([tensor(wide[:4, :3]), "five", 1.0])


def test_strided_outputs():
    body = Body()
    x, out = buffer("x", F32, (5, 40)), buffer("out", F32, (5, 40), "output", strides=(1, 5))
    i, j = Axis("i", 5), Axis("j", 40)
    compiled = load(
        program(
            body,
            [LoopKernel("turn", (), (Step((i, j), (Store(out, (i.var, j.var), body.load(x, (i.var, j.var))),)),))],
            [x],
            [out],
        )
    )
    values = data(F32, (5, 40))
    (got,) = compiled([tensor(values)])
    assert got.stride() == (1, 5)
    np.testing.assert_array_equal(got.numpy(), values)


def test_constants():
    body = Body()
    x, out = buffer("x", F32, (9,)), buffer("out", F32, (9,), "output")
    table = tools.Buffer("table", F32, (9,), (1,), 0, "const")
    i = Axis("i", 9)
    value = body.load(x, (i.var,)) * body.load(table, (i.var,))
    p = program(
        body,
        [LoopKernel("scale", (), (Step((i,), (Store(out, (i.var,), value),)),))],
        [x],
        [out],
        temps=[table],
        constants={"table": tensor(np.arange(9, dtype=np.float32))},
    )
    np.testing.assert_array_equal(load(p)([tensor(np.full(9, 3, np.float32))])[0].numpy(), np.arange(9) * 3)


# -- eager calls inside


def sorted_program(n, size=None):
    """sort(x * 2) + 1 with an eager sort between two kernels."""
    body = Body()
    size = n if size is None else size
    x, out = buffer("x", F32, (size,)), buffer("out", F32, (size,), "output")
    doubled, values = tools.Buffer("doubled", F32, (size,), (1,)), tools.Buffer("values", F32, (size,), (1,))
    order = tools.Buffer("order", dtypes.int64, (size,), (1,))
    i = Axis("i", size)
    kernels = [
        LoopKernel("double", (), (Step((i,), (Store(doubled, (i.var,), body.load(x, (i.var,)) * 2.0),)),)),
        ExternCall("sorting", OPS["sort"], (View(doubled, (size,), (1,)), 0, False), (values, order)),
        LoopKernel("finish", (), (Step((i,), (Store(out, (i.var,), body.load(values, (i.var,)) + 1.0),)),)),
    ]
    return program(
        body,
        kernels,
        [x],
        [out],
        temps=[doubled, values, order],
        arena={"doubled": 0, "values": 4 * n + 64, "order": 8 * n + 192},
        arena_size=16 * n + 512,
    )


@pytest.mark.skipif("sort" not in OPS, reason="no sort record")
def test_eager_calls_between_kernels():
    for n in (40, 100000):  # with the GIL held, and given up around the native part
        values = data(F32, (n,), 3)
        compiled = load(sorted_program(n))
        before = counters.snapshot().get("fallbacks", {}).get("sort", 0)
        (got,) = compiled([tensor(values)])
        np.testing.assert_allclose(got.numpy(), np.sort(values * 2) + 1, rtol=1e-6)
        assert counters.snapshot()["fallbacks"]["sort"] == before + 1


@pytest.mark.skipif("sort" not in OPS, reason="no sort record")
def test_an_exception_of_an_eager_call_comes_through():
    p = sorted_program(100000)
    kernels = [
        k if not isinstance(k, ExternCall) else ExternCall(k.name, OPS["sort"], (k.args[0], 7, False), k.outputs)
        for k in p.kernels
    ]
    compiled = load(p.with_kernels(kernels))
    with pytest.raises((IndexError, ValueError)):
        compiled([tensor(data(F32, (100000,)))])


# -- checks, statistics, threads


def test_a_failed_check_returns_its_memory_and_text():
    body = Body()
    table, index, out = (
        buffer("table", F32, (10,)),
        buffer("index", dtypes.int64, (50000,)),
        buffer("out", F32, (50000,), "output"),
    )
    i = Axis("i", 50000)
    value = body.load(table, (body.indirect(body.load(index, (i.var,)), 10, "index 10 is out of bounds"),))
    compiled = load(program(body, [LoopKernel("take", (), (Step((i,), (Store(out, (i.var,), value),)),))], [table, index], [out]))
    at = np.zeros(50000, np.int64)
    compiled([data(F32, (10,)), at])
    at[49999] = 10
    gc.collect()
    before = native.memory()["current"]
    for _ in range(3):
        with pytest.raises(CheckFailed, match="index 10 is out of bounds") as raised:
            compiled([data(F32, (10,)), at])
        del raised
    gc.collect()
    assert native.memory()["current"] == before


def test_statistics():
    with config.patch(kernel_times=True):
        compiled = load(map_program(lambda s, a: s.exp(a), [F32], F32, (100, 200)))
    x = tensor(data(F32, (100, 200)))
    for _ in range(5):
        compiled([x])
    found = compiled.statistics()
    assert found["calls"] == 5 and found["ns"] > 0 and 0 < found["kernel_ns"]["map"] <= found["ns"]


def test_one_launcher_from_many_threads():
    """Arenas and outputs of running calls are their own."""
    body, n = Body(), 60000
    x, out = buffer("x", F32, (n,)), buffer("out", F32, (n,), "output")
    t = tools.Buffer("t", F32, (n,), (1,))
    i = Axis("i", n)
    kernels = [
        LoopKernel("first", (), (Step((i,), (Store(t, (i.var,), body.load(x, (i.var,)) * 2.0),)),)),
        LoopKernel("second", (), (Step((i,), (Store(out, (i.var,), body.load(t, (n - 1 - i.var,)) + 1.0),)),)),
    ]
    compiled = load(program(body, kernels, [x], [out], temps=[t], arena={"t": 0}, arena_size=4 * n))
    wrong = []

    def work(k):
        mine = np.full(n, k, np.float32)
        mine[:100] = -k
        for _ in range(50):
            got = compiled([mine])[0].numpy()
            if not (got == (mine * 2)[::-1] + 1).all():
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_launcher_is_collected_with_its_library():
    compiled = load(map_program(lambda s, a: a + 3.0, [F32], F32, (5,)))
    alive = weakref.ref(compiled)
    compiled([tensor(data(F32, (5,)))])
    del compiled
    gc.collect()
    assert alive() is None


def test_sizes_are_not_read_from_strides_of_one_element():
    """The backward is given one element of a column, whose stride is a size; the launcher makes it with a stride of 1."""

    def step(x):
        column = x.select(1, 2)
        column.masked_fill_((column > 0.25), -1.5)
        column[1:2].relu_()
        return column - column

    compiled = flambeau.compile(step, dynamic=True)
    for shape in ((3, 4), (4, 18), (3, 4)):
        leaf = flambeau.arange(float(np.prod(shape))).view(shape).sin().requires_grad_()
        found = []
        for f in (step, compiled):
            x = leaf * 1.0
            y = f(x)
            found.append((y, x, *flambeau.autograd.grad((x.sin().sum() + y.cos().sum()), leaf)))
        for a, b in zip(*found):
            assert flambeau.allclose(a, b, atol=1e-6), shape
