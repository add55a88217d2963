"""LowRankMultivariateNormal: covariance W W^T + diag(D), for W with few columns; only small matrices are factorised (the
identities of Woodbury and of the determinant)."""

from .. import api, linalg
from ..sizes import Size
from . import constraints
from .multivariate_normal import NormalVectors
from .utils import lazy_property


class LowRankMultivariateNormal(NormalVectors):
    """A normal vector with the covariance `cov_factor @ cov_factor.mT + diag(cov_diag)`. `loc`: (*batch, n); `cov_factor`:
    (*batch, n, r); `cov_diag`: (*batch, n), positive; the event shape is (n,)."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support, has_rsample = constraints.real_vector, True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        batch = tuple(api.broadcast_shapes(tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])))
        self.loc, self.cov_diag = loc.expand(batch + tuple(event)), cov_diag.expand(batch + tuple(event))
        self.cov_factor = cov_factor.expand(batch + tuple(cov_factor.shape[-2:]))
        super().__init__(batch, event, validate_args=validate_args)

    @lazy_property
    def _fl_capacitance_tril(self):
        """The Cholesky factor of 1 + W^T D^-1 W."""
        small = self.cov_factor.mT @ (self.cov_factor / self.cov_diag.unsqueeze(-1))
        return linalg.cholesky(small + api.eye(small.shape[-1], dtype=small.dtype))

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: self.cov_factor.square().sum(-1) + self.cov_diag)

    @lazy_property
    def covariance_matrix(self):
        return self.cov_factor @ self.cov_factor.mT + api.diag_embed(self.cov_diag)

    @lazy_property
    def scale_tril(self):
        return linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self):
        a = self._fl_reduced(api.diag_embed(api.ones_like(self.cov_diag)))
        return api.diag_embed(self.cov_diag.reciprocal()) - a.mT @ a

    def _fl_reduced(self, x):
        """A x, of A^T A = D^-1 - (the precision matrix)."""
        right = self.cov_factor.mT @ (x / self.cov_diag.unsqueeze(-1))
        low = self._fl_capacitance_tril
        batch = tuple(api.broadcast_shapes(tuple(low.shape[:-2]), tuple(right.shape[:-2])))
        return linalg.solve_triangular(
            low.expand(batch + tuple(low.shape[-2:])), right.expand(batch + tuple(right.shape[-2:])), upper=False
        )

    def _fl_squares(self, x):
        """trace(x^T precision x)"""
        return (x.square() / self.cov_diag.unsqueeze(-1)).sum((-2, -1)) - self._fl_reduced(x).square().sum((-2, -1))

    def _fl_half_log_det(self):
        return self._fl_capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + 0.5 * self.cov_diag.log().sum(-1)

    def _fl_roots(self):
        """Matrices whose squares add up to the covariance."""
        return self.cov_factor, api.diag_embed(self.cov_diag.sqrt())

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        few = api.randn((*shape[:-1], self.cov_factor.shape[-1]), dtype=self.loc.dtype)
        own = api.randn(shape, dtype=self.loc.dtype)
        return self.loc + (self.cov_factor @ few.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * own
