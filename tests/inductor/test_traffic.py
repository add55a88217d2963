"""Results that go past the caches, rows asked for ahead, kernels in the order that reads memory best: values stay the same."""

import importlib.util
import pathlib

import numpy as np
import pytest

import flambeau as torch
from flambeau.eager.op.op import OPS as O
from flambeau.inductor.loops import interpreter
from flambeau.inductor.schedule import scheduler as scheduler
from flambeau.inductor.cpp import prefetch, async_compile
from flambeau.inductor.cpp.codegen import generate
from flambeau.inductor.loops.lower import lower
from flambeau.inductor.schedule.memory_planning import plan
from flambeau.inductor.schedule.scheduler import schedule
from flambeau.runtime import native, toolchain
from flambeau.runtime.config import config

_spec = importlib.util.spec_from_file_location("cpp_programs", pathlib.Path(__file__).parent / "cpp_programs.py")
tools = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tools)
Axis, Body, LoopKernel, Reduce, Step, Store = (tools.Axis, tools.Body, tools.LoopKernel, tools.Reduce, tools.Step, tools.Store)
dtypes = tools.dtypes

needs_compiler = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")
TYPES = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.bfloat16, dtypes.bool)


@pytest.fixture(params=native.isas())
def isa(request):
    with config.patch(isa=request.param):
        yield request.param


@pytest.fixture
def far(monkeypatch):
    """Every array counts as large."""
    monkeypatch.setattr(prefetch, "STREAM_FROM", 0)
    monkeypatch.setattr(prefetch, "AHEAD_FROM", 0)


def logsumexps(body, x, rows, n):
    """The maximum and the logsumexp of each row, together."""
    i, j = Axis("i", rows), Axis("j", n)
    value = body.load(x, (i.var, j.var))
    outs = [tools.buffer(name, dtypes.float32, (rows,), "output") for name in ("top", "lse")]
    reduces = tuple(Reduce((name,), combine, (value,), (dtypes.float32,)) for name, combine in (("b", "logsumexp"), ("a", "max")))
    stores = tuple(Store(out, (i.var,), body.acc(name, dtypes.float32)) for out, name in zip(outs, "ab"))
    return LoopKernel("both", (i,), (Step((j,), (), reduces), Step((), stores))), outs


def copies(body, sizes):
    """x + x (x | x of bool) of every type, each a kernel."""
    kernels, inputs, outs = [], [], []
    for dtype in TYPES:
        for number, size in enumerate(sizes):
            axes = tuple(Axis(f"i{k}", n) for k, n in enumerate(size))
            x = tools.buffer(f"x_{dtype.name}_{number}", dtype, size)
            out = tools.buffer(f"o_{dtype.name}_{number}", dtype, size, "output")
            index = tuple(a.var for a in axes)
            value = body.load(x, index)
            combined = body.logical_or(value, value) if dtype is dtypes.bool else body.add(value, value)
            kernels.append(LoopKernel(out.name, (), (Step(axes, (Store(out, index, combined),)),)))
            inputs.append(x)
            outs.append(out)
    return kernels, inputs, outs


@needs_compiler
def test_stores_past_the_caches_and_rows_asked_for_ahead(isa, far):
    body = Body()
    kernels, inputs, outs = copies(
        body, [(3, 37), (111,), (4, 64), (40000,)]
    )  # lines at odd places, one in part, whole lines, chunks
    x = tools.buffer("x", dtypes.float32, (6, 100))
    both, more = logsumexps(body, x, 6, 100)
    p = tools.program(body, [*kernels, both], [*inputs, x], [*outs, *more])
    values = [tools.data(b.dtype, b.sizes, k) for k, b in enumerate(inputs)]
    rows = np.random.default_rng(0).standard_normal((6, 100)).astype(np.float32)
    rows[1, 50], rows[2, 99], rows[3], rows[4, 0], rows[5, 7] = np.nan, np.inf, -np.inf, -np.inf, 200.0
    text = generate(p).text
    streamed = len(kernels) - len(TYPES)  # (all but those of odd rows)
    assert text.count("Drain drain;") == streamed + 1
    # (truth values are copied as they are, and stored as bytes)
    assert text.count(" stream(") == streamed - 3 and text.count("__builtin_memmove(") == 1 and text.count("each_bytes(") == 2
    assert text.count("__builtin_prefetch") == 1
    got = tools.check(p, [*values, rows])
    np.testing.assert_array_equal(got[-2], rows.max(1))
    assert np.isnan(got[-1][1]) and got[-1][2] == np.inf and got[-1][3] == -np.inf and got[-1][5] == 200.0


