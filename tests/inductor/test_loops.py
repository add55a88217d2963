"""The loop IR itself: hash-consing, types, folding, printing, and a verifier that refuses broken programs."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from flambeau.capture.shapes.expr import const, var
from flambeau.eager import dtypes
from flambeau.inductor.loops import interpreter
from flambeau.inductor.loops.body import Body, Buffer, Rewriter, reachable
from flambeau.inductor.loops.ir import Axis, LoopKernel, Program, Reduce, Step, Store, Verifier
from flambeau.runtime.config import config
from flambeau.runtime.errors import CheckFailed, InternalError


def buffer(name, *sizes, kind="input", dtype=dtypes.float32):
    strides = tuple(int(np.prod(sizes[d + 1 :])) for d in range(len(sizes)))
    return Buffer(name, dtype, sizes, strides, 0, kind)


def one_kernel(body_of, out=("y", 4, 6), dtype=dtypes.float32):
    """A program of one map kernel over (4, 6) that stores body_of(body, x, i, j)."""
    body, x, y = Body(), buffer("x", 4, 6), buffer(*out, kind="output", dtype=dtype)
    i, j = Axis("i", 4), Axis("j", 6)
    step = Step((j,), (Store(y, (i.var, j.var), body_of(body, x, i.var, j.var)),))
    return Program((x, y), (LoopKernel("k", (i,), (step,)),), (x,), (y,), checks=tuple(body.checks))


def test_equal_expressions_are_one_value():
    s, x = Body(), buffer("x", 4)
    a, b = s.load(x, (var("i", "index"),)), s.load(x, (var("i", "index"),))
    assert a is b and s.exp(a) + 1.0 is s.exp(b) + 1.0
    value = a
    for _ in range(40):
        value = value * value
    assert len(reachable((value,))) == 41  # an inlined x*x does not double the body


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda s, f, i: f + i, "float32"),
        (lambda s, f, i: i / 2, "float32"),
        (lambda s, f, i: i // 2, "int64"),
        (lambda s, f, i: f < 1, "bool"),
        (lambda s, f, i: s.exp(i), "float32"),
        (lambda s, f, i: s.cast(f, dtypes.bfloat16), "bfloat16"),
        (lambda s, f, i: i + 1.5, "float32"),
        (lambda s, f, i: s.where(f > 0, i, 0), "int64"),
        (lambda s, f, i: (f > 0) & (i > 0), "bool"),
        (lambda s, f, i: i & 3, "int64"),
        (lambda s, f, i: s.philox(i, 1, s.index(const(3)), 0), "int64"),
    ],
)
def test_types(make, expected):
    s = Body()
    f, i = s.load(buffer("f", 4), (0,)), s.load(buffer("i", 4, dtype=dtypes.int64), (0,))
    assert make(s, f, i).dtype.name == expected


def test_only_exact_identities_are_folded():
    s = Body()
    x = s.load(buffer("x", 4), (0,))
    assert x * 1.0 is x and x - 0.0 is x and x / 1 is x
    assert (x + 0.0) is not x  # -0.0 + 0.0 is 0.0
    assert (x * 0.0).op == "mul"  # NaN and infinity stay
    assert (s.const(2, dtypes.int64) + 3).attrs == 5
    assert s.where(s.const(True, dtypes.bool), x, 1.0) is x


def test_half_rounding_is_kept_on_request():
    s = Body()
    x = s.load(buffer("x", 4), (0,))
    with config.patch(keep_half_rounding=False):
        assert s.cast(s.cast(x, dtypes.bfloat16), dtypes.float32) is x
    with config.patch(keep_half_rounding=True):
        assert s.cast(s.cast(x, dtypes.bfloat16), dtypes.float32).op == "cast"


def test_values_have_no_truth():
    s = Body()
    x = s.load(buffer("x", 4), (0,))
    with pytest.raises(InternalError, match="not known"):
        bool(x > 0)


def test_rewriter_substitutes_and_follows_indirect_indices():
    s, table, ids = Body(), buffer("table", 5, 3), buffer("ids", 7, dtype=dtypes.int64)
    i, j = var("i", "index"), var("j", "index")
    row = s.indirect(s.load(ids, (i,)), 5)
    value = s.load(table, (row, j))
    moved = Rewriter(s, {"i": i + 2})(value)
    assert moved is not value and moved.args[0].args[0].attrs.index == (i + 2,)
    assert moved.args[0].attrs.check == value.args[0].attrs.check == 1
    assert Rewriter(s, {})(value) is value


def test_text_is_readable_and_deterministic(golden):
    def body(s, x, i, j):
        return s.exp(s.load(x, (i, j))) * s.cast(s.index(j), dtypes.float32)

    assert one_kernel(body).text() == one_kernel(body).text()
    golden("map.txt", one_kernel(body).text())


BROKEN = {
    "outside": lambda s, x, i, j: s.load(x, (i, j + 1)),
    "not in scope": lambda s, x, i, j: s.load(x, (i, var("z", "index"))),
    "is given int64": lambda s, x, i, j: s.index(j),
    "has 2 dimensions": lambda s, x, i, j: s.load(x, (i,)),
    "read before its step": lambda s, x, i, j: s.acc("total", dtypes.float32),
    "is not a buffer of the program": lambda s, x, i, j: s.load(buffer("other", 4, 6), (i, j)),
    "unknown scalar": lambda s, x, i, j: s.scalar("speed", dtypes.float32),
}


@pytest.mark.parametrize("message", BROKEN)
def test_verifier_refuses(message):
    with pytest.raises(InternalError, match=message):
        one_kernel(BROKEN[message]).verify()


def test_verifier_accepts_a_masked_load_outside():
    program = one_kernel(lambda s, x, i, j: s.load(x, (i, j + 3), s.lt(s.index(j + 3), 6), -1.0))
    program.verify()
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    expected = np.pad(x[:, 3:], ((0, 0), (0, 3)), constant_values=-1)
    np.testing.assert_array_equal(interpreter.run(program, [x])[0], expected)


def test_verifier_refuses_reading_what_another_point_writes():
    s, y = Body(), buffer("y", 8, kind="output")
    i = Axis("i", 4)
    shifted = Step((i,), (Store(y, (i.var,), s.load(y, (i.var + 1,))),))
    with pytest.raises(InternalError, match="another place"):
        Program((y,), (LoopKernel("k", (), (shifted,)),), (), (y,)).verify()


def row_twice(read):
    """A kernel that writes rows of 2 by 3 and reads them in a later step of `read` elements."""
    s, x, y, z = Body(), buffer("x", 24), buffer("y", 24, kind="output"), buffer("z", 24, kind="output")
    i, j, k, m = Axis("i", 4), Axis("j", 2), Axis("k", 3), Axis("m", read)
    first, again = 6 * i.var + 3 * j.var + k.var, 6 * i.var + m.var
    steps = (
        Step((j, k), (Store(y, (first,), s.neg(s.load(x, (first,)))),)),
        Step((m,), (Store(z, (again,), s.neg(s.load(y, (again,)))),)),
    )
    return Program((x, y, z), (LoopKernel("k", (i,), steps),), (x,), (y, z))


def test_a_row_may_be_read_back_with_its_axes_taken_as_one():
    program, x = row_twice(6), np.arange(24, dtype=np.float32)
    program.verify()
    np.testing.assert_array_equal(interpreter.run(program, [x])[1], x)
    for other in (5, 4):
        with pytest.raises(InternalError, match="another place"):
            row_twice(other).verify()


def test_an_axis_without_a_known_end_may_run_backwards():
    assert not Verifier.surely_outside(7 - var("n"), -math.inf, 7, 8, None)
    assert Verifier.surely_outside(7 - var("n"), -1, 7, 8, None) and Verifier.surely_outside(var("n") - 9, -math.inf, -1, 8, None)


def test_constants_fold_as_the_code_computes_them():
    s = Body()
    zero, none = s.const(0.0, dtypes.float32), s.const(0, dtypes.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(s.folded("truediv", (zero, zero), dtypes.float32).attrs)
        assert s.folded("log", (zero,), dtypes.float32).attrs == -math.inf
        assert s.folded("floordiv", (none, none), dtypes.int64) is None


def test_verifier_refuses_an_output_that_nothing_writes():
    program = one_kernel(lambda s, x, i, j: s.load(x, (i, j)))
    with pytest.raises(InternalError, match="never written"):
        replace(program, kernels=()).verify()


def test_indirect_index_out_of_range_fails_the_call():
    s, x, ids, y = Body(), buffer("x", 5), buffer("ids", 3, dtype=dtypes.int64), buffer("y", 3, kind="output")
    i = Axis("i", 3)
    value = s.load(x, (s.indirect(s.load(ids, (i.var,)), 5),))
    kernel = LoopKernel("k", (), (Step((i,), (Store(y, (i.var,), value),)),))
    program = Program((x, ids, y), (kernel,), (x, ids), (y,), checks=tuple(s.checks))
    program.verify()
    x_ = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(interpreter.run(program, [x_, np.array([4, 0, 2])])[0], [4, 0, 2])
    for bad in (5, -1):
        with pytest.raises(CheckFailed, match="size 5"):
            interpreter.run(program, [x_, np.array([4, bad, 2])])


@pytest.mark.parametrize("combine, expected", [("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min)])
def test_reductions_run_over_all_axes_of_the_step(combine, expected):
    s, x, y = Body(), buffer("x", 4, 6), buffer("y", 4, kind="output")
    i, j = Axis("i", 4), Axis("j", 6)
    reduce = Reduce(("a",), combine, (s.load(x, (i.var, j.var)),), (dtypes.float32,))
    last = Step((), (Store(y, (i.var,), s.acc("a", dtypes.float32)),))
    program = Program((x, y), (LoopKernel("k", (i,), (Step((j,), (), (reduce,)), last)),), (x,), (y,))
    program.verify()
    data = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    np.testing.assert_allclose(interpreter.run(program, [data])[0], expected(data, axis=1), rtol=1e-6)


def test_argmax_takes_the_least_position_and_a_nan_wins():
    s, x, y = Body(), buffer("x", 3, 4), buffer("y", 3, kind="output", dtype=dtypes.int64)
    i, j = Axis("i", 3), Axis("j", 4)
    reduce = Reduce(("a", "at"), "argmax", (s.load(x, (i.var, j.var)), s.index(j.var)), (dtypes.float32, dtypes.int64))
    last = Step((), (Store(y, (i.var,), s.acc("at", dtypes.int64)),))
    program = Program((x, y), (LoopKernel("k", (i,), (Step((j,), (), (reduce,)), last)),), (x,), (y,))
    data = np.array([[1, 3, 3, 0], [5, 5, 5, 5], [1, np.nan, 9, np.nan]], np.float32)
    np.testing.assert_array_equal(interpreter.run(program, [data])[0], [1, 0, 1])


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 2.5, -0.5])
def test_only_whole_numbers_stand_for_indices(number):
    """A choice between indices by a comparison with such a number is left to the kernel (a maximum of a bag compares with inf)."""
    s = Body()
    assert s.exact(s.const(number, dtypes.float64)) is None
    assert s.exact(s.const(2.0, dtypes.float64)) == 2 and s.exact(s.const(True, dtypes.bool)) == 1


def test_a_bag_of_one_row_whose_position_is_known():
    """Positions meet infinity in one comparison; where all are known, that was folded to a number no int can hold."""
    import flambeau as torch
    from flambeau.eager.op.op import OPS

    def winners(weight, index, first):
        won = OPS["bag_winners"](weight, index, first, 2)
        return torch.gather(won.reshape(1, 2, 1), 1, won.reshape(1, 2, 1).clamp(0, 1))

    given = torch.ones(1).expand(4, 2), torch.tensor([1]), torch.tensor([0, 1])
    with config.patch(strict=True):
        assert torch.equal(torch.compile(winners, backend="loops")(*given), winners(*given))
