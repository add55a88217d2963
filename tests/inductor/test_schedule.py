"""Scheduling: which kernels fuse, in which loops, and that the fused program means the same; golden texts of typical graphs."""

import time

import numpy as np
import pytest
from flambeau.eager.op.op import OPS as O
from flambeau.inductor.loops import interpreter
from flambeau.inductor.loops.ir import GemmKernel, LoopKernel, kernel_text
from flambeau.inductor.loops.lower import lower
from flambeau.inductor.schedule.memory_planning import plan
from flambeau.inductor.schedule.scheduler import schedule


def softmax(x, dim=1):
    e = O["exp"](O["sub"](x, O["amax"](x, (dim,), True)))
    return O["div"](e, O["sum"](e, (dim,), True))


def layer_norm(x, w, b):
    dim = (len(x.shape) - 1,)
    d = O["sub"](x, O["mean"](x, dim, True))
    r = O["rsqrt"](O["add"](O["mean"](O["mul"](d, d), dim, True), 1e-5))
    return O["add"](O["mul"](O["mul"](d, r), w), b)


def linear(x, w, b):
    return O["add"](O["matmul"](x, O["transpose"](w, 0, 1)), b)


def mlp_residual(x, w, b, y):
    return O["add"](O["gelu"](linear(x, w, b)), y)


def attention(q, k, v, mask):
    scores = O["add"](O["mul"](O["matmul"](q, O["transpose"](k, 2, 3)), 0.25), mask)
    out = O["matmul"](softmax(scores, 3), v)
    return O["contiguous_copy"](O["permute"](out, (0, 2, 1, 3)))


def cross_entropy(x, target):
    shifted = O["sub"](x, O["amax"](x, (1,), True))
    logs = O["sub"](shifted, O["log"](O["sum"](O["exp"](shifted), (1,), True)))
    return O["neg"](O["mean"](O["gather"](logs, 1, O["unsqueeze"](target, 1)), (0, 1), False))


def softmax_gradient(g, y):
    return O["mul"](y, O["sub"](g, O["sum"](O["mul"](g, y), (1,), True)))


def layer_norm_gradient(g, x, w):
    """The gradients of x, w and b: one row kernel and one column kernel."""
    d = O["sub"](x, O["mean"](x, (1,), True))
    r = O["rsqrt"](O["add"](O["mean"](O["mul"](d, d), (1,), True), 1e-5))
    normal, h = O["mul"](d, r), O["mul"](g, w)
    inner = O["sub"](O["sub"](h, O["mean"](h, (1,), True)), O["mul"](normal, O["mean"](O["mul"](h, normal), (1,), True)))
    return O["mul"](inner, r), O["sum"](O["mul"](g, normal), (0,), False), O["sum"](g, (0,), False)


GRAPHS = {
    "softmax": (softmax, lambda m: (m(32, 64),), ["LoopKernel"]),
    "layer_norm": (layer_norm, lambda m: (m(4, 8, 64), m(64), m(64)), ["LoopKernel"]),
    "gelu_bias_residual": (
        lambda x, b, y: O["add"](O["gelu"](O["add"](x, b)), y),
        lambda m: (m(8, 16), m(16), m(8, 16)),
        ["LoopKernel"],
    ),
    "linear_gelu": (mlp_residual, lambda m: (m(2, 8, 16), m(32, 16), m(32), m(2, 8, 32)), ["GemmKernel"]),
    "attention": (
        attention,
        lambda m: (m(2, 4, 8, 16), m(2, 4, 8, 16), m(2, 4, 8, 16), m(8, 8)),
        ["GemmKernel", "LoopKernel", "GemmKernel"],
    ),
    "cross_entropy": (cross_entropy, lambda m: (m(32, 50), m.ints(50, 32)), None),
    "softmax_gradient": (softmax_gradient, lambda m: (m(32, 64), m(32, 64)), ["LoopKernel"]),
    "layer_norm_gradient": (layer_norm_gradient, lambda m: (m(32, 64), m(32, 64), m(64)), None),
}


