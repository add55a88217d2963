"""Records: what the decorators derive, and what they refuse."""

import numpy as np
import pytest

from flambeau.eager import dispatch, dtypes as d
from flambeau.eager.op import op as ops
from flambeau.eager.op.op import (
    OPS,
    Kind,
    Out,
    composite,
    extern,
    find,
    indexed,
    pointwise,
    reduction,
    scalar,
    scatter,
    size,
    tensor,
    view,
)
from flambeau.eager.op.prims import COMBINES, NUMPY, PRIMS
from flambeau.eager.tensor import Tensor


@pytest.fixture
def fresh():
    """Records made by a test are taken out again."""
    before = set(OPS)
    yield
    for name in set(OPS) - before:
        del OPS[name]


def t(values):
    return Tensor._fl_from_array(np.asarray(values, np.float32), d.float32)


def test_pointwise(fresh):
    @pointwise(promote="float")
    def leaky(s, x, slope: scalar = 0.1):
        """Scales negative values."""
        return s.where(x > 0, x, x * slope)

    assert (
        leaky.kind is Kind.MAP
        and [p.role for p in leaky.params] == ["tensor", "scalar"]
        and leaky.doc == "Scales negative values."
    )
    assert leaky(t([-1.0, 2.0]))._fl_array.tolist() == pytest.approx([-0.1, 2.0])
    assert leaky(t([-1.0, 2.0]), slope=0.5)._fl_array.tolist() == [-0.5, 2.0]
    assert leaky.inplace(t([-1.0, 2.0]), 0.5)._fl_array.tolist() == [-0.5, 2.0]
    with pytest.raises(TypeError, match="missing required argument 'x'"):
        leaky()
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        leaky(t([1.0]), x=t([1.0]))
    with pytest.raises(ValueError, match="already defined"):
        pointwise(lambda s, x: x, name="leaky")
    with pytest.raises(ValueError, match="no parameter 'y'"):
        leaky.grad("y")


def test_formulas_that_return_an_operand_copy(fresh):
    @pointwise
    def same(s, x):
        return x

    @pointwise
    def second(s, a, b):
        return b

    x = t([1.0, 2.0])
    y = same(x)
    assert not np.shares_memory(x._fl_array, y._fl_array)
    assert second(t([[1.0], [2.0]]), t([3.0, 4.0]))._fl_array.tolist() == [[3.0, 4.0], [3.0, 4.0]]


def test_reduction_with_finish_and_parameters(fresh):
    @reduction(combine="sum", promote="float", finish=lambda s, acc, n, scale: acc / n * scale)
    def scaled_mean(s, x, scale: scalar):
        return x

    assert [p.name for p in scaled_mean.params] == ["x", "scale", "dim", "keepdim"]
    x = t([[1.0, 2.0], [3.0, 4.0]])
    assert scaled_mean(x, 10.0, (0,))._fl_array.tolist() == [20.0, 30.0]
    assert scaled_mean(x, 10.0, (0, 1), True)._fl_array.tolist() == [[25.0]]
    assert scaled_mean.ranges(x, 10.0, (1,), False) == (2,)


def test_reduction_of_two_outputs(fresh):
    @reduction(combine="argmax", outputs=("values", Out("indices", differentiable=False)))
    def biggest(s, x):
        return x

    values, indices = biggest(t([[1.0, 5.0], [9.0, 2.0], [9.0, 5.0]]), (0,), False)
    assert values._fl_array.tolist() == [9.0, 5.0] and indices._fl_array.tolist() == [1, 0] and indices.dtype is d.int64


