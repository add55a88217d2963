"""The C++ backend against the loop interpreter: every primitive, element type, kernel form and instruction set."""

import importlib.util
import pathlib

import numpy as np
import pytest

from flambeau.eager.op.prims import PRIMS
from flambeau.inductor.cpp.codegen import generate
from flambeau.inductor.cpp.prims import CPP_PRIMS, TYPES
from flambeau.inductor.loops.ir import GemmKernel, Operand, ScatterKernel
from flambeau.runtime import native, toolchain
from flambeau.runtime.config import config
from flambeau.runtime.errors import CheckFailed, Unsupported

_spec = importlib.util.spec_from_file_location("cpp_programs", pathlib.Path(__file__).with_name("cpp_programs.py"))
tools = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tools)
Axis, Body, LoopKernel, Reduce, Step, Store = (tools.Axis, tools.Body, tools.LoopKernel, tools.Reduce, tools.Step, tools.Store)
buffer, check, data, dtypes, map_program, program, row_reduce = (
    tools.buffer,
    tools.check,
    tools.data,
    tools.dtypes,
    tools.map_program,
    tools.program,
    tools.row_reduce,
)

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")
FLOATS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
INTS = (dtypes.int64, dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint8, dtypes.bool)
RTOL = {"float32": 4e-6, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.fixture(params=native.isas())
def isa(request):
    with config.patch(isa=request.param):
        yield request.param


def test_every_primitive_has_a_cell():
    assert set(CPP_PRIMS) == set(PRIMS)


# -- primitives

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -2.5, 100.0, -100.0, 1e-30, 1e30, 3e-39, 20.0]
FLOAT_UNARY = ("neg abs sign exp log log2 log1p expm1 sqrt rsqrt sin cos tan tanh erf floor ceil round trunc isnan isinf").split()
BINARY = "add sub mul truediv floordiv mod maximum minimum lt le gt ge eq ne".split()
INT_UNARY = "neg abs sign floor ceil isnan isinf exp sqrt".split()
BITS = "bit_and bit_or bit_xor".split()


def prims_program(names, arity, dtype, n=83):
    """One kernel a primitive over the same inputs."""
    body = Body()
    inputs = [buffer(f"x{k}", dtype, (n,)) for k in range(arity)]
    kernels, outs = [], []
    for name in names:
        i = Axis("i", n)
        value = body.prim(name, *[body.load(b, (i.var,)) for b in inputs])
        out = buffer(f"out_{name}", value.dtype, (n,), "output")
        kernels.append(LoopKernel(name, (), (Step((i,), (Store(out, (i.var,), value),)),)))
        outs.append(out)
    return program(body, kernels, inputs, outs)


def float_data(dtype, n, seed):
    x = np.random.default_rng(seed).uniform(-6, 6, n)
    special = np.array(SPECIAL)
    x[: len(special)] = np.roll(special, seed)
    with np.errstate(over="ignore"):
        return x.astype(dtype.numpy)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_unary_primitives_of_floats(isa, dtype):
    x = float_data(dtype, 83, 0)
    atol = {"float64": 1e-15, "float32": 3e-7}.get(dtype.name, 1e-3)
    check(prims_program(FLOAT_UNARY, 1, dtype), [x], rtol=RTOL[dtype.name], atol=atol)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_binary_primitives_of_floats(isa, dtype):
    names = [name for name in BINARY if not (name in ("floordiv", "mod") and dtype.itemsize == 2)]
    check(prims_program(names, 2, dtype), [float_data(dtype, 83, 0), float_data(dtype, 83, 3)], rtol=RTOL[dtype.name], atol=0)


def test_power(isa):
    for dtype in (dtypes.float32, dtypes.float64):
        check(
            prims_program(["pow"], 2, dtype), [float_data(dtype, 83, 0), float_data(dtype, 83, 3)], rtol=RTOL[dtype.name], atol=0
        )
        check(map_program(lambda s, x: x**2 + x**3.0 + s.abs(x) ** 0.7, [dtype], dtype), [data(dtype, (37,))], rtol=1e-5)