@needs_compiler
def test_symbolic_sizes_decide_in_the_call(trace, make, assert_close, monkeypatch):
    monkeypatch.setattr(prefetch, "STREAM_FROM", 2 * 4 * 50 * 64)
    program = plan(schedule(lower(trace(lambda x: O["exp"](x), make(50, 64), symbolic=True))))
    assert "const bool far = " in generate(program).text and "stream_if(far, " in generate(program).text
    compiled = async_compile.load(program, wrap=False)
    for rows in (50, 51, 49):  # just large enough, larger, too small
        x = make(rows, 64)
        assert_close(compiled([x._fl_array])[0], np.exp(x._fl_array), 1e-5, 1e-6)


@needs_compiler
def test_blocks_of_columns_ask_for_rows_further_down(isa, far):
    p = tools.row_reduce("welford", dtypes.float32, [dtypes.float32] * 3, 50, 70, "outer")
    assert generate(p).text.count("__builtin_prefetch") == 2  # in both passes; places past the end are only asked for
    tools.check(p, [tools.data(dtypes.float32, (50, 70))], rtol=2e-5)


@needs_compiler
@pytest.mark.parametrize("combine, rows, count", [("sum", 3, 1), ("sum", 5, 1), ("max", 9, 1), ("welford", 14, 3)])
def test_blocks_of_columns_take_four_rows_at_a_time_and_the_rest_one_by_one(isa, combine, rows, count):
    """Where there are no more than four, all at once."""
    p = tools.row_reduce(combine, dtypes.float32, [dtypes.float32] * count, rows, 70, "outer")
    head = f"each_few_rows<{rows}>(" if rows <= 4 else "each_row_of_columns("
    assert generate(p).text.count(head) == (2 if combine == "welford" else 1)
    tools.check(p, [tools.data(dtypes.float32, (rows, 70))], rtol=2e-5)


@needs_compiler
@pytest.mark.parametrize("columns", [1, 5, 70, 5000])
@pytest.mark.parametrize(
    "combine, results, most",
    [
        ("sum", [dtypes.float32], 256),
        ("max", [dtypes.float64], 128),
        ("argmax", [dtypes.float32, dtypes.int64], 85),
        ("welford", [dtypes.float32] * 3, 32),
    ],
)
def test_blocks_of_columns_that_come_from_memory_are_wide(isa, far, combine, results, most, columns):
    """Unless they are walked over twice; accumulators are there for no more columns than there are."""
    p = tools.row_reduce(combine, dtypes.float32, results, 11, columns, "outer")
    text, few = generate(p).text, f"({columns} + FB_W - 1) / FB_W"
    wanted = f"{few} < {most} ? {few} : {most}" if columns < most * 16 else str(most)
    assert f"constexpr int COLUMNS = {wanted};" in text
    tools.check(p, [tools.data(dtypes.float32, (11, columns))], rtol=2e-5)


def test_what_is_computed_once_a_row_keeps_its_place_in_blocks_of_columns():
    p = tools.row_reduce("argmax", dtypes.float32, [dtypes.float32, dtypes.int64], 9, 70, "outer")
    assert "each_row_of_columns(" not in generate(p).text


def test_small_kernels_use_neither():
    text = generate(tools.row_reduce("welford", dtypes.float32, [dtypes.float32] * 3, 50, 70)).text
    assert "prefetch" not in text and "Drain" not in text.split("fb_run")[0]


def test_what_a_kernel_reads_does_not_go_past_the_caches(far):
    body, axis = Body(), Axis("i", 64)
    x = tools.buffer("x", dtypes.float32, (64,))
    kernel = LoopKernel("own", (), (Step((axis,), (Store(x, (axis.var,), body.load(x, (axis.var,))),)),))
    assert prefetch.streaming_stores(kernel) == (frozenset(), "")


