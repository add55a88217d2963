"""Lowering: every sample of every record gives eager's values, before and after scheduling, with static and symbolic sizes."""

import importlib
import pkgutil

import numpy as np
import pytest
from flambeau.eager import api, dtypes, ops, random
from flambeau.eager.op.op import OPS, indexed
from flambeau.eager.tensor import Tensor
from flambeau.inductor.loops import interpreter
from flambeau.inductor.loops.ir import ExternCall, GemmKernel, ScatterKernel
from flambeau.inductor.loops.lower import lower
from flambeau.inductor.schedule.memory_planning import plan
from flambeau.inductor.schedule.scheduler import schedule

for found in pkgutil.iter_modules(ops.__path__):
    importlib.import_module(f"{ops.__name__}.{found.name}")

assert api.__doc__  # importing it installs the methods that samples use
SAMPLED = sorted(name for name, op in OPS.items() if op.sample_rule is not None and not op.mutates)
DRAW = {"seed": 12345, "base": 7}


def split(args):
    """The tensors of nested arguments, and a function that puts others in their places."""
    tensors = []

    def place(a):
        if isinstance(a, Tensor):
            tensors.append(a)
            k = len(tensors) - 1
            return lambda given: given[k]
        if isinstance(a, (tuple, list)):
            parts, kind = [place(x) for x in a], type(a)
            return lambda given: kind([p(given) for p in parts])
        return lambda given: a

    parts = [place(a) for a in args]
    return tensors, lambda given: [p(given) for p in parts]


def compare(program, inputs, expected, assert_close):
    for actual, wanted in zip(interpreter.run(program, inputs, DRAW), expected, strict=True):
        assert_close(actual, wanted._fl_array)


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", SAMPLED)
def test_samples(name, symbolic, trace, make, assert_close):
    op = OPS[name]
    for args in op.sample_rule(make):
        tensors, put = split(tuple(args))

        def call(*given):
            return op(*put(given))

        with random.at(DRAW["seed"], DRAW["base"]):
            expected = call(*tensors)
        expected = expected if isinstance(expected, tuple) else (expected,)
        program = lower(trace(call, *tensors, symbolic=symbolic))
        program.verify()
        compare(program, tensors, expected, assert_close)
        scheduled = plan(schedule(program))
        scheduled.verify()
        compare(scheduled, tensors, expected, assert_close)
        for output, wanted in zip(scheduled.outputs, expected):
            if output.kind == "output" and wanted._fl_array.size > 1 and not op.kind.name == "VIEW":
                actual = interpreter.run(scheduled, tensors, DRAW)[scheduled.outputs.index(output)]
                assert same_strides(actual, wanted._fl_array), (
                    f"{name}: strides {actual.strides}, eager has {wanted._fl_array.strides}"
                )


def same_strides(a, b):
    return all(n == 1 or s == t for n, s, t in zip(a.shape, a.strides, b.strides))


def kernels(program, kind):
    return [k for k in program.kernels if isinstance(k, kind)]


def test_views_fold_into_the_strides_of_matrix_operands(trace, make):
    heads = lambda x: OPS["transpose"](OPS["view"](x, (2, 8, 4, 16)), 1, 2)
    program = lower(trace(lambda q, k: OPS["matmul"](heads(q), OPS["transpose"](heads(k), 2, 3)), make(2, 8, 64), make(2, 8, 64)))
    (gemm,) = program.kernels
    assert isinstance(gemm, GemmKernel)
    assert gemm.a.buffer.kind == gemm.b.buffer.kind == "input"
    assert gemm.a.strides == (512, 16, 64, 1) and gemm.b.strides == (512, 16, 1, 64)


def test_a_matrix_operand_that_is_computed_is_realised_first(trace, make):
    program = lower(trace(lambda x, w: OPS["gemm"](OPS["relu"](x), w), make(4, 5), make(5, 6)))
    assert [type(k).__name__ for k in program.kernels] == ["LoopKernel", "GemmKernel"]