@pytest.mark.parametrize("dtype", INTS, ids=lambda d: d.name)
def test_integer_primitives(isa, dtype):
    x, y = data(dtype, (83,), 1), data(dtype, (83,), 2)
    if dtype is dtypes.bool:
        names = [n for n in BINARY if n not in ("sub", "floordiv", "mod", "truediv")] + BITS
        unary = ["abs", "bit_not", "logical_not"]
    else:
        names, unary = (BINARY + BITS, INT_UNARY + ["bit_not"] if dtype is not dtypes.uint8 else ["abs", "exp", "bit_not"])
        y[y == 0] = 3  # (division by zero is an error)
        x[0], y[0] = np.iinfo(dtype.numpy).max, np.iinfo(dtype.numpy).max
        x[1], y[1] = np.iinfo(dtype.numpy).min, 1
    check(prims_program(names, 2, dtype), [x, y])
    check(prims_program(unary, 1, dtype), [x], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [d for d in INTS if d is not dtypes.bool], ids=lambda d: d.name)
def test_shifts_and_integer_power(isa, dtype):
    x, n = data(dtype, (83,), 1), np.arange(83).astype(dtype.numpy) % (dtype.itemsize * 8)
    check(prims_program(["shl", "shr"], 2, dtype), [x, n])
    check(map_program(lambda s, a: s.shr(s.shl(a, 3), 1), [dtype], dtype), [data(dtype, (37,))])
    check(prims_program(["pow"], 2, dtype), [x, np.arange(83).astype(dtype.numpy) % 5])


def test_logic_and_where(isa):
    p = map_program(
        lambda s, a, b: s.where(s.logical_or(s.lt(a, b), s.logical_not(s.gt(a, 0.0))), a, b * 2.0),
        [dtypes.float32] * 2,
        dtypes.float32,
    )
    check(p, [data(dtypes.float32, (37,)), data(dtypes.float32, (37,), 1)])
    p = map_program(lambda s, a, b: s.where(s.logical_and(a, b), 3, 4), [dtypes.bool] * 2, dtypes.int64)
    check(p, [data(dtypes.bool, (37,)), data(dtypes.bool, (37,), 1)])


@pytest.mark.parametrize("dtype", FLOATS + INTS, ids=lambda d: d.name)
@pytest.mark.parametrize("n", [1, 7, 8, 17, 37, 100])
def test_loads_behind_conditions_of_lanes(n, dtype, isa):
    """All lanes, none, the first, the last and those between; a lane that is not asked for is the other number, not 0."""
    i, j = Axis("i", 12), Axis("j", n)
    body, x, out = Body(), buffer("x", dtype, (12, n)), buffer("out", dtype, (12, n), "output")
    place = body.index(j.var)
    inside = body.logical_and(body.ge(place, body.index(i.var * 3)), body.lt(place, body.index(i.var * 3 + 30)))
    value = body.load(x, (i.var, j.var), inside, 1)
    check(
        program(body, [LoopKernel("conditional", (i,), (Step((j,), (Store(out, (i.var, j.var), value),)),))], [x], [out]),
        [data(dtype, (12, n))],
    )


@pytest.mark.parametrize("half", [dtypes.bfloat16, dtypes.float16], ids=lambda d: d.name)
def test_halves_are_rounded_once(half):
    """By the store, where only stores read the rounded value; by the cast as well, where something else does."""
    single = lambda s, a: s.cast(a, dtypes.float32)
    p = map_program(lambda s, a, b: s.cast(single(s, a) + single(s, b) * 1.25, half), [half, half], half)
    with config.patch(keep_half_rounding=True):
        q = map_program(lambda s, a, b: single(s, s.cast(single(s, a) + single(s, b) * 1.25, half)) * 1.125, [half, half], half)
    rounded = f"round_{TYPES[half.name].c}"
    assert (generate(p).text.count(rounded), generate(q).text.count(rounded)) == (0, 1)
    with np.errstate(over="ignore"):
        special = np.resize(np.array(SPECIAL), 37).astype(half.numpy)
    values = [special, data(half, (37,), seed=1)]
    for each in (p, q):
        check(each, values, rtol=0, atol=0)