@pytest.mark.parametrize("symbolic", [False, True])
def test_sums_of_everything_join_the_rows_and_columns_come_last(symbolic, trace, make, assert_close, monkeypatch):
    monkeypatch.setattr(scheduler, "LARGE", 1)

    def fn(x):
        columns = O["mean"](x, (0,), False)
        total = O["sum"](O["mul"](x, x), (0, 1), False)
        return columns, O["amax"](x, (1,), False), total, O["add"](total, 1.0)

    inputs = (make(250, 300),)
    program = plan(schedule(lower(trace(fn, *inputs, symbolic=symbolic))))
    program.verify()
    rows, columns, *last = program.kernels
    assert [rows.vector, columns.vector] == ["inner", "outer"] and len(last) == 1, program.text()
    assert {r.combine for step in rows.steps for r in step.reduces} == {"max", "sum"}
    for actual, wanted in zip(interpreter.run(program, inputs), fn(*inputs), strict=True):
        assert_close(actual, wanted._fl_array, 1e-4, 1e-4)


def test_rows_that_wait_for_the_sum_do_not_make_its_parts(trace, make, assert_close):
    fn = lambda x: O["sum"](O["exp"](O["sub"](x, O["sum"](x, (0, 1), False))), (1,), False)
    x = make(250, 300)
    x._fl_array *= 1e-3
    program = schedule(lower(trace(fn, x)))
    program.verify()
    assert_close(interpreter.run(plan(program), (x,))[0], fn(x)._fl_array, 1e-4, 1e-4)


def test_a_sum_that_joins_nothing_leaves_no_trace(trace, make):
    fn = lambda x: (O["sum"](x, (0, 1), False), O["amax"](x, (0,), False))  # rows and columns of the same extent
    program = schedule(lower(trace(fn, make(300, 300))))
    assert len(program.kernels) == 3 and sorted(k.vector for k in program.kernels) == ["inner", "inner", "outer"]
    assert [b.kind for b in program.buffers].count("temp") == 1, program.text()


def test_new_tensors_begin_on_cache_lines_and_large_ones_apart_from_numpys():
    values = np.random.default_rng(0).standard_normal((700, 1001)).astype(np.float32)
    for made in (
        torch.tensor(values),
        torch.empty(700, 1001),
        torch.full((700, 1001), 2.0),
        torch.tensor(values, dtype=torch.float64),
    ):
        assert made.data_ptr() % 4096 == 1024
    assert torch.tensor(values[:9]).data_ptr() % 64 == 0
    np.testing.assert_array_equal(torch.tensor(values, dtype=torch.float64).numpy(), values.astype(np.float64))
    turned = torch.tensor(values.T)
    assert turned.stride() == torch.from_numpy(values.T).stride() and turned.data_ptr() != values.ctypes.data


@pytest.mark.parametrize("columns, streams", [(64, True), (72, False), (80, True)])
def test_rows_that_do_not_begin_on_a_line_are_not_streamed(far, columns, streams):
    """Lines of which a half is streamed took twice the time of lines that are stored."""
    body, i, j = Body(), Axis("i", 50), Axis("j", columns)
    x, out = (tools.buffer(name, dtypes.float32, (50, columns), kind) for name, kind in (("x", "input"), ("out", "output")))
    place = (i.var, j.var)
    kernel = LoopKernel("rows", (i,), (Step((j,), (Store(out, place, body.load(x, place)),)),))
    assert prefetch.streaming_stores(kernel) == (frozenset({"out"} if streams else ()), "")


@pytest.mark.parametrize("rows, columns, streams", [(50, 64, True), (50, 72, False), (1, 72, True)])
def test_rows_of_a_kernel_along_columns_are_looked_at_as_well(far, rows, columns, streams):
    body, i, j = Body(), Axis("i", rows), Axis("j", columns)
    x, out = (tools.buffer(name, dtypes.float32, (rows, columns), kind) for name, kind in (("x", "input"), ("out", "output")))
    place = (i.var if rows > 1 else 0, j.var)
    step = Step((i,) if rows > 1 else (), (Store(out, place, body.load(x, place)),))
    kernel = LoopKernel("columns", (j,), (step,), vector="outer")
    assert prefetch.streaming_stores(kernel) == (frozenset({"out"} if streams else ()), "")
