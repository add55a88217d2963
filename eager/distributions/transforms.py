"""Transforms: maps with inverses and log-determinants, for TransformedDistribution."""

import math
from typing import Any

from .. import api
from ..nn import functional as F
from . import constraints
from .utils import broadcast_all, sum_rightmost

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "Transform",
    "identity_transform",
]


class Transform:
    """A subclass gives `_call`, `_inverse`, `log_abs_det_jacobian`, domain and codomain. With cache_size=1 the last
    pair (x, y) is remembered."""

    bijective = False
    domain = codomain = constraints.real

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size, self._cached_x_y, self._opposite = cache_size, (None, None), None
        super().__init__()  # (a transform may be a module, too)

    @property
    def event_dim(self):
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self):
        if self._opposite is None:
            self._opposite = _InverseTransform(self)
        return self._opposite

    def _fl_no_sign(self):
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    sign: Any = property(_fl_no_sign)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x) -> Any:
        if self._cache_size and x is self._cached_x_y[0]:
            return self._cached_x_y[1]
        y = self._call(x)
        if self._cache_size:
            self._cached_x_y = x, y
        return y

    def _inv_call(self, y):
        if self._cache_size and y is self._cached_x_y[1]:
            return self._cached_x_y[0]
        x = self._inverse(y)
        if self._cache_size:
            self._cached_x_y = x, y
        return x

    def _call(self, x):
        raise NotImplementedError(f"{type(self).__name__} does not define _call()")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__} does not define _inverse()")

    def log_abs_det_jacobian(self, x, y):
        raise NotImplementedError(f"{type(self).__name__} does not define log_abs_det_jacobian()")

    def __repr__(self):
        return type(self).__name__ + "()"

    def forward_shape(self, shape):
        return shape

    def inverse_shape(self, shape):
        return shape


class _InverseTransform(Transform):
    def __init__(self, transform):
        super().__init__(transform._cache_size)
        self._opposite = transform

    domain = property(lambda self: self._opposite.codomain)
    codomain = property(lambda self: self._opposite.domain)
    bijective = property(lambda self: self._opposite.bijective)
    sign = property(lambda self: self._opposite.sign)
    inv = property(lambda self: self._opposite)

    def with_cache(self, cache_size=1):
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._opposite == other._opposite

    __hash__ = object.__hash__

    def __call__(self, x):
        return self._opposite._inv_call(x)

    def _inv_call(self, y):
        return self._opposite(y)

    def log_abs_det_jacobian(self, x, y):
        return -self._opposite.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._opposite.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._opposite.forward_shape(shape)

    def __repr__(self):
        return f"_InverseTransform({self._opposite!r})"


