"""Sums down columns that are begun by a nest along the rows of the same array: which are, and that values stay the same."""

import numpy as np
import pytest

from flambeau.eager.op.op import OPS as O
from flambeau.inductor.schedule import mix_order_reduction
from flambeau.inductor.loops import interpreter
from flambeau.inductor.schedule import scheduler as scheduler
from flambeau.inductor.cpp import prefetch
from flambeau.inductor.cpp.codegen import generate
from flambeau.inductor.loops.lower import lower
from flambeau.inductor.schedule.memory_planning import plan
from flambeau.inductor.schedule.scheduler import schedule
from flambeau.inductor.schedule.split_reduction import Parallelism
from flambeau.runtime import toolchain

from .tools import compiled, dtypes, tensor

needs_compiler = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")


@pytest.fixture
def soon(monkeypatch):
    """Few rows and columns are enough, four rows a run."""
    monkeypatch.setattr(scheduler, "LARGE", 1)
    for name, value in {"SHORT": 4, "RUNS": 64, "NARROW": 2}.items():
        monkeypatch.setattr(mix_order_reduction, name, value)


def rows_and_columns(x):
    mean = O["mean"](x, (0,), False)
    return mean, O["amax"](x, (1,), False), O["sum"](O["abs"](O["sub"](x, mean)), (0,), False)


def stages(x):
    """Sums over two leading dimensions, of what the rows' results have no part in."""
    return O["softmax"](x, 2), O["sum"](O["exp"](x), (0, 1), False), O["sum"](x, (0, 1), False)


BESIDE = {
    "a second pass waits": (rows_and_columns, (24, 20), 1),
    "tail": (rows_and_columns, (20, 37), 1),
    "two sums, two dimensions": (stages, (3, 8, 20), 2),
    "one run a row of blocks": (stages, (6, 4, 20), 2),
    "rows that a run does not divide": (rows_and_columns, (23, 20), 0),
    "a maximum": (lambda x: (O["sum"](x, (1,), False), O["amax"](x, (0,), False)), (24, 20), 0),
    "what the rows write": (
        lambda x: (O["sum"](y := O["mul"](x, O["sum"](x, (1,), True)), (1,), False), O["sum"](y, (0,), False)),
        (24, 20),
        0,
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_sums_down_columns_are_begun_by_the_rows(name, soon, trace, make, assert_close):
    fn, shape, count = BESIDE[name]
    x = make(*shape)
    program = plan(schedule(lower(trace(fn, x))))
    program.verify()
    sums = [(kernel, store) for kernel in program.kernels for _, store in kernel.sums()]
    assert len(sums) == count, program.text()
    for kernel, store in sums:
        assert kernel.vector == "inner" and kernel.outer[-1].extent == 4
        assert not store.index[0].free_names() & {kernel.outer[-1].name}
    for actual, wanted in zip(interpreter.run(program, (x,)), fn(x), strict=True):
        assert_close(actual, wanted._fl_array, 1e-4, 1e-4)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
@pytest.mark.parametrize("name", ["a second pass waits", "tail", "one run a row of blocks"])
def test_sums_begun_by_the_rows_in_generated_code(name, dtype, soon):
    fn, shape, count = BESIDE[name]
    if dtype == "int32":
        fn = lambda x: (O["amax"](x, (len(shape) - 1,), False), O["sum"](x, tuple(range(len(shape) - 1)), False))
    make = lambda: (O["cast"](tensor(*shape), getattr(dtypes, dtype)),)
    run = compiled(fn, *make(), backend="inductor")
    close = {"float32": 1e-4, "float64": 1e-12, "bfloat16": 5e-2, "int32": 0}[dtype]
    for actual, wanted in zip(run(*make()), fn(*make()), strict=True):
        np.testing.assert_allclose(
            actual._fl_array.astype(np.float64), wanted._fl_array.astype(np.float64), rtol=close, atol=close * 20
        )


def test_results_go_past_the_caches_beside_sums(soon, trace, make, monkeypatch):
    """Results of rows still do; the partial sums, which are read again at once, do not."""
    monkeypatch.setattr(prefetch, "STREAM_FROM", 0)
    program = plan(schedule(lower(trace(stages, make(3, 8, 32)))))
    text = generate(program).text
    assert "stream(" in text and "add_to(" in text and "stream(acc" not in text


def test_a_target_without_walks_has_no_sums_beside(soon, trace, make):
    program = schedule(lower(trace(rows_and_columns, make(24, 20))), Parallelism())
    assert not any(kernel.sums() for kernel in program.kernels)
