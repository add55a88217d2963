"""nn.functional: activations, normalisation, losses, attention, embedding, padding, under PyTorch's names and
arguments."""

import warnings
import typing as _typing

from .. import api, dtypes, overrides
from . import _reduction as _Reduction  # noqa: F401 (by the name that packages use)
from ..dispatch import small as _small, type_name as _type_name
from ..ops import activations as act, distances as _distances, losses, normalization, products
from ..frontend.arguments import dim_of as _dim_of, settings as _settings
from ..op.op import OPS as _OPS, specialise as _specialise
from ..ops.checks import check_within as _check_within
from ..frontend.activations import (
    celu_ as celu_,
    elu_ as elu_,
    gumbel_softmax as gumbel_softmax,
    hardshrink as hardshrink,
    hardtanh_ as hardtanh_,
    leaky_relu_ as leaky_relu_,
    prelu as prelu,
    rrelu as rrelu,
    rrelu_ as rrelu_,
    selu_ as selu_,
    softshrink as softshrink,
    tanhshrink as tanhshrink,
    threshold_ as threshold_,
    threshold_settings as _threshold_settings,
)
from ..frontend.attention import (
    multi_head_attention_forward as multi_head_attention_forward,
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from ..frontend.channel_norm import batch_norm as batch_norm, group_norm as group_norm, instance_norm as instance_norm
from ..frontend.convolution import (
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
)
from ..frontend.distance import side_by_side as _side_by_side
from ..frontend.distance import (
    bilinear as bilinear,
    local_response_norm as local_response_norm,
    pairwise_distance as pairwise_distance,
    pdist as pdist,
)
from ..frontend.image_ops import (
    affine_grid as affine_grid,
    channel_shuffle as channel_shuffle,
    fold as fold,
    grid_sample as grid_sample,
    native_channel_shuffle as native_channel_shuffle,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
    unfold as unfold,
)
from ..frontend.dropout import (
    alpha_dropout as alpha_dropout,
    dropout1d as dropout1d,
    dropout2d as dropout2d,
    dropout3d as dropout3d,
    feature_alpha_dropout as feature_alpha_dropout,
)
from ..frontend.embedding import embedding as embedding, embedding_bag as embedding_bag
from ..frontend.losses import (
    in_type_of as _in_type_of,
    cosine_embedding_loss as cosine_embedding_loss,
    ctc_loss as ctc_loss,
    gaussian_nll_loss as gaussian_nll_loss,
    hinge_embedding_loss as hinge_embedding_loss,
    margin_ranking_loss as margin_ranking_loss,
    multi_margin_loss as multi_margin_loss,
    multilabel_margin_loss as multilabel_margin_loss,
    multilabel_soft_margin_loss as multilabel_soft_margin_loss,
    poisson_nll_loss as poisson_nll_loss,
    soft_margin_loss as soft_margin_loss,
    triplet_margin_loss as triplet_margin_loss,
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from ..frontend.padding import pad as pad
from ..frontend.shapes import one_hot as one_hot
from ..frontend.pooling import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    adaptive_avg_pool2d as adaptive_avg_pool2d,
    adaptive_avg_pool3d as adaptive_avg_pool3d,
    adaptive_max_pool1d as adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d as adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d as adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
    avg_pool3d as avg_pool3d,
    fractional_max_pool2d as fractional_max_pool2d,
    fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices,
    fractional_max_pool3d as fractional_max_pool3d,
    fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices,
    lp_pool1d as lp_pool1d,
    lp_pool2d as lp_pool2d,
    lp_pool3d as lp_pool3d,
    max_pool1d as max_pool1d,
    max_pool1d_with_indices as max_pool1d_with_indices,
    max_pool2d as max_pool2d,
    max_pool2d_with_indices as max_pool2d_with_indices,
    max_pool3d as max_pool3d,
    max_pool3d_with_indices as max_pool3d_with_indices,
    max_unpool1d as max_unpool1d,
    max_unpool2d as max_unpool2d,
    max_unpool3d as max_unpool3d,
)
from ..frontend.grouped import grouped_mm as grouped_mm
from ..frontend.resampling import (
    interpolate as interpolate,
    upsample as upsample,
    upsample_bilinear as upsample_bilinear,
    upsample_nearest as upsample_nearest,
)


def _maybe_inplace(record):
    """f(input, inplace=False)"""

    def function(input, inplace=False):
        return record.inplace(input) if inplace else record(input)

    function.__name__ = function.__qualname__ = record.name
    return function


def _written(input, result, inplace):
    return input.copy_(result) if inplace else result


# -- activations

if _typing.TYPE_CHECKING:  # the names of records that say "F.relu"

    def __getattr__(name: str) -> _typing.Any: ...


for _record in _OPS.values():
    globals().update((_name[2:], _maybe_inplace(_record)) for _name in _record.public.split() if _name.startswith("F."))


def relu_(input):
    return act.relu.inplace(input)


def gelu(input, *, approximate="none"):
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return act.gelu(input) if approximate == "none" else act.gelu_tanh(input)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    slope = _settings(input, negative_slope, halves=dtypes.float32)
    return (act.leaky_relu.inplace if inplace else act.leaky_relu)(input, *slope)


def elu(input, alpha=1.0, inplace=False):
    return (act.elu.inplace if inplace else act.elu)(input, *_settings(input, alpha, halves=dtypes.float32), 1.0, 1.0)


def selu(input, inplace=False):
    return (act.elu.inplace if inplace else act.elu)(input, 1.6732632423543772, 1.0507009873554805, 1.0)


def celu(input, alpha=1.0, inplace=False):
    (alpha,) = _settings(input, alpha, halves=dtypes.float32)
    return (act.elu.inplace if inplace else act.elu)(input, alpha, 1.0, 1.0 / alpha)


def mish(input, inplace=False):
    return input.copy_(act.mish(input.clone())) if inplace else act.mish(input)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    return (act.hardtanh.inplace if inplace else act.hardtanh)(input, *_settings(input, min_val, max_val))


def relu6(input, inplace=False):
    return hardtanh(input, 0.0, 6.0, inplace)


def threshold(input, threshold, value, inplace=False):
    return (act.threshold.inplace if inplace else act.threshold)(input, *_threshold_settings(input, threshold, value))


def softplus(input, beta=1.0, threshold=20.0):
    return act.softplus(input, *_settings(input, beta, threshold, halves=dtypes.float32))


def softsign(input):
    return act.softsign(input)


def logsigmoid(input):
    return act.log_sigmoid(input)


def tanh(input):
    return input.tanh()


def sigmoid(input):
    return input.sigmoid()


def _softmax_dim(input, dim):
    if dim is None:
        warnings.warn(
            "Implicit dimension choice for softmax has been deprecated. Change the call to include dim=X as an argument.",
            stacklevel=3,
        )
        return 0 if input.ndim in (0, 1, 3) else 1
    return dim


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    return api.softmax(input, _softmax_dim(input, dim), dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    return api.softmax(-input, _softmax_dim(input, dim), dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    return api.log_softmax(input, _softmax_dim(input, dim), dtype)


def glu(input, dim=-1):
    d = _dim_of(input, dim)
    if input.shape[d] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {d} is size {input.shape[d]}")
    return act.glu(input, d)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    return api.div(input, api.clamp(input.norm(p, dim, keepdim=True), eps), out=out)


# -- dropout


def dropout(input, p=0.5, training=True, inplace=False):
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    return _written(input, act.dropout(input, p)[0], inplace)


# -- linear maps and lookups


def linear(input, weight, bias=None):
    if weight is None or input is None:
        name, place = ("input", 1) if input is None else ("weight", 2)
        raise TypeError(f"linear(): argument '{name}' (position {place}) must be Tensor, not NoneType")
    return products.linear(input, weight, bias)


# -- normalisation


def _normalized(input, normalized_shape, named):
    if isinstance(normalized_shape, int):
        raise TypeError("layer_norm(): argument 'normalized_shape' (position 2) must be tuple of ints, not int")
    shape, own = tuple(normalized_shape), tuple(input.shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
            "but got normalized_shape = []"
        )
    count = len(shape)
    if count > len(own) or any(n is not m and n != m for n, m in zip(own[len(own) - count :], shape)):
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, "
            f"{', '.join(map(str, shape))}], but got input "
            f"of size{list(own)}"
        )
    for name, t in named.items():
        if t is not None and tuple(t.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(t.shape)} and "
                f"normalized_shape = {list(shape)}"
            )
    return count


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    count = _normalized(input, normalized_shape, {"weight": weight, "bias": bias})
    if input.dtype.category < 2:
        raise NotImplementedError(f"layer_norm: not implemented for {_type_name(input.dtype)!r}")
    return normalization.layer_norm(input, count, weight, bias, eps)[0]


def rms_norm(input, normalized_shape, weight=None, eps=None):
    count = _normalized(input, normalized_shape, {"weight": weight})
    if input.dtype.category < 2:
        raise RuntimeError(f'"rms_norm" not implemented for {_type_name(input.dtype)!r}')
    eps = dtypes.finfo(input.dtype.compute).eps if eps is None else eps  # (of the type that it computes in)
    return normalization.rms_norm(input, count, weight, eps)[0]


# -- losses


def _legacy_reduction(size_average, reduce, reduction):
    """The old pair of flags as one word."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def _check_reduction(reduction, allowed=("none", "mean", "sum")):
    if reduction not in allowed:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _pair(input, target, name):
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
            "This will likely lead to "
            f"incorrect results due to broadcasting. Please ensure they have the same size. ({name})",
            stacklevel=3,
        )
        return api.broadcast_tensors(input, target)
    return input, target


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    input, target = _pair(input, target, "mse_loss")
    reduction = _check_reduction(_legacy_reduction(size_average, reduce, reduction))
    if weight is not None:
        return _weighted(losses.mse_loss(input, target, "none"), weight, reduction)
    return losses.mse_loss(input, target, reduction)


def _weighted(loss, weight, reduction):
    """Losses times weights; the mean divides by the sum of the weights."""
    loss = loss * weight
    return loss.sum() / weight.expand_as(loss).sum() if reduction == "mean" else losses.reduced(loss, reduction)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    reduction = _check_reduction(_legacy_reduction(size_average, reduce, reduction))
    input, target = _pair(input, target, "l1_loss")
    if target.dtype is dtypes.bool:
        return input - target  # (refused, as there)
    if weight is not None:
        return _weighted(losses.l1_loss(input, target, "none"), weight, reduction)
    return losses.l1_loss(input, target, reduction)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    reduction = _check_reduction(_legacy_reduction(size_average, reduce, reduction))
    return losses.smooth_l1_loss(*_pair(input, target, "smooth_l1_loss"), reduction, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    input, target = _pair(input, target, "huber_loss")
    if weight is not None:
        loss = losses.huber_loss(input, target, "none", delta) * weight  # the mean is a plain one, unlike others'
        return losses.reduced(loss, _check_reduction(reduction))
    return _in_type_of(input, losses.huber_loss(input, target, _check_reduction(reduction), delta))


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    reduction = _legacy_reduction(size_average, reduce, reduction)
    if not (input.dtype.is_floating_point and target.dtype.is_floating_point):
        raise RuntimeError("kl_div: Integral inputs not supported.")
    return losses.kl_div(input, target, _check_reduction(reduction, ("none", "mean", "sum", "batchmean")), log_target)


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    reduction = _check_reduction(_legacy_reduction(size_average, reduce, reduction))
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) "
            "is deprecated. Please "
            "ensure they have the same size."
        )
    if target.dtype is not input.dtype:
        raise RuntimeError(
            f"Found dtype {_type_name(target.dtype)} but expected {_type_name(input.dtype)} (binary_cross_entropy: the target "
            "has another type than the input)"
        )
    for name, x in (("input", input), ("target", target)):
        _check_within(x, 0, 1, f"all elements of {name} should be between 0 and 1")
    return _in_type_of(input, losses.binary_cross_entropy(input, target, weight, reduction))


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    reduction = _check_reduction(_legacy_reduction(size_average, reduce, reduction))
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"result type {_type_name(input.dtype)} can't be cast to the desired output type {_type_name(target.dtype)} "
            "(binary_cross_entropy_with_logits: the target is to be floating: target.float())"
        )
    if pos_weight is not None and pos_weight.dtype is dtypes.bool:
        return pos_weight - 1  # (refused, as there)
    return _in_type_of(target, losses.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction))


def _classes_first(input, target, name):
    """(N, C, ...) and (N, ...): a single sample gets a batch of one."""
    if input.ndim == 0:
        raise ValueError(f"{name}: expected input of 1 or more dimensions, got a scalar")
    lone = input.ndim == 1
    if lone:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    if target.ndim != input.ndim - 1 or tuple(target.shape) != (input.shape[0], *input.shape[2:]):
        if input.shape[0] != target.shape[0]:
            raise ValueError(f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]}).")
        raise RuntimeError(f"Expected target size {[input.shape[0], *input.shape[2:]]}, got {list(target.shape)}")
    if target.dtype is not dtypes.int64:
        if target.dtype is not dtypes.uint8:
            raise RuntimeError(f"expected target dtype to be Long or Byte, but got {_type_name(target.dtype)} ({name})")
        target = target.long()
    return input, target, lone


def _class_loss(result, lone, reduction):
    return result.squeeze(0) if lone and reduction == "none" else result


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    reduction = _check_reduction(_legacy_reduction(size_average, reduce, reduction))
    x, t, lone = _classes_first(input, target, "nll_loss")
    if weight is not None:
        weight = _class_weights(weight, x)
    losses.check_targets(t, x.shape[1], ignore_index)
    return _class_loss(losses.nll_loss(x, t, weight, reduction, ignore_index)[0], lone, reduction)


def _class_weights(weight, x):
    """The weights as a row: over images and the like PyTorch asks for their number alone."""
    if x.ndim > 2:
        if weight.numel() != x.shape[1]:
            raise RuntimeError("weight tensor should be defined either for all or no classes")
        return weight.reshape(-1)
    _check_class_weights(weight, x, "")
    return weight


def _check_class_weights(weight, x, name):
    if tuple(weight.shape) == (x.shape[1],):
        return
    raise RuntimeError(
        f"{name}weight tensor should be defined either for all {x.shape[1]} classes or no classes but got weight "
        f"tensor of shape: {list(weight.shape)}"
    )


def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    """`target`: class indices (N, ...), or probabilities of input's shape."""
    reduction = _check_reduction(_legacy_reduction(size_average, reduce, reduction))
    if target.dtype.is_floating_point and target.ndim == input.ndim:
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    x, t, lone = _classes_first(input, target, "cross_entropy")
    if weight is not None:
        weight = _class_weights(weight, x)
    return _class_loss(losses.cross_entropy(x, t, weight, reduction, ignore_index, label_smoothing)[0], lone, reduction)


def _soft_cross_entropy(input, target, weight, reduction, label_smoothing):
    if input.shape != target.shape:
        raise RuntimeError(
            f"cross_entropy: expected input and probabilities of one shape, got {list(input.shape)} and {list(target.shape)}"
        )
    dim = 0 if input.ndim == 1 else 1
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / input.shape[dim]
    loss = api.log_softmax(input, dim) * target
    if weight is not None:
        _check_class_weights(weight, input if dim else input.unsqueeze(0), "cross_entropy: ")
        loss = loss * weight.reshape((1,) * dim + (-1,) + (1,) * (input.ndim - dim - 1))
    loss = -loss.sum(dim)
    if reduction == "mean":
        return loss.sum() / (input.numel() // input.shape[dim])
    return losses.reduced(loss, reduction)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    kind = api.result_type(x1, x2)
    if not kind.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {_type_name(kind)}")
    (eps,) = _settings(x1, eps, halves=dtypes.float32)
    if _side_by_side(x1, x2):
        return _distances.cosine_similarity(x1, x2, _dim_of(x1, dim), eps)
    return (_unit(x1, kind, dim, eps) * _unit(x2, kind, dim, eps)).sum(dim)


def _unit(x, kind, dim, eps):
    """Over its length, which counts as at least eps (but for the gradient)."""
    x = x if x.dtype.is_floating_point else x.to(kind)
    size = x.norm(2, dim, keepdim=True)
    known = size.detach()
    return x / api.where(known < eps, size - known + eps, size)


for _name in (
    "nll_loss",
    "cross_entropy",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "huber_loss",
    "smooth_l1_loss",
):
    globals()[_name] = _small(_name, globals()[_name], _specialise(getattr(losses, _name)))
cosine_similarity = _small("cosine_similarity", cosine_similarity, _specialise(_distances.cosine_similarity))
_OF_CPP = set(  # what PyTorch has in C++; the others bind as attributes of a class
    "adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc "
    "conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity elu_ gelu hardshrink hardtanh_ leaky_relu_ linear "
    "logsigmoid native_channel_shuffle one_hot pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ "
    "scaled_dot_product_attention selu_ softplus softshrink threshold_".split()
)
_names = [name for name, f in globals().items() if not name.startswith("_") and callable(f) and not isinstance(f, type)]
overrides.publish(globals(), _names, bound={*_names} - _OF_CPP)