@pytest.mark.parametrize("source", FLOATS + INTS + (dtypes.uint32, dtypes.uint16), ids=lambda d: d.name)
def test_casts(isa, source):
    targets = FLOATS + INTS + (dtypes.uint32, dtypes.uint16)
    body, n = Body(), 83
    x = buffer("x", source, (n,))
    i = Axis("i", n)
    outs = [buffer(f"out_{t.name}", t, (n,), "output") for t in targets]
    kernels = [
        LoopKernel(f"to_{t.name}", (), (Step((i,), (Store(o, (i.var,), body.cast(body.load(x, (i.var,)), t)),)),))
        for t, o in zip(targets, outs)
    ]
    values = (
        data(source, (n,), 1, 0.0, 100.0) if not source.is_signed or source.is_floating_point else data(source, (n,), 1, -60, 60)
    )
    check(program(body, kernels, [x], outs), [values], rtol=1e-7, atol=0)


def test_numbers_round_as_numpy_rounds_them(isa):
    p = map_program(lambda s, a: (a + 0.1) * 1e-8 - 16777217.0, [dtypes.float32], dtypes.float32)
    check(p, [data(dtypes.float32, (37,))], rtol=0, atol=0)
    p = map_program(lambda s, a: s.where(a > 0.0, float("inf"), float("nan")), [dtypes.float32], dtypes.float32)
    check(p, [data(dtypes.float32, (37,))])


def test_no_contraction(isa):
    x = np.random.default_rng(0).uniform(-3, 3, 1000).astype(np.float32)
    (out,) = check(map_program(lambda s, a, b: a * a - b * b, [dtypes.float32] * 2, dtypes.float32, (1000,)), [x, x.copy()])
    assert not out.any()


# -- random numbers


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda d: d.name)
def test_halves_are_rounded_after_each_primitive(isa, dtype):
    """A sum of two products differs in its last bit when only the end is rounded."""
    p = map_program(lambda s, x, y: x * y + x * x - y, [dtype, dtype], dtype, (400,))
    x, y = data(dtype, (400,), 1), data(dtype, (400,), 2)
    got = check(p, [x, y], rtol=0, atol=0)[0]
    wide = x.astype(np.float32) * y.astype(np.float32) + x.astype(np.float32) ** 2 - y.astype(np.float32)
    assert (got != wide.astype(dtype.numpy)).any()


def test_philox(isa):
    body, n = Body(), 75
    i = Axis("i", n)
    seed, base = body.scalar("seed", dtypes.int64), body.scalar("base", dtypes.int64)
    outs = [buffer(f"w{w}", dtypes.int64, (n,), "output") for w in range(4)]
    stores = tuple(Store(o, (i.var,), body.philox(seed, body.add(base, 2), body.index(i.var), w)) for w, o in enumerate(outs))
    uniform = buffer("u", dtypes.float32, (n,), "output")
    bits = body.philox(seed, base, body.index(i.var), 0)
    stores += (Store(uniform, (i.var,), body.cast(body.shr(bits, 8), dtypes.float32) * 2.0**-24),)
    p = program(body, [LoopKernel("random", (), (Step((i,), stores),))], [], [*outs, uniform], scalars=("seed", "base"))
    got = check(p, [], {"seed": 2**63 + 5, "base": 7}, rtol=0, atol=0)
    alone = np.empty(n, np.float32)
    native.philox(alone, 2**63 + 5, 7)
    np.testing.assert_array_equal(got[-1], alone)


# -- reductions

COMBINES = {"sum": 1, "prod": 1, "max": 1, "min": 1, "argmax": 2, "argmin": 2, "welford": 3, "logsumexp": 1}


@pytest.mark.parametrize("vector", ["inner", "outer"])
@pytest.mark.parametrize("n", [1, 7, 100])
def test_float_reductions(isa, vector, n):
    for combine, outputs in COMBINES.items():
        accs = [dtypes.float32, dtypes.int64] if combine.startswith("arg") else [dtypes.float32] * outputs
        x = data(dtypes.float32, (n, 70) if vector == "outer" else (9, n), 3, 0.5 if combine == "prod" else -4.0, 1.5)
        check(row_reduce(combine, dtypes.float32, accs, *x.shape, vector), [x], rtol=2e-5)


