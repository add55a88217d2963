"""Wishart(df, matrix): positive definite matrices, as sums of `df` products x x^T of normal vectors would be.

Draws are made of a triangular matrix (Bartlett, 1933): roots of chi-squared numbers over normal ones.
"""

import math

from .. import api, linalg
from ..sizes import Size
from ..tensor import Tensor
from . import constraints
from .distribution import ExponentialFamily
from .utils import lazy_property


class Wishart(ExponentialFamily):
    """Covariance matrices of normal draws. `df` (larger than p - 1): of the batch shape; one of `covariance_matrix`,
    `precision_matrix` and `scale_tril`: (*batch, p, p); the event shape is (p, p)."""

    support, has_rsample = constraints.positive_definite, True

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: m for name, m in given.items() if m is not None}
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if isinstance(df, Tensor) else api.tensor(df, dtype=matrix.dtype)
        n = matrix.shape[-1]
        if bool((df <= n - 1).any()):
            raise ValueError(f"Value of df={df if df.dim() else df.item()} expected to be greater than ndim - 1 = {n - 1}.")
        batch = tuple(api.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(df.shape)))
        self.df = df.expand(batch)
        setattr(self, name, matrix.expand(batch + (n, n)))
        super().__init__(batch, (n, n), validate_args=validate_args)
        self._unbroadcasted_scale_tril = (
            matrix if name == "scale_tril" else linalg.cholesky(linalg.inv(matrix) if name == "precision_matrix" else matrix)
        )

    @property
    def arg_constraints(self):
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def expand(self, batch_shape, _instance=None):
        name = next(n for n in ("covariance_matrix", "precision_matrix", "scale_tril") if n in self.__dict__)
        shape = tuple(batch_shape)
        made = Wishart(
            self.df.expand(shape), **{name: self.__dict__[name].expand(shape + tuple(self._event_shape))}, validate_args=False
        )
        return self._fl_filled(Wishart, made, _instance)

    def _fl_whole(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        return self._fl_whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        return self._fl_whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self):
        return self._fl_whole(api.cholesky_inverse(self._unbroadcasted_scale_tril))

    mean = property(lambda self: self.df[..., None, None] * self.covariance_matrix)

    @property
    def mode(self):
        factor = self.df - self._event_shape[-1] - 1
        return api.where(factor > 0, factor, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self):
        v = self.covariance_matrix
        d = v.diagonal(dim1=-2, dim2=-1)
        return self.df[..., None, None] * (v.square() + d.unsqueeze(-1) * d.unsqueeze(-2))

    def rsample(self, sample_shape=Size(), max_try_correction=None):
        shape = self._extended_shape(sample_shape)
        n = self._event_shape[-1]
        low = self._unbroadcasted_scale_tril
        halves = (self.df.unsqueeze(-1) - api.arange(n, dtype=low.dtype)) / 2
        roots = (2 * api._standard_gamma(halves.expand(shape[:-1]))).sqrt()
        drawn = api.tril(api.randn(shape, dtype=low.dtype), -1) + api.diag_embed(roots)
        factor = low @ drawn
        return factor @ factor.mT

    def _fl_half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value):
        self._fl_validate(value)
        n, df = self._event_shape[-1], self.df
        trace = api.cholesky_solve(value, self._unbroadcasted_scale_tril.expand(value.shape)).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -df * (self._fl_half_log_det() + n * math.log(2) / 2)
            - api.mvlgamma(df / 2, n)
            + (df - n - 1) / 2 * linalg.slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self):
        n, df = self._event_shape[-1], self.df
        slopes = api.digamma((df.unsqueeze(-1) - api.arange(n, dtype=df.dtype)) / 2).sum(-1)
        return (
            (n + 1) * (self._fl_half_log_det() + n * math.log(2) / 2)
            + api.mvlgamma(df / 2, n)
            - (df - n - 1) / 2 * slopes
            + n * df / 2
        )