def test_chains_of_maps_are_one_kernel(trace, make):
    def chain(x):
        for _ in range(30):
            x = OPS["mul"](OPS["add"](x, 1.0), x)
        return x

    (kernel,) = schedule(lower(trace(chain, make(8)))).kernels
    assert len(kernel.steps) == 1 and len(kernel.steps[0].stores) == 1


def test_dear_values_with_many_users_are_computed_once(trace, make):
    def users(x):
        e = OPS["exp"](x)
        return OPS["gemm"](e, x), OPS["add"](e, 1.0), OPS["transpose"](OPS["mul"](e, 2.0), 0, 1)

    program = lower(trace(users, make(4, 4)))
    text = program.text()
    assert text.count("exp(%") == 1, text


def test_extern_without_a_template_is_a_call_on_a_view(trace, make, assert_close):
    x = make(5, 4)
    program = lower(trace(lambda x: OPS["add"](OPS["sort"](OPS["transpose"](x, 0, 1), 0, False)[0], 1.0), x))
    (call,) = kernels(program, ExternCall)
    assert call.args[0].buffer.kind == "input" and call.args[0].strides == (1, 4)
    assert_close(interpreter.run(program, [x])[0], np.sort(x._fl_array.T, 0) + 1)


def test_scatter_starts_from_a_copy(trace, make, assert_close):
    base, index, source = make(6, 3), make.ints(6, 4), make(4, 3)
    program = lower(trace(lambda b, i, s: OPS["index_add"](b, 0, i, s), base, index, source))
    assert len(kernels(program, ScatterKernel)) == 1
    before = base._fl_array.copy()
    expected = before.copy()
    np.add.at(expected, index._fl_array, source._fl_array)
    assert_close(interpreter.run(program, [base, index, source])[0], expected)
    np.testing.assert_array_equal(base._fl_array, before)


def test_random_numbers_are_those_of_eager(trace):
    def draw():
        return OPS["rand"]((3, 5), dtypes.float32)

    with random.at(99, 4):
        expected = draw()
    program = plan(schedule(lower(trace(draw))))
    np.testing.assert_array_equal(interpreter.run(program, [], {"seed": 99, "base": 4})[0], expected._fl_array)


def test_symbols_are_read_from_sizes(trace, make, assert_close):
    program = plan(schedule(lower(trace(lambda x, y: OPS["add"](OPS["exp"](x), y), make(4, 6), make(6), symbolic=True))))
    for shape in ((4, 6), (9, 2), (3, 33)):
        x, y = make(*shape), make(shape[1])
        assert_close(interpreter.run(program, [x, y])[0], np.exp(x._fl_array) + y._fl_array)


def test_symbolic_numbers_are_scalars_of_the_program(trace, make, assert_close):
    x = make(4)
    graph = trace(lambda x, scale, n: OPS["add"](OPS["mul"](x, scale * 2.0), n), x, 0.5, 3, symbolic=True)
    program = plan(schedule(lower(graph)))
    assert [s.name for s in program.floats] and not program.constants
    assert_close(interpreter.run(program, [x, 0.25, 7])[0], x._fl_array * np.float32(0.5) + np.float32(7))


def test_a_size_settled_while_lowering_leaves_no_symbol(trace, make, assert_close):
    """A formula that asks for the value of a size is lowered again, with that value everywhere."""

    @indexed(meta=lambda x: (x.shape[0],), promote="keep")
    def turned(s, i, x):
        return x(i[0]) + s.const(int(x.shape[0]), x.dtype)

    try:
        x = make(5)
        graph = trace(lambda x: turned(OPS["exp"](x)), x, symbolic=True)
        program = plan(schedule(lower(graph)))
    finally:
        del OPS["turned"]
    program.verify()
    assert graph.env.solved == 1 and not program.symbols and "s0" not in program.text()
    assert_close(interpreter.run(program, [x])[0], np.exp(x._fl_array) + np.float32(5))
