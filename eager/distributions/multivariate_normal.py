"""MultivariateNormal: by covariance, precision or its Cholesky factor; events are vectors."""

import math
from collections.abc import Callable

from .. import api, linalg
from ..sizes import Size
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import lazy_property


class NormalVectors(Distribution):
    """What follows from `_fl_squares` (trace of x^T precision x) and `_fl_half_log_det`."""

    loc: Tensor
    _fl_squares: Callable
    _fl_half_log_det: Callable

    def log_prob(self, value):
        self._fl_validate(value)
        m = self._fl_squares((value - self.loc).unsqueeze(-1))
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + m) - self._fl_half_log_det()

    def entropy(self):
        h = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._fl_half_log_det()
        return h.expand(self._batch_shape)


class MultivariateNormal(NormalVectors):
    """A normal vector. `loc`: (*batch, n); one of `covariance_matrix`, `precision_matrix` (its inverse) and `scale_tril` (its
    Cholesky factor): (*batch, n, n); the event shape is (n,)."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support, has_rsample = constraints.real_vector, True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: m for name, m in given.items() if m is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch = api.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        setattr(self, name, matrix.expand(batch + tuple(matrix.shape[-2:])))
        self.loc = loc.expand(batch + tuple(loc.shape[-1:]))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = self._fl_factor(name, matrix)

    @staticmethod
    def _fl_factor(name, matrix):
        if name == "precision_matrix":
            return linalg.cholesky(linalg.inv(matrix))
        return matrix if name == "scale_tril" else linalg.cholesky(matrix)

    def expand(self, batch_shape, _instance=None):
        shape = tuple(batch_shape) + tuple(self.event_shape)
        low = self._unbroadcasted_scale_tril.expand(shape + tuple(self.event_shape))
        made = MultivariateNormal(self.loc.expand(shape), scale_tril=low, validate_args=False)
        return self._fl_filled(MultivariateNormal, made, _instance)

    @lazy_property
    def scale_tril(self):
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self):
        return self.scale_tril @ self.scale_tril.mT

    @lazy_property
    def precision_matrix(self):
        return api.cholesky_inverse(self._unbroadcasted_scale_tril).expand(
            self._batch_shape + self._event_shape + self._event_shape
        )

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape))

    def rsample(self, sample_shape=Size()):
        eps = api.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def _fl_squares(self, x):
        """trace(x^T precision x)"""
        low = self._unbroadcasted_scale_tril
        batch = tuple(api.broadcast_shapes(tuple(low.shape[:-2]), tuple(x.shape[:-2])))
        return (
            linalg.solve_triangular(low.expand(batch + tuple(low.shape[-2:])), x.expand(batch + tuple(x.shape[-2:])), upper=False)
            .square()
            .sum((-2, -1))
        )

    def _fl_roots(self):
        """Matrices whose squares add up to the covariance."""
        return (self._unbroadcasted_scale_tril,)

    def _fl_half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