class ComposeTransform(Transform):
    """The parts one after the other."""

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @property
    def domain(self):
        if not self.parts:
            return constraints.real
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        first = self.parts[0].domain
        return constraints.independent(first, event_dim - first.event_dim) if event_dim > first.event_dim else first

    @property
    def codomain(self):
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        last = self.parts[-1].codomain
        return constraints.independent(last, event_dim - last.event_dim) if event_dim > last.event_dim else last

    bijective = property(lambda self: all(p.bijective for p in self.parts))

    @property
    def sign(self):
        sign = 1
        for p in self.parts:
            sign = sign * p.sign
        return sign

    @property
    def inv(self):
        if self._opposite is None:
            self._opposite = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._opposite._opposite = self
        return self._opposite

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y):
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return api.zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        event_dim, total = self.domain.event_dim, 0
        for part, a, b in zip(self.parts, points[:-1], points[1:]):
            total = total + sum_rightmost(part.log_abs_det_jacobian(a, b), event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self):
        return f"{type(self).__name__}(\n    " + ",\n    ".join(repr(p) for p in self.parts) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """The last dims as parts of one event: their log-determinants add up."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims

    domain = property(lambda self: constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims))
    codomain = property(lambda self: constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims))
    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    def with_cache(self, cache_size=1):
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    def _call(self, x):
        return self.base_transform(x)

    def _inverse(self, y):
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)


class ReshapeTransform(Transform):
    """The event dims in another shape. `in_shape`, `out_shape`: shapes of events with as many elements."""

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    domain = property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = property(lambda self: constraints.independent(constraints.real, len(self.out_shape)))

    def with_cache(self, cache_size=1):
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x):
        return x.reshape(tuple(x.shape[: x.dim() - len(self.in_shape)]) + self.out_shape)

    def _inverse(self, y):
        return y.reshape(tuple(y.shape[: y.dim() - len(self.out_shape)]) + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(tuple(x.shape[: x.dim() - len(self.in_shape)]))

    def forward_shape(self, shape):
        return shape[: len(shape) - len(self.in_shape)] + self.out_shape

    def inverse_shape(self, shape):
        return shape[: len(shape) - len(self.out_shape)] + self.in_shape


class _Increasing(Transform):
    bijective, sign = True, 1

    def __eq__(self, other):
        return type(other) is type(self)

    __hash__ = object.__hash__


class ExpTransform(_Increasing):
    """y = exp(x)."""

    codomain = constraints.positive

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class PowerTransform(Transform):
    """y = x ** exponent of positive x. `exponent`: a number or a tensor that broadcasts against x."""

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    sign = property(lambda self: self.exponent.sign())

    def with_cache(self, cache_size=1):
        return PowerTransform(self.exponent, cache_size)

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()


class SigmoidTransform(_Increasing):
    """y = 1 / (1 + exp(-x))."""

    codomain = constraints.unit_interval

    def _call(self, x):
        info = api.finfo(x.dtype)
        return api.sigmoid(x).clamp(min=info.tiny, max=1.0 - info.eps)

    def _inverse(self, y):
        info = api.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Increasing):
    """y = log(1 + exp(x)); y = x above 20."""

    codomain = constraints.positive

    def _call(self, x):
        return F.softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -F.softplus(-x)


class TanhTransform(_Increasing):
    """y = tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return api.atanh(y)

    def log_abs_det_jacobian(self, x, y):
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|; its inverse gives the positive one."""

    codomain = constraints.positive

    def __eq__(self, other):
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """loc + scale * x"""

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = property(lambda self: self._event_dim)

    @property
    def domain(self):
        return constraints.real if not self._event_dim else constraints.independent(constraints.real, self._event_dim)

    codomain = domain

    def with_cache(self, cache_size=1):
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size)

    @property
    def sign(self):
        if isinstance(self.scale, (int, float)):
            return 1 if self.scale > 0 else -1 if self.scale < 0 else 0
        return self.scale.sign()

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        if isinstance(self.scale, (int, float)):
            result = api.full_like(x, math.log(abs(self.scale)))
        else:
            result = api.abs(self.scale).log()
        if self._event_dim:
            result = api.broadcast_to(result, x.shape) if result.shape != x.shape else result
            return result.reshape(tuple(x.shape[: -self._event_dim]) + (-1,)).sum(-1)
        return result.expand(x.shape)


class SoftmaxTransform(Transform):
    """exp and normalise; its inverse is one of many."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x):
        return api.softmax(x, -1)

    def _inverse(self, y):
        return y.log()