@pytest.mark.parametrize("vector", ["inner", "outer"])
def test_nan_wins_and_the_first_of_equals(isa, vector):
    x = np.random.default_rng(0).integers(0, 4, (40, 40)).astype(np.float32)
    x[3, 5] = x[3, 30] = x[17, 3] = x[30, 3] = np.nan
    x[5], x[:, 9] = -np.inf, -np.inf
    for combine in ("max", "min", "argmax", "argmin"):
        accs = [dtypes.float32, dtypes.int64] if combine.startswith("arg") else [dtypes.float32]
        check(row_reduce(combine, dtypes.float32, accs, 40, 40, vector), [x])


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.int64, dtypes.int32, dtypes.int8, dtypes.uint8], ids=lambda d: d.name)
def test_reductions_of_other_types(isa, dtype):
    for vector in ("inner", "outer"):
        x = data(dtype, (23, 45), 5)
        for combine in ("sum", "max", "min", "argmax"):
            accs = [dtype, dtypes.int64] if combine.startswith("arg") else [dtype]
            check(row_reduce(combine, dtype, accs, 23, 45, vector), [x], rtol=1e-12)


def test_boolean_reductions(isa):
    for vector in ("inner", "outer"):
        x = data(dtypes.bool, (23, 45), 5)
        x[3], x[4], x[:, 7], x[:, 8] = True, False, True, False
        for combine in ("any", "all", "max", "min", "argmax", "argmin"):
            accs = [dtypes.bool, dtypes.int64] if combine.startswith("arg") else [dtypes.bool]
            check(row_reduce(combine, dtypes.bool, accs, 23, 45, vector), [x])
        check(row_reduce("sum", dtypes.bool, [dtypes.int64], 23, 45, vector, lambda s, v: s.cast(v, dtypes.int64)), [x])


def softmax_program(rows, n, dtype=dtypes.float32):
    body = Body()
    x, out = buffer("x", dtype, (rows, n)), buffer("out", dtype, (rows, n), "output")
    scratch = tools.Buffer("scratch", dtypes.float32, (n,), (1,), 0, "local")
    i, j = Axis("i", rows), Axis("j", n)
    value = body.cast(body.load(x, (i.var, j.var)), dtypes.float32)
    e = body.exp(value - body.acc("top", dtypes.float32))
    steps = (
        Step((j,), (), (Reduce(("top",), "max", (value,), (dtypes.float32,)),)),
        Step((j,), (Store(scratch, (j.var,), e),), (Reduce(("total",), "sum", (e,), (dtypes.float32,)),)),
        Step(
            (j,),
            (Store(out, (i.var, j.var), body.cast(body.load(scratch, (j.var,)) / body.acc("total", dtypes.float32), dtype)),),
        ),
    )
    return program(body, [LoopKernel("softmax", (i,), steps, (scratch,))], [x], [out])


@pytest.mark.parametrize("n", [5, 64, 1000])
def test_row_softmax_with_scratch(isa, n):
    for dtype in (dtypes.float32, dtypes.bfloat16):
        check(softmax_program(11, n, dtype), [data(dtype, (11, n))], rtol=RTOL[dtype.name] * 4)


def test_large_scratch_comes_from_the_runtime():
    check(softmax_program(3, 40000), [data(dtypes.float32, (3, 40000))], rtol=1e-5)


def test_columns_with_scratch(isa):
    body, rows, n = Body(), 13, 50
    x, out = buffer("x", dtypes.float32, (rows, n)), buffer("out", dtypes.float32, (rows, n), "output")
    scratch = tools.Buffer("scratch", dtypes.float32, (rows,), (1,), 0, "local")
    i, j = Axis("i", rows), Axis("j", n)
    e = body.exp(body.load(x, (i.var, j.var)))
    steps = (
        Step((i,), (Store(scratch, (i.var,), e),), (Reduce(("total",), "sum", (e,), (dtypes.float32,)),)),
        Step((i,), (Store(out, (i.var, j.var), body.load(scratch, (i.var,)) / body.acc("total", dtypes.float32)),)),
    )
    check(
        program(body, [LoopKernel("columns", (j,), steps, (scratch,), "outer")], [x], [out]),
        [data(dtypes.float32, (rows, n))],
        rtol=1e-5,
    )


def test_two_reduction_axes_and_batch_of_columns(isa):
    body = Body()
    x, out = buffer("x", dtypes.float32, (3, 4, 37, 5)), buffer("out", dtypes.float32, (3, 37), "output")
    a, b, c, d = Axis("i0", 3), Axis("j0", 4), Axis("i1", 37), Axis("j1", 5)
    value = body.load(x, (a.var, b.var, c.var, d.var))
    steps = (
        Step((b, d), (), (Reduce(("s",), "sum", (value,), (dtypes.float32,)),)),
        Step((), (Store(out, (a.var, c.var), body.acc("s", dtypes.float32)),)),
    )
    for vector in ("inner", "outer"):
        check(
            program(body, [LoopKernel("sums", (a, c), steps, (), vector)], [x], [out]),
            [data(dtypes.float32, (3, 4, 37, 5))],
            rtol=1e-5,
        )


