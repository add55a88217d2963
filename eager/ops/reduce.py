"""Reductions over dims (`dim`: a tuple of non-negative ints; all of them for a whole tensor; empty: none).

Gradients expand the result's gradient back over the reduced dims. Sums of integers are int64.
"""

import numpy as np

from ...runtime import reductions
from .. import dtypes
from ..op.gradient import Meta
from ..op.op import composite, Out, reduction, scalar, static
from ..op.promote import ordered
from .arithmetic import absolute, add, bitwise_or, cast, clamp, div, eq, mul, ne, sign, square, sub, where
from .elementary import exp, power, sqrt
from .upcast import back, single
from .indexing import spread
from .views import expand, squeeze, unsqueeze


def keep_dims(g, dim, keepdim):
    """The gradient of a result with its reduced dims as size 1."""
    if not keepdim:
        for d in sorted(dim):
            g = unsqueeze(g, d)
    return g


def spread_over(g, shape, dim, keepdim):
    """The gradient of a result, expanded to the sizes of what was reduced."""
    return expand(keep_dims(g, dim, keepdim), tuple(shape))


def extent(shape, dim):
    n = 1
    for d in dim:
        n = n * shape[d]
    return n


def _samples(make):
    return [
        (make(3, 4), (1,), False),
        (make(3, 4), (0,), True),
        (make(2, 3, 4), (0, 2), False),
        (make(2, 3, 4), (0, 1, 2), False),
        (make(), (), False),
        (make(4, 3).t(), (1,), False),
        (make(2, 3, 2), (1,), True),
    ]


def _with_empty(make):
    return _samples(make) + [(make(0, 3), (0,), False), (make(2, 0), (0,), True)]


@reduction(combine="sum", promote="int_to_long")
def sum(s, x):
    return x


def _native(name, x, dim, keepdim, divisor=1.0):
    if not isinstance(x, np.ndarray) or not x.size:
        return NotImplemented
    return reductions.reduce(name, x, dim, keepdim, divisor)


@sum.native
def _(x, dim, keepdim):
    if isinstance(x, np.ndarray) and x.dtype == np.bool_ and len(dim) == x.ndim:
        return np.full((1,) * x.ndim if keepdim else (), np.count_nonzero(x), np.int64)
    return _native("sum", x, dim, keepdim)


@sum.numpy
def _(x, dim, keepdim):
    kind = x.dtype
    if kind.kind in "biu":
        return np.add.reduce(x, dim, np.int64, keepdims=keepdim)
    if kind.itemsize < 4:
        return np.add.reduce(x.astype(np.float32), dim, keepdims=keepdim).astype(kind)
    if x.flags.c_contiguous and x.size and dim and dim == tuple(range(len(dim))) and len(dim) < x.ndim:
        rows, cols = extent(x.shape, dim), extent(x.shape, range(len(dim), x.ndim))
        return _sum_rows(x.reshape(rows, cols)).reshape(((1,) * len(dim) if keepdim else ()) + x.shape[len(dim) :])
    return np.add.reduce(x, dim, keepdims=keepdim)


_BLOCK = 128


def _sum_rows(x):
    """The sum of all rows, block by block: numpy adds row after row, and the rounding error grows with their number."""
    rows, cols = x.shape
    whole = rows - rows % _BLOCK
    if whole <= _BLOCK:
        return np.add.reduce(x, 0)
    out = _sum_rows(np.add.reduce(x[:whole].reshape(-1, _BLOCK, cols), 1))
    return out if whole == rows else out + np.add.reduce(x[whole:], 0)


@sum.grad("x")
def _(g, x: Meta, dim, keepdim):
    return spread_over(g, x.shape, dim, keepdim)


sum.samples(lambda make: _with_empty(make) + [(make.ints(5, 2, 3), (1,), False), (make.bools(4), (0,), False)])


@reduction(combine="sum")
def nansum(s, x):
    """The sum of what is no NaN."""
    return s.where(s.eq(x, x), x, 0)


@nansum.native
def _(x, dim, keepdim):
    return _native("numbers", x, dim, keepdim)


@nansum.numpy
def _(x, dim, keepdim):
    return sum.kernels["numpy"](np.where(x == x, x, x.dtype.type(0)), dim, keepdim)


@nansum.grad("x")
def _(g, x, dim, keepdim):
    return mul(spread_over(g, x.shape, dim, keepdim), eq(x, x))  # (an infinite gradient is NaN at a NaN, as PyTorch's)


nansum.samples(lambda make: _with_empty(make) + [(make.special(7), (0,), False)])


