"""Maps and reductions down the columns of one array share their outermost loops: one kernel, one slab of the array at a time."""

import flambeau
import numpy as np
import pytest
from flambeau.inductor.schedule import column_slabs
from flambeau.inductor.schedule.loop_nest import Parallelism
from flambeau.inductor.loops.lower import lower
from flambeau.inductor.schedule.scheduler import schedule

from .test_moves import kernels_of

randn = flambeau.randn


def normal(x, dim):
    d = x - x.mean(dim, keepdim=True)
    return d * ((d * d).mean(dim, keepdim=True) + 1e-5).rsqrt()


def softmax_gradient(x, dim):
    y = x.softmax(dim)
    g = x * 2
    return y * (g - (g * y).sum(dim, keepdim=True))


def variance(x, dim):
    var, mean = flambeau.var_mean(x, dim, keepdim=True)
    return (x - mean) / (var + 1e-5).sqrt(), mean


ALONG = {
    "softmax": lambda x, dim: x.softmax(dim),
    "log_softmax": lambda x, dim: x.log_softmax(dim),
    "normal": normal,
    "variance": variance,
    "length": lambda x, dim: x / x.norm(dim=dim, keepdim=True),
    "softmax_gradient": softmax_gradient,
    "product": lambda x, dim: x * 0.5 / (1 + (x * 0.1 + 1).prod(dim, keepdim=True).abs()),
    "map_before": lambda x, dim: (x.exp(), x.exp().sum(dim)),
}
SHAPES = (
    ((40, 9, 130), 1),
    ((9, 13, 600), 1),
    ((70, 5, 8), 1),
    ((3, 4, 6, 67), 2),
    ((12, 1031), 0),
    ((65, 2, 9), -2),
    ((5, 3, 40, 33), 1),
)
TOLERANCE = {"float64": 1e-10, "float32": 2e-5, "bfloat16": 5e-2, "float16": 5e-3}


def number_of_kernels(f, *args):
    return kernels_of(f, *args).count("static void kernel_")


def close(found, wanted, tolerance, exact=None):
    """Types and strides are `wanted`'s, values are those of `exact`, which has more digits."""
    several = isinstance(wanted, tuple)
    for x, y, z in zip(found, wanted, exact or wanted) if several else ((found, wanted, wanted if exact is None else exact),):
        assert x.dtype is y.dtype and x.shape == y.shape and x.stride() == y.stride()
        np.testing.assert_allclose(x.double().numpy(), z.double().numpy(), tolerance, tolerance)


@pytest.mark.parametrize("name", ALONG)
def test_one_kernel(name):
    f = ALONG[name]
    assert number_of_kernels(lambda x: f(x, 1), randn(40, 9, 130)) == 1
    assert number_of_kernels(lambda x: f(x, 0), randn(12, 1031)) == 1


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ALONG)
def test_one_kernel_gives_what_eager_gives(name, dtype):
    f = ALONG[name]
    for shape, dim in SHAPES:
        x = randn(*shape).to(getattr(flambeau, dtype))
        run = flambeau.compile(lambda x: f(x, dim), dynamic=False, options={"verify": dtype == "float32"})
        close(run(x), f(x, dim), TOLERANCE[dtype], f(x.double(), dim))


def test_whole_numbers_and_masks():
    def f(x, mask):
        kept = flambeau.where(mask, x, 0)
        return kept * kept.amax(1, keepdim=True) - kept.sum(1, keepdim=True), kept > kept.amin(1, keepdim=True)

    for dtype in (flambeau.int32, flambeau.int64, flambeau.int16, flambeau.uint8):
        x = flambeau.randint(0, 9, (40, 7, 61)).to(dtype)
        close(flambeau.compile(f, dynamic=False)(x, x > 3), f(x, x > 3), 0)


@pytest.mark.parametrize("name", ALONG)
def test_symbolic_sizes(name):
    f = ALONG[name]
    run = flambeau.compile(lambda x: f(x, 1), dynamic=True)
    for shape in ((40, 9, 130), (33, 12, 257), (300, 2, 7), (2, 3, 1000), (7, 400, 600)):
        x = randn(*shape)
        close(run(x), f(x, 1), 2e-5)
    total = flambeau.compile(lambda x: x - x.sum(1, keepdim=True), dynamic=True)
    for shape in ((40, 9, 130), (0, 9, 130), (40, 0, 130), (40, 9, 0)):
        assert total(randn(*shape)).shape == shape