def test_empty_extents():
    for vector in ("inner", "outer"):
        check(
            row_reduce("sum", dtypes.float32, [dtypes.float32], *((4, 0) if vector == "inner" else (0, 4)), vector),
            [np.zeros((4, 0) if vector == "inner" else (0, 4), np.float32)],
        )
    check(map_program(lambda s, a: a + 1.0, [dtypes.float32], dtypes.float32, (0,)), [np.zeros(0, np.float32)])


# -- addresses


@pytest.mark.parametrize(
    "dtype", [dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.int64, dtypes.uint8, dtypes.bool], ids=lambda d: d.name
)
def test_strides_transposes_and_flips(isa, dtype):
    body, rows, n = Body(), 21, 45
    x, out = buffer("x", dtype, (n, rows)), buffer("out", dtype, (rows, n), "output", strides=(1, rows))
    flat = buffer("flat", dtype, (rows, n), "output")
    i, j = Axis("i", rows), Axis("j", n)
    value = body.load(x, (j.var, i.var))
    other = body.load(x, (n - 1 - j.var, rows - 1 - i.var))
    step = Step((i, j), (Store(out, (i.var, j.var), other), Store(flat, (i.var, j.var), value)))
    check(program(body, [LoopKernel("turn", (), (step,))], [x], [out, flat]), [data(dtype, (n, rows))])


@pytest.mark.parametrize(
    "dtype", [dtypes.float32, dtypes.bfloat16, dtypes.int32, dtypes.uint8, dtypes.bool], ids=lambda d: d.name
)
@pytest.mark.parametrize("sizes", [(16, 16), (70, 45), (130, 16), (17, 200)])
def test_transposes_in_squares(isa, dtype, sizes):
    """Loads and stores along the other axis, next to plain ones, with a batch axis around."""
    rows, n = sizes
    body = Body()
    x, y = buffer("x", dtype, (2, n, rows)), buffer("y", dtype, (rows, n))
    out, back = buffer("out", dtype, (2, rows, n), "output"), buffer("back", dtype, (2, n, rows), "output")
    c, i, j = Axis("c", 2), Axis("i", rows), Axis("j", n)
    turned, plain = body.load(x, (c.var, j.var, i.var)), body.load(y, (i.var, j.var))
    step = Step(
        (c, i, j), (Store(out, (c.var, i.var, j.var), body.maximum(turned, plain)), Store(back, (c.var, j.var, i.var), plain))
    )
    p = program(body, [LoopKernel("turn", (), (step,))], [x, y], [out, back])
    check(p, [data(dtype, (2, n, rows)), data(dtype, (rows, n), 1)])
    assert "load_square" in generate(p).text and "store_square" in generate(p).text