@reduction(combine="sum", finish=lambda s, acc, n: acc / n)
def mean(s, x):
    return x


@mean.native
def _(x, dim, keepdim):
    return _native("sum", x, dim, keepdim, float(extent(x.shape, dim)))


@mean.numpy
def _(x, dim, keepdim):
    kind = x.dtype
    inner = x.astype(np.float32) if kind.itemsize < 4 else x
    total = np.asarray(np.add.reduce(inner, dim, keepdims=keepdim))
    with np.errstate(all="ignore"):
        return (total / inner.dtype.type(extent(x.shape, dim))).astype(kind, copy=False)


@mean.grad("x")
def _(g, x: Meta, dim, keepdim):
    return spread_over(div(g, extent(x.shape, dim)), x.shape, dim, keepdim)


mean.samples(_samples)


@reduction(combine="prod", promote="int_to_long")
def prod(s, x):
    return x


@prod.native
def _(x, dim, keepdim):
    return _native("product", x, dim, keepdim)


@prod.numpy
def _(x, dim, keepdim):
    if x.dtype.kind in "biu":
        return np.multiply.reduce(x, dim, np.int64, keepdims=keepdim)
    if x.dtype.itemsize < 4:
        return np.multiply.reduce(x.astype(np.float32), dim, keepdims=keepdim).astype(x.dtype)
    return np.multiply.reduce(x, dim, keepdims=keepdim)


@prod.grad("x")
def _(g, x, out, dim, keepdim):
    """Of one element: as it is. Where a row has no zero: out / x. With one zero: at the zero, the product of the others.
    With more: nothing."""
    if _alone(x.shape, dim):
        return keep_dims(g, dim, keepdim)
    zero = eq(x, 0)
    zeros = sum(zero, dim, True)
    others = prod(where(zero, 1.0, x), dim, True)
    slope = where(zero, where(eq(zeros, 1), others, 0.0), where(eq(zeros, 0), div(others, where(zero, 1.0, x)), 0.0))
    return mul(keep_dims(g, dim, keepdim), slope)


prod.samples(_with_empty)


def _extreme(name, combine):
    def fn(s, x):
        return x

    fn.__name__ = name
    record = reduction(fn, combine=combine, promote=ordered(f"{combine}_values"))
    record.native(lambda x, dim, keepdim: _native(combine, x, dim, keepdim))

    @record.grad("x")
    def _(g, x, out, dim, keepdim):
        """Elements that tie share the gradient evenly. Where a NaN has won, those that are NaN do in max and min of
        everything; in rows nothing equals it, and all is NaN, as in PyTorch."""
        here = eq(x, keep_dims(out, dim, keepdim))
        here = bitwise_or(here, ne(x, x)) if name.endswith("_of_all") and x.dtype.is_floating_point else here
        count = sum(here, dim, True)
        return mul(here, div(keep_dims(g, dim, keepdim), count))

    record.samples(lambda make: _samples(make) + [(make.ints(5, 2, 3), (1,), False), (make.special(7), (0,), False)])
    return record


amax, amin = _extreme("amax", "max"), _extreme("amin", "min")
max_of_all, min_of_all = _extreme("max_of_all", "max"), _extreme("min_of_all", "min")


def _with_position(name, combine):
    def fn(s, x):
        return x

    fn.__name__ = name
    record = reduction(fn, combine=combine, promote=ordered(name[:3]), outputs=("values", Out("indices", differentiable=False)))

    @record.native
    def _(x, dim, keepdim):
        return reductions.extreme(combine, x, dim, keepdim) if x.size else NotImplemented

    @record.grad("x")
    def _(g, x: Meta, indices, dim, keepdim):
        if keepdim:
            g, indices = squeeze(g, dim), squeeze(indices, dim)
        return spread(g, indices, dim[0], x.shape[dim[0]])

    record.samples(
        lambda make: [
            (make(3, 4), (1,), False),
            (make(3, 4), (0,), True),
            (make(2, 3, 2), (1,), False),
            (make(5), (0,), False),
            (make.ints(4, 3, 5), (1,), False),
            (make.special(7), (0,), False),
            (make(4, 3).t(), (1,), True),
        ]
    )
    return record


max_dim, min_dim = _with_position("max_dim", "argmax"), _with_position("min_dim", "argmin")


