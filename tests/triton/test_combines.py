"""Every combine of reductions, over rows that are one block and rows that are walked, NaN and infinities included: what the loop
interpreter gives. And the fence around memory."""

import numpy as np
import pytest
from flambeau.eager import dtypes
from flambeau.eager.op.prims import COMBINES
from flambeau.inductor.loops import interpreter
from flambeau.inductor.loops.body import Body, Buffer
from flambeau.inductor.loops.ir import Axis, LoopKernel, Program, Reduce, Step, Store
from flambeau.inductor.schedule.memory_planning import plan
from flambeau.inductor.triton import triton_api
from flambeau.inductor.triton.interpret import InterpretedGraph
from flambeau.runtime.config import config
from flambeau.runtime.errors import InternalError

ROWS = 5


def buffer(name, *sizes, kind="input", dtype=dtypes.float32):
    strides = tuple(int(np.prod(sizes[d + 1 :])) for d in range(len(sizes)))
    return Buffer(name, dtype, sizes, strides, 0, kind)


def program(combine, width, dtype):
    """One kernel: reduce the rows of x (ROWS, width), store every accumulator."""
    body, x = Body(), buffer("x", ROWS, width, dtype=dtype).flat
    i, j = Axis("i0", ROWS), Axis("j0", width)
    value = body.load(x, (i.var * width + j.var,))
    if combine in ("any", "all"):
        value = value > 0
    names = {"argmax": ("key", "at"), "argmin": ("key", "at"), "welford": ("mean", "m2", "n")}.get(combine, ("acc",))
    values = (value, body.index(j.var)) if names[-1] == "at" else (value,)
    types = (value.dtype, dtypes.int64) if names[-1] == "at" else (value.dtype,) * len(names)
    outs = [buffer(f"out_{name}", ROWS, kind="output", dtype=t) for name, t in zip(names, types)]
    stores = tuple(Store(out.flat, (i.var,), body.acc(name, t)) for out, name, t in zip(outs, names, types))
    kernel = LoopKernel("k", (i,), (Step((j,), (), (Reduce(names, combine, values, types),)), Step((), stores)))
    return plan(Program((x, *outs), (kernel,), (x,), tuple(outs)))


def numbers(width, dtype, odd):
    x = np.random.default_rng(width).standard_normal((ROWS, width)).astype(np.float32)
    if not dtype.is_floating_point:
        return (x * 3).astype(dtype.numpy)
    x[0] = 1.0  # equals: the first position wins
    if odd:
        x[1, width // 2], x[2, width - 1], x[3, 0], x[4] = np.nan, np.inf, -np.inf, -np.inf
    return x


@pytest.mark.parametrize("width", [1, 37, 5000], ids=["one", "block", "walked"])
@pytest.mark.parametrize("combine", COMBINES)
def test_combines(combine, width):
    for dtype in (dtypes.float32, dtypes.int64):
        if dtype is dtypes.int64 and combine in ("welford", "logsumexp", "prod"):
            continue
        made = program(combine, width, dtype)
        for odd in (False, True) if combine not in ("welford", "prod") else (False,):
            x = numbers(width, dtype, odd)
            wanted = interpreter.run(made, [x.reshape(-1)])
            for large in (True, False):
                found = InterpretedGraph(made, large)([x.reshape(-1)])
                for a, b in zip(found, wanted):
                    np.testing.assert_allclose(a.numpy(), b, rtol=2e-4, atol=1e-4)


def test_an_access_outside_of_memory_is_told():
    """A row longer than its array: without the mask of the last block nothing else would notice."""
    made = program("sum", 37, dtypes.float32)
    run = InterpretedGraph(made)
    text = run.source.replace("rmask = j0 < 37", "rmask = j0 < 64")
    run.namespace = triton_api.load(text, interpreted=True)
    x = np.zeros(ROWS * 37, np.float32)
    with config.patch(verify=True), pytest.raises(InternalError, match="outside of its arrays"):
        run([x])