def test_division_and_remainder_of_indices(isa):
    body = Body()
    x, out = buffer("x", dtypes.float32, (6, 10)), buffer("out", dtypes.float32, (60,), "output")
    k = Axis("k", 60)
    value = body.load(x, (k.var % 6, k.var // 6)) + body.cast(body.index(k.var // 7 * 3 + 1), dtypes.float32)
    check(
        program(body, [LoopKernel("reshape", (), (Step((k,), (Store(out, (k.var,), value),)),))], [x], [out]),
        [data(dtypes.float32, (6, 10))],
    )


@pytest.mark.parametrize("shift", [0, 16, 5])
@pytest.mark.parametrize("width, heads", [(16, 5), (32, 5), (48, 20), (20, 5), (20, 20)])
def test_head_splits_and_their_remainders(isa, width, heads, shift):
    """Division by the size of a head: contiguous loads where vectors do not cross heads, or where few heads are segments;
    gathers where they are many."""
    body = Body()
    n = heads * width
    x, out = buffer("x", dtypes.float32, (heads + 2, 7, width)), buffer("out", dtypes.float32, (7, n), "output")
    t, j = Axis("t", 7), Axis("j", n)
    at = j.var + shift
    value = (
        body.load(x, (at // width, t.var, at % width)) + body.load(x, ((at % (2 * width)) // width, t.var, j.var % width)) * 2.0
    )
    p = program(body, [LoopKernel("merge", (), (Step((t, j), (Store(out, (t.var, j.var), value),)),))], [x], [out])
    check(p, [data(dtypes.float32, (heads + 2, 7, width))])
    assert ("gather" in generate(p).text) == ((width % 16 != 0 or shift % 16 != 0) and (heads > 5 or shift != 0))


def test_masked_loads_never_touch_what_is_masked(isa):
    """Padding: the addresses of masked lanes lie outside of the array."""
    body, n = Body(), 40
    for dtype in (dtypes.float32, dtypes.int32, dtypes.float64, dtypes.bool):
        x, out = buffer("x", dtype, (n,)), buffer("out", dtype, (n + 6,), "output")
        i = Axis("i", n + 6)
        at = body.index(i.var - 3)
        inside = body.logical_and(body.ge(at, 0), body.lt(at, n))
        for place in (i.var - 3, (i.var - 3) * 1, n + 2 - i.var):
            value = body.load(x, (place,), inside if place is not n + 2 - i.var else inside, 1)
            check(
                program(body, [LoopKernel("pad", (), (Step((i,), (Store(out, (i.var,), value),)),))], [x], [out]),
                [data(dtype, (n,))],
                verify=False,
            )


def gather_program(rows, n, tokens):
    body = Body()
    table, index = buffer("table", dtypes.float32, (rows, n)), buffer("index", dtypes.int64, (tokens,))
    out, column = (buffer("out", dtypes.float32, (tokens, n), "output"), buffer("column", dtypes.float32, (tokens,), "output"))
    t, j, u = Axis("t", tokens), Axis("j", n), Axis("u", tokens)
    at = body.indirect(body.load(index, (t.var,)), rows)
    value = body.load(table, (at, j.var))
    lanes = body.indirect(body.load(index, (u.var,)), rows, "no such row")
    kernels = [
        LoopKernel("embedding", (t,), (Step((j,), (Store(out, (t.var, j.var), value),)),)),
        LoopKernel("first", (), (Step((u,), (Store(column, (u.var,), body.load(table, (lanes, 2))),)),)),
    ]
    return program(body, kernels, [table, index], [out, column])


def test_gathers_and_checks(isa):
    p = gather_program(9, 37, 50)
    table, index = data(dtypes.float32, (9, 37)), np.random.default_rng(0).integers(0, 9, 50)
    check(p, [table, index])
    for wrong in (9, -1, 2**40):
        index[33] = wrong
        compiled = tools.async_compile.load(p, wrap=False)
        with pytest.raises(CheckFailed, match="index out of range for a dimension of size 9"):
            compiled([table, index])


def test_uniform_and_many_axes(isa):
    body = Body()
    x, b, out = (
        buffer("x", dtypes.float32, (2, 3, 4, 19)),
        buffer("b", dtypes.float32, (3,)),
        buffer("out", dtypes.float32, (2, 3, 4, 19), "output"),
    )
    axes = tuple(Axis(f"i{k}", n) for k, n in enumerate((2, 3, 4, 19)))
    index = tuple(a.var for a in axes)
    value = body.load(x, index) * body.exp(body.load(b, (index[1],)))
    for outer in (0, 1, 3, 4):
        step = Step(axes[outer:], (Store(out, index, value),))
        check(
            program(body, [LoopKernel("scale", axes[:outer], (step,))], [x, b], [out]),
            [data(dtypes.float32, (2, 3, 4, 19)), data(dtypes.float32, (3,))],
        )


# -- scatter


@pytest.mark.parametrize("mode", ["set", "add"])
def test_scatter(isa, mode):
    for shared in (True, False):
        body, rows, n, tokens = Body(), 9, 37, 60
        g, index = buffer("g", dtypes.float32, (tokens, n)), buffer("index", dtypes.int64, (tokens,))
        start = buffer("start", dtypes.float32, (rows, n))
        for init in (None, start):
            out = buffer("out", dtypes.float32, (rows, n), "output")
            t, j = Axis("t", tokens), Axis("j", n)
            axes = (t, j) if shared else (j, t)
            at = body.indirect(body.load(index, (t.var,)), rows)
            kernel = ScatterKernel("scatter", axes, init, Store(out, (at, j.var), body.load(g, (t.var, j.var)), mode))
            check(
                program(body, [kernel], [g, index, start], [out]),
                [
                    data(dtypes.float32, (tokens, n)),
                    np.random.default_rng(1).integers(0, rows, tokens),
                    data(dtypes.float32, (rows, n), 4),
                ],
                rtol=1e-5,
            )


# -- products


def gemm_program(
    m,
    k,
    n,
    batch=(),
    a_order="row",
    b_order="row",
    dtype=dtypes.float32,
    epilogue=None,
    out_dtype=None,
    out_strides=None,
    shared_b=False,
):
    body = Body()
    out_dtype = out_dtype or dtype
    compute = dtype if not dtype.is_floating_point or dtype.itemsize > 2 else dtypes.float32
    a_shape, b_shape = (*batch, m, k), (() if shared_b else batch) + (k, n)
    turn = lambda shape: (*shape[:-2], shape[-1], shape[-2])
    swap = lambda s: (*s[:-2], s[-1], s[-2])
    a = buffer("a", dtype, a_shape if a_order == "row" else turn(a_shape))
    b = buffer("b", dtype, b_shape if b_order == "row" else turn(b_shape))
    bias = buffer("bias", dtypes.float32, (n,))
    out = buffer("out", out_dtype, (*batch, m, n), "output", strides=out_strides)
    axes = tuple(Axis(f"g{d}", size) for d, size in enumerate((*batch, m, n)))
    index = tuple(x.var for x in axes)
    value = body.acc("product", compute)
    if epilogue:
        value = epilogue(body, value, body.load(bias, (index[-1],)))
    a_strides = a.strides if a_order == "row" else swap(a.strides)
    b_strides = b.strides if b_order == "row" else swap(b.strides)
    if shared_b:
        b_strides = (0,) * len(batch) + b_strides
    kernel = GemmKernel(
        "linear",
        axes[:-2],
        axes[-2],
        axes[-1],
        Axis("k", k),
        Operand(a, a_strides),
        Operand(b, b_strides),
        compute,
        Step(axes, (Store(out, index, body.cast(value, out_dtype)),)),
    )
    return program(body, [kernel], [a, b, bias], [out]), [a, b, bias]


def run_gemm(*args, rtol=2e-5, **kw):
    p, inputs = gemm_program(*args, **kw)
    check(p, [data(b.dtype, b.sizes, k) for k, b in enumerate(inputs)], rtol=rtol, atol=rtol * 50)


@pytest.mark.parametrize("m,k,n", [(1, 5, 3), (7, 13, 33), (64, 64, 64), (130, 70, 290), (3, 700, 65)])
def test_products(isa, m, k, n):
    native._native.set_isa(isa)
    for a_order in ("row", "column"):
        for b_order in ("row", "column"):
            run_gemm(m, k, n, a_order=a_order, b_order=b_order)
    run_gemm(m, k, n, epilogue=lambda s, acc, bias: s.maximum(acc + bias, 0.0))
    run_gemm(m, k, n, out_strides=(1, m))
    native._native.set_isa("auto")


def test_epilogues_of_products_with_exchanged_roles(isa):
    """Few rows against (N, K) weights, and one column: the weight is read in place, and tiles are turned over."""
    native._native.set_isa(isa)

    def run(m, k, n, batch=(), dtype=dtypes.float32, rtol=2e-5):
        run_gemm(
            m,
            k,
            n,
            batch,
            b_order="column",
            dtype=dtype,
            rtol=rtol,
            epilogue=lambda s, acc, bias: s.maximum(acc, 0.0) + s.cast(bias, acc.dtype),
        )

    run(5, 70, 33)
    run(31, 33, 97, (2,))
    run(100, 40, 300)
    run(37, 20, 1)
    run(16, 600, 130, dtype=dtypes.bfloat16, rtol=2e-2)
    run(16, 60, 130, dtype=dtypes.float64, rtol=1e-12)
    native._native.set_isa("auto")


def test_batched_products_and_types(isa):
    run_gemm(9, 17, 21, (3, 2))
    run_gemm(9, 17, 21, (5,), shared_b=True, epilogue=lambda s, acc, bias: s.tanh(acc + bias) * 2.0, rtol=1e-4)
    run_gemm(9, 17, 21, dtype=dtypes.float64, rtol=1e-12)
    run_gemm(9, 17, 21, dtype=dtypes.bfloat16, rtol=1e-2)
    run_gemm(9, 17, 21, dtype=dtypes.float16, out_dtype=dtypes.float32, rtol=1e-3)
    run_gemm(9, 17, 21, (2,), dtype=dtypes.int64)
    run_gemm(9, 17, 21, dtype=dtypes.int8)


# -- the program as a whole


def test_symbolic_sizes(isa):
    from flambeau.capture.shapes.expr import var
    from flambeau.inductor.loops.ir import Symbol

    body, s0, s1 = Body(), var("s0"), var("s1")
    x, out = buffer("x", dtypes.float32, (s0, s1)), buffer("out", dtypes.float32, (s1, s0), "output")
    total = buffer("total", dtypes.float32, (s0,), "output")
    i, j = Axis("i", s0), Axis("j", s1)
    value = body.load(x, (i.var, j.var))
    kernels = [
        LoopKernel("turn", (), (Step((i, j), (Store(out, (j.var, i.var), value * body.cast(body.index(s0), dtypes.float32)),)),)),
        LoopKernel(
            "sums",
            (i,),
            (
                Step((j,), (), (Reduce(("s",), "sum", (value,), (dtypes.float32,)),)),
                Step((), (Store(total, (i.var,), body.acc("s", dtypes.float32)),)),
            ),
        ),
    ]
    p = program(body, kernels, [x], [out, total, s0 * s1 + 1], symbols=(Symbol("s0", 0, "size", 0), Symbol("s1", 0, "size", 1)))
    for sizes in ((2, 3), (17, 40), (5, 1000)):
        check(p, [data(dtypes.float32, sizes)], rtol=1e-5)


def test_temps_live_in_the_arena_and_equal_kernels_are_emitted_once():
    body, n = Body(), 100
    x, out = buffer("x", dtypes.float32, (n,)), buffer("out", dtypes.float32, (n,), "output")
    temps = [tools.Buffer(f"t{k}", dtypes.float32, (n,), (1,)) for k in range(3)]
    i = Axis("i", n)
    chain = [x, *temps, out]
    kernels = [
        LoopKernel(f"half{k}", (), (Step((i,), (Store(b, (i.var,), body.load(a, (i.var,)) * 0.5),)),))
        for k, (a, b) in enumerate(zip(chain, chain[1:]))
    ]
    p = program(body, kernels, [x], [out], temps=temps, arena={"t0": 0, "t1": 512, "t2": 0}, arena_size=1024)
    check(p, [data(dtypes.float32, (n,))])
    assert generate(p).text.count("static void") == 1
    assert generate(p).text == generate(p).text


def test_several_translation_units():
    body, n = Body(), 50
    x = buffer("x", dtypes.float32, (n,))
    outs = [buffer(f"out{k}", dtypes.float32, (n,), "output") for k in range(16)]
    i = Axis("i", n)
    kernels = [
        LoopKernel(f"map{k}", (), (Step((i,), (Store(o, (i.var,), body.load(x, (i.var,)) * float(k)),)),))
        for k, o in enumerate(outs)
    ]
    with config.patch(threads=2):
        p = program(body, kernels, [x], outs)
        assert len(generate(p).sources) == 2
        check(p, [data(dtypes.float32, (n,))])


def test_provenance_stands_above_the_kernel():
    from flambeau.inductor.loops.ir import Origin

    p = map_program(lambda s, a: s.exp(a), [dtypes.float32], dtypes.float32, (128, 64))
    kernel = p.kernels[0]
    kernel = LoopKernel(kernel.name, kernel.outer, kernel.steps, origins=(Origin("exp_1", "model.py:12  y = x.exp()"),))
    text = generate(p.with_kernels([kernel])).text
    assert "model.py:12  y = x.exp()" in text and "float32[128, 64]" in text and "65,536 bytes" in text


def test_types_without_registers_are_refused_by_name():
    with pytest.raises(Unsupported, match="uint64"):
        generate(map_program(lambda s, a: a, [dtypes.uint64], dtypes.uint64))


def test_threads_give_the_same_bits():
    p = softmax_program(300, 257)
    x = data(dtypes.float32, (300, 257))
    compiled = tools.async_compile.load(p, wrap=False)
    before = native.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 4):
            native.set_num_threads(threads)
            results.append(compiled([x])[0])
    finally:
        native.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