def test_windows(fresh):
    def loop(s, i, r, x, size):
        return x(i[0] * size + r[0])

    @reduction(combine="max", meta=lambda x, size: (x.shape[0] // size,), ranges=lambda x, size: (size,), loop=loop)
    def pool(s, x, size: size):
        return x

    assert pool(t([1.0, 4.0, 2.0, 3.0]), 2)._fl_array.tolist() == [4.0, 3.0]


def test_indexed_and_masked_loads(fresh):
    @indexed(meta=lambda x, left, right: (x.shape[0] + left + right,), promote="keep")
    def padded(s, i, x, left: size, right: size):
        at = i[0] - left
        inside = s.logical_and(s.ge(s.index(at), 0), s.lt(s.index(at), x.shape[0]))
        return x(at, mask=inside, other=7)

    assert padded(t([1.0, 2.0]), 1, 2)._fl_array.tolist() == [7.0, 1.0, 2.0, 7.0, 7.0]


def test_indirect_checks_bounds(fresh):
    @indexed(meta=lambda x, index: index.shape, promote="keep", exclude=("index",))
    def pick(s, i, x, index: "tensor"):
        return x(s.indirect(index(*i), x.shape[0]))

    index = Tensor._fl_from_array(np.array([1, 0]), d.int64)
    assert pick(t([1.0, 2.0]), index)._fl_array.tolist() == [2.0, 1.0]
    with pytest.raises(IndexError, match="out of range for a dimension of size 1"):
        pick(t([1.0]), index)


def test_scatter_modes(fresh):
    def body(s, i, base, index: "tensor", source: "tensor"):
        return (s.indirect(index(*i), base.shape[0]),), source(*i)

    sizes = lambda base, index, source: index.shape  # noqa: E731
    put = scatter(body, ranges=sizes, name="put_test", mode="set", promote="keep")
    addto = scatter(body, ranges=sizes, name="add_test", mode="add", promote="keep")
    index, base = Tensor._fl_from_array(np.array([0, 0, 2]), d.int64), t([10.0, 20.0, 30.0])
    assert put(base, index, t([1.0, 2.0, 3.0]))._fl_array.tolist() == [2.0, 20.0, 3.0]
    assert addto(base, index, t([1.0, 2.0, 3.0]))._fl_array.tolist() == [13.0, 20.0, 33.0] and base._fl_array.tolist() == [
        10.0,
        20.0,
        30.0,
    ]


def test_view_derives_put_and_gradient(fresh):
    @view
    def every_other(shape, strides):
        return ((shape[0] + 1) // 2,), (strides[0] * 2,), 0

    x = t([1.0, 2.0, 3.0, 4.0, 5.0]).requires_grad_()
    y = every_other(x)
    assert y._fl_array.tolist() == [1.0, 3.0, 5.0] and y._base is x and every_other.put.kind is Kind.SCATTER
    OPS["sum"](y, (0,), False).backward()
    assert x.grad._fl_array.tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]
    assert every_other.put(x, t([7.0, 8.0, 9.0]))._fl_array.tolist() == [7.0, 2.0, 8.0, 4.0, 9.0]


def test_extern_needs_a_meta_rule_for_fakes(fresh):
    @extern
    def twice(a):
        return a * 2

    from flambeau.eager.tensor import fake_tensor

    assert twice(t([1.0]))._fl_array.tolist() == [2.0]
    with pytest.raises(TypeError, match="the record twice has no meta rule"):
        twice(fake_tensor((2,)))
    twice.meta(lambda a: a.shape)
    assert twice(fake_tensor((2,))).shape == (2,)


def test_composite_and_its_own_gradient(fresh):
    @composite
    def square_sum(x, dim):
        return OPS["sum"](OPS["mul"](x, x), dim, False)

    x = t([1.0, 2.0]).requires_grad_()
    y = square_sum(x, (0,))
    assert y.grad_fn.name() == "SumBackward0"

    @square_sum.grad("x")
    def _(g, x):
        return OPS["mul"](OPS["mul"](x, 2.0), g)

    y = square_sum(x, (0,))
    assert y.grad_fn.name() == "SquareSumBackward0"
    y.backward()
    assert x.grad._fl_array.tolist() == [2.0, 4.0]


def test_star_gradient_and_needs(fresh):
    asked = []

    @pointwise
    def both(s, a, b):
        return a * b

    @both.grad("*")
    def _(g, a, b, needs):
        asked.append(set(needs))
        return {"a": OPS["mul"](g, b), "b": OPS["mul"](g, a)}

    x, w = t([2.0]).requires_grad_(), t([3.0])
    both(x, w).backward()
    assert asked == [{"a"}] and x.grad._fl_array.tolist() == [3.0]


def test_formula_arguments_are_checked(fresh):
    @pointwise
    def thing(s, a):
        return a * 2

    with pytest.raises(ValueError, match="gradient of thing: 'q' is no parameter"):
        thing.grad("a")(lambda g, q: g)


def test_mutating_records_have_a_pure_form(fresh):
    def kernel(x, total):
        return x * 2, total + x.sum()

    counted = ops.Op(
        name="counted",
        kind=Kind.EXTERN,
        fn=kernel,
        promote="keep",
        mutates=("total",),
        params=(ops.Param("x"), ops.Param("total")),
        meta_rule=lambda x, total: (dispatch.infer and x, total),
    )
    x, total = t([1.0, 2.0]), t(0.0)
    assert counted(x, total)._fl_array.tolist() == [2.0, 4.0] and total.item() == 3.0 and total._version == 1
    out, new = counted.pure(x, total)
    assert new.item() == 6.0 and total.item() == 3.0 and counted.pure.mutates == () and len(counted.pure.outputs) == 2


def test_find_and_pickle():
    import pickle

    assert pickle.loads(pickle.dumps(OPS["add"])) is OPS["add"] and find("mul_") is OPS["mul"].inplace
    with pytest.raises(KeyError):
        find("no_such_record")


def test_entry_is_one_function_per_record():
    entry = ops.specialise(OPS["add"])
    assert entry is ops.specialise(OPS["add"]) and entry.__name__ == "add" and entry.op is OPS["add"]


def test_operators_leave_foreign_operands_alone():
    plus = dispatch.operator(OPS["sub"])
    minus_from = dispatch.operator(OPS["sub"], swapped=True)
    x = t([1.0, 2.0])
    assert plus(x, object()) is NotImplemented and minus_from(x, "s") is NotImplemented
    assert plus(x, np.float64(0.5))._fl_array.tolist() == [0.5, 1.5] and plus(x, np.float64(0.5)).dtype is d.float32
    assert minus_from(x, 5)._fl_array.tolist() == [4.0, 3.0] and plus(x, np.ones(2, np.float32))._fl_array.tolist() == [0.0, 1.0]


def test_modes_nest():
    log = []

    class Named(dispatch.Mode):
        def __init__(self, name):
            self.name = name

        def dispatch(self, op, args):
            log.append((self.name, op.name))
            with dispatch.below():
                return dispatch.call(op, args)

    x = t([1.0])
    with Named("outer"), Named("inner"):
        OPS["add"](x, x)
        with dispatch.no_modes():
            OPS["mul"](x, x)
    OPS["sub"](x, x)
    assert log == [("inner", "add"), ("outer", "add")]


def test_autocast_hook_sees_only_records_with_a_policy(fresh):
    @pointwise(autocast="lower")
    def lowered(s, a):
        return a * 1

    seen = []
    with dispatch.setting(autocast=lambda op, args: seen.append(op.name) or args):
        lowered(t([1.0]))
        OPS["add"](t([1.0]), 1.0)
    assert "lowered" in seen and "add" not in seen


def test_vocabulary_offers_every_primitive():
    assert all(hasattr(NUMPY, name) for name in PRIMS)
    assert set(COMBINES) == {"sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "welford", "logsumexp"}


def test_primitives_mean_what_they_say():
    import math

    x = np.array([-7.0, -2.5, -0.5, 0.0, 0.5, 1.5, 2.5, 7.0], np.float32)
    assert NUMPY.round(x).tolist() == [-7.0, -2.0, 0.0, 0.0, 0.0, 2.0, 2.0, 7.0]
    assert NUMPY.floordiv(np.int64(-7), np.int64(2)) == -4 and NUMPY.mod(np.int64(-7), np.int64(2)) == 1
    assert math.isnan(NUMPY.maximum(np.float32("nan"), np.float32(1)))
    np.testing.assert_allclose(NUMPY.erf(x), [math.erf(v) for v in x], rtol=1e-6)
    wide = np.linspace(-6, 6, 1001)
    np.testing.assert_allclose(NUMPY.erf(wide), [math.erf(v) for v in wide], rtol=3e-14)
    assert NUMPY.cast(np.float32([1.9, -1.9]), d.int64).tolist() == [1, -1] and NUMPY.rsqrt(np.float32(4)) == 0.5


def test_combines():
    x = np.array([[1.0, np.nan, 3.0], [5.0, 1.0, 3.0]], np.float32)
    value, index = COMBINES["argmax"].reduce(x, (1,))
    assert np.isnan(value[0]) and value[1] == 5 and index.tolist() == [1, 0]
    value, index = COMBINES["argmin"].reduce(x[1:], (0, 1))
    assert (value, index) == (1, 1)
    mean, m2, n = COMBINES["welford"].reduce(x[1:], (1,))
    assert mean[0] == 3 and m2[0] == 8 and n[0] == 3
    big = np.array([1000.0, 1000.0], np.float32)
    assert COMBINES["logsumexp"].reduce(big, (0,))[0] == pytest.approx(1000 + np.log(2))
    with np.errstate(divide="ignore"):
        assert COMBINES["logsumexp"].reduce(np.full(3, -np.inf, np.float32), (0,))[0] == -np.inf
    assert COMBINES["max"].identity(d.int8) == -128 and COMBINES["min"].identity(d.float32) == float("inf")
