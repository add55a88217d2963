"""Helpers over parameters and modules: clipping, vectors, normalised weights, parametrisations, sequences."""

from ...lazy_import import submodules as _submodules
from . import rnn
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .spectral_norm import remove_spectral_norm, spectral_norm  # at once: the function stands where its file would
from .weight_norm import remove_weight_norm, weight_norm  # this, too

_WHERE = {
    "convert_parameters": "parameters_to_vector vector_to_parameters",
    "fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
    "init": "skip_init",
    "memory_format": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format",
}
__getattr__ = _submodules(
    __name__,
    "parametrizations",
    "parametrize",
    "prune",
    "stateless",
    *_WHERE,
    **{name: module for module, names in _WHERE.items() for name in names.split()},
)
