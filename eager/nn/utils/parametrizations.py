"""Ready parametrisations: weight_norm, spectral_norm, orthogonal.

Originals, and so state_dict keys: weight_norm original0 (length), original1 (direction); the others `original`, with
buffers `0._u`, `0._v` (spectral) or `0.base` (orthogonal with trivialisation).
"""

import math

import numpy as np

from ... import api
from ...autograd import no_grad
from ...frontend.linalg import solve
from .. import functional as F
from ..modules.module import Module
from .parametrize import register_parametrization
from .spectral_norm import as_matrix, output_dim, power_iteration
from .weight_norm import _weight_norm as normed_weight, norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


# -- weight_norm


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return normed_weight(weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """weight = g * v / |v|, the norm over all dims but `dim` (None: over all)."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_OldKeys(name))
    return module


class _OldKeys:
    """name_g and name_v of the older weight_norm are loaded too."""

    def __init__(self, name):
        self.name = name

    def __call__(self, state_dict, prefix, *rest):
        old = [f"{prefix}{self.name}_{end}" for end in "gv"]
        if all(key in state_dict for key in old):
            for k, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{self.name}.original{k}"] = state_dict.pop(key)


# -- spectral_norm


class _SpectralNorm(Module):
    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if dim >= weight.dim() or dim < -weight.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.dim()}, {weight.dim() - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim = dim % weight.dim()
        self.n_power_iterations, self.eps = n_power_iterations, eps
        if weight.dim() > 1:
            with no_grad():
                matrix = as_matrix(weight, self.dim)
                u = F.normalize(matrix.new_empty(matrix.size(0)).normal_(0, 1), dim=0, eps=eps)
                v = F.normalize(matrix.new_empty(matrix.size(1)).normal_(0, 1), dim=0, eps=eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)
            power_iteration(matrix.t(), self._v, self._u, 15, eps)  # u first

    def forward(self, weight):
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            power_iteration(matrix.t(), self._v, self._u, self.n_power_iterations, self.eps)
        u, v = self._u.clone(), self._v.clone()  # the buffers may change again before a backward
        return weight / api.dot(u, api.mv(matrix, v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """weight / (its largest singular value), by power iteration in training mode."""
    weight = getattr(module, name, None)
    if not isinstance(weight, api.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    dim = output_dim(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


# -- orthogonal


def _t(x):
    return x.transpose(-2, -1)


def _eye(n, like):
    return api.eye(n, dtype=like.dtype, device=like.device)


def matrix_exp(a):
    """exp of square matrices: scaled to a norm below one half, a Taylor series, squared back."""
    norm = float(a.detach().abs().sum(-2).max()) if a.numel() else 0.0
    times = max(0, math.ceil(math.log2(norm)) + 1) if norm > 0 else 0
    x, out = a / 2**times, _eye(a.size(-1), a).expand(a.shape)
    term = out
    for k in range(1, 19 if a.dtype is api.float64 else 11):
        term = term @ x / k
        out = out + term
    for _ in range(times):
        out = out @ out
    return out


def householder_product(a, tau):
    """The first columns of (1 - tau_0 v_0 v_0^T)(1 - tau_1 v_1 v_1^T)..., with v_k column k of `a` below its 1."""
    rows, columns = a.size(-2), a.size(-1)
    v = a.tril(-1) + api.eye(rows, columns, dtype=a.dtype, device=a.device)
    out = api.eye(rows, columns, dtype=a.dtype, device=a.device).expand(*a.shape[:-2], rows, columns)
    for k in reversed(range(tau.size(-1))):
        column = v[..., k : k + 1]
        out = out - tau[..., k : k + 1, None] * (column @ (_t(column) @ out))
    return out


def _geqrf(weight):
    """LAPACK's compact QR: Householder vectors below the diagonal, and tau."""
    with no_grad():
        matrices = weight.detach().cpu().numpy()
        found = [np.linalg.qr(m, mode="raw") for m in matrices.reshape(-1, *matrices.shape[-2:])]
        a = np.stack([h.T for h, _ in found]).reshape(matrices.shape)
        tau = np.stack([t for _, t in found]).reshape(*matrices.shape[:-2], -1)
        return api.tensor(a, dtype=weight.dtype), api.tensor(tau, dtype=weight.dtype)


class _Orthogonal(Module):
    """Square (or tall) matrices with orthonormal columns, from any matrix: by the exponential or Cayley transform of
    its skew-symmetric part, or by Householder reflections."""

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        wide = X.size(-2) < X.size(-1)
        X = _t(X) if wide else X
        n, k = X.size(-2), X.size(-1)
        if self.orthogonal_map == "householder":
            # tau makes each reflection exact: 2 / (1 + |rest of v|^2)
            a = X.tril(-1)
            Q = householder_product(a, 2.0 / (1.0 + (a * a).sum(-2)))
            Q = Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            Q = self._of_skew(X, n, k)
        if hasattr(self, "base") and self.base is not None:
            Q = self.base @ Q
        return _t(Q) if wide else Q

    def _of_skew(self, X, n, k):
        a = X.tril()
        if n != k:
            a = api.cat([a, a.new_zeros(n, n - k).expand(*a.shape[:-2], -1, -1)], dim=-1)
        a = a - _t(a)
        if self.orthogonal_map == "matrix_exp":
            Q = matrix_exp(a)
        else:
            identity = _eye(n, a)
            Q = solve(api.add(identity, a, alpha=-0.5), api.add(identity, a, alpha=0.5))
        return Q[..., :k] if n != k else Q

    def right_inverse(self, Q):
        with no_grad():
            return self._inverse(Q)

    def _inverse(self, Q):
        if Q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}.")
        wide = Q.size(-2) < Q.size(-1)
        Q = _t(Q) if wide else Q
        n, k = Q.size(-2), Q.size(-1)
        if not hasattr(self, "base"):
            if self.orthogonal_map in ("cayley", "matrix_exp"):
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            a, tau = _geqrf(Q)
            signs = a.diagonal(dim1=-2, dim2=-1).sign()
            signs[tau == 0.0] *= -1
            a.diagonal(dim1=-2, dim2=-1).copy_(signs)
            return _t(a) if wide else a
        if n == k:
            Q = _orthonormal(Q)
        else:
            Q = _orthonormal(api.cat([Q, api.randn(*Q.shape[:-1], n - k, dtype=Q.dtype, device=Q.device)], -1))
        self.base = Q
        negative = api.zeros_like(Q)
        if self.orthogonal_map == "householder":
            negative.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        negative = negative[..., :k]
        return _t(negative) if wide else negative


def _orthonormal(x):
    """Q of a QR decomposition with R's diagonal positive."""
    a, tau = _geqrf(x)
    signs = a.diagonal(dim1=-2, dim2=-1).sign()
    return householder_product(a, tau) * signs.unsqueeze(-2)


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """The matrix `name` stays orthogonal (its shorter side orthonormal). Maps: matrix_exp, cayley, householder."""
    weight = getattr(module, name, None)
    if not isinstance(weight, api.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    return register_parametrization(
        module, name, _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization), unsafe=True
    )