def check(trace, fn, inputs, assert_close, symbolic=False, draw=None):
    """The scheduled program; it and the unscheduled one give eager's values."""
    program = lower(trace(fn, *inputs, symbolic=symbolic))
    program.verify()
    scheduled = plan(schedule(program))
    scheduled.verify()
    expected = fn(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for each in (program, scheduled):
        for actual, wanted in zip(interpreter.run(each, inputs, draw), expected, strict=True):
            assert_close(actual, wanted._fl_array, 1e-4, 1e-4)
    return scheduled


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", GRAPHS)
def test_typical_graphs(name, symbolic, trace, make, assert_close, golden):
    fn, inputs, kinds = GRAPHS[name]
    program = check(trace, fn, inputs(make), assert_close, symbolic)
    if kinds is not None:
        assert [type(k).__name__ for k in program.kernels] == kinds, program.text()
    if not symbolic:
        golden(f"{name}.txt", program.text())


def only(program):
    (kernel,) = program.kernels
    return kernel


def test_row_kernels_have_one_pass_per_dependency(trace, make, assert_close):
    kernel = only(check(trace, softmax, (make(16, 32),), assert_close))
    assert [bool(s.reduces) for s in kernel.steps] == [True, True, False] and len(kernel.outer) == 1
    assert [b.kind for b in kernel.locals] == ["local"]  # the exponentials are kept, not computed twice
    assert kernel_text(kernel).count("exp(") == 1


def test_gradients_of_layer_norm_are_a_row_kernel_and_column_kernels(trace, make, assert_close):
    fn, inputs, _ = GRAPHS["layer_norm_gradient"]
    program = check(trace, fn, inputs(make), assert_close)
    assert sorted(k.vector for k in program.kernels) in (["inner", "outer"], ["inner", "inner", "outer"]), program.text()
    columns = next(k for k in program.kernels if k.vector == "outer")
    assert sum(len(s.reduces) for s in columns.steps) == 2  # both sums in one pass over g


def test_column_sums_over_one_array_are_one_kernel(trace, make, assert_close):
    kernel = only(
        check(
            trace,
            lambda g, x: (O["sum"](g, (0, 1), False), O["sum"](O["mul"](g, x), (0, 1), False)),
            (make(4, 8, 16), make(4, 8, 16)),
            assert_close,
        )
    )
    assert kernel.vector == "outer" and [a.extent for a in kernel.outer] == [16]
    assert [a.extent for a in kernel.steps[0].axes] == [32]


def test_independent_maps_over_the_same_array_fuse(trace, make, assert_close):
    program = check(trace, lambda x: (O["sin"](x), O["cos"](x), O["exp"](x)), (make(64, 32),), assert_close)
    assert len(only(program).steps[0].stores) == 3


def test_contiguous_axes_collapse_and_transposed_ones_do_not(trace, make, assert_close):
    kernel = only(check(trace, lambda x: O["exp"](x), (make(3, 4, 5, 6),), assert_close))
    assert [a.extent for a in (*kernel.outer, *kernel.steps[0].axes)] == [360]
    kernel = only(check(trace, lambda x, y: O["add"](x, O["transpose"](y, 0, 1)), (make(6, 8), make(8, 6)), assert_close))
    assert [a.extent for a in (*kernel.outer, *kernel.steps[0].axes)] == [6, 8]


def test_the_innermost_loop_is_the_contiguous_one(trace, make, assert_close):
    x = O["transpose"](make(6, 5, 8), 0, 2)
    kernel = only(check(trace, lambda x: O["exp"](x), (x,), assert_close))
    store = kernel.steps[0].stores[0]
    assert store.index[0].coeff(kernel.steps[0].axes[-1].var) == 1


@pytest.mark.parametrize("shape, dims", [((300, 1000), (0, 1)), ((100003,), (0,)), ((1 << 16,), (0,)), ((5, 40000), (1,))])
def test_large_reductions_are_split_in_two(shape, dims, trace, make, assert_close):
    program = check(trace, lambda x: O["sum"](O["mul"](x, x), dims, False), (make(*shape),), assert_close)
    assert len(program.kernels) == 2
    first, second = program.kernels
    assert int(np.prod([a.extent for a in first.outer])) >= 16


def test_small_reductions_are_not_split(trace, make, assert_close):
    assert len(check(trace, lambda x: O["sum"](x, (0, 1), False), (make(30, 30),), assert_close).kernels) == 1


def test_a_split_maximum_with_nan_and_of_negative_numbers(trace, make, assert_close):
    x = make(100003)
    x._fl_array[:] = -np.abs(x._fl_array) - 1
    check(trace, lambda x: O["amax"](x, (0,), False), (x,), assert_close)
    x._fl_array[77] = np.nan
    check(trace, lambda x: O["amax"](x, (0,), False), (x,), assert_close)


def test_epilogues_take_bias_activation_residual_and_a_second_output(trace, make, assert_close):
    def fn(x, w, b, y):
        h = linear(x, w, b)
        return h, O["add"](O["gelu"](h), y)

    kernel = only(check(trace, fn, (make(2, 8, 16), make(32, 16), make(32), make(2, 8, 32)), assert_close))
    assert isinstance(kernel, GemmKernel) and len(kernel.epilogue.stores) == 2
    assert (kernel.m.extent, kernel.n.extent, kernel.k.extent) == (16, 32, 16) and kernel.batch == ()


def test_reductions_do_not_join_a_template(trace, make, assert_close):
    program = check(trace, lambda x, w: O["sum"](O["gemm"](x, w), (1,), False), (make(8, 16), make(16, 32)), assert_close)
    assert [type(k) for k in program.kernels] == [GemmKernel, LoopKernel]


def test_a_nest_never_swallows_what_must_run_between(trace, make, assert_close):
    def fn(x, w):
        a = O["exp"](x)
        return O["add"](a, O["gemm"](a, w))  # the product needs a in memory, and the sum needs the product

    program = check(trace, fn, (make(8, 8), make(8, 8)), assert_close)
    assert len(program.kernels) == 2


def test_reads_of_other_rows_stay_apart(trace, make, assert_close):
    def fn(x):
        e = O["exp"](x)
        return O["add"](e, O["flip"](e, (0,))), O["sum"](e, (1,), False)

    check(trace, fn, (make(8, 16),), assert_close)


def test_reads_within_the_row_are_legal(trace, make, assert_close):
    def fn(x):
        e = softmax(x)
        return O["add"](e, O["flip"](e, (1,)))

    program = check(trace, fn, (make(8, 16),), assert_close)
    assert len(program.kernels) == 1, program.text()


def test_a_sum_of_two_products_joins_one_of_them(trace, make, assert_close):
    program = check(trace, lambda x, y: O["add"](O["gemm"](x, y), O["gemm"](y, x)), (make(8, 8), make(8, 8)), assert_close)
    assert [type(k) for k in program.kernels] == [GemmKernel, GemmKernel]


def test_what_makes_an_operand_does_not_join_the_epilogue(trace, make, assert_close):
    def fn(x):
        t = O["tanh"](x)
        return O["add"](O["gemm"](t, x), t), O["exp"](t)

    check(trace, fn, (make(8, 8),), assert_close)


def test_equal_sizes_in_both_directions_are_not_confused(trace, make, assert_close):
    def fn(x):
        return O["add"](O["sum"](x, (0,), True), O["sum"](x, (1,), True)), softmax(x, 0), softmax(x, 1)

    check(trace, fn, (make(16, 16),), assert_close)


@pytest.mark.parametrize("shape", [(2, 16, 16, 16), (2, 3, 3, 3), (4, 4, 4), (2, 8, 8, 4)])
def test_rows_flattened_onto_axes_of_equal_extent(shape, trace, make, assert_close):
    def fn(x, w, b):
        flat = O["view"](layer_norm(x, w, b), (x.numel() // shape[-1], shape[-1]))
        return O["matmul"](flat, O["transpose"](flat, 0, 1)), O["sum"](O["relu"](flat), (1,), False)

    inputs = make(*shape), make(shape[-1]), make(shape[-1])
    check(trace, fn, inputs, assert_close)


def test_rows_of_different_views_meet(trace, make, assert_close):
    """A reduction over (4*8, 64) and one over (4, 8, 64) of the same memory are rows of one nest."""

    def fn(x):
        flat = O["view"](x, (32, 64))
        return O["sum"](flat, (1,), False), O["amax"](x, (2,), False)

    assert len(check(trace, fn, (make(4, 8, 64),), assert_close).kernels) == 1


def test_a_view_that_joins_three_axes_is_read_in_rows(trace, make, assert_close):
    """The digits of a column number meet again: the gradient of queries, keys and values side by side, and its column sums."""

    def fn(q, k, v):
        side_by_side = O["permute"](O["cat"]([O["unsqueeze"](x, 0) for x in (q, k, v)], 0), (1, 3, 0, 2, 4))
        flat = O["view"](O["contiguous_copy"](side_by_side), (2 * 8, 3 * 4 * 16))
        return O["matmul"](O["transpose"](flat, 0, 1), flat), O["sum"](flat, (0,), False)

    program = check(trace, fn, tuple(make(2, 4, 8, 16) for _ in range(3)), assert_close)
    assert "//" not in program.text() and "%(" not in program.text(), program.text()


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_random_programs_keep_their_meaning(symbolic, trace, random_program, assert_close):
    """Programs drawn from maps, reductions, views and products over a few sizes, against eager."""
    for seed in range(25):
        fn, inputs = random_program(seed)
        check(trace, fn, inputs, assert_close, symbolic)


def test_a_thousand_nodes_take_well_under_half_a_second(trace, make):
    shapes = [(32,), (32,), (32, 32), (32,), (64, 32), (64,), (32, 64), (32,)]
    ps = [make(*shape) for _ in range(12) for shape in shapes]

    def fn(x, *ps):
        for k in range(0, len(ps), 8):
            g, h, w, b, w1, b1, w2, b2 = ps[k : k + 8]
            n = linear(layer_norm(x, g, h), w, b)
            x = O["add"](x, O["matmul"](softmax(O["matmul"](n, O["transpose"](n, 1, 2)), 2), n))
            x = O["add"](x, linear(O["gelu"](linear(layer_norm(x, g, h), w1, b1)), w2, b2))
        return x

    graph = trace(fn, make(2, 8, 32), *ps)
    best = min(_seconds(graph) for _ in range(5))
    assert best < 0.5 * len(graph.nodes) / 700, f"{len(graph.nodes)} nodes took {best:.2f} s"


def _seconds(graph):
    start = time.process_time()
    plan(schedule(lower(graph)))
    return time.process_time() - start