class StickBreakingTransform(Transform):
    """From K - 1 real numbers to a point of the simplex, one break at a time."""

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, True

    def _fl_offset(self, n, like):
        return n + 1 - api.arange(1, n + 1, dtype=like.dtype)

    def _call(self, x):
        z = SigmoidTransform()._call(x - self._fl_offset(x.shape[-1], x).log())
        rest = (1 - z).cumprod(-1)
        return F.pad(z, [0, 1], value=1.0) * F.pad(rest, [1, 0], value=1.0)

    def _inverse(self, y):
        cut = y[..., :-1]
        left = (1 - cut.cumsum(-1)).clamp(min=api.finfo(y.dtype).tiny)
        return cut.log() - left.log() + self._fl_offset(cut.shape[-1], y).log()

    def log_abs_det_jacobian(self, x, y):
        x = x - self._fl_offset(x.shape[-1], x).log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape):
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(Transform):
    """Exponentials on the diagonal, nothing above it."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x):
        return api.tril(x, -1) + api.diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y):
        return api.tril(y, -1) + api.diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(Transform):
    """y = L @ L.mT of the triangular factor that LowerCholeskyTransform makes of x."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x):
        low = LowerCholeskyTransform()(x)
        return low @ low.mT

    def _inverse(self, y):
        from .. import linalg

        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """From real vectors to Cholesky factors of correlation matrices, by tanh of each entry and the rest of each row."""

    domain, codomain, bijective = constraints.real_vector, constraints.corr_cholesky, True

    def _call(self, x):
        x = api.tanh(x)
        eps = api.finfo(x.dtype).eps
        r = vec_to_tril(x.clamp(min=-1 + eps, max=1 - eps))
        rest = (1 - r**2).sqrt().cumprod(-1)
        r = r + api.eye(r.shape[-1], dtype=r.dtype)
        return r * F.pad(rest[..., :-1], [1, 0], value=1.0)

    def _inverse(self, y):
        rest = 1 - (y * y).cumsum(-1)
        shifted = F.pad(rest[..., :-1], [1, 0], value=1.0)
        t = tril_to_vec(y) / tril_to_vec(shifted).sqrt()
        return (t.log1p() - (-t).log1p()) / 2

    def log_abs_det_jacobian(self, x, y):
        rest = tril_to_vec(1 - (y * y).cumsum(-1), -2)
        stick = 0.5 * rest.log().sum(-1)
        return stick - 2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape):
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        return shape[:-1] + (n, n)

    def inverse_shape(self, shape):
        n = shape[-1]
        return shape[:-2] + (n * (n - 1) // 2,)


def vec_to_tril(vec, diag=-1):
    """A lower triangular matrix whose entries below the diagonal are the vector's, row by row."""
    n = round(((1 + 8 * vec.shape[-1]) ** 0.5 - 1) / 2) - diag
    out = vec.new_zeros(tuple(vec.shape[:-1]) + (n, n))
    rows, cols = api.tril_indices(n, n, diag)
    return out.index_put(_leading(out, rows, cols), vec) if out.dim() == 2 else _batched(out, rows, cols, vec)


def _leading(out, rows, cols):
    return (rows, cols)


def _batched(out, rows, cols, vec):
    n = out.shape[-1]
    return out.flatten(-2).index_copy(-1, rows * n + cols, vec).reshape(out.shape)


def tril_to_vec(mat, diag=-1):
    n = mat.shape[-1]
    rows, cols = api.tril_indices(n, n, diag)
    return mat.flatten(-2).index_select(-1, rows * n + cols)


class CatTransform(Transform):
    """Several transforms side by side along dim."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.lengths = list(lengths) if lengths is not None else [1] * len(self.transforms)

    bijective = property(lambda self: all(t.bijective for t in self.transforms))
    domain = property(lambda self: constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths))
    codomain = property(lambda self: constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths))

    def _fl_parts(self, x):
        return api.split(x, self.lengths, self.dim)

    def _call(self, x):
        return api.cat([t(part) for t, part in zip(self.transforms, self._fl_parts(x))], self.dim)

    def _inverse(self, y):
        return api.cat([t.inv(part) for t, part in zip(self.transforms, self._fl_parts(y))], self.dim)

    def log_abs_det_jacobian(self, x, y):
        parts = [t.log_abs_det_jacobian(a, b) for t, a, b in zip(self.transforms, self._fl_parts(x), self._fl_parts(y))]
        return api.cat(parts, self.dim)


class StackTransform(Transform):
    """One transform per position along dim."""

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms))
    domain = property(lambda self: constraints.stack([t.domain for t in self.transforms], self.dim))
    codomain = property(lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim))

    def _call(self, x):
        return api.stack([t(part) for t, part in zip(self.transforms, x.unbind(self.dim))], self.dim)

    def _inverse(self, y):
        return api.stack([t.inv(part) for t, part in zip(self.transforms, y.unbind(self.dim))], self.dim)

    def log_abs_det_jacobian(self, x, y):
        parts = zip(self.transforms, x.unbind(self.dim), y.unbind(self.dim))
        return api.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], self.dim)


class CumulativeDistributionTransform(Transform):
    """A distribution's cdf as a transform."""

    bijective, codomain, sign = True, constraints.unit_interval, 1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)
