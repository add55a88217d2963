"""Spectral normalisation by a forward pre-hook: weight = weight_orig / sigma, sigma being the largest singular value.

sigma = u . (W v) with unit vectors u and v that a power iteration improves in every training call; they are buffers.
"""

from ... import api
from ...autograd import no_grad
from .. import functional as F
from ..parameter import Parameter
from .weight_norm import remove_hook


def as_matrix(weight, dim):
    """The weight with `dim` first and all others flattened."""
    if dim != 0:
        weight = weight.permute(dim, *[d for d in range(weight.dim()) if d != dim])
    return weight.reshape(weight.size(0), -1)


def output_dim(module):
    """Transposed convolutions have their outputs in dim 1."""
    return 1 if type(module).__name__.startswith("ConvTranspose") else 0


def power_iteration(matrix, u, v, count, eps):
    """A better v, and from it a better u, written into the given tensors; without gradients."""
    with no_grad():
        for _ in range(count):
            v.copy_(F.normalize(api.mv(matrix.t(), u), dim=0, eps=eps))
            u.copy_(F.normalize(api.mv(matrix, v), dim=0, eps=eps))


class SpectralNorm:
    """The hook of one weight."""

    _version = 1

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.name, self.dim, self.n_power_iterations, self.eps = name, dim, n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight):
        return as_matrix(weight, self.dim)

    def compute_weight(self, module, do_power_iteration):
        weight, u, v = (getattr(module, self.name + end) for end in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            power_iteration(matrix, u, v, self.n_power_iterations, self.eps)
            u, v = u.clone(), v.clone()  # the buffers change again before a backward may come
        return weight / api.dot(u, api.mv(matrix, v))

    def remove(self, module):
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for end in ("_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module, name, n_power_iterations, dim, eps):
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        with no_grad():
            height, width = fn.reshape_weight_to_matrix(weight).size()
            u = F.normalize(weight.new_empty(height).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(width).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)  # some read it before the first call
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(fn)
        return fn


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides the weight `name` by its largest singular value before every call."""
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module, name="weight"):
    """The weight as it is now becomes a plain parameter."""
    return remove_hook(module, SpectralNorm, name, "spectral_norm")
