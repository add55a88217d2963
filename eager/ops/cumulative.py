"""Running products, extremes and log-sums along a dim, and the linear recurrence behind their gradients."""

import numpy as np

from ...runtime import cumulative
from ..op.gradient import Meta
from ..op.op import extern, Out, scan, static
from ..state import state
from .arithmetic import add, gt, mul, neg, sub, where
from .creation import full
from .elementary import exp, log
from .indexing import scatter_add
from .sorting import accumulated, cumsum
from .rearrange import cat, flip
from .views import slice_dim


@extern(template="recurrence", meta=lambda a, b, dim, reverse: b.shape)
def linear_scan(a, b, dim: static, reverse: static = False):
    """y[t] = b[t] + a[t] * y[t - 1] along dim (t + 1 in reverse); a and b have equal sizes."""
    a, b = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)
    out = np.empty_like(b)
    steps = range(len(b) - 1, -1, -1) if reverse else range(len(b))
    for k, t in enumerate(steps):
        out[t] = b[t] if k == 0 else b[t] + a[t] * out[t + (1 if reverse else -1)]
    return np.ascontiguousarray(np.moveaxis(out, 0, dim))


linear_scan.native(cumulative.recurrence)


def shifted(x, dim, back, fill=0):
    """x moved by one along dim (towards the end, or back), with `fill` where nothing moves in."""
    n = x.shape[dim]
    edge = full((*x.shape[:dim], 1, *x.shape[dim + 1 :]), fill, x.dtype, x.device)
    parts = (slice_dim(x, dim, 1, 1, n - 1), edge) if back else (edge, slice_dim(x, dim, 0, 1, n - 1))
    return cat(parts, dim)


@linear_scan.grad("b")
def _(g, a, dim, reverse):
    return linear_scan(shifted(a, dim, not reverse), g, dim, not reverse)


@linear_scan.grad("a")
def _(g, a, out, dim, reverse):
    return mul(linear_scan(shifted(a, dim, not reverse), g, dim, not reverse), shifted(out, dim, reverse))


linear_scan.samples(lambda make: [(make(3, 4), make(3, 4), 1, False), (make(3, 4), make(3, 4), 0, True)])


@scan(combine="prod", promote="int_to_long")
def cumprod(s, x):
    return x


@cumprod.native
def _(x, dim):
    return cumulative.running("product", x, dim) if x.dtype.kind != "b" else NotImplemented


@cumprod.numpy
def _(x, dim):
    return accumulated(np.cumprod, x, dim)


@cumprod.grad("x")
def _(g, x, dim):
    """The product before an element times a recurrence over what comes after it: right at zeros too."""
    if x.shape[dim] == 0:
        return g
    before = shifted(cumprod(x, dim), dim, False, 1)
    return mul(before, linear_scan(shifted(x, dim, True), g, dim, True))


cumprod.samples(lambda make: [(make(3, 4), 0), (make(3, 4), 1), (make.ints(4, 2, 3), 1), (make(0, 3), 0)])

_VALUES = ("values", Out("indices", differentiable=False))


def _running_extreme(name, combine):
    def prologue(s, x):
        return x

    prologue.__name__ = name
    record = scan(prologue, combine=combine, outputs=_VALUES)

    record.native(lambda x, dim: cumulative.extreme(combine[3:], x, dim))

    @record.grad("x")
    def _(g, x: Meta, indices, dim):
        return scatter_add(full(tuple(x.shape), 0, g.dtype, g.device), dim, indices, g)

    record.samples(lambda make: [(make(3, 4), 0), (make(3, 4), 1), (make.ints(4, 5), 0)])
    return record


cummax, cummin = _running_extreme("cummax", "argmax"), _running_extreme("cummin", "argmin")


@scan(combine="logsumexp", promote="float")
def logcumsumexp(s, x):
    return x


@logcumsumexp.numpy
def _(x, dim):
    """Of complex numbers, one after the other."""
    if x.dtype.kind != "c":
        return NotImplemented
    out = x.copy()
    rows = np.moveaxis(out, dim, 0)
    with np.errstate(all="ignore"):
        for k in range(1, len(rows)):
            first = rows[k - 1].real >= rows[k].real
            low, high = np.where(first, rows[k], rows[k - 1]), np.where(first, rows[k - 1], rows[k])
            rows[k] = high + np.log1p(np.exp(low - high))
    return out


@logcumsumexp.grad("x")
def _(g, x, out, dim):
    """exp(x) times the reversed running sum of g * exp(-out); in logarithms, by the sign of g, so that nothing
    overflows (to be differentiated again, the plain form: logarithms of zeros have no gradient)."""
    if state.grad or x.dtype.is_complex:
        return mul(exp(x), flip(cumsum(flip(mul(g, exp(neg(out))), (dim,)), dim), (dim,)))

    def side(h):
        total = logcumsumexp(flip(sub(log(h), out), (dim,)), dim)
        return exp(add(flip(total, (dim,)), x))

    return sub(side(where(gt(g, 0), g, 0.0)), side(where(gt(g, 0), 0.0, neg(g))))


logcumsumexp.samples(lambda make: [(make(3, 4), 0), (make(3, 4), 1)])
