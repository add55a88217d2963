"""Functions of torch.nn.functional that torch has at top level as well, with the arguments that they have there:
`train` in place of `training`, reductions as numbers (0 none, 1 mean, 2 sum)."""

import builtins
import math
import os

import numpy as np

from . import api, overrides
from .nn import functional as F
from .stft import istft, stft
from .memory_formats import strided
from .frontend import view_copy, factorisations, tensor_methods, aten_ops
from .frontend.arguments import device_of, dtype_of
from .frontend.creation import finished

_REDUCTIONS = ("none", "mean", "sum")


def _reduction(number):
    return number if isinstance(number, str) else _REDUCTIONS[number]


def dropout(input, p, train):
    return F.dropout(input, p, train)


def dropout_(input, p, train):
    return input.copy_(F.dropout(input, p, train))


def alpha_dropout(input, p, train):
    return F.alpha_dropout(input, p, train)


def feature_alpha_dropout(input, p, train):
    return F.feature_alpha_dropout(input, p, train)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    return F.rms_norm(input, normalized_shape, weight, eps)


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    padding = None if padding_idx == -1 else padding_idx
    return F.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def kl_div(input, target, reduction=1, *, log_target=False):
    return F.kl_div(input, target, reduction=_reduction(reduction), log_target=log_target)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    return F.cosine_similarity(x1, x2, dim, eps)


def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=1):
    return F.binary_cross_entropy_with_logits(input, target, weight, reduction=_reduction(reduction), pos_weight=pos_weight)


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def hinge_embedding_loss(input, target, margin=1.0, reduction=1):
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, reduction=1):
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_reduction(reduction))


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_reduction(reduction))


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction), zero_infinity)


def prelu(input, weight):
    return F.prelu(input, weight)


def selu(input):
    return F.selu(input)


def selu_(input):
    return F.selu_(input)


def celu(input, alpha=1.0):
    return F.celu(input, alpha)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    return F.rrelu(input, lower, upper, training)


def threshold(input, threshold, value):
    return F.threshold(input, threshold, value)


def split_with_sizes(input, split_sizes, dim=0):
    return api.split(input, list(split_sizes), dim)


unsafe_split_with_sizes = split_with_sizes


def unsafe_split(input, split_size, dim=0):
    return api.split(input, split_size, dim)


def unsafe_chunk(input, chunks, dim=0):
    return api.chunk(input, chunks, dim)


# -- arithmetic of sizes, which may be symbolic


def sym_int(a):
    return math.trunc(a) if isinstance(a, float) else a


def sym_float(a):
    return float(a)


def sym_max(a, b):
    return builtins.max(a, b)


def sym_min(a, b):
    return builtins.min(a, b)


def sym_not(a):
    return not a


def sym_ite(b, t, f):
    return t if b else f


def sym_sum(args):
    total = 0
    for n in args:
        total = total + n
    return total


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=False):
    """`size` elements of a file as a tensor: a copy, or with shared=True its memory, so that writes reach the file."""
    kind = dtype_of(dtype, api.get_default_dtype())
    if shared and (layout not in (None, strided) or pin_memory or device_of(device).type != "cpu"):
        raise RuntimeError("from_file(shared=True): a file's own memory is strided, not pinned and on the cpu")
    if shared:
        return api.from_numpy(
            np.memmap(filename, kind.numpy, "r+" if _long_enough(filename, size * kind.itemsize) else "w+", shape=(size,))
        )
    with open(filename, "rb") as file:
        data = file.read(size * kind.itemsize)
    if len(data) < size * kind.itemsize:
        raise RuntimeError(f"from_file: {filename} has fewer than {size} elements of {kind}")
    values = api.from_numpy(np.frombuffer(bytearray(data), kind.numpy))
    return finished(values.to(device_of(device)), False, None, pin_memory, layout)


def _long_enough(filename, count):
    return os.path.exists(filename) and os.path.getsize(filename) >= count


_FOUND = {**aten_ops.FUNCTIONS, **view_copy.FUNCTIONS, **factorisations.FUNCTIONS, "as_strided_": tensor_methods.as_strided_}
_METHODS = {
    **tensor_methods.METHODS,
    **factorisations.METHODS,
    "narrow_copy": view_copy.FUNCTIONS["narrow_copy"],
    "nonzero_static": aten_ops.nonzero_static,
    "prelu": prelu,
    "unsafe_split": unsafe_split,
    "unsafe_chunk": unsafe_chunk,
    "unsafe_split_with_sizes": split_with_sizes,
}
globals().update(_FOUND)
__all__ = [
    name
    for name, f in list(globals().items())
    if callable(f) and getattr(f, "__module__", "") == __name__ and not name.startswith("_")
] + [*_FOUND, "stft", "istft"]
_BOUND = set("lobpcg lu pca_lowrank stft svd_lowrank".split())  # as in `api.py`
_names = [name for name in __all__ if not name.startswith("sym_") and name != "from_file"]
overrides.publish(globals(), _names, bound=_BOUND)
overrides.publish_methods(_METHODS)