def test_gradients():
    for f in (ALONG["softmax"], ALONG["log_softmax"], normal):
        x, g = randn(40, 9, 130), randn(40, 9, 130)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        f(a, 1).backward(g)
        flambeau.compile(lambda x: f(x, 1), dynamic=False)(b).backward(g)
        close(b.grad, a.grad, 5e-5)


def sums_then_writes(x):
    total = x.sum(1, keepdim=True)
    x.mul_(2)
    return x - total


def writes_in_place(x):
    x.copy_(x.softmax(1))
    return x.amax(1)


def writes_what_was_summed(x):
    x.sub_(x.mean(1, keepdim=True))
    x.div_((x * x).mean(1, keepdim=True).sqrt() + 1)
    return x.sum(1)


def writes_a_slice(x):
    total = x.sum(1, keepdim=True)
    x[:, 2] = 7
    return x / (total.abs() + 1)


def writes_through_a_view(x):
    y = x.transpose(0, 1)
    m = x.amax(1, keepdim=True)
    y.add_(1)
    return (x - m).exp()


WRITES = (sums_then_writes, writes_in_place, writes_what_was_summed, writes_a_slice, writes_through_a_view)


@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("f", WRITES, ids=lambda f: f.__name__)
def test_what_is_written_between(f, dynamic):
    run = flambeau.compile(f, dynamic=dynamic, options={"verify": True})
    for shape in ((40, 9, 130), (64, 5, 33)):
        x = randn(*shape)
        y = x.clone()
        close(run(y), f(x), 2e-5)
        close(y, x, 2e-5)


def other_outer_index(x):
    return x - x.sum(1, keepdim=True).flip(0)


def previous_outer_index(x):
    return x - x.sum(1, keepdim=True).roll(1, 0)


def other_column(x):
    return x - x.sum(1, keepdim=True).flip(2)


def everything(x):
    return x - x.sum(1, keepdim=True).amax(0, keepdim=True)


@pytest.mark.parametrize("f", (other_outer_index, previous_outer_index, other_column, everything), ids=lambda f: f.__name__)
def test_what_reads_another_outer_index_has_a_kernel_of_its_own(f):
    for shape in ((40, 9, 130), (64, 5, 33)):
        x = randn(*shape)
        assert number_of_kernels(f, x) > 1
        close(flambeau.compile(f, dynamic=False)(x), f(x), 2e-5)


def test_slabs_fit_the_cache_and_keep_threads_busy():
    f = ALONG["softmax"]
    apart = number_of_kernels(lambda x: f(x, 1), randn(4, 20000, 64))
    assert apart > 1  # rows of a slab that leave the second-level cache
    assert number_of_kernels(lambda x: f(x, 1), randn(2, 9, 40)) == apart  # too few columns to share
    assert number_of_kernels(lambda x: f(x, 1), randn(500, 9, 3)) == apart  # too narrow for vectors
    assert column_slabs.SLAB < 1 << 20


def test_a_single_element_of_sums_of_columns():
    def f(x, y):
        return y * x.sum(1)[3, 7]

    x, y = randn(70, 9, 130), randn(1)
    close(flambeau.compile(f, dynamic=False)(x, y), f(x, y), 2e-5)


def test_targets_without_vectors_of_one_core_keep_their_kernels(trace):
    from flambeau.eager.op.op import OPS as O

    f = lambda x: O["sub"](x, O["sum"](x, (1,), True))
    program = lower(trace(f, randn(40, 9, 130)))
    assert [len(schedule(program, p).kernels) for p in (Parallelism(), Parallelism(lanes=True))] == [2, 1]


def test_what_depends_on_the_column_alone_is_computed_once_a_column():
    text = kernels_of(lambda x: x.log_softmax(1), randn(40, 9, 130))
    before, after = text.split("v_log(")
    assert before.rstrip().rsplit("each_column", 1)[1].count("for (") == 0 and "v_log(" not in after
    assert "held_" in after and "for (i64 j0" in after