def _position(name):
    def fn(s, x):
        return x

    fn.__name__ = name
    record = reduction(
        fn,
        combine=name,
        promote=ordered(name, "long", "{}(): does not support complex input"),
        finish=lambda s, acc, n: acc[1],
        outputs=(Out(differentiable=False),),
    )

    @record.native
    def _(x, dim, keepdim):
        if isinstance(x, np.ndarray) and x.dtype.kind in "iu" and x.size and len(dim) == 1:
            return getattr(x, name)(dim[0], keepdims=keepdim)
        found = reductions.extreme(name, x, dim, keepdim) if x.size else NotImplemented
        return found if found is NotImplemented else found[1]

    record.samples(lambda make: _samples(make)[:4] + [(make.ints(4, 3, 5), (1,), False), (make.special(7), (0,), False)])
    return record


argmax, argmin = _position("argmax"), _position("argmin")


@reduction(combine="any", promote="bool", name="any")
def any_(s, x):
    return s.ne(x, 0)


@reduction(combine="all", promote="bool", name="all")
def all_(s, x):
    return s.ne(x, 0)


for _op in (any_, all_):
    _op.samples(
        lambda make: [
            (make.bools(3, 4), (1,), False),
            (make.bools(3, 4), (0, 1), True),
            (make.ints(2, 5), (0,), False),
            (make.bools(0, 3), (0,), False),
        ]
    )


@reduction(combine="logsumexp", promote="float")
def logsumexp(s, x):
    return x


logsumexp.native(lambda x, dim, keepdim: reductions.logsumexp(x, dim, keepdim) if x.size else NotImplemented)


@logsumexp.grad("x")
def _(g, x, out, dim, keepdim):
    return mul(keep_dims(g, dim, keepdim), exp(sub(x, keep_dims(out, dim, keepdim))))


logsumexp.samples(_samples)


# -- variance: squares of the deviations from the mean, divided by n - correction


def _variance(s, acc, n, correction):
    return acc[1] / _degrees(s, n, correction)


def _degrees(s, n, correction):
    if isinstance(n, (int, float)):
        return float(max(n - correction, 0))
    return s.maximum(n - correction, 0)


def _floating_samples(make):
    return [
        (make(3, 4), 1, (1,), False),
        (make(3, 4), 0, (0,), True),
        (make(2, 3, 4), 1, (0, 2), False),
        (make(5), 1, (0,), False),
        (make(4, 3).t(), 1, (0, 1), False),
    ]


@reduction(combine="welford", finish=_variance)
def var(s, x, correction: static):
    return x


def _numpy_variance(x, correction, dim):
    kind = x.dtype
    x = x.astype(np.float32) if kind.itemsize < 4 else x
    n = extent(x.shape, dim)
    with np.errstate(all="ignore"):
        middle = np.add.reduce(x, dim, keepdims=True) / x.dtype.type(n)
        deviation = np.asarray(x - middle)
        total = np.add.reduce(np.square(deviation, out=deviation), dim, keepdims=True)
        return (total / x.dtype.type(max(n - correction, 0))).astype(kind), middle.astype(kind)


def _dropped(x, dim, keepdim):
    return x if keepdim else x.squeeze(dim)


@var.native
def _(x, correction, dim, keepdim):
    found = reductions.variance(x, correction, dim, keepdim)
    return found if found is NotImplemented else found[0]


@var.numpy
def _(x, correction, dim, keepdim):
    return _dropped(_numpy_variance(x, correction, dim)[0], dim, keepdim)


def _var_grad(g, x, correction, dim, keepdim):
    n, middle = extent(x.shape, dim), mean(x, dim, True)
    return mul(keep_dims(g, dim, keepdim), mul(sub(x, middle), div_number(2.0, n - correction)))


def div_number(a, b):
    """a / b for a Python or symbolic b; what dividing by zero gives in floating point."""
    return float("inf") if type(b) in (int, float) and b == 0 else a / b


@var.grad("x")
def _(g, x, correction, dim, keepdim):
    return _var_grad(g, x, correction, dim, keepdim)


var.samples(_floating_samples)


@composite
def exhausted_var(x, correction: static, dim: static, keepdim=False):
    """The variance with no degree of freedom left, of float32 and bfloat16: infinite where elements differ, by however
    little. Only doubles hold the squares of the least differences: 0 / 0 would be NaN."""
    return back(var(cast(x, dtypes.float64), correction, dim, keepdim), x)


@exhausted_var.grad("x")
def _(g, x, correction, dim, keepdim):
    return _var_grad(g, x, correction, dim, keepdim)


exhausted_var.samples(lambda make: [(make(3, 4), 4, (1,), False), (make(2, 3, 4), 9, (0, 2), True)])


@reduction(
    combine="welford", outputs=("var", "mean"), finish=lambda s, acc, n, correction: (_variance(s, acc, n, correction), acc[0])
)
def var_mean(s, x, correction: static):
    return x


var_mean.native(reductions.variance)


@var_mean.numpy
def _(x, correction, dim, keepdim):
    return tuple(_dropped(a, dim, keepdim) for a in _numpy_variance(x, correction, dim))


@var_mean.grad("x")
def _(g_var, g_mean, x, correction, dim, keepdim):
    total = None if g_var is None else _var_grad(g_var, x, correction, dim, keepdim)
    if g_mean is None:
        return total
    part = spread_over(div(g_mean, extent(x.shape, dim)), x.shape, dim, keepdim)
    return part if total is None else add(total, part)


var_mean.samples(_floating_samples)


@composite
def std(x, correction: static, dim: static, keepdim=False):
    """Halves hold many a deviation whose square they do not hold."""
    return back(sqrt(var(single(x), correction, dim, keepdim)), x)


@std.grad("x")
def _(g, x, out, correction, dim, keepdim):
    """Where all values are one, the slope of the root is left out: the gradient is 0."""
    slope = where(eq(out, 0), 0.0, div(single(g), mul(single(out), 2.0)))
    return back(_var_grad(slope, single(x), correction, dim, keepdim), x)


std.samples(_floating_samples)


# -- norms


@composite
def norm(x, p: scalar, dim: static, keepdim=False):
    """(sum |x|**p) ** (1/p), with the limits at p = inf, -inf and 0. Powers of halves are summed in float32."""
    if p != 0 and _alone(x.shape, dim):
        return _first_of(absolute(x), dim, keepdim)
    if p == 2:
        return back(sqrt(sum(square(single(x)), dim, keepdim)), x)
    if p == 1:
        return sum(absolute(x), dim, keepdim)
    if p == float("inf"):
        return amax(absolute(x), dim, keepdim)
    if p == float("-inf"):
        return amin(absolute(x), dim, keepdim)
    if p == 0:
        return sum(cast(ne(x, 0), x.dtype), dim, keepdim)
    return back(power(sum(power(absolute(single(x)), p), dim, keepdim), 1.0 / p), x)


def _alone(shape, dim):
    """Whether each result is made of one element: its magnitude is every norm, whatever its powers are."""
    return all(type(shape[d]) is int and shape[d] == 1 for d in dim)


def _first_of(x, dim, keepdim):
    return x if keepdim else squeeze(x, tuple(dim))


@norm.native
def _(x, p, dim, keepdim):
    if p != 0 and _alone(x.shape, dim):
        return NotImplemented
    return reductions.norm2(x, dim, keepdim) if p == 2 else NotImplemented


@norm.numpy
def _(x, p, dim, keepdim):
    if p != 2 or not x.ndim or x.size == 1 or x.dtype.itemsize < 4 or len(dim) != x.ndim or not x.flags.c_contiguous:
        return NotImplemented
    flat = x.reshape(-1)
    return np.sqrt(flat @ flat).reshape((1,) * x.ndim if keepdim else ())


@norm.grad("x")
def _(g, x, p, dim, keepdim, out):
    """At zero the gradient of a norm is taken as zero."""
    g, out = keep_dims(g, dim, keepdim), keep_dims(out, dim, keepdim)
    limit = p in (1, float("inf"), float("-inf"))
    if p != 0 and _alone(x.shape, dim):
        return mul(g, sign(x) if limit else where(eq(x, x), sign(x), x))
    if p == 2:
        return mul(g, _safe_quotient(x, out))
    if p == 1:
        return mul(g, sign(x))
    if p == 0:
        return mul(x, 0)
    if limit:
        here = eq(absolute(x), out)
        return mul(mul(sign(x), here), div(g, clamp(sum(here, dim, True), 1, None)))  # (nothing equals NaN)
    y = single(x)
    steep = mul(sign(y), power(absolute(y), p - 1))
    return back(mul(where(eq(y, 0), 0.0, steep), _safe_quotient(single(g), power(single(out), p - 1))), x)


def _safe_quotient(a, b):
    return where(eq(b, 0), 0.0, div(a, b))


@norm.samples
def _(make):
    return [
        (make(3, 4), 2.0, (0, 1), False),
        (make(3, 4), 2.0, (1,), True),
        (make.positive(3, 4), 1.0, (0,), False),
        (make.positive(2, 3), float("inf"), (1,), False),
        (make.positive(2, 3), 3.0, (1,), False),
    ]
